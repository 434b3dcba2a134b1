/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/look/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define GAP 2		/* blanks between columns */
#define LAST_MIN 8	/* the last column is left out, unless so many columns are left for it */

int table_add(struct table *t, const char *const *cells, struct err *e)
{
	char clean[TABLE_CELL_MAX];
	char **more;
	size_t i;

	if (t->count + t->column_count > t->cap) {
		more = reallocarray(t->cells, 2 * t->cap + 8 * t->column_count, sizeof(*more));
		if (!more)
			return err_nomem(e);
		t->cells = more;
		t->cap = 2 * t->cap + 8 * t->column_count;
	}
	for (i = 0; i < t->column_count; i++) {
		log_clean(clean, sizeof(clean), cells[i], 0);
		t->cells[t->count] = strdup(clean);
		if (!t->cells[t->count])
			break;
		t->count++;
	}
	if (i == t->column_count)
		return 0;
	while (i--)
		free(t->cells[--t->count]);
	return err_nomem(e);
}

void table_free(struct table *t)
{
	while (t->count)
		free(t->cells[--t->count]);
	free(t->cells);
	t->cells = NULL;
	t->cap = 0;
}

size_t table_terminal_width(void)
{
	struct winsize w;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 ? 0 : w.ws_col;
}

/* Characters, not bytes, of UTF-8. */
static size_t shown_length(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* The bytes of the first n characters. */
static size_t bytes_of_characters(const char *s, size_t n)
{
	size_t i = 0;

	for (; s[i]; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80 && n-- == 0)
			break;
	return i;
}

struct fit {
	size_t width[TABLE_COLUMNS];	/* 0: left out */
	size_t last;			/* the last that is shown */
};

static size_t fit_total(const struct table *t, struct fit *f)
{
	size_t i, total = 0;

	for (i = 0; i < t->column_count; i++)
		if (f->width[i]) {
			total += (total ? GAP : 0) + f->width[i];
			f->last = i;
		}
	return total;
}

/* The last column may be cut to what is left of the width, if enough is left. */
static int fit_by_cutting(const struct table *t, struct fit *f, size_t total, size_t width)
{
	const size_t too_wide = total - width;

	if (f->last + 1 != t->column_count || t->columns[f->last].right || f->width[f->last] < too_wide + LAST_MIN)
		return 0;
	f->width[f->last] -= too_wide;
	return 1;
}

static void fit_table(const struct table *t, size_t width, size_t rows, struct fit *f)
{
	size_t i, worst, total;

	for (i = 0; i < t->column_count; i++)
		f->width[i] = shown_length(t->columns[i].title);
	for (i = 0; i < t->count && i < rows * t->column_count; i++) {
		size_t n = shown_length(t->cells[i]), *w = &f->width[i % t->column_count];

		*w = n > *w ? n : *w;
	}
	while ((total = fit_total(t, f)) > width && width && !fit_by_cutting(t, f, total, width)) {
		for (worst = i = 0; i < t->column_count; i++)
			if (f->width[i] && (!f->width[worst] || t->columns[i].spare > t->columns[worst].spare))
				worst = i;
		if (!t->columns[worst].spare)
			return;
		f->width[worst] = 0;
	}
}

static void print_table_line(const struct table *t, const struct fit *f, char *const *cells, const char *end)
{
	size_t i, n, pad;

	for (i = 0; i < t->column_count; i++) {
		const char *s = cells ? cells[i] : t->columns[i].title;

		if (!f->width[i])
			continue;
		n = shown_length(s);
		pad = n < f->width[i] ? f->width[i] - n : 0;
		if (t->columns[i].right)
			printf("%*s%s", (int)pad, "", s);
		else
			printf("%.*s%*s", (int)bytes_of_characters(s, f->width[i]), s, i == f->last ? 0 : (int)pad, "");
		if (i < f->last)
			printf("%*s", GAP, "");
	}
	fputs(end, stdout);
}

void table_print(const struct table *t, size_t width, size_t rows, const char *end)
{
	struct fit f;
	size_t i;

	fit_table(t, width, rows, &f);
	print_table_line(t, &f, NULL, end);
	for (i = 0; i < t->count && i < rows * t->column_count; i += t->column_count)
		print_table_line(t, &f, t->cells + i, end);
}
