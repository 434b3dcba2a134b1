/* SPDX-License-Identifier: Apache-2.0 */
/* berth wait: until a detached command ends, with its exit status; or until a sandbox stops. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/follow.h"
#include "cli/live/wait_ready.h"
#include "manager/host/record.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "runtime/sandbox/reason.h"

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	WAIT_READY_TABLE,
	{ "json", 0, OPT_FLAG, NULL, "print the verdict, errors as JSON too", OPT_JSON },
};

struct wait_options {
	int json;
	struct wait_ready ready;
};

static int set_wait_option(void *ctx, int id, const char *value, struct err *e)
{
	struct wait_options *o = ctx;
	const int r = wait_ready_set(&o->ready, id, value, e);

	if (r > 0)
		o->json = 1;
	return r < 0 ? -1 : 0;
}

static int wait_until_ready(const struct wait_options *o, const char *ref, struct err *e)
{
	autojson json_t *j = NULL;
	uint64_t waited_ms;
	char id[65];

	if (wait_ready(&o->ready, ref, id, &waited_ms, e) < 0)
		return -1;
	if (!o->json)
		return 0;
	j = json_pack("{s:s,s:b,s:I}", "id", id, "ready", 1, "waited_ms", (json_int_t)waited_ms);
	return j ? command_print_json(j, JSON_COMPACT, e) : err_nomem(e);
}

static int wait_for_command(char **words, int json, int *ret_status, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_wait), *answer = NULL;
	struct sandbox_ref s;

	request_set_command(rq, words[1]);
	sandbox_ref_init(&s);
	if (sandbox_ref_connect(&s, words[0], 0, e) == 0)
		answer = keeper_call(s.sock, rq, NULL, 0, NULL, e);
	sandbox_ref_close(&s);
	if (!answer)
		return -1;
	*ret_status = follow_status(json_object_get(answer, "verdict"));
	if (!json)
		reason_tell("berth wait", json_object_get(answer, "verdict"), 1);
	return json ? command_print_json(json_object_get(answer, "verdict"), JSON_COMPACT, e) : 0;
}

/*
 * It has stopped when the keeper closes the connection; for a service the keeper first reports
 * how its main command ended.
 */
static int await_sandbox_end(struct sandbox_ref *s, json_t **ret_verdict, struct err *e)
{
	autojson json_t *record = record_load_kept(&s->registry, s->id, e);
	autojson json_t *rq = protocol_request(OP_wait);
	json_t *said;
	size_t n;
	int got;

	request_set_command(rq, KEEPER_MAIN);
	if (record_service(record) && wire_request(s->sock, rq, NULL, 0, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	while ((got = wire_recv(s->sock, -1, &said, NULL, 0, &n, e)) > 0) {
		int refused = wire_check(said, e);

		if (refused == 0) {
			json_decref(*ret_verdict);
			*ret_verdict = json_incref(json_object_get(said, "verdict"));
		}
		json_decref(said);
		/* not found: it has ended, and the record will say how */
		if (refused < 0 && e->code != ERR_NOT_FOUND)
			return -1;
	}
	return got;
}

static int print_end(const struct sandbox_ref *s, const json_t *record, json_t *verdict,
		     struct err *e)
{
	const enum record_status status = record_status(record);
	const char *word = record_status_name(status);
	autojson json_t *j = NULL;

	/* the process that ended it may not have recorded that yet */
	if (status == RECORD_NONE || status == RECORD_RUNNING)
		word = record ? record_status_name(RECORD_STOPPED) : "removed";
	j = json_pack("{s:s,s:s,s:O*,s:O*}", "id", s->id, "status", word, "reason",
		      json_object_get(record, "stop_reason"), "verdict", verdict);
	return j ? command_print_json(j, JSON_COMPACT, e) : err_nomem(e);
}

static int wait_for_sandbox(const char *ref, int json, int *ret_status, struct err *e)
{
	autojson json_t *record = NULL, *verdict = NULL;
	struct sandbox_ref s;
	struct err ignored;
	int r;

	sandbox_ref_init(&s);
	r = sandbox_ref_find(&s, ref, e);
	/* a sandbox that its restart policy starts again has not stopped */
	while (r == 0 && (r = sandbox_ref_await_run(&s, 0, e)) > 0) {
		r = await_sandbox_end(&s, &verdict, e);
		fd_close(&s.sock);
	}
	if (r == 0)
		record = record_load_kept(&s.registry, s.id, &ignored);
	if (r == 0 && !verdict && record_service(record))
		verdict = json_incref(record_verdict(record));
	if (r == 0 && verdict)
		*ret_status = follow_status(verdict);
	if (r == 0 && json)
		r = print_end(&s, record, verdict, e);
	sandbox_ref_close(&s);
	return r;
}

static int berth_wait_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	struct wait_options o = { .ready = WAIT_READY_INIT };
	int rest, help = 0, json, r, status = 0;
	size_t conditions;

	r = command_options(self, argc, argv, set_wait_option, &o, &rest, &help, &e);
	conditions = wait_ready_count(&o.ready);
	json = o.json;
	if (r == 0 && help)
		return 0;
	if (r == 0 && (argc - rest < 1 || argc - rest > 2))
		r = err_set(&e, ERR_USAGE, "a sandbox is wanted, or one and a command's id; hint: berth wait ID c3");
	if (r == 0 && conditions && argc - rest == 2)
		r = err_set(&e, ERR_USAGE, "--healthy, --port and --log "
			    "are of a sandbox, not of a command");
	if (r == 0 && !conditions && o.ready.timed)
		r = err_set(&e, ERR_USAGE, "--timeout goes with --healthy, --port or --log");
	if (r == 0 && conditions)
		r = wait_until_ready(&o, argv[rest], &e);
	else if (r == 0)
		r = argc - rest == 1 ? wait_for_sandbox(argv[rest], json, &status, &e) :
			wait_for_command(argv + rest, json, &status, &e);
	return r < 0 ? command_fail(self, &e, json) : status;
}

const struct command cmd_wait = {
	.name = "wait",
	.args = "SANDBOX [COMMAND]",
	.summary = "wait for a detached command, or for a sandbox to stop or be ready",
	.detail = "The exit status is the command's, of a service that of its main command, else 0.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = berth_wait_main,
};
