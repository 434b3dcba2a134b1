/* SPDX-License-Identifier: Apache-2.0 */
/* The TOML reader: tables, headers and keys with the rules on what may be defined twice; then values. */
#include "base/toml.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/encoding.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

/*
 * The reader: a cursor over the text, and how each table came about.
 *
 * The cursor p never passes end.  A function that fails has set t->e and
 * leaves p where the fault is.
 */

/* How a table or array was made; decides what may still be added to it. */
enum toml_how {
	TOML_VALUE,	/* an inline table or array: closed */
	TOML_IMPLIED,	/* on the way to a [header]: may still get its own header, once */
	TOML_HEADER,	/* by [header], the root, or an element of [[header]] */
	TOML_DOTTED,	/* by a dotted key: may get more dotted keys, no header */
	TOML_LIST,	/* the array of [[header]] */
};

struct toml_mark {
	const json_t *j;
	enum toml_how how;
};

struct toml {
	const char *text, *p, *end;
	const char *what;
	struct err *e;
	size_t keys;			/* so far */
	/* a hash table by address, open addressing; a table that is not in it counts as TOML_VALUE */
	struct toml_mark *marks;
	size_t mark_count, mark_cap;	/* cap is 0 or a power of two */
};

struct toml_key {
	struct buf text;		/* the parts of the key, each with its NUL */
	size_t offset[TOML_DEPTH_MAX];
	size_t count;
};

