/* SPDX-License-Identifier: Apache-2.0 */
/* One fork of a zygote: its sandbox, its client and its verdict.  Upholds S7 and S48 of
 * SECURITY.md. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/zygote/zygote.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/ops/settleopt.h"
#include "manager/zygote/client.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/kernel/silence.h"
#include "runtime/sandbox/attest.h"
#include "runtime/sandbox/supervise.h"

#define REQUEST_MS 1000 /* for a client that has connected to send its request */

/* What a branch is, in its own process; the zygote's state is a copy there. */
struct work {
	struct zygote *z;
	size_t slot;
	int supervisor; /* our end of its socket */
	struct registry registry;
	struct claim claim;
	struct volumes volumes;
	struct spec spec;
	struct spec_inside inside;
	struct sandbox sandbox;
	char scratch[4096 + 80];
	int disk_fd;
	int control_fd; /* to the fork */
	int client_fd;
	int killed;
};

static void save_fork_record(struct work *w)
{
	char created[CLOCK_UTC];
	struct err ignored;
	autojson json_t *record = NULL;

	clock_utc(clock_now(CLOCK_REALTIME).tv_sec, created);
	record = record_new(w->spec.id, "", w->z->image_ref, RECORD_RUNNING, created);
	if (!record)
		return;
	record_set_supervisor_pid(record, (uint64_t)getpid());
	record_set_init_pid(record, (uint64_t)w->sandbox.pid);
	record_set_command(record, w->z->mode == ZYGOTE_AHEAD ? json_incref(w->z->command) :
								json_pack("[s]", "fork"));
	record_set_labels(record, json_pack("{s:s}", ZYGOTE_LABEL, w->z->claim.id));
	record_save_run(&w->claim, record, &ignored);
}

static int make_fork_sandbox(struct work *w, struct err *e)
{
	struct zygote *z = w->z;
	struct launch_place where = {w->scratch, -1, 0, -1, w->scratch, 0};
	struct spec *s = &w->spec;

	if (registry_open(&w->registry, &z->config, e) < 0 ||
	    registry_claim_within(&w->registry, &z->inner[w->slot], &w->claim, e) < 0)
		return -1;
	*s = z->opts.spec;
	snprintf(s->id, sizeof(s->id), "%s", w->claim.id);
	s->id_base = w->claim.id_base;
	s->inside = &w->inside;
	snprintf(w->scratch, sizeof(w->scratch), "%s/sandboxes/%s", z->config.run_dir, s->id);
	s->net_dir = w->scratch;
	s->name = NULL;
	if (spec_wants_disk(s))
		w->disk_fd = fcntl(w->registry.state_fd, F_DUPFD_CLOEXEC, 3);
	where.disk_dirfd = w->disk_fd;
	where.models_fd = w->registry.state_fd;
	where.disk_reserve = z->config.disk_reserve_bytes;
	sandbox_init(&w->sandbox, s);
	/* what the zygote was made with, whatever is at its paths now (S51) */
	if (sources_open(z->noted, s, e) < 0 || volumes_open(&w->volumes, &w->registry, s, z->promise.tenant, w->scratch, e) < 0 ||
	    sandbox_launch(&w->sandbox, &where, e) < 0 || attest_ready(&w->sandbox, e) < 0)
		return -1;
	spec_close_sources(s);
	save_fork_record(w);
	return 0;
}

/* The supervisor traces the zygote, so it makes the fork. */
static int take_fork(struct work *w, struct err *e)
{
	struct graft fork;
	autoclose int far = -1;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, "make a socket pair");
	w->control_fd = sv[0];
	far = sv[1];
	if (zygote_home_fork(w->supervisor, w->sandbox.pid, &w->sandbox.cgroup, NULL, far, &fork,
			     e) < 0)
		return -1;
	w->sandbox.leader_fd = (int)syscall(SYS_pidfd_open, fork.pid, 0);
	if (w->sandbox.leader_fd < 0)
		return err_sys(e, "open the fork");
	return sandbox_adopt(&w->sandbox, 1, fork.inner, INIT_LAST, e);
}

static int take_interpreter(struct work *w, struct err *e)
{
	if (w->z->mode == ZYGOTE_FORK)
		return take_fork(w, e);
	return ahead_start(w->z, &w->sandbox, w->supervisor, &w->control_fd, e);
}

/* ---- the client -------------------------------------------------------------------------- */

static void answer_fork_client(int client, enum zygote_answer_type type, int status, const struct err *why,
			       const struct buf *text)
{
	struct zygote_answer a = {.type = type, .status = status};

	if (why)
		a.err = *why;
	/* a client that has gone needs no answer */
	(void)!fdpass_send2(client, &a, sizeof(a), text ? text->data : "", text ? text->len : 0,
			    NULL, 0);
}

