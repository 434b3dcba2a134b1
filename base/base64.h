/* SPDX-License-Identifier: Apache-2.0 */
/* base64 - bytes in the alphabet of RFC 4648 section 4, with padding and without line breaks, and back. */
#ifndef BERTH_BASE_BASE64_H
#define BERTH_BASE_BASE64_H

#include <stddef.h>

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

#endif
