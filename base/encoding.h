/* SPDX-License-Identifier: Apache-2.0 */
/* encoding - bytes as text: base64, hexadecimal digits, and which bytes are a character of UTF-8. */
#ifndef BERTH_BASE_ENCODING_H
#define BERTH_BASE_ENCODING_H

#include <stddef.h>

#include "base/buf.h"

/* ---- base64 ---- */

/* base64 - bytes in the alphabet of RFC 4648 section 4, with padding and without line breaks, and back. */

/* Size of the text for n bytes, without its NUL. */
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)

/* Writes the text of n bytes and a NUL to ret, which has room for BASE64_LEN(n) + 1. */
void base64_encode(char *ret, const void *bytes, size_t n);
/*
 * Writes the bytes of n characters to ret, which has room for n / 4 * 3; *ret_n gets their
 * number. -1 unless the text has the one form that base64_encode() writes: another alphabet,
 * blanks, missing padding and bits after the end are refused.
 */
int base64_decode(void *ret, size_t *ret_n, const char *text, size_t n);

/* ---- hexadecimal digits ---- */

/*
 * hex - bytes as hexadecimal digits, and back.
 */

/* The value of a digit, of either case; -1 for any other character. */
static inline int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte written as the two digits at s, or -1. Nothing after a NUL is read. */
static inline int hex_byte(const char *s)
{
	int high = hex_digit(s[0]), low = high < 0 ? -1 : hex_digit(s[1]);

	return low < 0 ? -1 : high << 4 | low;
}

/* n bytes as 2 n digits, lower case, and a NUL. */
static inline void hex_format(char *ret, const void *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = bytes;

	while (n--) {
		*ret++ = digits[*p >> 4];
		*ret++ = digits[*p++ & 15];
	}
	*ret = '\0';
}

/* ---- UTF-8 ---- */

/* utf8 - which bytes are a character (RFC 3629). */

/* Length of the valid UTF-8 sequence at s, of which left bytes (at least 1) may be read; or 0. */
size_t utf8_len(const unsigned char *s, size_t left);

/* Adds n bytes as text: a NUL, and each byte that is not part of a character, becomes U+FFFD. */
int utf8_add(struct buf *text, const char *p, size_t n, struct err *e);

#endif
