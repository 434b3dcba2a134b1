/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/createguard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/phases.h"
#include "manager/host/forget.h"

#define DYING_MS 5000

/* Held while its name is looked at, so that another process of that pid is never meant. */
static void kill_keeper(pid_t pid)
{
	autoclose int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	autobuf struct buf name = BUF_INIT(64);
	char path[40];
	struct err ignored;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (fd < 0 || io_read_file(AT_FDCWD, path, &name, &ignored) < 0 || !name.data ||
	    strcmp(name.data, "berth-keeper\n"))
		return;
	syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, DYING_MS);
}

static void wait_for(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/*
 * A keeper that was forked just before reports its pid a moment later: we look for it again
 * until nothing is left.
 */
static void clear(struct registry *r, const char *id, struct err *why)
{
	const uint64_t end = clock_ms() + DYING_MS;

	for (;;) {
		kill_keeper(phases_on->keeper);
		if (registry_clear_dead(r, id, DYING_MS, 1, why) >= 0 && path_has(r->kept_fd, id))
			forget_alone(r, id, why);
		if ((!path_has(r->kept_fd, id) && !path_has(r->sandboxes_fd, id)) ||
		    clock_ms() >= end)
			return;
		poll(NULL, 0, 5);
	}
}

static int give_up(struct registry *r, pid_t pid, uint64_t ms, struct err *e)
{
	const enum phase slow = phases_on->now;
	struct err why = { 0 };
	const char *id = phases_on->id;

	kill(pid, SIGKILL);
	wait_for(pid);
	if (id[0])
		clear(r, id, &why);
	err_set(e, ERR_TIMEOUT, "the sandbox was not made within %llu ms: its phase '%s' was under way",
		(unsigned long long)ms, phases_name(slow));
	if (id[0] && (path_has(r->kept_fd, id) || path_has(r->sandboxes_fd, id)))
		return err_hint(e, "berth gc clears what could not be removed: %.200s", why.msg);
	return err_hint(e, "a longer --create-timeout; --timing shows each phase");
}

static void work(int fd, createguard_make *make, void *ctx) __attribute__((noreturn));
static void work(int fd, createguard_make *make, void *ctx)
{
	struct err e = { 0 };

	if (make(ctx, &e) == 0)
		e.code = ERR_NONE;
	_exit(io_write_all(fd, &e, sizeof(e)) < 0);
}

int createguard_run(struct registry *r, uint64_t ms, createguard_make *make, void *ctx,
		    struct err *e)
{
	const uint64_t end = clock_ms() + ms;
	struct pollfd p = { .events = POLLIN };
	struct err told = { 0 };
	int fds[2], ready, got;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		work(fds[1], make, ctx);
	}
	close(fds[1]);
	p.fd = fds[0];
	do {
		uint64_t now = clock_ms();

		ready = pid < 0 ? 0 : poll(&p, 1, now < end ? (int)(end - now) : 0);
	} while (ready < 0 && errno == EINTR);
	got = ready > 0 ? io_read_exact(fds[0], &told, sizeof(told)) : 0;
	close(fds[0]);
	if (pid < 0)
		return err_sys(e, "fork");
	if (ready <= 0)
		return give_up(r, pid, ms, e);
	wait_for(pid);
	if (got != 1)
		return err_set(e, ERR_INTERNAL, "the process that made the sandbox died");
	if (told.code != ERR_NONE)
		*e = told;
	return told.code == ERR_NONE ? 0 : -1;
}
