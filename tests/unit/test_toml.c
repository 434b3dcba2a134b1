/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/toml.h"

struct good {
	const char *toml, *json;	/* json: compact, keys sorted */
};

struct bad {
	const char *toml;
	int line, column;
	const char *text;	/* part of the message */
};

static void expect_good(const struct good *g, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct err e = { 0 };
		autojson json_t *j = toml_parse(g[i].toml, strlen(g[i].toml), "t", &e);
		autofree char *s = NULL;

		cr_expect(j, "refused: %s\n%s", g[i].toml, e.msg);
		s = j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(15)) : NULL;
		cr_expect(!s || !strcmp(s, g[i].json), "%s\n  gives    %s\n  expected %s", g[i].toml, s, g[i].json);
	}
}

static void expect_bad(const struct bad *b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct err e = { 0 };
		autojson json_t *j = toml_parse(b[i].toml, strlen(b[i].toml), "t", &e);
		char place[32];

		snprintf(place, sizeof(place), "t:%d:%d: ", b[i].line, b[i].column);
		cr_expect(!j, "accepted: %s", b[i].toml);
		cr_expect(j || (e.code == ERR_INVALID && !strncmp(e.msg, place, strlen(place)) && strstr(e.msg, b[i].text)),
			  "%s\n  says     %s\n  expected %s...%s", b[i].toml, e.msg, place, b[i].text);
	}
}

Test(toml, keys_are_bare_quoted_or_dotted)
{
	static const struct good t[] = {
		{ "", "{}" },
		{ "# only a comment", "{}" },
		{ "key = 'v'", "{\"key\":\"v\"}" },
		{ "bare-key_1=1\n1234 = 2", "{\"1234\":2,\"bare-key_1\":1}" },
		{ "\"127.0.0.1\" = 1\n'quoted \"x\"' = 2", "{\"127.0.0.1\":1,\"quoted \\\"x\\\"\":2}" },
		{ "\"\" = 1", "{\"\":1}" },
		{ "a.b.c = 1\na . b . d = 2", "{\"a\":{\"b\":{\"c\":1,\"d\":2}}}" },
		{ "site.\"google.com\" = true", "{\"site\":{\"google.com\":true}}" },
		{ "3.14159 = 'pi'", "{\"3\":{\"14159\":\"pi\"}}" },
		{ "a.x=1\nb.x=2\na.y=3", "{\"a\":{\"x\":1,\"y\":3},\"b\":{\"x\":2}}" },
		{ "\"\\u0061\" = 1", "{\"a\":1}" },
		{ "\xef\xbb\xbf" "a=1", "{\"a\":1}" },
		{ "a=1\r\nb=2\r\n", "{\"a\":1,\"b\":2}" },
	};
	static const struct bad b[] = {
		{ "= 1", 1, 1, "expected a key" },
		{ "a", 1, 2, "expected =" },
		{ "a = ", 1, 5, "expected a value" },
		{ "a =\n1", 1, 4, "expected a value" },
		{ "a\n= 1", 1, 2, "expected =" },
		{ "a = 1 b = 2", 1, 7, "more on the line" },
		{ "a. = 1", 1, 4, "expected a key" },
		{ ".a = 1", 1, 1, "expected a key" },
		{ "a..b = 1", 1, 3, "expected a key" },
		{ "a b = 1", 1, 3, "expected =" },
		{ "\xc3\xa9 = 1", 1, 1, "expected a key" },
		{ "\"\"\"a\"\"\" = 1", 1, 1, "multi-line" },
		{ "a = 1\na = 2", 2, 1, "'a' is defined twice" },
		{ "a = 1\n\"a\" = 2", 2, 1, "'a' is defined twice" },
		{ "a = 1\na.b = 2", 2, 1, "cannot be added to" },
		{ "a.b = 1\na = 2", 2, 1, "'a' is defined twice" },
		{ "a = 1\rb = 2", 1, 6, "carriage return" },
		{ "a = 1 # \x01", 1, 9, "control character 0x01" },
		{ "\xc3\xa9\xff", 1, 2, "byte 0xff is not UTF-8" },
		{ "a = '\xed\xa0\x80'", 1, 6, "not UTF-8" },
		{ "a = '\xc0\xaf'", 1, 6, "not UTF-8" },
		{ "a = '\xf4\x90\x80\x80'", 1, 6, "not UTF-8" },
		{ "a = '\xe2\x82", 1, 6, "not UTF-8" },
	};

	expect_good(t, ARRAY_LEN(t));
	expect_bad(b, ARRAY_LEN(b));
}

