/* SPDX-License-Identifier: Apache-2.0 */
/* docker stop, restart, kill, pause, unpause, rename and rm; a prune of containers. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/docker/verbs.h"
#include "cli/live/lifecycle.h"
#include "manager/engine/host.h"
#include "manager/engine/id.h"
#include "manager/host/layerpool.h"
#include "manager/host/list.h"
#include "manager/host/rename.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/request.h"
#include "manager/host/volume_own.h"
#include "manager/ops/signals.h"

#define GRACE_MAX_S 86400

/* ---- stop, restart, kill --------------------------------------------------------------------- */

struct ending {
	const struct door_args *a;
	struct resident_end how;
	uint64_t signo;
};

/* --timeout, or --time of older clients: seconds, -1 for ever; none is the container's own. */
static int take_grace(const struct door_args *a, struct resident_end *ret, struct err *e)
{
	const char *text = door_value(a, "timeout");
	uint64_t s;

	text = text ? text : door_value(a, "time");
	*ret = (struct resident_end){ .own_grace = !text };
	if (!text)
		return 0;
	if (!strcmp(text, "-1"))
		s = GRACE_MAX_S;
	else if (num_u64(text, "timeout", 0, GRACE_MAX_S, &s, e) < 0)
		return -1;
	ret->grace_ms = s * 1000;
	return 0;
}

static int send_first(struct sandbox_ref *s, const struct ending *x, struct err *e)
{
	if (!x->signo || s->kept)
		return 0;
	if (lifecycle_kill(s, s->id, x->signo, e) == 0 || e->code == ERR_NOT_FOUND)
		return 0;
	return -1;
}

static int stop_one(void *ctx, struct sandbox_ref *s, const char *name, struct err *e)
{
	const struct ending *x = ctx;

	if (door_find(s, name, e) < 0 || send_first(s, x, e) < 0)
		return -1;
	fd_close(&s->sock);
	if (s->kept && restart_pending(&s->registry, s->id) <= 0)
		return 0;
	return lifecycle_stop(s, s->id, &x->how, e);
}

static int restart_one(void *ctx, struct sandbox_ref *s, const char *name, struct err *e)
{
	const struct ending *x = ctx;

	if (door_find(s, name, e) < 0 || send_first(s, x, e) < 0)
		return -1;
	fd_close(&s->sock);
	return s->kept ? lifecycle_start(s, s->id, &(struct resident_again){ 0 }, e) : lifecycle_restart(s, s->id, &x->how, e);
}

static int kill_one(void *ctx, struct sandbox_ref *s, const char *name, struct err *e)
{
	const struct ending *x = ctx;
	char id[ENGINE_ID];

	if (door_find(s, name, e) < 0)
		return -1;
	engine_id(s->id, id);
	if (s->kept && restart_pending(&s->registry, s->id) <= 0)
		return err_set(e, ERR_BUSY,
			       "cannot kill container: %.100s: container %s is not "
			       "running",
			       name, id);
	return lifecycle_kill(s, s->id, x->signo, e);
}

static int ending_main(const struct command *self, int argc, char **argv, door_fn *one)
{
	struct door_args a;
	struct ending x = { .a = &a };
	const char *word;
	struct err e;
	int status;

	if (!door_parse(&a, self, argc, argv, 1, -1)) {
		status = a.status;
	} else {
		word = door_value(&a, "signal");
		if (take_grace(&a, &x.how, &e) < 0 ||
		    (word && word[0] && signal_number(word, &x.signo, &e) < 0))
			status =
				e.code == ERR_INVALID && word ?
					door_say(
						1,
						"Error response from daemon: invalid signal: %.40s",
						word) :
					door_error(&e);
		else
			status = door_each(&a, one, &x);
	}
	door_release(&a);
	return status;
}

static int stop_main(const struct command *self, int argc, char **argv)
{
	return ending_main(self, argc, argv, stop_one);
}

