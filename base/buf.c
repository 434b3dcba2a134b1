/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int buf_reserve(struct buf *b, size_t n, struct err *e)
{
	size_t need, cap;
	char *p;

	if (n > b->max || b->len > b->max - n)
		return err_set(e, ERR_LIMIT, "more than %zu bytes", b->max);
	need = b->len + n + 1;
	if (need <= b->cap)
		return 0;
	cap = b->cap ? b->cap : 256;
	while (cap < need)
		cap = cap > b->max ? need : cap * 2;
	p = realloc(b->data, cap);
	if (!p)
		return err_nomem(e);
	b->data = p;
	b->cap = cap;
	b->data[b->len] = '\0';
	return 0;
}

int buf_add(struct buf *b, const void *p, size_t n, struct err *e)
{
	if (buf_reserve(b, n, e) < 0)
		return -1;
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
	return 0;
}

int buf_adds(struct buf *b, const char *s, struct err *e)
{
	return buf_add(b, s, strlen(s), e);
}

int buf_addf(struct buf *b, struct err *e, const char *fmt, ...)
{
	char small[256], *big = NULL;
	va_list ap;
	int n, r;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		return err_set(e, ERR_INTERNAL, "format failed");
	if ((size_t)n < sizeof(small))
		return buf_add(b, small, (size_t)n, e);
	va_start(ap, fmt);
	n = vasprintf(&big, fmt, ap);
	va_end(ap);
	if (n < 0)
		return err_nomem(e);
	r = buf_add(b, big, (size_t)n, e);
	free(big);
	return r;
}

void buf_release(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}
