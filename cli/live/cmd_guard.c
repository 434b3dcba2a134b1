/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth guard: what the parent of a keeper becomes when its sandbox has a restart policy.
 *
 * It holds no descriptor and next to no memory, and waits for the keeper's end: its own child's.
 * Then the record of the sandbox says whether that is to run again.  A child makes the start, as a
 * program executed anew, so that it is an upgraded berth's; the sandbox then has another guardian,
 * and this one ends.  A start that fails counts as a life of no length.
 *
 * A guardian that is killed takes nothing along: its sandbox runs on, without another restart.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/journal.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper.h"

#define AGAIN "again"
#define DYING_MS 5000	/* for processes of a sandbox whose keeper was killed */
#define CLEARING_MS 5000	/* for another process that clears what a dead keeper left */
#define LOOK_MS 5
#define CONNECT_MS 1000
#define NOT_OURS 3	/* exit status of the child: there is nothing to start any more */

struct guard {
	const char *id;
	uint64_t backoff_ms;
	unsigned restarts;
};

/* 1: it is to run again, and this is its record's count of restarts. */
static int is_due(struct guard *g, uint64_t wait_ms)
{
	autojson json_t *record = NULL, *note = NULL;
	struct sandbox_ref s;
	struct err e;
	int due = 0;

	sandbox_ref_init(&s);
	if (sandbox_ref_registry(&s, &e) == 0)
		record = record_load_kept(&s.registry, g->id, &e);
	if (record && restart_is_due(record)) {
		g->restarts = (unsigned)record_restarts(record);
		note = json_pack("{s:i,s:I}", "pid", (int)getpid(), "at_ms",
				 (json_int_t)(clock_wall_ms() + wait_ms));
		due = registry_save(&s.registry, g->id, RESTART_FILE, note, &e) == 0;
	}
	sandbox_ref_close(&s);
	return due;
}

