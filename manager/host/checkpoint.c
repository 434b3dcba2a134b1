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
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/host/procid.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/kernel/loopdev.h"
#include "runtime/sandbox/layerhome.h"
#include "runtime/sandbox/writable.h"

#define LIST "list.json"
#define LIST_MAX (1u << 20)
#define FORMAT 1
#define SPARE_BYTES (16u << 20) /* bytes that a checkpoint leaves free */

static const char *checkpoint_text(const json_t *record, const char *key)
{
	const char *s = json_string_value(json_object_get(record, key));

	return s ? s : "";
}

/* ---- the list --------------------------------------------------------------- */

static int load_checkpoint_list(struct checkpoints *c, struct err *e)
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

/*
 * Writes the list. A change that concerns only a checkpoint of a process need not last: the list is
 * whole either way.
 */
static int save_checkpoint_list(struct checkpoints *c, int passing, struct err *e)
{
	autofree char *text = json_dumps(c->doc, JSON_COMPACT);

	return text ? io_replace_file(c->dir_fd, LIST, text, strlen(text), 0600,
				      passing ? IO_DURABLE_DATA : IO_DURABLE, e) :
		      err_nomem(e);
}

static int is_owned(const json_t *record)
{
	return checkpoint_text(record, "owner")[0] != '\0';
}

/* Tells whether the checkpoint's process has ended, or gave its file away. */
static int is_abandoned_checkpoint(const struct checkpoints *c, const json_t *record)
{
	char file[CHECKPOINT_ID + 8];

	if (!is_owned(record))
		return 0;
	snprintf(file, sizeof(file), "%.15s.img", checkpoint_text(record, "id"));
	return procid_has_ended(checkpoint_text(record, "owner")) ||
	       (c->data_fd >= 0 && !path_has(c->data_fd, file));
}

/*
 * Drops them from the list in memory. On disk they stay in it until the next change, so that a fork
 * need not wait for that.
 */
static void drop_over(struct checkpoints *c)
{
	json_t *list = json_object_get(c->doc, "list");
	size_t i;

	for (i = json_array_size(list); i-- > 0;)
		if (is_abandoned_checkpoint(c, json_array_get(list, i)))
			json_array_remove(list, i);
}

