/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/events.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/tty.h"
#include "runtime/sandbox/attest.h"
#include "runtime/sandbox/writable.h"

#define SOCKET_NAME "sock"
#define FILES_MAX 16384
#define READ_TRIES 3
#define CLEAR_MS 5000	/* at most, for the processes of one whose keeper was killed */

/* ---- clients ---------------------------------------------------------------- */

static void drop_client(struct keeper *k, int i)
{
	struct err ignored;

	if (k->clients[i].fd < 0)
		return;
	if (k->held_by == i + 1) {
		k->held_by = 0;
		if (!k->paused)
			cgroup_freeze(&k->sandbox.cgroup, 0, &ignored);
	}
	fd_close(&k->clients[i].fd);
	k->rest = 0;
	k->clients[i].waits = 0;
	k->clients[i].guarded = 0;
	keeper_follow_release(&k->clients[i]);
	keeper_command_client_gone(k, i);
	session_client_gone(k, i);
}

void keeper_answer(struct keeper *k, int client, json_t *msg, const int *fds, size_t count)
{
	struct err ignored;

	if (client >= 0 && k->clients[client].fd >= 0 &&
	    wire_send(k->clients[client].fd, msg, fds, count, &ignored) < 0)
		shutdown(k->clients[client].fd, SHUT_RDWR);	/* the loop sees it close */
	json_decref(msg);
}

void keeper_answer_verdict(struct keeper *k, int client, json_t *msg, const struct verdict *v, const int *fds, size_t count)
{
	autobuf struct buf b = BUF_INIT(4096);
	struct err ignored;

	/* not by way of an object, which takes as long as all the rest of the answer */
	if (client >= 0 && k->clients[client].fd >= 0 &&
	    (buf_reserve(&b, 500, &ignored) < 0 || buf_adds(&b, ",\"verdict\":", &ignored) < 0 || verdict_json(v, &b, &ignored) < 0 ||
	     buf_adds(&b, "}", &ignored) < 0 || wire_send_with(k->clients[client].fd, msg, b.data, b.len, fds, count, &ignored) < 0))
		shutdown(k->clients[client].fd, SHUT_RDWR);
	json_decref(msg);
}

void keeper_answer_error(struct keeper *k, int client, const struct err *e)
{
	keeper_answer(k, client, wire_error(e), NULL, 0);
}

/* Only root, or who started us; a path in a 0700 directory says so already (CVE-2020-15257). */
static int peer_is_ours(int fd)
{
	struct ucred c;
	socklen_t n = sizeof(c);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) && (c.uid == 0 || c.uid == geteuid());
}

static void accept_client(struct keeper *k)
{
	int fd = accept4(k->listen_fd, NULL, NULL, SOCK_CLOEXEC), i;

	if (fd < 0)
		return;
	for (i = 0; i < KEEPER_CLIENTS && peer_is_ours(fd); i++) {
		if (k->clients[i].fd < 0) {
			/* a client that does not read its answers must not stop the others */
			struct timeval limit = { .tv_usec = 100000 };

			setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
			k->clients[i].fd = fd;
			return;
		}
	}
	close(fd);
}

/* The network of a bridge is asked of the kernel by another process: not at every ping. */
static json_t *state_of(struct keeper *k, int with_network)
{
	struct cgroup_usage u;
	struct err ignored;
	unsigned i, running = 0, sessions = 0;
	json_t *j;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		running += k->commands[i] && !k->commands[i]->ended && k->commands[i]->session < 0;
	for (i = 0; i < KEEPER_SESSIONS; i++)
		sessions += k->sessions[i].name[0] != '\0';
	if (cgroup_usage_now(&k->sandbox.cgroup, &u, &ignored) < 0)
		memset(&u, 0, sizeof(u));
	j = json_pack("{s:s,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:I}", "state", k->paused ? "paused" : "running", "commands", running, "sessions", sessions,
		      "uptime_ms", (json_int_t)(clock_ms() - k->created_ms), "cpu_ms", (json_int_t)(u.cpu_us / 1000),
		      "memory_bytes", (json_int_t)u.memory_bytes, "peak_memory_bytes", (json_int_t)u.memory_peak_bytes,
		      "pids", (json_int_t)u.pids, "oom_kills", (json_int_t)u.oom_kills);
	json_object_set_new(j, "read_bytes", json_integer((json_int_t)u.read_bytes));
	json_object_set_new(j, "write_bytes", json_integer((json_int_t)u.write_bytes));
	keeper_limits_describe(k, j);
	keeper_idle_describe(k, j);
	if (with_network)
		keeper_network_describe(k, j);
	return j;
}

