/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces: one directory of the host per session's sandbox, mounted at
 * /workspace; and archives, which are the whole sandbox in the storage.
 *
 * An archive of NAME is two folders, archives/NAME/sandbox (the writable layer's
 * image and what a start needs) and archives/NAME/workspace.  The record says
 * "archived" only when both are there whole, and only then the host's files go.
 * What stays is state_dir/manager/archived/ID: the range of ids the files belong to must
 * not go to another while they are away.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/registry.h"
#include "manager/rename.h"
#include "manager/service/state.h"
#include "manager/service/storage.h"

#define ARCHIVED "manager/archived"

void workspace_path(struct service *s, const char *session_id, char ret[512])
{
	pthread_rwlock_rdlock(&s->conf_lock);
	snprintf(ret, 512, "%s/%s", s->conf.mount_dir, session_id);
	pthread_rwlock_unlock(&s->conf_lock);
}

/* The directory above a workspace that we made, and its name there: only such a one is ever removed. */
static int open_above(const struct record *r, const char **ret_name, struct err *e)
{
	const char *path = record_str(r, "mount_dir"), *slash = strrchr(path, '/');
	char above[512];

	if (!slash || slash == path || !path_is_name(slash + 1) || strlen(path) >= sizeof(above))
		return err_set(e, ERR_CORRUPT, "the workspace of %s is '%.100s'", r->name, path);
	*ret_name = slash + 1;
	snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	return path_open_private_dir(above, e);
}

int workspace_make(const struct record *r, struct err *e)
{
	const char *name;
	autoclose int dir = open_above(r, &name, e);

	if (dir < 0)
		return err_wrap(e, "session.default_mount_dir");
	if (mkdirat(dir, name, 0755) < 0 || fchmodat(dir, name, 0755, 0) < 0)
		return err_sys(e, "make the workspace %s", name);
	return 0;
}

int workspace_remove(struct service *s, const struct record *r, struct err *e)
{
	const char *name;
	autoclose int dir = -1;

	(void)s;
	if (!record_str(r, "mount_dir")[0])
		return 0;
	dir = open_above(r, &name, e);
	return dir < 0 ? -1 : path_remove_tree(dir, name, e);
}

static int open_workspace(const struct record *r, struct err *e)
{
	const char *path = record_str(r, "mount_dir");
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open the workspace %.200s", path) : fd;
}

int workspace_upload(struct service *s, const struct record *r, struct err *e)
{
	const char *to = record_str(r, "storage_path");
	struct storage_stats st = { 0 };
	autoclose int dir = -1;

	if (!s->storage || !to[0])
		return err_set(e, ERR_INVALID, "sandbox %s has no storage_path", r->name);
	dir = open_workspace(r, e);
	return dir < 0 ? -1 : storage_put_folder(s->storage, to, dir, &st, e);
}

int workspace_download(struct service *s, const char *storage_path, const char *dir, struct err *e)
{
	autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct storage_stats st = { 0 };

	if (fd < 0)
		return err_sys(e, "open the workspace %.200s", dir);
	/* nothing stored yet: an empty workspace, which its release will store */
	return storage_get_folder(s->storage, storage_path, fd, 0, &st, e) < 0 ? -1 : 0;
}

int workspace_revive(struct service *s, const struct record *r, struct err *e)
{
	const char *from = record_str(r, "storage_path"), *name;
	autoclose int there = open_workspace(r, e), dir = -1;

	if (there >= 0 || e->code != ERR_NOT_FOUND)
		return there >= 0 ? 0 : -1;
	if (!from[0] || !s->storage)
		return err_wrap(e, "the workspace is gone, and was not stored");
	dir = open_above(r, &name, e);
	if (dir < 0)
		return -1;
	if (mkdirat(dir, name, 0755) < 0)
		return err_sys(e, "make the workspace %s", name);
	return workspace_download(s, from, record_str(r, "mount_dir"), e);
}

static int with_identity(struct service *s, const struct service_who *who, const char *identity, int up, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	struct oplock op;
	int result;

	if (record_load(s, who, identity, 1, &r, e) < 0)
		return -1;
	if (!s->storage || !record_str(&r, "storage_path")[0])
		return err_set(e, ERR_INVALID, "sandbox %s has no storage_path; hint: give one to create", r.name);
	if (oplock_enter(s->ops, r.name, &op, e) < 0)
		return -1;
	result = up ? workspace_upload(s, &r, e) : workspace_download(s, record_str(&r, "storage_path"), record_str(&r, "mount_dir"), e);
	oplock_leave(&op);
	return result;
}

int service_upload(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	return with_identity(s, who, identity, 1, e);
}

int service_download(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	return with_identity(s, who, identity, 0, e);
}

/* ---- archives ---- */

static void archive_path(const struct record *r, const char *part, char out[200])
{
	snprintf(out, 200, "archives/%s/%s", r->name, part);
}

static int owns_workspace(const struct record *r)
{
	return json_is_true(json_object_get(json_object_get(r->j, "berth"), "own_workspace")) && record_str(r, "mount_dir")[0];
}

static int put_archive(struct service *s, struct registry *reg, const struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autoclose int dir = openat(reg->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), work = -1;
	struct storage_stats st = { 0 };
	char path[200];

	if (dir < 0)
		return err_sys(e, "open the files of sandbox %s", r->name);
	archive_path(r, "sandbox", path);
	if (storage_put_folder(s->storage, path, dir, &st, e) < 0)
		return -1;
	if (!owns_workspace(r))
		return 0;
	work = open_workspace(r, e);
	archive_path(r, "workspace", path);
	return work < 0 ? -1 : storage_put_folder(s->storage, path, work, &st, e);
}

