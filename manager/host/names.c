/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/netmembers.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"

/* ---- who has which name ---- */

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
	/* its sandbox is gone: a crash left the name */
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

/* Drops the name that the record has: 1, or 0 if it has none. */
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

/* ---- a lasting sandbox gets another name ---- */

/*
 * Begins a change of the name. Until that is done the sandbox may have two names: names_drop() then
 * looks at all.
 */
static int begin_name_change(int dir, struct err *e)
{
	autoclose int fd = openat(dir, NAMES_CHANGING, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, "note that the name changes") : 0;
}

/* The record of a running one, which ps reads. */
static int rename_run(struct registry *r, const char *id, const char *name, struct err *e)
{
	autojson json_t *record = NULL;

	if (!path_has(r->sandboxes_fd, id))
		return 0;
	record = record_load_run(r, id, e);
	if (record)
		record_set_name(record, name);
	if (record && record_replace_run(r, id, record, e) == 0)
		return 0;
	/* it has stopped meanwhile, or does so now */
	return e->code != ERR_NOT_FOUND && path_has(r->sandboxes_fd, id) ? -1 : 0;
}

/* A sandbox of berth run has its command in the record of the run, and no other; what else has no record is being removed. */
static int refuse_rename(struct registry *r, const char *id, struct err *e)
{
	struct err ignored;
	autojson json_t *run = record_load_run(r, id, &ignored);

	return run && json_array_size(record_command(run)) && !record_service(run) ?
		       err_set(e, ERR_INVALID, "sandbox %s does not last and cannot be renamed", id) :
		       err_set(e, ERR_NOT_FOUND, "sandbox %s is gone", id);
}

int registry_rename(struct registry *r, const char *id, const char *name, struct err *e)
{
	autoclose int lock = openat(r->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autojson json_t *record = NULL;
	autoclose int dir = -1;
	struct err ignored;
	int held;

	if (registry_check_name(name, e) < 0)
		return -1;
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_sys(e, "lock the list of sandboxes");
	record = record_load_kept(r, id, e);
	if (!record)
		return e->code == ERR_NOT_FOUND ? refuse_rename(r, id, e) : -1;
	dir = openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "open the directory of sandbox %s", id);
	held = names_holder(r, name, id, e);
	if (held < 0 || begin_name_change(dir, e) < 0)
		return -1;
	if (!held && symlinkat(id, r->names_fd, name) < 0)
		return err_sys(e, "record the name %s", name);
	record_set_name(record, name);
	if (record_save_kept(r, id, record, e) < 0 || rename_run(r, id, name, e) < 0) {
		if (!held)
			unlinkat(r->names_fd, name, 0);
		return -1;
	}
	if (names_drop_others(r, id, name, &ignored) == 0)
		unlinkat(dir, NAMES_CHANGING, 0);
	if (netclear_rename(r, id, name, e) < 0)
		return err_wrap(e, "sandbox %s is %s now, but not for its networks", id, name);
	return 0;
}

/* ---- which sandbox a word means ---- */

/*
 * Finds the sandbox that a word means: its whole id, before a name, before the start of an id. So
 * that no name can hide an id, no name may look like one. Upholds S40 of SECURITY.md.
 */

#define ID_LEN 12
#define PREFIX_MIN 4

static int is_hex_id(const char *s)
{
	return !s[strspn(s, "0123456789abcdef")];
}