/* A client that gave up while it waited: the fork is for the next one. */
static int has_gone(int client_fd)
{
	struct pollfd p = {.fd = client_fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLRDHUP);
}

/* Until a client comes: 1; 0: the zygote or the fork has ended. */
static int await_client(struct work *w, struct err *e)
{
	autoclose int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev[3] =
		{
			/* one branch wakes for one client */
			{.events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = w->z->listen_fd},
			{.events = EPOLLIN, .data.fd = w->supervisor},
			{.events = EPOLLIN, .data.fd = w->sandbox.sock},
		},
			   got;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ev); i++)
		if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, ev[i].data.fd, &ev[i]) < 0)
			return err_sys(e, "wait for a client");
	for (;;) {
		int n = epoll_wait(ep, &got, 1, -1);

		if (n < 0 && errno != EINTR)
			return err_sys(e, "wait for a client");
		if (n <= 0)
			continue;
		if (got.data.fd != w->z->listen_fd)
			return 0;
		w->client_fd = accept4(w->z->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (w->client_fd >= 0 && !has_gone(w->client_fd))
			return 1;
		fd_close(&w->client_fd);
	}
}

/* Where the spec limits its silence, a process between reads its stdout and stderr. */
static int hand_request_to_fork(struct work *w, const int fds[4], struct err *e)
{
	int given[4] = {fds[0], fds[1], fds[2], fds[3]}, r;
	const int between = w->spec.max_silent_ms > 0;

	if (between && silence_open(&w->sandbox.silence, fds + 1, given + 1, e) < 0)
		return -1;
	r = fdpass_send(w->control_fd, "", 1, given, ARRAY_LEN(given));
	if (r < 0)
		err_sys(e, "hand the request to the fork");
	if (between) {
		close(given[1]);
		close(given[2]);
	}
	return r;
}

static int take_fork_request(struct work *w, struct err *e)
{
	struct zygote_ask ask;
	int fds[4], r = -1;
	size_t n = 0, i;

	if (fdpass_recv(w->client_fd, &ask, sizeof(ask), fds, ARRAY_LEN(fds), &n) !=
		    (ssize_t)sizeof(ask) ||
	    n != ARRAY_LEN(fds))
		err_set(e, ERR_INVALID, "a request without its descriptors");
	else if (sandbox_check_std(fds, e) == 0)
		r = hand_request_to_fork(w, fds, e);
	for (i = 0; i < n; i++)
		close(fds[i]);
	if (r == 0 && ask.timeout_ms != UINT64_MAX)
		w->spec.timeout_ms = ask.timeout_ms;
	return r;
}

/* A signal for the fork, or the client's end, which is the fork's too. */
static void serve_fork_client(void *ctx)
{
	struct work *w = ctx;
	struct zygote_signal s;
	struct err ignored;

	if (recv(w->client_fd, &s, sizeof(s), MSG_DONTWAIT) == (ssize_t)sizeof(s) &&
	    s.signo < (uint32_t)_NSIG) {
		sandbox_signal(&w->sandbox, 1, (int)s.signo, &ignored);
		return;
	}
	if (!w->killed)
		sandbox_kill(&w->sandbox, &ignored);
	w->killed = 1;
	shutdown(w->client_fd, SHUT_RD);
}

static int was_fork_killed(void *ctx)
{
	const struct work *w = ctx;
	struct pollfd p = {.fd = w->supervisor, .events = POLLIN};

	/* the supervisor says nothing more: it has ended, and with it the zygote */
	return w->killed || poll(&p, 1, 0) > 0 || path_has(w->claim.dir_fd, KEEPER_KILLED_FILE);
}

static void settle_fork_record(void *ctx)
{
	struct work *w = ctx;

	save_fork_record(w);
}

static int serve_fork(struct work *w, struct err *e)
{
	struct home_ask taken = {.word = HOME_TAKEN};
	struct supervise how = {
		.signal_fd = supervise_signals(e),
		.in = -1,
		.out = -1,
		.idle = settle_fork_record,
		.idle_ctx = w,
		.client_fd = w->client_fd,
		.client = serve_fork_client,
		.client_ctx = w,
		.was_killed = was_fork_killed,
		.was_killed_ctx = w,
	};
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct verdict v = {0};
	int r;

	if (how.signal_fd < 0)
		return -1;
	/* first: what the client waits for */
	r = take_fork_request(w, e);
	answer_fork_client(w->client_fd, ZYGOTE_TAKEN, 0, NULL, NULL);
	(void)!fdpass_send(w->supervisor, &taken, sizeof(taken), NULL, 0);
	if (r == 0)
		r = supervise_run(&w->sandbox, 1, &how, &v, e);
	close(how.signal_fd);
	if (r == 0)
		r = verdict_json(&v, &text, e);
	if (r == 0)
		answer_fork_client(w->client_fd, ZYGOTE_VERDICT, verdict_exit_status(&v), NULL, &text);
	return r;
}

