/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S22 of SECURITY.md. */
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/net/tlshello.h"

struct hello {
	unsigned char b[600];
	size_t n;
};

static void put(struct hello *h, const void *p, size_t n)
{
	memcpy(h->b + h->n, p, n);
	h->n += n;
}

static void put_number(struct hello *h, size_t v, unsigned bytes)
{
	while (bytes--)
		h->b[h->n++] = (unsigned char)(v >> 8 * bytes);
}

/* A ClientHello with one extension of this kind; NULL: with none at all. */
static struct hello make(int kind, const void *ext, size_t n)
{
	struct hello h = { .n = 0 };
	size_t body = 2 + 32 + 1 + 2 + 2 + 2 + (ext ? 2 + 4 + n : 0);

	put(&h, "\x16\x03\x01", 3);
	put_number(&h, 4 + body, 2);
	put_number(&h, 1, 1);
	put_number(&h, body, 3);
	put(&h, "\x03\x03" "0123456789abcdef0123456789abcdef" "\0" "\0\x02\x13\x01" "\x01\0", 2 + 32 + 1 + 4 + 2);
	if (ext) {
		put_number(&h, 4 + n, 2);
		put_number(&h, (size_t)kind, 2);
		put_number(&h, n, 2);
		put(&h, ext, n);
	}
	return h;
}

static enum tlshello look(const struct hello *h, char name[TLSHELLO_NAME])
{
	size_t len;

	return tlshello_read(h->b, h->n, 0, name, &len);
}

Test(tlshello, a_name_is_read_and_nothing_before_it_is_whole)
{
	struct hello h = make(0, "\0\x08\0\0\x05" "a.bcd", 10);
	char name[TLSHELLO_NAME];
	size_t len, i;

	cr_expect_eq(tlshello_read(h.b, h.n, 0, name, &len), TLSHELLO_NAMED);
	cr_expect_str_eq(name, "a.bcd");
	cr_expect_eq(len, h.n);
	for (i = 0; i < h.n; i++)
		cr_expect_eq(tlshello_read(h.b, i, 0, name, &len), TLSHELLO_MORE, "after %zu bytes", i);
}

Test(tlshello, without_a_name_it_is_unnamed)
{
	char name[TLSHELLO_NAME];
	struct hello h = make(0, NULL, 0);

	cr_expect_eq(look(&h, name), TLSHELLO_UNNAMED);
	h = make(43, "\x02\x03\x04", 3);
	cr_expect_eq(look(&h, name), TLSHELLO_UNNAMED);
}

Test(tlshello, what_could_be_read_in_two_ways_is_bad)
{
	static const struct { const char *ext; size_t n; } rows[] = {
		{ "", 0 }, { "\0\0", 2 }, { "\0\x03\0\0\0", 5 }, { "\0\x08\0\0\x05" "a.b", 8 }, { "\0\x08\0\0\x05" "a.bcdx", 11 },
		{ "\0\x08\x01\0\x05" "a.bcd", 10 }, { "\0\x08\0\0\x05" "a\0bcd", 10 }, { "\0\x08\0\0\x01" "a\0\0\x01" "b", 10 },
		{ "\0\x07\0\0\x05" "a.bcd", 10 }, { "\0\x08\0\0\x04" "a.bcd", 10 },
	};
	char name[TLSHELLO_NAME];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hello h = make(0, rows[i].ext, rows[i].n);

		cr_expect_eq(look(&h, name), TLSHELLO_BAD, "row %zu", i);
	}
}

Test(tlshello, other_protocols_are_known_by_their_first_bytes)
{
	char name[TLSHELLO_NAME];
	size_t len;

	cr_expect_eq(tlshello_read((const unsigned char *)"SSH-", 4, 0, name, &len), TLSHELLO_OTHER);
	cr_expect_eq(tlshello_read((const unsigned char *)"\x16\x02", 2, 0, name, &len), TLSHELLO_OTHER);
	cr_expect_eq(tlshello_read((const unsigned char *)"\x16", 1, 0, name, &len), TLSHELLO_MORE);
	cr_expect_eq(tlshello_read((const unsigned char *)"SSH-", 4, 1, name, &len), TLSHELLO_BAD, "not as a second hello");
}

Test(tlshello, a_second_hello_may_follow_early_data)
{
	struct hello h = { .n = 0 }, second = make(0, "\0\x08\0\0\x05" "a.bcd", 10);
	char name[TLSHELLO_NAME];
	size_t len;

	put(&h, "\x14\x03\x03\0\x01\x01" "\x17\x03\x03\0\x04" "data", 15);
	cr_expect_eq(tlshello_read(h.b, h.n, 1, name, &len), TLSHELLO_MORE);
	put(&h, second.b, second.n);
	cr_expect_eq(tlshello_read(h.b, h.n, 1, name, &len), TLSHELLO_NAMED);
	cr_expect_eq(len, h.n);
	cr_expect_eq(tlshello_read(h.b, h.n, 0, name, &len), TLSHELLO_OTHER, "as the first it would be another protocol");
}

Test(tlshello, a_retry_is_known_by_its_random_number)
{
	unsigned char answer[TLSHELLO_ANSWER + 1] = "\x16\x03\x03\0\x58\x02\0\0\x54\x03\x03"
		"\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";

	cr_expect(tlshello_is_retry(answer));
	answer[42] ^= 1;
	cr_expect_not(tlshello_is_retry(answer));
}