static int restart_main(const struct command *self, int argc, char **argv)
{
	return ending_main(self, argc, argv, restart_one);
}

static int kill_main(const struct command *self, int argc, char **argv)
{
	return ending_main(self, argc, argv, kill_one);
}

static const struct opt stop_options[] = {
	{ "signal", 's', OPT_VALUE, "string", "Signal to send to the container", DOOR_TAKEN },
	{ "timeout", 't', OPT_VALUE, "int", "Seconds to wait before killing the container",
	  DOOR_TAKEN },
	{ "time", 0, OPT_VALUE, "int", "The same as --timeout", DOOR_TAKEN },
};

static const struct opt kill_options[] = {
	{ "signal", 's', OPT_VALUE, "string", "Signal to send to the container", DOOR_TAKEN },
};

/* ---- pause and unpause ----------------------------------------------------------------------- */

static int freeze(struct sandbox_ref *s, const char *name, int on, struct err *e)
{
	autojson json_t *ping = protocol_request(OP_ping),
			*ask = protocol_request(on ? OP_pause : OP_resume);
	autojson json_t *now = NULL, *answer = NULL;
	const char *state;

	if (door_connect(s, name, e) < 0 || !(now = keeper_call(s->sock, ping, NULL, 0, NULL, e)))
		return -1;
	state = json_string_value(json_object_get(now, "state"));
	if (state && on == !strcmp(state, "paused"))
		return err_set(e, ERR_BUSY, "Container %.200s is %s", name,
			       on ? "already paused" : "not paused");
	answer = keeper_call(s->sock, ask, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

static int freeze_one(void *ctx, struct sandbox_ref *s, const char *name, struct err *e)
{
	return freeze(s, name, *(int *)ctx, e);
}

static int freeze_main(const struct command *self, int argc, char **argv)
{
	int on = !strcmp(self->name, "pause"), status;
	struct door_args a;

	status =
		door_parse(&a, self, argc, argv, 1, -1) ? door_each(&a, freeze_one, &on) : a.status;
	door_release(&a);
	return status;
}

/* ---- rename ---------------------------------------------------------------------------------- */

static int rename_it(struct sandbox_ref *s, const char *from, const char *to, struct err *e)
{
	to += *to == '/';
	if (door_find(s, from, e) < 0 || engine_check_name(to, e) < 0)
		return -1;
	if (engine_host_rename(&s->registry, s->id, to, e) == 0)
		return 0;
	return e->code == ERR_EXISTS ?
		       err_set(e, ERR_EXISTS,
			       "Error when allocating new name: Conflict. The container "
			       "name \"/%.255s\" is already in use",
			       to) :
		       -1;
}

static int rename_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct door_args a;
	struct err e;
	int status = 0;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 2, 2)) {
		status = a.status;
	} else if (rename_it(&s, a.words[0], a.words[1], &e) < 0) {
		door_explain(&s, a.words[0], &e);
		status = door_say(1, "Error response from daemon: %s", e.msg);
	}
	sandbox_ref_close(&s);
	door_release(&a);
	return status;
}

/* ---- rm -------------------------------------------------------------------------------------- */

struct removing {
	int force, volumes;
};

static int rm_one(const struct removing *how, struct sandbox_ref *s, const char *name,
		  struct err *e)
{
	autojson json_t *own = NULL;

	if (door_find(s, name, e) < 0)
		return -1;
	if (!s->kept && !how->force)
		return err_set(e, ERR_BUSY,
			       "cannot remove container \"%.100s\": container is "
			       "running: stop the container before removing or force remove",
			       name);
	own = how->volumes ? volume_own_load(&s->registry, s->id) : NULL;
	if (lifecycle_remove(&s->registry, s->id, 1, e) < 0)
		return -1;
	volume_own_remove(&s->registry, own);
	return 0;
}

