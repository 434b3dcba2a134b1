/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a session's command before its time: interrupts of its foreground
 * and, at a timeout, everything it started.  The shell and its state live on.
 *
 * Both look at the session's processes while these are frozen: nothing starts,
 * ends or changes its group between the look and the signal.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/keeper_state.h"

#define ESCALATE_FIRST_MS 1200	/* what the shell may need to leave many levels, a fork each */
#define ESCALATE_MS 100
#define ESCALATE_MAX 10
#define NUDGE_MS 150
#define NUDGE_SOON_MS 5
#define NUDGES 5
#define LOOK_US 100
#define FREEZE_MS 120	/* what has used up its CPU time waits for more, 100 ms at most; who waits for a disk freezes later */
#define SIGNAL_MS 250	/* what the kernel's worker may need for it on a machine with much to do */
#define FORKED_NO_EXEC 0x40	/* PF_FORKNOEXEC of linux/sched.h, in proc(5)'s flags */
#define YOUNG_TICKS 15	/* of 10 ms, as a sandbox at its CPU limit may wait for most of 100 */
#define INTERRUPT_BIT (1ULL << (SIGINT - 1))

/* ---- the session's processes ------------------------------------------------------------ */

int session_pids(struct keeper *k, const struct keeper_session *s, pid_t **ret, size_t *ret_count)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);
	autobuf struct buf b = BUF_INIT(1 << 20);
	char few[1024], *p, *end;
	struct err ignored;
	size_t n = 0;
	int got;

	*ret = NULL;
	*ret_count = 0;
	got = c ? cgroup_read_held(&c->leaf, HELD_PROCS, c->leaf.v2_fd, "cgroup.procs", few, sizeof(few)) : -1;
	p = few;
	if (got == (int)sizeof(few) - 1) {
		autoclose int fd = openat(c->leaf.v2_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);

		got = fd < 0 || io_read_all(fd, &b, "cgroup.procs", &ignored) < 0 ? -1 : (int)b.len;
		p = b.data;
	}
	if (got <= 0)
		return -1;
	*ret = calloc((size_t)got / 2 + 1, sizeof(**ret));
	if (!*ret)
		return -1;
	for (; *p; p = *end ? end + 1 : end) {
		long v = strtol(p, &end, 10);

		if (end == p)
			break;
		if (v > 0)
			(*ret)[n++] = (pid_t)v;
	}
	*ret_count = n;
	return 0;
}

/* /proc/PID/FILE, cut to n - 1 bytes: its length, -1 when the process is gone. */
static int read_proc(pid_t pid, const char *file, char *buf, unsigned n)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	return cgroup_read(AT_FDCWD, path, buf, n);
}

static pid_t shell_pid(const struct keeper_session *s, const pid_t *pids, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		char text[4096], *p;
		unsigned host, inner;

		if (read_proc(pids[i], "status", text, sizeof(text)) > 0 && (p = strstr(text, "\nNSpid:")) &&
		    sscanf(p, "\nNSpid: %u %u", &host, &inner) == 2 && inner == s->shell_ns_pid)
			return pids[i];
	}
	return 0;
}

static int in_baseline(const struct keeper_session *s, pid_t pid)
{
	size_t i;

	for (i = 0; i < s->baseline_count; i++)
		if (s->baseline[i] == pid)
			return 1;
	return 0;
}

static void look_pause(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_US * 1000L }, NULL);
}

/*
 * 1: frozen, thaw() it again; 0: it was frozen already.  What cannot freeze right
 * now (it waits for a disk) is not waited for: the look may then be a little late.
 */
static int freeze(struct keeper_command *c)
{
	uint64_t end = clock_ms() + FREEZE_MS;
	struct err ignored;
	char text[256];

	if (cgroup_read(c->leaf.v2_fd, "cgroup.freeze", text, sizeof(text)) <= 0 || text[0] != '0' ||
	    cgroup_freeze(&c->leaf, 1, &ignored) < 0)
		return 0;
	/* the kernel tells of it at most every 10 ms; that it is so can be read at once */
	while (cgroup_read(c->leaf.v2_fd, "cgroup.events", text, sizeof(text)) > 0 && !strstr(text, "frozen 1") && clock_ms() < end)
		look_pause();
	return 1;
}

