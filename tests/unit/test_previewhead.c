/* SPDX-License-Identifier: Apache-2.0 */
/* S61 of SECURITY.md: the heads of previews. */
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/preview/head.h"

static const struct previewhead_from from = { "192.0.2.1", 1 };

static int parse_request(const char *text, struct previewhead *r, struct buf *out)
{
	struct err e;

	*out = BUF_INIT(24576);
	return previewhead_request(text, strlen(text), &from, r, out, &e);
}

Test(previewhead, a_request_is_written_anew)
{
	autobuf struct buf out = BUF_INIT(0);
	struct previewhead r;

	cr_assert(parse_request("GET /a?x=1&berth_token=1.ab&y HTTP/1.1\r\nHost: Web.Test:80\r\nCookie: a=1; berth-preview=2.cd\r\n"
				"X-Forwarded-For: 6.6.6.6\r\nConnection: keep-alive\r\n\r\n", &r, &out) == 1);
	cr_assert_str_eq(out.data, "GET /a?x=1&y HTTP/1.1\r\nCookie: a=1\r\nHost: Web.Test:80\r\nX-Forwarded-For: 192.0.2.1\r\n"
			 "X-Forwarded-Host: Web.Test:80\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n");
	cr_assert_str_eq(r.host, "web.test");
	cr_assert_str_eq(r.query, "1.ab");
	cr_assert_str_eq(r.cookie, "2.cd");
	cr_assert(r.keeps && r.reads && r.body.done && !r.foreign);
	cr_assert(!strncmp(out.data + r.target_at, "/a?x=1&y", r.target_len) && r.target_len == 8);
	/* once and again */
	cr_assert(previewhead_mask(&r, "a.much.longer.name.than.that:8000", &out, &(struct err){ 0 }) == 0);
	cr_assert(previewhead_mask(&r, "b", &out, &(struct err){ 0 }) == 0);
	cr_assert_str_eq(out.data, "GET /a?x=1&y HTTP/1.1\r\nCookie: a=1\r\nHost: b\r\nX-Forwarded-For: 192.0.2.1\r\n"
			 "X-Forwarded-Host: Web.Test:80\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n");
}

Test(previewhead, every_prefix_of_a_head_is_not_whole)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	struct previewhead r;
	struct err e;
	size_t n;

	for (n = 0; n < sizeof(text) - 1; n++) {
		autobuf struct buf out = BUF_INIT(24576);

		cr_assert(previewhead_request(text, n, &from, &r, &out, &e) == 0, "%zu", n);
	}
}

Test(previewhead, an_answer_is_framed_for_the_client)
{
	static const struct {
		const char *text, *out;
		int until_close;
	} cases[] = {
		{ "HTTP/1.0 200 OK\r\nServer: x\r\n\r\n", "HTTP/1.1 200 OK\r\nServer: x\r\nConnection: close\r\n\r\n", 1 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n", 0 },
		{ "HTTP/1.1 204\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 204\r\nContent-Length: 9\r\nConnection: keep-alive\r\n\r\n", 0 },
		{ "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; DOMAIN=x; Path=/\r\nTransfer-Encoding: chunked\r\n\r\n",
		  "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n", 0 },
	};
	const struct previewhead rq = { .reads = 1, .keeps = 1 };
	struct previewhead_answer a;
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		autobuf struct buf out = BUF_INIT(24576);

		cr_assert(previewhead_answer(cases[i].text, strlen(cases[i].text), &rq, 1, &a, &out, &e) == 1, "%s", cases[i].text);
		cr_assert_str_eq(out.data, cases[i].out);
		cr_assert(a.until_close == cases[i].until_close);
	}
}
