/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hex - bytes as hexadecimal digits, and back.
 */
#ifndef BERTH_BASE_HEX_H
#define BERTH_BASE_HEX_H

#include <stddef.h>

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

#endif
