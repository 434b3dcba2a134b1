/* SPDX-License-Identifier: Apache-2.0 */
/* tools.json, carried in berth-mcp */
	.section .rodata
	.global mcp_tools_start
	.global mcp_tools_end
mcp_tools_start:
	.incbin TOOLS_PATH
mcp_tools_end:
	.section .note.GNU-stack, "", %progbits
