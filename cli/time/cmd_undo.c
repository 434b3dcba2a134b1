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
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/lifecycle.h"
#include "cli/live/sandbox_status.h"
#include "cli/time/layerbox.h"
#include "cli/time/timereport.h"
#include "manager/host/checkpoint.h"
#include "manager/host/copyturn.h"
#include "manager/host/journal.h"
#include "manager/host/layerpool.h"
#include "manager/keeper/protocol.h"

#define ENDED_MAX 100
#define KEPT_OUT_MAX 17 /* init and the shells of sessions */

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
	/* the processes that it ended: [{"pid", "command", "text"}], and how many more */
	json_t *ended;
	size_t more;
	json_t *sessions; /* by name: those of now and those of the checkpoint */
	int ran;
	struct layerbox b;
};

static int set_undo_option(void *ctx, int id, const char *value, struct err *e)
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

/*
 * Whether what has run since the undo before has changed no file.  Then this one goes a step
 * further, as it does where nothing has run.
 */
static int find_unchanged(struct undo *u, char ret_id[CHECKPOINT_ID], struct err *e)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	int found, r;

	if (u->to)
		return 0;
	if (checkpoints_open(u->b.dir_fd, 0, &all, e) < 0)
		return -1;
	found = checkpoints_unchanged(&all, ret_id);
	checkpoints_close(&all);
	r = found ? layerbox_is_still(&u->b, ret_id, e) : 0;
	/* removed meanwhile, or its layer is damaged: there is nothing to compare with */
	return r < 0 && (e->code == ERR_NOT_FOUND || e->code == ERR_CORRUPT) ? 0 : r;
}

/* Copies the layer of the checkpoint that is meant. */
static int prepare_undo(struct undo *u, struct err *e)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	char same[CHECKPOINT_ID] = "";
	autoclose int turn = -1;
	json_t *target;
	int result = -1, unchanged = find_unchanged(u, same, e);

	if (unchanged < 0)
		return -1;
	if (copyturn_take(&u->b.s.registry, u->b.s.id, &turn, e) < 0 ||
	    checkpoints_open(u->b.dir_fd, 1, &all, e) < 0)
		return -1;
	target = u->to ? checkpoints_find(&all, u->to, e) :
			 checkpoints_back(&all, u->steps ? (unsigned)u->steps : 1, unchanged ? same : NULL, e);
	if (target) {
		snprintf(u->target, sizeof(u->target), "%s",
			 json_string_value(json_object_get(target, "id")));
		result = checkpoint_prepare(&all, u->target, e);
	}
	checkpoints_close(&all);
	return result;
}

static json_t *ask_about_undo(struct undo *u, enum protocol_op op)
{
	autojson json_t *rq = protocol_request(op);
	struct err ignored;
	json_t *answer = NULL;

	u->b.s.sock = keeper_connect(&u->b.s.registry, u->b.s.id, &ignored);
	if (u->b.s.sock >= 0)
		answer = keeper_call(u->b.s.sock, rq, NULL, 0, NULL, &ignored);
	fd_close(&u->b.s.sock);
	return answer;
}

/* Init, and the shell of a session that waits for a command: it comes back, or is said not to. */
static int is_left_out(const json_t *process, const json_t *sessions)
{
	const json_int_t pid = json_integer_value(json_object_get(process, "host_pid"));
	const json_t *one;
	size_t i;

	json_array_foreach (sessions, i, one)
		if (json_integer_value(json_object_get(one, "host_pid")) == pid &&
		    json_is_false(json_object_get(one, "busy")))
			return 1;
	return json_integer_value(json_object_get(process, "pid")) == 1;
}

/* What runs, for the answer: where it is not known, it ends all the same. */
static void note_running(struct undo *u)
{
	autojson json_t *sessions = ask_about_undo(u, OP_sessions), *all = NULL;
	const json_t *open = json_object_get(sessions, "sessions"), *one;
	struct err ignored;
	size_t i;

	all = processes_list(&u->b.s, ENDED_MAX + KEPT_OUT_MAX, &u->more, &ignored);
	json_array_foreach (all, i, one) {
		if (is_left_out(one, open))
			continue;
		if (json_array_size(u->ended) == ENDED_MAX)
			u->more++;
		else
			json_array_append_new(u->ended,
					      json_pack("{s:O*,s:O*,s:O*}", "pid",
							json_object_get(one, "pid"), "command",
							json_object_get(one, "of"), "text",
							json_object_get(one, "command")));
	}
	json_array_foreach (open, i, one)
		if (json_is_true(json_object_get(one, "alive")))
			json_object_set(u->sessions,
					json_string_value(json_object_get(one, "session")),
					json_object_get(one, "session"));
}

/* ---- sessions ------------------------------------------------------------------------ */

