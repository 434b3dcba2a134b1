/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of a keeper: exec, and the shells of sessions.
 *
 * Life of one: STARTING (asked of init) -> started -> ended (leader reaped) ->
 * concluded (verdict) -> removed.  Its cgroup outlives it while processes it
 * left behind are in there.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/sandbox/writable.h"

#define OUTPUT_CHUNK 65536

struct keeper_command *keeper_command_find(struct keeper *k, uint32_t seq)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && k->commands[i]->seq == seq)
			return k->commands[i];
	return NULL;
}

/* Room for one more: the oldest ended and unread one goes first. */
static int make_command_room(struct keeper *k, int *ret_slot, struct err *e)
{
	int i, ended = 0, oldest = -1;

	*ret_slot = -1;
	for (i = 0; i < KEEPER_COMMANDS; i++) {
		struct keeper_command *c = k->commands[i];

		if (!c) {
			*ret_slot = *ret_slot < 0 ? i : *ret_slot;
		} else if (c->concluded && c->detached) {
			ended++;
			if (oldest < 0 || c->seq < k->commands[oldest]->seq)
				oldest = i;
		}
	}
	if (oldest >= 0 && (ended >= KEEPER_ENDED_KEPT || *ret_slot < 0)) {
		keeper_command_remove(k, k->commands[oldest]);
		*ret_slot = oldest;
	}
	return *ret_slot < 0 ? err_set(e, ERR_LIMIT, "%d commands are running already", KEEPER_COMMANDS) : 0;
}

struct keeper_command *keeper_command_new(struct keeper *k, int check, const struct cgroup_limits *l,
					  struct err *e)
{
	struct keeper_command *c;
	int slot;

	if (make_command_room(k, &slot, e) < 0)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c) {
		err_nomem(e);
		return NULL;
	}
	c->check = check;
	c->seq = check ? KEEPER_CHECKS | k->next_check++ : k->next_seq++;
	c->client = c->session = c->in_fd = c->out_fd[0] = c->out_fd[1] = -1;
	c->silence = (struct silence)SILENCE_NONE;
	ring_init(&c->out[0], k->head_max, k->tail_max);
	ring_init(&c->out[1], k->head_max, k->tail_max);
	if (keeper_leaf(k, c->seq, l, &c->leaf, e) < 0) {
		free(c);
		return NULL;
	}
	k->commands[slot] = c;
	return c;
}

static void drop_leaf(struct keeper *k, struct keeper_command *c)
{
	struct err ignored;

	if (!c->leaf.ops)
		return;
	if (c->concluded && !c->facts.left_behind) {
		keeper_leaf_drop(k, &c->leaf);
		return;
	}
	/* the processes in there are killed now */
	if (cgroup_destroy(&c->leaf, &ignored) < 0) {
		/* its name remains below the sandbox's cgroup, and is removed with that */
	}
	cgroup_release(&c->leaf);
}

void keeper_command_remove(struct keeper *k, struct keeper_command *c)
{
	int i;

	keeper_follow_removed(k, c);
	drop_leaf(k, c);
	silence_close(&c->silence);
	fd_close(&c->in_fd);
	fd_close(&c->out_fd[0]);
	fd_close(&c->out_fd[1]);
	ring_release(&c->out[0]);
	ring_release(&c->out[1]);
	free(c->text);
	free(c->workdir);
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] == c)
			k->commands[i] = NULL;
	free(c);
}

json_t *keeper_command_verdict(const struct verdict *v)
{
	autobuf struct buf b = BUF_INIT(4096);
	struct err ignored;

	if (verdict_json(v, &b, &ignored) < 0)
		return json_null();
	return json_parse(b.data, b.len, b.len, "verdict", &ignored);
}

struct keeper_command *keeper_command_of(struct keeper *k, const json_t *rq, struct err *e)
{
	const char *id = request_command(rq, NULL);
	struct keeper_command *c = NULL;
	char *end;
	unsigned long n;

