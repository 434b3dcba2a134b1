/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/copyturn.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/sandbox/writable.h"

#define STILL_MS 1000

enum { BOX = 3, LAYER, LOCK, SOCK, CGROUP, TURN, KEPT }; /* descriptors of the process */

struct work {
	const struct snapshot *s;
	struct checkpoints all;
	pid_t keeper;
	int layer, file; /* of the sandbox, of the checkpoint */
	struct snapshot_note note;
};

static uint64_t now_us(void)
{
	struct timespec t = clock_now(CLOCK_MONOTONIC);

	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void tell(struct work *w, enum snapshot_kind kind)
{
	w->note.kind = kind;
	(void)!send(SOCK, &w->note, sizeof(w->note), MSG_NOSIGNAL);
}

/* Nothing else of the keeper's: its socket and its clients would outlive it. */
static int keep_only(const struct snapshot *s, int sock)
{
	const int fds[] = { s->box_fd, s->layer_fd,  s->lock_fd,
			    sock,      s->cgroup_fd, s->turn_fd };
	const size_t count = ARRAY_LEN(fds) - (s->turn_fd < 0);
	int high[ARRAY_LEN(fds)];
	size_t i;

	for (i = 0; i < count; i++)
		if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, KEPT)) < 0)
			return -1;
	for (i = 0; i < count; i++)
		if (dup2(high[i], BOX + (int)i) < 0)
			return -1;
	return (int)syscall(SYS_close_range, BOX + count, ~0U, 0);
}

static int write_out(struct err *e)
{
	autoclose int top = openat(LAYER, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return top < 0 || syncfs(top) < 0 ? err_sys(e, "write out the writable layer") : 0;
}

static int begin(struct work *w, struct err *e)
{
	uint64_t began;

	if (w->s->waits) {
		if (copyturn_wait(TURN, w->s->turn_at, e) < 0)
			return -1;
		tell(w, SNAPSHOT_TURN);
	}
	if (checkpoints_open(BOX, 1, &w->all, e) < 0)
		return -1;
	w->layer = openat(w->all.home_fd, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (w->layer < 0)
		return err_sys(e, "open the writable layer");
	if (w->s->name[0] && checkpoints_check_name(&w->all, w->s->name, e) < 0)
		return -1;
	began = now_us();
	if (write_out(e) < 0)
		return -1;
	w->note.flush_us = now_us() - began;
	/* now the layer has the blocks that count */
	w->file = checkpoint_begin(&w->all, w->layer, &w->s->bounds, w->note.id, e);
	return w->file < 0 ? -1 : 0;
}

static int keeper_lives(void *ctx)
{
	const struct work *w = ctx;

	return getppid() == w->keeper;
}

static int copy_frozen(struct work *w, struct err *e)
{
	struct err ignored;
	int result;

	/* from here on it outlives the keeper, until it has thawed the layer */
	if (prctl(PR_SET_PDEATHSIG, 0) < 0)
		return err_sys(e, "outlive the keeper");
	if (fsfreeze(LAYER, e) < 0)
		return -1;
	/* again: files that were removed while they were open may have ended during the freeze */
	result = write_out(e);
	if (result == 0)
		result = fileclone(w->layer, w->file, keeper_lives, w, e);
	if (fsfreeze_thaw(LAYER, result < 0 ? &ignored : e) < 0)
		result = -1;
	w->note.shared = result > 0;
	return result < 0 ? -1 : 0;
}

/*
 * The layer has no journal that a mount could replay: its file is that of a whole file system only
 * while nobody is at work in it, and all is written out.  The keeper has told the kernel to freeze
 * the cgroup, which a process in a system call, fsync(2) for example, obeys at the end of that.
 * When every process stands still, the file is cloned without FIFREEZE, which waits for three
 * grace periods of RCU.  When one sleeps in the kernel without end, as on a file system of the
 * network, FIFREEZE waits for what it does in this one.  A copy takes its time and is made under
 * FIFREEZE, too.
 */
static int copy_still(struct work *w, struct err *e)
{
	const int still = cgroup_wait_still(CGROUP, STILL_MS);
	int result;

	if (!still || !w->all.shares)
		return copy_frozen(w, e);
	if (write_out(e) < 0)
		return -1;
	result = fileclone_share(w->layer, w->file, e);
	w->note.shared = result > 0;
	return result != 0 ? (result < 0 ? -1 : 0) : copy_frozen(w, e);
}

static int copy(struct work *w, struct err *e)
{
	uint64_t began;
	int result;
	char go;

	if (checkpoint_note_frozen(w->all.dir_fd, LAYER, e) < 0)
		return -1;
	began = now_us();
	tell(w, SNAPSHOT_READY);
	if (recv(SOCK, &go, 1, 0) == 1) {
		result = copy_still(w, e);
	} else {
		result = err_set(e, ERR_BUSY, "the keeper has ended");
	}
	w->note.frozen_us = now_us() - began;
	if (result == 0)
		tell(w, SNAPSHOT_COPIED);
	/* from here on the sandbox may end, and its layer be mounted again: the note goes last, for
	 * who waits for that */
	close(LAYER);
	close(LOCK);
	checkpoint_note_thawed(w->all.dir_fd);
	return result;
}

static int commit(struct work *w, struct err *e)
{
	const char *head = checkpoints_head(&w->all);
	struct stat st;

	snprintf(w->note.parent, sizeof(w->note.parent), "%s", head ? head : "");
	/* one of a process ends with the host at the latest */
	if ((!json_object_get(w->s->members, "owner") && fsync(w->file) < 0) ||
	    fstat(w->file, &st) < 0)
		return err_sys(e, "write a checkpoint");
	w->note.bytes = (uint64_t)st.st_blocks * 512;
	return checkpoint_commit(&w->all, w->note.id, json_incref(w->s->members), &w->s->bounds, e);
}

static void run(struct work *w) __attribute__((noreturn));
static void run(struct work *w)
{
	struct err e = { 0 };

	prctl(PR_SET_NAME, "berth-snapshot");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || !keeper_lives(w))
		_exit(1);
	if (begin(w, &e) == 0 && copy(w, &e) == 0) {
		if (commit(w, &e) == 0) {
			tell(w, SNAPSHOT_DONE);
			_exit(0);
		}
	} else if (w->file >= 0) {
		/* the next one would remove it, too: the list does not name it */
		checkpoint_cancel(&w->all, w->note.id);
	}
	w->note.err = e;
	tell(w, SNAPSHOT_FAILED);
	_exit(1);
}

int snapshot_start(const struct snapshot *s, pid_t *ret_pid, int *ret_sock, struct err *e)
{
	struct work w = { .s = s,
			  .all = CHECKPOINTS_NONE,
			  .keeper = getpid(),
			  .layer = -1,
			  .file = -1 };
	autoclose int ours = -1, theirs = -1;
	int sv[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, "make a socket for a checkpoint");
	ours = sv[0];
	theirs = sv[1];
	pid = fork();
	if (pid == 0) {
		if (keep_only(s, theirs) < 0)
			_exit(1);
		run(&w);
	}
	if (pid < 0)
		return err_sys(e, "fork for a checkpoint");
	*ret_pid = pid;
	*ret_sock = take_fd(&ours);
	return 0;
}
