/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void in_child(const char *path, const char *const *argv, int pass_fd)
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
		in_child(path, argv, pass_fd);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for %s", path);
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return 0;
}
