/* SPDX-License-Identifier: Apache-2.0 */
/* Strings, numbers, booleans, arrays and inline tables. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/toml_lex.h"

/* ---- strings ---- */

static int at_text(const struct toml *t, const char *s)
{
	size_t n = strlen(s);

	return (size_t)(t->end - t->p) >= n && !memcmp(t->p, s, n);
}

static int add_code_point(struct toml *t, struct buf *out, uint32_t c, const char *at)
{
	char u[4];
	size_t n;

	if (!c)
		return toml_fail(t, at, "U+0000 in a string is refused");
	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return toml_fail(t, at, "\\u escape is not a Unicode scalar value");
	if (c < 0x80) {
		n = 1;
		u[0] = (char)c;
	} else if (c < 0x800) {
		n = 2;
		u[0] = (char)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		n = 3;
		u[0] = (char)(0xe0 | c >> 12);
		u[1] = (char)(0x80 | (c >> 6 & 0x3f));
	} else {
		n = 4;
		u[0] = (char)(0xf0 | c >> 18);
		u[1] = (char)(0x80 | (c >> 12 & 0x3f));
		u[2] = (char)(0x80 | (c >> 6 & 0x3f));
	}
	if (n > 1)
		u[n - 1] = (char)(0x80 | (c & 0x3f));
	return buf_add(out, u, n, t->e);
}

/* p is on the backslash. */
static int escape(struct toml *t, struct buf *out)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	const char *at = t->p, *f;
	char c = '\0';
	uint32_t v = 0;
	int n;

	t->p++;
	if (t->p < t->end)
		c = *t->p++;
	f = c ? strchr(from, c) : NULL;
	if (f)
		return buf_add(out, to + (f - from), 1, t->e);
	if (c != 'u' && c != 'U')
		return toml_fail(t, at, "unknown escape; hint: \\\\ for a backslash, or 'literal' quotes");
	for (n = c == 'u' ? 4 : 8; n; n--, t->p++) {
		int d = t->p < t->end ? hex_digit(*t->p) : -1;

		if (d < 0)
			return toml_fail(t, at, "\\%c needs %d hex digits", c, c == 'u' ? 4 : 8);
		v = v << 4 | (uint32_t)d;
	}
	return add_code_point(t, out, v, at);
}

/*
 * A backslash, blanks, a newline: all white space up to the next text is dropped. 1 if this was
 * the case.
 */
static int line_continuation(struct toml *t)
{
	const char *s = t->p + 1;

	while (s < t->end && (*s == ' ' || *s == '\t'))
		s++;
	if (s < t->end && *s == '\r' && s + 1 < t->end && s[1] == '\n')
		s++;
	if (s == t->end || *s != '\n')
		return 0;
	while (s < t->end && (*s == ' ' || *s == '\t' || *s == '\n' || (*s == '\r' && s + 1 < t->end && s[1] == '\n')))
		s++;
	t->p = s;
	return 1;
}

/* One byte of the text itself, with CRLF as LF. */
static int plain(struct toml *t, struct buf *out, int multi)
{
	char c = *t->p;

	if (c == '\r' && multi && t->p + 1 < t->end && t->p[1] == '\n')
		c = *++t->p;
	if (c == '\n' && !multi)
		return toml_fail(t, t->p, "string not closed on its line");
	if (((unsigned char)c < 0x20 && c != '\t' && c != '\n') || c == 0x7f)
		return toml_fail(t, t->p, "control character 0x%02x in a string; hint: \\u%04X in \"quotes\"",
				 (unsigned char)c, (unsigned char)c);
	t->p++;
	return buf_add(out, &c, 1, t->e);
}

/* After the opening quotes.  Up to two quotes may stand before the closing three. */
static int string_body(struct toml *t, struct buf *out, char quote, int multi, const char *start)
{
	const char three[] = { quote, quote, quote, '\0' };

	while (t->p < t->end) {
		if (*t->p == quote && !multi) {
			t->p++;
			return 0;
		}
		if (multi && at_text(t, three)) {
			int extra = 0;

			t->p += 3;
			for (; extra < 2 && t->p < t->end && *t->p == quote; extra++, t->p++)
				if (buf_add(out, &quote, 1, t->e) < 0)
					return -1;
			return 0;
		}
		if (*t->p == '\\' && quote == '"') {
			if (multi && line_continuation(t))
				continue;
			if (escape(t, out) < 0)
				return -1;
		} else if (plain(t, out, multi) < 0) {
			return -1;
		}
	}
	return toml_fail(t, start, "string is not closed");
}

