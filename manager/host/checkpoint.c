/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a sandbox's checkpoints: reading, choosing, changing. */
#include "manager/host/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/procid.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/sandbox/layerhome.h"

#define LIST "list.json"
#define LIST_MAX (1u << 20)
#define FORMAT 1
#define SPARE_BYTES (16u << 20) /* that a checkpoint leaves free */

static const char *text_of(const json_t *record, const char *key)
{
	const char *s = json_string_value(json_object_get(record, key));

	return s ? s : "";
}

/* ---- the list --------------------------------------------------------------- */

static int load(struct checkpoints *c, struct err *e)
{
	autobuf struct buf b = BUF_INIT(LIST_MAX);
	struct err why = { 0 };

	if (c->dir_fd >= 0 && io_read_file(c->dir_fd, LIST, &b, &why) == 0)
		c->doc = json_parse(b.data ? b.data : "", b.len, LIST_MAX, LIST, e);
	else if (c->dir_fd < 0 || why.code == ERR_NOT_FOUND || why.os_errno == ENOENT)
		c->doc = json_pack("{s:i,s:i,s:n,s:[]}", "version", FORMAT, "next", 1, "head",
				   "list");
	else
		*e = why;
	if (!c->doc)
		return err_wrap(e, "the list of checkpoints");
	if (json_check_version(c->doc, FORMAT, LIST, e) < 0)
		return -1;
	return json_is_array(checkpoints_list(c)) ?
		       0 :
		       err_set(e, ERR_CORRUPT, LIST " has no list of checkpoints");
}

/* What concerns only one of a process need not last: the list is whole either way. */
static int save(struct checkpoints *c, int passing, struct err *e)
{
	autofree char *text = json_dumps(c->doc, JSON_COMPACT);

	return text ? io_replace_file(c->dir_fd, LIST, text, strlen(text), 0600,
				      passing ? IO_DURABLE_DATA : IO_DURABLE, e) :
		      err_nomem(e);
}

static int is_owned(const json_t *record)
{
	return text_of(record, "owner")[0] != '\0';
}

/* Of a process that has ended, or that gave its file away. */
static int is_over(const struct checkpoints *c, const json_t *record)
{
	char file[CHECKPOINT_ID + 8];

	if (!is_owned(record))
		return 0;
	snprintf(file, sizeof(file), "%.15s.img", text_of(record, "id"));
	return procid_has_ended(text_of(record, "owner")) ||
	       (c->data_fd >= 0 && !path_has(c->data_fd, file));
}

/* On disk they are in the list until the next change: that spares a fork the wait for it. */
static void drop_over(struct checkpoints *c)
{
	json_t *list = json_object_get(c->doc, "list");
	size_t i;

	for (i = json_array_size(list); i-- > 0;)
		if (is_over(c, json_array_get(list, i)))
			json_array_remove(list, i);
}

/* Where the layer is, and beside it those of checkpoints. */
static int open_data(struct checkpoints *c, struct err *e)
{
	c->home_fd = layerhome_open(c->box_fd, e);
	if (c->home_fd < 0)
		return -1;
	if (c->dir_fd >= 0)
		c->data_fd = path_make_dir(c->home_fd, CHECKPOINTS_DIR, e);
	return c->dir_fd >= 0 && c->data_fd < 0 ? -1 : 0;
}

int checkpoints_open(int box_fd, int exclusive, struct checkpoints *ret, struct err *e)
{
	struct checkpoints c = CHECKPOINTS_NONE;

	c.box_fd = box_fd;

	if (exclusive)
		c.dir_fd = path_make_dir(box_fd, CHECKPOINTS_DIR, e);
	else
		c.dir_fd = openat(box_fd, CHECKPOINTS_DIR,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c.dir_fd < 0 && (exclusive || errno != ENOENT))
		return exclusive ? -1 : err_sys(e, "open the checkpoints of the sandbox");
	while (c.dir_fd >= 0 && flock(c.dir_fd, exclusive ? LOCK_EX : LOCK_SH) < 0)
		if (errno != EINTR) {
			err_sys(e, "lock the checkpoints of the sandbox");
			checkpoints_close(&c);
			return -1;
		}
	if (load(&c, e) < 0 || open_data(&c, e) < 0) {
		checkpoints_close(&c);
		return -1;
	}
	drop_over(&c);
	*ret = c;
	return 0;
}

