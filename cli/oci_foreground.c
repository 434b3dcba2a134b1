/* SPDX-License-Identifier: Apache-2.0 */
/* A container or an exec in the foreground: signals in, terminal bytes both ways, exit status out. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/oci_cli.h"
#include "runtime/oci_create.h"
#include "runtime/tty.h"

void oci_hold_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	/* faults of our own stay what they are */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGABRT);
	sigprocmask(SIG_SETMASK, &all, NULL);
	/* without a pid namespace, the orphans of the container come to us */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* 1 when pid ended: *ret_status. */
static int reap(pid_t pid, int *ret_status)
{
	int status, ended = 0;
	pid_t got;

	while ((got = waitpid(-1, &status, WNOHANG)) > 0) {
		if (got != pid)
			continue;
		ended = 1;
		*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	return ended;
}

static int serve_signal(int fd, pid_t pid, struct tty *t)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	if (info.ssi_signo == SIGCHLD)
		return 1;
	if (info.ssi_signo == SIGWINCH && t) {
		tty_resize(t);
		return 0;
	}
	/* one that the terminal sent to the whole foreground group has reached it already, where it shares ours */
	kill(pid, (int)info.ssi_signo);
	return 0;
}

static int loop(pid_t pid, int signals, struct tty *t, struct err *e)
{
	int status = 0;

	if (reap(pid, &status))
		return status;
	for (;;) {
		struct pollfd p[1 + TTY_POLLS] = { { .fd = signals, .events = POLLIN } };

		if (t)
			tty_polls(t, p + 1);
		if (poll(p, t ? 1 + TTY_POLLS : 1, -1) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, "wait for the container");
		}
		if (t && tty_move(t, p + 1, e) < 0)
			return -1;
		if (p[0].revents && serve_signal(signals, pid, t) && reap(pid, &status))
			return status;
	}
}

int oci_foreground(struct oci_made *m, struct err *e)
{
	sigset_t all;
	autoclose int signals = -1;
	struct tty t;
	int status;

	sigfillset(&all);
	signals = signalfd(-1, &all, SFD_CLOEXEC);
	if (signals < 0)
		return err_sys(e, "take signals");
	if (m->master < 0)
		return loop(m->state.pid, signals, NULL, e);
	if (tty_open(&t, m->master, STDIN_FILENO, STDOUT_FILENO, e) < 0)
		return -1;
	status = loop(m->state.pid, signals, &t, e);
	if (status >= 0)
		tty_drain(&t);
	tty_close(&t);
	return status;
}
