/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll loop over init's socket, the signals of the caller, the next deadline (the poll
 * timeout), the OOM notice of cgroup v1, and the terminal. Completion is the leader's exit as init
 * reports it, never end-of-file on its output (L03). Time is CLOCK_MONOTONIC throughout.
 */
#include "runtime/sandbox/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/kernel/tty.h"
#include "runtime/sandbox/writable.h"

enum {
	POLL_SOCK, POLL_SIGNAL, POLL_OOM, POLL_NETWORK, POLL_FILTERS,
	POLL_CLIENT, POLL_TTY,
	POLL_COUNT = POLL_TTY + TTY_POLLS
};

#define OOM_WAIT_MS 50

struct run {
	struct sandbox *sb;
	const struct supervise *how;
	struct verdict_facts facts;
	struct tty *tty;	/* 32 KiB: touched only when there is a terminal */
	uint32_t seq;
	uint64_t started_ms;
	uint64_t heard, heard_ms;	/* bytes of output to the terminal, and when the last came */
	uint64_t kill_at_ms;		/* processes that survive TERM are killed then; 0: no TERM, or all
					 * were killed */
	uint64_t cpu_check_at_ms;	/* 0: no CPU time limit */
	uint64_t oom_until_ms;		/* v1: memory ran out, wait until then; 0: it did not */
	int done;
};

static const int forwarded[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGALRM, SIGWINCH };