void checkpoints_close(struct checkpoints *c)
{
	fd_close(&c->data_fd);
	fd_close(&c->home_fd);
	fd_close(&c->dir_fd);
	json_decref(c->doc);
	c->doc = NULL;
}

const json_t *checkpoints_list(const struct checkpoints *c)
{
	return json_object_get(c->doc, "list");
}

const char *checkpoints_head(const struct checkpoints *c)
{
	return json_string_value(json_object_get(c->doc, "head"));
}

static json_t *by_id(const struct checkpoints *c, const char *id)
{
	json_t *one;
	size_t i;

	json_array_foreach (checkpoints_list(c), i, one)
		if (id && !strcmp(text_of(one, "id"), id))
			return one;
	return NULL;
}

static json_t *by_name(const struct checkpoints *c, const char *name)
{
	json_t *one;
	size_t i;

	json_array_foreach (checkpoints_list(c), i, one)
		if (name[0] && !strcmp(text_of(one, "name"), name))
			return one;
	return NULL;
}

json_t *checkpoints_find(const struct checkpoints *c, const char *word, struct err *e)
{
	json_t *found = word[0] ? by_id(c, word) : NULL;

	if (!word[0]) {
		err_set(e, ERR_USAGE, "the name of the checkpoint is empty; hint: "
				      "berth checkpoints lists them");
		return NULL;
	}
	if (!found)
		found = by_name(c, word);
	if (!found)
		err_set(e, ERR_NOT_FOUND,
			"the sandbox has no checkpoint '%.64s'; "
			"hint: berth checkpoints lists them",
			word);
	return found;
}

int checkpoints_unchanged(const struct checkpoints *c, char ret_id[CHECKPOINT_ID])
{
	const json_t *at = by_id(c, checkpoints_head(c));
	size_t left = json_array_size(checkpoints_list(c));

	if (!checkpoint_looked(c->box_fd, ret_id))
		return 0;
	while (at && strcmp(text_of(at, "id"), ret_id) && json_is_true(json_object_get(at, "before_command")) && left--)
		at = by_id(c, text_of(at, "parent"));
	return at && !strcmp(text_of(at, "id"), ret_id);
}

json_t *checkpoints_back(const struct checkpoints *c, unsigned steps, const char *unchanged, struct err *e)
{
	json_t *at = by_id(c, checkpoints_head(c)), *before = unchanged ? by_id(c, unchanged) : NULL;
	char restored[CHECKPOINT_ID];
	unsigned i;

	before = before ? by_id(c, text_of(before, "parent")) : NULL;
	if (before)
		at = before;

	else if (at && checkpoint_restored(c->box_fd, restored) && !strcmp(restored, text_of(at, "id")))
		at = by_id(c, text_of(at, "parent"));
	for (i = 1; at && i < steps; i++)
		at = by_id(c, text_of(at, "parent"));
	if (!at)
		err_set(e, ERR_NOT_FOUND,
			"no checkpoint is %u step%s back; "
			"hint: berth checkpoints lists those there are, and berth checkpoint makes "
			"one",
			steps, steps == 1 ? "" : "s");
	return at;
}

/* k and digits: what an id looks like */
static int is_id(const char *s)
{
	return s[0] == 'k' && s[1] && !s[1 + strspn(s + 1, "0123456789")];
}

int checkpoints_check_name(const struct checkpoints *c, const char *name, struct err *e)
{
	if (!path_is_name(name) || is_id(name))
		return err_set(e, ERR_INVALID,
			       "'%.64s' is no name of a checkpoint; "
			       "hint: a-z 0-9 _ . -, and not k with a number",
			       name);
	return by_name(c, name) ? err_set(e, ERR_EXISTS,
					  "the sandbox has a checkpoint '%s' already; "
					  "hint: another --name, or berth checkpoint rm",
					  name) :
				  0;
}

/* ---- files ------------------------------------------------------------------ */

