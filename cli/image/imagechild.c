/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/imagechild.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run/imageprog.h"

struct child {
	const struct command *self;
	int json;
	char **argv;
	const int *fds;
	size_t count;
	int out_fd;
	pid_t parent;
};

static void become(const struct child *c) __attribute__((noreturn));
static void become(const struct child *c)
{
	struct err e = { 0 };
	size_t i;

	/* if we are killed, a sandbox that stood still goes on: nobody may read it any more */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		err_sys(&e, "end berth-image with us");
	else if (c->out_fd >= 0 && dup2(c->out_fd, STDOUT_FILENO) < 0)
		err_sys(&e, "take what berth-image tells");
	if (e.code != ERR_NONE || getppid() != c->parent)
		_exit(command_fail(c->self, &e, c->json));
	for (i = 0; i < c->count; i++)
		fcntl(c->fds[i], F_SETFD, 0);
	imageprog_exec(c->argv, &e);
	_exit(command_fail(c->self, &e, c->json));
}

int imagechild_run(const struct command *self, int json, char **argv, const int *fds, size_t n,
		   int out_fd, int *ret_status, struct err *e)
{
	const struct child c = { self, json, argv, fds, n, out_fd, getpid() };
	int status;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (!pid)
		become(&c);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for berth-image");
	if (!WIFEXITED(status))
		return err_set(e, ERR_INTERNAL, "berth-image was killed by signal %d",
			       WTERMSIG(status));
	*ret_status = WEXITSTATUS(status);
	return 0;
}
