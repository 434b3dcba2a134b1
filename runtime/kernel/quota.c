/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/quota.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/getdents.h"

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

#define BLOCK 1024u	/* QIF_DQBLKSIZE: the unit of the limits */

/* quotactl_fd(2), Linux 5.14: by descriptor, so that no device has to be found. */
static int quota_control(int fd, unsigned cmd, uint32_t id, void *arg)
{
	return (int)syscall(SYS_quotactl_fd, fd, QCMD(cmd, PRJQUOTA), id, arg);
}

/*
 * Tells whether the call is missing. With an invalid descriptor the call itself answers EBADF;
 * ENOSYS then comes from the kernel or from a filter.
 */
static int call_is_missing(void)
{
	struct fs_quota_statv st = { .qs_version = FS_QSTATV_VERSION1 };

	return quota_control(-1, Q_XGETQSTATV, 0, &st) < 0 && errno == ENOSYS;
}

int quota_check(int dir_fd, struct err *e)
{
	struct fs_quota_statv st = { .qs_version = FS_QSTATV_VERSION1 };

	if (quota_control(dir_fd, Q_XGETQSTATV, 0, &st) < 0) {
		if (errno != ENOSYS)
			return err_code_sys(e, ERR_UNSUPPORTED, "ask for project quotas");
		if (call_is_missing())
			return err_set(e, ERR_UNSUPPORTED, "quotactl_fd(2) is not there: it takes Linux 5.14 with CONFIG_QUOTACTL, "
				       "and no filter around berth");
		/* a file system without any quota operations answers ENOSYS too: it keeps none */
		st.qs_flags = 0;
	}
	/* accounting without enforcement bounds nothing */
	if (!(st.qs_flags & FS_QUOTA_PDQ_ACCT))
		return err_set(e, ERR_UNSUPPORTED, "the file system keeps no project quotas; hint: tune2fs -O project,quota, "
			       "and mount it with prjquota");
	if (!(st.qs_flags & FS_QUOTA_PDQ_ENFD))
		return err_set(e, ERR_UNSUPPORTED, "the file system counts project quotas but does not enforce them; hint: mount it "
			       "with prjquota");
	return 0;
}

static int join_project(int dir_fd, uint32_t id, struct err *e)
{
	struct fsxattr x, is;

	if (ioctl(dir_fd, FS_IOC_FSGETXATTR, &x) < 0)
		return err_code_sys(e, ERR_UNSUPPORTED, "read the project of the writable layer");
	x.fsx_projid = id;
	x.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	if (ioctl(dir_fd, FS_IOC_FSSETXATTR, &x) < 0)
		return err_code_sys(e, ERR_UNSUPPORTED, "set the project of the writable layer");
	if (ioctl(dir_fd, FS_IOC_FSGETXATTR, &is) < 0 || is.fsx_projid != id || !(is.fsx_xflags & FS_XFLAG_PROJINHERIT))
		return err_set(e, ERR_INTERNAL, "the project of the writable layer does not read back");
	return 0;
}

int quota_limit(int dir_fd, uint32_t id, uint64_t bytes, uint64_t inodes, struct err *e)
{
	struct if_dqblk want = { .dqb_valid = QIF_LIMITS }, is = { 0 };

	if (quota_check(dir_fd, e) < 0)
		return -1;
	want.dqb_bhardlimit = want.dqb_bsoftlimit = bytes / BLOCK;
	want.dqb_ihardlimit = want.dqb_isoftlimit = inodes;
	if (quota_control(dir_fd, Q_SETQUOTA, id, &want) < 0)
		return err_code_sys(e, ERR_UNSUPPORTED, "set a project quota");
	if (quota_control(dir_fd, Q_GETQUOTA, id, &is) < 0)
		return err_sys(e, "read the project quota back");
	if (is.dqb_bhardlimit != want.dqb_bhardlimit || is.dqb_ihardlimit != want.dqb_ihardlimit)
		return err_set(e, ERR_INTERNAL, "the project quota does not read back");
	/* last: files made in it count from now on */
	return join_project(dir_fd, id, e);
}

/* Sandboxes and volumes have the smaller ones. */
#define PROJECT_OF_OPERATOR 0x80000000u
#define TRIES 64

