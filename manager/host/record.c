/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/registry.h"

#define RECORD_MAX (1u << 20)
#define VOID ' '	/* fills an emptied record; no record starts with it */

static const char *const status_names[] = {
	[RECORD_NONE] = "", [RECORD_CREATED] = "created", [RECORD_RUNNING] = "running",
	[RECORD_PAUSED] = "paused", [RECORD_STOPPED] = "stopped", [RECORD_EXITED] = "exited",
	[RECORD_RESTARTING] = "restarting", [RECORD_NEWER] = "newer",
};
_Static_assert(ARRAY_LEN(status_names) == RECORD_STATUSES, "each status has its word");

enum record_status record_status(const json_t *record)
{
	const char *word = json_string_value(json_object_get(record, "status"));
	int i;

	for (i = word ? RECORD_STATUSES - 1 : RECORD_NONE; i > RECORD_NONE; i--)
		if (!strcmp(word, status_names[i]))
			break;
	return (enum record_status)i;
}

const char *record_status_name(enum record_status status)
{
	return status_names[status];
}

void record_set_status(json_t *record, enum record_status status)
{
	json_object_set_new(record, "status", json_string(status_names[status]));
}

void record_settle_kept(json_t *record)
{
	if (record_status(record) == RECORD_RUNNING)
		record_set_status(record, RECORD_STOPPED);
}

json_t *record_new(const char *id, const char *name, const char *image, enum record_status status,
		   const char *created)
{
	return json_pack("{s:i,s:s,s:s,s:s,s:s,s:s}", "version", REGISTRY_FORMAT, "id", id, "name",
			 name, "image", image, "status", status_names[status], "created", created);
}

static void record_path(const char *id, char out[100])
{
	snprintf(out, 100, "%s/" RECORD_FILE, id);
}

int record_is_there(int dirfd, const char *id)
{
	char path[100];

	record_path(id, path);
	return path_has(dirfd, path);
}

int record_is_empty(int dirfd, const char *id)
{
	char path[100];
	struct stat st;

	record_path(id, path);
	return !fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) && !st.st_size;
}

/* The known facts about a sandbox with a record of a newer format: that it exists, and its name. */
static json_t *stand_in(const char *id, const json_t *record, const struct err *why)
{
	const char *name = record_name(record);

	return json_pack("{s:O,s:s,s:s,s:s,s:s,s:s,s:s,s:[]}", "version", json_object_get(record, "version"), "id", id, "name",
			 path_is_name(name) ? name : "", "image", "", "status", status_names[RECORD_NEWER], "created", "",
			 "error", why->msg, "command");
}

/* Most records are small: they are read at once, without a question for their size. */
static json_t *read_file(int dirfd, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	char text[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n < 0)
		return err_sys(e, "read %s", path), NULL;
	if ((size_t)n < sizeof(text))
		return json_parse(text, (size_t)n, RECORD_MAX, path, e);
	return io_read_file(dirfd, path, &b, e) < 0 ? NULL :
	       json_parse(b.data ? b.data : "", b.len, RECORD_MAX, path, e);
}

static int take_record_file(int dirfd, const char *path, const char *id, json_t **ret, struct err *e)
{
	autojson json_t *record = NULL;

	*e = (struct err){ 0 };
	record = read_file(dirfd, path, e);
	if (!record)
		return e->code == ERR_NOMEM || (e->os_errno && e->os_errno != ENOENT) ? -1 : 0;
	if (registry_check_version(record, id, RECORD_FILE, e) == 0)
		*ret = take_ptr(&record);
	else if (e->code != ERR_UNSUPPORTED)
		return 0;
	else
		*ret = stand_in(id, record, e);
	return *ret ? 1 : err_nomem(e);
}

int record_read(int dirfd, const char *id, json_t **ret, struct err *e)
{
	char path[100];

	record_path(id, path);
	return take_record_file(dirfd, path, id, ret, e);
}

int record_read_in(int dirfd, const char *id, json_t **ret, struct err *e)
{
	return take_record_file(dirfd, RECORD_FILE, id, ret, e);
}

int record_check_format(struct registry *r, const char *id, struct err *e)
{
	const int dirs[] = { r->sandboxes_fd, r->kept_fd };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++) {
		autojson json_t *record = NULL;
		struct err ignored;

		if (record_read(dirs[i], id, &record, &ignored) > 0 &&
		    registry_check_version(record, id, RECORD_FILE, e) < 0)
			return -1;
	}
	return 0;
}