/* kN.anything of an N that the list does not have, or a copy that was not decided on. */
static int is_left(const struct checkpoints *c, const char *file)
{
	char id[CHECKPOINT_ID];
	size_t n = strcspn(file, ".");

	if (!strncmp(file, CHECKPOINT_UNDO, strlen(CHECKPOINT_UNDO)))
		return !path_has(c->dir_fd, "pending");
	if (file[0] == '.') /* what io_replace_file() was to rename */
		return 1;
	if (n >= sizeof(id) || file[0] != 'k' || !file[n])
		return 0;
	snprintf(id, sizeof(id), "%.*s", (int)n, file);
	return is_id(id) && !by_id(c, id);
}

struct collecting {
	const struct checkpoints *c;
	int dir_fd;
};

static int collect_one(void *ctx, const char *file)
{
	const struct collecting *x = ctx;

	if (is_left(x->c, file))
		unlinkat(x->dir_fd, file, 0);
	return 0;
}

static int collect_in(const struct checkpoints *c, int dir_fd, struct err *e)
{
	autoclose int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collecting x = { c, dir_fd };
	int failed = 0;

	if (fd >= 0)
		path_each_entry(fd, collect_one, &x, &failed);
	return fd < 0 || failed ? err_sys(e, "read the directory of the checkpoints") : 0;
}

/* Of those that were not finished, and of those that the list has no more. */
static int collect(const struct checkpoints *c, struct err *e)
{
	return collect_in(c, c->dir_fd, e) < 0 || collect_in(c, c->data_fd, e) < 0 ? -1 : 0;
}

/* Before anything stands still: a copy that finds no room half-way would have held it up for
 * nothing. */
static int check_room(struct checkpoints *c, int layer_fd, struct err *e)
{
	int shares = fileclone_shares(c->data_fd, e);
	struct statvfs fs;
	struct stat st;
	uint64_t need, has;

	if (shares < 0)
		return errno == ENOSPC ? err_set(e, ERR_FULL,
						 "no room for a checkpoint; hint: "
						 "berth checkpoint rm removes one, and berth "
						 "system df tells what takes it") :
					 -1;
	c->shares = shares;
	if (fstatvfs(c->data_fd, &fs) < 0 || fstat(layer_fd, &st) < 0)
		return err_sys(e, "measure the room for a checkpoint");
	need = SPARE_BYTES + (shares ? 0 : (uint64_t)st.st_blocks * 512);
	has = (uint64_t)fs.f_bavail * fs.f_frsize;
	return has >= need ?
		       0 :
		       err_set(e, ERR_FULL,
			       "a checkpoint takes %llu MiB, and the file system of the layer "
			       "has %llu MiB; hint: berth checkpoint rm removes one, and berth "
			       "system df tells "
			       "what takes it",
			       (unsigned long long)(need >> 20), (unsigned long long)(has >> 20));
}

/* How many stay at most, without those of processes. */
static size_t wanted(const struct checkpoints *c, const struct checkpoint_bounds *bounds)
{
	const json_int_t own = json_integer_value(json_object_get(c->doc, "keep"));

	return bounds->keep_from_now_on		   ? bounds->keep_from_now_on :
	       own > 0 && own <= CHECKPOINT_KEEP_MAX ? (size_t)own :
						       bounds->keep;
}

static size_t count_owned(const struct checkpoints *c)
{
	const json_t *one;
	size_t i, n = 0;

	json_array_foreach (checkpoints_list(c), i, one)
		n += (size_t)is_owned(one);
	return n;
}

int checkpoint_begin(struct checkpoints *c, int layer_fd, const struct checkpoint_bounds *bounds,
		     char ret_id[CHECKPOINT_ID], struct err *e)
{
	const json_int_t next = json_integer_value(json_object_get(c->doc, "next"));
	char file[CHECKPOINT_ID + 8];
	size_t others;
	int fd;

	if (next < 1 || next > 999999999)
		return err_set(e, ERR_CORRUPT, LIST " has no number for the next checkpoint");
	if (collect(c, e) < 0 || check_room(c, layer_fd, e) < 0)
		return -1;
	/* that stay beside the new one */
	others = wanted(c, bounds) - 1 + count_owned(c);
	if (checkpoints_fit(c, layer_fd, bounds, others, &c->fit, e) < 0)
		return -1;
	snprintf(ret_id, CHECKPOINT_ID, "k%d", (int)next);
	snprintf(file, sizeof(file), "%s.img", ret_id);
	fd = openat(c->data_fd, file, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, "make the file of a checkpoint") : fd;
}

