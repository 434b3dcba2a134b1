/* SPDX-License-Identifier: Apache-2.0 */
/* e2bkernel.py as a string. */
	.section .rodata
	.globl e2bkernel_py
e2bkernel_py:
	.incbin KERNEL_PATH
	.byte 0
	.section .note.GNU-stack,"",@progbits
