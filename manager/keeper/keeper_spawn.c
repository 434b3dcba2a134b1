/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a keeper, and the guardian of a sandbox with a restart policy. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/keeper/guardian.h"
#include "manager/keeper/keeper_state.h"

#define READ_TRIES 3

/*
 * The child of the caller, and parent of the keeper: so the keeper is not the child of a process
 * that would have to wait for it, except its guardian.
 */
static void between(const struct keeper_start *ks, int ready_fd,
		    int go[2]) __attribute__((noreturn));
static void between(const struct keeper_start *ks, int ready_fd, int go[2])
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
		between(ks, fds[1], go);
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