/*
 * Nothing in the sandbox runs as long as this client stays connected: whoever
 * copies its files may be killed, and the sandbox goes on.
 */
static int hold(struct keeper *k, int client, struct err *e)
{
	if (k->held_by)
		return err_set(e, ERR_BUSY, "another commit of this sandbox is under way");
	if (!k->paused && cgroup_freeze(&k->sandbox.cgroup, 1, e) < 0)
		return -1;
	k->held_by = client + 1;
	keeper_answer(k, client, json_pack("{s:b}", "held", 1), NULL, 0);
	return 0;
}

static int own_op(struct keeper *k, int client, const char *op, const json_t *rq, struct err *e)
{
	uint64_t grace_ms, drain_ms = 0;
	json_t *j;

	if (!strcmp(op, "guard"))
		return 0;	/* and no answer */
	if (!strcmp(op, "ping") || !strcmp(op, "stats")) {
		keeper_answer(k, client, state_of(k, op[0] == 's'), NULL, 0);
		return 0;
	}
	if (!strcmp(op, "attest")) {
		j = attest_report(k->sandbox.pid, &k->sandbox.cgroup, e);
		if (!j)
			return -1;
		keeper_answer(k, client, json_pack("{s:o}", "attest", j), NULL, 0);
		return 0;
	}
	if (!strcmp(op, "hold"))
		return hold(k, client, e);
	if (!strcmp(op, "pause") || !strcmp(op, "resume")) {
		if (k->held_by)
			return err_set(e, ERR_BUSY, "the sandbox stands still for a commit; hint: try again when that is done");
		if (cgroup_freeze(&k->sandbox.cgroup, op[0] == 'p', e) < 0)
			return -1;
		k->paused = op[0] == 'p';
		if (k->paused)
			keeper_command_stands_still(k);
		keeper_answer(k, client, json_pack("{s:b}", "paused", op[0] == 'p'), NULL, 0);
		keeper_event(k, op, NULL);
		return 0;
	}
	if (!strcmp(op, "stop")) {
		grace_ms = k->spec->grace_ms;
		if (json_get_u64(rq, "grace_ms", &grace_ms, "request", e) < 0 || json_get_u64(rq, "drain_ms", &drain_ms, "request", e) < 0)
			return -1;
		k->stays = json_is_true(json_object_get(rq, "stays"));
		keeper_stop_drain(k, grace_ms, drain_ms);
		return 0;	/* the connection's end is the answer: then everything is gone */
	}
	return err_set(e, ERR_INVALID, "unknown operation '%.40s'", op);
}

/* What needs init or a process of the sandbox to answer waits for ever while all of them are frozen. */
static int needs_running(const char *op)
{
	static const char *const ops[] = { "exec", "sh", "file", "attest" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ops) && strcmp(op, ops[i]); i++)
		;
	return i < ARRAY_LEN(ops);
}

