/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf - bytes that grow up to a ceiling set at birth.
 *
 * data is always NUL-terminated once anything was added (the NUL is not
 * counted in len).  The owner calls buf_release().
 */
#ifndef BERTH_BASE_BUF_H
#define BERTH_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/err.h"

struct buf {
	char *data;
	size_t len;	/* bytes */
	size_t cap;	/* bytes allocated */
	size_t max;	/* bytes; an append past it fails with ERR_LIMIT */
};

#define BUF_INIT(ceiling) ((struct buf){ .max = (ceiling) })

int buf_add(struct buf *b, const void *p, size_t n, struct err *e);
int buf_adds(struct buf *b, const char *s, struct err *e);
int buf_addf(struct buf *b, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Makes room for n more bytes after len. */
int buf_reserve(struct buf *b, size_t n, struct err *e);
void buf_release(struct buf *b);
#define autobuf __attribute__((cleanup(buf_release)))

#endif
