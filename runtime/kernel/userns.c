/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

/* USER_NS_INIT_INO of linux/nsfs.h (6.18): the same number since Linux 3.8 */
#define INITIAL_INO 0xEFFFFFFDU

int userns_is_host_root(void)
{
	struct stat st;

	return geteuid() == 0 && (stat("/proc/self/ns/user", &st) < 0 || st.st_ino == INITIAL_INO);
}

/* ---- namespaces that only map ids ---- */

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

static int write_maps(int proc, const char *uids, const char *gids, struct err *e)
{
	return io_write_file(proc, "uid_map", uids, e) < 0 ? -1 :
	       io_write_file(proc, "gid_map", gids, e);
}

static int make_idmapns(const char *uids, const char *gids, struct err *e)
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
	else if (write_maps(proc, uids, gids, e) == 0) {
		ns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
		if (ns < 0)
			err_sys(e, "open a mount's user namespace");
	}
	kill(pid, SIGKILL);	/* not reaped yet: the pid is no other process's */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return ns < 0 ? -1 : take_fd(&ns);
}

int idmapns_one(uid_t uid, uid_t shown_uid, gid_t gid, gid_t shown_gid, struct err *e)
{
	char uids[64], gids[64];

	snprintf(uids, sizeof(uids), "%u %u 1\n", uid, shown_uid);
	snprintf(gids, sizeof(gids), "%u %u 1\n", gid, shown_gid);
	return make_idmapns(uids, gids, e);
}

int idmapns_shift(uid_t shown, unsigned count, struct err *e)
{
	char map[64];

	snprintf(map, sizeof(map), "0 %u %u\n", shown, count);
	return make_idmapns(map, map, e);
}

int idmapns_range(uid_t from, uid_t shown, unsigned count, struct err *e)
{
	char map[96];

	snprintf(map, sizeof(map), "0 0 1\n%u %u %u\n", from, shown, count);
	return make_idmapns(map, map, e);
}

/* ---- clocks of a time namespace ---- */

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

int timens_unshare(int flags)
{
	if (unshare(flags | CLONE_NEWTIME) == 0)
		return 0;
	/* before Linux 5.6, or without CONFIG_TIME_NS, there is no time namespace */
	return errno != EINVAL || !access("/proc/self/ns/time", F_OK) ? -1 : unshare(flags);
}

int timens_zero(struct err *e)
{
	const struct timespec mono = clock_now(CLOCK_MONOTONIC), boot = clock_now(CLOCK_BOOTTIME);
	char text[96];
	autoclose int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open timens_offsets");
	snprintf(text, sizeof(text), "monotonic -%lld 0\nboottime -%lld 0\n", (long long)mono.tv_sec,
		 (long long)boot.tv_sec);
	return io_write_all(fd, text, strlen(text)) < 0 ? err_sys(e, "set the clocks of a time namespace") : 0;
}
