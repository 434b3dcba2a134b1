/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth undo: the files of a sandbox as they were at a checkpoint.
 *
 * The copy of the layer is made first, while the sandbox runs.  Then the sandbox is stopped, the
 * undo is decided (checkpoint.h), and it is started again.  Whoever is killed in between leaves the
 * files of before or those of the checkpoint, and the sandbox stopped.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/lifecycle.h"
#include "cli/time/layerbox.h"
#include "manager/host/events.h"
#include "manager/keeper/request.h"

enum { OPT_JSON = 1, OPT_STEPS, OPT_TO };

static const struct opt options[] = {
	{ "steps", 0, OPT_VALUE, "N", "how many checkpoints to go back (default: 1)", OPT_STEPS },
	{ "to", 0, OPT_VALUE, "CHECKPOINT", "go to this one, by its id or name", OPT_TO },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

struct undo {
	int json;
	uint64_t steps;
	const char *to;
	char target[CHECKPOINT_ID];
	/* the commands and sessions that the undo ended: [{"command"|"session", "text"}] */
	json_t *ended;
	int ran;
	struct layerbox b;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct undo *u = ctx;

	if (id == OPT_JSON)
		u->json = 1;
	else if (id == OPT_TO)
		u->to = value;
	else
		return num_u64(value, "steps", 1, CHECKPOINT_KEEP_MAX, &u->steps, e);
	return 0;
}

/* Copies the layer of the checkpoint that is meant. */
static int prepare(struct undo *u, struct err *e)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	json_t *target;
	int result = -1;

	if (checkpoints_open(u->b.dir_fd, 1, &all, e) < 0)
		return -1;
	target = u->to ? checkpoints_find(&all, u->to, e) :
			 checkpoints_back(&all, u->steps ? (unsigned)u->steps : 1, e);
	if (target) {
		snprintf(u->target, sizeof(u->target), "%s",
			 json_string_value(json_object_get(target, "id")));
		result = checkpoint_prepare(&all, u->target, e);
	}
	checkpoints_close(&all);
	return result;
}

/* The commands that run, for the answer; one that does not tell them is stopped all the same. */
static void note_running(struct undo *u)
{
	autojson json_t *rq = protocol_request(OP_commands), *answer = NULL;
	struct err ignored;
	json_t *one;
	size_t i;

	u->b.s.sock = keeper_connect(&u->b.s.registry, u->b.s.id, &ignored);
	if (u->b.s.sock < 0)
		return;
	answer = keeper_call(u->b.s.sock, rq, NULL, 0, NULL, &ignored);
	json_array_foreach (json_object_get(answer, "commands"), i, one) {
		const char *state = json_string_value(json_object_get(one, "state"));

		if (state && strcmp(state, "ended") != 0)
			json_array_append_new(u->ended,
					      json_pack("{s:O*,s:O*}", "command",
							json_object_get(one, "command"), "text",
							json_object_get(one, "text")));
	}
	fd_close(&u->b.s.sock);
}

static int decide(struct undo *u, struct err *e)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	int result;

	if (layerbox_claim(&u->b, e) < 0)
		return -1;
	result = checkpoints_open(u->b.dir_fd, 1, &all, e);
	/* a checkpoint made meanwhile has another head, and the layer was copied before it */
	if (result == 0)
		result = checkpoint_undo(&all, u->target, e);
	checkpoints_close(&all);
	layerbox_release(&u->b);
	return result;
}

static int undo(struct undo *u, const char *ref, struct err *e)
{
	static const struct resident_end at_once = { .stays = 1 };
	struct registry *r = &u->b.s.registry;

	if (layerbox_find(&u->b, ref, e) < 0 || prepare(u, e) < 0)
		return -1;
	u->ran = !u->b.s.kept;
	if (u->ran) {
		note_running(u);
		if (lifecycle_stop(&u->b.s, u->b.s.id, &at_once, e) < 0)
			return -1;
	}
	if (decide(u, e) < 0)
		return -1;
	events_add(r, "undo", u->b.s.id,
		   json_pack("{s:s,s:O}", "checkpoint", u->target, "ended", u->ended));
	fd_close(&u->b.dir_fd);	/* the keeper would have it, too */
	return u->ran ? resident_start(r, u->b.s.id, e) : 0;
}

static int report(const struct undo *u, struct err *e)
{
	char text[300];
	json_t *one;
	size_t i;

	if (u->json) {
		autojson json_t *doc = json_pack("{s:s,s:s,s:O}", "id", u->b.s.id, "checkpoint",
						 u->target, "ended", u->ended);

		return doc ? command_print_json(doc, JSON_COMPACT, e) : err_nomem(e);
	}
	puts(u->target);
	json_array_foreach (u->ended, i, one) {
		const char *said = json_string_value(json_object_get(one, "text"));

		log_clean(text, sizeof(text), said ? said : "", 0);
		fprintf(stderr, "berth undo: ended: %s\n", text);
	}
	return 0;
}

static int undo_main(const struct command *self, int argc, char **argv)
{
	struct undo u = { .ended = json_array() };
	struct err e = { 0 };
	int rest, help = 0, r;

	layerbox_init(&u.b);
	r = command_options(self, argc, argv, set_option, &u, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth undo ID");
	if (r == 0 && u.to && u.steps)
		r = err_set(&e, ERR_USAGE, "--to and --steps say both where to; hint: one of them");
	if (r == 0)
		r = undo(&u, argv[rest], &e);
	if (r == 0)
		r = report(&u, &e);
	layerbox_close(&u.b);
	json_decref(u.ended);
	return r < 0 ? command_fail(self, &e, u.json) : 0;
}

const struct command cmd_undo = {
	.name = "undo",
	.args = "SANDBOX",
	.summary = "put a sandbox's files back as they were at a checkpoint",
	.detail = "Every process of the sandbox ends, and it is started again.  Without options it "
		  "goes to the\n"
		  "last checkpoint, and where nothing has run since an undo, to the one before.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = undo_main,
};
