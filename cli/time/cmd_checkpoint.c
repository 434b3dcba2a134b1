/* SPDX-License-Identifier: Apache-2.0 */
/* berth checkpoint, checkpoints, checkpoint rm: copies of a sandbox's files at one instant. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/time/layerbox.h"
#include "cli/time/timereport.h"
#include "manager/host/journal.h"
#include "manager/keeper/protocol.h"

enum { OPT_JSON = 1, OPT_NAME, OPT_KEEP };

static const struct opt json_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

static const struct opt options[] = {
	{ "name", 0, OPT_VALUE, "NAME", "a name for the checkpoint, beside its id", OPT_NAME },
	{ "keep", 0, OPT_VALUE, "N",
	  "let the sandbox keep N from now on; the oldest go (default: [sandbox] checkpoint_keep)",
	  OPT_KEEP },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

struct args {
	int json;
	const char *name;
	uint64_t keep;
};

static int set_checkpoint_option(void *ctx, int id, const char *value, struct err *e)
{
	struct args *a = ctx;

	if (id == OPT_JSON)
		a->json = 1;
	else if (id == OPT_NAME)
		a->name = value;
	else
		return num_u64(value, "keep", 1, CHECKPOINT_KEEP_MAX, &a->keep, e);
	return 0;
}

/* ---- checkpoint ------------------------------------------------------------------ */

static json_t *ask_for_checkpoint(struct layerbox *b, const struct args *a, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_checkpoint);

	b->s.sock = keeper_connect(&b->s.registry, b->s.id, e);
	if (b->s.sock < 0)
		return NULL;
	if (a->name[0])
		request_set_name(rq, a->name);
	if (a->keep)
		request_set_keep(rq, a->keep);
	return keeper_call(b->s.sock, rq, NULL, 0, NULL, e);
}

static json_t *checkpoint_of_stopped(struct layerbox *b, const struct args *a, struct err *e)
{
	json_t *members = json_pack("{s:s*}", "name", a->name[0] ? a->name : NULL), *answer;
	char id[CHECKPOINT_ID];

	if (!members) {
		err_set(e, ERR_INVALID, "the name is not valid UTF-8");
		return NULL;
	}
	if (layerbox_claim(b, e) < 0) {
		json_decref(members);
		return NULL;
	}
	if (layerbox_checkpoint(b, a->name, members, (unsigned)a->keep, id, e) < 0)
		return NULL;
	answer = json_pack("{s:s,s:s*}", "checkpoint", id, "name", a->name[0] ? a->name : NULL);
	events_add(&b->s.registry, "checkpoint", b->s.id, json_deep_copy(answer));
	return answer;
}

static int make_checkpoint(struct layerbox *b, const char *ref, const struct args *a, struct err *e)
{
	autojson json_t *answer = NULL;
	const char *id;

	if (layerbox_find(b, ref, e) < 0)
		return -1;
	answer = b->s.kept ? checkpoint_of_stopped(b, a, e) : ask_for_checkpoint(b, a, e);
	if (!answer)
		return -1;
	id = json_string_value(json_object_get(answer, "checkpoint"));
	if (!id)
		return err_set(e, ERR_INTERNAL, "the keeper told no checkpoint");
	if (!a->json) {
		layerbox_note_mounts(b, "checkpoint", "are not in it");
		layerbox_see_memory(b);
		layerbox_note_memory(b, "checkpoint", "is not in it");
		return puts(id) < 0 ? err_sys(e, "write") : 0;
	}
	json_object_set_new(answer, "id", json_string(b->s.id));
	json_object_del(answer, "v");
	return command_print_json(answer, JSON_COMPACT, e);
}

static int checkpoint_main(const struct command *self, int argc, char **argv)
{
	struct args a = { .name = "" };
	struct layerbox b;
	struct err e = { 0 };
	int rest, help = 0, r;

	layerbox_init(&b);
	r = command_options(self, argc, argv, set_checkpoint_option, &a, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE,
			    "one sandbox is wanted; "
			    "hint: berth checkpoint ID, or berth checkpoint --name NAME ID");
	if (r == 0)
		r = make_checkpoint(&b, argv[rest], &a, &e);
	layerbox_close(&b);
	return r < 0 ? command_fail(self, &e, a.json) : 0;
}

/* ---- checkpoints ------------------------------------------------------------------ */

static const char *checkpoint_text_of(const json_t *record, const char *key)
{
	const char *s = json_string_value(json_object_get(record, key));

	return s ? s : "-";
}

static int tell_list(const struct layerbox *b, const struct checkpoints *all, int json,
		     struct err *e)
{
	autojson json_t *doc = NULL;
	struct checkpoint_use use = { 0, 0 };