static int is_empty_project_dir(int dir_fd)
{
	_Alignas(struct getdents) char list[1024];
	long n, at;

	if (lseek(dir_fd, 0, SEEK_SET) < 0)
		return 0;
	while ((n = getdents_read(dir_fd, list, sizeof(list))) > 0)
		for (at = 0; at < n;)
			if (!getdents_dots(getdents_next(list, &at)->name))
				return 0;
	return n == 0;
}

/* Finds a project that counts and limits nothing yet. */
static int is_free_project(int dir_fd, uint32_t id)
{
	struct if_dqblk q = { 0 };

	if (quota_control(dir_fd, Q_GETQUOTA, id, &q) < 0)
		return errno == ENOENT || errno == ESRCH;
	return !q.dqb_curspace && !q.dqb_curinodes && !q.dqb_bhardlimit && !q.dqb_ihardlimit;
}

static int free_project(int dir_fd, uint32_t *ret, struct err *e)
{
	struct stat st;
	uint32_t id;
	int tries;

	if (fstat(dir_fd, &st) < 0)
		return err_sys(e, "look at a directory");
	for (tries = 0; tries < TRIES; tries++) {
		id = PROJECT_OF_OPERATOR | (uint32_t)(st.st_ino + (ino_t)tries);
		if (id != UINT32_MAX && is_free_project(dir_fd, id)) {
			*ret = id;
			return 0;
		}
	}
	return err_set(e, ERR_BUSY, "no free project was found in %d tries", TRIES);
}

int quota_bound(int dir_fd, uint64_t bytes, uint64_t inodes, struct err *e)
{
	struct fsxattr x;
	uint32_t id;

	if (quota_check(dir_fd, e) < 0)
		return -1;
	if (ioctl(dir_fd, FS_IOC_FSGETXATTR, &x) < 0)
		return err_code_sys(e, ERR_UNSUPPORTED, "read the project of a directory");
	id = x.fsx_projid;
	if (id && (!(id & PROJECT_OF_OPERATOR) || !(x.fsx_xflags & FS_XFLAG_PROJINHERIT)))
		return err_set(e, ERR_INVALID, "the directory is of project %u already; "
			       "hint: bound that project by setquota -P", id);
	if (!id && !is_empty_project_dir(dir_fd))
		return err_set(e, ERR_INVALID, "the directory holds files that no project counts; "
			       "hint: an empty directory, or berth volume create --size");
	if (!id && free_project(dir_fd, &id, e) < 0)
		return -1;
	return quota_limit(dir_fd, id, bytes, inodes, e);
}

int quota_join(int dir_fd, int like_fd, struct err *e)
{
	struct fsxattr like, x;

	if (ioctl(like_fd, FS_IOC_FSGETXATTR, &like) < 0 ||
	    ioctl(dir_fd, FS_IOC_FSGETXATTR, &x) < 0)
		return err_code_sys(e, ERR_UNSUPPORTED, "read the project of a directory");
	if (!like.fsx_projid)
		return err_set(e, ERR_INTERNAL, "the directory to be like has no project");
	if (x.fsx_projid == like.fsx_projid && x.fsx_xflags & FS_XFLAG_PROJINHERIT)
		return 0;
	if (x.fsx_projid || !is_empty_project_dir(dir_fd))
		return err_set(e, ERR_INVALID, "the directory holds files that another project "
			       "counts, or none");
	return join_project(dir_fd, like.fsx_projid, e);
}

/* capset(2) is of a thread. */
static int set_effective(struct __user_cap_data_struct d[2])
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };

	return (int)syscall(SYS_capset, &h, d);
}

int quota_obey(uint32_t *ret_had, struct err *e)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];
	const uint32_t bit = 1u << CAP_SYS_RESOURCE;

	if (syscall(SYS_capget, &h, d) < 0)
		return err_sys(e, "read the capabilities of a thread");
	*ret_had = d[0].effective & bit;
	d[0].effective &= ~bit;
	return set_effective(d) < 0 ? err_sys(e, "do without CAP_SYS_RESOURCE") : 0;
}

void quota_obey_end(uint32_t had)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	if (!had || syscall(SYS_capget, &h, d) < 0)
		return;
	d[0].effective |= had;
	set_effective(d);	/* a permitted capability can be made effective */
}