int toml_read_string(struct toml *t, struct buf *out, int multi)
{
	const char *start = t->p;
	char quote = *t->p;
	const char three[] = { quote, quote, quote, '\0' };

	if (!at_text(t, three)) {
		t->p++;
		return string_body(t, out, quote, 0, start);
	}
	if (!multi)
		return toml_fail(t, start, "a key cannot be a multi-line string");
	t->p += 3;
	if (at_text(t, "\r\n"))
		t->p += 2;
	else if (at_text(t, "\n"))
		t->p++;
	return string_body(t, out, quote, 1, start);
}

static json_t *string_value(struct toml *t)
{
	autobuf struct buf b = BUF_INIT(TOML_BYTES_MAX + 64);
	json_t *j;

	if (toml_read_string(t, &b, 1) < 0)
		return NULL;
	j = json_stringn(b.data ? b.data : "", b.len);
	if (!j)
		err_nomem(t->e);
	return j;
}

/* ---- numbers and words ---- */

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits, with each _ between two of them; returns the number of bytes, or 0. */
static size_t digits(const char *s, const char *end, unsigned base)
{
	size_t n = 0;

	for (;;) {
		int d = s + n < end ? hex_digit(s[n]) : -1;

		if (d < 0 || (unsigned)d >= base)
			return 0;	/* at the start, or after an underscore */
		while (d >= 0 && (unsigned)d < base) {
			n++;
			d = s + n < end ? hex_digit(s[n]) : -1;
		}
		if (s + n == end || s[n] != '_')
			return n;
		n++;
	}
}

static json_t *integer(struct toml *t, const char *s, const char *end, unsigned base, int negative, const char *at)
{
	uint64_t v = 0, max = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
	json_t *j;

	for (; s < end; s++) {
		if (*s == '_')
			continue;
		if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, (uint64_t)hex_digit(*s), &v) ||
		    v > max) {
			toml_fail(t, at, "integer does not fit in 64 bits");
			return NULL;
		}
	}
	j = json_integer((json_int_t)(negative ? 0 - v : v));
	if (!j)
		err_nomem(t->e);
	return j;
}

static json_t *real(struct toml *t, const char *s, const char *end, const char *at)
{
	char text[128];
	size_t n = 0;
	double d;
	json_t *j;

	for (; s < end; s++) {
		if (*s == '_')
			continue;
		if (n == sizeof(text) - 1) {
			toml_fail(t, at, "number of more than %zu digits", sizeof(text) - 1);
			return NULL;
		}
		text[n++] = *s;
	}
	text[n] = '\0';
	d = strtod(text, NULL);	/* nothing calls setlocale(3), so the decimal point is a point */
	if (!isfinite(d)) {
		toml_fail(t, at, "number is too large");
		return NULL;
	}
	j = json_real(d);
	if (!j)
		err_nomem(t->e);
	return j;
}

/* The characters of a number, word or date, to show it in an error. */
static int token_len(const struct toml *t, const char *at)
{
	size_t n = 0;

	while (at + n < t->end && n < 40 && !strchr(" \t\r\n,]}#=\"'[{", at[n]))
		n++;
	return (int)n;
}

static json_t *bad_value(struct toml *t, const char *at)
{
	size_t left = (size_t)(t->end - at);
	int len = token_len(t, at);

	if ((left >= 5 && is_digit(at[0]) && is_digit(at[1]) && is_digit(at[2]) && is_digit(at[3]) && at[4] == '-') ||
	    (left >= 3 && is_digit(at[0]) && is_digit(at[1]) && at[2] == ':'))
		toml_fail(t, at, "dates and times are not read; hint: put it in quotes");
	else if (!len)
		toml_fail(t, at, "expected a value");
	else if (is_digit(at[0]) || at[0] == '+' || at[0] == '-' || at[0] == '.')
		toml_fail(t, at, "'%.*s' is not a number; hint: put text in quotes", len, at);
	else
		toml_fail(t, at, "'%.*s' is not a value; hint: put text in quotes", len, at);
	return NULL;
}

/* The number must end where a value may end. */
static int ends_value(const struct toml *t, const char *s)
{
	return s == t->end || strchr(" \t\r\n,]}#", *s);
}

static json_t *prefixed(struct toml *t, const char *at)
{
	unsigned base = at[1] == 'x' ? 16 : at[1] == 'o' ? 8 : 2;
	size_t n = digits(at + 2, t->end, base);

	if (!n || !ends_value(t, at + 2 + n))
		return bad_value(t, at);
	t->p = at + 2 + n;
	return integer(t, at + 2, t->p, base, 0, at);
}

