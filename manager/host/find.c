/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sandbox a word means: its whole id, before a name, before the start of an id.  So that no name can stand in
 * front of an id, none may look like one.  Upholds S40 of SECURITY.md.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "manager/host/list.h"
#include "manager/host/record.h"

#define ID_LEN 12
#define PREFIX_MIN 4

static int is_hex(const char *s)
{
	return !s[strspn(s, "0123456789abcdef")];
}

int registry_check_name(const char *name, struct err *e)
{
	size_t n = strlen(name);

	if (!path_is_name(name))
		return err_set(e, ERR_INVALID, "name '%.80s' is malformed; hint: up to 64 of a-z 0-9 _ . -, starting with a "
			       "letter or digit", name);
	if (is_hex(name) && n >= PREFIX_MIN && n <= ID_LEN)
		return err_set(e, ERR_INVALID, "name '%s' could be the id of a sandbox, or the start of one; hint: a letter after f, or "
			       "a dash, as in box-%s", name, name);
	return 0;
}

int registry_check_given(const char *name, struct err *e)
{
	if (!strncmp(name, REGISTRY_SNAPSHOT, strlen(REGISTRY_SNAPSHOT)))
		return err_set(e, ERR_INVALID, "name '%.80s' is malformed: berthd names E2B's "
			       "snapshots like this; hint: a name that begins in another way",
			       name);
	return registry_check_name(name, e);
}

struct finder {
	registry_seen *seen;	/* or NULL: all are */
	void *ctx;
	const char *ref;
	size_t len;
	char id[65];
	int kept, exact, count;
};

static int find_one(void *ctx, const char *id, int kept, json_t *record)
{
	struct finder *f = ctx;
	const int exact = !strcmp(record_name(record), f->ref);

	if (f->exact || (!exact && (f->len < PREFIX_MIN || strncmp(id, f->ref, f->len))) || (f->seen && !f->seen(f->ctx, id)))
		return 0;
	snprintf(f->id, sizeof(f->id), "%s", id);
	f->kept = kept;
	f->exact = exact;
	f->count++;
	return 0;
}

/* 1 when there is a record of this id, and then whether it is only kept. */
static int look_up(struct registry *r, const char *id, int *ret_kept)
{
	*ret_kept = !record_is_there(r->sandboxes_fd, id);
	return !*ret_kept || record_is_there(r->kept_fd, id);
}

static int not_found(const char *ref, struct err *e)
{
	const char *at = strchr(ref, '@');

	if (at)
		return err_set(e, ERR_NOT_FOUND,
			       "no sandbox '%.80s'; hint: fork, commit and checkpoint export take "
			       "SANDBOX@CHECKPOINT, undo takes --to %.20s",
			       ref, at + 1);
	return err_set(e, ERR_NOT_FOUND, "no sandbox '%.80s'; hint: berth ps -a lists them", ref);
}

/* A name that was given, without a look at all sandboxes: 1, or 0 when a record must tell. */
static int find_name(struct registry *r, const char *ref, char ret_id[65], int *ret_kept)
{
	char id[65];
	ssize_t n = readlinkat(r->names_fd, ref, id, sizeof(id) - 1);

	id[n < 0 ? 0 : n] = '\0';
	if (!path_is_name(id) || !look_up(r, id, ret_kept))
		return 0;
	memcpy(ret_id, id, sizeof(id));
	return 1;
}

int registry_find(struct registry *r, const char *ref, char ret_id[65], int *ret_kept, struct err *e)
{
	return registry_find_seen(r, ref, NULL, NULL, ret_id, ret_kept, e);
}

int registry_find_seen(struct registry *r, const char *ref, registry_seen *seen, void *ctx, char ret_id[65], int *ret_kept, struct err *e)
{
	struct finder f = { .seen = seen, .ctx = ctx, .ref = ref, .len = strlen(ref) };

	/* the start of every id, and the name of each sandbox that has none */
	if (!f.len)
		return err_set(e, ERR_INVALID,
			       "the name of the sandbox is empty; hint: berth ps -a lists them");
	if (f.len == ID_LEN && is_hex(ref)) {
		if (look_up(r, ref, ret_kept)) {
			snprintf(ret_id, 65, "%s", ref);
			return !seen || seen(ctx, ref) ? 0 : not_found(ref, e);
		}
		/* it is being made or removed, and no sandbox of that name is meant */
		if (path_has(r->sandboxes_fd, ref) || path_has(r->kept_fd, ref))
			return not_found(ref, e);
	}
	if (path_is_name(ref) && find_name(r, ref, ret_id, ret_kept))
		return !seen || seen(ctx, ret_id) ? 0 : not_found(ref, e);
	if (registry_list(r, 1, find_one, &f, e) < 0)
		return -1;
	if (!f.count)
		return not_found(ref, e);
	if (f.count > 1 && !f.exact)
		return err_set(e, ERR_INVALID, "'%.80s' is the start of more than one id", ref);
	memcpy(ret_id, f.id, sizeof(f.id));
	*ret_kept = f.kept;
	return 0;
}
