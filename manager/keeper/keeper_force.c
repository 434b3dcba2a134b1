/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a session's command before its time: interrupts of its foreground
 * and, at a timeout, everything it started.  The shell and its state live on.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "manager/keeper/keeper_session.h"

#define ESCALATE_FIRST_MS 1200	/* time for the shell to leave many levels, a fork each */
#define ESCALATE_MS 100
#define ESCALATE_MAX 10
#define NUDGE_MS 150
#define NUDGE_SOON_MS 5
#define NUDGES 5
#define SIGNAL_MS 250	/* time that the kernel's worker may need for it on a busy machine */
#define YOUNG_TICKS 15	/* of 10 ms, because a sandbox at its CPU limit may wait for most of 100 */
#define WITHDRAWN "return 130"
#define INTERRUPT_BIT (1ULL << (SIGINT - 1))

/* ---- interrupts --------------------------------------------------------------------------- */

/* A process of the group, the shell aside; 0: none lives. */
static pid_t foreground_member(pid_t group, pid_t shell, const pid_t *pids, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (pids[i] != shell && getpgid(pids[i]) == group)
			return pids[i];
	return 0;
}

/*
 * Tells whether a process is still alive: the terminal's foreground may be long gone, and its
 * number another process's.
 */
static int is_live(struct keeper *k, const struct keeper_session *s, pid_t group)
{
	pid_t *pids = NULL;
	size_t n = 0;
	int r = group && look_pids(k, s, &pids, &n) == 0 && foreground_member(group, 0, pids, n);

	free(pids);
	return r;
}

/*
 * What the shell has just started and not made the foreground yet: the youngest of its children that
 * this command began, one that leads a group and one that is in the shell's still. The processes of a
 * pipe join the group of the first one after the other. 0: none.
 */
struct beginners {
	pid_t leads, joins;
};

static struct beginners find_beginners(const struct keeper_session *s, const struct look *l)
{
	unsigned long long leader = 0, joiner = 0;
	struct beginners found = { 0, 0 };
	struct process p;
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (l->pids[i] == l->shell || look_is_older(s, l->pids[i]) || look_process(l->pids[i], &p) < 0 || p.parent != l->shell)
			continue;
		if (p.group == l->pids[i] && p.started >= leader) {
			leader = p.started;
			found.leads = l->pids[i];
		} else if (p.group == getpgid(l->shell) && p.started >= joiner) {
			joiner = p.started;
			found.joins = l->pids[i];
		}
	}
	return found;
}

enum fate { DIES, JUST_FORKED, DECIDES };

/*
 * The effect of an interrupt on the group (0: all processes of the command): all living ones die
 * of it; or one has hardly been forked and may end, or go on, without having seen it; or one
 * catches or ignores it, and its status will show that.
 */
static enum fate fate_of(const struct keeper_session *s, pid_t group, const struct look *l)
{
	const unsigned long long of_shell = look_signals(l->shell).caught;
	enum fate found = DIES;
	struct signals has;
	struct process p;
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (l->pids[i] == l->shell || look_process(l->pids[i], &p) < 0 ||
		    (group ? p.group != group : look_is_of_older(s, l->shell, l->pids[i])))
			continue;
		has = look_signals(l->pids[i]);
		/* ended before it could be frozen */
		if (!~has.pending) {
			found = JUST_FORKED;
			continue;
		}
		if (has.ignored & INTERRUPT_BIT)
			return DECIDES;
		/* it still has the shell's own traps, or had no time to do much */
		if (p.parent == l->shell && p.flags & FORKED_NO_EXEC && (has.caught == of_shell || p.started + YOUNG_TICKS > l->at_ticks))
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
		has = look_signals(pid);
		if ((has.pending | has.ignored) & INTERRUPT_BIT)
			break;
		look_pause();
	}
}

/*
 * Tells whether the shell is in the text: before and after it, the shell's descriptor 9 is the
 * status pipe; before that it is not a shell yet.
 */
