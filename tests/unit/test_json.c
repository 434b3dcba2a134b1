/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile documents: depth, duplicates, NUL, size, types. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/json.h"
#include "base/mem.h"

static json_t *parse(const char *s, struct err *e)
{
	memset(e, 0, sizeof(*e));
	return json_parse(s, strlen(s), 1 << 20, "doc", e);
}

static void refused(const char *s)
{
	struct err e;
	autojson json_t *j = parse(s, &e);

	cr_expect_null(j, "accepted: %.80s", s);
	cr_expect_eq(e.code, ERR_CORRUPT, "%.80s", s);
	cr_expect_eq(strncmp(e.msg, "doc: ", 5), 0, "the message does not name the document: %s", e.msg);
}

static void accepted(const char *s)
{
	struct err e;
	autojson json_t *j = parse(s, &e);

	cr_expect_not_null(j, "%.80s: %s", s, e.msg);
}

Test(json, duplicate_keys_are_refused_at_any_depth)
{
	refused("{\"a\":1,\"a\":2}");
	refused("{\"a\":1,\"a\":1}");
	refused("{\"x\":[{\"a\":1,\"b\":2,\"a\":3}]}");
	refused("{\"a\":1,\"\\u0061\":2}");
	accepted("{\"a\":1,\"A\":2}");
}

static char *nested(char open, char close, int depth)
{
	char *s = malloc(2 * (size_t)depth + 1);
	int i;

	for (i = 0; i < depth; i++) {
		s[i] = open;
		s[2 * depth - 1 - i] = close;
	}
	s[2 * depth] = '\0';
	return s;
}

Test(json, depth_64_is_read_and_65_is_not)
{
	autofree char *ok = nested('[', ']', 64), *deep = nested('[', ']', 65), *abyss = nested('[', ']', 400000);
	char objects[64 * 6 + 2] = "";
	size_t i;

	accepted(ok);
	refused(deep);
	refused(abyss);
	for (i = 0; i < 64; i++)
		strcat(objects, "{\"a\":");
	strcat(objects, "1");
	memset(objects + strlen(objects), '}', 64);
	accepted(objects);
}

Test(json, brackets_inside_strings_are_not_depth)
{
	char s[400] = "\"";
	int i;

	for (i = 0; i < 100; i++)
		strcat(s, "[");
	strcat(s, "\\\"{{\"");
	{
		char doc[500];

		snprintf(doc, sizeof(doc), "[%s]", s);
		accepted(doc);
	}
}

Test(json, closing_brackets_do_not_buy_depth)
{
	static char s[300];
	int i;

	for (i = 0; i < 100; i++)
		s[i] = ']';
	for (i = 100; i < 200; i++)
		s[i] = '[';
	refused(s);
	refused("]]]]");
	refused("{]");
}

Test(json, a_nul_byte_is_refused_plain_and_escaped)
{
	static const char plain[] = "{\"a\":\"x\0y\"}", after[] = "{\"a\":1}\0", key[] = "{\"a\0b\":1}";
	static const char number[] = "[1\0]", member[] = "{\"a\":1\0}", space[] = "[ \0]";
	struct err e;

	cr_expect_null(json_parse(plain, sizeof(plain) - 1, 1000, "doc", &e));
	cr_expect_null(json_parse(after, sizeof(after) - 1, 1000, "doc", &e));
	cr_expect_null(json_parse(key, sizeof(key) - 1, 1000, "doc", &e));
	cr_expect_null(json_parse(number, sizeof(number) - 1, 1000, "doc", &e));
	cr_expect_null(json_parse(member, sizeof(member) - 1, 1000, "doc", &e));
	cr_expect_null(json_parse(space, sizeof(space) - 1, 1000, "doc", &e));
	refused("{\"a\\u0000b\":1}");
}