/* Opens the directory of the layer, and beside it that of the checkpoints' layers. */
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
	if (load_checkpoint_list(&c, e) < 0 || open_data(&c, e) < 0) {
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

static json_t *checkpoint_by_id(const struct checkpoints *c, const char *id)
{
	json_t *one;
	size_t i;

	json_array_foreach (checkpoints_list(c), i, one)
		if (id && !strcmp(checkpoint_text(one, "id"), id))
			return one;
	return NULL;
}

static json_t *checkpoint_by_name(const struct checkpoints *c, const char *name)
{
	json_t *one;
	size_t i;

	json_array_foreach (checkpoints_list(c), i, one)
		if (name[0] && !strcmp(checkpoint_text(one, "name"), name))
			return one;
	return NULL;
}

json_t *checkpoints_find(const struct checkpoints *c, const char *word, struct err *e)
{
	json_t *found = word[0] ? checkpoint_by_id(c, word) : NULL;

	if (!word[0]) {
		err_set(e, ERR_USAGE, "the name of the checkpoint is empty; hint: "
				      "berth checkpoints lists them");
		return NULL;
	}
	if (!found)
		found = checkpoint_by_name(c, word);
	if (!found)
		err_set(e, ERR_NOT_FOUND,
			"the sandbox has no checkpoint '%.64s'; "
			"hint: berth checkpoints lists them",
			word);
	return found;
}

int checkpoints_unchanged(const struct checkpoints *c, char ret_id[CHECKPOINT_ID])
{
	const json_t *at = checkpoint_by_id(c, checkpoints_head(c));
	size_t left = json_array_size(checkpoints_list(c));

	if (!checkpoint_looked(c->box_fd, ret_id))
		return 0;
	while (at && strcmp(checkpoint_text(at, "id"), ret_id) && json_is_true(json_object_get(at, "before_command")) && left--)
		at = checkpoint_by_id(c, checkpoint_text(at, "parent"));
	return at && !strcmp(checkpoint_text(at, "id"), ret_id);
}

json_t *checkpoints_back(const struct checkpoints *c, unsigned steps, const char *unchanged, struct err *e)
{
	json_t *at = checkpoint_by_id(c, checkpoints_head(c)), *before = unchanged ? checkpoint_by_id(c, unchanged) : NULL;
	char restored[CHECKPOINT_ID];
	unsigned i;

	before = before ? checkpoint_by_id(c, checkpoint_text(before, "parent")) : NULL;
	if (before)
		at = before;

	else if (at && checkpoint_restored(c->box_fd, restored) && !strcmp(restored, checkpoint_text(at, "id")))
		at = checkpoint_by_id(c, checkpoint_text(at, "parent"));
	for (i = 1; at && i < steps; i++)
		at = checkpoint_by_id(c, checkpoint_text(at, "parent"));
	if (!at)
		err_set(e, ERR_NOT_FOUND,
			"no checkpoint is %u step%s back; "
			"hint: berth checkpoints lists those there are, and berth checkpoint makes "
			"one",
			steps, steps == 1 ? "" : "s");
	return at;
}

/* k and digits: what an id looks like */
static int is_checkpoint_id(const char *s)
{
	return s[0] == 'k' && s[1] && !s[1 + strspn(s + 1, "0123456789")];
}

int checkpoints_check_name(const struct checkpoints *c, const char *name, struct err *e)
{
	if (!path_is_name(name) || is_checkpoint_id(name))
		return err_set(e, ERR_INVALID,
			       "'%.64s' cannot be the name of a checkpoint; "
			       "hint: a-z 0-9 _ . -, and not k with a number",
			       name);
	return checkpoint_by_name(c, name) ? err_set(e, ERR_EXISTS,
					  "the sandbox has a checkpoint '%s' already; "
					  "hint: another --name, or berth checkpoint rm",
					  name) :
				  0;
}

/* ---- files ------------------------------------------------------------------ */

/* kN.anything of an N that the list does not have, or a copy that was not decided on. */
static int is_leftover_file(const struct checkpoints *c, const char *file)
{
	char id[CHECKPOINT_ID];
	size_t n = strcspn(file, ".");

	if (!strncmp(file, CHECKPOINT_UNDO, strlen(CHECKPOINT_UNDO)))
		return !path_has(c->dir_fd, "pending");
	if (file[0] == '.') /* a temporary file of io_replace_file() */
		return 1;
	if (n >= sizeof(id) || file[0] != 'k' || !file[n])
		return 0;
	snprintf(id, sizeof(id), "%.*s", (int)n, file);
	return is_checkpoint_id(id) && !checkpoint_by_id(c, id);
}

struct collecting {
	const struct checkpoints *c;
	int dir_fd;
};

static int remove_leftover(void *ctx, const char *file)
{
	const struct collecting *x = ctx;

	if (is_leftover_file(x->c, file))
		unlinkat(x->dir_fd, file, 0);
	return 0;
}

static int collect_in(const struct checkpoints *c, int dir_fd, struct err *e)
{
	autoclose int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collecting x = { c, dir_fd };
	int failed = 0;

	if (fd >= 0)
		path_each_entry(fd, remove_leftover, &x, &failed);
	return fd < 0 || failed ? err_sys(e, "read the directory of the checkpoints") : 0;
}

/* Removes files of unfinished checkpoints, and of those that are no longer in the list. */
static int remove_leftovers(const struct checkpoints *c, struct err *e)
{
	return collect_in(c, c->dir_fd, e) < 0 || collect_in(c, c->data_fd, e) < 0 ? -1 : 0;
}

/* Checks the room before anything is frozen: a copy that runs out of room half-way would have
 * frozen the layer for nothing. */
static int check_checkpoint_room(struct checkpoints *c, int layer_fd, struct err *e)
{
	int shares = fileclone_shares(c->data_fd, e);
	struct statvfs fs;
	struct stat st;
	uint64_t need, has;

	if (shares < 0)
		return errno == ENOSPC ? err_set(e, ERR_FULL,
						 "there is no room for a checkpoint; hint: berth "
						 "checkpoint rm removes one, and berth system df "
						 "shows what uses the disk") :
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
			       "system df shows what uses the disk",
			       (unsigned long long)(need >> 20), (unsigned long long)(has >> 20));
}