static int note_session(void *ctx, const char *name)
{
	struct undo *u = ctx;
	struct checkpoint_shell shell;
	struct err why = { 0 };
	const char *lost = "its state is damaged";

	if (checkpoint_shell_read(u->b.dir_fd, u->target, name, &shell, NULL, &why) == 0)
		lost = shell.lost;
	json_object_set_new(u->sessions, name,
			    json_pack("{s:s,s:b,s:s*}", "session", name, "restored", !lost[0],
				      "reason", lost[0] ? lost : NULL));
	return 0;
}

/* Those of the checkpoint, and those of now. */
static void tell_sessions(struct undo *u)
{
	static const char unknown[] = "it did not exist at the checkpoint";
	struct err ignored;
	const char *name;
	json_t *one;
	void *next;

	checkpoint_shells_each(u->b.dir_fd, u->target, note_session, u, &ignored);
	json_object_foreach_safe (u->sessions, next, name, one)
		if (json_is_string(one))
			json_object_set_new(u->sessions, name,
					    json_pack("{s:s,s:b,s:s}", "session", name, "restored",
						      0, "reason", unknown));
}

static json_t *list_of_sessions(const struct undo *u)
{
	json_t *list = json_array(), *one;
	const char *name;

	json_object_foreach (u->sessions, name, one)
		json_array_append(list, one);
	return list;
}

static int decide_undo(struct undo *u, struct err *e)
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

static int undo_to_checkpoint(struct undo *u, const char *ref, struct err *e)
{
	static const struct stop_request at_once = { .stays = 1 };
	struct registry *r = &u->b.s.registry;

	if (layerbox_find(&u->b, ref, e) < 0)
		return -1;
	layerpool_hold(r, u->b.dir_fd);
	if (prepare_undo(u, e) < 0)
		return -1;
	u->ran = !u->b.s.kept;
	if (u->ran) {
		note_running(u);
		layerbox_see_memory(&u->b);
		if (lifecycle_stop(&u->b.s, u->b.s.id, &at_once, e) < 0)
			return -1;
	}
	if (decide_undo(u, e) < 0)
		return -1;
	tell_sessions(u);
	events_add(r, "undo", u->b.s.id,
		   json_pack("{s:s,s:O,s:i,s:o}", "checkpoint", u->target, "ended", u->ended,
			     "ended_more", (int)u->more, "sessions", list_of_sessions(u)));
	fd_close(&u->b.dir_fd); /* the keeper would have it, too */
	return u->ran ? resident_start(r, u->b.s.id, e) : 0;
}

static int report_undo(struct undo *u, struct err *e)
{
	autojson json_t *doc = json_pack("{s:s,s:s,s:O,s:i,s:o}", "id", u->b.s.id, "checkpoint",
					 u->target, "ended", u->ended, "ended_more", (int)u->more,
					 "sessions", list_of_sessions(u));

	if (!doc)
		return err_nomem(e);
	if (u->json)
		return command_print_json(doc, JSON_COMPACT, e);
	undoreport_print(doc);
	layerbox_note_mounts(&u->b, "undo", "stay as they are");
	layerbox_note_memory(&u->b, "undo", "is gone");
	return 0;
}

static int undo_main(const struct command *self, int argc, char **argv)
{
	struct undo u = { .ended = json_array(), .sessions = json_object() };
	struct err e = { 0 };
	int rest, help = 0, r;

	layerbox_init(&u.b);
	r = command_options(self, argc, argv, set_undo_option, &u, &rest, &help, &e);
	if (r == 0 && !help && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE,
			    "one sandbox is wanted; "
			    "hint: berth undo ID, or berth undo --to CHECKPOINT ID");
	if (r == 0 && u.to && u.steps)
		r = err_set(&e, ERR_USAGE, "--to and --steps say both where to; hint: one of them");
	if (r == 0 && !help)
		r = undo_to_checkpoint(&u, argv[rest], &e);
	if (r == 0 && !help)
		r = report_undo(&u, &e);
	layerbox_close(&u.b);
	json_decref(u.ended);
	json_decref(u.sessions);
	return r < 0 ? command_fail(self, &e, u.json) : 0;
}

const struct command cmd_undo = {
	.name = "undo",
	.args = "SANDBOX",
	.summary = "put a sandbox's files back as they were at a checkpoint",
	.detail = "Every process of the sandbox ends, and it is started again; shell sessions that "
		  "waited for a\n"
		  "command at the checkpoint come back as they were.  Without options it goes to "
		  "the last\n"
		  "checkpoint, and where no file has changed since an undo, to the one before.  Volumes and\n"
		  "what is in memory are no part of a checkpoint: volumes stay as they are, and /run and /dev/shm\n"
		  "are empty then, and so is a /tmp in memory.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = undo_main,
};