Test(toml, strings_of_four_kinds)
{
	static const struct good t[] = {
		{ "a = \"\"", "{\"a\":\"\"}" },
		{ "a = \"\\b\\t\\n\\f\\r\\\"\\\\\"", "{\"a\":\"\\b\\t\\n\\f\\r\\\"\\\\\"}" },
		{ "a = \"\\u00e9 \\U0001F600\"", "{\"a\":\"\xc3\xa9 \xf0\x9f\x98\x80\"}" },
		{ "a = \"tab\there\"", "{\"a\":\"tab\\there\"}" },
		{ "a = \"# no comment\" # one", "{\"a\":\"# no comment\"}" },
		{ "a = 'C:\\Users\\n'", "{\"a\":\"C:\\\\Users\\\\n\"}" },
		{ "a = \"\"\"\nRoses\nViolets\"\"\"", "{\"a\":\"Roses\\nViolets\"}" },
		{ "a = \"\"\"\r\nx\r\ny\"\"\"", "{\"a\":\"x\\ny\"}" },
		{ "a = \"\"\"\\\n   The fox \\\n\n\n   jumps.\\\n   \"\"\"", "{\"a\":\"The fox jumps.\"}" },
		{ "a = \"\"\"x \\  \n y\"\"\"", "{\"a\":\"x y\"}" },
		{ "a = \"\"\"Two: \"\". Three: \"\"\\\".\"\"\"", "{\"a\":\"Two: \\\"\\\". Three: \\\"\\\"\\\".\"}" },
		{ "a = \"\"\"\"quoted\"\"\"\"", "{\"a\":\"\\\"quoted\\\"\"}" },
		{ "a = \"\"\"\"\"q\"\"\"\"\"", "{\"a\":\"\\\"\\\"q\\\"\\\"\"}" },
		{ "a = \"\"\"\"\"\"", "{\"a\":\"\"}" },
		{ "a = '''I'd \\d{2}'''", "{\"a\":\"I'd \\\\d{2}\"}" },
		{ "a = '''\nx\n'''", "{\"a\":\"x\\n\"}" },
		{ "a = '''''x'''''", "{\"a\":\"''x''\"}" },
	};
	static const struct bad b[] = {
		{ "a = \"x", 1, 5, "string is not closed" },
		{ "a = \"x\ny\"", 1, 7, "not closed on its line" },
		{ "a = 'x\n'", 1, 7, "not closed on its line" },
		{ "a = \"\"\"x", 1, 5, "string is not closed" },
		{ "a = '''x''", 1, 5, "string is not closed" },
		{ "a = \"\\x41\"", 1, 6, "unknown escape" },
		{ "a = \"\\ \"", 1, 6, "unknown escape" },
		{ "a = \"\\u12\"", 1, 6, "\\u needs 4 hex digits" },
		{ "a = \"\\U0000004\"", 1, 6, "\\U needs 8 hex digits" },
		{ "a = \"\\ud800\"", 1, 6, "scalar value" },
		{ "a = \"\\U00110000\"", 1, 6, "scalar value" },
		{ "a = \"\\u0000\"", 1, 6, "U+0000" },
		{ "a = \"\x1f\"", 1, 6, "control character 0x1f" },
		{ "a = \"\x7f\"", 1, 6, "control character 0x7f" },
		{ "a = '\x08'", 1, 6, "control character 0x08" },
		{ "a = \"\"\"\rx\"\"\"", 1, 8, "control character 0x0d" },
		{ "a = 'it's'", 1, 9, "more on the line" },
		{ "a = \"\"\"\"\"\"\"\"\"", 1, 13, "more on the line" },
		{ "a = \"\"\"x \\ y\"\"\"", 1, 10, "unknown escape" },
	};

	expect_good(t, ARRAY_LEN(t));
	expect_bad(b, ARRAY_LEN(b));
}