/* Returns how many stay at most, not counting those of processes. */
static size_t checkpoints_to_keep(const struct checkpoints *c, const struct checkpoint_bounds *bounds)
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
	if (remove_leftovers(c, e) < 0 || check_checkpoint_room(c, layer_fd, e) < 0)
		return -1;
	/* checkpoints that stay beside the new one */
	others = checkpoints_to_keep(c, bounds) - 1 + count_owned(c);
	if (checkpoints_fit(c, layer_fd, bounds, others, &c->fit, e) < 0)
		return -1;
	snprintf(ret_id, CHECKPOINT_ID, "k%d", (int)next);
	snprintf(file, sizeof(file), "%s.img", ret_id);
	fd = openat(c->data_fd, file, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, "make the file of a checkpoint") : fd;
}

/* Removes a checkpoint from the list; its children become those of its parent. */
static void unlist_checkpoint(struct checkpoints *c, const char *id)
{
	json_t *list = json_object_get(c->doc, "list"), *gone = checkpoint_by_id(c, id), *one, *parent;
	size_t i, at = json_array_size(list);

	parent = json_incref(json_object_get(gone, "parent"));
	json_array_foreach (list, i, one) {
		if (one == gone)
			at = i;
		else if (!strcmp(checkpoint_text(one, "parent"), id))
			json_object_set(one, "parent", parent);
	}
	if (checkpoints_head(c) && !strcmp(checkpoints_head(c), id))
		json_object_set(c->doc, "head", parent);
	json_decref(parent);
	if (at < json_array_size(list))
		json_array_remove(list, at);
}