	if (id && !strcmp(id, KEEPER_MAIN)) {
		c = keeper_main_command(k);
		if (!c)
			err_set(e, ERR_NOT_FOUND, "sandbox %s has no main command that runs",
				k->claim.id);
		return c;
	}
	if (id && id[0] == 'c' && id[1] >= '0' && id[1] <= '9') {
		n = strtoul(id + 1, &end, 10);
		if (!*end && n <= UINT32_MAX)
			c = keeper_command_find(k, (uint32_t)n);
	}
	if (!c || c->session >= 0 || c->check) {
		err_set(e, ERR_NOT_FOUND, "no command '%.40s'; hint: berth commands lists them", id ? id : "");
		return NULL;
	}
	return c;
}

/* ---- how it ends ---------------------------------------------------------------------- */

static void tell_command_end(struct keeper *k, int client, const struct keeper_command *c)
{
	char id[24];

	snprintf(id, sizeof(id), "c%u", c->seq);
	keeper_answer_verdict(k, client, json_pack("{s:s,s:b}", "command", id, "ended", 1), &c->verdict, NULL, 0);
}

static void tell_waiters(struct keeper *k, struct keeper_command *c)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++) {
		if (k->clients[i].fd >= 0 && k->clients[i].waits == c->seq) {
			k->clients[i].waits = 0;
			tell_command_end(k, i, c);
		}
	}
}

/*
 * Puts away a command that has ended and left no process: a detached command is kept for clients
 * that ask for its output and verdict.
 */
static void put_away(struct keeper *k, struct keeper_command *c)
{
	if (!c->detached || c->check) {
		keeper_command_remove(k, c);
		return;
	}
	/* its output may wait for a slow reader: the output is closed at its end */
	drop_leaf(k, c);
	fd_close(&c->in_fd);
}

static void announce_command(struct keeper *k, struct keeper_command *c)
{
	if (c->unannounced)
		keeper_event_exec(k, c);
	c->unannounced = 0;
}

void keeper_command_announce(struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			announce_command(k, k->commands[i]);
}

static void note_command_end(struct keeper *k, struct keeper_command *c)
{
	char id[24];
	int i;

	announce_command(k, c);
	snprintf(id, sizeof(id), "c%u", c->seq);
	for (i = 0; i < 2 && c->detached && !c->tty; i++)
		keeper_log_dropped(k, id, i ? "stderr" : "stdout", c->out[i].total - c->logged[i]);
	if (!c->helper)
		keeper_event_end(k, "exit", &c->verdict, json_pack("{s:s}", "command", id));
}

void keeper_command_conclude(struct keeper *k, struct keeper_command *c)
{
	struct err ignored;
	int which, is_main;

	/* only the bytes in the pipes count now: end-of-file is not waited for (L03) */
	for (which = 0; which < 2; which++)
		keeper_command_read(k, c, which);
	if (!c->draining)
		c->facts.wall_ms = clock_ms() - c->started_ms;
	keeper_rest_limit(c);
	c->facts.left_behind = keeper_rest_count(c);
	cgroup_usage(&c->leaf, &c->facts.usage, &ignored);
	keeper_disk(k, &c->facts);
	keeper_network_end(k, &c->facts);
	c->facts.loosened = k->spec->loosened;
	verdict_decide(&c->facts, &c->verdict);
	c->concluded = 1;
	c->draining = 0;
	c->deadline_ms = c->rest_look_ms = 0;
	c->ending = ENDING_NOT;
	if (c->check) {
		keeper_health_ended(k, c);
		return;
	}
	if (c->client >= 0)
		tell_command_end(k, c->client, c);
	c->client = -1;
	k->rest = 1;
	tell_waiters(k, c);
	keeper_follow_news(k, c);
	keeper_busy(k);
	note_command_end(k, c);
	is_main = keeper_main_is(k, c);
	if (!c->facts.left_behind)
		put_away(k, c);
	if (is_main)	/* a detached one: it still exists */
		keeper_main_concluded(k, c);
}

static void started(struct keeper *k, struct keeper_command *c, int pid)
{
	struct err ignored;
	char id[24];

	c->started = 1;
	c->pid = pid;
	if (c->session >= 0) {
		k->sessions[c->session].shell_ns_pid = (uint32_t)pid;
		return;
	}
	/* its client left, or it was killed, before it was born: the kill found an empty cgroup */
	if (c->facts.killed_by_us)
		cgroup_kill(&c->leaf, &ignored);
	snprintf(id, sizeof(id), "c%u", c->seq);
	if (!c->silent)
		keeper_answer(k, c->client, json_pack("{s:s,s:b,s:i}", "command", id, "started", 1, "pid", pid), NULL, 0);
	c->unannounced = !c->helper && !c->check;
	if (c->detached)
		c->client = -1;
	if (keeper_main_is(k, c))
		keeper_main_started(k);
}

