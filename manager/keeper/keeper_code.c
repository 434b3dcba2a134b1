/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter of a sandbox that was made of a zygote.  Upholds S48 of SECURITY.md.
 *
 * It is a fork of the zygote (graft.h) in a cgroup of its own, and waits at a control socket for
 * code. One request runs at a time, in the state that the earlier ones left; others wait for their
 * turn. When the interpreter ends, the next request begins a new fork, and its answer says so.
 *
 * The code that runs in it is hostile. We write to the control socket and read nothing from it. A
 * request brings a pipe of its own, from which we read one byte, its exit status: code of an
 * earlier request, which may still run, can give a false status for its own sandbox, but do no
 * more. A pipe that closes without that byte ends the interpreter.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_state.h"
#include "manager/zygote/client.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/sandbox/writable.h"

#define LEAF "code"
#define REQUEST_FDS 4 /* stdin, stdout, stderr, and the file with the code */

struct code_wait {
	struct code_wait *next;
	int client;
	int fds[REQUEST_FDS];
	uint64_t timeout_ms, since_ms;
};

static void code_wait_free(struct code_wait *w)
{
	size_t i;

	for (i = 0; i < REQUEST_FDS; i++)
		fd_close(&w->fds[i]);
	free(w);
}

/* ---- the interpreter ------------------------------------------------------------------ */

/* Drops the interpreter; its processes die with it. */
static void drop_interpreter(struct keeper *k)
{
	struct keeper_code *c = &k->code;
	struct err ignored;

	fd_close(&c->control_fd);
	fd_close(&c->pid_fd);
	fd_close(&c->status_fd);
	if (c->leaf.ops) {
		cgroup_kill(&c->leaf, &ignored);
		if (cgroup_destroy(&c->leaf, &ignored) < 0) {
			/* its name remains below the sandbox's cgroup, and is removed with that */
		}
		cgroup_release(&c->leaf);
	}
	c->leaf = (struct cgroup){0};
	c->phase = CODE_NONE;
}

