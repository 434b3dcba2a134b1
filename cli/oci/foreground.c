/* SPDX-License-Identifier: Apache-2.0 */
/* A container or an exec in the foreground: signals in, terminal bytes both ways, exit status out. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/oci/cli.h"
#include "runtime/kernel/tty.h"
#include "runtime/oci/create.h"
#include "runtime/oci/json.h"
#include "runtime/oci/notify.h"

int oci_hold_signals(struct err *e)
{
	sigset_t all;

	sigfillset(&all);
	/* our own faults keep their status */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGABRT);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		return err_sys(e, "block signals");
	/* without a pid namespace, the orphans of the container come to us */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return 0;
}

/* 1 when pid ended: *ret_status. */
static int reap_foreground(pid_t pid, int *ret_status)
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
	/*
	 * a signal from the terminal has reached the whole foreground group already, if the
	 * container shares ours
	 */
	kill(pid, (int)info.ssi_signo);
	return 0;
}

static int foreground_loop(pid_t pid, int signals, int *notify_fd, struct tty *t, struct err *e)
{
	int status = 0;

	if (reap_foreground(pid, &status))
		return status;
	for (;;) {
		struct pollfd p[2 + TTY_POLLS] = { { .fd = signals, .events = POLLIN }, { .fd = *notify_fd, .events = POLLIN } };

		if (t)
			tty_polls(t, p + 2);
		if (poll(p, t ? 2 + TTY_POLLS : 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, "wait for the container");
		}
		if (t && tty_move(t, p + 2, e) < 0)
			return -1;
		/* we stay, and pass signals on: the service's main process is us */
		if (p[1].revents && oci_notify_take(*notify_fd, getpid(), e))
			fd_close(notify_fd);
		if (p[0].revents && serve_signal(signals, pid, t) && reap_foreground(pid, &status))
			return status;
	}
}

/* The container's terminal leaves newlines alone (oci_console_plain()): the caller's makes line ends of them. */
static void keep_returns(const struct tty *t)
{
	struct termios now;

	if (!t->raw || tcgetattr(t->in, &now) < 0)
		return;
	now.c_oflag |= t->saved.c_oflag & OPOST;
	tcsetattr(t->in, TCSADRAIN, &now);
}

void oci_last_words(const struct oci_made *m)
{
	char text[4096];
	size_t shown = 0;
	ssize_t n;

	if (m->master < 0 || fcntl(m->master, F_SETFL, O_NONBLOCK) < 0)
		return;
	/* bounded: another process that holds the terminal may go on for ever */
	while (shown < 1 << 20 && (n = read(m->master, text, sizeof(text))) > 0) {
		io_write_all(STDERR_FILENO, text, (size_t)n);
		shown += (size_t)n;
	}
}

int oci_foreground(struct oci_made *m, const json_t *process, struct err *e)
{
	/*
	 * the configuration's size comes before the window's, which the terminal has from its
	 * first change on
	 */
	int (*const join)(struct tty *, int, int, int, struct err *) =
		oci_get(process, "consoleSize") ? tty_open_sized : tty_open;
	sigset_t all;
	autoclose int signals = -1;
	struct tty t;
	int status;

	sigfillset(&all);
	signals = signalfd(-1, &all, SFD_CLOEXEC);
	if (signals < 0)
		return err_sys(e, "take signals");
	if (m->master < 0)
		return foreground_loop(m->state.pid, signals, &m->notify_fd, NULL, e);
	if (join(&t, m->master, STDIN_FILENO, STDOUT_FILENO, e) < 0)
		return -1;
	keep_returns(&t);
	status = foreground_loop(m->state.pid, signals, &m->notify_fd, &t, e);
	if (status >= 0)
		tty_drain(&t);
	tty_close(&t);
	return status;
}
