/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.py and mcphttp.py, each as a string. */
	.section .rodata
	.globl kernel_py
kernel_py:
	.incbin KERNEL_PATH
	.byte 0
	.globl mcphttp_py
mcphttp_py:
	.incbin MCPHTTP_PATH
	.byte 0
	.section .note.GNU-stack,"",@progbits
