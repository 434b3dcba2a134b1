/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/codefiles.h"

#include <stdlib.h>
#include <string.h>

#include "manager/keeper/fileclient.h"

static int parse(const struct buf *b, struct filerecord **ret, size_t *ret_n, struct err *e)
{
	const char *at = b->data, *end = b->data + b->len;
	struct filerecord *list = NULL, *more, r;
	size_t n = 0, cap = 0;
	int got = 0;

	while (b->len && (got = filerecord_next(&at, end, &r, e)) > 0) {
		if (n == cap) {
			cap = cap ? 2 * cap : 256;
			more = reallocarray(list, cap, sizeof(*list));
			if (!more) {
				free(list);
				return err_nomem(e);
			}
			list = more;
		}
		list[n++] = r;
	}
	if (got < 0) {
		free(list);
		return -1;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct filerecord *)a)->name, ((const struct filerecord *)b)->name);
}

static void add_file(json_t *list, const struct filerecord *r, const char *change)
{
	json_t *j = json_pack("{s:s,s:I}", "change", change, "size", (json_int_t)r->size);
	struct err ignored;

	json_set_bytes(j, "path", r->name, strlen(r->name), &ignored);
	json_array_append_new(list, j);
}

/* Compares two sorted lists; differences go to the result. */
static json_t *differences(const struct filerecord *a, size_t na, const struct filerecord *b, size_t nb)
{
	json_t *list = json_array();
	size_t i = 0, j = 0;

	while (i < na || j < nb) {
		int d = i == na ? 1 : j == nb ? -1 : strcmp(a[i].name, b[j].name);

		if (d < 0)
			add_file(list, &a[i++], "deleted");
		else if (d > 0)
			add_file(list, &b[j++], "added");
		else {
			if (a[i].size != b[j].size || a[i].mode != b[j].mode || a[i].mtime_sec != b[j].mtime_sec ||
			    a[i].mtime_nsec != b[j].mtime_nsec)
				add_file(list, &b[j], "changed");
			i++;
			j++;
		}
	}
	return list;
}

json_t *codefiles_compare(const struct buf *before, const struct buf *after, struct err *e)
{
	struct filerecord *a = NULL, *b = NULL;
	size_t na = 0, nb = 0;
	json_t *list = NULL;

	if (parse(before, &a, &na, e) == 0 && parse(after, &b, &nb, e) == 0) {
		if (na)
			qsort(a, na, sizeof(*a), by_name);
		if (nb)
			qsort(b, nb, sizeof(*b), by_name);
		list = differences(a, na, b, nb);
	}
	free(a);
	free(b);
	return list;
}
