/* SPDX-License-Identifier: Apache-2.0 */
/* Tables, headers and keys; the rules on what may be defined twice. */
#include "base/toml.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/toml_lex.h"
#include "base/utf8.h"

int toml_fail(struct toml *t, const char *at, const char *fmt, ...)
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

static int mark(struct toml *t, const json_t *j, enum toml_how h)
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

void toml_skip_blanks(struct toml *t)
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

int toml_skip_lines(struct toml *t)
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

static const char *part(const struct toml_key *k, size_t i)
{
	return k->text.data + k->offset[i];
}

/* ---- tables ---- */

/* Puts child (whose reference is taken) into table under a name that is not there yet. */
static int put(struct toml *t, json_t *table, const char *name, json_t *child, const char *at)
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

	if (put(t, table, name, child, at) < 0 || mark(t, child, h) < 0)
		return NULL;
	return child;
}

/* The table that part i of a header leads to, from table; it is not the last part. */
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

/* The last part of [header]. */
static json_t *header_table(struct toml *t, json_t *table, const char *name, const char *at)
{
	json_t *child = json_object_get(table, name);

	if (!child)
		return new_table(t, table, name, TOML_HEADER, at);
	if (how(t, child) == TOML_IMPLIED)
		return mark(t, child, TOML_HEADER) < 0 ? NULL : child;
	toml_fail(t, at, "table '%.60s' is defined twice", name);
	return NULL;
}

/* The last part of [[header]]: one more element. */
static json_t *header_element(struct toml *t, json_t *table, const char *name, const char *at)
{
	json_t *list = json_object_get(table, name), *child;

	if (!list) {
		list = json_array();
		if (put(t, table, name, list, at) < 0 || mark(t, list, TOML_LIST) < 0)
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
	return mark(t, child, TOML_HEADER) < 0 ? NULL : child;
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
		table = header_step(t, table, part(&k, i), at);
	if (table)
		table = list ? header_element(t, table, part(&k, i), at) : header_table(t, table, part(&k, i), at);
	*ret_depth = (unsigned)k.count + 1;
	if (table && toml_line_end(t) < 0)
		table = NULL;
out:
	buf_release(&k.text);
	return table;
}

/* A part of a dotted key that is not the last. */
static json_t *dotted_step(struct toml *t, json_t *table, const char *name, const char *at)
{
	json_t *child = json_object_get(table, name);

	if (!child)
		return new_table(t, table, name, TOML_DOTTED, at);
	if (how(t, child) == TOML_DOTTED)
		return child;
	if (how(t, child) == TOML_IMPLIED)
		return mark(t, child, TOML_DOTTED) < 0 ? NULL : child;
	toml_fail(t, at, "'%.60s' is defined already and cannot be added to by a dotted key", name);
	return NULL;
}

static int store(struct toml *t, json_t *table, const struct toml_key *k, unsigned depth, const char *at)
{
	json_t *value;
	size_t i;

	if (depth + k->count > TOML_DEPTH_MAX)
		return toml_fail(t, at, "tables nested deeper than %d", TOML_DEPTH_MAX);
	for (i = 0; table && i + 1 < k->count; i++)
		table = dotted_step(t, table, part(k, i), at);
	if (!table)
		return -1;
	if (json_object_get(table, part(k, i)))
		return toml_fail(t, at, "key '%.60s' is defined twice", part(k, i));
	value = toml_read_value(t, depth + (unsigned)k->count);
	return value ? put(t, table, part(k, i), value, at) : -1;
}

int toml_read_pair(struct toml *t, json_t *table, unsigned depth)
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
	result = store(t, table, &k, depth, at);
out:
	buf_release(&k.text);
	return result;
}

/* ---- the document ---- */

static int check_text(struct toml *t)
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

static int read_document(struct toml *t, json_t *root)
{
	json_t *table = root;
	unsigned depth = 1;

	if (check_text(t) < 0 || mark(t, root, TOML_HEADER) < 0)
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
	if (read_document(&t, root) < 0) {
		json_decref(root);
		root = NULL;
	}
	free(t.marks);
	return root;
}
