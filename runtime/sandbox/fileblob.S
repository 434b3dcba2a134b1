/* SPDX-License-Identifier: Apache-2.0 */
/* The file helper, carried inside berth; the keeper runs it in sandboxes from a sealed memfd. */
	.section .rodata
	.global fileblob_start
	.global fileblob_end
	.balign 16
fileblob_start:
	.incbin FILEOP_PATH
fileblob_end:
	.section .note.GNU-stack,"",@progbits
