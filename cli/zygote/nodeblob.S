/* SPDX-License-Identifier: Apache-2.0 */
/* What a zygote's node runs, carried in berth: a text, and the library that it loads. */
	.section .rodata
	.global zygote_node_agent
	.global zygote_node_addon_start
	.global zygote_node_addon_end
zygote_node_agent:
	.incbin AGENT_PATH
	.byte 0
	.balign 16
zygote_node_addon_start:
	.incbin ADDON_PATH
zygote_node_addon_end:
	.section .note.GNU-stack, "", %progbits
