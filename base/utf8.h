/* SPDX-License-Identifier: Apache-2.0 */
/* utf8 - which bytes are a character (RFC 3629). */
#ifndef BERTH_BASE_UTF8_H
#define BERTH_BASE_UTF8_H

#include <stddef.h>

#include "base/buf.h"

/* Length of the valid UTF-8 sequence at s, of which left bytes (at least 1) may be read; or 0. */
size_t utf8_len(const unsigned char *s, size_t left);

/* Adds n bytes as text: a NUL, and each byte that is not part of a character, becomes U+FFFD. */
int utf8_add(struct buf *text, const char *p, size_t n, struct err *e);

#endif
