/* SPDX-License-Identifier: Apache-2.0 */
/* The text that a zygote's interpreter runs, carried in berth */
	.section .rodata
	.global zygote_agent_start
	.global zygote_agent_end
zygote_agent_start:
	.incbin AGENT_PATH
	.byte 0
zygote_agent_end:
	.section .note.GNU-stack, "", %progbits