static int in_text(const struct keeper_session *s, pid_t shell)
{
	char path[40], target[64], pipe[64];
	struct process p;
	struct stat st;
	ssize_t n;

	if (look_process(shell, &p) == 0 && p.flags & FORKED_NO_EXEC)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/fd/9", shell);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0 || s->status_fd < 0 || fstat(s->status_fd, &st) < 0)
		return 1;
	target[n] = '\0';
	snprintf(pipe, sizeof(pipe), "pipe:[%llu]", (unsigned long long)st.st_ino);
	return strcmp(target, pipe) != 0;
}

/*
 * Withdraws the text: 1 if the shell starts, or is at our lines before the text. It will find a
 * text in its place that only returns: there is nothing to interrupt, and the shell may have no
 * traps yet. (At the lines after the text the shell no longer reads it.)
 */
static int withdraw(struct keeper *k, struct keeper_session *s, pid_t shell)
{
	char tracing[sizeof(s->tracing)];
	struct err ignored;
	int r;

	if (shell ? in_text(s, shell) : !!s->shell_ns_pid)
		return 0;
	/* our own process is not traced */
	memcpy(tracing, s->tracing, sizeof(tracing));
	s->tracing[0] = '\0';
	r = session_put_text(k, s, WITHDRAWN, strlen(WITHDRAWN), &ignored);
	memcpy(s->tracing, tracing, sizeof(tracing));
	if (r < 0)
		return 0;
	/* a shell that could not be frozen in time may have read it meanwhile: then it is interrupted */
	s->again = ++s->withdrawn < NUDGES;
	s->nudge_ms = s->again ? clock_ms() + NUDGE_MS : 0;
	return 1;
}

/* Notes whether the shell was told to leave, and which processes the interrupt may have missed. */
static void follow_up(struct keeper_session *s, int own, unsigned long long at_ticks, struct beginners missed, int soon)
{
	s->interrupted |= own;
	s->interrupted_ticks = at_ticks;
	s->leads = missed.leads;
	s->joins = missed.joins;
	s->nudged = s->told = s->again = 0;
	s->nudge_ms = own ? clock_ms() + ((s->leads || s->joins) && soon ? NUDGE_SOON_MS : NUDGE_MS) : 0;
}

/*
 * Interrupts the foreground by type(). type() reports if no process is left there, because the
 * rest of the text must not run when the foreground dies of it. The shell takes our signal once
 * its foreground has ended.
 */
static int interrupt_foreground(struct keeper *k, struct keeper_session *s, const struct look *l, int (*type)(void *ctx, pid_t group, int alive), void *ctx)
{
	struct beginners missed = { 0, 0 };
	pid_t group = 0, member;
	int own, alive, result;
	enum fate fate;

	if (ioctl(s->tty_fd, TIOCGPGRP, &group) < 0 || group <= 1)
		group = 0;
	member = foreground_member(group, l->shell, l->pids, l->n);
	if (l->c && withdraw(k, s, l->shell))
		return type(ctx, group, l->shell && member);
	if (!l->n || !group)
		return type(ctx, group, is_live(k, s, group));
	/*
	 * otherwise the status of the ended command shows whether it died of that: the last process
	 * of a pipe may not have begun yet
	 */
	fate = fate_of(s, group, l);
	own = l->shell && (getpgid(l->shell) == group || fate != DECIDES);
	if (l->shell)
		kill(l->shell, own ? LEAVE_SIGNAL : INTERRUPTED_SIGNAL);
	alive = member || (l->shell && getpgid(l->shell) == group);
	result = type(ctx, group, alive);
	/* until then it may still throw away output, which is the next command's once we go on */
	if (l->frozen && alive)
		wait_for_interrupt(member ? member : l->shell);
	/* the interrupt itself may have hit a process that the trap had started */
	if (own && fate == JUST_FORKED && group != getpgid(l->shell))
		missed.leads = group;
	else if (own)
		missed = find_beginners(s, l);
	follow_up(s, own, l->at_ticks, missed, 1);
	return result;
}