/* jansson allows \u0000 only on request; a value that had one could never be handed to the kernel whole. */
Test(json, a_string_value_never_holds_a_nul)
{
	struct err e;
	autojson json_t *j = parse("{\"a\":\"x\\u0000y\"}", &e);
	const char *s = NULL;

	if (j)
		cr_expect_eq(json_get_str(j, "a", &s, "doc", &e), -1);
	cr_expect_null(s);
}

Test(json, trailing_text_and_no_text_are_refused)
{
	static const char *const t[] = {
		"", " ", "{", "}", "[", "{}x", "{}{}", "[] []", "{\"a\":1,}", "{a:1}", "{'a':1}", "[1,]", "[,1]", "nul", "\"\\x\"",
		"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\\ud800\"", "\"tab\there\"", "\"new\nline\"", "[01]", "[+1]", "[.5]",
		"[1e999]", "[99999999999999999999]", "[-99999999999999999999]", "[NaN]", "[Infinity]", "// c\n{}", "{\"a\":1 \"b\":2}",
		"{\"a\"}", "{\"a\":}", "\xef\xbb\xbf{}", "[1 2]",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		refused(t[i]);
	accepted(" \n{ \"a\" : 1 }\n");
}

Test(json, a_document_over_the_size_limit_is_refused_unread)
{
	struct err e;
	autojson json_t *j = json_parse("[1,2]", 5, 5, "doc", &e);

	cr_expect_not_null(j);
	cr_expect_null(json_parse("[1,2]", 5, 4, "doc", &e));
	cr_expect_eq(e.code, ERR_CORRUPT);
	cr_expect(strstr(e.msg, "4"), "%s", e.msg);
}

Test(json, the_text_need_not_be_terminated)
{
	char *exact = malloc(2);
	struct err e;
	autojson json_t *j = NULL;

	memcpy(exact, "{}", 2);
	j = json_parse(exact, 2, 10, "doc", &e);
	cr_expect_not_null(j);
	memcpy(exact, "\"\\", 2);
	cr_expect_null(json_parse(exact, 2, 10, "doc", &e));
	free(exact);
}

static const char sample[] =
	"{\"s\":\"text\",\"n\":7,\"neg\":-1,\"f\":1.5,\"t\":true,\"u\":false,\"z\":null,\"o\":{\"k\":1},\"a\":[1],\"big\":9223372036854775807,"
	"\"zero\":0,\"empty\":\"\"}";

Test(json, the_getters_find_what_is_there)
{
	struct err e;
	autojson json_t *j = parse(sample, &e);
	const char *s;
	uint64_t n;
	int b;
	json_t *o;

	cr_assert(j);
	cr_expect_eq(json_get_str(j, "s", &s, "doc", &e), 1);
	cr_expect_str_eq(s, "text");
	cr_expect_eq(json_get_str(j, "empty", &s, "doc", &e), 1);
	cr_expect_str_eq(s, "");
	cr_expect_eq(json_get_u64(j, "n", &n, "doc", &e), 1);
	cr_expect_eq(n, 7);
	cr_expect_eq(json_get_u64(j, "zero", &n, "doc", &e), 1);
	cr_expect_eq(n, 0);
	cr_expect_eq(json_get_u64(j, "big", &n, "doc", &e), 1);
	cr_expect_eq(n, INT64_MAX);
	cr_expect_eq(json_get_bool(j, "t", &b, "doc", &e), 1);
	cr_expect_eq(b, 1);
	cr_expect_eq(json_get_bool(j, "u", &b, "doc", &e), 1);
	cr_expect_eq(b, 0);
	cr_expect_eq(json_get_obj(j, "o", &o, "doc", &e), 1);
	cr_expect(json_is_object(o));
	cr_expect_eq(json_get_arr(j, "a", &o, "doc", &e), 1);
	cr_expect(json_is_array(o));
}

Test(json, absent_and_null_are_neither_found_nor_errors)
{
	static const char *const keys[] = { "none", "z" };
	struct err e;
	autojson json_t *j = parse(sample, &e);
	const char *s = "kept";
	uint64_t n = 5;
	int b = 6;
	json_t *o = NULL;
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		cr_expect_eq(json_get_str(j, keys[i], &s, "doc", &e), 0);
		cr_expect_eq(json_get_u64(j, keys[i], &n, "doc", &e), 0);
		cr_expect_eq(json_get_bool(j, keys[i], &b, "doc", &e), 0);
		cr_expect_eq(json_get_obj(j, keys[i], &o, "doc", &e), 0);
		cr_expect_eq(json_get_arr(j, keys[i], &o, "doc", &e), 0);
	}
	cr_expect_str_eq(s, "kept");
	cr_expect(n == 5 && b == 6 && !o);
}

