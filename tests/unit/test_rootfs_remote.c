/* SPDX-License-Identifier: Apache-2.0 */
/* Where requests go, and whose password goes along: the pure parts of remote.h and credential.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "rootfs/registry/credential.h"
#include "rootfs/registry/remote.h"

static int target(const char *text, const struct remote_options *o, int mirrors, struct remote_target *t)
{
	struct err e = { 0 };
	struct ref r;

	cr_assert_eq(ref_parse(text, &r, &e), 0, "%s", e.msg);
	return remote_target(&r, o, mirrors, t, &e);
}

Test(remote, references_lead_to_their_registry)
{
	static const struct { const char *ref, *registry, *base, *repo, *what; } rows[] = {
		{ "debian", "docker.io", "https://registry-1.docker.io", "library/debian", "latest" },
		{ "docker.io/library/debian:12", "docker.io", "https://registry-1.docker.io", "library/debian", "12" },
		{ "team/app:1", "docker.io", "https://registry-1.docker.io", "team/app", "1" },
		{ "ghcr.io/a/b:x", "ghcr.io", "https://ghcr.io", "a/b", "x" },
		{ "localhost/x", "localhost", "https://localhost", "x", "latest" },
		{ "reg.example:5000/a", "reg.example:5000", "https://reg.example:5000", "a", "latest" },
		{ "plain.example:5000/a", "plain.example:5000", "http://plain.example:5000", "a", "latest" },
		{ "plain.example/a", "plain.example", "https://plain.example", "a", "latest" },
		{ "other.example/a", "other.example", "http://other.example", "a", "latest" },
	};
	struct remote_options o = { .insecure = "plain.example:5000\nother.example" };
	struct remote_target t;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(target(rows[i].ref, &o, 1, &t), 0, "%s", rows[i].ref);
		cr_expect_eq(t.count, 1);
		cr_expect_str_eq(t.registry, rows[i].registry);
		cr_expect_str_eq(t.at[0].base, rows[i].base);
		cr_expect_str_eq(t.at[0].repo, rows[i].repo);
		cr_expect_str_eq(t.ref, rows[i].what);
		cr_expect_str_eq(t.at[0].account, rows[i].registry);
	}
}

Test(remote, mirrors_come_first_with_their_own_account)
{
	struct remote_options o = { .mirrors = "docker.io=m.example:5000/hub\nghcr.io=g.example\ndocker.io=n.example",
				    .insecure = "n.example" };
	struct remote_target t;

	cr_assert_eq(target("debian:12", &o, 1, &t), 0);
	cr_assert_eq(t.count, 3);
	cr_expect_str_eq(t.at[0].base, "https://m.example:5000");
	cr_expect_str_eq(t.at[0].repo, "hub/library/debian");
	cr_expect_str_eq(t.at[0].account, "m.example:5000");
	cr_expect_str_eq(t.at[1].base, "http://n.example");
	cr_expect_str_eq(t.at[2].account, "docker.io");
	cr_assert_eq(target("debian:12", &o, 0, &t), 0);
	cr_expect_eq(t.count, 1, "nothing is pushed to a mirror");
	/* --insecure is for the registry that was named */
	o.all_insecure = 1;
	cr_assert_eq(target("ghcr.io/a/b", &o, 1, &t), 0);
	cr_expect_str_eq(t.at[0].base, "https://g.example");
	cr_expect_str_eq(t.at[1].base, "http://ghcr.io");
	cr_assert_eq(target("debian", &o, 1, &t), 0);
	cr_expect_str_eq(t.at[2].base, "https://registry-1.docker.io");
}

Test(remote, a_wrong_configuration_is_refused)
{
	static const char *const mirrors[] = { "docker.io", "=x", "docker.io=", "docker.io=http://m", "docker.io=m/", "docker.io=u@m" };
	struct remote_options o = { 0 };
	struct remote_target t;
	size_t i;

	for (i = 0; i < ARRAY_LEN(mirrors); i++) {
		o.mirrors = mirrors[i];
		cr_expect_eq(target("debian", &o, 1, &t), -1, "%s", mirrors[i]);
	}
	o = (struct remote_options){ .insecure = "http://a" };
	cr_expect_eq(target("b.example/x", &o, 1, &t), -1);
}

Test(remote, the_word_of_a_login_is_a_registry)
{
	static const struct { const char *word, *want; } rows[] = {
		{ "docker.io", "docker.io" }, { "https://index.docker.io/v1/", "docker.io" }, { "Reg.Example", "reg.example" },
		{ "https://reg.example:5000/v2/", "reg.example:5000" }, { "registry-1.docker.io", "docker.io" },
		{ "http://reg.example", NULL }, { "reg example", NULL }, { "u@reg.example", NULL }, { "", NULL },
	};
	struct remote_options o = { 0 };
	struct remote_target t;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		int r = remote_registry_target(rows[i].word, &o, &t, &e);

		cr_expect_eq(r, rows[i].want ? 0 : -1, "%s", rows[i].word);
		if (!r && rows[i].want)
			cr_expect_str_eq(t.registry, rows[i].want);
	}
}

/* ---- credentials ---- */