int registry_check_name(const char *name, struct err *e)
{
	size_t n = strlen(name);

	if (!path_is_name(name))
		return err_set(e, ERR_INVALID, "name '%.80s' is malformed; hint: up to 64 of a-z 0-9 _ . -, starting with a "
			       "letter or digit", name);
	if (is_hex_id(name) && n >= PREFIX_MIN && n <= ID_LEN)
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

/* Returns 1 if there is a record of this id, and tells whether it is only kept. */
static int look_up_sandbox(struct registry *r, const char *id, int *ret_kept)
{
	*ret_kept = !record_is_there(r->sandboxes_fd, id);
	return !*ret_kept || record_is_there(r->kept_fd, id);
}

static int sandbox_not_found(const char *ref, struct err *e)
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
static int find_by_name(struct registry *r, const char *ref, char ret_id[65], int *ret_kept)
{
	char id[65];
	ssize_t n = readlinkat(r->names_fd, ref, id, sizeof(id) - 1);

	id[n < 0 ? 0 : n] = '\0';
	if (!path_is_name(id) || !look_up_sandbox(r, id, ret_kept))
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
	if (f.len == ID_LEN && is_hex_id(ref)) {
		if (look_up_sandbox(r, ref, ret_kept)) {
			snprintf(ret_id, 65, "%s", ref);
			return !seen || seen(ctx, ref) ? 0 : sandbox_not_found(ref, e);
		}
		/* the sandbox is being made or removed, and the word is not a name */
		if (path_has(r->sandboxes_fd, ref) || path_has(r->kept_fd, ref))
			return sandbox_not_found(ref, e);
	}
	if (path_is_name(ref) && find_by_name(r, ref, ret_id, ret_kept))
		return !seen || seen(ctx, ret_id) ? 0 : sandbox_not_found(ref, e);
	if (registry_list(r, 1, find_one, &f, e) < 0)
		return -1;
	if (!f.count)
		return sandbox_not_found(ref, e);
	if (f.count > 1 && !f.exact)
		return err_set(e, ERR_INVALID, "'%.80s' is the start of more than one id", ref);
	memcpy(ret_id, f.id, sizeof(f.id));
	*ret_kept = f.kept;
	return 0;
}

/* ---- the list of sandboxes ---- */

/* The list of sandboxes, each once. */

struct lister {
	struct registry *r;
	int sweeps;	/* clears the remains of dead supervisors, whose sandboxes are not listed */
	list_each *each;
	void *ctx;
	json_t *listed;	/* ids of those that live */
	struct err *e;
};

/* The start time of a living sandbox; 0 too if it is dead, and swept. */
static int read_live(struct lister *l, const char *id, json_t **ret)
{
	autoclose int dir = openat(l->r->sandboxes_fd, id,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(l->e, "open the record of sandbox %s", id);
	if (l->sweeps && flock(dir, LOCK_SH | LOCK_NB) == 0) {
		fd_close(&dir);
		sweep_one(l->r, id);
		return 0;
	}
	return record_read_in(dir, id, ret, l->e);
}

static int list_live(void *ctx, const char *id)
{
	struct lister *l = ctx;
	autojson json_t *record = NULL;
	int got = read_live(l, id, &record);

	if (got > 0 && json_object_set_new(l->listed, id, json_true()) < 0)
		return err_nomem(l->e);
	return got > 0 ? l->each(l->ctx, id, 0, record) : got;
}

static int list_kept(void *ctx, const char *id)
{
	struct lister *l = ctx;
	autojson json_t *record = NULL;
	int kept = 1, got;

	/* each sandbox once, even if it starts or stops meanwhile */
	if (json_object_get(l->listed, id))
		return 0;
	/*
	 * it may have been started since; a sandbox that is being started has no record there yet
	 */
	got = record_read(l->r->sandboxes_fd, id, &record, l->e);
	if (got > 0)
		kept = 0;
	else if (got == 0)
		got = record_read(l->r->kept_fd, id, &record, l->e);
	if (got == 0 && l->sweeps)
		sweep_kept(l->r, id);
	return got > 0 ? l->each(l->ctx, id, kept, record) : got;
}

static int sweep_unlisted(void *ctx, const char *id)
{
	struct lister *l = ctx;

	if (!json_object_get(l->listed, id))
		sweep_kept(l->r, id);
	return 0;
}

static int list_sandboxes(struct registry *r, int all, int sweeps, list_each *each, void *ctx, struct err *e)
{
	autojson json_t *listed = json_object();
	struct lister l = { r, sweeps, each, ctx, listed, e };

	if (!listed)
		return err_nomem(e);
	if (registry_each(r->sandboxes_fd, list_live, &l, e) < 0)
		return -1;
	return all ? registry_each(r->kept_fd, list_kept, &l, e) :
	       sweeps ? registry_each(r->kept_fd, sweep_unlisted, &l, e) : 0;
}

int registry_list(struct registry *r, int all, list_each *each, void *ctx, struct err *e)
{
	return list_sandboxes(r, all, 0, each, ctx, e);
}

int registry_sweep_list(struct registry *r, int all, list_each *each, void *ctx, struct err *e)
{
	return list_sandboxes(r, all, 1, each, ctx, e);
}

int registry_list_one(struct registry *r, const char *id, list_each *each, void *ctx, struct err *e)
{
	autojson json_t *listed = json_object();
	struct lister l = { r, 0, each, ctx, listed, e };

	return listed ? list_kept(&l, id) : err_nomem(e);
}

/* ---- a list in pieces ---- */

struct sorted {
	char (*ids)[65];
	size_t n, cap;
	const char *after;
};

static int add_sorted(void *ctx, const char *id)
{
	struct sorted *s = ctx;

	if (s->after && strcmp(id, s->after) <= 0)
		return 0;
	if (s->n == s->cap) {
		void *more = realloc(s->ids, (s->cap + 512) * sizeof(*s->ids));

		if (!more)
			return -1;
		s->ids = more;
		s->cap += 512;
	}
	snprintf(s->ids[s->n++], sizeof(*s->ids), "%s", id);
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* 1: it is known by the file; *ret_result is what each returned, if it was called; 0: it has no record here. */
static int look_at_file(struct registry *r, const struct names_look *l, int dirfd, const char *path, const char *id,
			int kept, int *ret_result, struct err *e)
{
	autojson json_t *record = NULL;
	struct stat st;
	int got;

	if (l->known && !fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) && l->known(l->ctx, id, kept, &st))
		return 1;
	got = kept ? record_read(r->kept_fd, id, &record, e) : record_read_in(dirfd, id, &record, e);
	if (got > 0)
		*ret_result = l->each(l->ctx, id, kept, record);
	return got;
}

static int look_at_one(struct registry *r, const struct names_look *l, const char *id, struct err *e)
{
	autoclose int dir = openat(r->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[100];
	int result = 0, got = 0;

	if (dir < 0 && errno != ENOENT)
		return err_sys(e, "open the record of sandbox %s", id);
	if (dir >= 0 && flock(dir, LOCK_SH | LOCK_NB) == 0) {
		fd_close(&dir);
		sweep_one(r, id);
	} else if (dir >= 0) {
		got = look_at_file(r, l, dir, RECORD_FILE, id, 0, &result, e);
	}
	if (got == 0 && l->all) {
		snprintf(path, sizeof(path), "%s/" RECORD_FILE, id);
		got = look_at_file(r, l, r->kept_fd, path, id, 1, &result, e);
	}
	if (got == 0)
		sweep_kept(r, id);
	return got < 0 ? -1 : result;
}

int names_look(struct registry *r, const struct names_look *look, struct err *e)
{
	struct sorted s = { .after = look->after };
	size_t i;
	int result = 0;

	if (registry_each(r->sandboxes_fd, add_sorted, &s, e) < 0 || registry_each(r->kept_fd, add_sorted, &s, e) < 0) {
		free(s.ids);
		return e->code ? -1 : err_nomem(e);
	}
	if (s.n)
		qsort(s.ids, s.n, sizeof(*s.ids), compare_ids);
	for (i = 0; i < s.n && !result; i++)
		if (!i || strcmp(s.ids[i], s.ids[i - 1]))
			result = look_at_one(r, look, s.ids[i], e);
	free(s.ids);
	return result;
}

/* ---- names in the web ---- */

struct web_names {
	int dir;
	const char *id;
};

static int drop_web_name(void *ctx, const char *name)
{
	const struct web_names *w = ctx;
	const size_t n = strlen(w->id);
	char text[80];
	const ssize_t got = readlinkat(w->dir, name, text, sizeof(text));

	if (got > (ssize_t)n && !memcmp(text, w->id, n) && text[n] == ':')
		unlinkat(w->dir, name, 0);
	return 0;
}

void names_drop_web(struct registry *r, const char *id)
{
	autoclose int dir = openat(r->state_fd, NAMES_WEB, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int failed = 0;

	if (dir >= 0)
		path_each_entry(dir, drop_web_name, &(struct web_names){ dir, id }, &failed);
}
