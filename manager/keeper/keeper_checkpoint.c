/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/copyturn.h"
#include "manager/host/procid.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/snapshot.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/sandbox/writable.h"

/* ---- the process that copies the layer ---- */

#define STILL_MS 1000

enum { BOX = 3, LAYER, LOCK, SOCK, CGROUP, TURN, KEPT }; /* descriptors of the process */

struct work {
	const struct snapshot *s;
	struct checkpoints all;
	pid_t keeper;
	int layer, file; /* files of the sandbox's layer and of the checkpoint's */
	struct snapshot_note note;
};

static uint64_t snapshot_now_us(void)
{
	struct timespec t = clock_now(CLOCK_MONOTONIC);

	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void tell_snapshot(struct work *w, enum snapshot_kind kind)
{
	w->note.kind = kind;
	(void)!send(SOCK, &w->note, sizeof(w->note), MSG_NOSIGNAL);
}

/* Keeps its own descriptors only: the keeper's socket and clients would stay open beyond the keeper. */
static int keep_snapshot_fds(const struct snapshot *s, int sock)
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

static int write_out_layer(struct err *e)
{
	autoclose int top = openat(LAYER, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return top < 0 || syncfs(top) < 0 ? err_sys(e, "write out the writable layer") : 0;
}

static int begin_snapshot(struct work *w, struct err *e)
{
	uint64_t began;

	if (w->s->waits) {
		if (copyturn_wait(TURN, w->s->turn_at, e) < 0)
			return -1;
		tell_snapshot(w, SNAPSHOT_TURN);
	}
	if (checkpoints_open(BOX, 1, &w->all, e) < 0)
		return -1;
	w->layer = openat(w->all.home_fd, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (w->layer < 0)
		return err_sys(e, "open the writable layer");
	if (w->s->name[0] && checkpoints_check_name(&w->all, w->s->name, e) < 0)
		return -1;
	began = snapshot_now_us();
	if (write_out_layer(e) < 0)
		return -1;
	w->note.flush_us = snapshot_now_us() - began;
	/* now the layer has the blocks that are counted */
	w->file = checkpoint_begin(&w->all, w->layer, &w->s->bounds, w->note.id, e);
	return w->file < 0 ? -1 : 0;
}

static int keeper_lives(void *ctx)
{
	const struct work *w = ctx;

	return getppid() == w->keeper;
}

static int copy_frozen_layer(struct work *w, struct err *e)
{
	struct err ignored;
	int result;

	/* from here on it outlives the keeper, until it has thawed the layer */
	if (prctl(PR_SET_PDEATHSIG, 0) < 0)
		return err_sys(e, "outlive the keeper");
	if (fsfreeze(LAYER, e) < 0)
		return -1;
	/* again: files that were removed while they were open may have ended during the freeze */
	result = write_out_layer(e);
	if (result == 0)
		result = fileclone(w->layer, w->file, keeper_lives, w, e);
	if (fsfreeze_thaw(LAYER, result < 0 ? &ignored : e) < 0)
		result = -1;
	w->note.shared = result > 0;
	return result < 0 ? -1 : 0;
}

/*
 * Copies the layer while the sandbox is frozen. The layer has no journal that a mount could replay:
 * its file is that of a whole file system only while no process works in it, and all data is
 * written out. The keeper has told the kernel to freeze the cgroup, which a process in a system
 * call, fsync(2) for example, obeys at the end of the call. When every process stands still, the
 * file is cloned without FIFREEZE, which waits for three grace periods of RCU. If a process sleeps
 * in the kernel without end, as on a network file system, FIFREEZE waits for its calls in this file
 * system. A copy takes its time and is made under FIFREEZE, too.
 */
static int copy_still(struct work *w, struct err *e)
{
	const int still = cgroup_wait_still(CGROUP, STILL_MS);
	int result;

	if (!still || !w->all.shares)
		return copy_frozen_layer(w, e);
	if (write_out_layer(e) < 0)
		return -1;
	result = fileclone_share(w->layer, w->file, e);
	w->note.shared = result > 0;
	return result != 0 ? (result < 0 ? -1 : 0) : copy_frozen_layer(w, e);
}

static int copy_snapshot(struct work *w, struct err *e)
{
	uint64_t began;
	int result;
	char go;

	if (checkpoint_note_frozen(w->all.dir_fd, LAYER, e) < 0)
		return -1;
	began = snapshot_now_us();
	tell_snapshot(w, SNAPSHOT_READY);
	if (recv(SOCK, &go, 1, 0) == 1) {
		result = copy_still(w, e);
	} else {
		result = err_set(e, ERR_BUSY, "the keeper has ended");
	}
	w->note.frozen_us = snapshot_now_us() - began;
	if (result == 0)
		tell_snapshot(w, SNAPSHOT_COPIED);
	/* from here on the sandbox may end, and its layer be mounted again: the note is removed
	 * last, for processes that wait for that */
	close(LAYER);
	close(LOCK);
	checkpoint_note_thawed(w->all.dir_fd);
	return result;
}

static int commit_snapshot(struct work *w, struct err *e)
{
	const char *head = checkpoints_head(&w->all);
	struct stat st;

	snprintf(w->note.parent, sizeof(w->note.parent), "%s", head ? head : "");
	/* a checkpoint of a process lasts as long as the host runs at most */
	if ((!json_object_get(w->s->members, "owner") && fsync(w->file) < 0) ||
	    fstat(w->file, &st) < 0)
		return err_sys(e, "write a checkpoint");
	w->note.bytes = (uint64_t)st.st_blocks * 512;
	return checkpoint_commit(&w->all, w->note.id, json_incref(w->s->members), &w->s->bounds, e);
}

static void run_snapshot(struct work *w) __attribute__((noreturn));
static void run_snapshot(struct work *w)
{
	struct err e = { 0 };

	prctl(PR_SET_NAME, "berth-snapshot");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || !keeper_lives(w))
		_exit(1);
	if (begin_snapshot(w, &e) == 0 && copy_snapshot(w, &e) == 0) {
		if (commit_snapshot(w, &e) == 0) {
			tell_snapshot(w, SNAPSHOT_DONE);
			_exit(0);
		}
	} else if (w->file >= 0) {
		/* the next one would remove it, too: the list does not name it */
		checkpoint_cancel(&w->all, w->note.id);
	}
	w->note.err = e;
	tell_snapshot(w, SNAPSHOT_FAILED);
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
		if (keep_snapshot_fds(s, theirs) < 0)
			_exit(1);
		run_snapshot(&w);
	}
	if (pid < 0)
		return err_sys(e, "fork for a checkpoint");
	*ret_pid = pid;
	*ret_sock = take_fd(&ours);
	return 0;
}

/* ---- the jobs of the keeper ---- */

/*
 * Checkpoints: those that a client asks for, and those before a command.
 *
 * Each is a job.  The first one's is made by a process of its own (snapshot.h), while the keeper
 * serves its clients; everything in the sandbox stands still between two words of that process.
 * A job before a command keeps the client's request, which is served when the checkpoint is there,
 * and refused when it cannot be made.
 */

struct checkpoint_job {
	struct checkpoint_job *next;
	struct keeper_request rq; /* the request, with a reference and descriptors of its own; client -1:
				   * gone */
	int fds[WIRE_FDS_MAX];
};

void keeper_checkpoint_ran(struct keeper *k, const char *text, size_t n)
{
	char *last = k->checkpoint.last;
	const size_t max = sizeof(k->checkpoint.last) - 1;
	autoclose int dir = -1;
	struct err ignored;
	size_t i, len;

	/* up to the first byte that is no text, or ends the line */
	for (i = 0; i < n && (unsigned char)text[i] >= ' '; i += len) {
		len = utf8_len((const unsigned char *)text + i, n - i);
		if (!len || i + len > max)
			break;
	}
	memmove(last, text, i);
	last[i] = '\0';
	if (k->checkpoint.touched)
		return;
	k->checkpoint.touched = 1;
	dir = registry_keep_dir(k->registry, k->claim.id, &ignored);
	if (dir >= 0)
		checkpoint_touched(dir);
}

static void release_checkpoint_job(struct checkpoint_job *j)
{
	size_t i;

	for (i = 0; i < j->rq.count; i++)
		close(j->fds[i]);
	json_decref((json_t *)(size_t)j->rq.json);
	free(j);
}

static struct checkpoint_job *take_first(struct keeper *k)
{
	struct checkpoint_job *j = k->checkpoint.jobs;

	k->checkpoint.jobs = j->next;
	return j;
}

static int add_checkpoint_job(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct checkpoint_job **at = &k->checkpoint.jobs, *j = calloc(1, sizeof(*j));

	if (!j)
		return err_nomem(e);
	j->rq = *rq;
	json_incref((json_t *)(size_t)rq->json);
	j->rq.fds = j->fds;
	for (j->rq.count = 0; j->rq.count < rq->count; j->rq.count++) {
		j->fds[j->rq.count] = fcntl(rq->fds[j->rq.count], F_DUPFD_CLOEXEC, 3);
		if (j->fds[j->rq.count] < 0) {
			err_sys(e, "keep a request");
			release_checkpoint_job(j);
			return -1;
		}
	}
	/* each client has one request at a time: their number is bounded */
	while (*at)
		at = &(*at)->next;
	*at = j;
	return 0;
}

/* ---- what the sandbox does meanwhile ------------------------------------------- */

static int stand(struct keeper *k, struct err *e)
{
	if (!k->paused && !k->held_by && cgroup_freeze(&k->sandbox.cgroup, 1, e) < 0)
		return -1;
	k->checkpoint.stands = 1;
	return 0;
}

static void thaw_after_checkpoint(struct keeper *k)
{
	struct err ignored;

	if (!k->checkpoint.stands)
		return;
	k->checkpoint.stands = 0;
	if (!k->paused && !k->held_by)
		cgroup_freeze(&k->sandbox.cgroup, 0, &ignored);
}

/* ---- one checkpoint ------------------------------------------------------------ */

/* The process that it is for alone; NULL: it stays. */
static const char *checkpoint_owner(const struct keeper_request *rq)
{
	const char *owner = rq->op == OP_checkpoint ? request_owner(rq->json, "") : "";

	return owner[0] ? owner : NULL;
}

static json_t *checkpoint_members(const struct keeper *k, const struct keeper_request *rq)
{
	const char *name = rq->op == OP_checkpoint ? request_name(rq->json, "") : "";

	return json_pack("{s:s*,s:s*,s:s*,s:b}", "name", name[0] ? name : NULL, "command",
			 k->checkpoint.last[0] ? k->checkpoint.last : NULL, "owner", checkpoint_owner(rq),
			 "before_command", rq->op != OP_checkpoint);
}

static int begin_checkpoint(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	autoclose int box = registry_keep_dir(k->registry, k->claim.id, e);
	autojson json_t *members = checkpoint_members(k, rq);
	struct snapshot s = {
		.box_fd = box,
		.layer_fd = k->sandbox.base_fd,
		.lock_fd = k->claim.dir_fd,
		.cgroup_fd = k->sandbox.cgroup.v2_fd,
		.name = rq->op == OP_checkpoint ? request_name(rq->json, "") : "",
		.members = members,
		.bounds = checkpoint_bounds(k->registry->config, rq->op == OP_checkpoint ?
					    (unsigned)request_keep(rq->json, 0) : 0),
	};
	const char *id = k->claim.id;
	autoclose int turn = -1;
	int ours;

	if (box < 0)
		return -1;
	if (!members)
		return err_nomem(e);
	if (s.bounds.keep_from_now_on > CHECKPOINT_KEEP_MAX)
		return err_set(e, ERR_LIMIT, "a sandbox keeps at most %u checkpoints",
			       CHECKPOINT_KEEP_MAX);
	if (checkpoint_owner(rq) && procid_has_ended(checkpoint_owner(rq)))
		return err_set(e, ERR_INVALID,
			       "the process that the checkpoint is for has ended");
	if (path_has(box, WRITABLE_DIR))
		return err_set(
			e, ERR_UNSUPPORTED,
			"the writable layer of sandbox %s is a directory, "
			"which has no checkpoints while it runs; hint: berth stop %s, then berth "
			"checkpoint %s, which makes it a file, then berth start %s",
			id, id, id, id);
	ours = copyturn_ask(k->registry, id, &turn, &s.turn_at, e);
	s.turn_fd = turn;
	s.waits = !ours;
	if (ours < 0 || snapshot_start(&s, &k->checkpoint.pid, &k->checkpoint.sock, e) < 0)
		return -1;
	if (ours && !checkpoint_owner(rq))
		session_states_ask(k);
	return 0;
}

/* Tells whether the layer is that of a checkpoint already: nothing has run since an undo. */
static int is_restored(const struct keeper *k)
{
	struct err ignored;
	autoclose int box =
		k->checkpoint.touched ? -1 : registry_keep_dir(k->registry, k->claim.id, &ignored);
	char id[CHECKPOINT_ID];

	return box >= 0 && checkpoint_restored(box, id);
}

static void serve_checkpoint_job(struct keeper *k, struct checkpoint_job *j)
{
	struct err e = { 0 };

	if (j->rq.client >= 0 && keeper_serve_again(k, &j->rq, &e) < 0)
		keeper_answer_error(k, j->rq.client, &e);
	release_checkpoint_job(j);
}

static void refuse_checkpoint_job(struct keeper *k, struct checkpoint_job *j, struct err *e)
{
	if (j->rq.op != OP_checkpoint)
		err_wrap(e, "the checkpoint before the command, which was not run");
	keeper_answer_error(k, j->rq.client, e);
	release_checkpoint_job(j);
}

/* Starts jobs until one is under way, or none is left. */
static void next_checkpoint_job(struct keeper *k)
{
	struct err e = { 0 };

	while (k->checkpoint.jobs && !k->checkpoint.pid && !k->checkpoint.made) {
		struct checkpoint_job *j = k->checkpoint.jobs;

		if (j->rq.client < 0)
			release_checkpoint_job(take_first(k));
		else if (j->rq.op != OP_checkpoint && is_restored(k))
			serve_checkpoint_job(k, take_first(k));
		else if (begin_checkpoint(k, &j->rq, &e) < 0)
			refuse_checkpoint_job(k, take_first(k), &e);
	}
}

int keeper_op_checkpoint(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	if (k->stop_at_ms || k->drain_until_ms)
		return err_set(e, ERR_BUSY, "sandbox %s is stopping", k->claim.id);
	if (add_checkpoint_job(k, rq, e) < 0)
		return -1;
	next_checkpoint_job(k);
	return 0;
}

int keeper_checkpoint_before(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	if (!request_checkpoint(rq->json) &&
	    strcmp(k->registry->config->checkpoint, "command") != 0)
		return 0;
	if (add_checkpoint_job(k, rq, e) < 0)
		return -1;
	next_checkpoint_job(k);
	return 1;
}

/* ---- its end ------------------------------------------------------------------- */

/* Handles the end of its process, at whatever point. */
static void reap_snapshot(struct keeper *k)
{
	struct err ignored;

	fd_close(&k->checkpoint.sock);
	kill(k->checkpoint.pid, SIGKILL);
	while (waitpid(k->checkpoint.pid, NULL, 0) < 0 && errno == EINTR)
		;
	k->checkpoint.pid = 0;
	if (k->checkpoint.stands)
		fsfreeze_thaw(k->sandbox.base_fd, &ignored);
	thaw_after_checkpoint(k);
}

static void checkpoint_done(struct keeper *k, const struct snapshot_note *n)
{
	struct checkpoint_job *j = take_first(k);
	json_t *members = checkpoint_members(k, &j->rq);

	if (!checkpoint_owner(&j->rq))
		session_states_write(k, n->id);
	/* the checkpoint of a fork or a diff is removed with it: users need not know whose process that is */
	if (json_object_del(members, "owner") == 0)
		json_object_set_new(members, "temporary", json_true());
	json_object_set_new(members, "checkpoint", json_string(n->id));
	if (n->parent[0])
		json_object_set_new(members, "parent", json_string(n->parent));
	json_object_set_new(members, "bytes", json_integer((json_int_t)n->bytes));
	json_object_set_new(members, "shared", json_boolean(n->shared));
	json_object_set_new(members, "flush_us", json_integer((json_int_t)n->flush_us));
	json_object_set_new(members, "frozen_us", json_integer((json_int_t)n->frozen_us));
	keeper_event(k, "checkpoint", json_deep_copy(members));
	keeper_busy(k);
	if (j->rq.op == OP_checkpoint) {
		keeper_answer(k, j->rq.client, json_incref(members), NULL, 0);
		release_checkpoint_job(j);
	} else {
		serve_checkpoint_job(k, j);
	}
	json_decref(members);
	next_checkpoint_job(k);
}

static uint64_t checkpoint_next(struct keeper *k)
{
	return k->checkpoint.made ? session_states_next(k) : 0;
}

static void checkpoint_check(struct keeper *k, uint64_t now)
{
	autofree struct snapshot_note *n = NULL;

	session_states_check(k, now);
	if (!k->checkpoint.made || session_states_next(k))
		return;
	n = k->checkpoint.made;
	k->checkpoint.made = NULL;
	checkpoint_done(k, n);
}

static void checkpoint_failed(struct keeper *k, struct err *e)
{
	if (k->checkpoint.jobs)
		refuse_checkpoint_job(k, take_first(k), e);
	next_checkpoint_job(k);
}

void keeper_checkpoint_note(struct keeper *k)
{
	struct snapshot_note n = { .kind = SNAPSHOT_FAILED };
	ssize_t got = recv(k->checkpoint.sock, &n, sizeof(n), MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got != (ssize_t)sizeof(n)) {
		n.kind = SNAPSHOT_FAILED;
		err_set(&n.err, ERR_INTERNAL, "the process that made the checkpoint was killed");
	}
	if (n.kind == SNAPSHOT_TURN) {
		if (!checkpoint_owner(&k->checkpoint.jobs->rq))
			session_states_ask(k);
		return;
	}
	if (n.kind == SNAPSHOT_READY) {
		if (stand(k, &n.err) == 0 && send(k->checkpoint.sock, "", 1, MSG_NOSIGNAL) == 1)
			return;
		n.kind = SNAPSHOT_FAILED;
		if (n.err.code == ERR_NONE)
			err_sys(&n.err, "go on with a checkpoint");
	}
	if (n.kind == SNAPSHOT_COPIED) {
		thaw_after_checkpoint(k);
		return;
	}
	reap_snapshot(k);
	if (n.kind != SNAPSHOT_DONE)
		checkpoint_failed(k, &n.err);
	else if (session_states_next(k) && (k->checkpoint.made = malloc(sizeof(n))))
		*k->checkpoint.made = n;
	else
		checkpoint_done(k, &n);
}

void keeper_checkpoint_client_gone(struct keeper *k, int client)
{
	struct checkpoint_job *j;

	for (j = k->checkpoint.jobs; j; j = j->next)
		if (j->rq.client == client)
			j->rq.client = -1;
}

void keeper_checkpoint_end(struct keeper *k)
{
	struct err e;

	if (k->checkpoint.pid)
		reap_snapshot(k);
	free(k->checkpoint.made);
	k->checkpoint.made = NULL;
	err_set(&e, ERR_BUSY, "sandbox %s was stopped meanwhile", k->claim.id);
	while (k->checkpoint.jobs)
		refuse_checkpoint_job(k, take_first(k), &e);
}

const struct keeper_part keeper_part_checkpoint = { .next = checkpoint_next, .check = checkpoint_check };
