/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.py, as a string. */
	.section .rodata
	.globl kernel_py
kernel_py:
	.incbin KERNEL_PATH
	.byte 0
	.section .note.GNU-stack,"",@progbits