void keeper_command_reply(struct keeper *k, const struct init_reply *r)
{
	struct keeper_command *c = keeper_command_find(k, r->seq);

	if (r->seq == KEEPER_CODE)
		keeper_code_reply(k, r);
	if (!c || c->ended)
		return;
	if (r->type == INIT_STARTED) {
		started(k, c, r->pid);
	} else if (r->type == INIT_EXEC_FAILED) {
		if (c->session >= 0)
			session_shell_failed(k, c->session, &r->err);
		else if (c->check)
			keeper_health_failed(k, &r->err);
		else
			keeper_answer_error(k, c->client, &r->err);
		if (keeper_main_is(k, c))
			keeper_main_failed(k, &r->err);
		keeper_command_remove(k, c);
	} else if (r->type == INIT_EXITED) {
		c->facts.ended = 1;
		c->facts.exited = (int)r->exited;
		c->facts.value = r->value;
		if (keeper_rest_waited(c, clock_ms()))
			return;
		c->ended = 1;
		if (c->session >= 0) {
			session_shell_ended(k, c->session, c);
			keeper_command_remove(k, c);
		} else if (!keeper_silence_drains(c)) {
			keeper_command_conclude(k, c);
		}
	}
}

/* Ends a command whose first process had ended before, now that the others have. */
static void end_rest(struct keeper *k, struct keeper_command *c)
{
	c->ended = 1;
	if (!keeper_silence_drains(c))
		keeper_command_conclude(k, c);
}

void keeper_command_killed(struct keeper *k, struct keeper_command *c)
{
	const struct init_reply r = { .type = INIT_EXITED, .seq = c->seq, .value = 9 };
	struct err ignored;

	cgroup_kill(&c->leaf, &ignored);
	cgroup_wait_empty(&c->leaf, KEEPER_DYING_MS, &ignored);
	if (c->rest_look_ms)
		end_rest(k, c);
	else
		keeper_command_reply(k, &r);
}

void keeper_command_lost(struct keeper *k, struct keeper_command *c, int killed_by_us)
{
	if (c->helper || c->check || c->session >= 0 || (c->ended && !c->draining))
		return;
	if (!c->ended)
		c->facts.killed_by_us |= killed_by_us;
	c->lost = !c->ended;
	c->ended = 1;
	silence_drain(&c->silence, SILENCE_STUCK_MS, -1);
	keeper_command_conclude(k, c);
}

void keeper_command_stands_still(struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && !k->commands[i]->ended && k->commands[i]->ending == ENDING_KILLED)
			keeper_command_killed(k, k->commands[i]);
}

