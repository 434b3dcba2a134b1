/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a volume for use: its lock, its mount, its first content. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/getdents.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/volume.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/kernel/landlock.h"
#include "runtime/kernel/loopdev.h"
#include "runtime/kernel/newmount.h"
#include "runtime/kernel/quota.h"
#include "runtime/kernel/treecopy.h"

/* ---- opening for use ---- */

#define SEEDING "seeding"
#define TRIES 256

void volume_close(struct volume *v)
{
	fd_close(&v->root_fd);
	fd_close(&v->dir_fd);
}

/* ---- its file system ---- */

/* The locked directory of a volume in top; ret->root_fd is its top. */
static int volume_mount(struct volume *v, struct err *e)
{
	autoclose int file = openat(v->dir_fd, "image", O_RDWR | O_NOFOLLOW | O_CLOEXEC),
		      data = -1;

	if (file >= 0) {
		v->root_fd = loopdev_mount_shared(v->dir_fd, file, "ext4", e);
		v->is_mount = v->root_fd >= 0;
		return v->is_mount ? 0 : -1;
	}
	if (errno != ENOENT)
		return err_sys(e, "open the file of a volume");
	data = openat(v->dir_fd, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (data < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_CORRUPT : ERR_SYS,
				    "open the directory of a volume");
	/* mounted without prjquota since: the volume would no longer be limited */
	if (quota_check(data, e) < 0)
		return -1;
	v->root_fd = take_fd(&data);
	return 0;
}

/* ---- its content ---- */

/* Tells whether the volume is empty; -1 with errno. */
static int is_empty_volume(int root)
{
	autoclose int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct getdents) char list[2048];
	long n, at;

	if (fd < 0)
		return -1;
	while ((n = getdents_read(fd, list, sizeof(list))) > 0)
		for (at = 0; at < n;)
			if (!getdents_dots(getdents_next(list, &at)->name))
				return 0;
	return n < 0 ? -1 : 1;
}

struct emptying {
	int root;
	struct err *e;
};

static int remove_volume_entry(void *ctx, const char *name)
{
	const struct emptying *x = ctx;

	return path_remove_tree(x->root, name, x->e);
}

static int empty(int root, struct err *e)
{
	struct emptying x = { root, e };
	autoclose int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0;

	if (fd < 0)
		return err_sys(e, "open a volume");
	if (path_each_entry(fd, remove_volume_entry, &x, &failed) < 0 && !failed)
		return -1;
	return failed ? err_sys(e, "read a volume") : 0;
}

