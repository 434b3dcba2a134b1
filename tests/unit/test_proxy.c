/* SPDX-License-Identifier: Apache-2.0 */
/* What clients say to the proxy: heads, bodies and SOCKS5, byte for byte. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/net/httpreq.h"

static int parse(const char *text, struct httpreq *r, struct buf *out)
{
	struct err e;

	memset(r, 0, sizeof(*r));
	return httpreq_parse(text, strlen(text), r, out, &e);
}

Test(httpreq, a_request_is_rewritten_for_its_server)
{
	autobuf struct buf out = BUF_INIT(65536);
	struct httpreq r;

	cr_assert_eq(parse("GET http://Example.com:8080/a?b HTTP/1.1\r\nHost: evil\r\nX: 1\r\nproxy-connection: x\r\nConnection: keep-alive\r\n"
			   "Proxy-Authorization: secret\r\n\r\n", &r, &out), 1);
	cr_expect_str_eq(out.data, "GET /a?b HTTP/1.1\r\nHost: Example.com:8080\r\nX: 1\r\nConnection: close\r\n\r\n");
	cr_expect_str_eq(r.host, "Example.com");
	cr_expect(r.port == 8080 && r.body.done && !r.connect);
	out.len = 0;
	cr_assert_eq(parse("GET http://x?q=http://y/ HTTP/1.0\r\n\r\n", &r, &out), 1);
	cr_expect_str_eq(out.data, "GET /?q=http://y/ HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n");
	cr_assert_eq(parse("CONNECT [2606::1]:443 HTTP/1.1\r\nHost: x\r\n\r\nrest", &r, &out), 1);
	cr_expect(r.connect && r.port == 443 && r.head_len == 43);
	cr_expect_str_eq(r.host, "[2606::1]");
}

Test(httpreq, what_is_incomplete_waits_and_what_is_ambiguous_is_refused)
{
	static const char *const bad[] = {
		"GET / HTTP/1.1\r\n\r\n", "GET http://x/ HTTP/2.0\r\n\r\n", "GET http://x/ HTTP/1.1 \r\n\r\n", "GET  http://x/ HTTP/1.1\r\n\r\n",
		"G@T http://x/ HTTP/1.1\r\n\r\n", "GET http:///a HTTP/1.1\r\n\r\n", "GET http://x:0/ HTTP/1.1\r\n\r\n",
		"GET http://x:99999/ HTTP/1.1\r\n\r\n", "GET http://u@x/ HTTP/1.1\r\n\r\n", "CONNECT x HTTP/1.1\r\n\r\n",
		"CONNECT :80 HTTP/1.1\r\n\r\n", "GET http://x/ HTTP/1.1\r\nA\r\n\r\n", "GET http://x/ HTTP/1.1\r\nA : b\r\n\r\n",
		"GET http://x/ HTTP/1.1\r\n A: b\r\n\r\n", "GET http://x/ HTTP/1.1\r\nA: b\n\r\n\r\n",
		"POST http://x/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"POST http://x/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST http://x/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "POST http://x/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"POST http://x/ HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n", "\r\n\r\n",
	};
	autobuf struct buf out = BUF_INIT(65536);
	const char whole[] = "POST http://x/ HTTP/1.1\r\nContent-Length: 3\r\n\r\n";
	struct httpreq r;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_eq(parse(bad[i], &r, &out), -1, "%s", bad[i]);
	for (i = 0; i < sizeof(whole) - 1; i++)
		cr_expect_eq(httpreq_parse(whole, i, &r, &out, &e), 0, "%zu bytes", i);
	cr_expect_eq(httpreq_parse(whole, i, &r, &out, &e), 1);
	cr_expect(r.body.kind == HTTPBODY_LENGTH && r.body.left == 3 && !r.body.done);
}

/* The bytes of text that belong to the body, fed by step. */
static long body(const char *text, size_t step, int *ret_done)
{
	struct httpbody b = { .kind = HTTPBODY_CHUNKED };
	size_t at = 0, n = strlen(text), some;
	long got;

	while (at < n && !b.done) {
		some = n - at < step ? n - at : step;
		got = httpbody_take(&b, text + at, some);
		if (got < 0)
			return -1;
		at += (size_t)got;
		if ((size_t)got < some)
			break;
	}
	*ret_done = b.done;
	return (long)at;
}

Test(httpreq, a_chunked_body_ends_where_it_ends)
{
	static const struct { const char *text; long want; int done; } rows[] = {
		{ "0\r\n\r\nGET", 5, 1 }, { "3\r\nabc\r\n0\r\n\r\nGET", 13, 1 }, { "3;x=y\r\nabc\r\n00\r\nT: v\r\n\r\nmore", 24, 1 },
		{ "A\r\n0123456789\r\n0\r\n\r\n", 20, 1 }, { "3\r\nab", 5, 0 }, { "x\r\n", -1, 0 }, { "\r\n", -1, 0 }, { "3\nabc", -1, 0 },
		{ "3\r\nabcX", -1, 0 }, { "-1\r\n", -1, 0 }, { "fffffffffffffffff\r\n", -1, 0 }, { "0x3\r\nabc", -1, 0 },
	};
	size_t i, step;
	int done = 0;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		for (step = 1; step < 30; step += 7) {
			long got = body(rows[i].text, step, &done);

			cr_expect(got == rows[i].want && (got < 0 || done == rows[i].done), "%s by %zu: %ld, done %d", rows[i].text, step,
				  got, done);
		}
}

Test(socksreq, what_a_client_says)
{
	static const unsigned char name[] = "\5\1\0\3\6a.test\0\120rest", v4[] = "\5\1\0\1\1\2\3\4\1\273", udp[] = "\5\3\0\1\1\2\3\4\1\273";
	struct socksreq r;
	size_t i;

	cr_expect_eq(socksreq_greeting((const unsigned char *)"\5\1\0", 3), 3);
	cr_expect_eq(socksreq_greeting((const unsigned char *)"\5\2\1\0", 4), 4);
	cr_expect_eq(socksreq_greeting((const unsigned char *)"\5\2\1", 3), 0);
	cr_expect_eq(socksreq_greeting((const unsigned char *)"\5\1\2", 3), -1, "no authentication is not offered");
	cr_expect_eq(socksreq_greeting((const unsigned char *)"\4\1\0", 3), -1);
	for (i = 0; i < 13; i++)
		cr_expect_eq(socksreq_parse(name, i, &r), 0, "%zu bytes", i);
	cr_assert_eq(socksreq_parse(name, sizeof(name) - 1, &r), 1);
	cr_expect(r.port == 80 && r.len == 13 && !strcmp(r.host, "a.test"));
	cr_assert_eq(socksreq_parse(v4, 10, &r), 1);
	cr_expect(r.port == 443 && !strcmp(r.host, "1.2.3.4"));
	cr_expect_eq(socksreq_parse(udp, 10, &r), -SOCKS_BAD_COMMAND);
	cr_expect_eq(socksreq_parse((const unsigned char *)"\5\1\0\3\0\0\120", 7, &r), -SOCKS_BAD_ADDRESS);
	cr_expect_eq(socksreq_parse((const unsigned char *)"\5\1\0\3\3a\0b\0\120", 10, &r), -SOCKS_BAD_ADDRESS);
}
