/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the commands of a keeper: the list, their output, signals. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_session.h"

#define OUTPUT_MAX (16u << 20)	/* bytes of an answer to "output" that names no maximum */

static json_t *describe(const struct keeper_command *c, int is_main)
{
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
			json_array_append_new(list, describe(k->commands[i],
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