static void handle_request(struct keeper *k, int i, json_t *rq, const int *fds, size_t count)
{
	struct err e = { 0 };
	const char *op = NULL;
	int r = json_get_str(rq, "op", &op, "request", &e);

	if (r == 0)
		r = err_set(&e, ERR_INVALID, "a request without \"op\"");
	if (r > 0 && json_is_true(json_object_get(rq, "guard")))
		k->clients[i].guarded = 1;
	if (r > 0 && (k->stop_at_ms || k->drain_until_ms) && needs_running(op))
		r = err_set(&e, ERR_BUSY, "sandbox %s is stopping", k->claim.id);
	if (r > 0 && k->paused && needs_running(op))
		r = err_set(&e, ERR_BUSY, "sandbox %s is paused; hint: berth resume %s", k->claim.id, k->claim.id);
	if (r > 0) {
		r = keeper_command_op(k, i, op, rq, fds, count, &e);
		if (r > 0)
			r = keeper_follow_op(k, i, op, rq, &e);
		if (r > 0)
			r = keeper_limits_op(k, i, op, rq, &e);
		if (r > 0)
			r = keeper_network_op(k, i, op, rq, &e);
		if (r > 0)
			r = session_op(k, i, op, rq, fds, count, &e);
		if (r > 0)
			r = files_op(k, i, op, rq, fds, count, &e);
		if (r > 0)
			r = keeper_adopt_op(k, i, op, rq, &e);
		if (r > 0)
			r = own_op(k, i, op, rq, &e);
	}
	if (r < 0)
		keeper_answer_error(k, i, &e);
}

/* A long request comes as {"op":...,"data":true} with its other members in a memfd, the last descriptor. */
static int unfold(json_t *rq, const int *fds, size_t *count, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	autojson json_t *more = NULL;

	if (!json_is_true(json_object_get(rq, "data")))
		return 0;
	if (!*count)
		return err_set(e, ERR_INVALID, "\"data\" without a descriptor");
	if (wire_read_data(fds[--*count], &b, e) < 0)
		return -1;
	more = json_parse(b.data ? b.data : "", b.len, WIRE_DATA_MAX, "request", e);
	if (!more)
		return -1;
	return json_object_update_missing(rq, more) < 0 ? err_nomem(e) : 0;
}

static void serve_client(struct keeper *k, int i)
{
	int fds[WIRE_FDS_MAX];
	json_t *rq = NULL;
	struct err e = { 0 };
	size_t count, all, j;
	int r = wire_recv(k->clients[i].fd, 0, &rq, fds, WIRE_FDS_MAX, &count, &e);

	if (r <= 0) {
		if (r < 0 && e.code != ERR_TIMEOUT)
			keeper_answer_error(k, i, &e);
		if (r == 0 || e.code != ERR_TIMEOUT)
			drop_client(k, i);
		return;
	}
	all = count;
	if (unfold(rq, fds, &count, &e) < 0)
		keeper_answer_error(k, i, &e);
	else
		handle_request(k, i, rq, fds, count);
	json_decref(rq);
	for (j = 0; j < all; j++)
		close(fds[j]);
}

/* ---- the loop ---------------------------------------------------------------- */

enum watch_kind { WATCH_LISTEN, WATCH_INIT, WATCH_SIGNAL, WATCH_OOM, WATCH_CLIENT, WATCH_COMMAND, WATCH_INPUT, WATCH_SESSION, WATCH_STATUS,
		  WATCH_NETWORK };

struct watch {
	enum watch_kind kind;
	int index, which;
};

#define WATCHES_MAX (5 + KEEPER_CLIENTS + 3 * KEEPER_COMMANDS + 3 * KEEPER_SESSIONS)

struct watches {
	struct pollfd p[WATCHES_MAX];
	struct watch w[WATCHES_MAX];
	nfds_t n;
};

static void watch(struct watches *ws, int fd, enum watch_kind kind, int index, int which)
{
	if (fd < 0)
		return;
	ws->p[ws->n] = (struct pollfd){ .fd = fd, .events = kind == WATCH_INPUT ? POLLOUT : POLLIN };
	ws->w[ws->n++] = (struct watch){ kind, index, which };
}

