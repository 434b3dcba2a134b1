/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a sandbox: a graceful stop from within its keeper, and from
 * outside the end of a keeper that does not answer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/keeper_state.h"

#define LOOK_MS 20
#define END_MS 10000

/* SIGTERM to all that runs in one command's cgroup. */
static void ask_to_end(const struct keeper_command *c)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	autoclose int fd = openat(c->leaf.v2_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	struct err ignored;
	char *p, *end;

	if (fd < 0 || io_read_all(fd, &b, "cgroup.procs", &ignored) < 0 || !b.len)
		return;
	for (p = b.data; *p; p = *end ? end + 1 : end) {
		long pid = strtol(p, &end, 10);

		if (end == p)
			break;
		if (pid <= 1)
			continue;
		kill((pid_t)pid, SIGTERM);
		/* an interactive shell takes no notice of the other */
		if (c->tty)
			kill((pid_t)pid, SIGHUP);
		kill((pid_t)pid, SIGCONT);
	}
}

static int is_empty(const struct keeper *k)
{
	char text[16];
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && cgroup_read(k->commands[i]->leaf.v2_fd, "cgroup.procs", text, sizeof(text)) > 0)
			return 0;
	return 1;
}

void keeper_stop_begin(struct keeper *k, uint64_t grace_ms)
{
	uint64_t now = keeper_now_ms();
	int i;

	/* what is frozen cannot end by itself */
	if (!grace_ms || k->paused) {
		k->stopping = 1;
		return;
	}
	if (k->stop_at_ms) {
		k->stop_at_ms = now + grace_ms < k->stop_at_ms ? now + grace_ms : k->stop_at_ms;
		return;
	}
	k->stop_at_ms = now + grace_ms;
	k->stop_look_ms = now;
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			ask_to_end(k->commands[i]);
}

static int is_guarded(const struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0 && k->clients[i].guarded)
			return 1;
	return 0;
}

void keeper_stop_drain(struct keeper *k, uint64_t grace_ms, uint64_t drain_ms)
{
	uint64_t until = keeper_now_ms() + drain_ms;

	if (!drain_ms || !is_guarded(k) || k->stop_at_ms) {
		k->drain_until_ms = 0;
		keeper_stop_begin(k, grace_ms);
		return;
	}
	/* of two that ask the sooner one is heard */
	if (k->drain_until_ms && k->drain_until_ms < until)
		return;
	k->drain_until_ms = until;
	k->drain_grace_ms = grace_ms;
}

uint64_t keeper_stop_next(const struct keeper *k)
{
	if (k->drain_until_ms)
		return k->drain_until_ms;
	return k->stop_at_ms ? k->stop_look_ms : 0;
}

void keeper_stop_check(struct keeper *k, uint64_t now)
{
	if (k->drain_until_ms && (now >= k->drain_until_ms || !is_guarded(k))) {
		k->drain_until_ms = 0;
		keeper_stop_begin(k, k->drain_grace_ms);
	}
	if (!k->stop_at_ms || now < k->stop_look_ms)
		return;
	if (now >= k->stop_at_ms || is_empty(k))
		k->stopping = 1;
	k->stop_look_ms = now + LOOK_MS;
}

/* ---- from outside ------------------------------------------------------------------- */

/* Has process pid the sandbox's directory open, which is its lock?  A record that was tampered with names nobody who has (L06). */
static int holds_lock(struct registry *r, const char *id, int pid)
{
	struct stat lock, st;
	char path[100];
	struct dirent *d;
	DIR *dir;
	int found = 0;

	if (fstatat(r->sandboxes_fd, id, &lock, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && !found && (d = readdir(dir)))
		found = !fstatat(dirfd(dir), d->d_name, &st, 0) && st.st_dev == lock.st_dev && st.st_ino == lock.st_ino;
	if (dir)
		closedir(dir);
	return found;
}

int keeper_kill(struct registry *r, const char *id, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	autojson json_t *record = NULL;
	uint64_t until = keeper_now_ms() + END_MS;
	autoclose int pidfd = -1;
	unsigned cleared;
	char path[100];
	int pid;

	snprintf(path, sizeof(path), "%s/record.json", id);
	if (io_read_file(r->sandboxes_fd, path, &b, e) < 0)
		return -1;
	record = json_parse(b.data ? b.data : "", b.len, 1 << 20, path, e);
	if (!record)
		return -1;
	pid = (int)json_integer_value(json_object_get(record, "supervisor_pid"));
	pidfd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (pidfd >= 0 && holds_lock(r, id, pid) && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0)
		return err_sys(e, "end the keeper of sandbox %s", id);
	/* its death ends the sandbox; what it leaves is for gc */
	while (path_has(r->sandboxes_fd, id)) {
		if (registry_gc(r, &cleared, e) == 0 && cleared)
			continue;
		if (keeper_now_ms() > until)
			return err_set(e, ERR_TIMEOUT, "the keeper of sandbox %s does not end", id);
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
	return 0;
}
