/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes on the checkpoints of a sandbox: make, list, remove, go back to one, fork.
 *
 * The keeper of a running sandbox makes its checkpoints.  The program does the rest: an undo ends
 * the processes of a sandbox and starts it again, and a fork starts keepers.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/host/procid.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/ops/params.h"

/* Gives the call these members of body, and its options. */
static json_t *with_members(json_t *call, const json_t *body, const char *const *members)
{
	for (; *members; members++)
		call_set(call, *members, json_incref(json_object_get(body, *members)));
	call_options(call, json_object_get(body, "options"));
	return call;
}

/* ---- checkpoints --------------------------------------------------------------------- */

static int get_checkpoints(struct http_request *rq, struct err *e)
{
	json_t *list = NULL;
	struct box b;

	if (box_find(&b, rq, e) == 0)
		list = spawn_json(rq, call_of("checkpoints", b.id, NULL), 0, e);
	box_close(&b);
	return list ? http_reply_json(rq, 0, list, e) : -1;
}

/* owner: the process that it is for alone, or NULL. */
static json_t *ask_keeper_for_checkpoint(struct box *b, const json_t *body, const char *owner, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_checkpoint);
	const char *name = json_string_value(json_object_get(body, "name"));
	const json_t *keep = json_object_get(body, "keep");
	json_t *answer;

	if (name)
		request_set_name(ask, name);
	if (keep)
		request_set_keep(ask, (uint64_t)json_integer_value(keep));
	if (owner)
		request_set_owner(ask, owner);
	if (b->sock < 0)
		b->sock = keeper_connect(&b->registry, b->id, e);
	answer = b->sock < 0 ? NULL : box_call(b, ask, NULL, 0, NULL, e);
	if (answer)
		json_object_set_new(answer, "id", json_string(b->id));
	return answer;
}

static json_t *checkpoint_stopped_sandbox(struct box *b, const json_t *body, struct err *e)
{
	static const char *const members[] = { "name", "keep", NULL };

	return box_lock(b, e) < 0 ?
		       NULL :
		       spawn_json(b->rq, with_members(call_of("checkpoint", b->id, NULL), body, members), 1, e);
}

json_t *api_checkpoint(struct box *b, const json_t *body, struct err *e)
{
	return b->kept ? checkpoint_stopped_sandbox(b, body, e) : ask_keeper_for_checkpoint(b, body, NULL, e);
}

json_t *api_own_checkpoint(struct box *b, struct err *e)
{
	char us[PROCID_SIZE];

	return procid_name(getpid(), us, e) < 0 ? NULL : ask_keeper_for_checkpoint(b, NULL, us, e);
}

void api_drop_checkpoint(const struct box *b, const char *checkpoint)
{
	struct err ignored;

	spawn_berth(b->rq, call_of("checkpoint rm", b->id, checkpoint, NULL), 1, -1, NULL, &ignored);
}

static int post_checkpoint(struct http_request *rq, struct err *e)
{
	json_t *made = NULL;
	struct box b;

	if (box_find(&b, rq, e) == 0)
		made = api_checkpoint(&b, http_json(rq), e);
	box_close(&b);
	return made ? http_reply_json(rq, 0, made, e) : -1;
}

static int delete_checkpoint(struct http_request *rq, struct err *e)
{
	json_t *gone = NULL;
	struct box b;

	if (box_find(&b, rq, e) == 0)
		gone = spawn_json(rq, call_of("checkpoint rm", b.id, http_param(rq, "checkpoint"), NULL), 1, e);
	box_close(&b);
	return gone ? http_reply_json(rq, 0, gone, e) : -1;
}

/* ---- back to one ----------------------------------------------------------------------- */

