/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's rules as ranges that berth denies: against a plain reading of them, address by address. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "manager/api/e2b.h"

static json_t *options(const char *body, int enabled, struct err *e)
{
	autojson json_t *j = json_loads(body, 0, NULL);

	cr_assert(j, "%s", body);
	*e = (struct err){0};
	return e2b_rules_of_create(j, enabled, e);
}

static int holds(const json_t *ranges, const struct netaddr *a)
{
	struct netcidr c;
	struct err e;
	size_t i;

	for (i = 0; i < json_array_size(ranges); i++) {
		cr_assert_eq(netcidr_parse(json_string_value(json_array_get(ranges, i)), &c, &e), 0,
			     "%s", e.msg);
		if (netcidr_holds(&c, a))
			return 1;
	}
	return 0;
}

/* A range of few bits, so that many of them overlap, in 10.0.0.0/24 or fd00::/120. */
static void add_range(json_t *list, int family, struct netcidr *ret)
{
	const unsigned size = family == 4 ? 32 : 128, bits = size - (unsigned)(random() % 9);
	char text[NETADDR_TEXT];
	struct err e;

	snprintf(text, sizeof(text), family == 4 ? "10.0.0.%u" : "fd00::%x",
		 (unsigned)(random() % 256) & (0xffu << (size - bits)));
	cr_assert_eq(netaddr_parse(text, &ret->net), 0);
	ret->bits = bits;
	json_array_append_new(list, json_sprintf("%s/%u", text, bits));
	(void)e;
}

static int any_holds(const struct netcidr *c, size_t n, const struct netaddr *a)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (c[i].net.family == a->family && netcidr_holds(&c[i], a))
			return 1;
	return 0;
}

Test(e2b_rules, what_is_allowed_goes_before_what_is_denied_for_every_address)
{
	unsigned round, i;

	srandom(7);
	for (round = 0; round < 300; round++) {
		const int family = round % 2 ? 6 : 4;
		autojson json_t *allow = json_array(), *deny = json_array(), *body, *got;
		const size_t allowed = (size_t)random() % 6, denied = (size_t)random() % 6;
		struct netcidr a[6], d[6];
		struct err e;

		for (i = 0; i < allowed; i++)
			add_range(allow, family, &a[i]);
		for (i = 0; i < denied; i++)
			add_range(deny, family, &d[i]);
		body = json_pack("{s:{s:O,s:O}}", "network", "allowOut", allow, "denyOut", deny);
		got = e2b_rules_of_create(body, 1, &e);
		cr_assert(got, "%s", e.msg);
		for (i = 0; i < 256; i++) {
			char text[NETADDR_TEXT];
			struct netaddr at;

			snprintf(text, sizeof(text), family == 4 ? "10.0.0.%u" : "fd00::%x", i);
			netaddr_parse(text, &at);
			cr_assert_eq(holds(json_object_get(got, "deny-net"), &at),
				     any_holds(d, denied, &at) && !any_holds(a, allowed, &at),
				     "%s in round %u", text, round);
		}
	}
}

Test(e2b_rules, all_traffic_is_that_of_both_families_but_for_what_is_allowed)
{
	static const struct {
		const char *address;
		int denied;
	} at[] = {
		{"0.0.0.0", 1},         {"1.1.1.0", 1}, {"1.1.1.1", 0},      {"1.1.1.2", 1},
		{"255.255.255.255", 1}, {"::", 1},      {"2606:4700::1", 0}, {"2606:4700::2", 1},
	};
	struct err e;
	autojson json_t *got = options("{\"network\":{\"denyOut\":[\"0.0.0.0/0\"],"
				       "\"allowOut\":[\"1.1.1.1\",\"2606:4700::1/128\"]}}",
				       1, &e);
	size_t i;

	cr_assert(got, "%s", e.msg);
	cr_assert_str_eq(json_string_value(json_object_get(got, "network")), "bridge");
	for (i = 0; i < ARRAY_LEN(at); i++) {
		struct netaddr a;

		netaddr_parse(at[i].address, &a);
		cr_assert_eq(holds(json_object_get(got, "deny-net"), &a), at[i].denied, "%s",
			     at[i].address);
	}
}

Test(e2b_rules, S19_rules_open_nothing_that_is_not_public_and_no_network_that_is_not_there)
{
	static const struct {
		const char *body;
		int enabled;
		enum err_code code;
	} refused[] = {
		{"{\"network\":{\"allowOut\":[\"a.test\"]}}", 1, ERR_INVALID},
		{"{\"network\":{\"allowOut\":[\"a.test\",\"10.0.0.1\"],\"denyOut\":[\"0.0.0.0/"
		 "0\"]}}",
		 1, ERR_DENIED},
		{"{\"network\":{\"allowOut\":[\"a.test\",\"::1\"],\"denyOut\":[\"0.0.0.0/0\"]}}", 1,
		 ERR_DENIED},
		{"{\"network\":{\"allowOut\":[\"a.test\",\"8.0.0.0/8\"],\"denyOut\":[\"0.0.0.0/"
		 "0\"]}}",
		 1, ERR_UNSUPPORTED},
		{"{\"network\":{\"allowOut\":[\"a.test\"],\"denyOut\":[\"0.0.0.0/0\"]}}", 0,
		 ERR_UNSUPPORTED},
		{"{\"network\":{\"allowOut\":[\"8.8.8.8\"]}}", 0, ERR_UNSUPPORTED},
		{"{\"network\":{\"allowOut\":[\"a b\"],\"denyOut\":[\"0.0.0.0/0\"]}}", 1,
		 ERR_INVALID},
		{"{\"network\":{\"allowOut\":[\"a.test:80\"],\"denyOut\":[\"0.0.0.0/0\"]}}", 1,
		 ERR_INVALID},
		{"{\"network\":{\"denyOut\":[\"1.2.3.4/33\"]}}", 1, ERR_INVALID},
		{"{\"network\":{\"denyOut\":[\"1.2.3.4/\"]}}", 1, ERR_INVALID},
		{"{\"network\":{\"denyOut\":{}}}", 1, ERR_INVALID},
		{"{\"network\":{\"rules\":{\"a\":[]}}}", 1, ERR_UNSUPPORTED},
	};
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(refused); i++) {
		json_t *got = options(refused[i].body, refused[i].enabled, &e);

		cr_assert_null(got, "%s", refused[i].body);
		cr_assert_eq(e.code, (int)refused[i].code, "%s: %s", refused[i].body, e.msg);
	}
}