static int interrupt_by(struct keeper *k, struct keeper_session *s, int (*type)(void *ctx, pid_t group, int alive), void *ctx)
{
	struct look l;
	int result;

	look_begin(k, s, &l);
	result = interrupt_foreground(k, s, &l, type, ctx);
	look_end(&l);
	return result;
}

static int signal_group(void *ctx, pid_t group, int alive)
{
	(void)ctx;
	return group && alive ? kill(-group, SIGINT) : -1;
}

/* Signals the processes that this command started, the shell aside; returns how many got the signal. */
static size_t signal_started(const struct keeper_session *s, int signo, const struct look *l)
{
	size_t i, sent = 0;

	for (i = 0; i < l->n; i++)
		if (l->pids[i] != l->shell && !look_is_of_older(s, l->shell, l->pids[i]) && kill(l->pids[i], signo) == 0)
			sent++;
	return sent;
}

static int signal_split(struct keeper *k, struct keeper_session *s, const struct look *l, int signo)
{
	enum fate fate;
	int own;

	if (l->c && signo == SIGINT && withdraw(k, s, l->shell))
		return 0;
	if (!l->shell)
		return -1;
	if (signo == SIGINT) {
		fate = fate_of(s, 0, l);
		own = fate != DECIDES;
		kill(l->shell, own ? LEAVE_SIGNAL : INTERRUPTED_SIGNAL);
		follow_up(s, own, l->at_ticks, own ? find_beginners(s, l) : (struct beginners){ 0, 0 }, fate == JUST_FORKED);
	}
	if (signal_started(s, signo, l))
		return 0;
	return signo == SIGINT ? kill(l->shell, signo) : -1;	/* it may wait in a built-in */
}

/*
 * Signals without a terminal, where no group is the foreground: all processes that the command
 * started, or the shell if there are none.
 */
static int signal_split_by(struct keeper *k, struct keeper_session *s, int signo)
{
	struct look l;
	int result;

	look_begin(k, s, &l);
	result = signal_split(k, s, &l, signo);
	look_end(&l);
	return result;
}

int session_signal(struct keeper *k, struct keeper_session *s, int signo)
{
	pid_t group = 0;

	if (s->split)
		return signal_split_by(k, s, signo);
	if (s->tty_fd < 0 || ioctl(s->tty_fd, TIOCGPGRP, &group) < 0 || group <= 1 || !is_live(k, s, group))
		return -1;
	return kill(-group, signo);
}

int session_interrupt(struct keeper *k, struct keeper_session *s)
{
	if (s->tty_fd < 0)
		return -1;
	if (s->split)
		return signal_split_by(k, s, SIGINT);
	/* between two commands there may be no group: then the shell has got the signal */
	return interrupt_by(k, s, signal_group, NULL) < 0 && !s->busy ? -1 : 0;
}

/* Returns how many of these bytes end with the last that the terminal makes an interrupt of; 0: none. */
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
	/*
	 * without a receiver: an interrupt would only, a moment later, throw away the next
	 * command's output
	 */
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

/*
 * Did the interrupt miss it?  It was hardly forked and came to the foreground later, or the shell, which looks at its traps
 * between two commands only, started it after that.  (Where the texts have traps of their own, one may have started it to clean up.)
 */
static int was_missed(const struct keeper_session *s, pid_t pid, pid_t shell, pid_t group)
{
	struct process p;

	if (pid == shell || look_is_of_older(s, shell, pid) || look_process(pid, &p) < 0 ||
	    (!s->split && (p.group != group || group == getpgid(shell))))
		return 0;
	if (pid == s->joins || p.group == s->joins || pid == s->leads || p.group == s->leads)
		return 1;
	/* without groups each process of a pipe may have been hardly forked */
	if (s->split && (s->joins || s->leads) && p.started + YOUNG_TICKS > s->interrupted_ticks)
		return 1;
	return !s->traps && p.started >= s->interrupted_ticks;
}