/* Microseconds of CPU time that this keeper has taken. */
static uint64_t keeper_cpu_us(void)
{
	const struct timespec t = clock_now(CLOCK_PROCESS_CPUTIME_ID);

	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void keeper_command_read(struct keeper *k, struct keeper_command *c, int which)
{
	char buf[OUTPUT_CHUNK];
	const int is_main = keeper_main_is(k, c);
	const uint64_t cpu_us = is_main ? keeper_cpu_us() : 0;
	uint64_t before = c->out[which].total;
	int rounds;
	ssize_t n;

	for (rounds = 0; rounds < 16 && c->out_fd[which] >= 0 && !keeper_follow_lags(k, c); rounds++) {
		n = read(c->out_fd[which], buf, sizeof(buf));
		if (n > 0) {
			keeper_ring_add(k, &c->out[which], buf, (size_t)n);
			keeper_log_command(k, c, which, buf, (size_t)n);
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			fd_close(&c->out_fd[which]);
		else
			break;
	}
	if (c->out[which].total != before && c->max_silent_ms)
		c->spoke_ms = clock_ms();
	if (c->out[which].total != before && !c->check) {
		keeper_busy(k);
		keeper_follow_news(k, c);
	}
	if (is_main)
		keeper_main_read(k, keeper_cpu_us() - cpu_us);
}

uint64_t keeper_command_next_deadline(const struct keeper_command *c)
{
	uint64_t at;

	if (c->concluded)
		return c->leaf.ops ? c->lingers_checked_ms + 1000 : 0;
	if (c->draining)
		return c->drained_ms;
	at = c->ending == ENDING_ASKED ? c->kill_at_ms : c->facts.timed_out ? 0 : c->deadline_ms;
	at = clock_earlier(at, keeper_silence_due(c));
	return clock_earlier(clock_earlier(at, c->rest_look_ms), c->held_until_ms);
}

int keeper_command_signal(struct keeper *k, const struct keeper_command *c, int signo, struct err *e)
{
	if (!c->rest_look_ms)
		return sandbox_signal(&k->sandbox, c->seq, signo, e);
	keeper_rest_signal(c, signo);
	return 0;
}

void keeper_command_over_time(struct keeper *k, struct keeper_command *c, uint64_t now)
{
	struct err ignored;

	c->facts.timed_out = 1;
	c->ending = ENDING_ASKED;
	c->kill_at_ms = now + c->grace_ms;
	if (c->grace_ms)
		keeper_command_signal(k, c, SIGTERM, &ignored);
}

void keeper_command_deadline(struct keeper *k, struct keeper_command *c, uint64_t now)
{
	struct err ignored;

	if (now >= c->held_until_ms)
		c->held_until_ms = 0;
	if (c->concluded) {
		/* it has its answer, but left processes behind: its cgroup is removed after them */
		if (c->leaf.ops && now >= c->lingers_checked_ms + 1000) {
			c->lingers_checked_ms = now;
			if (!keeper_rest_count(c))
				put_away(k, c);
		}
		return;
	}
	if (c->rest_look_ms && now >= c->rest_look_ms && !keeper_rest_waited(c, now)) {
		end_rest(k, c);
		return;
	}
	if (c->draining) {
		if (c->drained_ms && now >= c->drained_ms)
			keeper_silence_drained(k, c);
		return;
	}
	if (c->deadline_ms && !c->facts.timed_out && now >= c->deadline_ms)
		keeper_command_over_time(k, c, now);
	else if (keeper_silence_over(k, c, now))
		keeper_command_over_time(k, c, now);
	if (c->ending == ENDING_ASKED && now >= c->kill_at_ms) {
		c->ending = ENDING_KILLED;
		cgroup_kill(&c->leaf, &ignored);
		if (k->paused || k->held_by)
			keeper_command_stands_still(k);
	}
}

/* Ends the client's foreground command, because no client is left for its answer (L13). */
void keeper_command_client_gone(struct keeper *k, int client)
{
	struct err ignored;
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++) {
		struct keeper_command *c = k->commands[i];

		if (!c || c->client != client)
			continue;
		c->client = -1;
		if (c->detached || c->session >= 0)
			continue;
		if (c->draining) {
			keeper_silence_drained(k, c);
			continue;
		}
		c->facts.killed_by_us = 1;
		/* the helper for files removes what it made */
		if (c->helper && c->ending == ENDING_NOT &&
		    keeper_command_signal(k, c, SIGTERM, &ignored) == 0) {
			c->ending = ENDING_ASKED;
			c->kill_at_ms = clock_ms() + KEEPER_HELPER_GRACE_MS;
		}
		else
			cgroup_kill(&c->leaf, &ignored);
	}
}

/* ---- waiting for it ------------------------------------------------------------------- */

int keeper_op_wait(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	(void)e;
	keeper_main_attended(k, rq->client, rq->command);
	k->clients[rq->client].waits = rq->command->concluded ? 0 : rq->command->seq;
	if (rq->command->concluded)
		tell_command_end(k, rq->client, rq->command);
	return 0;
}

/* ---- operations on commands ---- */

/* Operations on the commands of a keeper: the list, their output, signals. */

#define OUTPUT_MAX (16u << 20)	/* bytes of an answer to "output" that names no maximum */

static json_t *describe_command(const struct keeper_command *c, int is_main)
{
	struct winsize size;
	char id[24];
	json_t *j;

	snprintf(id, sizeof(id), "c%u", c->seq);
	j = json_pack("{s:s,s:s,s:s,s:b,s:b,s:I,s:I,s:I}", "command", id,
		      "text", c->text ? c->text : "",
		      "state", c->concluded ? "ended" : c->started ? "running" : "starting",
		      "detached", c->detached, "tty", c->tty,
		      "stdout_bytes", (json_int_t)c->out[0].total,
		      "stderr_bytes", (json_int_t)c->out[1].total,
		      "age_ms", (json_int_t)(clock_ms() - c->started_ms));
	if (c->pid)
		json_object_set_new(j, "pid", json_integer(c->pid));
	/* a terminal's size, which any of its clients may have set */
	if (c->tty && c->out_fd[0] >= 0 && ioctl(c->out_fd[0], TIOCGWINSZ, &size) == 0) {
		json_object_set_new(j, "rows", json_integer(size.ws_row));
		json_object_set_new(j, "cols", json_integer(size.ws_col));
	}
	if (c->workdir)
		json_object_set_new(j, "workdir", json_string(c->workdir));
	if (c->name[0])
		json_object_set_new(j, "name", json_string(c->name));
	if (is_main && json_object_set_new(j, KEEPER_MAIN, json_true()) == 0)
		json_object_set_new(j, "stdin_open", json_boolean(c->in_fd >= 0));
	if (c->concluded)
		json_object_set_new(j, "verdict", keeper_command_verdict(&c->verdict));
	return j;
}

int keeper_op_commands(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	json_t *list = json_array();
	int i;

	(void)e;
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && !k->commands[i]->check && k->commands[i]->session < 0)
			json_array_append_new(list, describe_command(k->commands[i],
				k->commands[i] == keeper_main_command(k)));
	keeper_answer(k, rq->client, json_pack("{s:o}", "commands", list), NULL, 0);
	return 0;
}