static void watch_all(struct keeper *k, struct watches *ws)
{
	int i;

	ws->n = 0;
	watch(ws, k->sandbox.sock, WATCH_INIT, 0, 0);
	watch(ws, k->signal_fd, WATCH_SIGNAL, 0, 0);
	watch(ws, k->sandbox.cgroup.oom_fd, WATCH_OOM, 0, 0);
	watch(ws, k->listen_fd, WATCH_LISTEN, 0, 0);
	watch(ws, k->sandbox.net.notice_fd, WATCH_NETWORK, 0, 0);
	for (i = 0; i < KEEPER_COMMANDS; i++) {
		if (!k->commands[i])
			continue;
		if (!keeper_follow_lags(k, k->commands[i]))
			watch(ws, k->commands[i]->out_fd[0], WATCH_COMMAND, i, 0);
		watch(ws, k->commands[i]->out_fd[1], WATCH_COMMAND, i, 1);
		if (keeper_send_waits(k, k->commands[i]))
			watch(ws, k->commands[i]->in_fd, WATCH_INPUT, i, 0);
	}
	for (i = 0; i < KEEPER_SESSIONS; i++) {
		struct keeper_session *s = &k->sessions[i];

		if (!s->name[0])
			continue;
		watch(ws, s->out_fd, WATCH_SESSION, i, 0);
		watch(ws, s->err_fd, WATCH_SESSION, i, 1);
		watch(ws, s->status_fd, WATCH_STATUS, i, 0);
	}
	for (i = 0; i < KEEPER_CLIENTS; i++)
		watch(ws, k->clients[i].fd, WATCH_CLIENT, i, 0);
}

static int next_timeout(struct keeper *k)
{
	uint64_t at = keeper_idle_next(k), now = clock_ms(), t;
	int i;

	if (!at)
		at = UINT64_MAX;
	if ((t = keeper_stop_next(k)) && t < at)
		at = t;
	if ((t = keeper_life_next(k)) && t < at)
		at = t;
	if ((t = keeper_network_next(k)) && t < at)
		at = t;
	if ((t = keeper_send_next(k)) && t < at)
		at = t;
	if (k->oom_until_ms)
		at = now + 5;
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && (t = keeper_command_next_deadline(k->commands[i])) && t < at)
			at = t;
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0] && (t = session_next_deadline(&k->sessions[i])) && t < at)
			at = t;
	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : at - now > 60000 ? 60000 : (int)(at - now);
}

static void serve_deadlines(struct keeper *k)
{
	uint64_t now = clock_ms();
	int i;

	if (k->oom_until_ms) {
		keeper_command_check_oom(k);
		if (now >= k->oom_until_ms)
			k->oom_until_ms = 0;
	}
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			keeper_command_deadline(k, k->commands[i], now);
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0])
			session_deadline(k, &k->sessions[i], now);
	keeper_send_check(k, now);
	keeper_idle_check(k, now);
	keeper_life_check(k);
	keeper_stop_check(k, now);
	keeper_network_check(k, now);
}

static const char init_ended[] = "its init ended";

static void serve_init(struct keeper *k)
{
	struct init_reply r;
	struct err e;
	int got = 1, n;

	for (n = 0; n < 16 && got == 1; n++)
		if ((got = sandbox_reply(&k->sandbox, &r, 0, &e)) == 1)
			keeper_command_reply(k, &r);
	keeper_command_announce(k);
	if (got == 0 || (got < 0 && e.code != ERR_BUSY)) {
		k->stopping = 1;	/* init is gone, or says what only a hostile one would */
		k->stop_reason = init_ended;
	}
}

/* Those that say nothing to a keeper would end it uncleanly. */
static const int ends[] = { SIGTERM, SIGINT, SIGQUIT }, says_nothing[] = { SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF };

static void take_signal(struct keeper *k)
{
	struct signalfd_siginfo si;
	size_t i;

	if (read(k->signal_fd, &si, sizeof(si)) != sizeof(si))
		return;
	for (i = 0; i < ARRAY_LEN(ends); i++)
		if ((int)si.ssi_signo == ends[i]) {
			k->stopping = 1;
			k->stop_reason = "the keeper was told to end by a signal";
		}
}

