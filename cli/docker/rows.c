/* SPDX-License-Identifier: Apache-2.0 */
/* --format: tables as Go's tabwriter sets them, JSON, and templates. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/template.h"
#include "cli/docker/door.h"

#define OUTPUT_MAX (32u << 20)
#define CELLS_MAX 32
#define WIDTH_LEAST 10
#define PADDING 3
#define CLEAN_SLACK 64 /* bytes that log_clean() wants beyond its text */

/* ---- tables --------------------------------------------------------------------------------- */

/* The width in columns, as far as letters show it. */
static size_t width_of(const char *s, size_t n)
{
	size_t i, w = 0;

	for (i = 0; i < n; i++)
		w += ((unsigned char)s[i] & 0xc0) != 0x80;
	return w;
}

static void measure_columns(const char *line, size_t n, size_t widths[CELLS_MAX])
{
	size_t i = 0, len;

	for (; i < CELLS_MAX; i++) {
		const char *tab = memchr(line, '\t', n);

		if (!tab)
			return;
		len = width_of(line, (size_t)(tab - line)) + PADDING;
		if (len > widths[i])
			widths[i] = len;
		n -= (size_t)(tab + 1 - line);
		line = tab + 1;
	}
}

/* The last cell of a line stands as it is. */
static int set_line(const char *line, size_t n, const size_t widths[CELLS_MAX], struct buf *out,
		    struct err *e)
{
	size_t i, len;

	for (i = 0; i < CELLS_MAX; i++) {
		const char *tab = memchr(line, '\t', n);

		len = tab ? (size_t)(tab - line) : n;
		if (buf_add(out, line, len, e) < 0)
			return -1;
		if (!tab)
			break;
		if (buf_addf(out, e, "%*s", (int)(widths[i] - width_of(line, len)), "") < 0)
			return -1;
		n -= len + 1;
		line = tab + 1;
	}
	return buf_adds(out, "\n", e);
}

