/* SPDX-License-Identifier: Apache-2.0 */
/* e2bkernel.py and e2bkernel.js as strings. */
	.section .rodata
	.globl e2bkernel_py
e2bkernel_py:
	.incbin KERNEL_PY
	.byte 0
	.globl e2bkernel_js
e2bkernel_js:
	.incbin KERNEL_JS
	.byte 0
	.section .note.GNU-stack,"",@progbits
