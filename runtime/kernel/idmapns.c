/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/idmapns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

/* A process that waits in a user namespace of its own until it is killed; -1 with errno. */
static pid_t hold(void)
{
	struct clone_args a = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	pid_t pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static int map(int proc, const char *file, unsigned id, unsigned shown, struct err *e)
{
	char line[64];

	snprintf(line, sizeof(line), "%u %u 1\n", id, shown);
	return io_write_file(proc, file, line, e);
}

int idmapns_one(uid_t uid, uid_t shown_uid, gid_t gid, gid_t shown_gid, struct err *e)
{
	autoclose int proc = -1, ns = -1;
	pid_t pid = hold();
	char path[32];

	if (pid < 0)
		return err_sys(e, "make a user namespace for a mount");
	snprintf(path, sizeof(path), "/proc/%d", pid);
	proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		err_sys(e, "open %s", path);
	else if (map(proc, "uid_map", uid, shown_uid, e) == 0 &&
		 map(proc, "gid_map", gid, shown_gid, e) == 0) {
		ns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
		if (ns < 0)
			err_sys(e, "open a mount's user namespace");
	}
	kill(pid, SIGKILL);	/* not reaped yet: no other process can have the pid */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return ns < 0 ? -1 : take_fd(&ns);
}