static int find(const char *text, const char *registry, struct credential *c)
{
	struct err e = { 0 };

	memset(c, 0, sizeof(*c));
	return credential_parse(text, strlen(text), registry, "test", c, &e);
}

/* "dTpw" is u:p */
Test(credential, entries_are_found_in_all_of_dockers_spellings)
{
	static const struct { const char *key, *registry; int found; } rows[] = {
		{ "https://index.docker.io/v1/", "docker.io", 1 }, { "docker.io", "docker.io", 1 },
		{ "reg.example", "reg.example", 1 }, { "https://reg.example", "reg.example", 1 },
		{ "https://reg.example/v2/", "reg.example", 1 }, { "reg.example:5000", "reg.example:5000", 1 },
		{ "reg.example", "reg.example:5000", 0 }, { "reg.example:5000", "reg.example", 0 },
		{ "reg.example.evil", "reg.example", 0 }, { "sub.reg.example", "reg.example", 0 },
		{ "reg.example/team", "reg.example", 0 }, { "docker.io.evil", "docker.io", 0 },
	};
	char text[200];
	struct credential c;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		snprintf(text, sizeof(text), "{\"auths\":{\"%s\":{\"auth\":\"dTpw\"}}}", rows[i].key);
		cr_expect_eq(find(text, rows[i].registry, &c), rows[i].found, "%s for %s", rows[i].key, rows[i].registry);
		if (rows[i].found)
			cr_expect(c.user && !strcmp(c.user, "u") && !strcmp(c.password, "p"));
		credential_release(&c);
	}
}

Test(credential, forms_of_an_entry)
{
	struct credential c;

	cr_assert_eq(find("{\"auths\":{\"a.b\":{\"identitytoken\":\"tok\",\"auth\":\"dTpw\"}}}", "a.b", &c), 1);
	cr_expect_str_eq(c.identity_token, "tok");
	cr_expect_null(c.password);
	credential_release(&c);
	cr_assert_eq(find("{\"auths\":{\"a.b\":{\"username\":\"u\",\"password\":\"p:q\"}}}", "a.b", &c), 1);
	cr_expect_str_eq(c.password, "p:q");
	credential_release(&c);
	cr_assert_eq(find("{\"auths\":{\"a.b\":{\"auth\":\"dTpwOnE=\"}}}", "a.b", &c), 1);
	cr_expect_str_eq(c.password, "p:q", "the first colon divides");
	credential_release(&c);
	cr_expect_eq(find("{\"auths\":{\"a.b\":{}},\"credsStore\":\"pass\"}", "a.b", &c), 0);
	cr_expect_eq(find("{}", "a.b", &c), 0);
}

Test(credential, damaged_files_are_refused)
{
	static const char *const rows[] = {
		"", "[]", "{\"auths\":[]}", "{\"auths\":{\"a.b\":7}}", "{\"auths\":{\"a.b\":{\"auth\":7}}}",
		"{\"auths\":{\"a.b\":{\"auth\":\"x\"}}}", "{\"auths\":{\"a.b\":{\"auth\":\"!!!!\"}}}",
		"{\"auths\":{\"a.b\":{\"auth\":\"dXA=\"}}}",		/* no colon */
		"{\"auths\":{\"a.b\":{\"auth\":\"dTpwAA==\"}}}",		/* a NUL */
		"{\"auths\":{\"a.b\":{\"auth\":\"dTpwCg==\"}}}",		/* a line feed */
		"{\"auths\":{\"a.b\":{\"username\":\"u:v\",\"password\":\"p\"}}}",
		"{\"auths\":{\"a.b\":{\"auth\":\"dTpw\"},\"a.b\":{\"auth\":\"dTpw\"}}}",
	};
	struct credential c;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_eq(find(rows[i], "a.b", &c), -1, "%s", rows[i]);
		credential_release(&c);
	}
}

Test(credential, helpers_are_named_for_one_registry_or_for_all)
{
	static const struct { const char *text; int found; const char *name; } rows[] = {
		{ "{}", 0, NULL }, { "{\"credsStore\":\"\"}", 0, NULL }, { "{\"credsStore\":\"pass\"}", 1, "pass" },
		{ "{\"credsStore\":\"pass\",\"credHelpers\":{\"a.b\":\"ecr\"}}", 1, "ecr" },
		{ "{\"credHelpers\":{\"https://a.b/v2/\":\"ecr\"}}", 1, "ecr" },
		{ "{\"credHelpers\":{\"c.a.b\":\"ecr\",\"a.b.c\":\"ecr\"}}", 0, NULL },
		{ "{\"credHelpers\":{\"a.b\":7}}", -1, NULL }, { "{\"credHelpers\":7}", -1, NULL },
		{ "{\"credsStore\":7}", -1, NULL }, { "[]", -1, NULL },
		{ "{\"credsStore\":\"0123456789\"}", -1, NULL },	/* longer than there is room */
	};
	char name[10];
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_eq(credential_helper(rows[i].text, strlen(rows[i].text), "a.b", "test", name, sizeof(name), &e),
			     rows[i].found, "%s", rows[i].text);
		if (rows[i].found > 0)
			cr_expect_str_eq(name, rows[i].name);
	}
}
