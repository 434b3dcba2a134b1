/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/heredoc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

#define SPACES " \t\v\f\r"
#define VALUE_MAX 65535
#define NAME_BYTES 128

/* ---- what is known of a stage ---- */

static json_t *stage_new(const json_t *parent)
{
	if (parent)
		return json_deep_copy(parent);
	return json_pack("{s:[s,s],s:{},s:{}}", "shell", "/bin/sh", "-c", "env", "args");
}

int heredoc_reader_init(struct heredoc_reader *r, const json_t *words, struct err *e)
{
	size_t i;

	*r = (struct heredoc_reader){.given = json_object(), .globals = json_object(), .stages = json_object(), .files = json_array(), .escape = '\\'};
	if (!r->given || !r->globals || !r->stages || !r->files)
		return err_nomem(e);
	for (i = 0; i + 1 < json_array_size(words); i += 2) {
		const char *option = json_string_value(json_array_get(words, i)), *value = json_string_value(json_array_get(words, i + 1));
		const char *equals = value ? strchr(value, '=') : NULL;
		char name[NAME_BYTES];

		if (!option || strcmp(option, "--build-arg") || !equals || equals - value >= NAME_BYTES)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(equals - value), value);
		if (json_object_set_new(r->given, name, json_string(equals + 1)) < 0)
			return err_nomem(e);
	}
	return 0;
}

void heredoc_reader_release(struct heredoc_reader *r)
{
	json_decref(r->given);
	json_decref(r->globals);
	json_decref(r->stages);
	json_decref(r->stage);
	json_decref(r->files);
	*r = (struct heredoc_reader){0};
}

/* The value of a variable where it is sure, else NULL. */
static const char *sure_value(const struct heredoc_reader *r, const char *name)
{
	const char *value = json_string_value(json_object_get(json_object_get(r->stage, "env"), name));

	return value ? value : json_string_value(json_object_get(json_object_get(r->stage, "args"), name));
}

/* ---- variables ---- */

struct expansion {
	const struct heredoc_reader *r;
	int keeps_quotes; /* a document's; else they are taken off */
	struct buf *out;
	char unknown[NAME_BYTES]; /* the variable that is to blame */
};

