/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heads of previews, first byte the kind: a request of a client, or the answer of a server to one.  What is written
 * anew is one head that reads the same way again, has none of our fields twice, and no token of ours.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/preview/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct previewhead_from fuzz_from = { "192.0.2.1", 1 };

static int is_one_head(const struct buf *out)
{
	return out->len >= 4 && httphead_end(out->data, out->len) == out->len && !memchr(out->data, '\0', out->len);
}

static void fuzz_request(const char *p, size_t n)
{
	autobuf struct buf out = BUF_INIT(65536), twice = BUF_INIT(65536);
	struct previewhead r, again;
	struct err e;
	long body;

	if (previewhead_request(p, n, &fuzz_from, &r, &out, &e) != 1)
		return;
	if (!is_one_head(&out) || r.head_len > n || r.target_at + r.target_len > out.len || !r.host[0])
		abort();
	/* the server is to find the same host and the same body */
	if (out.len <= HTTPREQ_HEAD_MAX && previewhead_request(out.data, out.len, &fuzz_from, &again, &twice, &e) == 1 &&
	    (strcmp(r.host, again.host) || r.body.kind != again.body.kind || r.body.left != again.body.left || again.field[0] || again.query[0] ||
	     again.cookie[0]))
		abort();
	body = httpbody_take(&r.body, p + r.head_len, n - r.head_len);
	if (body > (long)(n - r.head_len))
		abort();
}

static void fuzz_answer(const char *p, size_t n)
{
	static const struct previewhead asked = { .reads = 1, .keeps = 1 };
	autobuf struct buf out = BUF_INIT(65536);
	struct previewhead_answer a;
	struct err e;

	if (previewhead_answer(p, n, &asked, 1, &a, &out, &e) != 1)
		return;
	if (!is_one_head(&out) || a.head_len > n || a.upgraded)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1)
		fuzz_answer((const char *)data + 1, size - 1);
	else
		fuzz_request((const char *)data + 1, size - 1);
	return 0;
}