static void thaw(struct keeper_command *c)
{
	struct err ignored;

	cgroup_freeze(&c->leaf, 0, &ignored);
}

/* ---- interrupts --------------------------------------------------------------------------- */

/* A process of the group, the shell aside; 0: none lives. */
static pid_t member_of(pid_t group, pid_t shell, const pid_t *pids, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (pids[i] != shell && getpgid(pids[i]) == group)
			return pids[i];
	return 0;
}

/* What /proc/PID/stat says of a process. */
struct process {
	int parent, group;
	unsigned flags;
	unsigned long long started;	/* clock ticks since the boot */
};

static int read_process(pid_t pid, struct process *ret)
{
	char text[512], *p;

	return read_proc(pid, "stat", text, sizeof(text)) > 0 && (p = strrchr(text, ')')) &&
	       sscanf(p, ") %*c %d %d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &ret->parent, &ret->group,
		      &ret->flags, &ret->started) == 4 ? 0 : -1;
}

static unsigned long long now_ticks(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (unsigned long long)now.tv_sec * 100 + (unsigned long long)now.tv_nsec / 10000000;
}

/*
 * What the shell has just started and not made the foreground yet: the youngest
 * of its children, if this command began it and it leads a group.  0: none.
 */
static pid_t starting(const struct keeper_session *s, pid_t shell, const pid_t *pids, size_t n)
{
	unsigned long long latest = 0;
	struct process p;
	pid_t found = 0;
	size_t i;

	for (i = 0; i < n; i++)
		if (pids[i] != shell && !in_baseline(s, pids[i]) && read_process(pids[i], &p) == 0 && p.parent == shell &&
		    (p.group == pids[i] || p.group == getpgid(shell)) && p.started >= latest) {
			latest = p.started;
			found = pids[i];
		}
	return found;
}

struct signals {
	unsigned long long pending, ignored, caught;
};

static unsigned long long set_of(const char *text, const char *field)
{
	unsigned long long set = 0;
	const char *p = strstr(text, field);

	if (p)
		sscanf(p + strlen(field), "%llx", &set);
	return set;
}

/* What /proc/PID/status says; all signals in each set when the process is gone. */
static struct signals signals_of(pid_t pid)
{
	char text[4096];

	if (read_proc(pid, "status", text, sizeof(text)) <= 0)
		return (struct signals){ ~0ULL, ~0ULL, ~0ULL };
	return (struct signals){ set_of(text, "\nSigPnd:") | set_of(text, "\nShdPnd:"), set_of(text, "\nSigIgn:"), set_of(text, "\nSigCgt:") };
}

enum fate { DIES, JUST_FORKED, DECIDES };

/*
 * What an interrupt makes of the group (0: of all the command started): all that
 * live die of it; or one is hardly forked and may end, or go on, without having
 * seen it; or one catches or ignores it, and its status will tell.
 */
static enum fate fate_of(const struct keeper_session *s, pid_t group, pid_t shell, unsigned long long at_ticks, const pid_t *pids, size_t n)
{
	const unsigned long long of_shell = signals_of(shell).caught;
	enum fate found = DIES;
	struct signals has;
	struct process p;
	size_t i;

	for (i = 0; i < n; i++) {
		if (pids[i] == shell || read_process(pids[i], &p) < 0 || (group ? p.group != group : in_baseline(s, pids[i])))
			continue;
		has = signals_of(pids[i]);
		if (has.ignored & INTERRUPT_BIT)
			return DECIDES;
		/* with the shell's own traps still, or it had no time to do much */
		if (p.parent == shell && p.flags & FORKED_NO_EXEC && (has.caught == of_shell || p.started + YOUNG_TICKS > at_ticks))
			found = JUST_FORKED;
		else if (has.caught & INTERRUPT_BIT)
			return DECIDES;
	}
	return found;
}

/* The terminal makes a signal of a byte in its own time: waits until pid has it, or will not take it. */
static void wait_for_interrupt(pid_t pid)
{
	uint64_t end = clock_ms() + SIGNAL_MS;
	struct signals has;

	while (clock_ms() < end) {
		has = signals_of(pid);
		if ((has.pending | has.ignored) & INTERRUPT_BIT)
			break;
		look_pause();
	}
}

/*
 * Interrupts the foreground by type(), which is told when nobody is left there: the
 * rest of the text is not to run when it dies of that.  The shell takes our signal
 * once its foreground has ended.
 */
