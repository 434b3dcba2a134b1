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
out:
	free(type);
	buf_release(&form);
	return 0;
}
