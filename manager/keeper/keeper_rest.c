/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The further processes of a command. When the first process has ended, the others are left
 * behind: they are counted, and go on; or the command lasts until the last of them has ended
 * ("wait_children").
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_state.h"

#define LOOK_FIRST_MS 2
#define LOOK_MS 100
#define OOM_LOOK_MS 500

uint32_t keeper_rest_count(const struct keeper_command *c)
{
	char text[16384], *p;
	uint32_t n = 0;

	if (cgroup_read(c->leaf.v2_fd, "cgroup.procs", text, sizeof(text)) <= 0)
		return 0;
	for (p = text; *p; p++)
		n += *p == '\n';
	return n;
}

static void signal_one(void *ctx, pid_t pid)
{
	if (pid > 1)
		kill(pid, *(const int *)ctx);
}

void keeper_rest_signal(const struct keeper_command *c, int signo)
{
	cgroup_each_process(c->leaf.v2_fd, signal_one, &signo);
}

void keeper_rest_limit(struct keeper_command *c)
{
	struct err ignored;

	if ((c->facts.timed_out || c->check) && keeper_rest_count(c) &&
	    cgroup_kill(&c->leaf, &ignored) == 0)
		cgroup_wait_empty(&c->leaf, KEEPER_DYING_MS, &ignored);
}

int keeper_rest_waited(struct keeper_command *c, uint64_t now)
{
	if (!c->wait_children || !keeper_rest_count(c))
		return 0;
	c->rest_gap_ms = c->rest_gap_ms ? c->rest_gap_ms * 2 : LOOK_FIRST_MS;
	if (c->rest_gap_ms > LOOK_MS)
		c->rest_gap_ms = LOOK_MS;
	c->rest_look_ms = now + c->rest_gap_ms;
	return 1;
}

static int take_stream(struct keeper_command *c, const char *name, int fd, struct err *e)
{
	const int which = name && !strcmp(name, "stderr");

	if (!which && (!name || strcmp(name, "stdout")))
		return err_set(e, ERR_INVALID, "\"streams\" holds something else than stdout and stderr");
	if (c->out_fd[which] >= 0)
		return err_set(e, ERR_EXISTS, "%s of command c%u is read already", name, c->seq);
	c->out_fd[which] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (c->out_fd[which] < 0 || fcntl(c->out_fd[which], F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "take over %s of command c%u", name, c->seq);
	return 0;
}

int keeper_op_leave(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_command *c = rq->command;
	json_t *streams = request_streams(rq->json), *name;
	size_t i;

	(void)k;
	if (!c->concluded || c->detached)
		return err_set(e, ERR_INVALID, "command c%u left nothing whose output nobody reads", c->seq);
	if (json_array_size(streams) != rq->count)
		return err_set(e, ERR_INVALID, "%zu streams and %zu descriptors", json_array_size(streams), rq->count);
	json_array_foreach(streams, i, name)
		if (take_stream(c, json_string_value(name), rq->fds[i], e) < 0)
			return -1;
	return 0;
}

/* v1 has no oom.group: where the kernel killed one process of a command, the rest follows. */
/* The kernel reports it before it kills: look until the counters show the victim. */
void keeper_command_oom(struct keeper *k)
{
	uint64_t n;

	(void)!read(k->sandbox.cgroup.oom_fd, &n, sizeof(n));
	k->oom_until_ms = clock_ms() + OOM_LOOK_MS;
}

void keeper_command_check_oom(struct keeper *k)
{
	struct cgroup_usage u;
	struct err ignored;
	int i;

	keeper_code_check_oom(k);
	for (i = 0; i < KEEPER_COMMANDS; i++) {
		struct keeper_command *c = k->commands[i];

		if (!c || c->ended || c->session >= 0 || c->facts.killed_for_oom ||
		    cgroup_usage(&c->leaf, &u, &ignored) < 0 || !u.oom_kills)
			continue;
		c->facts.killed_for_oom = 1;
		cgroup_kill(&c->leaf, &ignored);
	}
}
