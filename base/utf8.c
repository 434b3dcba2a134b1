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
	/* an overlong form, a surrogate, or beyond U+10FFFF */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

int utf8_add(struct buf *text, const char *p, size_t n, struct err *e)
{
	size_t good = 0, len;

	while (good < n) {
		len = p[good] ? utf8_len((const unsigned char *)p + good, n - good) : 0;
		if (len) {
			good += len;
			continue;
		}
		if (buf_add(text, p, good, e) < 0 || buf_adds(text, "\xef\xbf\xbd", e) < 0)
			return -1;
		p += good + 1;
		n -= good + 1;
		good = 0;
	}
	return buf_add(text, p, good, e);
}