static int interrupt_by(struct keeper *k, struct keeper_session *s, int (*type)(void *ctx, pid_t group, int alive), void *ctx)
{
	struct keeper_command *c = s->busy ? keeper_command_find(k, s->shell_seq) : NULL;
	pid_t *pids = NULL, group = 0, shell, member;
	unsigned long long at_ticks = now_ticks();	/* to freeze can take longer than a process is young */
	int own, alive, result, frozen = c ? freeze(c) : 0;
	enum fate fate;
	size_t n = 0;

	if (ioctl(s->tty_fd, TIOCGPGRP, &group) < 0 || group <= 1)
		group = 0;
	if (!c || !group || session_pids(k, s, &pids, &n) < 0) {
		result = type(ctx, group, 1);
		goto out;
	}
	shell = shell_pid(s, pids, n);
	member = member_of(group, shell, pids, n);
	/* else what just ended says by its status whether it died of that: the last of a pipe may not have begun yet */
	fate = fate_of(s, group, shell, at_ticks, pids, n);
	own = shell && (getpgid(shell) == group || fate != DECIDES);
	if (shell)
		kill(shell, own ? LEAVE_SIGNAL : INTERRUPTED_SIGNAL);
	alive = member || (shell && getpgid(shell) == group);
	result = type(ctx, group, alive);
	/* until then it may still throw away output, which is the next command's once we go on */
	if (frozen && alive)
		wait_for_interrupt(member ? member : shell);
	/* the interrupt itself may have hit what the trap had started */
	s->interrupted |= own;
	s->starting = !own ? 0 : fate == JUST_FORKED ? group : starting(s, shell, pids, n);
	s->nudge_ms = own ? clock_ms() + (s->starting ? NUDGE_SOON_MS : NUDGE_MS) : 0;
out:
	free(pids);
	if (frozen)
		thaw(c);
	return result;
}

static int signal_group(void *ctx, pid_t group, int alive)
{
	(void)ctx;
	(void)alive;
	return group ? kill(-group, SIGINT) : -1;
}

/* What this command started, the shell aside: how many got the signal. */
static size_t signal_started(const struct keeper_session *s, int signo, pid_t shell, const pid_t *pids, size_t n)
{
	size_t i, sent = 0;

	for (i = 0; i < n; i++)
		if (pids[i] != shell && !in_baseline(s, pids[i]) && kill(pids[i], signo) == 0)
			sent++;
	return sent;
}

/* Without a terminal no group is the foreground: all that the command started, or the shell when that is all. */
int session_signal_split(struct keeper *k, struct keeper_session *s, int signo)
{
	struct keeper_command *c = s->busy ? keeper_command_find(k, s->shell_seq) : NULL;
	unsigned long long at_ticks = now_ticks();
	int frozen = c ? freeze(c) : 0, own;
	pid_t *pids = NULL, shell = 0;
	enum fate fate;
	size_t n = 0, sent = 0;

	if (c && session_pids(k, s, &pids, &n) == 0)
		shell = shell_pid(s, pids, n);
	if (shell && signo == SIGINT) {
		fate = fate_of(s, 0, shell, at_ticks, pids, n);
		own = fate != DECIDES;
		kill(shell, own ? LEAVE_SIGNAL : INTERRUPTED_SIGNAL);
		s->interrupted |= own;
		s->starting = own ? starting(s, shell, pids, n) : 0;
		s->nudge_ms = own ? clock_ms() + (fate == JUST_FORKED ? NUDGE_SOON_MS : NUDGE_MS) : 0;
	}
	if (shell)
		sent = signal_started(s, signo, shell, pids, n);
	if (shell && !sent && signo == SIGINT)
		sent = kill(shell, signo) == 0;	/* it may wait in a built-in */
	free(pids);
	if (frozen)
		thaw(c);
	return sent ? 0 : -1;
}

int session_interrupt(struct keeper *k, struct keeper_session *s)
{
	if (s->tty_fd < 0)
		return -1;
	if (s->split)
		return session_signal_split(k, s, SIGINT);
	/* between two commands there may be no group: then the shell has been told */
	return interrupt_by(k, s, signal_group, NULL) < 0 && !s->busy ? -1 : 0;
}