void session_nudge(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	pid_t *pids = NULL, group = 0, shell = 0;
	int catches = 0, is_caught;
	size_t n = 0, i;

	s->nudge_ms = 0;
	/*
	 * its output meanwhile may be the end of the text: then our signal would hit the next text
	 */
	if (s->status_fd >= 0)
		session_status(k, s);
	if (!s->busy)
		return;
	if (k->paused || k->held_by) {
		s->nudge_ms = now + NUDGE_MS;	/* it is frozen */
		return;
	}
	if (s->again) {
		s->again = 0;
		session_interrupt(k, s);
		return;
	}
	if (look_pids(k, s, &pids, &n) == 0 && (shell = look_shell(s, pids, n)) && in_text(s, shell))
		kill(shell, LEAVE_SIGNAL);
	if (!s->split && ioctl(s->tty_fd, TIOCGPGRP, &group) < 0)
		group = 0;
	for (i = 0; shell && i < n; i++) {
		if (!was_missed(s, pids[i], shell, group))
			continue;
		/* a handler that cleans up after an interrupt is not interrupted */
		is_caught = !!(look_signals(pids[i]).caught & INTERRUPT_BIT);
		if (!is_caught || !s->told)
			kill(pids[i], SIGINT);
		catches |= is_caught;
	}
	s->told |= catches;
	free(pids);
	if (++s->nudged < NUDGES)
		s->nudge_ms = now + NUDGE_MS;
}

/* ---- by force -------------------------------------------------------------------------------- */

/*
 * Kills what was not there before the command, wherever it went by setsid or a double
 * fork, while nothing can fork; but not the shell, which gets signo (0: none), nor what
 * earlier jobs start.  Returns how many there were.
 */
static size_t kill_new(struct keeper *k, struct keeper_session *s, struct keeper_command *c, int signo)
{
	const int frozen = look_freeze(c);
	pid_t *pids = NULL, shell;
	size_t n = 0, i, killed = 0;

	if (look_pids(k, s, &pids, &n) == 0) {
		shell = look_shell(s, pids, n);
		for (i = 0; i < n; i++)
			if (pids[i] != shell && !look_is_of_older(s, shell, pids[i]) && kill(pids[i], SIGKILL) == 0)
				killed++;
		/* the shell may loop by itself or be stopped; and it must not go on with the rest of the text */
		if (shell && signo) {
			kill(shell, SIGCONT);
			kill(shell, signo);
		}
	}
	free(pids);
	if (frozen)
		look_thaw(c);
	return killed;
}

/* Ends exactly the command's own tree. */
static void kill_tree(struct keeper *k, struct keeper_session *s)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);
	struct err ignored;

	if (!c)
		return;
	s->tree_killed = 1;
	kill_new(k, s, c, s->escalated < 2 ? LEAVE_SIGNAL : LEAVE_ONE_SIGNAL);
	/* it may have been frozen before, by its own timeout or for a cancel */
	cgroup_freeze(&c->leaf, 0, &ignored);
}

/*
 * Kills processes when the shell is back: no look has seen those that it forked between its last look
 * at its traps and the look that made it leave; and a killed process may need a moment to end.
 */
void session_sweep(struct keeper *k, struct keeper_session *s, struct keeper_command *c)
{
	const uint64_t end = clock_ms() + KEEPER_DYING_MS;

	while (kill_new(k, s, c, 0) && clock_ms() < end)
		look_pause();
}

void session_force(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);
	struct err ignored;

	s->escalate_ms = now + (s->escalated ? ESCALATE_MS : ESCALATE_FIRST_MS);
	if (c && s->facts.timed_out && (k->paused || k->held_by)) {
		/* the shell is stopped: it cannot report that it is back */
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
		/* nothing brings the shell back, so it is killed, and the answer says so */
		cgroup_kill(&c->leaf, &ignored);
		s->escalate_ms = 0;
	}
	s->escalated++;
}
