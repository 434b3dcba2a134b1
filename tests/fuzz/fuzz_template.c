/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates of --format: text, a NUL, then the document (JSON; a fixed one when that is none).
 *
 * Whatever it is, it is refused with a message or run within its bounds, twice with the same result.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUT 4096

static json_t *document(const char *text, size_t n)
{
	struct err e = { 0 };
	json_t *j = json_parse(text, n, 65536, "fuzz", &e);

	return j ? j : json_pack("{s:s,s:[s,i],s:{s:n,s:b}}", "a", "text", "b", "x", 7, "c", "d", "e", 1);
}

static int run(const struct template *t, const json_t *dot, struct buf *b, struct err *e)
{
	int r = template_run(t, dot, b, e);

	if (b->len > OUTPUT || (r < 0 && (!e->code || !e->msg[0])))
		abort();
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *text = malloc(size + 1);
	autobuf struct buf once = BUF_INIT(OUTPUT), again = BUF_INIT(OUTPUT);
	autojson json_t *dot = NULL;
	struct err e = { 0 }, f = { 0 };
	struct template *t;
	size_t n;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	n = strlen(text);
	dot = document(n < size ? text + n + 1 : "", n < size ? size - n - 1 : 0);
	t = template_parse(text, &e);
	if (!t && (!e.code || strncmp(e.msg, "template:", 9)))
		abort();
	if (t && dot && (run(t, dot, &once, &e) != run(t, dot, &again, &f) || once.len != again.len ||
			 (once.len && memcmp(once.data, again.data, once.len))))
		abort();
	template_free(t);
	return 0;
}