Test(toml, numbers_and_words)
{
	static const struct good t[] = {
		{ "a = [+99, 42, 0, -17, +0, -0]", "{\"a\":[99,42,0,-17,0,0]}" },
		{ "a = [1_000, 5_349_221, 1_2_3]", "{\"a\":[1000,5349221,123]}" },
		{ "a = [0xDEADBEEF, 0xdead_beef, 0o755, 0b1101, 0x00]", "{\"a\":[3735928559,3735928559,493,13,0]}" },
		{ "a = [9223372036854775807, -9223372036854775808]", "{\"a\":[9223372036854775807,-9223372036854775808]}" },
		{ "a = [1.0, -0.5, +2.25]", "{\"a\":[1.0,-0.5,2.25]}" },
		{ "a = [5e2, 1e06, -2E-2, 1.5e+1, 0e0, 1e0_2]", "{\"a\":[500.0,1000000.0,-0.02,15.0,0.0,100.0]}" },
		{ "a = 9_224.5_1", "{\"a\":9224.51}" },
		{ "a = [true, false]", "{\"a\":[true,false]}" },
	};
	static const struct bad b[] = {
		{ "a = 01", 1, 5, "'01' is not a number" },
		{ "a = -01", 1, 5, "not a number" },
		{ "a = 1__0", 1, 5, "not a number" },
		{ "a = _1", 1, 5, "'_1' is not a value" },
		{ "a = 1_", 1, 5, "not a number" },
		{ "a = 0x", 1, 5, "not a number" },
		{ "a = 0x_1", 1, 5, "not a number" },
		{ "a = 0xg", 1, 5, "not a number" },
		{ "a = 0o8", 1, 5, "not a number" },
		{ "a = 0b2", 1, 5, "not a number" },
		{ "a = -0x1", 1, 5, "not a number" },
		{ "a = 0X1", 1, 5, "not a number" },
		{ "a = 9223372036854775808", 1, 5, "64 bits" },
		{ "a = -9223372036854775809", 1, 5, "64 bits" },
		{ "a = 0xffffffffffffffff", 1, 5, "64 bits" },
		{ "a = 1.", 1, 5, "not a number" },
		{ "a = .5", 1, 5, "'.5' is not a number" },
		{ "a = 1.e5", 1, 5, "not a number" },
		{ "a = 1e", 1, 5, "not a number" },
		{ "a = 1._5", 1, 5, "not a number" },
		{ "a = 01.5", 1, 5, "not a number" },
		{ "a = 1e999", 1, 5, "too large" },
		{ "a = inf", 1, 5, "inf and nan" },
		{ "a = -nan", 1, 5, "inf and nan" },
		{ "a = + 1", 1, 5, "not a number" },
		{ "a = 512m", 1, 5, "'512m' is not a number; hint: put text in quotes" },
		{ "a = host", 1, 5, "'host' is not a value; hint: put text in quotes" },
		{ "a = True", 1, 5, "not a value" },
		{ "a = truer", 1, 5, "not a value" },
		{ "a = 1979-05-27T07:32:00Z", 1, 5, "dates and times are not read" },
		{ "a = 1979-05-27", 1, 5, "dates and times" },
		{ "a = 07:32:00", 1, 5, "dates and times" },
	};

	expect_good(t, ARRAY_LEN(t));
	expect_bad(b, ARRAY_LEN(b));
}