int keeper_op_output(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	const uint64_t from = request_from(rq->json, 0), max = request_max(rq->json, OUTPUT_MAX);
	const char *stream = request_stream(rq->json, "stdout");
	struct keeper_command *c = rq->command;
	uint64_t start, next;
	int which;
	autoclose int fd = -1;

	which = !strcmp(stream, "stderr");
	if (!which && strcmp(stream, "stdout"))
		return err_set(e, ERR_INVALID, "'%.20s' is neither stdout nor stderr", stream);
	keeper_command_read(k, c, which);
	if (ring_read(&c->out[which], from, (size_t)max, &b, &start, &next, e) < 0)
		return -1;
	fd = wire_data(b.data ? b.data : "", b.len, e);
	if (fd < 0)
		return -1;
	keeper_answer(k, rq->client, json_pack("{s:I,s:I,s:I,s:I,s:b}", "from", (json_int_t)start, "next", (json_int_t)next,
					   "total", (json_int_t)c->out[which].total, "dropped",
					   (json_int_t)ring_dropped(&c->out[which]), "ended", c->concluded), &fd, 1);
	return 0;
}

static int signal_command(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const uint64_t signo = request_signal(rq->json, 15);
	const int all = request_all(rq->json);
	struct keeper_command *c = rq->command;

	if (signo < 1 || signo > 64)
		return err_set(e, ERR_INVALID, "signal %llu does not exist", (unsigned long long)signo);
	if (c->ended)
		return err_set(e, ERR_NOT_FOUND, "command c%u has ended", c->seq);
	c->facts.killed_by_us |= signo == 9;
	if (c == keeper_main_command(k))
		k->main.by_hand |= signo == 9 || (int)signo == k->main.service->stop_signal;
	if (all && signo == 9 ? cgroup_kill(&c->leaf, e) < 0 : keeper_command_signal(k, c, (int)signo, e) < 0)
		return -1;
	keeper_answer(k, rq->client, json_pack("{s:b}", "signalled", 1), NULL, 0);
	return 0;
}

int keeper_op_signal(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	return rq->command ? signal_command(k, rq, e) : session_op_signal(k, rq, e);
}

int keeper_op_send(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	return rq->command ? keeper_send(k, rq, e) : session_op_send(k, rq, e);
}