/* Its children become those of its parent. */
static void drop(struct checkpoints *c, const char *id)
{
	json_t *list = json_object_get(c->doc, "list"), *gone = by_id(c, id), *one, *parent;
	size_t i, at = json_array_size(list);

	parent = json_incref(json_object_get(gone, "parent"));
	json_array_foreach (list, i, one) {
		if (one == gone)
			at = i;
		else if (!strcmp(text_of(one, "parent"), id))
			json_object_set(one, "parent", parent);
	}
	if (checkpoints_head(c) && !strcmp(checkpoints_head(c), id))
		json_object_set(c->doc, "head", parent);
	json_decref(parent);
	if (at < json_array_size(list))
		json_array_remove(list, at);
}

/* The last one is the head, and stays. */
static void prune(struct checkpoints *c, const struct checkpoint_bounds *bounds)
{
	const size_t fit = c->fit + 1, want = wanted(c, bounds), keep = want < fit ? want : fit;
	const json_t *list = checkpoints_list(c);
	char id[CHECKPOINT_ID];
	size_t i, n = json_array_size(list) - count_owned(c);

	for (i = 0; n > 1 && n > keep; n--) {
		while (is_owned(json_array_get(list, i)))
			i++;
		snprintf(id, sizeof(id), "%s", text_of(json_array_get(list, i), "id"));
		drop(c, id);
	}
}

int checkpoint_commit(struct checkpoints *c, const char *id, json_t *members,
		      const struct checkpoint_bounds *bounds, struct err *e)
{
	json_t *record =
		json_pack("{s:s,s:O,s:I}", "id", id, "parent", json_object_get(c->doc, "head"),
			  "created_ms", (json_int_t)clock_wall_ms());
	char file[CHECKPOINT_ID + 8];
	const int owned = is_owned(members), automatic = json_is_true(json_object_get(members, "before_command"));
	struct err ignored;
	struct stat st;
	int failed;

	snprintf(file, sizeof(file), "%s.img", id);
	if (fstatat(c->data_fd, file, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		err_sys(e, "look at the file of a checkpoint");
		json_decref(members);
		json_decref(record);
		return -1;
	}
	failed = !record || json_object_update_missing(record, members) < 0 ||
		 json_object_set_new(record, "bytes",
				     json_integer((json_int_t)st.st_blocks * 512)) < 0 ||
		 json_array_append(json_object_get(c->doc, "list"), record) < 0 ||
		 (!owned && json_object_set_new(c->doc, "head", json_string(id)) < 0) ||
		 json_object_set_new(c->doc, "next", json_integer(atoi(id + 1) + 1)) < 0 ||
		 (bounds->keep_from_now_on &&
		  json_object_set_new(c->doc, "keep", json_integer(bounds->keep_from_now_on)) < 0);
	json_decref(members);
	json_decref(record);
	if (failed)
		return err_nomem(e);
	if (!owned)
		prune(c, bounds);
	if (save(c, owned, e) < 0)
		return -1;
	if (!owned && automatic)
		checkpoint_touched(c->box_fd); /* the command may only look */
	else if (!owned)
		checkpoint_moved_on(c->box_fd);
	collect(c, &ignored);                  /* else the next one does */
	/* else that is what checkpoint_begin() took the room for */
	if (count_owned(c))
		checkpoints_note_use(c);
	return 0;
}

void checkpoint_cancel(const struct checkpoints *c, const char *id)
{
	char file[CHECKPOINT_ID + 8];

	snprintf(file, sizeof(file), "%s.img", id);
	unlinkat(c->data_fd, file, 0);
	checkpoints_note_use(c);
}

int checkpoint_remove(struct checkpoints *c, const char *id, struct err *e)
{
	const json_t *one = by_id(c, id);
	const int owned = one && is_owned(one);

	drop(c, id);
	if (save(c, owned, e) < 0 || collect(c, e) < 0)
		return -1;
	checkpoints_note_use(c);
	return 0;
}
