/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/keeper_state.h"

/* ---- the guardian ---- */

#define WORDS_MAX 8

/*
 * Executes berth by its path: after an upgrade that is the new program. If the path is gone, the
 * old program runs.
 */
void guardian_exec(const char *word, ...)
{
	static const char self[] = "/proc/self/exe", deleted[] = " (deleted)";
	const char *words[WORDS_MAX + 3] = { "berth", RESTART_VERB, word };
	char path[4096], *end;
	ssize_t n = readlink(self, path, sizeof(path) - 1);
	size_t i = 3;
	va_list ap;

	va_start(ap, word);
	while (i < WORDS_MAX + 2 && (words[i] = va_arg(ap, const char *)))
		i++;
	va_end(ap);
	path[n > 0 ? n : 0] = '\0';
	end = n > (ssize_t)sizeof(deleted) ? path + n - (sizeof(deleted) - 1) : NULL;
	if (end && !strcmp(end, deleted))
		*end = '\0';
	execv(path, (char *const *)words);
	execv(self, (char *const *)words);
}

void guardian_become(const char *id, uint64_t backoff_ms, int go_fd)
{
	char word, last[24];
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	(void)!chdir("/");
	prctl(PR_SET_NAME, "berth-guard");
	if (io_read_exact(go_fd, &word, 1) != 1)
		_exit(0);
	snprintf(last, sizeof(last), "%" PRIu64, backoff_ms);
	syscall(SYS_close_range, 0, ~0U, 0);
	guardian_exec(id, last, (char *)NULL);
	_exit(125);
}

/* ---- the start ---- */

/* Starts a keeper, and the guardian of a sandbox with a restart policy. */

#define READ_TRIES 3

/*
 * The child of the caller, and parent of the keeper: so the keeper is not the child of a process
 * that would have to wait for it, except its guardian.
 */
static void run_between(const struct keeper_start *ks, int ready_fd,
		    int go[2]) __attribute__((noreturn));
static void run_between(const struct keeper_start *ks, int ready_fd, int go[2])
{
	pid_t pid;

	/* the caller's, and a guardian would keep it for ever */
	fd_close(&ks->registry->pool_fd);
	pid = fork();
	if (pid == 0) {
		fd_close(&go[0]);
		keeper_main(ks, ready_fd, go[1]);
	}
	if (pid < 0 || go[0] < 0)
		_exit(0);
	close(ready_fd);
	close(go[1]);
	guardian_become(ks->spec->id, ks->service->backoff_ms, go[0]);
}

int keeper_spawn(const struct keeper_start *ks, struct err *e)
{
	const int guarded = ks->service && ks->service->restart.when != RESTART_NO;
	autoclose int ready = -1;
	int fds[2], go[2] = { -1, -1 }, got, tries = 0;
	struct err answer;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	ready = fds[0];
	if (guarded && pipe2(go, O_CLOEXEC) < 0) {
		close(fds[1]);
		return err_sys(e, "make a pipe");
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		run_between(ks, fds[1], go);
	}
	close(fds[1]);
	fd_close(&go[0]);
	fd_close(&go[1]);
	if (pid < 0)
		return err_sys(e, "fork the keeper");
	/* a guardian outlives us */
	while (!guarded && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
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