json_t *record_load_run(struct registry *r, const char *id, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	char path[100];
	size_t i;

	record_path(id, path);
	if (io_read_file(r->sandboxes_fd, path, &b, e) < 0)
		return NULL;
	/* void: the run is over (record_void()) */
	for (i = 0; i < b.len && b.data[i] == VOID; i++)
		;
	if (i == b.len)
		return err_set(e, ERR_NOT_FOUND, "the run of sandbox %s is over", id), NULL;
	return json_parse(b.data, b.len, RECORD_MAX, path, e);
}

json_t *record_load_kept(struct registry *r, const char *id, struct err *e)
{
	autojson json_t *record = registry_load(r, id, RECORD_FILE, e);

	return record && registry_check_version(record, id, RECORD_FILE, e) == 0 ?
		       take_ptr(&record) : NULL;
}

/* The text over what a record held, in one write: spaces are left where that was longer. */
static int overwrite_record(int fd, off_t old_size, const void *text, size_t n)
{
	char padded[4096];
	size_t size = (size_t)old_size > n ? (size_t)old_size : n;

	if (size > sizeof(padded))
		return ftruncate(fd, 0) < 0 ? -1 : io_write_all(fd, text, n);
	memcpy(padded, text, n);
	memset(padded + n, VOID, size - n);
	return io_write_all(fd, padded, size);
}

int record_save_run(const struct claim *c, const json_t *record, struct err *e)
{
	autofree char *text = json_dumps(record, JSON_COMPACT);
	const size_t n = text ? strlen(text) : 0;
	autoclose int fd = openat(c->dir_fd, RECORD_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	char first = VOID;

	if (!text)
		return err_nomem(e);
	if (fd < 0 || fstat(fd, &st) < 0 || pread(fd, &first, 1, 0) < 0)
		return err_sys(e, "record sandbox %s", c->id);
	/* a record of this sandbox: a reader must get the old record or the new one */
	if (first != VOID)
		return io_replace_file(c->dir_fd, RECORD_FILE, text, n, 0600, 0, e);
	return overwrite_record(fd, st.st_size, text, n) < 0 ? err_sys(e, "record sandbox %s", c->id) : 0;
}

/* Clears all of it, because it names a command. */
int record_void(int dirfd)
{
	autoclose int fd = openat(dirfd, RECORD_FILE, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	return fstat(fd, &st) < 0 ? -1 : overwrite_record(fd, st.st_size, "", 0);
}

int record_replace_run(struct registry *r, const char *id, const json_t *record, struct err *e)
{
	autoclose int dir = openat(r->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autofree char *text = dir < 0 ? NULL : json_dumps(record, JSON_COMPACT);

	if (dir < 0)
		return 0;
	return text ? io_replace_file(dir, RECORD_FILE, text, strlen(text), 0600, 0, e) :
		      err_nomem(e);
}

int record_save_kept(struct registry *r, const char *id, const json_t *record, struct err *e)
{
	return record_auto_remove(record) ? registry_save_passing(r, id, RECORD_FILE, record, e) :
					    registry_save(r, id, RECORD_FILE, record, e);
}

int record_save_turn(struct registry *r, const char *id, const json_t *record, struct err *e)
{
	return record_auto_remove(record) ? registry_save_passing(r, id, RECORD_FILE, record, e) :
					    registry_save_ahead(r, id, RECORD_FILE, record, e);
}

void record_drop_kept(struct registry *r, const char *id)
{
	char path[100];

	record_path(id, path);
	unlinkat(r->kept_fd, path, 0);
}

int record_is_gone(struct registry *r, const char *id)
{
	autojson json_t *run = NULL;
	struct err ignored;

	if (record_is_there(r->kept_fd, id) || errno != ENOENT)
		return 0;
	/* a run's record may exist and be void (registry.h), or belong to a keeper that removes it */
	return record_read(r->sandboxes_fd, id, &run, &ignored) == 0 || record_auto_remove(run);
}

int record_keep(struct registry *r, const char *id, const json_t *record, struct err *e)
{
	autoclose int dir = registry_keep_dir(r, id, e);

	return dir < 0 ? -1 : record_save_kept(r, id, record, e);
}

int record_note_stopped(struct registry *r, const char *id, const char *reason, struct err *e)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(r, id, &ignored);

	if (!record)
		return 0;
	record_set_status(record, RECORD_STOPPED);
	if (reason)
		record_set_stop_reason(record, reason);
	/* another process removes the sandbox at this moment, so there is no place for a record any more */
	return record_save_kept(r, id, record, e) < 0 && e->os_errno != ENOENT ? -1 : 0;
}