static int rm_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	struct removing how;
	int status, i;

	if (!door_parse(&a, self, argc, argv, 1, -1)) {
		status = a.status;
	} else {
		how = (struct removing){ door_on(&a, "force"), door_on(&a, "volumes") };
		status = 0;
		for (i = 0; i < a.count; i++) {
			struct sandbox_ref s;
			struct err e;

			sandbox_ref_init(&s);
			if (rm_one(&how, &s, a.words[i], &e) == 0) {
				printf("%s\n", a.words[i]);
			} else {
				door_explain(&s, a.words[i], &e);
				/* with --force one that is not there is told, and is no failure */
				status |= door_error(&e) && !(how.force && e.code == ERR_NOT_FOUND);
			}
			sandbox_ref_close(&s);
		}
	}
	door_release(&a);
	return status;
}

static const struct opt rm_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "Force the removal of a running container (uses SIGKILL)",
	  DOOR_TAKEN },
	{ "link", 'l', OPT_FLAG, NULL, "Remove the specified link", DOOR_REFUSED, COMPLETE_NONE,
	  "there are no links" },
	{ "volumes", 'v', OPT_FLAG, NULL,
	  "Remove anonymous volumes associated with the container", DOOR_TAKEN },
};

/* ---- prune ----------------------------------------------------------------------------------- */

struct pruning {
	const json_t *filters;
	json_t *ids;
};

static int add_stopped(void *ctx, const char *id, int kept, json_t *record)
{
	struct pruning *p = ctx;

	if (kept && engine_filters_prune(p->filters, json_object_get(record, "labels"),
					 json_string_value(json_object_get(record, "created"))))
		return json_array_append_new(p->ids, json_string(id));
	return 0;
}

int door_prune_containers(json_t *filters, double *freed, struct err *e)
{
	autojson json_t *ids = json_array();
	struct pruning p = { filters, ids };
	struct sandbox_ref s;
	char id[ENGINE_ID];
	struct err ignored;
	const json_t *one;
	int r, told = 0;
	size_t i;

	sandbox_ref_init(&s);
	r = sandbox_ref_registry(&s, e) == 0 ?
		    registry_list(&s.registry, 1, add_stopped, &p, e) :
		    -1;
	json_array_foreach (ids, i, one) {
		const uint64_t bytes =
			layerpool_layer_bytes(s.registry.kept_fd, json_string_value(one));

		if (lifecycle_remove(&s.registry, json_string_value(one), 0, &ignored) < 0)
			continue;
		*freed += (double)bytes;
		engine_id(json_string_value(one), id);
		printf("%s%s\n", told++ ? "" : "Deleted Containers:\n", id);
	}
	sandbox_ref_close(&s);
	return told && printf("\n") < 0 ? -1 : r;
}

#define VERB(sym, verb, words, text, table, count, main)                                           \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = words,                                                                     \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = count,                                                                \
		.complete = COMPLETE_SANDBOX,                                                      \
		.run = main,                                                                       \
	}
#define EACH "[OPTIONS] CONTAINER [CONTAINER...]"

VERB(stop, "stop", EACH, "Stop one or more running containers", stop_options,
	ARRAY_LEN(stop_options), stop_main);
VERB(restart, "restart", EACH, "Restart one or more containers", stop_options,
	ARRAY_LEN(stop_options), restart_main);
VERB(kill, "kill", EACH, "Kill one or more running containers", kill_options,
	ARRAY_LEN(kill_options), kill_main);
VERB(pause, "pause", "CONTAINER [CONTAINER...]",
	"Pause all processes within one or more containers", NULL, 0, freeze_main);
VERB(unpause, "unpause", "CONTAINER [CONTAINER...]",
	"Unpause all processes within one or more containers", NULL, 0, freeze_main);
VERB(rename, "rename", "CONTAINER NEW_NAME", "Rename a container", NULL, 0, rename_main);
VERB(rm, "rm", EACH, "Remove one or more containers", rm_options, ARRAY_LEN(rm_options), rm_main);