/* The foreground command of this very client. */
int keeper_op_forward(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const uint64_t signo = request_signal(rq->json, 0);
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && k->commands[i]->client == rq->client && !k->commands[i]->ended)
			return keeper_command_signal(k, k->commands[i], (int)signo, e);
	return 0;	/* it ended meanwhile: no answer is expected either way */
}

/* ---- further processes of a command ---- */

/*
 * The further processes of a command. When the first process has ended, the others are left
 * behind: they are counted, and go on; or the command lasts until the last of them has ended
 * ("wait_children").
 */

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

static int take_command_stream(struct keeper_command *c, const char *name, int fd, struct err *e)
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
		return err_set(e, ERR_INVALID, "command c%u has no output that is waiting for a "
			"reader", c->seq);
	if (json_array_size(streams) != rq->count)
		return err_set(e, ERR_INVALID, "%zu streams and %zu descriptors", json_array_size(streams), rq->count);
	json_array_foreach(streams, i, name)
		if (take_command_stream(c, json_string_value(name), rq->fds[i], e) < 0)
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

/* ---- a limit of the time without output ---- */

/*
 * A limit of the time for which a command may write nothing (--max-silent-time).
 *
 * Output that the keeper reads shows it by itself.  Where a command writes to descriptors of its
 * client, a process between them sees it (runtime/kernel/silence.h); the verdict waits then until
 * that has moved on the rest.  A terminal whose master side the client holds is watched by the
 * client, which was told the limit and asks for "silent".
 */

uint64_t keeper_silence_limit(const struct keeper *k, const json_t *rq)
{
	return request_max_silent_ms(rq, k->spec->max_silent_ms);
}

int keeper_silence_begin(struct keeper *k, struct keeper_command *c, int tty, int std[3],
			 struct err *e)
{
	int theirs[2];

	(void)k;
	if (!c->max_silent_ms || c->detached || tty)
		return 0;
	if (silence_open(&c->silence, std + 1, theirs, e) < 0)
		return -1;
	close(std[1]);
	close(std[2]);
	std[1] = theirs[0];
	std[2] = theirs[1];
	return 0;
}

/* Tells whether its client holds the terminal, and reports its output. */
static int is_told(const struct keeper_command *c)
{
	return !c->detached && !c->silence.shared;
}

uint64_t keeper_silence_due(const struct keeper_command *c)
{
	const uint64_t now = clock_ms();
	uint64_t last = c->spoke_ms;

	if (!c->max_silent_ms || is_told(c) || c->facts.timed_out || c->ended)
		return 0;
	if (c->silence.shared && silence_last_ms(&c->silence, now) > last)
		last = silence_last_ms(&c->silence, now);
	return last + c->max_silent_ms;
}

int keeper_silence_over(struct keeper *k, struct keeper_command *c, uint64_t now)
{
	if (!keeper_silence_due(c))
		return 0;
	/* it cannot write, or its output is not read */
	if (k->paused || k->held_by || keeper_follow_lags(k, c) || keeper_main_rests(k, c))
		c->spoke_ms = now;
	if (now < keeper_silence_due(c))
		return 0;
	c->facts.silent = 1;
	return 1;
}

int keeper_silence_drains(struct keeper_command *c)
{
	if (!c->silence.shared || c->client < 0)
		return 0;
	c->facts.wall_ms = clock_ms() - c->started_ms;
	keeper_rest_limit(c);
	silence_stop(&c->silence);
	c->draining = 1;
	c->drained_ms = c->facts.timed_out ? clock_ms() + SILENCE_STUCK_MS : 0;
	return 1;
}

void keeper_silence_drained(struct keeper *k, struct keeper_command *c)
{
	if (c && c->draining)
		keeper_command_conclude(k, c);
}

/*
 * Handles the report about the foreground command of this very client; it is no error if the
 * command has ended meanwhile.
 */
int keeper_op_silent(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	int i;

	(void)e;
	for (i = 0; i < KEEPER_COMMANDS; i++) {
		struct keeper_command *c = k->commands[i];

		if (!c || c->client != rq->client || c->ended || c->facts.timed_out ||
		    !c->max_silent_ms || !is_told(c))
			continue;
		c->facts.silent = 1;
		keeper_command_over_time(k, c, clock_ms());
	}
	return 0;
}
