/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S45 of SECURITY.md. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/net/dnsmsg.h"
#include "runtime/net/nametable.h"

#define WEB "\x12\x34\x01\0\0\1\0\0\0\0\0\0\3WeB\3app\0\0\1\0\1"
#define OPT "\0\0\x29\x10\0\0\0\x80\0\0\0"

static struct dnsmsg q;

static int ask(const char *bytes, size_t n)
{
	return dnsmsg_read((const uint8_t *)bytes, n, &q);
}

Test(dnsmsg, a_query_is_read)
{
	cr_expect_eq(ask(WEB, sizeof(WEB) - 1), DNSMSG_OK);
	cr_expect_str_eq(q.name, "web.app");
	cr_expect(q.id == 0x1234 && q.type == DNSMSG_A && q.class == 1 && q.labels == 2 && !q.edns);
	cr_expect_eq(q.end, sizeof(WEB) - 1);
	cr_expect_eq(q.size, DNSMSG_SMALL);
}

Test(dnsmsg, what_follows_the_question_is_an_option_record_or_an_error)
{
	char p[64] = WEB;
	const size_t n = sizeof(WEB) - 1;

	p[11] = 1;
	memcpy(p + n, OPT, sizeof(OPT) - 1);
	cr_expect_eq(ask(p, n + 11), DNSMSG_OK);
	cr_expect(q.edns && q.dnssec && q.size == DNSMSG_LARGE);
	cr_expect_eq(ask(p, n + 10), DNSMSG_FORMERR);
	cr_expect_eq(ask(p, n + 12), DNSMSG_FORMERR);
	p[11] = 0;
	cr_expect_eq(ask(p, n + 11), DNSMSG_FORMERR);
	p[n + 2] = 1;
	p[11] = 1;
	cr_expect_eq(ask(p, n + 11), DNSMSG_FORMERR, "not an OPT record");
}

Test(dnsmsg, what_is_no_query_is_refused)
{
	char p[300] = WEB;
	const size_t n = sizeof(WEB) - 1;
	size_t i;

	for (i = 0; i < 12; i++)
		cr_expect_eq(ask(p, i), -1);
	for (; i < n; i++)
		cr_expect_eq(ask(p, i), DNSMSG_FORMERR, "cut at %zu", i);
	p[2] = (char)0x81;
	cr_expect_eq(ask(p, n), -1, "an answer");
	p[2] = 0x29;
	cr_expect_eq(ask(p, n), DNSMSG_NOTIMP, "an update");
	p[2] = 1;
	p[12] = (char)0xc0;
	cr_expect_eq(ask(p, n), DNSMSG_FORMERR, "a pointer");
	p[12] = 64;
	cr_expect_eq(ask(p, n), DNSMSG_FORMERR, "a long label");
	memset(p + 12, 1, sizeof(p) - 12);
	cr_expect_eq(ask(p, sizeof(p)), DNSMSG_FORMERR, "a long name");
}

Test(dnsmsg, a_name_of_odd_bytes_is_none_of_ours)
{
	cr_expect_eq(ask("\0\1\0\0\0\1\0\0\0\0\0\0\3a.b\0\0\1\0\1", 22 - 1), DNSMSG_OK);
	cr_expect(q.odd && !q.name[0] && q.labels == 1);
	cr_expect_eq(ask("\0\1\0\0\0\1\0\0\0\0\0\0\3a\0b\0\0\1\0\1", 22 - 1), DNSMSG_OK);
	cr_expect(q.odd);
}

Test(dnsmsg, a_query_goes_on_with_nothing_but_its_question)
{
	uint8_t out[DNSMSG_QUERY], reply[DNSMSG_SMALL];
	size_t n;

	cr_assert_eq(ask(WEB, sizeof(WEB) - 1), DNSMSG_OK);
	n = dnsmsg_ask(&q, (const uint8_t *)WEB, 0xabcd, out);
	cr_expect_eq(n, sizeof(WEB) - 1);
	cr_expect(out[0] == 0xab && out[1] == 0xcd && !memcmp(out + 2, &WEB[2], n - 2));
	n = dnsmsg_reply(&q, out, DNSMSG_OK, 0, reply);
	cr_expect_not(dnsmsg_answers(out, q.end, reply, n), "the id of another");
	reply[0] = 0xab;
	reply[1] = 0xcd;
	cr_expect(dnsmsg_answers(out, q.end, reply, n));
	cr_expect_not(dnsmsg_answers(out, q.end, reply, n - 1));
	cr_expect_not(dnsmsg_answers(out, q.end, out, n), "it is a query itself");
	reply[14] ^= 0x20;
	cr_expect_not(dnsmsg_answers(out, q.end, reply, n), "another question");
}