static int open_archived(struct registry *reg, struct err *e)
{
	int fd;

	if (mkdirat(reg->state_fd, ARCHIVED, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make directory " ARCHIVED);
	fd = openat(reg->state_fd, ARCHIVED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open directory " ARCHIVED) : fd;
}

/* The reservation, then everything else of it. */
static int drop_from_host(struct service *s, struct registry *reg, const struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autoclose int dir = open_archived(reg, e);

	if (dir < 0)
		return -1;
	if (mkdirat(dir, id, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "reserve the ids of sandbox %s", r->name);
	if (fsync(dir) < 0 || registry_forget(reg, id, e) < 0)
		return err_wrap(e, "remove the files of sandbox %s", r->name);
	return owns_workspace(r) ? workspace_remove(s, r, e) : 0;
}

int workspace_archive(struct service *s, struct record *r, struct err *e)
{
	struct registry reg;
	int result = registry_open(&reg, &s->config, e);

	if (result < 0)
		return -1;
	result = record_str(r, "storage_path")[0] ? workspace_upload(s, r, e) : 0;
	if (result == 0)
		result = put_archive(s, &reg, r, e);
	if (result == 0) {
		record_set_own(r, "status", json_string("archived"));
		record_set_own(r, "archive", json_true());
		record_set_own(r, "archived_ms", json_integer((json_int_t)wall_ms()));
		record_set_state(r, "running");
		result = record_save(s, r, NULL, 0, e);
	}
	if (result == 0)
		result = drop_from_host(s, &reg, r, e);
	if (result == 0)
		place_drop(s, r->name);
	registry_close(&reg);
	return result;
}

static int get_archive(struct service *s, struct registry *reg, const struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autoclose int dir = open_archived(reg, e), part = -1;
	char temp[80], path[200];
	struct storage_stats st = { 0 };
	int got;

	if (dir < 0)
		return -1;
	snprintf(temp, sizeof(temp), "%s.part", id);
	if (mkdirat(dir, temp, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make directory %s", temp);
	part = openat(dir, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (part < 0)
		return err_sys(e, "open directory %s", temp);
	archive_path(r, "sandbox", path);
	got = storage_get_folder(s->storage, path, part, 1, &st, e);
	if (got < 1)
		return got < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "the archive of sandbox %s is not in the storage", r->name);
	if (fsync(part) < 0 || renameat(dir, temp, reg->kept_fd, id) < 0)
		return err_sys(e, "bring back the files of sandbox %s", r->name);
	if (registry_rename(reg, id, r->name, e) < 0)
		return -1;
	return path_remove_tree(dir, id, e);
}

static int get_workspace(struct service *s, const struct record *r, struct err *e)
{
	autoclose int dir = -1, work = -1;
	struct storage_stats st = { 0 };
	const char *name;
	char path[200];
	int got;

	if (!owns_workspace(r))
		return 0;
	dir = open_above(r, &name, e);
	if (dir < 0)
		return -1;
	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make the workspace %s", name);
	work = open_workspace(r, e);
	if (work < 0)
		return -1;
	archive_path(r, "workspace", path);
	got = storage_get_folder(s->storage, path, work, 1, &st, e);
	return got == 0 ? err_set(e, ERR_NOT_FOUND, "the archived workspace of sandbox %s is not in the storage", r->name) : got < 0 ? -1 : 0;
}

int workspace_unarchive(struct service *s, struct record *r, struct err *e)
{
	uint64_t memory = record_own_u64(r, "memory_bytes"), cpu = record_own_u64(r, "cpu_milli");
	struct registry reg;
	int result;

	if (!record_is_ours(s, r))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s was archived by host %.64s, which has its range of ids; hint: ask there", r->name,
			       record_own(r, "host"));
	if (!s->storage)
		return err_set(e, ERR_UNSUPPORTED, "sandbox %s is archived, and there is no storage now", r->name);
	if (!place_has(s, r->name)) {
		if (admission_enter(&s->admission, memory, cpu, 1, e) < 0)
			return -1;
		place_add(s, r->name, memory, cpu);
	}
	result = registry_open(&reg, &s->config, e);
	if (result < 0)
		return -1;
	/* a crash may have left it whole */
	if (faccessat(reg.kept_fd, record_str(r, "container_id"), F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		result = get_archive(s, &reg, r, e);
	registry_close(&reg);
	if (result == 0)
		result = get_workspace(s, r, e);
	if (result == 0) {
		record_set_own(r, "status", json_string("stopped"));
		record_set_own(r, "machine", json_string(s->machine));
		result = record_save(s, r, NULL, 0, e);
	}
	if (result < 0)
		place_drop(s, r->name);
	return result;
}

int workspace_drop_archive(struct service *s, struct record *r, struct err *e)
{
	struct registry reg;
	char path[200];
	int result = 0;

	if (!json_is_true(json_object_get(json_object_get(r->j, "berth"), "archive")))
		return 0;
	if (!s->storage)
		return err_set(e, ERR_UNSUPPORTED, "sandbox %s is archived, and there is no storage now", r->name);
	archive_path(r, "sandbox", path);
	if (storage_delete_folder(s->storage, path, e) < 0)
		return -1;
	archive_path(r, "workspace", path);
	if (storage_delete_folder(s->storage, path, e) < 0 || registry_open(&reg, &s->config, e) < 0)
		return -1;
	{
		autoclose int dir = open_archived(&reg, e);

		result = dir < 0 ? -1 : path_remove_tree(dir, record_str(r, "container_id"), e);
	}
	registry_close(&reg);
	return result;
}