static void serve(struct keeper *k, const struct watch *w)
{
	uint64_t n;

	switch (w->kind) {
	case WATCH_LISTEN:
		accept_client(k);
		break;
	case WATCH_INIT:
		serve_init(k);
		break;
	case WATCH_SIGNAL:
		take_signal(k);
		break;
	case WATCH_OOM:
		(void)!read(k->sandbox.cgroup.oom_fd, &n, sizeof(n));
		/* the kernel tells before it kills: look again until the counters show whom */
		k->oom_until_ms = clock_ms() + 500;
		break;
	case WATCH_CLIENT:
		if (k->clients[w->index].fd >= 0)
			serve_client(k, w->index);
		break;
	case WATCH_COMMAND:
		if (k->commands[w->index])
			keeper_command_read(k, k->commands[w->index], w->which);
		break;
	case WATCH_INPUT:
		if (k->commands[w->index])
			keeper_send_ready(k, k->commands[w->index]);
		break;
	case WATCH_SESSION:
		if (k->sessions[w->index].name[0])
			session_read(k, &k->sessions[w->index], w->which);
		break;
	case WATCH_NETWORK:
		keeper_network_notice(k);
		break;
	case WATCH_STATUS:
		if (k->sessions[w->index].name[0])
			session_status(k, &k->sessions[w->index]);
		break;
	}
}

static void loop(struct keeper *k)
{
	struct watches *ws = calloc(1, sizeof(*ws));
	const struct timespec *wait;
	struct timespec t;
	nfds_t i;
	int n;

	while (ws && !k->stopping) {
		watch_all(k, ws);
		wait = keeper_quiet(k, next_timeout(k), &t);
		if (k->trim)
			keeper_trim(k);	/* right before, so that little is used again until something happens */
		n = ppoll(ws->p, ws->n, wait, NULL);
		if (n < 0 && errno != EINTR)
			break;
		keeper_woke(k, n);
		for (i = 0; i < ws->n && !k->stopping; i++)
			if (ws->p[i].revents)
				serve(k, &ws->w[i]);
		serve_deadlines(k);
	}
	free(ws);
}

/* ---- birth and death ----------------------------------------------------------- */

static int listen_on(struct keeper *k, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	k->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* by the directory's descriptor: a run_dir longer than sun_path works too */
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" SOCKET_NAME, k->claim.dir_fd);
	if (k->listen_fd < 0 || bind(k->listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    fchmodat(k->claim.dir_fd, SOCKET_NAME, 0600, 0) < 0 || listen(k->listen_fd, 64) < 0)
		return err_sys(e, "listen on the keeper's socket");
	return 0;
}

static int take_signals(struct keeper *k, struct err *e)
{
	sigset_t set;
	size_t i;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	for (i = 0; i < ARRAY_LEN(ends); i++)
		sigaddset(&set, ends[i]);
	for (i = 0; i < ARRAY_LEN(says_nothing); i++)
		sigaddset(&set, says_nothing[i]);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0 || (k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_sys(e, "take signals");
	return 0;
}

static int start(struct keeper *k, const struct keeper_start *ks, struct err *e)
{
	if (take_signals(k, e) < 0 || sandbox_launch(&k->sandbox, &ks->where, e) < 0 ||
	    attest_ready(&k->sandbox, e) < 0)
		return -1;
	/* from here on it is one that stays: before, gc takes what a kill of the caller left */
	if (registry_save(ks->registry, ks->spec->id, "record.json", ks->record, e) < 0)
		return -1;
	json_object_set_new(ks->record, "supervisor_pid", json_integer(getpid()));
	json_object_set_new(ks->record, "init_pid", json_integer(k->sandbox.pid));
	if (registry_record(&k->claim, ks->record, e) < 0)
		return -1;
	sandbox_settle(&k->sandbox);
	return listen_on(k, e);
}

/* Who waits for a command hears its end, not only ours. */
static void tell_ends(struct keeper *k)
{
	const int asked = k->stop_reason != init_ended;
	struct err ignored;
	int i, live = 0;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		live |= k->commands[i] && !k->commands[i]->ended;
	if (!live)
		return;
	cgroup_kill(&k->sandbox.cgroup, &ignored);
	cgroup_wait_empty(&k->sandbox.cgroup, KEEPER_DYING_MS, &ignored);
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0])
			session_lost(k, &k->sessions[i], asked);
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			keeper_command_lost(k, k->commands[i], asked);
}

