/* SPDX-License-Identifier: Apache-2.0 */
/* The init program, carried inside berth; launch.c copies it to a sealed memfd. */
	.section .rodata
	.global initblob_start
	.global initblob_end
	.balign 16
initblob_start:
	.incbin INIT_PATH
initblob_end:
	.section .note.GNU-stack,"",@progbits