static void pause_for(uint64_t ms)
{
	struct timespec left = { .tv_sec = (time_t)(ms / 1000), .tv_nsec =
				 (long)(ms % 1000) * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

/* The exit status of a berth that starts it. */
static int start_in_child(const struct guard *g)
{
	char restarts[16], backoff[24];
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		/* a guardian that is ended takes a start under way along */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(restarts, sizeof(restarts), "%u", g->restarts + 1);
		snprintf(backoff, sizeof(backoff), "%llu", (unsigned long long)g->backoff_ms);
		guardian_exec(AGAIN, g->id, restarts, backoff, (char *)NULL);
		_exit(1);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void close_guard_fds(void)
{
	int fd;

	for (fd = 0; fd < 3; fd++)
		close(fd);
}

static void open_guard_fds(void)
{
	while (open("/dev/null", O_RDWR | O_CLOEXEC) >= 0 && fcntl(2, F_GETFD) < 0)
		;
}

/* The keeper that answers, which is not our child; -1: none does.  A pidfd, or its connection. */
static int open_keeper(const char *id)
{
	struct ucred peer = { 0 };
	socklen_t n = sizeof(peer);
	struct sandbox_ref s;
	struct err ignored;
	int fd = -1;

	sandbox_ref_init(&s);
	if (sandbox_ref_registry(&s, &ignored) == 0)
		s.sock = keeper_connect_within(&s.registry, id, CONNECT_MS, &ignored);
	if (s.sock >= 0 && getsockopt(s.sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0)
		fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	/* the connection lasts: the pid was still the keeper's when the descriptor was made */
	if (fd >= 0 && poll(&(struct pollfd){ .fd = s.sock, .events = POLLIN }, 1, 0) != 0)
		fd_close(&fd);
	else if (fd < 0 && s.sock >= 0 && errno == ENOSYS)
		fd = take_fd(&s.sock);
	sandbox_ref_close(&s);
	return fd;
}

/* As its parent; or, where berth update made this guardian, beside it. */
static void await_keeper_end(const char *id)
{
	struct pollfd p = { .fd = -1, .events = POLLIN };
	pid_t pid;

	close_guard_fds();
	while ((pid = waitpid(-1, NULL, 0)) < 0 && errno == EINTR)
		;
	open_guard_fds();
	if (pid > 0)
		return;
	p.fd = open_keeper(id);
	while (p.fd >= 0 && poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	fd_close(&p.fd);
}

static int guard(struct guard *g)
{
	uint64_t began = clock_ms(), lived;
	int status;

	await_keeper_end(g->id);
	for (;;) {
		lived = clock_ms() - began;
		g->backoff_ms = restart_backoff(g->backoff_ms, lived);
		if (!is_due(g, g->backoff_ms))
			return 0;
		pause_for(g->backoff_ms);
		/* another process may have stopped, started or removed it meanwhile */
		if (!is_due(g, 0))
			return 0;
		began = clock_ms();
		status = start_in_child(g);
		if (status == 0 || status == NOT_OURS)
			return 0;
	}
}

/* A start that failed counts, too; the record of the last run stays otherwise as it is. */
static void note_failure(struct registry *r, const struct guard *g, const struct err *e)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(r, g->id, &ignored);

	events_add(r, "restart-failed", g->id, json_pack("{s:i,s:s}", "restarts",
							 (int)g->restarts, "error", e->msg));
	if (!record)
		return;
	record_set_restarts(record, g->restarts);
	record_save_kept(r, g->id, record, &ignored);
}

/*
 * Clears what the dead keeper left: 1, or 0 when it runs.  Another process may be at it just now,
 * as every berth ps clears what it finds: then its end is waited for.
 */
static int clear_dead_run(struct registry *r, const char *id, struct err *e)
{
	const uint64_t end = clock_ms() + CLEARING_MS;
	int cleared;

	while ((cleared = registry_clear_dead(r, id, DYING_MS, 0, e)) == 0) {
		if (!path_has(r->sandboxes_fd, id))
			return 1;
		if (clock_ms() >= end)
			return 0;
		pause_for(LOOK_MS);
	}
	return cleared;
}

static int start_guarded(struct registry *r, const struct guard *g, int kept, struct err *e)
{
	char path[120];
	int cleared = kept ? 1 : clear_dead_run(r, g->id, e);

	if (cleared == 0)
		return err_set(e, ERR_EXISTS, "it runs, or its files are in use");
	if (cleared < 0 || resident_start_again(r, g->id, &(struct resident_again){ .restarts = g->restarts, .backoff_ms = g->backoff_ms }, e) < 0)
		return -1;
	events_add(r, "restart", g->id, json_pack("{s:i,s:I}", "restarts", (int)g->restarts,
						  "after_ms", (json_int_t)g->backoff_ms));
	snprintf(path, sizeof(path), "%s/" RESTART_FILE, g->id);
	unlinkat(r->kept_fd, path, 0);
	return 0;
}

/*
 * Another process has started it. A sandbox whose files are in use, by a commit, has a place but
 * no keeper.
 */
static int runs(struct registry *r, const char *id)
{
	struct err ignored;
	autoclose int sock = keeper_connect_within(r, id, CONNECT_MS, &ignored);

	return sock >= 0;
}

static int start_again(const struct guard *g)
{
	struct sandbox_ref s;
	struct err e;
	int status = 1;

	sandbox_ref_init(&s);
	if (sandbox_ref_find(&s, g->id, &e) < 0)
		status = e.code == ERR_NOT_FOUND ? NOT_OURS : 1;
	else if (start_guarded(&s.registry, g, s.kept, &e) == 0)
		status = 0;
	else if (!path_has(s.registry.kept_fd, g->id) || runs(&s.registry, g->id))
		status = NOT_OURS;
	else
		note_failure(&s.registry, g, &e);
	sandbox_ref_close(&s);
	return status;
}

/* guard ID BACKOFF-MS, or guard again ID RESTARTS BACKOFF-MS */
static int guard_main(const struct command *self, int argc, char **argv)
{
	const int again = argc == 5 && !strcmp(argv[1], AGAIN);
	struct guard g = { .id = argc > 1 ? argv[again ? 2 : 1] : "" };
	uint64_t restarts = 0;
	struct err e;

	if (!again && argc != 3) {
		err_set(&e, ERR_USAGE,
			"berth starts it by itself; hint: berth create --restart always");
		return command_fail(self, &e, 0);
	}
	if (num_u64(argv[argc - 1], "backoff", 0, INT64_MAX, &g.backoff_ms, &e) < 0 ||
	    (again && num_u64(argv[3], "restarts", 0, INT32_MAX, &restarts, &e) < 0))
		return command_fail(self, &e, 0);
	g.restarts = (unsigned)restarts;
	return again ? start_again(&g) : guard(&g);
}

const struct command cmd_guard = {
	.name = RESTART_VERB,
	.args = "ID BACKOFF",
	.summary = "start a service again by its restart policy",
	.run = guard_main,
	.flags = COMMAND_HIDDEN,
};