static void end(struct keeper *k)
{
	struct err ignored;
	char id[65];
	int i;

	memcpy(id, k->claim.id, sizeof(id));
	tell_ends(k);
	if (k->stop_reason)
		keeper_record_stop(k);
	keeper_life_mark(k);
	keeper_network_last(k);
	if (k->announced)
		keeper_event(k, "stop", json_pack("{s:s}", "reason", k->stop_reason ? k->stop_reason : "requested"));
	keeper_journal_end(k);
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0])
			session_release(k, &k->sessions[i]);
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			keeper_command_remove(k, k->commands[i]);
	keeper_leaves_release(k);
	cgroup_freeze(&k->sandbox.cgroup, 0, &ignored);
	if (sandbox_destroy(&k->sandbox, &ignored) < 0) {
		registry_abandon(&k->claim);
	} else {
		if (k->announced)
			keeper_network_save(k);
		registry_release(k->registry, &k->claim, &ignored);
		keeper_life_end(k, id);
	}
	/* clients wait for this: their connections end when nothing is left, also of who came while we were at it */
	fd_close(&k->listen_fd);
	for (i = 0; i < KEEPER_CLIENTS; i++)
		fd_close(&k->clients[i].fd);
}

/* The keeper has nothing of the caller's but what it was given. */
static void detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), i;

	io_allow_files(FILES_MAX);	/* a session holds fifteen, a command ten */
	setsid();
	for (i = 0; i < 3 && null >= 0; i++)
		dup2(null, i);
	fd_close(&null);
	(void)!chdir("/");
	umask(077);
	prctl(PR_SET_NAME, "berth-keeper");
}

static void keeper_main(const struct keeper_start *ks, int ready_fd) __attribute__((noreturn));
static void keeper_main(const struct keeper_start *ks, int ready_fd)
{
	struct keeper *k = calloc(1, sizeof(*k));
	struct err e = { 0 };
	int i, r = -1;

	detach();
	if (!k) {
		err_nomem(&e);
	} else {
		k->registry = ks->registry;
		k->claim = *ks->claim;
		k->spec = ks->spec;
		k->listen_fd = k->signal_fd = k->fileop_fd = -1;
		k->head_max = ks->output_head_bytes;
		k->tail_max = ks->output_tail_bytes;
		k->life = ks->life;
		k->record = ks->record;
		k->next_seq = 1;
		k->created_ms = k->busy_ms = k->idle_checked_ms = clock_ms();
		for (i = 0; i < KEEPER_CLIENTS; i++)
			k->clients[i].fd = -1;
		sandbox_init(&k->sandbox, ks->spec);
		r = start(k, ks, &e);
	}
	if (r == 0)
		e.code = ERR_NONE;	/* what is left in there was overcome on the way */
	/* a failure is told once nothing of it is left, so that the caller cleans up after us and not beside us */
	if (r < 0 && k)
		end(k);
	if (io_write_all(ready_fd, &e, sizeof(e)) < 0 && r == 0) {
		/* the caller was killed meanwhile: nobody knows of this sandbox */
		end(k);
		if (ks->fresh) {
			events_add(ks->registry, "create-failed", ks->spec->id, json_pack("{s:s}", "error", "berth create was killed"));
			registry_forget(ks->registry, ks->spec->id, &e);
		}
		r = -1;
	}
	close(ready_fd);
	if (r == 0) {
		k->announced = 1;
		keeper_event(k, "start", json_pack("{s:O*,s:O*}", "name", json_object_get(ks->record, "name"), "image",
						   json_object_get(ks->record, "image")));
		mem_keep_small();
		/* the ceilings of what it holds add up to less: a flood past one of them meets this, and no other process (D13) */
		(void)!setrlimit(RLIMIT_DATA, &(struct rlimit){ KEEPER_MEMORY, KEEPER_MEMORY });
		k->trim = 1;	/* what made the sandbox will not run any more */
		loop(k);
		end(k);
	}
	_exit(r < 0);
}

