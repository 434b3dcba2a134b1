/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces: one directory of the host per session's sandbox, mounted at /workspace. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/objects/storage.h"
#include "manager/service/state.h"
#include "manager/service/stored.h"
#include "rootfs/store/image.h"
#include "runtime/kernel/quota.h"

#define IDS_MAX 65535	/* of a sandbox */

void workspace_path(struct service *s, const char *session_id, char ret[512])
{
	pthread_rwlock_rdlock(&s->conf_lock);
	snprintf(ret, 512, "%s/%s", s->conf.mount_dir, session_id);
	pthread_rwlock_unlock(&s->conf_lock);
}

static int open_above(const struct record *r, const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char above[512];

	if (!slash || slash == path || !path_is_name(slash + 1) || strlen(path) >= sizeof(above))
		return err_set(e, ERR_CORRUPT, "the workspace of %s is '%.100s'", r->name, path);
	*ret_name = slash + 1;
	snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	return path_open_private_dir(above, e);
}

int workspace_open_above(const struct record *r, const char **ret_name, struct err *e)
{
	return open_above(r, record_str(r, "mount_dir"), ret_name, e);
}

static int make_at(int dir, const char *name, struct err *e)
{
	/* independent of the umask */
	return mkdirat(dir, name, 0755) < 0 || fchmodat(dir, name, 0755, 0) < 0 ? err_sys(e, "make the workspace %s", name) : 0;
}

int workspace_make(struct service *s, const struct record *r, struct err *e)
{
	const char *name;
	autoclose int dir = workspace_open_above(r, &name, e);

	if (dir < 0)
		return err_wrap(e, "session.default_mount_dir");
	return make_at(dir, name, e) < 0 ? -1 : workspace_bound(s, r, e);
}

/*
 * Finds the user as berth create does: the option of the request, of the type, the image's own, the
 * configuration's.
 */