	if (checkpoints_use(all, &use, e) < 0)
		return -1;
	doc = json_pack("{s:s,s:s?,s:O,s:I,s:I,s:I}", "id", b->s.id, "head", checkpoints_head(all),
			"checkpoints", checkpoints_list(all), "bytes", (json_int_t)use.bytes,
			"held_bytes", (json_int_t)use.held, "limit_bytes",
			(json_int_t)b->s.config.checkpoint_bytes);
	if (!doc)
		return err_nomem(e);
	if (json)
		return command_print_json(doc, JSON_COMPACT, e);
	checkpointtable_print(doc);
	return 0;
}

static int list_checkpoints_of(struct layerbox *b, const char *ref, int json, struct err *e)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	int result;

	if (layerbox_find(b, ref, e) < 0 || checkpoints_open(b->dir_fd, 0, &all, e) < 0)
		return -1;
	result = tell_list(b, &all, json, e);
	checkpoints_close(&all);
	return result;
}

static int list_main(const struct command *self, int argc, char **argv)
{
	struct args a = { .name = "" };
	struct layerbox b;
	struct err e = { 0 };
	int rest, help = 0, r;

	layerbox_init(&b);
	r = command_options(self, argc, argv, set_checkpoint_option, &a, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth checkpoints ID");
	if (r == 0)
		r = list_checkpoints_of(&b, argv[rest], a.json, &e);
	layerbox_close(&b);
	return r < 0 ? command_fail(self, &e, a.json) : 0;
}

/* ---- checkpoint rm ----------------------------------------------------------------- */

static int remove_each_checkpoint(struct layerbox *b, char **words, int n, int as_json, struct err *e)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	autojson json_t *gone = json_array();
	int i, result = 0;

	if (checkpoints_open(b->dir_fd, 1, &all, e) < 0)
		return -1;
	for (i = 0; i < n && result == 0; i++) {
		autojson json_t *one = json_incref(checkpoints_find(&all, words[i], e));

		result = one ? checkpoint_remove(&all, checkpoint_text_of(one, "id"), e) : -1;
		if (result == 0) {
			json_array_append(gone, json_object_get(one, "id"));
			if (!as_json)
				puts(checkpoint_text_of(one, "id"));
		}
	}
	checkpoints_close(&all);
	if (json_array_size(gone))
		events_add(&b->s.registry, "checkpoint-rm", b->s.id,
			   json_pack("{s:O}", "checkpoints", gone));
	if (result == 0 && as_json) {
		autojson json_t *doc = json_pack("{s:s,s:O}", "id", b->s.id, "removed", gone);

		result = doc ? command_print_json(doc, JSON_COMPACT, e) : err_nomem(e);
	}
	return result;
}

static int berth_checkpoint_rm_main(const struct command *self, int argc, char **argv)
{
	struct args a = { .name = "" };
	struct layerbox b;
	struct err e = { 0 };
	int rest, help = 0, r;

	layerbox_init(&b);
	r = command_options(self, argc, argv, set_checkpoint_option, &a, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 > argc)
		r = err_set(&e, ERR_USAGE,
			    "a sandbox and its checkpoints are wanted; "
			    "hint: berth checkpoint rm ID k1");
	if (r == 0)
		r = layerbox_find(&b, argv[rest], &e);
	if (r == 0)
		r = remove_each_checkpoint(&b, argv + rest + 1, argc - rest - 1, a.json, &e);
	layerbox_close(&b);
	return r < 0 ? command_fail(self, &e, a.json) : 0;
}

const struct command cmd_checkpoint_rm = {
	.name = "checkpoint rm",
	.args = "SANDBOX CHECKPOINT...",
	.summary = "remove checkpoints of a sandbox",
	.opts = json_options,
	.opt_count = ARRAY_LEN(json_options),
	.complete = COMPLETE_SANDBOX,
	.run = berth_checkpoint_rm_main,
};

const struct command cmd_checkpoint = {
	.name = "checkpoint",
	.args = "SANDBOX",
	.summary =
		"keep a sandbox's files as they are now, and print the checkpoint's id",
	.detail = "Commands run on; they stand still for the instant itself.  berth undo goes back "
		  "to it.\n"
		  "It has the files of the writable layer, and the shell sessions' directories, variables and\n"
		  "functions.  Left out: volumes and other mounts, /run, /dev/shm, processes and their memory.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = checkpoint_main,
};

const struct command cmd_checkpoints = {
	.name = "checkpoints",
	.args = "SANDBOX",
	.summary = "list the checkpoints of a sandbox",
	.opts = json_options,
	.opt_count = ARRAY_LEN(json_options),
	.complete = COMPLETE_SANDBOX,
	.run = list_main,
};