int keeper_spawn(const struct keeper_start *ks, struct err *e)
{
	autoclose int ready = -1;
	int fds[2], got, tries = 0;
	struct err answer;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	ready = fds[0];
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		/* once more: the keeper is nobody's child that waits for it */
		if (fork() != 0)
			_exit(0);
		keeper_main(ks, fds[1]);
	}
	close(fds[1]);
	if (pid < 0)
		return err_sys(e, "fork the keeper");
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	/* an error is not the keeper's end, which alone lets the caller clean up: once more */
	do
		got = io_read_exact(ready, &answer, sizeof(answer));
	while (got < 0 && tries++ < READ_TRIES);
	if (got != 1)
		return err_set(e, ERR_INTERNAL, "the keeper died while it made the sandbox");
	if (answer.code != ERR_NONE) {
		*e = answer;
		return -1;
	}
	return 0;
}

/* ---- the client's side ----------------------------------------------------------- */

int keeper_connect(struct registry *r, const char *id, struct err *e)
{
	return keeper_connect_within(r, id, KEEPER_CONNECT_MS, e);
}

int keeper_not_running(struct registry *r, const char *id, struct err *e)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/spec.json", id);
	if (path_has(r->kept_fd, path))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s is not running; hint: berth start %s", id, id);
	if (path_has(r->kept_fd, id))
		return err_set(e, ERR_INVALID, "sandbox %s was kept by berth run, when its command had ended, and cannot be started; "
			       "hint: berth create makes sandboxes that can", id);
	return err_set(e, ERR_NOT_FOUND, "sandbox %s is gone; hint: berth ps -a", id);
}

/* errno says what connect(2) did. */
static int unreachable(struct registry *r, const char *id, unsigned ms, struct err *e)
{
	const int why = errno;

	if (why == EAGAIN)
		return err_set(e, ERR_TIMEOUT, "the keeper of sandbox %s does not answer; hint: berth kill %s ends it", id, id);
	/* killed from outside: nobody has told, nor cleared up */
	if (registry_clear_dead(r, id, ms < CLEAR_MS ? ms : CLEAR_MS, 0, e) < 0)
		return err_wrap(e, "its keeper has ended");
	if (!path_has(r->sandboxes_fd, id))
		return keeper_not_running(r, id, e);
	if (keeper_is_run(r, id))
		return err_set(e, ERR_BUSY, "sandbox %s is that of a berth run, for its one command only; "
			       "hint: berth kill %s, or berth rm -f, ends it", id, id);
	if (why == ENOENT || why == ECONNREFUSED)
		return err_set(e, ERR_NOT_FOUND, "sandbox %s is not running: it begins or ends at this moment; hint: berth ps -a", id);
	errno = why;
	return err_code_sys(e, ERR_NOT_FOUND, "reach the keeper of sandbox %s", id);
}

int keeper_connect_within(struct registry *r, const char *id, unsigned ms, struct err *e)
{
	/* a full backlog blocks connect(2), and a full socket a request, as long as this */
	const struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int dir = openat(r->sandboxes_fd, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (dir < 0)
		return keeper_not_running(r, id, e);
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" SOCKET_NAME, dir);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
		return err_sys(e, "make a socket");
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return unreachable(r, id, ms, e);
	return take_fd(&fd);
}

json_t *keeper_call(int sock, json_t *request, const int *fds, size_t count, int *ret_fd, struct err *e)
{
	json_t *answer = NULL;
	int got[WIRE_FDS_MAX], r;
	size_t n = 0, i;

	if (ret_fd)
		*ret_fd = -1;
	if (wire_send(sock, request, fds, count, e) < 0)
		return NULL;
	r = wire_recv(sock, -1, &answer, got, WIRE_FDS_MAX, &n, e);
	for (i = 0; i < n; i++) {
		if (i == 0 && ret_fd && r == 1)
			*ret_fd = got[0];
		else
			close(got[i]);
	}
	if (r == 0)
		err_set(e, ERR_NOT_FOUND, "the sandbox ended");
	if (r != 1)
		return NULL;
	if (wire_check(answer, e) < 0) {
		json_decref(answer);
		if (ret_fd)
			fd_close(ret_fd);
		return NULL;
	}
	return answer;
}
