/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the page (manager/ui), each as gzip made it; the compiler looks for them where -I says */
#define UI_FILE(symbol, name, type) \
	.global ui_##symbol##_start ; \
	.global ui_##symbol##_end ; \
	ui_##symbol##_start: ; \
	.incbin name ; \
	ui_##symbol##_end: ;
	.section .rodata
#include "manager/ui/files.def"
	.section .note.GNU-stack, "", %progbits
