/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/files/linediff.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define CONTEXT 3

struct lines {
	struct linediff_text *list;
	size_t count;
};

static int cut_into_lines(const struct linediff_text *t, struct lines *ret, struct err *e)
{
	const char *p, *end = t->text + t->n, *nl;
	size_t count = 0;

	for (p = t->text; p < end; p = nl ? nl + 1 : end, count++)
		nl = memchr(p, '\n', (size_t)(end - p));
	ret->list = calloc(count + 1, sizeof(*ret->list));
	if (!ret->list)
		return err_nomem(e);
	for (p = t->text; p < end; p = nl ? nl + 1 : end) {
		nl = memchr(p, '\n', (size_t)(end - p));
		ret->list[ret->count++] =
			(struct linediff_text){ p, (size_t)((nl ? nl + 1 : end) - p) };
	}
	return 0;
}

static int same_line(const struct linediff_text *a, const struct linediff_text *b)
{
	return a->n == b->n && !memcmp(a->text, b->text, a->n);
}

/* The lines of each text that are in the other, too. */
struct match {
	const struct lines *a, *b;
	char *keeps_a, *keeps_b;
};

/* How far the path on diagonal k comes with d edits, from the ends of those with one less. */
static int32_t myers_step(const struct match *m, const int32_t *v, int32_t k, int32_t d)
{
	int32_t x = k == -d || (k != d && v[k - 1] < v[k + 1]) ? v[k + 1] : v[k - 1] + 1;

	while (x < (int32_t)m->a->count && x - k < (int32_t)m->b->count && x >= 0 && x - k >= 0 &&
	       same_line(&m->a->list[x], &m->b->list[x - k]))
		x++;
	return x;
}

static void walk_back(struct match *m, int32_t *const *trace, int32_t d)
{
	int32_t x = (int32_t)m->a->count, y = (int32_t)m->b->count, k, px, py;

	for (; d >= 0; d--) {
		const int32_t *v = trace[d] + d + 1;

		k = x - y;
		k = k == -d || (k != d && v[k - 1] < v[k + 1]) ? k + 1 : k - 1;
		px = d ? v[k] : 0;
		py = d ? px - k : 0;
		while (x > px && y > py) {
			m->keeps_a[--x] = 1;
			m->keeps_b[--y] = 1;
		}
		x = px;
		y = py;
	}
}

/* trace[d] holds what v was before d edits, for the diagonals -d - 1 to d + 1. */
static int match_lines(struct match *m, struct err *e)
{
	const int32_t n = (int32_t)m->a->count, o = (int32_t)m->b->count;
	autofree int32_t *space = calloc(2 * LINEDIFF_MAX + 5, sizeof(*space));
	autofree int32_t **trace = calloc(LINEDIFF_MAX + 1, sizeof(*trace));
	int32_t *v = space ? space + LINEDIFF_MAX + 2 : NULL, d, k, i;
	int result = 0, found = 0;

	if (!space || !trace)
		return err_nomem(e);
	for (d = 0; d <= LINEDIFF_MAX && !found && result == 0; d++) {
		trace[d] = malloc((size_t)(2 * d + 3) * sizeof(*v));
		if (!trace[d]) {
			result = err_nomem(e);
			break;
		}
		memcpy(trace[d], v - d - 1, (size_t)(2 * d + 3) * sizeof(*v));
		for (k = -d; k <= d && !found; k += 2) {
			v[k] = myers_step(m, v, k, d);
			found = v[k] >= n && v[k] - k >= o;
		}
	}
	if (found)
		walk_back(m, trace, d - 1);
	for (i = 0; i <= LINEDIFF_MAX && trace[i]; i++)
		free(trace[i]);
	return result;
}

/* ---- hunks ------------------------------------------------------------------------- */

static int add_hunk_line(struct buf *ret, char kind, const struct linediff_text *line, struct err *e)
{
	if (buf_add(ret, &kind, 1, e) < 0 || buf_add(ret, line->text, line->n, e) < 0)
		return -1;
	return line->n && line->text[line->n - 1] == '\n' ?
		       0 :
		       buf_adds(ret, "\n\\ No newline at end of file\n", e);
}

struct place {
	size_t a, b;
};

static int is_change(const struct match *m, struct place p)
{
	return (p.a < m->a->count && !m->keeps_a[p.a]) || (p.b < m->b->count && !m->keeps_b[p.b]);
}

static int is_end(const struct match *m, struct place p)
{
	return p.a == m->a->count && p.b == m->b->count;
}

/* One step: a removed line, an added one, or one of both. */
static void advance_in_match(const struct match *m, struct place *p)
{
	if (p->a < m->a->count && !m->keeps_a[p->a])
		p->a++;
	else if (p->b < m->b->count && !m->keeps_b[p->b])
		p->b++;
	else
		*p = (struct place){ p->a + 1, p->b + 1 };
}

/* The end of the hunk whose first change is at p: behind it are more than two contexts. */
static struct place end_of_hunk(const struct match *m, struct place p)
{
	struct place end = p;
	size_t equal = 0;

	while (!is_end(m, p) && equal <= 2 * CONTEXT) {
		equal = is_change(m, p) ? 0 : equal + 1;
		advance_in_match(m, &p);
		if (!equal)
			end = p;
	}
	for (equal = 0; equal < CONTEXT && !is_end(m, end); equal++)
		advance_in_match(m, &end);
	return end;
}

static int add_hunk(const struct match *m, struct place p, struct place end, struct buf *ret,
		    struct err *e)
{
	const size_t na = end.a - p.a, nb = end.b - p.b;

	if (buf_addf(ret, e, "@@ -%zu,%zu +%zu,%zu @@\n", p.a + (na > 0), na, p.b + (nb > 0), nb) <
	    0)
		return -1;
	while (p.a != end.a || p.b != end.b) {
		struct place was = p;
		char kind;

		advance_in_match(m, &p);
		kind = p.a == was.a ? '+' : p.b == was.b ? '-' : ' ';
		if (add_hunk_line(ret, kind, kind == '+' ? &m->b->list[was.b] : &m->a->list[was.a], e) <
		    0)
			return -1;
	}
	return 0;
}

static int add_hunks(const struct match *m, struct buf *ret, struct err *e)
{
	struct place p = { 0, 0 }, begin, end;
	size_t before;

	while (!is_end(m, p)) {
		if (!is_change(m, p)) {
			advance_in_match(m, &p);
			continue;
		}
		before = p.a < CONTEXT ? p.a : CONTEXT;
		before = p.b < before ? p.b : before;
		begin = (struct place){ p.a - before, p.b - before };
		end = end_of_hunk(m, p);
		if (add_hunk(m, begin, end, ret, e) < 0)
			return -1;
		p = end;
	}
	return 0;
}

int linediff(const struct linediff_text *a, const struct linediff_text *b, struct buf *ret,
	     struct err *e)
{
	struct lines la = { 0 }, lb = { 0 };
	struct match m = { .a = &la, .b = &lb };
	int result = -1;

	if (cut_into_lines(a, &la, e) == 0 && cut_into_lines(b, &lb, e) == 0) {
		m.keeps_a = calloc(la.count + 1, 1);
		m.keeps_b = calloc(lb.count + 1, 1);
		result = m.keeps_a && m.keeps_b ? match_lines(&m, e) : err_nomem(e);
		if (result == 0)
			result = add_hunks(&m, ret, e);
	}
	free(m.keeps_a);
	free(m.keeps_b);
	free(la.list);
	free(lb.list);
	return result;
}
