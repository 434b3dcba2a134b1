/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

/* ---- where a program of ours is ---- */

/*
 * The path starts at the directory of our executable. -1 with errno if neither place has the
 * program.
 */
static int open_beside_us(const char *name)
{
	static const char *const installed[] = { "../libexec/berth", "../sbin" };
	char exe[4096], path[128];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	autoclose int dir = -1;
	char *slash;
	size_t i;
	int fd;

	if (n < 0)
		return -1;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash) {
		errno = ENOENT;
		return -1;
	}
	slash[slash == exe] = '\0';
	dir = open(exe, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	fd = openat(dir, name, O_PATH | O_CLOEXEC);
	for (i = 0; i < ARRAY_LEN(installed) && fd < 0 && errno == ENOENT; i++) {
		snprintf(path, sizeof(path), "%s/%s", installed[i], name);
		fd = openat(dir, path, O_PATH | O_CLOEXEC);
	}
	return fd;
}

int program_open(const char *name, struct err *e)
{
	int fd = open_beside_us(name);

	if (fd < 0) {
		err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "%s beside berth or in ../libexec/berth", name);
		return err_hint(e, "install berth with make install, or build it with make");
	}
	return fd;
}

/* ---- running a program to its end ---- */

static void exec_host_program(const char *path, const char *const *argv, int pass_fd)
{
	static char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", NULL };
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		_exit(127);
	if (pass_fd == 3 ? fcntl(3, F_SETFD, 0) < 0 : pass_fd >= 0 && dup2(pass_fd, 3) < 0)
		_exit(127);
	syscall(SYS_close_range, pass_fd >= 0 ? 4 : 3, ~0U, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(path, (char *const *)argv, env);
	_exit(errno == ENOENT ? 127 : 126);
}

int process_run(const char *path, const char *const *argv, int pass_fd, int *ret_status, struct err *e)
{
	int status;
	pid_t pid;

	if (access(path, X_OK) < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "run %s", path);
	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork for %s", path);
	if (pid == 0)
		exec_host_program(path, argv, pass_fd);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for %s", path);
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return 0;
}

/* ---- a helper on a socket ---- */

#define HIGH 64	/* above all descriptors that are handed over */

/* In the child: only async-signal-safe calls; fds[] become HELPER_SOCK and up, in order. */
static void __attribute__((noreturn)) become(int program, char *const *argv, const int *fds, int n)
{
	static char *const env[] = { (char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LC_ALL=C.UTF-8", NULL };
	int high[HELPER_FDS_MAX + 1], null = open("/dev/null", O_RDWR), i;
	sigset_t none;

	program = fcntl(program, F_DUPFD_CLOEXEC, HIGH);
	for (i = 0; i < n; i++)
		high[i] = fcntl(fds[i] >= 0 ? fds[i] : null, F_DUPFD_CLOEXEC, HIGH);
	for (i = 0; i < HELPER_SOCK; i++)
		if (dup2(null, i) < 0)
			_exit(127);
	for (i = 0; i < n; i++)
		if (dup2(high[i], HELPER_SOCK + i) < 0)
			_exit(127);
	syscall(SYS_close_range, HELPER_SOCK + n, program - 1, 0);
	syscall(SYS_close_range, program + 1, ~0U, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_IGN);
	execveat(program, "", argv, env, AT_EMPTY_PATH);
	_exit(126);
}

int helper_start(struct helper *h, int program, char *const *argv, const int *fds, size_t n, struct err *e)
{
	int all[HELPER_FDS_MAX + 1], sv[2];

	*h = (struct helper){ .sock = -1, .name = argv[0] };
	if (n > HELPER_FDS_MAX)
		return err_set(e, ERR_INTERNAL, "%s: too many descriptors", argv[0]);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, "make the socket of %s", argv[0]);
	all[0] = sv[1];
	if (n)
		memcpy(all + 1, fds, n * sizeof(*fds));
	h->pid = fork();
	if (h->pid == 0)
		become(program, argv, all, (int)n + 1);
	h->sock = sv[0];
	close(sv[1]);
	if (h->pid < 0) {
		h->pid = 0;
		fd_close(&h->sock);
		return err_sys(e, "fork %s", argv[0]);
	}
	return 0;
}

void helper_end(struct helper *h, int signo)
{
	fd_close(&h->sock);
	if (h->pid <= 0)
		return;
	if (signo)
		kill(h->pid, signo);	/* ours and not reaped: the pid cannot be another's */
	while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
	h->pid = 0;
}

int helper_answer(struct helper *h, int timeout_ms, json_t **ret, struct err *e)
{
	autofree char *packet = malloc(HELPER_PACKET_MAX);
	struct pollfd p = { .fd = h->sock, .events = POLLIN };
	ssize_t n;
	int ready;

	if (!packet)
		return err_nomem(e);
	do
		ready = poll(&p, 1, timeout_ms);
	while (ready < 0 && errno == EINTR);
	if (ready == 0)
		return err_set(e, ERR_TIMEOUT, "%s did not answer within %d s", h->name, timeout_ms / 1000);
	n = recv(h->sock, packet, HELPER_PACKET_MAX, MSG_DONTWAIT);
	if (n < (ssize_t)sizeof(*e))
		return err_set(e, ERR_INTERNAL, "%s ended without an answer", h->name);
	memcpy(e, packet, sizeof(*e));
	e->msg[sizeof(e->msg) - 1] = '\0';
	if (e->code < 0 || e->code >= ERR_CODE_COUNT)
		e->code = ERR_INTERNAL;
	if (e->code != ERR_NONE)
		return -1;
	if (!ret)
		return 0;
	*ret = json_parse(packet + sizeof(*e), (size_t)n - sizeof(*e), HELPER_PACKET_MAX, h->name, e);
	return *ret ? 0 : -1;
}
