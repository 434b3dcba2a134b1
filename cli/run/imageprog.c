/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/imageprog.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/program.h"
#include "manager/host/config.h"

#define PROGRAM "berth-image"
#define ENSURE_FD 3	/* where it says why not */

int imageprog_exec(char **argv, struct err *e)
{
	autoclose int fd = program_open(PROGRAM, e);
	static char name[] = PROGRAM;
	struct config c;

	if (fd < 0)
		return -1;
	/* where the store is, the configuration may say */
	if (config_load(&c, e) < 0)
		return -1;
	if (setenv("BERTH_STATE_DIR", c.state_dir, 1) < 0)
		return err_nomem(e);
	argv[0] = name;
	execveat(fd, "", argv, environ, AT_EMPTY_PATH);
	return err_sys(e, "execute " PROGRAM);
}

int imageprog_command(const struct command *self, const char *verb, int argc, char **argv)
{
	autofree char **words = calloc((size_t)argc + 2, sizeof(*words));
	struct err e;

	if (!words) {
		err_nomem(&e);
		return command_fail(self, &e, 0);
	}
	words[1] = (char *)verb;
	memcpy(words + 2, argv + 1, (size_t)argc * sizeof(*words));	/* with its NULL */
	imageprog_exec(words, &e);
	return command_fail(self, &e, 0);
}

static void become_ensure(const char *ref, int quiet, int report_fd, pid_t parent)
{
	static char verb[] = "ensure", flag[] = "--quiet", end[] = "--";
	char *words[] = { NULL, verb, end, (char *)ref, NULL, NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err e;

	if (quiet) {
		words[2] = flag;
		words[3] = end;
		words[4] = (char *)ref;
	}
	/* our caller is gone: nobody wants the image any more */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(1);
	if (null >= 0 && dup2(null, STDIN_FILENO) == 0 && dup2(null, STDOUT_FILENO) == 1 &&
	    (report_fd == ENSURE_FD ? fcntl(report_fd, F_SETFD, 0) : dup2(report_fd, ENSURE_FD)) >= 0) {
		imageprog_exec(words, &e);
		(void)!io_write_all(report_fd, &e, sizeof(e));
	}
	_exit(1);
}

int imageprog_ensure(const char *ref, int quiet, struct err *e)
{
	struct err told = { 0 };
	int fds[2], status = 0, got;
	pid_t pid, me = getpid();

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	pid = fork();
	if (!pid)
		become_ensure(ref, quiet, fds[1], me);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return err_sys(e, "fork");
	}
	got = io_read_exact(fds[0], &told, sizeof(told));
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	told.msg[sizeof(told.msg) - 1] = '\0';
	if (got == 1 && told.code > 0 && told.code < ERR_CODE_COUNT)
		*e = told;
	else
		err_set(e, ERR_INTERNAL, PROGRAM " ended without a word (wait status 0x%x)", (unsigned)status);
	err_wrap(e, "pull image '%.200s'", ref);
	return strstr(e->msg, "hint:") ? -1 : err_hint(e, "--pull never takes what the store has");
}
