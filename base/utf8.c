/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

size_t utf8_len(const unsigned char *s, size_t left)
{
	size_t i, n = s[0] < 0x80 ? 1 :
		      s[0] < 0xc2 ? 0 :
		      s[0] < 0xe0 ? 2 :
		      s[0] < 0xf0 ? 3 :
		      s[0] < 0xf5 ? 4 : 0;

	if (n > left)
		return 0;
	for (i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* too long a form, a surrogate, beyond U+10FFFF */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}
