/* SPDX-License-Identifier: Apache-2.0 */
/* docker stop, restart, kill, pause, unpause, rename and rm; a prune of containers. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/docker/verbs.h"
#include "manager/engine/containers.h"

/* ---- stop, restart, kill --------------------------------------------------------------------- */

/* --timeout, or --time of older clients: seconds, -1 for ever; none is the container's own. */
static int read_docker_ending(const struct door_args *a, struct engine_ending *ret, struct err *e)
{
	const char *text = door_value(a, "timeout");
	uint64_t s = 0;

	text = text ? text : door_value(a, "time");
	*ret = (struct engine_ending){ .signal = door_value(a, "signal"), .has_grace = text != NULL, .grace_s = -1 };
	if (engine_check_signal(ret->signal, e) < 0)
		return -1;
	if (!text || !strcmp(text, "-1"))
		return 0;
	if (num_u64(text, "timeout", 0, INT32_MAX, &s, e) < 0)
		return -1;
	ret->grace_s = (long)s;
	return 0;
}

static int stop_one(void *ctx, const struct engine_container *c, struct err *e)
{
	return engine_container_stop(c, ctx, e);
}

static int restart_one(void *ctx, const struct engine_container *c, struct err *e)
{
	return engine_container_restart(c, ctx, e);
}

static int kill_one_container(void *ctx, const struct engine_container *c, struct err *e)
{
	return engine_container_kill(c, ((struct engine_ending *)ctx)->signal, e);
}

static int ending_main(const struct command *self, int argc, char **argv, door_fn *one)
{
	struct engine_ending how;
	struct door_args a;
	struct err e;
	int status;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	else
		status = read_docker_ending(&a, &how, &e) < 0 ? door_error(&e) : door_each(&a, one, &how);
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
	return ending_main(self, argc, argv, kill_one_container);
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

/* ---- pause, unpause, rename ------------------------------------------------------------------ */

static int pause_one(void *ctx, const struct engine_container *c, struct err *e)
{
	return engine_container_pause(c, *(int *)ctx, e);
}

static int pause_main(const struct command *self, int argc, char **argv)
{
	int on = !strcmp(self->name, "pause"), status;
	struct door_args a;

	status = door_parse(&a, self, argc, argv, 1, -1) ? door_each(&a, pause_one, &on) : a.status;
	door_release(&a);
	return status;
}

static int rename_docker_container(struct sandbox_ref *s, const char *from, const char *to, struct err *e)
{
	struct engine_container c;

	return door_container(&c, s, from, e) < 0 ? -1 : engine_container_rename(&c, to, e);
}

static int docker_rename_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct door_args a;
	struct err e;
	int status = 0;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 2, 2)) {
		status = a.status;
	} else if (rename_docker_container(&s, a.words[0], a.words[1], &e) < 0) {
		engine_container_explain(&s.registry, s.id, a.words[0], &e);
		status = door_say(1, "Error response from daemon: %s", e.msg);
	}
	sandbox_ref_close(&s);
	door_release(&a);
	return status;
}

/* ---- rm -------------------------------------------------------------------------------------- */

static int docker_rm_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	int status, i, force;

	if (!door_parse(&a, self, argc, argv, 1, -1)) {
		status = a.status;
	} else {
		force = door_on(&a, "force");
		status = 0;
		for (i = 0; i < a.count; i++) {
			struct engine_container c;
			struct sandbox_ref s;
			struct err e;

			sandbox_ref_init(&s);
			if (door_container(&c, &s, a.words[i], &e) == 0 &&
			    engine_container_remove(&c, force, door_on(&a, "volumes"), &e) == 0) {
				printf("%s\n", a.words[i]);
			} else {
				engine_container_explain(&s.registry, s.id, a.words[i], &e);
				/* with --force a container that is not there is told, and is no failure */
				status |= door_error(&e) && !(force && e.code == ERR_NOT_FOUND);
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

int door_prune_containers(json_t *filters, double *freed, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);
	autojson json_t *said = NULL;
	struct sandbox_ref s;

	sandbox_ref_init(&s);
	if (sandbox_ref_registry(&s, e) == 0)
		said = engine_container_prune(&b, &s.registry, filters, e);
	sandbox_ref_close(&s);
	*freed += json_number_value(json_object_get(said, "SpaceReclaimed"));
	return said ? door_told_gone("Deleted Containers:", json_object_get(said, "ContainersDeleted")) : -1;
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
	"Pause all processes within one or more containers", NULL, 0, pause_main);
VERB(unpause, "unpause", "CONTAINER [CONTAINER...]",
	"Unpause all processes within one or more containers", NULL, 0, pause_main);
VERB(rename, "rename", "CONTAINER NEW_NAME", "Rename a container", NULL, 0, docker_rename_main);
VERB(rm, "rm", EACH, "Remove one or more containers", rm_options, ARRAY_LEN(rm_options), docker_rm_main);
