/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"

int oci_hooks_any(const json_t *config, const char *name)
{
	return json_array_size(oci_get2(config, "hooks", name)) > 0;
}

/* The strings of a JSON array with NULL behind; first is put before (or NULL).  NULL without memory. */
static char **strings(const json_t *list)
{
	char **out = calloc(json_array_size(list) + 2, sizeof(*out));
	size_t i;

	for (i = 0; out && i < json_array_size(list); i++)
		out[i] = (char *)json_string_value(json_array_get(list, i));
	return out;
}

/* A descriptor with the state in it, at its start. */
static int make_hook_state_file(const json_t *state, struct err *e)
{
	autofree char *text = json_dumps(state, JSON_COMPACT);
	autoclose int fd = memfd_create("state", MFD_CLOEXEC);

	if (!text)
		return err_nomem(e);
	if (fd < 0 || io_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "prepare the state for a hook");
	return take_fd(&fd);
}

static const char *const annotations[2] = { "run.oci.hooks.stdout", "run.oci.hooks.stderr" };

int oci_hooks_output(const json_t *config, int fds[2], struct err *e)
{
	size_t i;

	for (i = 0; i < 2; i++) {
		const char *path = oci_str(oci_get(config, "annotations"), annotations[i]);

		fds[i] = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0700) : -1;
		if (path && fds[i] < 0)
			return err_sys(e, "annotation %s: open %.200s", annotations[i], path);
	}
	return 0;
}

static void in_hook(const struct oci_hooks *h, const json_t *hook, int in, int err_pipe)
{
	const char *path = oci_str(hook, "path");
	const json_t *env = oci_get(hook, "env");
	char **argv = strings(oci_get(hook, "args"));
	int fds[2] = { -1, -1 };
	struct err ignored;
	sigset_t none;
	int saved;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (argv && !argv[0])
		argv[0] = (char *)path;
	if (h->cwd && chdir(h->cwd) < 0 && chdir("/") < 0)
		goto fail;
	if (h->fds)
		memcpy(fds, h->fds, sizeof(fds));
	else
		oci_hooks_output(h->config, fds, &ignored);
	/* stdout is the container's, or an engine reads our answer there */
	if (!argv || dup2(in, 0) < 0 || dup2(fds[0] >= 0 ? fds[0] : 2, 1) < 0 || (fds[1] >= 0 && dup2(fds[1], 2) < 0))
		goto fail;
	syscall(SYS_close_range, 3, ~0U, 1 << 2);	/* CLOSE_RANGE_CLOEXEC */
	if (env)
		execve(path, argv, strings(env));
	else
		execve(path, argv, h->env ? h->env : environ);
fail:
	saved = errno;
	io_write_all(err_pipe, &saved, sizeof(saved));
	_exit(127);
}

/* Waits for pid; kills it at the deadline.  1 when it was killed. */
static int wait_for_hook(pid_t pid, int64_t timeout_s, int *ret_status)
{
	autoclose int pidfd = timeout_s > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	int killed = 0;

	if (timeout_s > 0) {
		struct timespec now;
		int64_t end_ms, left;

		clock_gettime(CLOCK_MONOTONIC, &now);
		end_ms = (now.tv_sec + timeout_s) * 1000 + now.tv_nsec / 1000000;
		do {
			struct pollfd p = { .fd = pidfd, .events = POLLIN };

			clock_gettime(CLOCK_MONOTONIC, &now);
			left = end_ms - now.tv_sec * 1000 - now.tv_nsec / 1000000;
			if (left > 0 && poll(&p, 1, left > 60000 ? 60000 : (int)left) > 0)
				break;
		} while (left > 0);
		if (left <= 0) {
			kill(pid, SIGKILL);
			killed = 1;
		}
	}
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
	return killed;
}

static int run_hook(const struct oci_hooks *h, const json_t *hook, const json_t *state, struct err *e)
{
	const char *path = oci_str(hook, "path");
	const int64_t timeout = oci_i64(hook, "timeout", 0);
	autoclose int in = make_hook_state_file(state, e), read_end = -1, write_end = -1;
	int pipes[2], status = 0, child_errno = 0;
	pid_t pid;

	if (in < 0)
		return -1;
	if (path[0] != '/')
		return err_set(e, ERR_INVALID, "hook path '%.200s' is not absolute", path);
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe for a hook");
	read_end = pipes[0];
	write_end = pipes[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork for a hook");
	if (pid == 0)
		in_hook(h, hook, in, write_end);
	fd_close(&write_end);
	if (io_read_exact(read_end, &child_errno, sizeof(child_errno)) != 1)
		child_errno = 0;
	if (wait_for_hook(pid, timeout, &status))
		return err_set(e, ERR_TIMEOUT, "%s ran past the timeout of %lld seconds", path, (long long)timeout);
	if (child_errno)
		return err_errno(e, child_errno, "execute %s", path);
	if (WIFSIGNALED(status))
		return err_set(e, ERR_SYS, "%s: killed by signal %d", path, WTERMSIG(status));
	if (WEXITSTATUS(status))
		return err_set(e, ERR_SYS, "%s: exit status %d", path, WEXITSTATUS(status));
	return 0;
}

int oci_hooks_run(const struct oci_hooks *h, const char *name, const json_t *state, int keep_going, struct err *e)
{
	const json_t *list = oci_get2(h->config, "hooks", name), *hook;
	size_t i;

	json_array_foreach(list, i, hook) {
		if (run_hook(h, hook, state, e) == 0)
			continue;
		err_wrap(e, "error running %s hook #%zu", name, i);
		if (!keep_going)
			return -1;
		oci_log(OCI_WARNING, "%s", e->msg);
	}
	return 0;
}