static int workspace_user_of(struct service *s, const struct record *r, const struct conf_pool *p, char ret[128], struct err *e)
{
	const char *line = p->options, *chosen = chosen_user(r);
	struct image im;

	snprintf(ret, 128, "%s", chosen ? chosen : "");
	if (chosen)
		return 0;
	for (; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (!strncmp(line, "user=", 5))
			snprintf(ret, 128, "%.*s", (int)strcspn(line + 5, "\n"), line + 5);
	if (p->zygote[0] && zygotetype_user(s, p, ret, e) < 0)
		return -1;
	if (!ret[0] && service_pool_has_image(p)) {
		if (service_pool_image(s, p, record_str(r, "container_id"), &im, e) < 0)
			return -1;
		snprintf(ret, 128, "%s", im.user);
		image_release(&im);
	}
	if (!ret[0])
		snprintf(ret, 128, "%s", s->config.user);
	return 0;
}

/* "1000" or "1000:100". */
static int read_user_ids(char *user, uint64_t *ret_uid, uint64_t *ret_gid)
{
	char *colon = strchr(user, ':');
	struct err ignored;

	*ret_gid = 0;
	if (colon)
		*colon = '\0';
	return num_u64(user, "user", 0, IDS_MAX, ret_uid, &ignored) == 0 &&
	       (!colon || num_u64(colon + 1, "group", 0, IDS_MAX, ret_gid, &ignored) == 0);
}

int workspace_give(struct service *s, const struct record *r, const struct conf_pool *p, struct err *e)
{
	uint64_t uid, gid;
	autoclose int dir = -1;
	char user[128];
	struct stat st;

	if (!json_is_true(json_object_get(json_object_get(r->j, "berth"), "own_workspace")))
		return 0;
	if (workspace_user_of(s, r, p, user, e) < 0)
		return -1;
	if (!read_user_ids(user, &uid, &gid) || (!uid && !gid))
		return 0;
	dir = workspace_open(r, e);
	if (dir < 0)
		return -1;
	return fstat(dir, &st) < 0 || (!st.st_uid && fchown(dir, (uid_t)uid, (gid_t)gid) < 0) ?
	       err_sys(e, "give the workspace to user %llu", (unsigned long long)uid) : 0;
}

int workspace_remove(struct service *s, const struct record *r, struct err *e)
{
	const char *name;
	autoclose int dir = -1;

	(void)s;
	if (!record_str(r, "mount_dir")[0])
		return 0;
	dir = workspace_open_above(r, &name, e);
	return dir < 0 ? -1 : path_remove_tree(dir, name, e);
}

int workspace_remove_spare(struct record *r, struct err *e)
{
	const char *path = record_own(r, "spare_workspace"), *name;
	autoclose int dir = -1;

	if (!path[0])
		return 0;
	dir = open_above(r, path, &name, e);
	if (dir < 0 || path_remove_tree(dir, name, e) < 0)
		return -1;
	record_set_own(r, "spare_workspace", json_string(""));
	return 0;
}

int workspace_open(const struct record *r, struct err *e)
{
	const char *path = record_str(r, "mount_dir");
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open the workspace %.200s", path) : fd;
}

int workspace_upload(struct service *s, const struct record *r, struct err *e)
{
	const char *to = record_str(r, "storage_path");
	autoclose int dir = -1;

	if (!s->storage || !to[0])
		return err_set(e, ERR_INVALID, "sandbox %s has no storage_path", r->name);
	dir = workspace_open(r, e);
	return dir < 0 ? -1 : storedfolder_put(s, to, dir, e);
}

int workspace_download(struct service *s, const char *storage_path, const char *dir, struct err *e)
{
	autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct storage_stats st = { 0 };
	uint32_t had;
	int r;

	if (fd < 0)
		return err_sys(e, "open the workspace %.200s", dir);
	if (quota_obey(&had, e) < 0)
		return -1;
	/* nothing is stored yet: an empty workspace, which its release will store */
	r = storage_get_folder(s->storage, storage_path, NULL, fd, 0, &st, e);
	quota_obey_end(had);
	return r < 0 ? -1 : 0;
}

int workspace_revive(struct service *s, const struct record *r, struct err *e)
{
	const char *from = record_str(r, "storage_path"), *name;
	autoclose int there = workspace_open(r, e), dir = -1;

	/*
	 * an owner's directory belongs to the host where it was given; hosts may share ours, or
	 * have it in the storage
	 */
	if (!json_is_true(json_object_get(json_object_get(r->j, "berth"), "own_workspace")) && home_check(s, r, e) < 0)
		return -1;
	if (there < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	/*
	 * An empty one may be left from a crash before it was limited. One from before there was
	 * a maximum holds files.
	 */
	if (there >= 0)
		return workspace_bound(s, r, e) < 0 && e->code != ERR_INVALID ? -1 : 0;
	if (!from[0] || !s->storage)
		return home_check(s, r, e) < 0 ? -1 : err_wrap(e, "the workspace is gone, and was not stored");
	dir = workspace_open_above(r, &name, e);
	if (dir < 0)
		return -1;
	if (make_at(dir, name, e) < 0 || workspace_bound(s, r, e) < 0)
		return -1;
	return workspace_download(s, from, record_str(r, "mount_dir"), e);
}

static int with_workspace_identity(struct service *s, const struct service_who *who, const char *identity, int up, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	struct oplock op;
	int result;

	if (record_load(s, who, identity, 1, &r, e) < 0)
		return -1;
	if (!s->storage || !record_str(&r, "storage_path")[0])
		return err_set(e, ERR_INVALID, "sandbox %s has no storage_path; hint: give one to create", r.name);
	if (home_check(s, &r, e) < 0 || oplock_enter(s->ops, r.name, &op, e) < 0)
		return -1;
	result = up ? workspace_upload(s, &r, e) : workspace_download(s, record_str(&r, "storage_path"), record_str(&r, "mount_dir"), e);
	oplock_leave(&op);
	return result;
}

int service_upload(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	return with_workspace_identity(s, who, identity, 1, e);
}

int service_download(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	return with_workspace_identity(s, who, identity, 0, e);
}