/* Makes a new fork; init has not adopted it yet. */
static int make_code_fork(struct keeper *k, pid_t *ret_inner, struct err *e)
{
	struct keeper_code *c = &k->code;
	autoclose int far = -1;
	struct graft fork;
	int sv[2];

	if (cgroup_create_leaf(&c->leaf, &k->sandbox.cgroup, LEAF, NULL, k->spec->id_base, e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, "make a socket pair");
	c->control_fd = sv[0];
	far = sv[1];
	if (zygote_home_fork(c->home_fd, k->sandbox.pid, &k->sandbox.cgroup, &c->leaf, far, &fork,
			     e) < 0)
		return -1;
	c->pid_fd = (int)syscall(SYS_pidfd_open, fork.pid, 0);
	if (c->pid_fd < 0)
		return err_sys(e, "open the fork");
	*ret_inner = fork.inner;
	return 0;
}

int keeper_code_begin(struct keeper *k, int home_fd, struct err *e)
{
	struct keeper_code *c = &k->code;
	pid_t inner;

	c->home_fd = home_fd;
	if (home_fd < 0 || k->for_files)
		return 0;
	if (make_code_fork(k, &inner, e) < 0 ||
	    sandbox_adopt(&k->sandbox, KEEPER_CODE, inner, 0, e) < 0) {
		drop_interpreter(k);
		return -1;
	}
	c->phase = CODE_WAITS;
	return 0;
}

/* Init answers when it can: keeper_code_reply(). */
static int begin_interpreter(struct keeper *k, struct err *e)
{
	pid_t inner;

	if (make_code_fork(k, &inner, e) < 0 ||
	    sandbox_adopt_begin(&k->sandbox, KEEPER_CODE, inner, 0, e) < 0) {
		drop_interpreter(k);
		return -1;
	}
	k->code.phase = CODE_STARTS;
	k->code.fresh = 1;
	return 0;
}

static void signal_interpreter(const struct keeper *k, int signo)
{
	if (k->code.pid_fd >= 0)
		syscall(SYS_pidfd_send_signal, k->code.pid_fd, signo, NULL, 0);
}

/* ---- a request ------------------------------------------------------------------------- */

static void run_next_code(struct keeper *k);

static void take_usage(struct keeper *k)
{
	const struct cgroup_usage *before = &k->code.before;
	struct cgroup_usage *u = &k->code.facts.usage;
	struct err ignored;

	if (cgroup_usage(&k->code.leaf, u, &ignored) < 0)
		return;
	u->cpu_us -= before->cpu_us < u->cpu_us ? before->cpu_us : u->cpu_us;
	u->read_bytes -= before->read_bytes < u->read_bytes ? before->read_bytes : u->read_bytes;
	u->write_bytes -= before->write_bytes < u->write_bytes ? before->write_bytes :
								 u->write_bytes;
	u->oom_kills -= before->oom_kills;
	u->pids_events -= before->pids_events;
}

/*
 * Code that keeps the file of each request would keep memory that the client was charged for, and
 * no limit of the sandbox bounds.
 */
static void empty_text(struct keeper_code *c)
{
	struct stat st;

	/* emptied only if it is a memory file without a name, as the client's; we must not empty any other */
	if (c->text_fd >= 0 && fstat(c->text_fd, &st) == 0 && st.st_nlink == 0)
		(void)!ftruncate(c->text_fd, 0);
	fd_close(&c->text_fd);
}

/* The request that runs has ended, as facts say. */
static void finish_code(struct keeper *k)
{
	struct keeper_code *c = &k->code;
	struct verdict v;

	take_usage(k);
	c->facts.wall_ms = clock_ms() - c->started_ms;
	keeper_disk(k, &c->facts);
	keeper_network_end(k, &c->facts);
	c->facts.loosened = k->spec->loosened;
	verdict_decide(&c->facts, &v);
	keeper_answer_verdict(k, c->client,
			      json_pack("{s:b,s:b,s:I}", "ended", 1, "fresh", c->fresh, "queued_ms",
					(json_int_t)c->queued_ms),
			      &v, NULL, 0);
	keeper_event_end(k, "code-exit", &v, json_object());
	keeper_busy(k);
	fd_close(&c->status_fd);
	empty_text(c);
	c->client = -1;
	c->fresh = 0;
	c->deadline_ms = c->kill_at_ms = 0;
	c->phase = CODE_WAITS;
}

/* Hands the code over: 0; -1: the interpreter cannot take it. */
static int hand_over_code(struct keeper *k, const struct code_wait *w)
{
	int fds[REQUEST_FDS + 1], p[2], sent;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	memcpy(fds, w->fds, sizeof(w->fds));
	fds[REQUEST_FDS] = p[1];
	/* it reads one request after the other, so there is room unless it is hostile */
	fcntl(k->code.control_fd, F_SETFL, O_NONBLOCK);
	sent = fdpass_send(k->code.control_fd, "L", 1, fds, REQUEST_FDS + 1);
	close(p[1]);
	k->code.status_fd = p[0];
	return sent;
}

static void run_code(struct keeper *k, struct code_wait *w)
{
	struct keeper_code *c = &k->code;
	struct err ignored;

	c->phase = CODE_RUNS;
	c->client = w->client;
	c->facts = (struct verdict_facts){0};
	c->before = (struct cgroup_usage){0};
	cgroup_usage(&c->leaf, &c->before, &ignored);
	keeper_network_begin(k, &c->facts);
	c->started_ms = clock_ms();
	c->queued_ms = c->started_ms - w->since_ms;
	c->deadline_ms = w->timeout_ms ? c->started_ms + w->timeout_ms : 0;
	c->kill_at_ms = 0;
	keeper_event(k, "code", NULL);
	if (hand_over_code(k, w) < 0)
		cgroup_kill(&c->leaf, &ignored); /* its end is the end of the request */
	c->text_fd = take_fd(&w->fds[REQUEST_FDS - 1]);
	code_wait_free(w);
}

static void fail_all(struct keeper *k, const struct err *why)
{
	struct code_wait *w;

	while ((w = k->code.queue)) {
		k->code.queue = w->next;
		keeper_answer_error(k, w->client, why);
		code_wait_free(w);
	}
}

/* Runs the first in the queue, in a new fork if needed. */
static void run_next_code(struct keeper *k)
{
	struct keeper_code *c = &k->code;
	struct code_wait *w = c->queue;
	struct err e = {0};

	if (!w)
		return;
	if (c->phase == CODE_WAITS) {
		c->queue = w->next;
		run_code(k, w);
	} else if (c->phase == CODE_NONE && begin_interpreter(k, &e) < 0) {
		fail_all(k, &e);
	}
}

int keeper_op_code(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct code_wait *w, **at = &k->code.queue;
	size_t i;

	if (k->code.home_fd < 0)
		return err_set(e, ERR_INVALID,
			       "sandbox %s has no interpreter that waits; hint: berth create "
			       "--zygote makes one that has",
			       k->claim.id);
	if (rq->count != REQUEST_FDS)
		return err_set(e, ERR_INVALID, "code takes %d descriptors, not %zu", REQUEST_FDS,
			       rq->count);
	if (k->spec->max_silent_ms)
		return err_set(e, ERR_UNSUPPORTED,
			       "the interpreter that waits cannot be held to --max-silent-time, "
			       "which its zygote has; hint: --new runs the code in another");
	if (sandbox_check_std(rq->fds, e) < 0)
		return -1;
	/* one client, one request */
	if (k->code.phase == CODE_RUNS && k->code.client == rq->client)
		return err_set(e, ERR_BUSY, "this client's code runs already");
	for (; *at; at = &(*at)->next)
		if ((*at)->client == rq->client)
			return err_set(e, ERR_BUSY, "this client's code waits already");
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_nomem(e);
	w->client = rq->client;
	w->since_ms = clock_ms();
	w->timeout_ms = request_timeout_ms(rq->json, keeper_timeout(k, 1));
	for (i = 0; i < REQUEST_FDS; i++)
		w->fds[i] = fcntl(rq->fds[i], F_DUPFD_CLOEXEC, 3);
	*at = w;
	keeper_busy(k);
	if (k->code.phase != CODE_RUNS && k->code.phase != CODE_STARTS)
		run_next_code(k);
	return 0;
}

/* ---- how it goes on --------------------------------------------------------------------- */

static void interpreter_ended(struct keeper *k, const struct init_reply *r)
{
	struct keeper_code *c = &k->code;

	if (c->phase == CODE_RUNS) {
		c->facts.ended = 1;
		c->facts.exited = (int)r->exited;
		c->facts.value = r->value;
		finish_code(k);
	}
	drop_interpreter(k);
	run_next_code(k);
}

void keeper_code_reply(struct keeper *k, const struct init_reply *r)
{
	if (r->type == INIT_STARTED && k->code.phase == CODE_STARTS) {
		k->code.phase = CODE_WAITS;
		run_next_code(k);
	} else if (r->type == INIT_EXEC_FAILED) {
		fail_all(k, &r->err);
		drop_interpreter(k);
	} else if (r->type == INIT_EXITED && k->code.phase != CODE_NONE) {
		interpreter_ended(k, r);
	}
}

void keeper_code_status(struct keeper *k)
{
	struct keeper_code *c = &k->code;
	unsigned char status;
	struct err ignored;
	ssize_t n = c->status_fd < 0 ? 0 : read(c->status_fd, &status, 1);

	if (c->status_fd < 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	fd_close(&c->status_fd);
	if (n != 1) {
		cgroup_kill(&c->leaf, &ignored); /* init tells its end */
		return;
	}
	c->facts.ended = c->facts.exited = 1;
	c->facts.value = status;
	finish_code(k);
	run_next_code(k);
}

/* A Python that heeds SIGINT keeps its state. */
static void interrupt_code(struct keeper *k, uint64_t now)
{
	k->code.kill_at_ms = now + k->spec->grace_ms + !k->spec->grace_ms;
	signal_interpreter(k, SIGINT);
}

static uint64_t code_next(struct keeper *k)
{
	return clock_earlier(k->code.kill_at_ms, k->code.deadline_ms);
}

static void code_check(struct keeper *k, uint64_t now)
{
	struct keeper_code *c = &k->code;
	struct err ignored;

	if (c->phase != CODE_RUNS)
		return;
	if (c->deadline_ms && now >= c->deadline_ms) {
		c->deadline_ms = 0;
		c->facts.timed_out = 1;
		interrupt_code(k, now);
	}
	if (c->kill_at_ms && now >= c->kill_at_ms) {
		c->kill_at_ms = 0;
		cgroup_kill(&c->leaf, &ignored);
	}
}

void keeper_code_check_oom(struct keeper *k)
{
	struct keeper_code *c = &k->code;
	struct cgroup_usage u;
	struct err ignored;

	if (!c->leaf.ops || c->facts.killed_for_oom || cgroup_usage(&c->leaf, &u, &ignored) < 0 ||
	    u.oom_kills <= c->before.oom_kills)
		return;
	c->facts.killed_for_oom = c->phase == CODE_RUNS;
	cgroup_kill(&c->leaf, &ignored);
}

/* Drops the client's requests: its code ends with it, or never begins. */
void keeper_code_client_gone(struct keeper *k, int client)
{
	struct code_wait **at = &k->code.queue, *w;

	while ((w = *at)) {
		if (w->client == client) {
			*at = w->next;
			code_wait_free(w);
		} else {
			at = &w->next;
		}
	}
	if (k->code.phase != CODE_RUNS || k->code.client != client)
		return;
	k->code.client = -1;
	k->code.facts.killed_by_us = 1;
	interrupt_code(k, clock_ms());
}

void keeper_code_ask_to_end(struct keeper *k)
{
	if (k->code.phase == CODE_RUNS)
		signal_interpreter(k, SIGTERM);
	else
		fd_close(&k->code.control_fd);
}

void keeper_code_end(struct keeper *k, int killed_by_us)
{
	struct keeper_code *c = &k->code;
	struct err gone;

	if (c->phase == CODE_RUNS) {
		cgroup_kill(&c->leaf, &gone);
		cgroup_wait_empty(&c->leaf, KEEPER_DYING_MS, &gone);
		c->facts.killed_by_us |= killed_by_us;
		finish_code(k);
	}
	err_set(&gone, ERR_NOT_FOUND, "the sandbox has ended");
	fail_all(k, &gone);
	drop_interpreter(k);
}

static void code_describe(struct keeper *k, json_t *answer)
{
	static const char *const phases[] = {
		[CODE_NONE] = "ended", [CODE_STARTS] = "starts", [CODE_WAITS] = "waits",
		[CODE_RUNS] = "runs"};

	if (k->code.home_fd >= 0)
		json_object_set_new(answer, "interpreter", json_string(phases[k->code.phase]));
}

const struct keeper_part keeper_part_code = { .next = code_next, .check = code_check, .describe = code_describe };