static int post_undo(struct http_request *rq, struct err *e)
{
	static const char *const members[] = { "steps", "to", NULL };
	json_t *done = NULL;
	struct box b;

	if (box_find(&b, rq, e) == 0 && box_lock(&b, e) == 0)
		/* it goes on without the client, so that it ends with one state or the other */
		done = spawn_json(rq, with_members(call_of("undo", b.id, NULL), http_json(rq), members), 1, e);
	box_close(&b);
	return done ? http_reply_json(rq, 0, done, e) : -1;
}

/* ---- from one on -------------------------------------------------------------------------- */

static void remove_forks(struct http_request *rq, const json_t *forks)
{
	json_t *one;
	size_t i;

	json_array_foreach (forks, i, one) {
		const char *id = json_string_value(json_object_get(one, "id"));

		if (id)
			api_forget(rq, id);
	}
}

/* Upholds S19 of SECURITY.md: a tenant may set the same options for a fork as for a new sandbox. */
static int check_fork_body_options(const struct http_request *rq, const json_t *options, struct err *e)
{
	autojson json_t *checked = json_array();
	const char *name;
	json_t *v;

	/* copies of volumes are its own, within its bound */
	json_object_foreach ((json_t *)(size_t)options, name, v)
		if (!http_who(rq)->admin && strcmp(name, "volume-copy") && tenantopts_check(name, v, e) < 0)
			return -1;
	return params_from_json(options, PARAM_OF_FORK | PARAM_FROM_AFAR, checked, e);
}

json_t *api_fork(struct http_request *rq, const struct box *b, const json_t *body,
		 const json_t *own, struct err *e)
{
	static const char *const members[] = { "count", "name", "no-start", NULL };
	const char *name = json_string_value(json_object_get(body, "name"));
	const char *checkpoint = json_string_value(json_object_get(body, "checkpoint"));
	json_t *made, *forks, *call;

	if (check_fork_body_options(rq, json_object_get(body, "options"), e) < 0)
		return NULL;
	call = with_members(call_of("fork", NULL), body, members);
	call_options(call, own);
	call_sandbox(call, b->id, checkpoint);
	made = spawn_json(rq, call, 1, e);
	if (!made) {
		if (name)
			box_name_taken(rq, name, e);
		return NULL;
	}
	forks = json_object_get(made, "forks");
	/* no client would ever learn their ids */
	if (http_wait(rq, -1, 0, 0, e) < 0) {
		remove_forks(rq, forks);
		json_decref(made);
		return NULL;
	}
	atomic_fetch_add(&api_of(rq)->creates, json_array_size(forks));
	return made;
}

static int post_sandbox_fork(struct http_request *rq, struct err *e)
{
	json_t *made = NULL;
	struct box b;

	if (box_find(&b, rq, e) == 0)
		made = api_fork(rq, &b, http_json(rq), NULL, e);
	box_close(&b);
	return made ? http_reply_json(rq, 0, made, e) : -1;
}

#define CHECKPOINTS "/v1/sandboxes/{id}/checkpoints"

const struct http_route checkpoint_routes[] = {
	{ "GET", CHECKPOINTS, get_checkpoints, "its checkpoints, oldest first",
	  .response = "CheckpointList" },
	{ "POST", CHECKPOINTS, post_checkpoint, "keep its files as they are now", HTTP_JSON,
	  HTTP_OPTIONAL, .request = "CheckpointCreate", .response = "CheckpointMade",
	  .status = 201 },
	{ "DELETE", CHECKPOINTS "/{checkpoint}", delete_checkpoint, "remove a checkpoint",
	  .response = "CheckpointRemoved" },
	{ "POST", "/v1/sandboxes/{id}/undo", post_undo,
	  "put its files back as they were at a checkpoint, and start it again", HTTP_JSON,
	  HTTP_OPTIONAL, .request = "Undo", .response = "Undone" },
	{ "POST", "/v1/sandboxes/{id}/fork", post_sandbox_fork,
	  "make sandboxes that begin with its files", HTTP_JSON, HTTP_OPTIONAL,
	  .request = "Fork", .response = "Forked", .status = 201 },
	{ NULL },
};
