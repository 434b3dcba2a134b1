/* SPDX-License-Identifier: Apache-2.0 */
/* schemas.json, carried in berthd */
	.section .rodata
	.global schemas_start
	.global schemas_end
schemas_start:
	.incbin SCHEMAS_PATH
schemas_end:
	.section .note.GNU-stack, "", %progbits