Test(dnsmsg, the_longest_name_fits_its_buffers)
{
	uint8_t p[12 + 255 + 4 + 11] = { 0, 1, 1, 0, 0, 1, [11] = 1 }, out[DNSMSG_QUERY];
	size_t i, at = 12;

	for (i = 0; i < 4; i++) {
		p[at] = i < 3 ? 63 : 61;
		memset(p + at + 1, 'a', p[at]);
		at += 1 + p[at];
	}
	p[at + 2] = p[at + 4] = 1;
	memcpy(p + at + 5, OPT, 11);
	cr_assert_eq(dnsmsg_read(p, sizeof(p), &q), DNSMSG_OK);
	cr_expect_eq(strlen(q.name), DNSMSG_NAME - 1);
	cr_expect_leq(dnsmsg_ask(&q, p, 1, out), sizeof(out));
}

Test(dnsmsg, addresses_are_found_in_reverse_names)
{
	struct netaddr a;
	char text[NETADDR_TEXT];

	cr_expect(dnsmsg_reverse("4.3.2.10.in-addr.arpa", &a));
	cr_expect_str_eq(netaddr_text(&a, text), "10.2.3.4");
	cr_expect(dnsmsg_reverse("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", &a));
	cr_expect_str_eq(netaddr_text(&a, text), "2001:db8::1");
	cr_expect_not(dnsmsg_reverse("3.2.10.in-addr.arpa", &a));
	cr_expect_not(dnsmsg_reverse("256.3.2.10.in-addr.arpa", &a));
	cr_expect_not(dnsmsg_reverse("4.3.2.10.in-addr.arpa.x", &a));
	cr_expect_not(dnsmsg_reverse("web", &a));
}

static struct nametable table;

static void open_table(void)
{
	char dir[] = "/tmp/berth-names-XXXXXX";
	struct err e;
	int fd;

	cr_assert(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(nametable_open(&table, fd, &e), 0, "%s", e.msg);
	unlinkat(fd, NAMETABLE_FILE, 0);
	close(fd);
	rmdir(dir);
}

Test(nametable, names_are_those_set_last)
{
	const char *const first[] = { "web", "api", "web" }, *const second[] = { "api", "other" };
	char name[NAMETABLE_NAME];
	uint32_t found[4];
	struct err e;

	open_table();
	cr_assert_eq(nametable_set(&table, 2, first, 3, &e), 0);
	cr_assert_eq(nametable_set(&table, 3, second, 2, &e), 0);
	cr_expect_eq(nametable_find(&table, "web", 0, found, 4), 1);
	cr_expect_eq(found[0], 2);
	cr_expect_eq(nametable_find(&table, "api", 3, found, 4), 2);
	cr_expect_eq(found[0] + found[1], 5);
	cr_expect_eq(nametable_find(&table, "api", 7, found, 1), 1);
	cr_expect(nametable_name(&table, 3, name) && !strcmp(name, "api"));
	cr_assert_eq(nametable_set(&table, 2, second, 1, &e), 0);
	cr_expect_eq(nametable_find(&table, "web", 0, found, 4), 0);
	nametable_forget(&table, 3);
	cr_expect_eq(nametable_find(&table, "api", 0, found, 4), 1);
	cr_expect_not(nametable_name(&table, 3, name));
	nametable_close(&table);
}

Test(nametable, a_thousand_members_fit_and_no_more_names_than_there_is_room_for)
{
	char names[NAMETABLE_NAMES][NAMETABLE_NAME];
	const char *list[NAMETABLE_NAMES];
	uint32_t number, found[1];
	struct err e;
	size_t i;

	open_table();
	for (i = 0; i < NAMETABLE_NAMES; i++) {
		snprintf(names[i], sizeof(names[i]), "%064zu", i);
		list[i] = names[i];
	}
	for (number = 2; number < 1002; number++)
		cr_assert_eq(nametable_set(&table, number, list, NAMETABLE_NAMES, &e), 0);
	while (nametable_set(&table, number, list, NAMETABLE_NAMES, &e) == 0)
		cr_assert_lt(++number, 2000);
	cr_expect_eq(e.code, ERR_LIMIT);
	snprintf(names[0], sizeof(names[0]), "last");
	nametable_forget(&table, 2);
	cr_expect_eq(nametable_set(&table, number, list, NAMETABLE_NAMES, &e), 0);
	cr_expect_eq(nametable_find(&table, "last", 5, found, 1), 1);
	nametable_close(&table);
}
