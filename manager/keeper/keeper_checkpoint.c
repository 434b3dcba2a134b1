/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: those that a client asks for, and those before a command.
 *
 * Each is a job.  The first one's is made by a process of its own (snapshot.h), while the keeper
 * serves its clients; everything in the sandbox stands still between two words of that process.
 * A job before a command keeps the client's request, which is served when the checkpoint is there,
 * and refused when it cannot be made.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/copyturn.h"
#include "manager/host/procid.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/snapshot.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/sandbox/writable.h"

struct checkpoint_job {
	struct checkpoint_job *next;
	struct keeper_request rq; /* with a reference and descriptors of its own; client -1: gone */
	int fds[WIRE_FDS_MAX];
};

void keeper_checkpoint_ran(struct keeper *k, const char *text, size_t n)
{
	char *last = k->checkpoint.last;
	const size_t max = sizeof(k->checkpoint.last) - 1;
	autoclose int dir = -1;
	struct err ignored;
	size_t i, len;

	/* up to what is no text, or no line of its own */
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

static void release(struct checkpoint_job *j)
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

static int add(struct keeper *k, const struct keeper_request *rq, struct err *e)
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
			release(j);
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

static void go_on(struct keeper *k)
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
static const char *owner_of(const struct keeper_request *rq)
{
	const char *owner = rq->op == OP_checkpoint ? request_owner(rq->json, "") : "";

	return owner[0] ? owner : NULL;
}

static json_t *members_of(const struct keeper *k, const struct keeper_request *rq)
{
	const char *name = rq->op == OP_checkpoint ? request_name(rq->json, "") : "";

	return json_pack("{s:s*,s:s*,s:s*,s:b}", "name", name[0] ? name : NULL, "command",
			 k->checkpoint.last[0] ? k->checkpoint.last : NULL, "owner", owner_of(rq),
			 "before_command", rq->op != OP_checkpoint);
}

static int begin(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	autoclose int box = registry_keep_dir(k->registry, k->claim.id, e);
	autojson json_t *members = members_of(k, rq);
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
	if (owner_of(rq) && procid_has_ended(owner_of(rq)))
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
	if (ours && !owner_of(rq))
		session_states_ask(k);
	return 0;
}

/* Whether the layer is that of a checkpoint already: nothing has run since an undo. */
static int is_restored(const struct keeper *k)
{
	struct err ignored;
	autoclose int box =
		k->checkpoint.touched ? -1 : registry_keep_dir(k->registry, k->claim.id, &ignored);
	char id[CHECKPOINT_ID];

	return box >= 0 && checkpoint_restored(box, id);
}

static void serve(struct keeper *k, struct checkpoint_job *j)
{
	struct err e = { 0 };

	if (j->rq.client >= 0 && keeper_serve_again(k, &j->rq, &e) < 0)
		keeper_answer_error(k, j->rq.client, &e);
	release(j);
}

static void refuse(struct keeper *k, struct checkpoint_job *j, struct err *e)
{
	if (j->rq.op != OP_checkpoint)
		err_wrap(e, "the checkpoint before the command, which was not run");
	keeper_answer_error(k, j->rq.client, e);
	release(j);
}

/* Until one is under way, or no job is left. */
static void next(struct keeper *k)
{
	struct err e = { 0 };

	while (k->checkpoint.jobs && !k->checkpoint.pid && !k->checkpoint.made) {
		struct checkpoint_job *j = k->checkpoint.jobs;

		if (j->rq.client < 0)
			release(take_first(k));
		else if (j->rq.op != OP_checkpoint && is_restored(k))
			serve(k, take_first(k));
		else if (begin(k, &j->rq, &e) < 0)
			refuse(k, take_first(k), &e);
	}
}

int keeper_op_checkpoint(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	if (k->stop_at_ms || k->drain_until_ms)
		return err_set(e, ERR_BUSY, "sandbox %s is stopping", k->claim.id);
	if (add(k, rq, e) < 0)
		return -1;
	next(k);
	return 0;
}

int keeper_checkpoint_before(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	if (!request_checkpoint(rq->json) &&
	    strcmp(k->registry->config->checkpoint, "command") != 0)
		return 0;
	if (add(k, rq, e) < 0)
		return -1;
	next(k);
	return 1;
}

/* ---- its end ------------------------------------------------------------------- */

/* Its process is gone, at whatever point. */
static void reap(struct keeper *k)
{
	struct err ignored;

	fd_close(&k->checkpoint.sock);
	kill(k->checkpoint.pid, SIGKILL);
	while (waitpid(k->checkpoint.pid, NULL, 0) < 0 && errno == EINTR)
		;
	k->checkpoint.pid = 0;
	if (k->checkpoint.stands)
		fsfreeze_thaw(k->sandbox.base_fd, &ignored);
	go_on(k);
}

static void done(struct keeper *k, const struct snapshot_note *n)
{
	struct checkpoint_job *j = take_first(k);
	json_t *members = members_of(k, &j->rq);

	if (!owner_of(&j->rq))
		session_states_write(k, n->id);
	/* of a fork or a diff, and gone with it: whose process that is, is no user's business */
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
		release(j);
	} else {
		serve(k, j);
	}
	json_decref(members);
	next(k);
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
	done(k, n);
}

static void failed(struct keeper *k, struct err *e)
{
	if (k->checkpoint.jobs)
		refuse(k, take_first(k), e);
	next(k);
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
		if (!owner_of(&k->checkpoint.jobs->rq))
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
		go_on(k);
		return;
	}
	reap(k);
	if (n.kind != SNAPSHOT_DONE)
		failed(k, &n.err);
	else if (session_states_next(k) && (k->checkpoint.made = malloc(sizeof(n))))
		*k->checkpoint.made = n;
	else
		done(k, &n);
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
		reap(k);
	free(k->checkpoint.made);
	k->checkpoint.made = NULL;
	err_set(&e, ERR_BUSY, "sandbox %s was stopped meanwhile", k->claim.id);
	while (k->checkpoint.jobs)
		refuse(k, take_first(k), &e);
}

const struct keeper_part keeper_part_checkpoint = { .next = checkpoint_next, .check = checkpoint_check };