int supervise_signals(struct err *e)
{
	sigset_t set;
	size_t i;
	int fd;

	sigemptyset(&set);
	for (i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&set, forwarded[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(e, "block signals");
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_sys(e, "make a signalfd") : fd;
}

/* Kills the whole cgroup at once: setsid, double forks and stopped processes included (L01, L02). */
static int kill_all(struct run *r, struct err *e)
{
	r->kill_at_ms = 0;
	return sandbox_kill(r->sb, e);
}

static int over_wall_time(struct run *r, uint64_t now, struct err *e)
{
	const struct spec *s = r->sb->spec;

	r->facts.timed_out = 1;
	if (!s->grace_ms)
		return kill_all(r, e);
	r->kill_at_ms = now + s->grace_ms;
	return sandbox_signal(r->sb, r->seq, SIGTERM, e);
}

static int check_cpu_time(struct run *r, uint64_t now, struct err *e)
{
	const struct spec *s = r->sb->spec;
	struct cgroup_usage u;
	uint64_t left_ms;

	if (cgroup_usage(&r->sb->cgroup, &u, e) < 0)
		return -1;
	if (u.cpu_us / 1000 >= s->cpu_time_ms) {
		r->facts.cpu_timed_out = 1;
		return kill_all(r, e);
	}
	/* it cannot be spent faster than by all CPUs together */
	left_ms = (s->cpu_time_ms - u.cpu_us / 1000) / (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	r->cpu_check_at_ms = now + (left_ms < 5 ? 5 : left_ms);
	return 0;
}

/* The notice comes before the kill: let the kernel's own count show it, for a moment. */
static int check_oom(struct run *r, uint64_t now, struct err *e)
{
	struct cgroup_usage u;

	if (r->facts.killed_for_oom || cgroup_usage(&r->sb->cgroup, &u, e) < 0)
		return r->facts.killed_for_oom ? 0 : -1;
	if (!u.oom_kills && now < r->oom_until_ms)
		return 0;
	r->facts.killed_for_oom = 1;
	return kill_all(r, e);
}

/* Returns when the command must have written something; 0: no limit. */
static uint64_t silence_deadline(const struct run *r, uint64_t now)
{
	const uint64_t max = r->sb->spec->max_silent_ms;

	if (!max || r->facts.timed_out)
		return 0;
	if (r->sb->spec->tty)	/* a slow reader is no silence */
		return max + (r->tty->to_out_len ? now : r->heard_ms);
	return max + silence_last_ms(&r->sb->silence, now);
}

static void hear_terminal(struct run *r)
{
	if (!r->sb->spec->max_silent_ms || r->tty->heard == r->heard)
		return;
	r->heard = r->tty->heard;
	r->heard_ms = clock_ms();
}

static int serve_run_deadlines(struct run *r, struct err *e)
{
	const struct spec *s = r->sb->spec;
	uint64_t now = clock_ms();

	if (s->timeout_ms && !r->facts.timed_out && now >= r->started_ms + s->timeout_ms &&
	    over_wall_time(r, now, e) < 0)
		return -1;
	if (silence_deadline(r, now) && now >= silence_deadline(r, now)) {
		r->facts.silent = 1;
		if (over_wall_time(r, now, e) < 0)
			return -1;
	}
	if (r->kill_at_ms && now >= r->kill_at_ms && kill_all(r, e) < 0)
		return -1;
	if (r->oom_until_ms && check_oom(r, now, e) < 0)
		return -1;
	layerguard_check(&r->sb->guard, now);
	if (r->cpu_check_at_ms && !r->facts.cpu_timed_out && now >= r->cpu_check_at_ms &&
	    check_cpu_time(r, now, e) < 0)
		return -1;
	return 0;
}

/* Milliseconds to the next deadline, -1 for none. */
static int next_deadline(const struct run *r)
{
	const struct spec *s = r->sb->spec;
	uint64_t at = r->kill_at_ms, now = clock_ms();

	if (s->timeout_ms && !r->facts.timed_out)
		at = clock_earlier(at, r->started_ms + s->timeout_ms);
	at = clock_earlier(at, silence_deadline(r, now));
	at = clock_earlier(at, layerguard_next(&r->sb->guard));
	if (!r->facts.cpu_timed_out)
		at = clock_earlier(at, r->cpu_check_at_ms);
	if (r->oom_until_ms && !r->facts.killed_for_oom)
		at = now + 1;
	return clock_poll_ms(at, now, 1000000);
}

static int serve_signals(struct run *r, struct err *e)
{
	struct signalfd_siginfo si;

	while (read(r->how->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGWINCH && r->sb->spec->tty) {
			tty_resize(r->tty);
			continue;
		}
		if (sandbox_signal(r->sb, r->seq, (int)si.ssi_signo, e) < 0)
			return -1;
	}
	return 0;
}

/* v1 kills one process; like memory.oom.group we end the whole sandbox with it (D02). */
static int serve_oom(struct run *r, struct err *e)
{
	uint64_t n;

	if (read(r->sb->cgroup.oom_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return err_sys(e, "read the OOM notice");
	if (!r->oom_until_ms)
		r->oom_until_ms = clock_ms() + OOM_WAIT_MS;
	return 0;
}

static int serve_reply(struct run *r, struct err *e)
{
	struct init_reply reply;
	int got = sandbox_reply(r->sb, &reply, 0, e);

	if (got < 0)
		return e->code == ERR_BUSY ? 0 : -1;
	if (got == 0) {
		r->done = 1;	/* init is gone; the verdict says why */
		return 0;
	}
	if (reply.type == INIT_SETUP_FAILED || reply.type == INIT_EXEC_FAILED) {
		*e = reply.err;
		return -1;
	}
	if (reply.seq != r->seq)
		return 0;
	if (reply.type == INIT_EXITED) {
		r->facts.ended = 1;
		r->facts.exited = (int)reply.exited;
		r->facts.value = reply.value;
		r->facts.left_behind = reply.left_behind;
		r->done = 1;
	}
	return 0;
}

static int supervise_loop(struct run *r, struct err *e)
{
	while (!r->done) {
		struct pollfd p[POLL_COUNT];
		int n = POLL_TTY;

		p[POLL_SOCK] = (struct pollfd){ .fd = r->sb->sock, .events = POLLIN };
		p[POLL_SIGNAL] = (struct pollfd){ .fd = r->how->signal_fd, .events = POLLIN };
		p[POLL_OOM] = (struct pollfd){ .fd = r->sb->cgroup.oom_fd, .events = POLLIN };
		p[POLL_NETWORK] = (struct pollfd){ .fd = r->how->notice ? sandbox_meter(r->sb)->notice_fd : -1, .events = POLLIN };
		p[POLL_FILTERS] = (struct pollfd){ .fd = r->sb->filters.fd, .events = POLLIN };
		p[POLL_CLIENT] = (struct pollfd){ .fd = r->how->client ? r->how->client_fd : -1,
						  .events = POLLIN };
		if (r->sb->spec->tty) {
			tty_polls(r->tty, p + POLL_TTY);
			n = POLL_COUNT;
		}
		if (poll(p, (nfds_t)n, next_deadline(r)) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, "wait for the sandbox");
		}
		if (p[POLL_OOM].revents && serve_oom(r, e) < 0)
			return -1;
		if (r->sb->spec->tty && tty_move(r->tty, p + POLL_TTY, e) < 0)
			return -1;
		if (r->sb->spec->tty)
			hear_terminal(r);
		if (p[POLL_FILTERS].revents)
			filterwatch_serve(&r->sb->filters, r->sb->cgroup.v2_fd);
		if (p[POLL_NETWORK].revents && r->how->notice)
			r->how->notice(r->how->notice_ctx);
		if (p[POLL_CLIENT].revents)
			r->how->client(r->how->client_ctx);
		if (p[POLL_SOCK].revents && serve_reply(r, e) < 0)
			return -1;
		if (r->done)
			break;
		if (p[POLL_SIGNAL].revents && serve_signals(r, e) < 0)
			return -1;
		if (serve_run_deadlines(r, e) < 0)
			return -1;
	}
	return 0;
}

#define INIT_END_MS 100

/*
 * The command has ended, and init reports that it was the last: init ends by itself, and its pid
 * namespace with it; sandbox_destroy() asks the cgroup. The counters are final already, so we
 * read them while the kernel still ends init.
 */
static int end_by_itself(struct run *r, struct err *e)
{
	if (cgroup_usage(&r->sb->cgroup, &r->facts.usage, e) < 0)
		return -1;
	if (sandbox_reap(r->sb, INIT_END_MS, e) == 0)
		return 0;
	return e->code != ERR_TIMEOUT || sandbox_kill(r->sb, e) < 0 || sandbox_reap(r->sb, CGROUP_END_MS, e) < 0 ? -1 : 0;
}

/* Processes that die just now count too. */
static int end_by_kill(struct run *r, struct err *e)
{
	if (sandbox_kill(r->sb, e) < 0 || sandbox_reap(r->sb, CGROUP_END_MS, e) < 0 ||
	    cgroup_wait_empty(&r->sb->cgroup, CGROUP_END_MS, e) < 0)
		return -1;
	return cgroup_usage(&r->sb->cgroup, &r->facts.usage, e);
}

/* The kernel's and the proxy's counters still stand; a limit of connections that was met counts as a budget that was. */
static int count_network(struct run *r, struct err *e)
{
	struct verdict_facts *f = &r->facts;

	f->has_network = nethelper_count(sandbox_meter(r->sb), r->sb->spec, &f->network, e);
	if (f->has_network < 0)
		return -1;
	f->network_is_bridge = sandbox_meter(r->sb)->bridge;
	f->network_exhausted = f->has_network && (f->network.exhausted || f->network.over);
	return 0;
}

int supervise_disk(const struct sandbox *sb, struct verdict_facts *f, struct err *e)
{
	if (writable_full(sb->base_fd, &f->disk_full, e) < 0)
		return -1;
	if (sb->host_fd >= 0 && writable_is_host_full(sb->host_fd))
		f->disk_full = f->has_disk_errors = 1;
	f->disk_errors = f->has_disk_errors ? writable_errors(sb->base_fd) : 0;
	return 0;
}

static int conclude_run(struct run *r, struct verdict *ret, struct err *e)
{
	uint64_t now = clock_ms();

	r->facts.wall_ms = now - r->started_ms;
	if (r->oom_until_ms && r->facts.ended && !r->facts.exited)
		r->facts.killed_for_oom = 1;
	if ((r->facts.ended && !r->facts.left_behind ? end_by_itself(r, e) : end_by_kill(r, e)) < 0)
		return -1;
	if (r->sb->io_fd >= 0) {
		r->facts.usage.read_bytes = r->sb->read_bytes;
		r->facts.usage.write_bytes = r->sb->written_bytes;
	}
	r->facts.has_disk_errors = 1;
	if (supervise_disk(r->sb, &r->facts, e) < 0)
		return -1;
	if (count_network(r, e) < 0)
		return -1;
	if (!(r->facts.ended && r->facts.exited) && r->how->was_killed)
		r->facts.killed_by_us |= r->how->was_killed(r->how->was_killed_ctx);
	r->facts.loosened = r->sb->spec->loosened;
	verdict_decide(&r->facts, ret);
	return 0;
}

int supervise_exec(struct sandbox *sb, uint32_t seq, const struct job *c, const int std[3],
		   struct err *e)
{
	int given[3] = { std[0], std[1], std[2] }, r;

	if (!sb->spec->max_silent_ms || sb->spec->tty)
		return sandbox_exec(sb, seq, c, std, e);
	if (silence_open(&sb->silence, std + 1, given + 1, e) < 0)
		return -1;
	r = sandbox_exec(sb, seq, c, given, e);
	close(given[1]);
	close(given[2]);
	return r;
}

int supervise_run(struct sandbox *sb, uint32_t seq, const struct supervise *how, struct verdict *ret,
		  struct err *e)
{
	struct tty tty;
	struct run r = { .sb = sb, .how = how, .tty = &tty, .seq = seq };
	int result;

	r.started_ms = r.heard_ms = clock_ms();
	if (sb->spec->cpu_time_ms)
		r.cpu_check_at_ms = r.started_ms + 5;
	if (sb->spec->tty && tty_open(r.tty, how->tty_fd, how->in, how->out, e) < 0)
		return -1;
	if (how->idle)
		how->idle(how->idle_ctx);
	sandbox_hold_mounts(sb);
	result = supervise_loop(&r, e);
	if (result == 0)
		result = conclude_run(&r, ret, e);
	if (sb->spec->tty) {
		tty_drain(r.tty);
		tty_close(r.tty);
	}
	silence_drain(&sb->silence, r.facts.timed_out ? SILENCE_STUCK_MS : -1, how->signal_fd);
	return result;
}
