/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clones of volumes.
 *
 * A volume that is a file stands still (fileclone.h) while the file is cloned, so that the copy is
 * that of one instant and needs no repair.  Only a thaw ends that: one process copies, and the
 * other thaws when that one was killed; when both were, the next who opens the volume or clears up
 * does, for whom the file "cloning" is the note, locked as long as somebody copies.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/volume.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/kernel/loopdev.h"
#include "runtime/kernel/quota.h"
#include "runtime/kernel/treecopy.h"

#define IMAGE "image"
#define DATA "data"
#define CLONING "cloning"

struct clone {
	const struct volume *from;
	int to_dir;
};

/* ---- a file -------------------------------------------------------------------------- */

static int lock_note(int dir_fd, struct err *e)
{
	autoclose int note =
		openat(dir_fd, CLONING, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (note < 0)
		return err_sys(e, "note that a volume is copied");
	while (flock(note, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the note that a volume is copied");
	/* the one before us may have removed it */
	return path_has(dir_fd, CLONING) ? take_fd(&note) :
					   err_set(e, ERR_BUSY,
						   "another command copied the volume; "
						   "hint: try again");
}

static int copy_frozen(const struct clone *c, int from, int to, struct err *e)
{
	struct err ignored;
	int result;

	if (fsfreeze(c->from->root_fd, e) < 0)
		return -1;
	result = fileclone(from, to, NULL, NULL, e);
	return fsfreeze_thaw(c->from->root_fd, result < 0 ? &ignored : e) < 0 || result < 0 ? -1 :
											      0;
}

static void run_copy(const struct clone *c, int from, int to, int report, pid_t parent)
	__attribute__((noreturn));
static void run_copy(const struct clone *c, int from, int to, int report, pid_t parent)
{
	struct err e = { 0 };

	signal(SIGPIPE, SIG_IGN);
	if (prctl(PR_SET_NAME, "berth-clone") < 0 || getppid() != parent)
		_exit(1);
	copy_frozen(c, from, to, &e);
	(void)!write(report, &e, sizeof(e));
	_exit(0);
}

/* By another process, after whose end the volume surely goes on. */
static int copy_apart(const struct clone *c, int from, int to, struct err *e)
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
		run_copy(c, from, to, theirs, me);
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
	note = lock_note(c->from->dir_fd, e);
	if (note < 0)
		return -1;
	result = copy_apart(c, from, to, e);
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

static int fill(void *ctx, int dir_fd, struct err *e)
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
	w.fill = fill;
	w.ctx = &c;
	if (volume_open(r, &source, NULL, NULL, &v, e) < 0)
		return -1;
	result = volume_create(r, &w, e);
	volume_close(&v);
	return result;
}