Test(toml, arrays_and_inline_tables)
{
	static const struct good t[] = {
		{ "a = []", "{\"a\":[]}" },
		{ "a = [ 1, 2, ]", "{\"a\":[1,2]}" },
		{ "a = [ # c\n 1 # d\n , # e\n 2\n\n]", "{\"a\":[1,2]}" },
		{ "a = [[1], ['x', 2.5], {b = 1}]", "{\"a\":[[1],[\"x\",2.5],{\"b\":1}]}" },
		{ "a = {}\nb = { }", "{\"a\":{},\"b\":{}}" },
		{ "a = {x = 1, y.z = 2, y.w = 3}", "{\"a\":{\"x\":1,\"y\":{\"w\":3,\"z\":2}}}" },
		{ "a = {x = [\n1,\n2\n]}", "{\"a\":{\"x\":[1,2]}}" },
	};
	static const struct bad b[] = {
		{ "a = [1", 1, 5, "array is not closed" },
		{ "a = [1,", 1, 5, "array is not closed" },
		{ "a = [1 2]", 1, 8, "expected , or ]" },
		{ "a = [,]", 1, 6, "expected a value" },
		{ "a = [1,,2]", 1, 8, "expected a value" },
		{ "a = {x = 1", 1, 5, "inline table is not closed" },
		{ "a = {x = 1,}", 1, 12, "expected a key" },
		{ "a = {x = 1\n}", 1, 11, "expected , or }" },
		{ "a = {x = 1 y = 2}", 1, 12, "expected , or }" },
		{ "a = {x = 1, x = 2}", 1, 13, "'x' is defined twice" },
		{ "a = {x.y = 1, x = 2}", 1, 15, "'x' is defined twice" },
		{ "a = {b = {c = 1}, b.d = 2}", 1, 19, "cannot be added to" },
		{ "a = {x = 1}\na.y = 2", 2, 1, "cannot be added to" },
		{ "a = {}\n[a.b]", 2, 1, "has a value already" },
		{ "a = {}\n[a]", 2, 1, "defined twice" },
		{ "a = [{x = 1}]\n[[a]]", 2, 1, "not an array of tables" },
		{ "a = []\n[[a]]", 2, 1, "not an array of tables" },
		{ "a = [{}]\n[a.b]", 2, 1, "has a value already" },
	};

	expect_good(t, ARRAY_LEN(t));
	expect_bad(b, ARRAY_LEN(b));
}

Test(toml, tables_are_defined_once)
{
	static const struct good t[] = {
		{ "[a]\nx = 1\n[b]\ny = 2", "{\"a\":{\"x\":1},\"b\":{\"y\":2}}" },
		{ "[ a . 'b c' ]\nx = 1", "{\"a\":{\"b c\":{\"x\":1}}}" },
		{ "[a.b.c]\n[a]\nx = 1", "{\"a\":{\"b\":{\"c\":{}},\"x\":1}}" },
		{ "[a.b]\n[a.c]\n[a]", "{\"a\":{\"b\":{},\"c\":{}}}" },
		{ "[a]\nb.c = 1\n[a.d]\n[a.b.e]", "{\"a\":{\"b\":{\"c\":1,\"e\":{}},\"d\":{}}}" },
		{ "[[a]]\nx = 1\n[[a]]\n[[a]]\nx = 3", "{\"a\":[{\"x\":1},{},{\"x\":3}]}" },
		{ "[[f]]\n[f.p]\nc = 1\n[[f.v]]\nn = 1\n[[f.v]]\nn = 2\n[[f]]\n[[f.v]]\nn = 3",
		  "{\"f\":[{\"p\":{\"c\":1},\"v\":[{\"n\":1},{\"n\":2}]},{\"v\":[{\"n\":3}]}]}" },
		{ "[[a.b]]\n[a]\nx = 1", "{\"a\":{\"b\":[{}],\"x\":1}}" },
		{ "[a] # comment", "{\"a\":{}}" },
	};
	static const struct bad b[] = {
		{ "[a]\n[a]", 2, 1, "table 'a' is defined twice" },
		{ "[a.b]\n[a]\n[a.b]", 3, 1, "table 'b' is defined twice" },
		{ "[a]\nb = 1\n[a.b]", 3, 1, "defined twice" },
		{ "[a]\nb = 1\n[a.b.c]", 3, 1, "has a value already" },
		{ "[f]\napple.color = 1\n[f.apple]", 3, 1, "defined twice" },
		{ "[f]\napple.taste.sweet = true\n[f.apple.taste]", 3, 1, "defined twice" },
		{ "[a.b.c]\nz = 9\n[a]\nb.c.t = 1", 4, 1, "cannot be added to" },
		{ "[a.b.c.d]\nz = 9\n[a]\nb.c.d.k.t = 1", 4, 1, "cannot be added to" },
		{ "[[a.b]]\n[a]\nb.y = 2", 3, 1, "cannot be added to" },
		{ "a.b.c = 1\n[a]", 2, 1, "defined twice" },
		{ "[[a]]\n[a]", 2, 1, "defined twice" },
		{ "[a]\n[[a]]", 2, 1, "not an array of tables" },
		{ "[a.b]\n[[a]]", 2, 1, "not an array of tables" },
		{ "[[f]]\n[[f.v]]\n[f.v]", 3, 1, "defined twice" },
		{ "[]", 1, 2, "expected a key" },
		{ "[[]]", 1, 3, "expected a key" },
		{ "[a.]", 1, 4, "expected a key" },
		{ "[a b]", 1, 4, "expected ]" },
		{ "[a", 1, 3, "expected ]" },
		{ "[[a]", 1, 4, "expected ]]" },
		{ "[[a] ]", 1, 4, "expected ]]" },
		{ "[ [a]]", 1, 3, "expected a key" },
		{ "[a] x = 1", 1, 5, "more on the line" },
	};

	expect_good(t, ARRAY_LEN(t));
	expect_bad(b, ARRAY_LEN(b));
}