Test(json, a_value_of_the_wrong_type_is_refused_by_name)
{
	static const char *const keys[] = { "s", "n", "neg", "f", "t", "o", "a" };
	struct err e = { 0 };
	autojson json_t *j = parse(sample, &e);
	const char *s = NULL;
	uint64_t n = 5;
	int b = 6;
	json_t *o = NULL;
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		const char *k = keys[i];

		cr_expect_eq(json_get_str(j, k, &s, "doc", &e), !strcmp(k, "s") ? 1 : -1, "%s as a string", k);
		cr_expect_eq(json_get_u64(j, k, &n, "doc", &e), !strcmp(k, "n") ? 1 : -1, "%s as a number", k);
		cr_expect_eq(json_get_bool(j, k, &b, "doc", &e), !strcmp(k, "t") ? 1 : -1, "%s as a truth", k);
		cr_expect_eq(json_get_obj(j, k, &o, "doc", &e), !strcmp(k, "o") ? 1 : -1, "%s as an object", k);
		cr_expect_eq(json_get_arr(j, k, &o, "doc", &e), !strcmp(k, "a") ? 1 : -1, "%s as an array", k);
	}
	cr_expect_eq(json_get_str(j, "n", &s, "doc", &e), -1);
	cr_expect_eq(e.code, ERR_CORRUPT);
	cr_expect_str_eq(e.msg, "doc: \"n\" is not a string");
}

Test(json, the_getters_take_something_that_is_no_object)
{
	struct err e;
	autojson json_t *j = parse("[1]", &e);
	const char *s = NULL;

	cr_expect_eq(json_get_str(j, "s", &s, "doc", &e), 0);
	cr_expect_eq(json_get_str(NULL, "s", &s, "doc", &e), 0);
}

Test(json, an_error_that_another_program_tells_never_becomes_success)
{
	static const struct {
		const char *text, *msg;
		enum err_code code;
	} t[] = {
		{ "{\"error\":{\"code\":\"limit\",\"message\":\"too many\"}}\n", "too many", ERR_LIMIT },
		{ "a note\n{\"error\":{\"code\":\"busy\",\"message\":\"held\",\"remedy\":\"wait\"}}", "held; hint: wait", ERR_BUSY },
		{ "{\"error\":{\"code\":\"a-later-one\",\"message\":\"new\"}}\n", "new", ERR_INTERNAL },
		{ "{\"error\":{\"code\":\"ok\",\"message\":\"odd\"}}\n", "odd", ERR_INTERNAL },
		{ "{\"error\":{\"code\":7,\"message\":\"typed\"}}\n", "typed", ERR_INTERNAL },
		{ "{\"error\":{\"code\":\"limit\"}}\n", "berth failed: {\"error\":{\"code\":\"limit\"}}\n", ERR_INTERNAL },
		{ "no document", "berth failed: no document", ERR_INTERNAL },
		{ "", "berth failed: it said nothing", ERR_INTERNAL },
		{ NULL, "berth failed: it said nothing", ERR_INTERNAL },
	};
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cr_expect_eq(json_take_error_line(t[i].text, "berth", &e), -1);
		cr_expect_eq(e.code, (int)t[i].code, "%s: %s", t[i].msg, err_name(e.code));
		cr_expect_str_eq(e.msg, t[i].msg);
	}
	cr_expect_eq(json_take_error(NULL, ERR_NET, "berthd", &e), -1);
	cr_expect_eq(e.code, ERR_NET);
}