/* 0, or -1: unknown names what is not sure.  *p is behind the "$". */
static int expand_dollar(struct expansion *x, const char **p, const char *end, struct err *e)
{
	const int is_braced = *p < end && **p == '{';
	const char *from = *p + is_braced, *value, *other = NULL;
	size_t n = strspn(from, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"), other_n = 0;
	char name[NAME_BYTES], op = '\0';

	if (n > (size_t)(end - from))
		n = (size_t)(end - from);
	snprintf(x->unknown, sizeof(x->unknown), "%.*s", (int)(n < NAME_BYTES ? n : NAME_BYTES - 1), from);
	if (!n && !is_braced && (*p == end || !strchr("@*#?-$!", **p)))
		return buf_add(x->out, "$", 1, e);
	if (!n || n >= NAME_BYTES || isdigit((unsigned char)*from))
		return err_set(e, ERR_INVALID, "$%.20s", from);
	snprintf(name, sizeof(name), "%.*s", (int)n, from);
	*p = from + n;
	if (is_braced) {
		if (*p + 1 < end && (*p)[0] == ':' && ((*p)[1] == '-' || (*p)[1] == '+')) {
			op = (*p)[1];
			other = *p + 2;
			*p = memchr(other, '}', (size_t)(end - other));
			other_n = *p ? (size_t)(*p - other) : 0;
			if (!*p || memchr(other, '$', other_n) || memchr(other, x->r->escape, other_n))
				return err_set(e, ERR_INVALID, "${%s", name);
		}
		if (*p >= end || **p != '}')
			return err_set(e, ERR_INVALID, "${%s", name);
		++*p;
	}
	value = sure_value(x->r, name);
	if (!value)
		return err_set(e, ERR_INVALID, "%s", name);
	if ((op == '-' && !value[0]) || (op == '+' && value[0]))
		return buf_add(x->out, other, other_n, e);
	return op == '+' ? 0 : buf_add(x->out, value, strlen(value), e);
}

/* Text of n bytes as the builder sees it, to out.  -1 with e: what cannot be told. */
static int expand_text(struct expansion *x, const char *p, size_t n, struct err *e)
{
	const char *const end = p + n;
	char quote = '\0';

	while (p < end) {
		const char c = *p++;

		if (!x->keeps_quotes && (c == '"' || c == '\'') && (!quote || quote == c)) {
			quote = quote ? '\0' : c;
			continue;
		}
		if (c == '$' && quote != '\'') {
			if (expand_dollar(x, &p, end, e) < 0)
				return -1;
			continue;
		}
		if (c == x->r->escape && quote != '\'' && p < end && (quote != '"' || strchr("\"$", *p) || *p == c)) {
			if (buf_add(x->out, p++, 1, e) < 0)
				return -1;
			continue;
		}
		if (buf_add(x->out, &c, 1, e) < 0)
			return -1;
	}
	return quote ? err_set(e, ERR_INVALID, "an open quote") : 0;
}

/* The end of a word, with quotes in it. */
static const char *word_end(const char *p, char escape)
{
	char quote = '\0';

	for (; *p && (quote || !strchr(SPACES, *p)); p++) {
		if (*p == escape && quote != '\'' && p[1])
			p++;
		else if (quote ? *p == quote : *p == '"' || *p == '\'')
			quote = quote ? '\0' : *p;
	}
	return p;
}

/* NAME=VALUE of n bytes, into a table; a value that cannot be told takes the name out, as does none. */
static int note_variable(struct heredoc_reader *r, json_t *table, const char *name, size_t name_n, const char *value, size_t n, struct err *e)
{
	autobuf struct buf out = BUF_INIT(VALUE_MAX);
	struct expansion x = {.r = r, .out = &out};
	struct err ignored;
	char key[NAME_BYTES];

	if (!name_n || name_n >= sizeof(key))
		return 0;
	snprintf(key, sizeof(key), "%.*s", (int)name_n, name);
	if (!value || expand_text(&x, value, n, &ignored) < 0) {
		json_object_del(table, key);
		return 0;
	}
	/* what is not UTF-8 is not known either */
	if (json_object_set_new(table, key, json_stringn(out.data ? out.data : "", out.len)) < 0)
		json_object_del(table, key);
	(void)e;
	return 0;
}

static int note_env(struct heredoc_reader *r, const char *args, struct err *e)
{
	json_t *env = json_object_get(r->stage, "env");
	const char *end = word_end(args, r->escape), *equals = memchr(args, '=', (size_t)(end - args));

	if (!equals) { /* ENV NAME the rest */
		const char *value = end + strspn(end, SPACES);

		return note_variable(r, env, args, (size_t)(end - args), value, strlen(value), e);
	}
	/* every value of one ENV is of before it */
	autojson json_t *next = json_deep_copy(env);

	if (!next)
		return err_nomem(e);
	for (; *args; args = end + strspn(end, SPACES)) {
		end = word_end(args, r->escape);
		equals = memchr(args, '=', (size_t)(end - args));
		if (equals)
			note_variable(r, next, args, (size_t)(equals - args), equals + 1, (size_t)(end - equals - 1), e);
	}
	return json_object_set(r->stage, "env", next) < 0 ? err_nomem(e) : 0;
}

/* The caller's value, else the default, else that of the ARG before FROM. */
static int note_build_arg(struct heredoc_reader *r, const char *args, struct err *e)
{
	json_t *table = r->stage ? json_object_get(r->stage, "args") : r->globals;
	const char *end;

	for (; *args; args = end + strspn(end, SPACES)) {
		const char *equals, *given;
		char name[NAME_BYTES];
		size_t n;

		end = word_end(args, r->escape);
		equals = memchr(args, '=', (size_t)(end - args));
		n = (size_t)((equals ? equals : end) - args);
		if (n >= sizeof(name))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)n, args);
		given = json_string_value(json_object_get(r->given, name));
		if (!given && !equals && r->stage)
			given = json_string_value(json_object_get(r->globals, name));
		if (given ? json_object_set_new(table, name, json_string(given)) < 0 :
			    note_variable(r, table, args, n, equals ? equals + 1 : NULL, equals ? (size_t)(end - equals - 1) : 0, e) < 0)
			return err_nomem(e);
	}
	return 0;
}

static void lower_key(char key[NAME_BYTES], const char *p)
{
	size_t i, n = strcspn(p, SPACES);

	for (i = 0; i < n && i < NAME_BYTES - 1; i++)
		key[i] = (char)tolower((unsigned char)p[i]);
	key[i] = '\0';
}

/* FROM NAME [AS STAGE]: what the stage before had, or nothing that is known. */
static int note_from(struct heredoc_reader *r, const char *args, struct err *e)
{
	char key[NAME_BYTES];
	const char *as = args + strcspn(args, SPACES);

	lower_key(key, args);
	json_decref(r->stage);
	r->stage = stage_new(json_object_get(r->stages, key));
	if (!r->stage)
		return err_nomem(e);
	json_object_clear(json_object_get(r->stage, "args"));
	as += strspn(as, SPACES);
	if (strncasecmp(as, "as", 2) || !as[2] || !strchr(SPACES, as[2]))
		return 0;
	lower_key(key, as + 2 + strspn(as + 2, SPACES));
	/* the same object: what comes later in the stage counts for its name */
	return json_object_set(r->stages, key, r->stage) < 0 ? err_nomem(e) : 0;
}

