/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "runtime/kernel/fileclone.h"
#include "runtime/kernel/fsfreeze.h"
#include "runtime/sandbox/writable.h"

#define STILL_US 20000

enum { BOX = 3, LAYER, LOCK, SOCK, CGROUP, TURN, KEPT }; /* descriptors of the process */

struct work {
	const struct snapshot *s;
	struct checkpoints all;
	pid_t keeper;
	int layer, file; /* of the sandbox, of the checkpoint */
	int shares;      /* the file system of both has reflinks */
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

static int begin(struct work *w, struct err *e)
{
	autoclose int top = openat(LAYER, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t began;

	if (w->s->waits) {
		if (copyturn_wait(TURN, w->s->turn_at, e) < 0)
			return -1;
		tell(w, SNAPSHOT_TURN);
	}
	if (checkpoints_open(BOX, 1, &w->all, e) < 0)
		return -1;
	w->layer = openat(w->all.home_fd, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (w->layer < 0 || top < 0)
		return err_sys(e, "open the writable layer");
	if (w->s->name[0] && checkpoints_check_name(&w->all, w->s->name, e) < 0)
		return -1;
	began = now_us();
	if (syncfs(top) < 0)
		return err_sys(e, "write out the writable layer");
	w->note.flush_us = now_us() - began;
	/* now the layer has the blocks that count */
	w->file = checkpoint_begin(&w->all, w->layer, &w->s->bounds, w->note.id, e);
	if (w->file < 0)
		return -1;
	w->shares = fileclone_shares(w->all.data_fd, e);
	return w->shares < 0 ? -1 : 0;
}

static int keeper_lives(void *ctx)
{
	const struct work *w = ctx;

	return getppid() == w->keeper;
}

/*
 * The keeper has told the kernel to freeze the cgroup, which takes a moment.  What sleeps in the
 * kernel without end, as a hostile process may, is not waited for: it writes nothing.
 */
static void wait_for_still(void)
{
	autoclose int events = openat(CGROUP, "cgroup.events", O_RDONLY | O_CLOEXEC);
	const uint64_t end = now_us() + STILL_US;
	struct pollfd p = { .fd = events, .events = POLLPRI };
	char text[128];

	while (events >= 0 && now_us() < end) {
		ssize_t n = pread(events, text, sizeof(text) - 1, 0);

		text[n < 0 ? 0 : n] = '\0';
		if (n < 0 || strstr(text, "frozen 1"))
			return;
		poll(&p, 1, 1 + (int)((end - now_us()) / 1000));
	}
}

/*
 * With reflinks the file is cloned at one instant, while no write to it is under way: as after a
 * power cut, with all that was written before in it, and ext4 replays the journal when it is
 * mounted.  FIFREEZE, which waits for three grace periods of RCU, is not needed for that.
 */
static int clone_layer(struct work *w, struct err *e)
{
	autoclose int top = openat(LAYER, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* twice: ext4 may note a file's size in the transaction after that of its blocks */
	if (top < 0 || syncfs(top) < 0 || syncfs(top) < 0)
		return err_sys(e, "write out the writable layer");
	return fileclone_share(w->layer, w->file, e);
}

/* A copy takes its time, and the file must not change meanwhile. */
static int copy_frozen(struct work *w, struct err *e)
{
	struct err ignored;
	int result = w->shares ? clone_layer(w, e) : 0;

	w->note.shared = result > 0;
	if (result != 0)
		return result < 0 ? -1 : 0;
	/* from here on it outlives the keeper, until it has thawed the layer */
	if (prctl(PR_SET_PDEATHSIG, 0) < 0)
		return err_sys(e, "outlive the keeper");
	result = fsfreeze(LAYER, e);
	if (result == 0) {
		result = fileclone(w->layer, w->file, keeper_lives, w, e);
		if (fsfreeze_thaw(LAYER, result < 0 ? &ignored : e) < 0)
			result = -1;
	}
	return result < 0 ? -1 : 0;
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
		wait_for_still();
		result = copy_frozen(w, e);
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