Test(json, bytes_go_through_json_and_back)
{
	static const struct {
		const char *p;
		size_t n;
		const char *json;
	} t[] = {
		{ NULL, 0, "{\"x\":\"\"}" },
		{ "text", 4, "{\"x\":\"text\"}" },
		{ "\xc3\xa9", 2, "{\"x\":\"\xc3\xa9\"}" },
		{ "a\0b", 3, "{\"x_hex\":\"610062\"}" },	/* JSON readers refuse an escaped NUL, ours too */
		{ "\xff\x0a\xc3", 3, "{\"x_hex\":\"ff0ac3\"}" },
	};
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		autojson json_t *j = json_object();
		autobuf struct buf b = BUF_INIT(64);
		char text[64];

		cr_assert_eq(json_set_bytes(j, "x", t[i].p, t[i].n, &e), 0);
		text[json_dumpb(j, text, sizeof(text) - 1, JSON_COMPACT)] = '\0';
		cr_expect_str_eq(text, t[i].json);
		cr_assert_eq(json_get_bytes(j, "x", &b, "doc", &e), 1);
		cr_expect_eq(b.len, t[i].n);
		cr_expect(!t[i].n || !memcmp(b.data, t[i].p, t[i].n));
	}
}

Test(json, bytes_that_are_none_are_refused)
{
	static const struct {
		const char *json, *msg;
	} t[] = {
		{ "{\"x\":1}", "doc: \"x\" is not a string" },
		{ "{\"x\":null}", "doc: \"x\" is not a string" },
		{ "{\"x_hex\":null}", "doc: \"x_hex\" is not a string" },
		{ "{\"x_hex\":[]}", "doc: \"x_hex\" is not a string" },
		{ "{\"x\":\"a\",\"x_hex\":\"61\"}", "doc: both \"x\" and \"x_hex\" given" },
		{ "{\"x_hex\":\"6\"}", "doc: \"x_hex\" is not hexadecimal" },
		{ "{\"x_hex\":\"61 6\"}", "doc: \"x_hex\" is not hexadecimal" },
		{ "{\"x_hex\":\"\\t6\"}", "doc: \"x_hex\" is not hexadecimal" },
		{ "{\"x_hex\":\"+6\"}", "doc: \"x_hex\" is not hexadecimal" },
		{ "{\"x_base64\":7}", "doc: \"x_base64\" is not a string" },
		{ "{\"x_base64\":null}", "doc: \"x_base64\" is not a string" },
		{ "{\"x\":\"a\",\"x_base64\":\"YQ==\"}", "doc: both \"x\" and \"x_base64\" given" },
		{ "{\"x_hex\":\"61\",\"x_base64\":\"YQ==\"}", "doc: both \"x_hex\" and \"x_base64\" given" },
		{ "{\"x_base64\":\"YQ\"}", "doc: \"x_base64\" is not base64" },
		{ "{\"x_base64\":\"YQ=a\"}", "doc: \"x_base64\" is not base64" },
		{ "{\"x_base64\":\"Y===\"}", "doc: \"x_base64\" is not base64" },
		{ "{\"x_base64\":\"YR==\"}", "doc: \"x_base64\" is not base64" },
		{ "{\"x_base64\":\"YWJ=\"}", "doc: \"x_base64\" is not base64" },
		{ "{\"x_base64\":\"YQ==YQ==\"}", "doc: \"x_base64\" is not base64" },
		{ "{\"x_base64\":\"Y Q=\"}", "doc: \"x_base64\" is not base64" },
		{ "{\"x_base64\":\"_-aa\"}", "doc: \"x_base64\" is not base64" },
	};
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		autojson json_t *j = parse(t[i].json, &e);
		autobuf struct buf b = BUF_INIT(64);

		cr_expect_eq(json_get_bytes(j, "x", &b, "doc", &e), -1, "%s", t[i].json);
		cr_expect_eq(e.code, ERR_INVALID);
		cr_expect_str_eq(e.msg, t[i].msg);
	}
	autojson json_t *j = parse("{}", &e);
	autobuf struct buf b = BUF_INIT(64);

	cr_expect_eq(json_get_bytes(j, "x", &b, "doc", &e), 0);
}

