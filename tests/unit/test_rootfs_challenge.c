/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "rootfs/registry/challenge.h"

static int parse(const char *text, struct challenge *c)
{
	struct err e = { 0 };

	memset(c, 0, sizeof(*c));
	return challenge_parse(text, strlen(text), c, &e);
}

Test(challenge, registries_in_use_are_understood)
{
	struct challenge c;

	cr_assert_eq(parse("Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\","
			   "scope=\"repository:library/debian:pull,push\"", &c), 0);
	cr_expect_str_eq(c.realm, "https://auth.docker.io/token");
	cr_expect_str_eq(c.service, "registry.docker.io");
	cr_expect(c.bearer && !c.basic);
	cr_assert_eq(parse("Basic realm=\"basic-realm\"", &c), 0);
	cr_expect(c.basic && !c.bearer);
	cr_expect_str_eq(c.realm, "", "the realm of Basic is nothing to connect to");
}

Test(challenge, the_grammar_is_that_of_RFC_9110)
{
	static const struct { const char *text; int basic; const char *realm, *service; } rows[] = {
		{ "", 0, "", "" },
		{ " , ,", 0, "", "" },
		{ "basic", 1, "", "" },
		{ "Basic, Bearer realm=\"a\"", 1, "a", "" },
		{ "Bearer realm=\"a\", Basic realm=\"b\", charset=\"UTF-8\"", 1, "a", "" },
		{ "Bearer realm=a,service=b", 0, "a", "b" },
		{ "bEaReR ReAlM = \"a\" , SERVICE=\tb", 0, "a", "b" },
		{ "Bearer realm=\"a\\\"b\\\\c\"", 0, "a\"b\\c", "" },
		{ "Bearer realm=\"a,b=c, Basic\"", 0, "a,b=c, Basic", "" },
		{ "Bearer realm=\"a\", Bearer realm=\"b\"", 0, "a", "" },
		{ "Negotiate abc==, Bearer realm=\"a\"", 0, "a", "" },
		{ "Negotiate abc/+.=, Basic", 1, "", "" },
		{ "Digest nonce=\"x\", realm=\"d\", Bearer realm=\"a\"", 0, "a", "" },
		{ "Bearer error=\"invalid_token\",realm=\"a\"", 0, "a", "" },
	};
	struct challenge c;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(parse(rows[i].text, &c), 0, "%s", rows[i].text);
		cr_expect_eq(c.basic, rows[i].basic, "%s", rows[i].text);
		cr_expect_eq(c.bearer, rows[i].realm[0] != '\0', "%s", rows[i].text);
		cr_expect_str_eq(c.realm, rows[i].realm, "%s", rows[i].text);
		cr_expect_str_eq(c.service, rows[i].service, "%s", rows[i].text);
	}
}

Test(challenge, what_is_malformed_is_refused_as_a_whole)
{
	static const char *const rows[] = {
		"Bearer", "Bearer ", "Bearer realm=\"\"", "Bearer realm=", "Bearer realm=\"a", "Bearer realm=\"a\\",
		"Bearer realm=\"a\" service=\"b\"", "Bearer realm=\"a\",realm=\"b\"", "Bearer service=\"a\"",
		"Bearer realm=\"a\",service=b,service=c", "Bearer realm=\"a\x01\"", "Bearer realm=\"a\nb\"",
		"=", "\"Basic\"", "Basic\x7f", "Bearer realm=\"a\"x", "Basic @", "Bearer realm=\x80",
	};
	static char longer[CHALLENGE_HEADER_MAX + 2];
	struct challenge c;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect_eq(parse(rows[i], &c), -1, "%s", rows[i]);
	memset(longer, ',', sizeof(longer) - 1);
	cr_expect_eq(parse(longer, &c), -1);
	memset(longer, 'x', sizeof(longer) - 1);
	memcpy(longer, "Bearer realm=\"", 14);
	longer[3000] = '"';
	longer[3001] = '\0';
	cr_expect_eq(parse(longer, &c), -1, "a realm longer than its field");
}

Test(challenge, several_headers_add_up)
{
	struct challenge c = { 0 };
	struct err e;

	cr_assert_eq(challenge_parse("Basic", 5, &c, &e), 0);
	cr_assert_eq(challenge_parse("Bearer realm=x", 14, &c, &e), 0);
	cr_expect(c.basic && c.bearer);
}
