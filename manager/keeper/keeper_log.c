/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/keeper_log.h"

size_t keeper_log_bytes(char *p, size_t n)
{
	size_t i, len = 0;

	for (i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)p[i];

		if (c >= 0xc2 && c <= 0xc4 && i + 1 < n)
			p[len++] = (char)((c & 3) << 6 | (p[++i] & 0x3f));	/* U+0100: 0 */
		else
			p[len++] = p[i];
	}
	return len;
}