/* Returns -1 with "what:line:column: message" for the place at. */
static int toml_fail(struct toml *t, const char *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Returns a new reference, or NULL. */
static json_t *toml_read_value(struct toml *t, unsigned depth);
/* Reads a string of any of the four kinds, or of the two one-line kinds when !multi. */
static int toml_read_string(struct toml *t, struct buf *out, int multi);

static int toml_fail(struct toml *t, const char *at, const char *fmt, ...)
{
	size_t line = 1, column = 1;
	const char *s;
	char msg[300];
	va_list ap;

	for (s = t->text; s < at; s++) {
		if (*s == '\n') {
			line++;
			column = 1;
		} else if ((*s & 0xc0) != 0x80) {
			column++;
		}
	}
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	return err_set(t->e, ERR_INVALID, "%.150s:%zu:%zu: %s", t->what, line, column, msg);
}

/* ---- which table came about how ---- */

static size_t slot(const struct toml_mark *marks, size_t cap, const json_t *j)
{
	size_t i = (size_t)(((uintptr_t)j >> 4) * 0x9e3779b97f4a7c15u >> 20) & (cap - 1);

	while (marks[i].j && marks[i].j != j)
		i = (i + 1) & (cap - 1);
	return i;
}

static enum toml_how how(const struct toml *t, const json_t *j)
{
	size_t i = t->mark_cap ? slot(t->marks, t->mark_cap, j) : 0;

	return t->mark_cap && t->marks[i].j ? t->marks[i].how : TOML_VALUE;
}

static int mark_toml_table(struct toml *t, const json_t *j, enum toml_how h)
{
	size_t i, cap = t->mark_cap ? t->mark_cap * 2 : 64;

	if (t->mark_count * 2 >= t->mark_cap) {
		struct toml_mark *bigger = calloc(cap, sizeof(*bigger));

		if (!bigger)
			return err_nomem(t->e);
		for (i = 0; i < t->mark_cap; i++)
			if (t->marks[i].j)
				bigger[slot(bigger, cap, t->marks[i].j)] = t->marks[i];
		free(t->marks);
		t->marks = bigger;
		t->mark_cap = cap;
	}
	i = slot(t->marks, t->mark_cap, j);
	t->mark_count += !t->marks[i].j;
	t->marks[i] = (struct toml_mark){ j, h };
	return 0;
}

/* ---- white space ---- */

/* Blanks and tabs. */
static void toml_skip_blanks(struct toml *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
}

/* 1 if it passed a newline, 0 if there was none, -1 for a lone CR. */
static int newline(struct toml *t)
{
	if (t->p < t->end && *t->p == '\n') {
		t->p++;
		return 1;
	}
	if (t->p < t->end && *t->p == '\r') {
		if (t->p + 1 == t->end || t->p[1] != '\n')
			return toml_fail(t, t->p, "carriage return without line feed");
		t->p += 2;
		return 1;
	}
	return 0;
}

static int comment(struct toml *t)
{
	if (t->p == t->end || *t->p != '#')
		return 0;
	for (; t->p < t->end && *t->p != '\n' && *t->p != '\r'; t->p++)
		if (((unsigned char)*t->p < 0x20 && *t->p != '\t') || *t->p == 0x7f)
			return toml_fail(t, t->p, "control character 0x%02x in a comment", (unsigned char)*t->p);
	return 0;
}

/* A comment if any, then the end of the line or of the text. */
static int toml_line_end(struct toml *t)
{
	int n;

	toml_skip_blanks(t);
	if (comment(t) < 0)
		return -1;
	if (t->p == t->end)
		return 0;
	n = newline(t);
	if (n == 0)
		return toml_fail(t, t->p, "more on the line than one key and its value");
	return n < 0 ? -1 : 0;
}

/* Blanks, newlines and comments. */
static int toml_skip_lines(struct toml *t)
{
	int n;

	do {
		toml_skip_blanks(t);
		if (comment(t) < 0)
			return -1;
		n = newline(t);
	} while (n > 0);
	return n;
}

/* ---- keys ---- */

static int is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static int key_part(struct toml *t, struct toml_key *k)
{
	const char *start = t->p;

	if (k->count == TOML_DEPTH_MAX)
		return toml_fail(t, t->p, "a key of more than %d parts", TOML_DEPTH_MAX);
	k->offset[k->count++] = k->text.len;
	if (t->p < t->end && (*t->p == '"' || *t->p == '\'')) {
		if (toml_read_string(t, &k->text, 0) < 0)
			return -1;
	} else {
		while (t->p < t->end && is_bare(*t->p))
			t->p++;
		if (t->p == start)
			return toml_fail(t, t->p, "expected a key; hint: letters, digits, _ and -, or \"quoted\"");
		if (buf_add(&k->text, start, (size_t)(t->p - start), t->e) < 0)
			return -1;
	}
	return buf_add(&k->text, "", 1, t->e);
}

/* A bare, quoted or dotted key; the caller releases key->text whatever the result. */
static int toml_read_key(struct toml *t, struct toml_key *k)
{
	*k = (struct toml_key){ .text = BUF_INIT(TOML_BYTES_MAX + 64) };
	for (;;) {
		toml_skip_blanks(t);
		if (key_part(t, k) < 0)
			return -1;
		toml_skip_blanks(t);
		if (t->p == t->end || *t->p != '.')
			return 0;
		t->p++;
	}
}

static const char *toml_key_part(const struct toml_key *k, size_t i)
{
	return k->text.data + k->offset[i];
}

/* ---- tables ---- */

/* Puts child (whose reference is taken) into table under a name that is not there yet. */
static int put_toml_child(struct toml *t, json_t *table, const char *name, json_t *child, const char *at)
{
	if (!child)
		return err_nomem(t->e);
	if (++t->keys > TOML_KEYS_MAX) {
		json_decref(child);
		return toml_fail(t, at, "more than %d keys", TOML_KEYS_MAX);
	}
	return json_object_set_new_nocheck(table, name, child) < 0 ? err_nomem(t->e) : 0;
}

static json_t *new_table(struct toml *t, json_t *table, const char *name, enum toml_how h, const char *at)
{
	json_t *child = json_object();

	if (put_toml_child(t, table, name, child, at) < 0 || mark_toml_table(t, child, h) < 0)
		return NULL;
	return child;
}

/* Returns the table that part i of a header leads to, from table; part i is not the last. */
static json_t *header_step(struct toml *t, json_t *table, const char *name, const char *at)
{
	json_t *child = json_object_get(table, name);

	if (!child)
		return new_table(t, table, name, TOML_IMPLIED, at);
	if (how(t, child) == TOML_LIST)
		return json_array_get(child, json_array_size(child) - 1);
	if (how(t, child) != TOML_VALUE)
		return child;
	toml_fail(t, at, "'%.60s' has a value already and cannot be a table", name);
	return NULL;
}

/* Handles the last part of [header]. */
static json_t *header_table(struct toml *t, json_t *table, const char *name, const char *at)
{
	json_t *child = json_object_get(table, name);

	if (!child)
		return new_table(t, table, name, TOML_HEADER, at);
	if (how(t, child) == TOML_IMPLIED)
		return mark_toml_table(t, child, TOML_HEADER) < 0 ? NULL : child;
	toml_fail(t, at, "table '%.60s' is defined twice", name);
	return NULL;
}

/* Handles the last part of [[header]]: adds one element. */
static json_t *header_element(struct toml *t, json_t *table, const char *name, const char *at)
{
	json_t *list = json_object_get(table, name), *child;

	if (!list) {
		list = json_array();
		if (put_toml_child(t, table, name, list, at) < 0 || mark_toml_table(t, list, TOML_LIST) < 0)
			return NULL;
	} else if (how(t, list) != TOML_LIST) {
		toml_fail(t, at, "'%.60s' is defined already and is not an array of tables", name);
		return NULL;
	}
	if (++t->keys > TOML_KEYS_MAX) {
		toml_fail(t, at, "more than %d keys", TOML_KEYS_MAX);
		return NULL;
	}
	child = json_object();
	if (!child || json_array_append_new(list, child) < 0) {
		err_nomem(t->e);
		return NULL;
	}
	return mark_toml_table(t, child, TOML_HEADER) < 0 ? NULL : child;
}

/* "[a.b]" or "[[a.b]]"; p is on the first bracket.  Returns the table it opens. */
static json_t *read_header(struct toml *t, json_t *root, unsigned *ret_depth)
{
	struct toml_key k = { .count = 0 };
	const char *at = t->p;
	json_t *table = NULL;
	int list;
	size_t i;

	t->p++;
	list = t->p < t->end && *t->p == '[';
	t->p += list;
	if (toml_read_key(t, &k) < 0)
		goto out;
	if (t->p == t->end || *t->p != ']' || (list && (t->p + 1 == t->end || t->p[1] != ']'))) {
		toml_fail(t, t->p, "expected %s after the name of the table", list ? "]]" : "]");
		goto out;
	}
	t->p += 1 + list;
	for (i = 0, table = root; table && i + 1 < k.count; i++)
		table = header_step(t, table, toml_key_part(&k, i), at);
	if (table)
		table = list ? header_element(t, table, toml_key_part(&k, i), at) : header_table(t, table, toml_key_part(&k, i), at);
	*ret_depth = (unsigned)k.count + 1;
	if (table && toml_line_end(t) < 0)
		table = NULL;
out:
	buf_release(&k.text);
	return table;
}

/* Handles a part of a dotted key that is not the last. */
static json_t *dotted_step(struct toml *t, json_t *table, const char *name, const char *at)
{
	json_t *child = json_object_get(table, name);

	if (!child)
		return new_table(t, table, name, TOML_DOTTED, at);
	if (how(t, child) == TOML_DOTTED)
		return child;
	if (how(t, child) == TOML_IMPLIED)
		return mark_toml_table(t, child, TOML_DOTTED) < 0 ? NULL : child;
	toml_fail(t, at, "'%.60s' is defined already and cannot be added to by a dotted key", name);
	return NULL;
}

static int store_toml_value(struct toml *t, json_t *table, const struct toml_key *k, unsigned depth, const char *at)
{
	json_t *value;
	size_t i;

	if (depth + k->count > TOML_DEPTH_MAX)
		return toml_fail(t, at, "tables nested deeper than %d", TOML_DEPTH_MAX);
	for (i = 0; table && i + 1 < k->count; i++)
		table = dotted_step(t, table, toml_key_part(k, i), at);
	if (!table)
		return -1;
	if (json_object_get(table, toml_key_part(k, i)))
		return toml_fail(t, at, "key '%.60s' is defined twice", toml_key_part(k, i));
	value = toml_read_value(t, depth + (unsigned)k->count);
	return value ? put_toml_child(t, table, toml_key_part(k, i), value, at) : -1;
}

/* "key = value" into table; depth is that of table. */
static int toml_read_pair(struct toml *t, json_t *table, unsigned depth)
{
	const char *at = t->p;
	struct toml_key k;
	int result = -1;

	if (toml_read_key(t, &k) < 0)
		goto out;
	if (t->p == t->end || *t->p != '=') {
		toml_fail(t, t->p, "expected = after the key");
		goto out;
	}
	t->p++;
	toml_skip_blanks(t);
	result = store_toml_value(t, table, &k, depth, at);
out:
	buf_release(&k.text);
	return result;
}

/* ---- the document ---- */

static int check_toml_text(struct toml *t)
{
	const char *s = t->text;

	while (s < t->end) {
		size_t n = utf8_len((const unsigned char *)s, (size_t)(t->end - s));

		if (!n)
			return toml_fail(t, s, "byte 0x%02x is not UTF-8", (unsigned char)*s);
		if (!*s)
			return toml_fail(t, s, "a NUL byte");
		s += n;
	}
	if (t->end - t->text >= 3 && !memcmp(t->text, "\xef\xbb\xbf", 3))
		t->p += 3;
	return 0;
}

static int read_toml_document(struct toml *t, json_t *root)
{
	json_t *table = root;
	unsigned depth = 1;

	if (check_toml_text(t) < 0 || mark_toml_table(t, root, TOML_HEADER) < 0)
		return -1;
	for (;;) {
		if (toml_skip_lines(t) < 0)
			return -1;
		if (t->p == t->end)
			return 0;
		if (*t->p == '[') {
			table = read_header(t, root, &depth);
			if (!table)
				return -1;
		} else if (toml_read_pair(t, table, depth) < 0 || toml_line_end(t) < 0) {
			return -1;
		}
	}
}

json_t *toml_parse(const char *text, size_t n, const char *what, struct err *e)
{
	struct toml t = { .text = text, .p = text, .end = text + n, .what = what, .e = e };
	json_t *root;

	if (n > TOML_BYTES_MAX) {
		err_set(e, ERR_INVALID, "%s: more than %d bytes", what, TOML_BYTES_MAX);
		return NULL;
	}
	root = json_object();
	if (!root) {
		err_nomem(e);
		return NULL;
	}
	if (read_toml_document(&t, root) < 0) {
		json_decref(root);
		root = NULL;
	}
	free(t.marks);
	return root;
}

/* ---- values ---- */

/* Values: strings, numbers, booleans, arrays and inline tables. */

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
static int read_toml_escape(struct toml *t, struct buf *out)
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
 * Skips a backslash at the end of a line, with all white space up to the next text. Returns 1 if
 * there was one.
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

/* Reads a string after its opening quotes. Up to two quotes may stand before the closing three. */
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
			if (read_toml_escape(t, out) < 0)
				return -1;
		} else if (plain(t, out, multi) < 0) {
			return -1;
		}
	}
	return toml_fail(t, start, "string is not closed");
}

