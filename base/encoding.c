/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/encoding.h"

/* ---- base64 ---- */

void base64_encode(char *ret, const void *bytes, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = bytes;

	for (; n; n -= n < 3 ? n : 3, p += 3) {
		uint32_t v = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);

		*ret++ = digits[v >> 18];
		*ret++ = digits[v >> 12 & 63];
		*ret++ = n > 1 ? digits[v >> 6 & 63] : '=';
		*ret++ = n > 2 ? digits[v & 63] : '=';
	}
	*ret = '\0';
}

static int base64_digit(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 :
	       c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(void *ret, size_t *ret_n, const char *text, size_t n)
{
	unsigned char *out = ret;
	size_t pad = 0, i, k;

	if (n % 4)
		return -1;
	while (pad < 2 && pad < n && text[n - 1 - pad] == '=')
		pad++;
	for (i = 0; i < n; i += 4) {
		size_t have = i + 4 == n ? 4 - pad : 4;
		uint32_t v = 0;

		for (k = 0; k < 4; k++) {
			int d = k < have ? base64_digit(text[i + k]) : 0;

			if (d < 0)
				return -1;
			v = v << 6 | (uint32_t)d;
		}
		if (have < 4 && v & (have == 3 ? 0xff : 0xffff))
			return -1;
		*out++ = (unsigned char)(v >> 16);
		if (have > 2)
			*out++ = (unsigned char)(v >> 8);
		if (have > 3)
			*out++ = (unsigned char)v;
	}
	*ret_n = (size_t)(out - (unsigned char *)ret);
	return 0;
}

/* ---- UTF-8 ---- */

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