int heredoc_note(struct heredoc_reader *r, const char *instruction, const char *args, struct err *e)
{
	struct err ignored;

	if (!strcasecmp(instruction, "FROM"))
		return note_from(r, args, e);
	if (!strcasecmp(instruction, "ARG"))
		return note_build_arg(r, args, e);
	if (!strcasecmp(instruction, "ENV"))
		return note_env(r, args, e);
	if (!strcasecmp(instruction, "SHELL")) {
		json_t *shell = json_parse(args, strlen(args), VALUE_MAX, "SHELL", &ignored);

		if (json_is_array(shell))
			return json_object_set_new(r->stage, "shell", shell) < 0 ? err_nomem(e) : 0;
		json_decref(shell);
	}
	return 0;
}

/* ---- documents ---- */

/* The word [NUMBER]<<[-]NAME, NAME in quotes or not, of n bytes: 1 and d; 0 where it is another. */
static int begins_heredoc(const char *p, size_t n, char escape, struct heredoc *d)
{
	const char *const end = p + n;
	const struct heredoc_reader nothing = {.escape = escape};
	autobuf struct buf name = BUF_INIT(HEREDOC_NAME);
	struct expansion x = {.r = &nothing, .out = &name};
	struct err ignored;

	while (p < end && isdigit((unsigned char)*p))
		p++;
	if (end - p < 3 || p[0] != '<' || p[1] != '<')
		return 0;
	p += 2;
	*d = (struct heredoc){.strips_tabs = *p == '-', .text = BUF_INIT(VALUE_MAX * 16)};
	p += d->strips_tabs;
	d->is_quoted = memchr(p, '"', (size_t)(end - p)) || memchr(p, '\'', (size_t)(end - p));
	if (memchr(p, '<', (size_t)(end - p)) || memchr(p, '$', (size_t)(end - p)) || expand_text(&x, p, (size_t)(end - p), &ignored) < 0 ||
	    !name.len || name.len >= HEREDOC_NAME || memchr(name.data, '\0', name.len))
		return 0;
	snprintf(d->name, sizeof(d->name), "%.*s", (int)name.len, name.data);
	return 1;
}

int heredoc_find(const char *args, char escape, struct heredoc ret[HEREDOCS_MAX])
{
	const char *p = args + strspn(args, SPACES), *end;
	int n = 0;

	for (; *p; p = end + strspn(end, SPACES)) {
		struct heredoc d;

		end = word_end(p, escape);
		if (!begins_heredoc(p, (size_t)(end - p), escape, &d))
			continue;
		if (n == HEREDOCS_MAX)
			return -1;
		ret[n++] = d;
	}
	return n;
}

/* ---- what buildah reads ---- */

