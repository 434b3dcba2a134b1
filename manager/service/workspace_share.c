/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a tenant's workspaces. Upholds S41 of SECURITY.md.
 *
 * All workspaces of a tenant belong to one project of their file system
 * (runtime/kernel/quota.h). Beside them the empty directory .tenants/NAME belongs to that
 * project too, and so remembers its number. The limit is set again whenever a workspace is made,
 * so a changed maximum applies from the next one on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/tenant.h"
#include "manager/service/dlog.h"
#include "manager/service/state.h"
#include "runtime/kernel/quota.h"

#define TENANTS ".tenants"	/* no session id begins with a dot */
#define SHARE 10		/* a tenth of the file system, where no file says more */
#define BYTES_AN_INODE 16384
#define INODES_MIN 64

/* The tenant's maximum: 0 if none is set and the file system could not enforce one. */
static int most(struct service *s, const struct tenant *t, int above, uint64_t *ret, struct err *e)
{
	struct statvfs fs;
	struct err why;

	*ret = t->workspace_bytes;
	if (*ret)
		return 0;
	if (quota_check(above, &why) < 0) {
		if (!atomic_exchange(&s->told_unbounded, 1))
			dlog_note(DLOG_WARNING, "nothing but the file system of session."
				  "default_mount_dir bounds the workspaces of tenants: %s",
				  why.msg);
		return 0;
	}
	if (fstatvfs(above, &fs) < 0)
		return err_sys(e, "look at the file system of the workspaces");
	*ret = (uint64_t)fs.f_blocks * fs.f_frsize / SHARE;
	return 0;
}

/* The directory that has the tenant's project, with its limits set. */
static int open_share(int above, const char *tenant, uint64_t bytes, struct err *e)
{
	autoclose int top = path_make_dir(above, TENANTS, e), share = -1;
	uint64_t inodes = bytes / BYTES_AN_INODE;

	if (inodes < INODES_MIN)
		inodes = INODES_MIN;
	if (top < 0)
		return -1;
	/* two at once would choose two projects; the lock goes with the descriptor */
	while (flock(top, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock %s", TENANTS);
	share = path_make_dir(top, tenant, e);
	if (share < 0 || quota_bound(share, bytes, inodes, e) < 0)
		return -1;
	return take_fd(&share);
}

int workspace_bound(struct service *s, const struct record *r, struct err *e)
{
	const json_t *own = json_object_get(r->j, "berth");
	autoclose int above = -1, dir = -1, share = -1;
	const char *name;
	struct tenant t;
	uint64_t bytes;

	if (!tenancy_is_tenants(r) || !json_is_true(json_object_get(own, "own_workspace")))
		return 0;
	if (tenant_load(&t, &s->config, record_own(r, "owner"), e) < 0)
		return -1;
	above = workspace_open_above(r, &name, e);
	if (above < 0 || most(s, &t, above, &bytes, e) < 0)
		return -1;
	if (!bytes)
		return 0;
	dir = workspace_open(r, e);
	share = dir < 0 ? -1 : open_share(above, t.name, bytes, e);
	if (share < 0 || quota_join(dir, share, e) < 0)
		return err_wrap(e, "[tenant] workspace_bytes of %s", t.name);
	return 0;
}

/* The nearest existing directory: new directories below it are on its file system. */
static int open_nearest(const char *path, struct err *e)
{
	char at[512];
	int fd;

	snprintf(at, sizeof(at), "%s", path);
	while ((fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 && errno == ENOENT &&
	       strrchr(at, '/') != at)
		*strrchr(at, '/') = '\0';
	if (fd < 0 && errno == ENOENT)
		fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %.200s", path) : fd;
}

int workspace_check_bound(const struct conf *conf, struct err *e)
{
	autojson json_t *doc = config_document(e);
	autoclose int dir = -1;
	struct err why;

	if (!doc)
		return -1;
	if (!tenant_any_workspace_bytes(doc))
		return 0;
	dir = open_nearest(conf->mount_dir, e);
	if (dir < 0)
		return -1;
	if (quota_check(dir, &why) == 0)
		return 0;
	why.msg[strcspn(why.msg, ";")] = '\0';
	return err_set(e, ERR_UNSUPPORTED, "[tenant] workspace_bytes cannot be enforced in %.120s: "
		       "%.120s; hint: mount its file system with prjquota, or set session."
		       "default_mount_dir to a directory on one that is", conf->mount_dir, why.msg);
}