/* Removes the oldest ones. The last one is the head, and stays. */
static void prune_checkpoints(struct checkpoints *c, const struct checkpoint_bounds *bounds)
{
	const size_t fit = c->fit + 1, want = checkpoints_to_keep(c, bounds), keep = want < fit ? want : fit;
	const json_t *list = checkpoints_list(c);
	char id[CHECKPOINT_ID];
	size_t i, n = json_array_size(list) - count_owned(c);

	for (i = 0; n > 1 && n > keep; n--) {
		while (is_owned(json_array_get(list, i)))
			i++;
		snprintf(id, sizeof(id), "%s", checkpoint_text(json_array_get(list, i), "id"));
		unlist_checkpoint(c, id);
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
		prune_checkpoints(c, bounds);
	if (save_checkpoint_list(c, owned, e) < 0)
		return -1;
	if (!owned && automatic)
		checkpoint_touched(c->box_fd); /* the command may only look */
	else if (!owned)
		checkpoint_moved_on(c->box_fd);
	remove_leftovers(c, &ignored);                  /* otherwise the next call does */
	/* otherwise the use is what checkpoint_begin() reserved */
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
	const json_t *one = checkpoint_by_id(c, id);
	const int owned = one && is_owned(one);

	unlist_checkpoint(c, id);
	if (save_checkpoint_list(c, owned, e) < 0 || remove_leftovers(c, e) < 0)
		return -1;
	checkpoints_note_use(c);
	return 0;
}

/* ---- the layers: copies, the undo that puts one in its place, notes about the layer in use ---- */

/* Layers of checkpoints: copies, the undo that puts one in its place, and notes about the layer in
 * use. */

#define UNDO_NEW CHECKPOINT_UNDO "new"
#define PENDING "pending"
#define RESTORED "restored"
#define LOOKED "looked"
#define FROZEN "frozen"
#define LOOP_MAJOR 7

int checkpoint_copy(const struct checkpoints *c, const char *id, int to_dir, const char *to_name,
		    struct err *e)
{
	char file[CHECKPOINT_ID + 8];
	autoclose int from = -1, to = -1;

	snprintf(file, sizeof(file), "%s.img", id);
	from = openat(c->data_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0)
		return err_sys(e, "open checkpoint %s", id);
	to = openat(to_dir, to_name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return err_sys(e, "make the file of a writable layer");
	if (fileclone(from, to, NULL, NULL, e) >= 0 && fsync(to) == 0)
		return 0;
	if (e->code == ERR_NONE)
		err_sys(e, "write the file of a writable layer");
	unlinkat(to_dir, to_name, 0);
	return -1;
}

int checkpoint_give(const struct checkpoints *c, const char *id, int to_dir, const char *to_name,
		    struct err *e)
{
	char file[CHECKPOINT_ID + 8];
	autoclose int fd = -1;

	snprintf(file, sizeof(file), "%s.img", id);
	if (renameat(c->data_fd, file, to_dir, to_name) < 0)
		return errno == EXDEV ? checkpoint_copy(c, id, to_dir, to_name, e) :
					err_sys(e, "take the layer of checkpoint %s", id);
	/* nothing waited for the disk when it was made */
	fd = openat(to_dir, to_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fsync(fd) == 0)
		return 0;
	err_sys(e, "write the file of a writable layer");
	unlinkat(to_dir, to_name, 0);
	return -1;
}

static int open_checkpoint_image(int box_fd, const char *word, char id[CHECKPOINT_ID], struct err *e)
{
	struct checkpoints c = CHECKPOINTS_NONE;
	char file[CHECKPOINT_ID + 8];
	const json_t *one;
	int fd = -1;

	if (checkpoints_open(box_fd, 0, &c, e) < 0)
		return -1;
	one = checkpoints_find(&c, word, e);
	if (one) {
		snprintf(id, CHECKPOINT_ID, "%s", json_string_value(json_object_get(one, "id")));
		snprintf(file, sizeof(file), "%s.img", id);
		fd = openat(c.data_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			err_sys(e, "open checkpoint %s", id);
	}
	checkpoints_close(&c);
	return fd;
}

/*
 * A file system that must be written to before it can be read is mounted in a copy: its own file is
 * not written to, as others may look at it, too.
 */
static int mount_copy(int box_fd, int file, struct err *e)
{
	struct checkpoints c = CHECKPOINTS_NONE;
	autoclose int copy = -1, loop = -1;

	if (checkpoints_open(box_fd, 0, &c, e) < 0)
		return -1;
	copy = c.data_fd < 0 ? -1 : openat(c.data_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (copy < 0)
		err_sys(e, "make a file to look at a checkpoint with");
	checkpoints_close(&c);
	if (copy < 0 || fileclone(file, copy, NULL, NULL, e) < 0)
		return -1;
	loop = loopdev_attach(copy, NULL, e);
	return loop < 0 ? -1 : loopdev_mount_passing(loop, e);
}

int checkpoint_mount(int box_fd, const char *word, char ret_id[CHECKPOINT_ID], struct err *e)
{
	char id[CHECKPOINT_ID];
	autoclose int file = open_checkpoint_image(box_fd, word, id, e);
	autoclose int loop = file < 0 ? -1 : loopdev_attach(file, NULL, e);
	int mnt = loop < 0 ? -1 : loopdev_mount_readonly(loop, e);

	if (file < 0)
		return -1;
	if (mnt < 0 && loop >= 0 && e->os_errno == EROFS)
		mnt = mount_copy(box_fd, file, e);
	if (mnt < 0)
		return err_wrap(e, "mount checkpoint %s", id);
	if (ret_id)
		memcpy(ret_id, id, sizeof(id));
	return writable_map(box_fd, mnt, e);
}

/* Each undo has its own: another one, to another checkpoint, may be prepared at the same time. */
static const char *undo_name(char name[CHECKPOINT_ID + 16], const char *id)
{
	snprintf(name, CHECKPOINT_ID + 16, CHECKPOINT_UNDO "%s.img", id);
	return name;
}

int checkpoint_prepare(struct checkpoints *c, const char *id, struct err *e)
{
	char name[CHECKPOINT_ID + 16];

	*e = (struct err){ 0 };
	if (checkpoint_copy(c, id, c->data_fd, UNDO_NEW, e) < 0)
		return -1;
	/* under its name it is whole */
	return renameat(c->data_fd, UNDO_NEW, c->data_fd, undo_name(name, id)) < 0 ?
		       err_sys(e, "name the copy of a layer") :
		       0;
}

/* A small file with the id of a checkpoint: 1, or 0 when there is none. */
static int read_note(int dir_fd, const char *name, char ret_id[CHECKPOINT_ID])
{
	autobuf struct buf b = BUF_INIT(CHECKPOINT_ID - 1);
	struct err ignored;

	if (io_read_file(dir_fd, name, &b, &ignored) < 0 || !b.len)
		return 0;
	snprintf(ret_id, CHECKPOINT_ID, "%.*s", (int)b.len, b.data);
	return 1;
}

static int complete_undo(struct checkpoints *c, const char *id, struct err *e)
{
	autofree char *text = NULL;
	char name[CHECKPOINT_ID + 16];

	/* the second time it may be there already */
	if (path_has(c->data_fd, undo_name(name, id)) &&
	    renameat(c->data_fd, name, c->home_fd, WRITABLE_FILE) < 0)
		return err_sys(e, "put the layer of checkpoint %s in its place", id);
	if (json_object_set_new(c->doc, "head", json_string(id)) < 0)
		return err_nomem(e);
	text = json_dumps(c->doc, JSON_COMPACT);
	if (!text)
		return err_nomem(e);
	if (fsync(c->home_fd) < 0)
		return err_sys(e, "write the layer of checkpoint %s", id);
	if (io_replace_file(c->dir_fd, "list.json", text, strlen(text), 0600, 1, e) < 0 ||
	    (unlinkat(c->dir_fd, LOOKED, 0) < 0 && errno != ENOENT && err_sys(e, "complete an undo") < 0) ||
	    io_replace_file(c->dir_fd, RESTORED, id, strlen(id), 0600, 0, e) < 0 ||
	    checkpoint_shells_begin(c->dir_fd, id, e) < 0)
		return -1;
	return unlinkat(c->dir_fd, PENDING, 0) < 0 ? err_sys(e, "complete an undo") : 0;
}

int checkpoint_undo(struct checkpoints *c, const char *id, struct err *e)
{
	char name[CHECKPOINT_ID + 16];

	/* a checkpoint made since the copy has removed it, because no undo was decided */
	if (!path_has(c->data_fd, undo_name(name, id)) &&
	    (!checkpoints_find(c, id, e) || checkpoint_prepare(c, id, e) < 0))
		return -1;
	if (io_replace_file(c->dir_fd, PENDING, id, strlen(id), 0600, 1, e) < 0)
		return -1;
	return complete_undo(c, id, e);
}

int checkpoint_settle(int box_fd, struct err *e)
{
	struct checkpoints c = CHECKPOINTS_NONE;
	char id[CHECKPOINT_ID];
	int result = 0;

	if (!path_has(box_fd, CHECKPOINTS_DIR "/" PENDING))
		return 0;
	if (checkpoints_open(box_fd, 1, &c, e) < 0)
		return -1;
	if (read_note(c.dir_fd, PENDING, id))
		result = complete_undo(&c, id, e);
	checkpoints_close(&c);
	return result;
}

int checkpoint_restored(int box_fd, char ret_id[CHECKPOINT_ID])
{
	return read_note(box_fd, CHECKPOINTS_DIR "/" RESTORED, ret_id);
}

int checkpoint_looked(int box_fd, char ret_id[CHECKPOINT_ID])
{
	return read_note(box_fd, CHECKPOINTS_DIR "/" LOOKED, ret_id);
}

void checkpoint_touched(int box_fd)
{
	/* a failure leaves "restored", and the next command tries again */
	if (renameat(box_fd, CHECKPOINTS_DIR "/" RESTORED, box_fd, CHECKPOINTS_DIR "/" LOOKED) < 0 && errno != ENOENT)
		unlinkat(box_fd, CHECKPOINTS_DIR "/" RESTORED, 0);
}

void checkpoint_moved_on(int box_fd)
{
	unlinkat(box_fd, CHECKPOINTS_DIR "/" RESTORED, 0);
	unlinkat(box_fd, CHECKPOINTS_DIR "/" LOOKED, 0);
}

/* ---- a layer that stands still ------------------------------------------------ */

int checkpoint_note_frozen(int dir_fd, int mnt_fd, struct err *e)
{
	char text[16];
	struct stat st;
	int n;

	if (fstat(mnt_fd, &st) < 0)
		return err_sys(e, "look at the writable layer");
	if (major(st.st_dev) != LOOP_MAJOR)
		return err_set(e, ERR_INTERNAL, "the writable layer is on no loop device");
	n = snprintf(text, sizeof(text), "%u", minor(st.st_dev));
	/* need not survive a boot, which thaws everything */
	return io_replace_file(dir_fd, FROZEN, text, (size_t)n, 0600, 0, e);
}

void checkpoint_note_thawed(int dir_fd)
{
	unlinkat(dir_fd, FROZEN, 0);
}

int checkpoint_copies(int kept_fd, const char *id)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/" CHECKPOINTS_DIR "/" FROZEN, id);
	return path_has(kept_fd, path);
}

void checkpoint_thaw_left(int box_fd)
{
	autobuf struct buf b = BUF_INIT(16);
	autoclose int home = -1, file = -1, loop = -1, mnt = -1;
	uint64_t number;
	struct err ignored;

	if (io_read_file(box_fd, CHECKPOINTS_DIR "/" FROZEN, &b, &ignored) < 0 ||
	    buf_add(&b, "", 1, &ignored) < 0 ||
	    num_u64(b.data, "loop", 0, 1u << 20, &number, &ignored) < 0)
		return;
	home = layerhome_open(box_fd, &ignored);
	file = home < 0 ? -1 : openat(home, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	loop = file < 0 ? -1 : loopdev_find(file, (unsigned)number);
	mnt = loop < 0 ? -1 : loopdev_mount(loop, &ignored);
	if (mnt >= 0)
		fsfreeze_thaw(mnt, &ignored);
	unlinkat(box_fd, CHECKPOINTS_DIR "/" FROZEN, 0);
}

/* ---- the shell sessions at a checkpoint ---- */

#define HEAD_MAX 1024
#define SCRIPT_MAX (1u << 20)
#define SUFFIX ".sh"

static void shell_script_path(char out[120], const char *id, const char *name)
{
	snprintf(out, 120, CHECKPOINTS_DIR "/%.15s.%.64s" SUFFIX, id, name);
}

int checkpoint_shell_write(int box_fd, const char *id, const char *name,
			   const struct checkpoint_shell *s, const char *script, size_t n,
			   struct err *e)
{
	autojson json_t *head =
		json_pack("{s:i,s:b,s:b,s:b,s:b,s:i,s:s,s:s}", "version", 1, "bash", s->is_bash,
			  "split", s->split, "traps", s->traps, "traces", s->traces, "status",
			  (int)s->status, "tracing", s->tracing, "lost", s->lost);
	autofree char *line = head ? json_dumps(head, JSON_COMPACT) : NULL;
	autobuf struct buf b = BUF_INIT(SCRIPT_MAX + HEAD_MAX);
	autoclose int dir = -1;
	char file[120];

	if (!line)
		return err_nomem(e);
	if (buf_addf(&b, e, "#%s\n", line) < 0 || (n && buf_add(&b, script, n, e) < 0))
		return -1;
	shell_script_path(file, id, name);
	dir = openat(box_fd, CHECKPOINTS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "open the checkpoints of the sandbox");
	/* cut short by a crash it is lost, and said to be */
	return io_replace_file(dir, strchr(file, '/') + 1, b.data, b.len, 0600, 0, e);
}

static int head_flag(const json_t *head, const char *key)
{
	return json_is_true(json_object_get(head, key));
}

static const char *head_text(const json_t *head, const char *key)
{
	const char *s = json_string_value(json_object_get(head, key));

	return s ? s : "";
}

static int read_head(const char *line, size_t n, struct checkpoint_shell *ret, struct err *e)
{
	autojson json_t *head = json_parse(line, n, HEAD_MAX, "the state of a session", e);
	struct checkpoint_shell s = { 0 };
	const char *tracing;

	if (!head || json_check_version(head, 1, "the state of a session", e) < 0)
		return -1;
	s.is_bash = head_flag(head, "bash");
	s.split = head_flag(head, "split");
	s.traps = head_flag(head, "traps");
	s.traces = head_flag(head, "traces");
	s.status = (unsigned)json_integer_value(json_object_get(head, "status")) & 0xff;
	tracing = head_text(head, "tracing");
	if (strlen(tracing) > 2 || tracing[strspn(tracing, "xv")])
		return err_set(e, ERR_CORRUPT, "the state of a session is damaged");
	snprintf(s.tracing, sizeof(s.tracing), "%s", tracing);
	snprintf(s.lost, sizeof(s.lost), "%s", head_text(head, "lost"));
	*ret = s;
	return 0;
}

int checkpoint_shell_read(int box_fd, const char *id, const char *name,
			  struct checkpoint_shell *ret, struct buf *script, struct err *e)
{
	autobuf struct buf b = BUF_INIT(SCRIPT_MAX + HEAD_MAX);
	const char *end;
	char file[120];

	shell_script_path(file, id, name);
	if (io_read_file(box_fd, file, &b, e) < 0)
		return -1;
	end = b.len ? memchr(b.data, '\n', b.len) : NULL;
	if (!end || b.data[0] != '#')
		return err_set(e, ERR_CORRUPT, "the state of a session is damaged");
	if (read_head(b.data + 1, (size_t)(end - b.data - 1), ret, e) < 0)
		return -1;
	return script ? buf_add(script, end + 1, b.len - (size_t)(end + 1 - b.data), e) : 0;
}

struct walk {
	const char *id;
	int (*each)(void *ctx, const char *name);
	void *ctx;
};

static int visit_shell_script(void *ctx, const char *file)
{
	const struct walk *w = ctx;
	const size_t id = strlen(w->id), n = strlen(file), suffix = strlen(SUFFIX);
	char name[65];

	if (strncmp(file, w->id, id) != 0 || file[id] != '.' || n <= id + 1 + suffix ||
	    n - id - 1 - suffix >= sizeof(name) || strcmp(file + n - suffix, SUFFIX) != 0)
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(n - id - 1 - suffix), file + id + 1);
	return path_is_name(name) ? w->each(w->ctx, name) : 0;
}

int checkpoint_shells_each(int box_fd, const char *id, int (*each)(void *ctx, const char *name),
			   void *ctx, struct err *e)
{
	const struct walk w = { id, each, ctx };
	autoclose int dir =
		openat(box_fd, CHECKPOINTS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int failed = 0, result;

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open the checkpoints of the sandbox");
	result = path_each_entry(dir, visit_shell_script, (void *)(size_t)&w, &failed);
	return failed ? err_sys(e, "read the checkpoints of the sandbox") : result;
}

int checkpoint_shells_due(int box_fd, char ret_id[CHECKPOINT_ID])
{
	autobuf struct buf b = BUF_INIT(CHECKPOINT_ID - 1);
	struct err ignored;

	if (io_read_file(box_fd, CHECKPOINT_SHELLS, &b, &ignored) < 0 || !b.len)
		return 0;
	snprintf(ret_id, CHECKPOINT_ID, "%.*s", (int)b.len, b.data);
	return 1;
}

int checkpoint_shells_begin(int dir_fd, const char *id, struct err *e)
{
	return io_replace_file(dir_fd, strchr(CHECKPOINT_SHELLS, '/') + 1, id, strlen(id), 0600, 0,
			       e);
}

void checkpoint_shells_done(int box_fd)
{
	unlinkat(box_fd, CHECKPOINT_SHELLS, 0);
}