/* The kernel drops the answer of a socket that is closed before its request was read (unix(7)). */
static void drop_request(int client_fd)
{
	struct pollfd p = {.fd = client_fd, .events = POLLIN};
	struct zygote_ask ask;
	size_t n = 0, i;
	int fds[4];

	if (client_fd >= 0 && poll(&p, 1, REQUEST_MS) == 1)
		(void)!fdpass_recv(client_fd, &ask, sizeof(ask), fds, ARRAY_LEN(fds), &n);
	for (i = 0; i < n; i++)
		close(fds[i]);
}

/* Whether other forks were in use when this branch was started: their end makes room. */
static int has_busy_sisters(const struct work *w)
{
	size_t i;

	for (i = 0; i < w->z->max; i++)
		if (i != w->slot && w->z->branch[i].state == BRANCH_BUSY)
			return 1;
	return 0;
}

/* A client that waits hears why it gets no fork; not of a limit of the host beside other forks: it waits for their end. */
static void tell_waiting_client(struct work *w, const struct err *why)
{
	struct pollfd p = {.fd = w->z->listen_fd, .events = POLLIN};

	if (w->client_fd < 0 && why->code == ERR_LIMIT && has_busy_sisters(w))
		return;
	if (w->client_fd < 0 && poll(&p, 1, 0) == 1) {
		w->client_fd = accept4(w->z->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		drop_request(w->client_fd);
	}
	if (w->client_fd >= 0)
		answer_fork_client(w->client_fd, ZYGOTE_FAILED, err_exit_status(why->code), why, NULL);
}

static void branch_main(struct zygote *z, size_t slot, int sock) __attribute__((noreturn));
static void branch_main(struct zygote *z, size_t slot, int sock)
{
	static struct work w;
	struct err e = {0}, ignored;
	int r;

	w = (struct work){.z = z,
			  .slot = slot,
			  .supervisor = sock,
			  .registry = REGISTRY_INIT,
			  .claim = {.dir_fd = -1, .slot_fd = -1},
			  .disk_fd = -1,
			  .control_fd = -1,
			  .client_fd = -1};
	sandbox_init(&w.sandbox, &w.spec);
	w.inside = zygote_inside(z, slot);
	{
		struct graft_place p;

		r = graft_open_namespaces(z->stock.init, &p, &e);
		if (r == 0) {
			w.inside.userns_fd = p.ns_fd[GRAFT_USER];
			w.inside.pidns_fd = p.ns_fd[GRAFT_PID];
		}
	}
	if (r == 0 && (r = make_fork_sandbox(&w, &e)) == 0 && (r = take_interpreter(&w, &e)) == 0 &&
	    (r = await_client(&w, &e)) == 1)
		r = serve_fork(&w, &e);
	if (r < 0)
		tell_waiting_client(&w, &e);
	if (r < 0 && z->mode == ZYGOTE_AHEAD)
		ahead_tell(z, sock, &e);
	fd_close(&w.client_fd);
	if (sandbox_destroy(&w.sandbox, &ignored) < 0)
		registry_abandon(&w.claim);
	registry_give_back(&w.registry, &z->inner[slot], &ignored);
	registry_release(&w.registry, &w.claim, &ignored);
	volumes_close(&w.volumes);
	_exit(r < 0);
}

/* It keeps nothing that would outlive the supervisor by it: locks, and the ends of other sockets.
 */
static void close_supervisor_fds(struct zygote *z, size_t i)
{
	size_t k;

	for (k = 0; k < z->max; k++) {
		fd_close(&z->inner[k].slot_fd);
		if (k != i && z->branch[k].state != BRANCH_NONE) {
			fd_close(&z->branch[k].sock);
			fd_close(&z->branch[k].pidfd);
		}
	}
	fd_close(&z->home_fd);
	fd_close(&z->claim.slot_fd);
	fd_close(&z->claim.dir_fd);
	fd_close(&z->in_fd);
	fd_close(&z->told);
	fd_close(&z->preload.out_fd);
	fd_close(&z->sandbox.sock); /* init ends when the supervisor closes it */
	registry_close(&z->registry);
}

int branch_start(struct zygote *z, size_t i, struct err *e)
{
	struct branch *b = &z->branch[i];
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, "make a socket pair");
	b->pid = fork();
	if (b->pid == 0) {
		close(sv[0]);
		close_supervisor_fds(z, i);
		branch_main(z, i, sv[1]);
	}
	close(sv[1]);
	b->pidfd = b->pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, b->pid, 0);
	if (b->pidfd < 0) {
		close(sv[0]);
		return err_sys(e, "start a supervisor of a fork");
	}
	b->sock = sv[0];
	b->state = BRANCH_MAKING;
	return 0;
}