/* How many of these bytes there are up to the last that the terminal makes an interrupt of; 0: none. */
static size_t interrupt_end(const struct keeper_session *s, const char *p, size_t n)
{
	struct termios t;
	const char *last;

	if (!n || s->split || tcgetattr(s->tty_fd, &t) < 0 || !(t.c_lflag & ISIG))
		return 0;
	last = memrchr(p, t.c_cc[VINTR], n);
	return last ? (size_t)(last - p) + 1 : 0;
}

struct typed {
	int fd;
	const char *p;
	size_t n, interrupt;
	ssize_t written;
};

static int type_bytes(void *ctx, pid_t group, int alive)
{
	struct typed *t = ctx;
	/* for nobody: all that the interrupt would do, in its own time, is throw away the next command's output */
	size_t skip = alive ? 0 : t->interrupt;

	(void)group;
	t->written = t->n > skip ? write(t->fd, t->p + skip, t->n - skip) : 0;
	if (t->written >= 0)
		t->written += (ssize_t)skip;
	return t->written < 0 ? -1 : 0;
}

ssize_t session_type(struct keeper *k, struct keeper_session *s, const char *p, size_t n)
{
	struct typed t = { s->tty_fd, p, n, interrupt_end(s, p, n), -1 };

	if (t.interrupt)
		interrupt_by(k, s, type_bytes, &t);
	else
		type_bytes(&t, 0, 1);
	return t.written;
}

static void kill_if_there(pid_t pid, const pid_t *pids, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (pids[i] == pid)
			kill(pid, SIGINT);
}

void session_nudge(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	pid_t *pids = NULL, group = 0, shell = 0;
	size_t n = 0;

	if (session_pids(k, s, &pids, &n) == 0 && (shell = shell_pid(s, pids, n)))
		kill(shell, LEAVE_SIGNAL);
	/* it came to the foreground, or had its own way with signals, after the interrupt that was meant for it */
	if (s->starting && s->split) {
		kill_if_there(s->starting, pids, n);
		s->starting = 0;
	} else if (s->starting && ioctl(s->tty_fd, TIOCGPGRP, &group) == 0 && group == s->starting && member_of(group, shell, pids, n)) {
		kill(-group, SIGINT);
		s->starting = 0;
	}
	free(pids);
	s->nudge_ms = ++s->nudged < NUDGES ? now + NUDGE_MS : 0;
}

/* ---- by force -------------------------------------------------------------------------------- */

/*
 * Ends exactly the command's own tree: what was not there before the command, the
 * shell aside, dies, wherever it went by setsid or a double fork.
 */
static void kill_tree(struct keeper *k, struct keeper_session *s)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);
	struct err ignored;
	pid_t *pids = NULL, shell;
	size_t n = 0, i;

	if (!c)
		return;
	cgroup_freeze(&c->leaf, 1, &ignored);
	if (session_pids(k, s, &pids, &n) == 0) {
		shell = shell_pid(s, pids, n);
		for (i = 0; i < n; i++)
			if (pids[i] != shell && !in_baseline(s, pids[i]))
				kill(pids[i], SIGKILL);
		/* the shell may loop by itself or be stopped; and it must not go on with the rest of the text */
		if (shell) {
			kill(shell, SIGCONT);
			kill(shell, s->escalated < 2 ? LEAVE_SIGNAL : LEAVE_ONE_SIGNAL);
		}
	}
	free(pids);
	thaw(c);
}

void session_force(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);
	struct err ignored;

	s->escalate_ms = now + (s->escalated ? ESCALATE_MS : ESCALATE_FIRST_MS);
	if (c && s->facts.timed_out && (k->paused || k->held_by)) {
		/* the shell stands still: it cannot say that it is back */
		s->escalate_ms = 0;
		keeper_command_killed(k, c);
		return;
	}
	if (s->escalated == 0 && s->on_timeout == ON_TIMEOUT_INTERRUPT) {
		session_interrupt(k, s);
		s->escalate_ms = now + (k->spec->grace_ms ? k->spec->grace_ms : 1);
	} else if (s->escalated < ESCALATE_MAX) {
		kill_tree(k, s);
	} else if (c) {
		/* nothing brings the shell back: it goes, and the answer says so */
		cgroup_kill(&c->leaf, &ignored);
		s->escalate_ms = 0;
	}
	s->escalated++;
}