static json_t *number(struct toml *t)
{
	const char *at = t->p, *s = at;
	int negative = *s == '-', is_real = 0;
	size_t n;

	if (t->end - s > 2 && *s == '0' && (s[1] == 'x' || s[1] == 'o' || s[1] == 'b'))
		return prefixed(t, at);
	s += *s == '-' || *s == '+';
	if ((size_t)(t->end - s) >= 3 && (!memcmp(s, "inf", 3) || !memcmp(s, "nan", 3))) {
		toml_fail(t, at, "inf and nan are refused; hint: a finite number");
		return NULL;
	}
	n = digits(s, t->end, 10);
	if (!n || (n > 1 && *s == '0'))
		return bad_value(t, at);
	s += n;
	if (s < t->end && *s == '.') {
		is_real = 1;
		n = digits(++s, t->end, 10);
		if (!n)
			return bad_value(t, at);
		s += n;
	}
	if (s < t->end && (*s == 'e' || *s == 'E')) {
		is_real = 1;
		s++;
		s += s < t->end && (*s == '-' || *s == '+');
		n = digits(s, t->end, 10);
		if (!n)
			return bad_value(t, at);
		s += n;
	}
	if (!ends_value(t, s))
		return bad_value(t, at);
	t->p = s;
	return is_real ? real(t, at, s, at) : integer(t, at + (*at == '-' || *at == '+'), s, 10, negative, at);
}

static json_t *word(struct toml *t)
{
	int truth = at_text(t, "true");

	if ((truth || at_text(t, "false")) && ends_value(t, t->p + (truth ? 4 : 5))) {
		t->p += truth ? 4 : 5;
		return json_boolean(truth);
	}
	if (at_text(t, "inf") || at_text(t, "nan")) {
		toml_fail(t, t->p, "inf and nan are refused; hint: a finite number");
		return NULL;
	}
	return bad_value(t, t->p);
}

/* ---- what holds other values ---- */

static int array_items(struct toml *t, json_t *a, unsigned depth, const char *start)
{
	for (;;) {
		json_t *item;

		if (toml_skip_lines(t) < 0)
			return -1;
		if (t->p < t->end && *t->p == ']')
			break;
		item = t->p < t->end ? toml_read_value(t, depth) : NULL;
		if (!item)
			return t->p < t->end ? -1 : toml_fail(t, start, "array is not closed");
		if (json_array_append_new(a, item) < 0)
			return err_nomem(t->e);
		if (toml_skip_lines(t) < 0)
			return -1;
		if (t->p == t->end)
			return toml_fail(t, start, "array is not closed");
		if (*t->p == ']')
			break;
		if (*t->p != ',')
			return toml_fail(t, t->p, "expected , or ] in the array");
		t->p++;
	}
	t->p++;
	return 0;
}

static int table_items(struct toml *t, json_t *table, unsigned depth, const char *start)
{
	toml_skip_blanks(t);
	if (t->p < t->end && *t->p == '}') {
		t->p++;
		return 0;
	}
	for (;;) {
		toml_skip_blanks(t);
		if (toml_read_pair(t, table, depth) < 0)
			return -1;
		toml_skip_blanks(t);
		if (t->p == t->end)
			return toml_fail(t, start, "inline table is not closed");
		if (*t->p == '}')
			break;
		if (*t->p != ',')
			return toml_fail(t, t->p, "expected , or } in the inline table");
		t->p++;
	}
	t->p++;
	return 0;
}

static json_t *nested(struct toml *t, unsigned depth)
{
	const char *start = t->p;
	int is_array = *t->p == '[';
	json_t *j = is_array ? json_array() : json_object();

	if (!j) {
		err_nomem(t->e);
		return NULL;
	}
	t->p++;
	if (depth >= TOML_DEPTH_MAX)
		toml_fail(t, start, "values nested deeper than %d", TOML_DEPTH_MAX);
	else if ((is_array ? array_items(t, j, depth + 1, start) : table_items(t, j, depth + 1, start)) == 0)
		return j;
	json_decref(j);
	return NULL;
}

json_t *toml_read_value(struct toml *t, unsigned depth)
{
	if (t->p == t->end) {
		toml_fail(t, t->p, "expected a value");
		return NULL;
	}
	switch (*t->p) {
	case '"':
	case '\'':
		return string_value(t);
	case '[':
	case '{':
		return nested(t, depth);
	case '+': case '-': case '0': case '1': case '2': case '3': case '4':
	case '5': case '6': case '7': case '8': case '9':
		return number(t);
	default:
		return word(t);
	}
}
