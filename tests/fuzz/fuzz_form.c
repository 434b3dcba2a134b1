/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A form of files: the first line is the field Content-Type, the rest is the body.  Each part is
 * within the body, in order, and its names are strings.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manager/api/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int each(void *ctx, const struct form_part *p, struct err *e)
{
	const char **at = ctx;

	(void)e;
	if (p->data < at[0] || p->data > at[1] || p->n > (size_t)(at[1] - p->data))
		abort();
	if (!memchr(p->name, '\0', sizeof(p->name)) ||
	    !memchr(p->filename, '\0', sizeof(p->filename)))
		abort();
	at[0] = p->data + p->n;
	return 0;
}

/* The bytes of the parts, whichever reader gives them: their number and a sum. */
struct sum {
	size_t n, parts;
	unsigned long bytes;
};

static int sum_data(void *ctx, const char *p, size_t n, struct err *e)
{
	struct sum *s = ctx;

	(void)e;
	for (; n--; s->n++)
		s->bytes = s->bytes * 31 + (unsigned char)*p++;
	return 0;
}

static int sum_begin(void *ctx, const struct form_part *p, struct err *e)
{
	((struct sum *)ctx)->parts++;
	return sum_data(ctx, p->name, strlen(p->name), e);
}

static int sum_end(void *ctx, struct err *e)
{
	(void)ctx;
	(void)e;
	return 0;
}

static int sum_whole(void *ctx, const struct form_part *p, struct err *e)
{
	return sum_begin(ctx, p, e) < 0 ? -1 : sum_data(ctx, p->data, p->n, e);
}

/* In pieces, whose size the input chooses, a form is what it is as a whole. */
static void compare(const struct buf *form, const char *boundary)
{
	struct sum whole = { 0 }, stream = { 0 };
	struct formstream f = { .begin = sum_begin, .data = sum_data, .end = sum_end, .ctx = &stream };
	const size_t piece = form->len % 97 + 1;
	struct err e = { 0 };
	size_t at, n;
	int r = 0;

	formstream_init(&f, boundary);
	for (at = 0; r == 0 && at < form->len; at += n) {
		n = form->len - at < piece ? form->len - at : piece;
		r = formstream_feed(&f, form->data + at, n, &e);
	}
	if (r == 0)
		r = formstream_end(&f, &e);
	if (r < 0 && !e.msg[0])
		abort();
	if (form_each(form, boundary, sum_whole, &whole, &e) == 0 && r == 0 && memcmp(&whole, &stream, sizeof(whole)))
		abort();
	formstream_release(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = memchr(data, '\n', size);
	struct buf form = BUF_INIT(1u << 20);
	struct err e = { 0 };
	char boundary[80], *type;
	const char *at[2];
	size_t n = nl ? (size_t)(nl - data) : size;

	type = strndup((const char *)data, n);
	if (!type || !nl || form_boundary(type, boundary, &e) < 0 || size - n - 1 > 1u << 19 ||
	    buf_add(&form, nl + 1, size - n - 1, &e) < 0)
		goto out;
	at[0] = form.data;
	at[1] = form.data + form.len;
	if (form_each(&form, boundary, each, at, &e) < 0 && !e.msg[0])
		abort();
	compare(&form, boundary);
out:
	free(type);
	buf_release(&form);
	return 0;
}