static int add_file(struct heredoc_reader *r, unsigned dir, const struct heredoc *d, const char *text, size_t n, int mode, struct err *e)
{
	if (json_array_size(r->files) >= HEREDOC_FILES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d here-documents are files", HEREDOC_FILES_MAX);
	return json_array_append_new(r->files, json_pack("{s:i,s:s,s:o?,s:i}", "dir", (int)dir, "name", d->name, "text", json_stringn(text, n), "mode",
							 mode)) < 0 ?
		       err_set(e, ERR_INVALID, "a here-document is not UTF-8") :
		       0;
}

/* Nothing is said beside one document: the shell has its text, or the kernel a file of it. */
static int is_heredoc_alone(const char *args, char escape)
{
	const char *p = args + strspn(args, SPACES), *end = word_end(p, escape);

	return *p && !end[strspn(end, SPACES)];
}

static int write_heredoc_script(struct heredoc_reader *r, const char *flags, const struct buf *script, struct buf *out, struct err *e)
{
	autojson json_t *words = json_copy(json_object_get(r->stage, "shell"));
	autofree char *text = NULL;

	if (!words || json_array_append_new(words, json_stringn(script->data ? script->data : "", script->len)) < 0)
		return err_set(e, ERR_INVALID, "a here-document is not UTF-8");
	text = json_dumps(words, JSON_COMPACT);
	return text ? buf_addf(out, e, "RUN %s%s\n", flags, text) : err_nomem(e);
}

static int write_run(struct heredoc_reader *r, const char *flags, const char *args, const struct heredoc *d, int n, struct buf *out, struct err *e)
{
	autobuf struct buf script = BUF_INIT(VALUE_MAX * 16);
	int i;

	if (n == 1 && is_heredoc_alone(args, r->escape)) {
		if (d->text.len < 2 || memcmp(d->text.data, "#!", 2))
			return write_heredoc_script(r, flags, &d->text, out, e);
		if (add_file(r, ++r->dirs, d, d->text.data, d->text.len, 0755, e) < 0)
			return -1;
		return buf_addf(out, e, "RUN --mount=type=bind,from=%s,source=/%u,target=/dev/pipes %s[\"/dev/pipes/%s\"]\n", HEREDOC_CONTEXT, r->dirs,
				flags, d->name);
	}
	if (buf_addf(&script, e, "%s\n", args) < 0)
		return -1;
	for (i = 0; i < n; i++)
		if ((d[i].text.len && buf_add(&script, d[i].text.data, d[i].text.len, e) < 0) || buf_addf(&script, e, "%s\n", d[i].name) < 0)
			return -1;
	return write_heredoc_script(r, flags, &script, out, e);
}

/* The text of a document as a file has it. */
static int add_document(struct heredoc_reader *r, unsigned dir, const struct heredoc *d, struct err *e)
{
	autobuf struct buf text = BUF_INIT(VALUE_MAX * 16);
	struct expansion x = {.r = r, .keeps_quotes = 1, .out = &text};
	struct err why;

	if (strchr(d->name, '/') || !strcmp(d->name, ".") || !strcmp(d->name, ".."))
		return err_set(e, ERR_INVALID, "the here-document %s has no name of a file", d->name);
	if (d->is_quoted || !d->text.len)
		return add_file(r, dir, d, d->text.data ? d->text.data : "", d->text.len, 0644, e);
	if (expand_text(&x, d->text.data, d->text.len, &why) < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "what %.100s is in the here-document %s cannot be told before the build: it is no ARG or ENV of this Dockerfile; hint: <<\"%s\" "
			       "keeps it as it is",
			       why.msg, d->name, d->name);
	return add_file(r, dir, d, text.data ? text.data : "", text.len, 0644, e);
}

/* COPY [a b] <<EOF DEST: the files of the context first, then the documents, in their order. */
static int write_copy(struct heredoc_reader *r, const char *instruction, const char *flags, const char *args, const struct heredoc *d, int n,
		      struct buf *out, struct err *e)
{
	const char *p = args + strspn(args, SPACES), *end = p, *last = p, *q;
	autobuf struct buf others = BUF_INIT(VALUE_MAX), documents = BUF_INIT(VALUE_MAX);
	const unsigned dir = ++r->dirs;
	struct heredoc one;
	int i;

	if (strstr(flags, "--from="))
		return err_set(e, ERR_INVALID, "COPY --from takes no here-document");
	for (q = p; *q; q = end + strspn(end, SPACES)) {
		last = q;
		end = word_end(q, r->escape);
	}
	if (begins_heredoc(last, (size_t)(end - last), r->escape, &one))
		return err_set(e, ERR_INVALID, "%s requires at least two arguments, but only one was provided. Destination could not be determined",
			       instruction);
	for (q = p; q < last; q = end + strspn(end, SPACES)) {
		end = word_end(q, r->escape);
		if (!begins_heredoc(q, (size_t)(end - q), r->escape, &one) && buf_addf(&others, e, "%.*s ", (int)(end - q), q) < 0)
			return -1;
	}
	for (i = 0; i < n; i++) {
		autojson json_t *name = json_sprintf("/%u/%s", dir, d[i].name);

		if (add_document(r, dir, &d[i], e) < 0)
			return -1;
		/* a name with a space or a pattern's sign would be another path to buildah */
		if (!name || d[i].name[strspn(d[i].name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")])
			return err_set(e, ERR_UNSUPPORTED, "the here-document %s has a name that is no plain word", d[i].name);
		if (buf_addf(&documents, e, "%s ", json_string_value(name)) < 0)
			return -1;
	}
	/* one line: the second instruction is on the line of the document's first, which is empty else */
	if (others.len && buf_addf(out, e, "%s %s%.*s%s\n", instruction, flags, (int)others.len, others.data, last) < 0)
		return -1;
	return buf_addf(out, e, "COPY --from=" HEREDOC_CONTEXT " %s%.*s%s\n", flags, (int)documents.len, documents.data, last);
}

int heredoc_write(struct heredoc_reader *r, const char *instruction, const char *flags, const char *args, const struct heredoc *d, int n, struct buf *out,
		  struct err *e)
{
	return strcasecmp(instruction, "RUN") ? write_copy(r, instruction, flags, args, d, n, out, e) : write_run(r, flags, args, d, n, out, e);
}