/* Seeds the volume once; the caller holds the lock exclusively. */
static int seed_volume_once(struct volume *v, volume_seed *seed, void *ctx, struct err *e)
{
	int half = path_has(v->dir_fd, SEEDING), none, result;
	struct err ignored;
	autoclose int note = -1, root = -1;

	if (half && empty(v->root_fd, e) < 0)
		return -1;
	none = half ? 1 : is_empty_volume(v->root_fd);
	if (none < 0)
		return err_sys(e, "look whether a volume is empty");
	if (!none)
		return 0;
	note = openat(v->dir_fd, SEEDING, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	root = openat(v->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (note < 0 || root < 0 || fsync(v->dir_fd) < 0)
		return err_sys(e, "begin to fill a volume");
	result = seed(ctx, root, e);
	if (result < 0)
		empty(root, &ignored);
	/* must be on disk before it counts as complete */
	else if (syncfs(root) < 0)
		result = err_sys(e, "write a volume");
	if (result == 0 && (unlinkat(v->dir_fd, SEEDING, 0) < 0 || fsync(v->dir_fd) < 0))
		result = err_sys(e, "complete a volume");
	return result;
}

/* ---- opening ---- */

/* Tells whether the locked directory still has that name. */
static int is_current(int top, const char *key, int dir)
{
	struct stat by_name, locked;

	return fstatat(top, key, &by_name, AT_SYMLINK_NOFOLLOW) == 0 && fstat(dir, &locked) == 0 &&
	       by_name.st_dev == locked.st_dev && by_name.st_ino == locked.st_ino;
}

static int lock_volume_dir(int dir, int how, struct err *e)
{
	while (flock(dir, how) < 0)
		if (errno != EINTR)
			return errno == EWOULDBLOCK ?
				       err_set(e, ERR_BUSY, "the volume is in use") :
				       err_sys(e, "lock a volume");
	return 0;
}

/* Opens the volume: 1 if it was removed meanwhile, or the process that filled it has died. */
static int open_existing_volume(int top, const char *key, volume_seed *seed, void *ctx, struct volume *v,
			 struct err *e)
{
	int alone;

	v->dir_fd = openat(top, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (v->dir_fd < 0)
		return errno == ENOENT ? 1 : err_sys(e, "open volume %s", key);
	/* waits for a process that fills it */
	alone = seed && lock_volume_dir(v->dir_fd, LOCK_EX | LOCK_NB, e) == 0;
	if (!alone && lock_volume_dir(v->dir_fd, LOCK_SH, e) < 0)
		return -1;
	if (!is_current(top, key, v->dir_fd))
		return 1;
	/*
	 * the process that we waited for died half-way: another try takes the lock, or waits for
	 * its holder
	 */
	if (seed && !alone && path_has(v->dir_fd, SEEDING))
		return 1;
	volume_thaw_left(v->dir_fd);
	if (volume_mount(v, e) < 0 || (alone && seed_volume_once(v, seed, ctx, e) < 0))
		return err_wrap(e, "volume %s", key);
	/* between the shared and the exclusive lock we have none */
	if (alone && lock_volume_dir(v->dir_fd, LOCK_SH, e) < 0)
		return -1;
	return !is_current(top, key, v->dir_fd);
}

/* A record that cannot be read is of a newer berth, or damaged: then nothing is mounted. */
static int check_volume_record(struct registry *r, const struct volume_wish *w, const char *key, struct err *e)
{
	autojson json_t *record = volume_load(r, key, e), *made = NULL;

	if (record)
		return 0;
	if (e->code != ERR_NOT_FOUND || (volume_create(r, w, e) < 0 && e->code != ERR_EXISTS))
		return -1;
	made = volume_load(r, key, e);
	return made ? 0 : -1;
}

int volume_open(struct registry *r, const struct volume_wish *w, volume_seed *seed, void *ctx,
		struct volume *ret, struct err *e)
{
	struct volume v = VOLUME_INIT;
	char key[VOLUME_KEY_MAX];
	autoclose int top = -1;
	int tries, got = 1;

	if (volume_key(w->name, w->tenant, key, e) < 0 || (top = volume_top(r, e)) < 0)
		return -1;
	for (tries = 0; got > 0 && tries < TRIES; tries++) {
		volume_close(&v);
		got = check_volume_record(r, w, key, e);
		if (got == 0)
			got = open_existing_volume(top, key, seed, ctx, &v, e);
	}
	if (got == 0) {
		*ret = v;
		return 0;
	}
	volume_close(&v);
	return got < 0 ? -1 :
			 err_set(e, ERR_BUSY,
				 "volume %s is removed, or left half-filled, again and again",
				 w->name);
}

/* ---- clones ---- */

/*
 * Clones of volumes.
 *
 * A volume that is a file is frozen (fileclone.h) while the file is cloned, so that the copy is
 * that of one instant and needs no repair. Only a thaw ends that: one process copies, and a second
 * process thaws if the first was killed. If both were killed, the next process that opens the
 * volume or clears up thaws it: the file "cloning" tells it so, which is locked as long as a
 * process copies.
 */

#define IMAGE "image"
#define DATA "data"
#define CLONING "cloning"

struct clone {
	const struct volume *from;
	int to_dir;
};

/* ---- a file -------------------------------------------------------------------------- */

static int lock_cloning_note(int dir_fd, struct err *e)
{
	autoclose int note =
		openat(dir_fd, CLONING, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (note < 0)
		return err_sys(e, "note that a volume is copied");
	while (flock(note, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the note that a volume is copied");
	/* the process before us may have removed it */
	return path_has(dir_fd, CLONING) ? take_fd(&note) :
					   err_set(e, ERR_BUSY,
						   "another command copied the volume; "
						   "hint: try again");
}

static int copy_frozen_volume(const struct clone *c, int from, int to, struct err *e)
{
	struct err ignored;
	int result;

	if (fsfreeze(c->from->root_fd, e) < 0)
		return -1;
	result = fileclone(from, to, NULL, NULL, e);
	return fsfreeze_thaw(c->from->root_fd, result < 0 ? &ignored : e) < 0 || result < 0 ? -1 :
											      0;
}

static void run_volume_copy(const struct clone *c, int from, int to, int report, pid_t parent)
	__attribute__((noreturn));
static void run_volume_copy(const struct clone *c, int from, int to, int report, pid_t parent)
{
	struct err e = { 0 };

	signal(SIGPIPE, SIG_IGN);
	if (prctl(PR_SET_NAME, "berth-clone") < 0 || getppid() != parent)
		_exit(1);
	copy_frozen_volume(c, from, to, &e);
	(void)!write(report, &e, sizeof(e));
	_exit(0);
}

/* Copies by another process, after whose end the volume surely is thawed. */
static int copy_volume_apart(const struct clone *c, int from, int to, struct err *e)
{
	autoclose int theirs = -1, ours = -1;
	struct err told = { 0 };
	int p[2], got;
	pid_t pid, me = getpid();

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	ours = p[0];
	theirs = p[1];
	pid = fork();
	if (!pid)
		run_volume_copy(c, from, to, theirs, me);
	if (pid < 0)
		return err_sys(e, "fork");
	fd_close(&theirs);
	got = io_read_exact(ours, &told, sizeof(told));
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	fsfreeze_thaw(c->from->root_fd, e);
	if (got != 1)
		return err_set(e, ERR_INTERNAL, "the process that copies the volume was killed");
	if (told.code == ERR_NONE)
		return 0;
	*e = told;
	return -1;
}

static int clone_image(const struct clone *c, int from, struct err *e)
{
	autoclose int note = -1, to = -1;
	int result;

	if (unlinkat(c->to_dir, IMAGE, 0) < 0)
		return errno == ENOENT ?
			       err_set(e, ERR_UNSUPPORTED,
				       "a volume that is a file cannot become one under a "
				       "quota") :
			       err_sys(e, "replace the file of a volume");
	to = openat(c->to_dir, IMAGE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return err_sys(e, "make the file of a volume");
	note = lock_cloning_note(c->from->dir_fd, e);
	if (note < 0)
		return -1;
	result = copy_volume_apart(c, from, to, e);
	unlinkat(c->from->dir_fd, CLONING, 0);
	if (result == 0 && fsync(to) < 0)
		result = err_sys(e, "write the file of a volume");
	return result;
}

void volume_thaw_left(int dir_fd)
{
	autoclose int note = -1, image = -1, mnt = -1;
	struct err ignored;

	if (!path_has(dir_fd, CLONING))
		return;
	note = openat(dir_fd, CLONING, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (note < 0 || flock(note, LOCK_EX | LOCK_NB) < 0)
		return;
	image = openat(dir_fd, IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	mnt = image < 0 ? -1 : loopdev_mount_shared(dir_fd, image, "ext4", &ignored);
	if (mnt >= 0)
		fsfreeze_thaw(mnt, &ignored);
	unlinkat(dir_fd, CLONING, 0);
}

/* ---- a directory ----------------------------------------------------------------------- */

/* File by file, within the new one's quota. */
static int clone_data(const struct clone *c, struct err *e)
{
	autoclose int to = openat(c->to_dir, DATA, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int from = openat(c->from->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t had = 0;
	int result;

	if (to < 0 || from < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_UNSUPPORTED : ERR_SYS,
				    "open the directory of a volume");
	if (quota_obey(&had, e) < 0)
		return -1;
	result = treecopy(from, to, e);
	quota_obey_end(had);
	return result == 0 && syncfs(to) < 0 ? err_sys(e, "write a volume") : result;
}

static int fill_volume_clone(void *ctx, int dir_fd, struct err *e)
{
	struct clone *c = ctx;
	autoclose int image = openat(c->from->dir_fd, IMAGE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	c->to_dir = dir_fd;
	if (image < 0 && errno != ENOENT)
		return err_sys(e, "open the file of a volume");
	return image >= 0 ? clone_image(c, image, e) : clone_data(c, e);
}

int volume_clone(struct registry *r, const char *name, const char *new_name, const char *tenant,
		 uint64_t tenant_max, struct err *e)
{
	struct volume_wish source = { .name = name, .tenant = tenant };
	struct volume_wish w = { .name = new_name, .tenant = tenant, .tenant_max = tenant_max };
	autojson json_t *record = NULL;
	struct volume v = VOLUME_INIT;
	struct clone c = { .from = &v };
	char key[VOLUME_KEY_MAX];
	int result;

	if (volume_key(name, tenant, key, e) < 0)
		return -1;
	record = volume_load(r, key, e);
	if (!record || json_get_u64(record, "size_bytes", &w.size_bytes, "the record", e) < 0)
		return -1;
	w.labels = json_object_get(record, "labels");
	w.fill = fill_volume_clone;
	w.ctx = &c;
	if (volume_open(r, &source, NULL, NULL, &v, e) < 0)
		return -1;
	result = volume_create(r, &w, e);
	volume_close(&v);
	return result;
}

/* ---- a copy of the directory in the image ---- */

/* Upholds S2 of SECURITY.md. */

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
/*
 * Capabilities to set owners and modes for others, without SYS_RESOURCE, which would bypass quotas,
 * and MKNOD.
 */
#define CAPS \
	(1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | \
	 1u << CAP_FOWNER | 1u << CAP_FSETID | 1u << CAP_SETFCAP)

struct layers {
	int fd[SPEC_LAYERS_MAX];
	size_t count;
};

static void close_layers(struct layers *l)
{
	while (l->count)
		close(l->fd[--l->count]);
}

static int clone_layers(struct layers *l, const struct spec *s, struct err *e)
{
	while (l->count < s->layer_count) {
		int fd = newmount_clone(s->layer_fd[l->count], "", 0, READ_ONLY, e);

		if (fd < 0)
			return -1;
		l->fd[l->count++] = fd;
	}
	return 0;
}

/* The image as its sandboxes see it, with the ids on disk. */
static int open_seed_image(struct layers *l, const struct spec *s, const char *scratch, struct err *e)
{
	int mnt;

	if (clone_layers(l, s, e) < 0)
		return -1;
	if (l->count == 1) { /* overlayfs wants two */
		mnt = fcntl(l->fd[0], F_DUPFD_CLOEXEC, 3);
		return mnt < 0 ? err_sys(e, "open the image") : mnt;
	}
	mnt = newmount_overlay(l->fd, l->count, -1, -1, 0, READ_ONLY, e);
	if (mnt < 0 && e->code == ERR_UNSUPPORTED)
		mnt = newmount_overlay_attached(scratch, l->fd, l->count, -1, READ_ONLY, e);
	return mnt;
}

static int confine_seeding(int from, int to, pid_t parent, struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { .effective = CAPS, .permitted = CAPS } };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		return err_set(e, ERR_INTERNAL,
			       "the process that fills a volume has lost its parent");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	if (landlock_copy(from, to, e) < 0)
		return -1;
	return syscall(SYS_capset, &h, caps) < 0 ? err_sys(e, "drop capabilities") : 0;
}

static void copy_in_child(int from, int to, pid_t parent, int told) __attribute__((noreturn));
static void copy_in_child(int from, int to, pid_t parent, int told)
{
	struct err e = { 0 };

	if (confine_seeding(from, to, parent, &e) == 0)
		(void)treecopy_files(from, to, &e);
	_exit(io_write_all(told, &e, sizeof(e)) < 0);
}

static int copy_seed(int from, int to, struct err *e)
{
	const pid_t self = getpid();
	autoclose int hear = -1;
	int fds[2], got;
	struct err told;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	hear = fds[0];
	pid = fork();
	if (pid == 0)
		copy_in_child(from, to, self, fds[1]);
	close(fds[1]);
	if (pid < 0)
		return err_sys(e, "fork");
	got = io_read_exact(hear, &told, sizeof(told));
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (got != 1)
		return err_set(e, ERR_INTERNAL, "the process that fills a volume died");
	if (told.code == ERR_NONE)
		return 0;
	*e = told;
	return -1;
}

int volume_seed_from(const struct spec *s, const char *target, const char *scratch, int root_fd,
		     struct err *e)
{
	struct layers l = { .count = 0 };
	autoclose int image = open_seed_image(&l, s, scratch, e), from = -1;
	int result = -1;

	if (image >= 0) {
		from = path_open_in_root(image, target, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
		result = from >= 0 ? copy_seed(from, root_fd, e) : 0;
		/* missing, or no directory */
		if (from < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
			result = err_sys(e, "open %s of the image", target);
	}
	close_layers(&l);
	if (result == 0 || (e->os_errno != ENOSPC && e->os_errno != EDQUOT))
		return result < 0 ? err_wrap(e, "copy the image's %s", target) : 0;
	return err_set(e, ERR_FULL,
		       "the image has more at %s than the volume can hold; hint: berth volume "
		       "create --size makes larger ones",
		       target);
}