Test(json, a_newer_format_is_told_from_damage)
{
	static const struct {
		const char *doc;
		int code;
	} rows[] = {
		{ "{\"version\":1}", 0 }, { "{\"version\":2}", 0 }, { "{\"version\":3}", ERR_UNSUPPORTED },
		{ "{\"version\":9223372036854775807}", ERR_UNSUPPORTED }, { "{\"version\":0}", ERR_CORRUPT },
		{ "{\"version\":-1}", ERR_CORRUPT }, { "{\"version\":1.0}", ERR_CORRUPT }, { "{\"version\":\"1\"}", ERR_CORRUPT },
		{ "{\"version\":null}", ERR_CORRUPT }, { "{}", ERR_CORRUPT }, { "[1]", ERR_CORRUPT },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		autojson json_t *doc = json_loads(rows[i].doc, 0, NULL);
		struct err e = { 0 };

		cr_expect_eq(json_check_version(doc, 2, "the file", &e), rows[i].code ? -1 : 0, "%s", rows[i].doc);
		cr_expect_eq(e.code, rows[i].code, "%s: %s", rows[i].doc, e.msg);
	}
}

Test(json, bytes_come_back_from_base64_at_every_length)
{
	static const char *const known[][2] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" } };
	unsigned char in[256], out[260];
	char text[400];
	struct err e;
	size_t i, n, got;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {	/* RFC 4648, section 10 */
		base64_encode(text, known[i][0], strlen(known[i][0]));
		cr_expect_str_eq(text, known[i][1]);
	}
	for (i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(255 - i);
	for (n = 0; n <= sizeof(in); n++) {
		base64_encode(text, in, n);
		cr_assert_eq(strlen(text), BASE64_LEN(n));
		cr_assert_eq(base64_decode(out, &got, text, strlen(text)), 0);
		cr_assert(got == n && !memcmp(in, out, n), "%zu bytes", n);
	}
	autobuf struct buf b = BUF_INIT(64);
	autojson json_t *j = parse("{\"x_base64\":\"AP8=\"}", &e);

	cr_expect_eq(json_get_bytes(j, "x", &b, "doc", &e), 1);
	cr_expect(b.len == 2 && !memcmp(b.data, "\0\377", 2));
}

Test(json, bytes_in_hexadecimal_become_base64_at_any_depth)
{
	static const char want[] = "{\"a\":[{\"name_base64\":\"/w==\"},1],\"b_base64\":\"\",\"c_hex\":\"xyz\",\"d\":\"ff\",\"o\":{\"x_base64\":\"AAE=\"}}";
	struct err e;
	autojson json_t *j = parse("{\"a\":[{\"name_hex\":\"ff\"},1],\"b_hex\":\"\",\"c_hex\":\"xyz\",\"d\":\"ff\",\"o\":{\"x_hex\":\"0001\"}}", &e);
	autofree char *text = NULL;

	cr_assert_eq(json_hex_to_base64(j, &e), 0);
	text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);
	cr_expect_str_eq(text, want);
}

Test(json, a_name_in_other_letters_is_found_when_only_one_member_has_it)
{
	autojson json_t *j = json_pack("{s:i,s:i,s:i}", "ApiVersion", 1, "id", 2, "ID", 3);

	cr_expect_eq(json_integer_value(json_named(j, "APIVersion")), 1);
	cr_expect_eq(json_integer_value(json_named(j, "id")), 2);
	cr_expect_null(json_named(j, "Id"), "two members have that name");
	cr_expect_null(json_named(j, "none"));
}
