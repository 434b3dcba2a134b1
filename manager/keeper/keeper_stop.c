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

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_state.h"

#define LOOK_MS 20
#define END_MS 10000
/* Time for init, which may get no processor, to report the end of the last process. */
#define REPORT_MS 10000

static void ask_to_end(const struct keeper_command *c, int signo)
{
	keeper_rest_signal(c, signo);
	/* an interactive shell takes no notice of the other */
	if (c->tty)
		keeper_rest_signal(c, SIGHUP);
	keeper_rest_signal(c, SIGCONT);
}

static int has_no_processes(const struct keeper *k)
{
	char text[16];
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && cgroup_read(k->commands[i]->leaf.v2_fd, "cgroup.procs", text, sizeof(text)) > 0)
			return 0;
	return 1;
}

/*
 * Tells whether init has yet to report how a command has ended: otherwise its verdict would be that
 * the stop killed it.
 */
static int is_unreported(const struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && k->commands[i]->started && !k->commands[i]->ended)
			return 1;
	return 0;
}

static int is_stop_over(struct keeper *k, uint64_t now)
{
	if (!has_no_processes(k))
		return 0;
	if (!k->stop_empty_ms)
		k->stop_empty_ms = now;
	return !is_unreported(k) || now - k->stop_empty_ms >= REPORT_MS;
}

static void ask_all_to_end(struct keeper *k)
{
	int i;

	/* the others go when the main command has ended */
	if (keeper_main_ask_to_end(k))
		return;
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			ask_to_end(k->commands[i], k->end_signal ? k->end_signal : SIGTERM);
}

void keeper_stop_begin(struct keeper *k, uint64_t grace_ms)
{
	uint64_t now = clock_ms();

	/* a frozen process cannot end by itself */
	if (!grace_ms || k->paused) {
		k->stopping = 1;
		return;
	}
	if (k->stop_at_ms) {
		k->stop_at_ms = now + grace_ms < k->stop_at_ms ? now + grace_ms : k->stop_at_ms;
		/* of a stop beside another the signal counts, too */
		if (k->end_signal)
			ask_all_to_end(k);
		return;
	}
	k->stop_at_ms = now + grace_ms;
	k->stop_look_ms = now;
	keeper_code_ask_to_end(k);
	ask_all_to_end(k);
}

static int has_guarding_client(const struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0 && k->clients[i].guarded)
			return 1;
	return 0;
}

void keeper_stop_drain(struct keeper *k, uint64_t grace_ms, uint64_t drain_ms)
{
	uint64_t until = clock_ms() + drain_ms;

	if (!drain_ms || !has_guarding_client(k) || k->stop_at_ms) {
		k->drain_until_ms = 0;
		keeper_stop_begin(k, grace_ms);
		return;
	}
	/* of two requests the earlier end counts */
	if (k->drain_until_ms && k->drain_until_ms < until)
		return;
	k->drain_until_ms = until;
	k->drain_grace_ms = grace_ms;
}

static uint64_t stop_next(struct keeper *k)
{
	if (k->drain_until_ms)
		return k->drain_until_ms;
	return k->stop_at_ms ? k->stop_look_ms : 0;
}

static void stop_check(struct keeper *k, uint64_t now)
{
	if (k->drain_until_ms && (now >= k->drain_until_ms || !has_guarding_client(k))) {
		k->drain_until_ms = 0;
		keeper_stop_begin(k, k->drain_grace_ms);
	}
	if (!k->stop_at_ms || now < k->stop_look_ms)
		return;
	if (now >= k->stop_at_ms || is_stop_over(k, now))
		k->stopping = 1;
	k->stop_look_ms = now + LOOK_MS;
}

/* ---- from outside ------------------------------------------------------------------- */

/*
 * Tells whether process pid has the sandbox's directory open, which is its lock. A forged record
 * names a process that does not (L06).
 */
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

/*
 * Tells whether it is the record of a berth run: only such a record has a command line without
 * being a service's.
 */
static int is_runs_record(const json_t *record)
{
	return json_array_size(record_command(record)) > 0 && !record_service(record);
}

int keeper_is_run(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *record = record_load_run(r, id, &ignored);

	return record && is_runs_record(record);
}

/* gc removes what dead processes leave. */
static int wait_sandbox_gone(struct registry *r, const char *id, struct err *e)
{
	uint64_t until = clock_ms() + END_MS;
	unsigned cleared;

	while (path_has(r->sandboxes_fd, id)) {
		if (registry_gc(r, &cleared, e) == 0 && cleared)
			continue;
		if (clock_ms() > until)
			return err_set(e, ERR_TIMEOUT, "the keeper of sandbox %s does not end", id);
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
	return 0;
}

/* Kills the sandbox of a run, whose supervisor sees the end, reports it and cleans up. */
static int kill_run(struct registry *r, const char *id, struct err *e)
{
	struct cgroup cg;
	char path[100];
	int fd, result;

	/* by its path: under another name the directory is another sandbox's, or none's */
	snprintf(path, sizeof(path), "%s/" KEEPER_KILLED_FILE, id);
	fd = openat(r->sandboxes_fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "tell the berth run of sandbox %s", id);
	close(fd);
	result = cgroup_open(&cg, r->config->cgroup_parent, id, e);
	if (result == 0)
		result = cgroup_kill(&cg, e);
	cgroup_release(&cg);
	return result < 0 ? -1 : wait_sandbox_gone(r, id, e);
}

/*
 * Kills the keeper by a pidfd, which identifies the process; before Linux 5.3 by its pid, right
 * after a look at its descriptors.
 */
static int kill_silent_keeper(struct registry *r, const char *id, int pid)
{
	autoclose int pidfd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (pid <= 1 || (pidfd < 0 && errno != ENOSYS) || !holds_lock(r, id, pid))
		return 0;
	if (pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0)
		return 0;
	return pidfd >= 0 && errno != ENOSYS ? -1 : kill(pid, SIGKILL);
}

int keeper_kill(struct registry *r, const char *id, struct err *e)
{
	autojson json_t *record = record_load_run(r, id, e);
	int pid;

	if (!record)
		return -1;
	if (is_runs_record(record) && (kill_run(r, id, e) == 0 || e->code != ERR_TIMEOUT))
		return path_has(r->sandboxes_fd, id) ? -1 : 0;
	pid = (int)record_supervisor_pid(record);
	if (kill_silent_keeper(r, id, pid) < 0)
		return err_sys(e, "end the keeper of sandbox %s", id);
	/* its death ends the sandbox */
	return wait_sandbox_gone(r, id, e);
}

const struct keeper_part keeper_part_stop = { .next = stop_next, .check = stop_check };