static int toml_read_string(struct toml *t, struct buf *out, int multi)
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
static size_t count_toml_digits(const char *s, const char *end, unsigned base)
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

static json_t *read_toml_integer(struct toml *t, const char *s, const char *end, unsigned base, int negative, const char *at)
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

static json_t *refuse_toml_value(struct toml *t, const char *at)
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
	size_t n = count_toml_digits(at + 2, t->end, base);

	if (!n || !ends_value(t, at + 2 + n))
		return refuse_toml_value(t, at);
	t->p = at + 2 + n;
	return read_toml_integer(t, at + 2, t->p, base, 0, at);
}

static json_t *read_toml_number(struct toml *t)
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
	n = count_toml_digits(s, t->end, 10);
	if (!n || (n > 1 && *s == '0'))
		return refuse_toml_value(t, at);
	s += n;
	if (s < t->end && *s == '.') {
		is_real = 1;
		n = count_toml_digits(++s, t->end, 10);
		if (!n)
			return refuse_toml_value(t, at);
		s += n;
	}
	if (s < t->end && (*s == 'e' || *s == 'E')) {
		is_real = 1;
		s++;
		s += s < t->end && (*s == '-' || *s == '+');
		n = count_toml_digits(s, t->end, 10);
		if (!n)
			return refuse_toml_value(t, at);
		s += n;
	}
	if (!ends_value(t, s))
		return refuse_toml_value(t, at);
	t->p = s;
	return is_real ? real(t, at, s, at) : read_toml_integer(t, at + (*at == '-' || *at == '+'), s, 10, negative, at);
}

static json_t *read_toml_word(struct toml *t)
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
	return refuse_toml_value(t, t->p);
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

static json_t *toml_read_value(struct toml *t, unsigned depth)
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
		return read_toml_number(t);
	default:
		return read_toml_word(t);
	}
}
