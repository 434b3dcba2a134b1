/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "manager/api/wsframe.h"

static int head(const char *p, size_t n, struct websocket_frame *f)
{
	struct err e;

	return websocket_head(p, n, f, &e);
}

Test(wsframe, a_head_waits_for_its_bytes)
{
	static const char long_one[] = "\x82\xfe\x01\x00mask";
	struct websocket_frame f;
	size_t n;

	for (n = 0; n < 8; n++)
		cr_assert_eq(head(long_one, n, &f), 0, "%zu bytes", n);
	cr_assert_eq(head(long_one, 8, &f), 1);
	cr_assert(f.final && f.op == WEBSOCKET_BINARY && f.head == 8 && f.n == 256 && !memcmp(f.mask, "mask", 4));
	cr_assert_eq(head("\x01\x83mask", 6, &f), 1);
	cr_assert(!f.final && f.op == WEBSOCKET_TEXT && f.head == 6 && f.n == 3);
}

Test(wsframe, a_head_that_breaks_the_protocol_is_refused)
{
	static const struct {
		const char *bytes;
		size_t n;
		enum err_code code;
	} wrong[] = {
		{"\xc2\x80mask", 6, ERR_INVALID},	/* a reserved bit */
		{"\x82\x01", 2, ERR_INVALID},		/* no mask */
		{"\x83\x80mask", 6, ERR_INVALID},	/* an unknown kind */
		{"\x8b\x80mask", 6, ERR_INVALID},
		{"\x09\x80mask", 6, ERR_INVALID},	/* a control frame in parts */
		{"\x88\xfe\x00\x7e", 4, ERR_INVALID},	/* one of over 125 bytes */
		{"\x82\xff\x00\x00\x00\x00\x00\x10\x00\x01mask", 14, ERR_LIMIT},
		{"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xffmask", 14, ERR_LIMIT},
	};
	struct websocket_frame f;
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct err e = {0};

		cr_assert_eq(websocket_head(wrong[i].bytes, wrong[i].n, &f, &e), -1, "%zu", i);
		cr_assert_eq(e.code, wrong[i].code, "%zu: %s", i, e.msg);
	}
}

Test(wsframe, a_servers_head_has_the_shortest_length)
{
	unsigned char h[10];

	cr_assert(websocket_head_of(WEBSOCKET_TEXT, 125, h) == 2 && h[0] == 0x81 && h[1] == 125);
	cr_assert(websocket_head_of(WEBSOCKET_BINARY, 126, h) == 4 && !memcmp(h, "\x82\x7e\x00\x7e", 4));
	cr_assert(websocket_head_of(WEBSOCKET_BINARY, 65536, h) == 10 && !memcmp(h, "\x82\x7f\0\0\0\0\0\1\0\0", 10));
}

Test(wsframe, the_key_of_rfc_6455_has_its_answer)
{
	struct err e;
	char accept[32];

	cr_assert_eq(websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", accept, &e), 0);
	cr_assert_str_eq(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	cr_assert_eq(websocket_accept(NULL, accept, &e), -1);
	cr_assert_eq(websocket_accept("dGhlIHNhbXBsZSBub25jZQ=", accept, &e), -1);
	cr_assert_eq(websocket_accept("dGhlIHNhbXBsZSBub25jZQ!=", accept, &e), -1);
}
