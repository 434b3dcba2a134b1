/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/record.h"

/* The id that has this name: 1, or 0 without such a name. */
static int read_holder(struct registry *r, const char *name, char ret_id[65])
{
	ssize_t n = readlinkat(r->names_fd, name, ret_id, 64);

	ret_id[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

int names_holder(struct registry *r, const char *name, const char *id, struct err *e)
{
	char holder[65];

	if (!read_holder(r, name, holder))
		return 0;
	if (!strcmp(holder, id))
		return 1;
	if (path_has(r->sandboxes_fd, holder) || path_has(r->kept_fd, holder))
		return err_set(e, ERR_EXISTS, "the name %s is taken by sandbox %s; hint: another name",
			       name, holder);
	/* its sandbox is gone: the name is left over from a crash */
	if (unlinkat(r->names_fd, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, "free the name %s", name);
	return 0;
}

int names_take(struct registry *r, struct claim *c, const char *name, struct err *e)
{
	if (registry_check_given(name, e) < 0)
		return -1;
	if (symlinkat(c->id, r->names_fd, name) < 0) {
		if (errno != EEXIST)
			return err_sys(e, "record the name %s", name);
		if (names_holder(r, name, c->id, e) < 0)
			return -1;
		if (symlinkat(c->id, r->names_fd, name) < 0)
			return err_sys(e, "record the name %s", name);
	}
	snprintf(c->name, sizeof(c->name), "%s", name);
	return 0;
}

struct names_of {
	struct registry *r;
	const char *id, *keep;	/* keep: or NULL */
};

static int drop_one(void *ctx, const char *name)
{
	const struct names_of *n = ctx;
	char holder[65];

	if ((!n->keep || strcmp(name, n->keep)) && read_holder(n->r, name, holder) &&
	    !strcmp(holder, n->id))
		unlinkat(n->r->names_fd, name, 0);
	return 0;
}

int names_drop_others(struct registry *r, const char *id, const char *keep, struct err *e)
{
	struct names_of n = { r, id, keep };

	return registry_each(r->names_fd, drop_one, &n, e);
}

/* 1 when a record tells the one name of the sandbox, and then it is dropped. */
static int drop_recorded(struct registry *r, const char *id)
{
	struct names_of n = { r, id, NULL };
	autojson json_t *record = NULL;
	const char *name;
	struct err ignored;
	char path[100];

	snprintf(path, sizeof(path), "%s/" NAMES_CHANGING, id);
	if (path_has(r->kept_fd, path) || errno != ENOENT ||
	    (record_read(r->kept_fd, id, &record, &ignored) <= 0 &&
	     record_read(r->sandboxes_fd, id, &record, &ignored) <= 0))
		return 0;
	name = record_name(record);
	if (!record_has_name(record) || (name[0] && !path_is_name(name)))
		return 0;
	if (name[0])
		drop_one(&n, name);
	return 1;
}

int names_drop(struct registry *r, const char *id, struct err *e)
{
	return drop_recorded(r, id) ? 0 : names_drop_others(r, id, NULL, e);
}