static int set_table(const struct buf *text, struct buf *out, struct err *e)
{
	size_t widths[CELLS_MAX], i, at, len;

	for (i = 0; i < CELLS_MAX; i++)
		widths[i] = WIDTH_LEAST;
	for (at = 0; at < text->len; at += len + 1) {
		len = strcspn(text->data + at, "\n");
		measure_columns(text->data + at, len, widths);
	}
	for (at = 0; at < text->len; at += len + 1) {
		len = strcspn(text->data + at, "\n");
		if (set_line(text->data + at, len, widths, out, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- templates ------------------------------------------------------------------------------ */

/* As docker has it: \t and \n of the text between actions are a tab and a newline. */
static void unescape_format(char *text)
{
	char *from = text, *to = text;
	int inside = 0;

	for (; *from; from++) {
		inside = !strncmp(from, "{{", 2) ? 1 : !strncmp(from, "}}", 2) ? 0 : inside;
		if (!inside && *from == '\\' && (from[1] == 't' || from[1] == 'n'))
			*to++ = *++from == 't' ? '\t' : '\n';
		else
			*to++ = *from;
	}
	*to = '\0';
}

/* What docker has as maps; of other parts it knows each member. */
static const char *const maps[] = {
	"Annotations", "Data",	  "DriverOpts",	 "ExposedPorts", "Labels",  "Networks", "Options",
	"Parameters",  "PortBindings", "Ports", "StorageOpt",	 "Sysctls", "Tmpfs",	"Volumes",
	NULL,
};

static struct template *parse_row_template(const char *text, struct err *e)
{
	autofree char *plain = strdup(text);
	struct template *t;

	if (!plain) {
		err_nomem(e);
		return NULL;
	}
	unescape_format(plain);
	t = template_parse(plain, e);
	if (t)
		template_maps(t, maps);
	else
		err_wrap(e, "template parsing error");
	return t;
}

static int run_row_template(const struct template *t, const json_t *dot, struct buf *out, struct err *e)
{
	if (template_run(t, dot, out, e) < 0)
		return err_wrap(e, "template parsing error");
	return buf_adds(out, "\n", e);
}

static int print_rows_text(const struct buf *b, struct err *e)
{
	const size_t room = b->len + CLEAN_SLACK;
	autofree char *clean = malloc(room);

	if (!clean)
		return err_nomem(e);
	/* names and commands come from others: none of their control characters reach a terminal */
	log_clean(clean, room, b->data ? b->data : "", 1);
	return fputs(clean, stdout) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* "{{.ID}}\t{{.Names}}" of the columns themselves. */
static int default_template(const struct door_column *c, size_t n, struct buf *out, struct err *e)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (buf_addf(out, e, "%s{{.%s}}", i ? "\t" : "", c[i].field) < 0)
			return -1;
	return 0;
}

static json_t *heads_of(const struct door_column *c)
{
	json_t *heads = json_object();

	for (; c->field; c++)
		json_object_set_new(heads, c->field, json_string(c->head));
	json_object_set_new(heads, "Label", json_object());
	return heads;
}

static int print_rows_json(const json_t *rows, struct err *e)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)(size_t)rows, i, row) {
		autojson json_t *plain = json_copy((json_t *)(size_t)row);

		json_object_del(plain, "Label");
		if (command_print_json(plain, JSON_COMPACT, e) < 0)
			return -1;
	}
	return 0;
}

/* A field that no row has is told though there are no rows. */
static int check_row_fields(const struct template *t, const json_t *heads, struct err *e)
{
	autobuf struct buf unused = BUF_INIT(OUTPUT_MAX);

	return run_row_template(t, heads, &unused, e) < 0 && e->code == ERR_NOT_FOUND ? -1 : 0;
}

static int make_rows_text(const char *text, int table, const json_t *rows, const struct door_column *columns,
		struct buf *out, struct err *e)
{
	struct template *t = parse_row_template(text, e);
	autojson json_t *heads = heads_of(columns);
	const json_t *row;
	int r = t ? 0 : -1;
	size_t i;

	if (r == 0 && table)
		r = run_row_template(t, heads, out, e);
	else if (r == 0 && columns[0].field)
		r = check_row_fields(t, heads, e);
	json_array_foreach ((json_t *)(size_t)rows, i, row)
		if (r == 0)
			r = run_row_template(t, row, out, e);
	template_free(t);
	return r;
}

int door_rows(const char *format, const json_t *rows, const struct door_column *columns, size_t n,
	      struct err *e)
{
	autobuf struct buf text = BUF_INIT(TEMPLATE_TEXT), made = BUF_INIT(OUTPUT_MAX),
			   out = BUF_INIT(OUTPUT_MAX);
	int table = 0;

	if (format && !strcmp(format, "json"))
		return print_rows_json(rows, e);
	if (!format || !format[0] || !strcmp(format, "table")) {
		if (default_template(columns, n, &text, e) < 0)
			return -1;
		format = text.data;
		table = 1;
	} else if (!strncmp(format, "table", 5) && strchr(" \t{\\", format[5])) {
		format += 5 + strspn(format + 5, " ");
		table = 1;
	}
	if (make_rows_text(format, table, rows, columns, &made, e) < 0)
		return -1;
	if (!table)
		return print_rows_text(&made, e);
	return set_table(&made, &out, e) < 0 ? -1 : print_rows_text(&out, e);
}

static const struct door_column none[] = { { NULL, NULL } };

int door_format_fits(const char *format, const json_t *list, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);

	return !format || !format[0] || !strcmp(format, "json") ? 0 : make_rows_text(format, 0, list, none, &out, e);
}

int door_documents(const char *format, const json_t *list, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);

	if (!format || !format[0])
		return command_print_json(list, JSON_INDENT(4), e);
	if (!strcmp(format, "json"))
		return command_print_json(list, JSON_COMPACT, e);
	return make_rows_text(format, 0, list, none, &out, e) < 0 ? -1 : print_rows_text(&out, e);
}