static char *repeated(const char *head, const char *s, size_t n, const char *tail)
{
	size_t len = strlen(s), i;
	char *text = malloc(strlen(head) + n * len + strlen(tail) + 1), *p = text;

	cr_assert(text);
	p = stpcpy(p, head);
	for (i = 0; i < n; i++)
		p = stpcpy(p, s);
	strcpy(p, tail);
	return text;
}

static int accepted(const char *text, size_t n, const char *part)
{
	struct err e = { 0 };
	autojson json_t *j = toml_parse(text, n, "t", &e);

	cr_expect(j || strstr(e.msg, part), "%s", e.msg);
	return j != NULL;
}

Test(toml, depth_is_bounded_whichever_way_it_is_reached)
{
	static const struct { const char *head, *s, *tail; size_t n; int ok; } t[] = {
		{ "a = ", "[", "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", 30, 1 },
		{ "a = ", "[", "", 40, 0 },
		{ "a = ", "[", "", 500000, 0 },
		{ "a = ", "{a=", "", 100000, 0 },
		{ "a", ".a", " = 1", 30, 1 },
		{ "a", ".a", " = 1", 32, 0 },
		{ "[a", ".a", "]", 31, 1 },
		{ "[a", ".a", "]", 32, 0 },
		{ "[a", ".a", "]\nb.c = 1", 31, 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++) {
		autofree char *text = repeated(t[i].head, t[i].s, t[i].n, t[i].tail);

		cr_expect_eq(accepted(text, strlen(text), t[i].n > 31 || !t[i].ok ? "than 32" : ""), t[i].ok,
			     "case %zu", i);
	}
}

Test(toml, size_and_number_of_keys_are_bounded)
{
	autofree char *big = repeated("#", "x", TOML_BYTES_MAX, "");
	autofree char *keys = malloc(TOML_BYTES_MAX);
	size_t n = 0, i;

	cr_expect_not(accepted(big, strlen(big), "more than 1048576 bytes"));
	cr_expect(accepted(big, TOML_BYTES_MAX, ""));
	for (i = 0; i < TOML_KEYS_MAX; i++)
		n += (size_t)sprintf(keys + n, "k%zu=1\n", i);
	cr_expect(accepted(keys, n, ""));
	n += (size_t)sprintf(keys + n, "last=1\n");
	cr_expect_not(accepted(keys, n, "more than 16384 keys"));
	for (i = 0, n = 0; i <= TOML_KEYS_MAX; i++)
		n += (size_t)sprintf(keys + n, "[[a]]\n");
	cr_expect_not(accepted(keys, n, "more than 16384 keys"));
}

Test(toml, a_nul_byte_is_refused_wherever_it_stands)
{
	cr_expect_not(accepted("a = 1\0", 6, "NUL"));
	cr_expect_not(accepted("a = '\0'", 7, "NUL"));
	cr_expect_not(accepted("\0", 1, "NUL"));
}
