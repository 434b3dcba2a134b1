/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker exec: berth exec in this process, and so at its cost.
 *
 * Nothing is looked up before berth exec does: only an error asks what the container is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/docker/verbs.h"
#include "manager/engine/create.h"
#include "manager/engine/name.h"
#include "manager/keeper/protocol.h"
#include "manager/ops/optvalues.h"

#define REF_MAX 256
#define ID_LEN 12

static const struct opt options[] = {
	{ "detach", 'd', OPT_FLAG, NULL, "Detached mode: run command in the background",
	  DOOR_TAKEN },
	{ "detach-keys", 0, OPT_VALUE, "string",
	  "Override the key sequence for detaching a container", DOOR_IGNORED },
	{ "env", 'e', OPT_LIST, "list", "Set environment variables", DOOR_TAKEN },
	{ "env-file", 0, OPT_LIST, "list", "Read in a file of environment variables", DOOR_TAKEN,
	  COMPLETE_FILE },
	{ "interactive", 'i', OPT_FLAG, NULL, "Keep STDIN open even if not attached", DOOR_TAKEN },
	{ "privileged", 0, OPT_FLAG, NULL,
	  "Give extended privileges to the command: a plain exec as root here", DOOR_IGNORED },
	{ "tty", 't', OPT_FLAG, NULL, "Allocate a pseudo-TTY", DOOR_TAKEN },
	{ "user", 'u', OPT_VALUE, "string", "Username or UID (format: <name|uid>[:<group|gid>])",
	  DOOR_TAKEN },
	{ "workdir", 'w', OPT_VALUE, "string", "Working directory inside the container",
	  DOOR_TAKEN },
};

/* ---- errors ---------------------------------------------------------------------------------- */

/* What failed: there is no such container, it does not run, or the command is not there. */
static int tell_exec_failure(const char *name, const struct err *why)
{
	struct sandbox_ref s;
	struct err e = *why;
	char id[ENGINE_ID];
	int status;

	if (why->code == ERR_EXEC || why->code == ERR_EXEC_NOT_FOUND)
		return door_exec_failed("OCI runtime exec failed: exec failed", why);
	sandbox_ref_init(&s);
	if (door_connect(&s, name, &e) == 0)
		e = *why;
	if (why->code == ERR_BUSY && s.id[0] && door_is_paused(&s)) {
		engine_id(s.id, id);
		err_set(&e, ERR_BUSY, "Container %s is paused, unpause the container before exec", id);
	}
	status = door_error(&e);
	sandbox_ref_close(&s);
	return status;
}

static int exec_fails_as_docker(const struct command *self, const struct err *why)
{
	/* the container's name stands where the words of its help would */
	return tell_exec_failure(self->words, why);
}

/* ---- in the foreground ----------------------------------------------------------------------- */

static size_t add_exec_option(const char **argv, size_t n, const char *option, const char *value)
{
	argv[n++] = option;
	if (value)
		argv[n++] = value;
	return n;
}

/* A descriptor that says nothing, in place of the one that the command is not to have. */
static int exec_silence_stream(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int r = null < 0 || dup2(null, fd) < 0 ? -1 : 0;

	fd_close(&null);
	return r;
}

static int run_here(const struct door_args *a, const json_t *env, const char *ref)
{
	const size_t most = json_array_size(env) * 2 + (size_t)a->count + 12;
	autofree const char **argv = calloc(most, sizeof(*argv));
	struct command exec = cmd_exec;
	const char *v;
	size_t n = 1, i;
	int k;

	if (!argv)
		return door_say(1, "out of memory");
	argv[0] = "exec";
	if (door_on(a, "tty"))
		argv[n++] = "--tty";
	if ((v = door_value(a, "user")) && v[0])
		n = add_exec_option(argv, n, "--user", v);
	if ((v = door_value(a, "workdir")) && v[0])
		n = add_exec_option(argv, n, "--workdir", v);
	for (i = 0; i < json_array_size(env); i++)
		n = add_exec_option(argv, n, "--env", json_string_value(json_array_get(env, i)));
	argv[n++] = "--";
	argv[n++] = ref;
	for (k = 1; k < a->count; k++)
		argv[n++] = a->words[k];
	exec.fail = exec_fails_as_docker;
	exec.words = a->words[0];
	if (!door_on(a, "interactive") && exec_silence_stream(STDIN_FILENO) < 0)
		return door_say(1, "cannot open /dev/null");
	return exec.run(&exec, (int)n, (char **)(size_t)argv);
}

/* ---- detached -------------------------------------------------------------------------------- */

static json_t *body_of(const struct door_args *a, json_t *env)
{
	json_t *cmd = json_array();
	int i;

	for (i = 1; i < a->count; i++)
		if (json_array_append_new(cmd, json_string(a->words[i])) < 0) {
			json_decref(cmd);
			return NULL;
		}
	return json_pack("{s:o,s:O,s:b,s:s*,s:s*}", "Cmd", cmd, "Env", env, "Tty",
			 door_on(a, "tty"), "User", door_value(a, "user"), "WorkingDir",
			 door_value(a, "workdir"));
}

/* It has no stdin, as one that nobody attached to. */
static int start_detached_exec(struct sandbox_ref *s, const json_t *body, struct err *e)
{
	autojson json_t *ask = engine_exec_request(body), *end = protocol_request(OP_send);
	autojson json_t *answer = keeper_call(s->sock, ask, NULL, 0, NULL, e), *ended = NULL;
	const char *command = json_string_value(json_object_get(answer, "command"));
	struct err ignored;

	if (!command)
		return answer ? err_set(e, ERR_CORRUPT, "the keeper named no command") : -1;
	request_set_command(end, command);
	request_set_eof(end, 1);
	ended = keeper_call(s->sock, end, NULL, 0, NULL, &ignored);
	return 0;
}

static int exec_detached(const struct door_args *a, json_t *env)
{
	autojson json_t *body = body_of(a, env);
	struct sandbox_ref s;
	struct err e = { 0 };
	int r = -1, status = 0;

	sandbox_ref_init(&s);
	if (!body)
		err_set(&e, ERR_INVALID, "the command is not valid UTF-8");
	else if (engine_exec_check(body, &e) == 0 && door_connect(&s, a->words[0], &e) == 0)
		r = start_detached_exec(&s, body, &e);
	if (r < 0)
		status = tell_exec_failure(a->words[0], &e);
	sandbox_ref_close(&s);
	return status;
}

/* What berth exec calls the container; only a name that is another in berth is looked up. */
static int refer(const char *name, char ref[REF_MAX], struct err *e)
{
	char mapped[ENGINE_NAME];
	struct sandbox_ref s;
	int r;

	if (engine_ref(name, ref, REF_MAX) < 0)
		return err_set(e, ERR_NOT_FOUND, "No such container: %.200s", name);
	/* 12 digits are an id, which is not to cost a look-up */
	if (strlen(ref) == ID_LEN || engine_name_box(ref, mapped) <= 0)
		return 0;
	sandbox_ref_init(&s);
	r = door_find(&s, name, e);
	if (r == 0)
		snprintf(ref, REF_MAX, "%s", s.id);
	sandbox_ref_close(&s);
	return r;
}

static int docker_exec_main(const struct command *self, int argc, char **argv)
{
	autojson json_t *env = json_array();
	struct door_args a;
	char ref[REF_MAX];
	struct err e;
	int status;

	if (!door_parse(&a, self, argc, argv, 2, -1)) {
		status = a.status;
	} else if (door_env(&a, env, &e) < 0) {
		status = door_say(1, "%s", e.msg);
	} else if (door_on(&a, "tty") && door_on(&a, "interactive") && !door_on(&a, "detach") &&
		   !isatty(STDIN_FILENO)) {
		status = door_say(1, "the input device is not a TTY");
	} else if (refer(a.words[0], ref, &e) < 0) {
		status = door_error(&e);
	} else {
		status = door_on(&a, "detach") ? exec_detached(&a, env) : run_here(&a, env, ref);
	}
	door_release(&a);
	return status;
}

const struct command door_exec = {
	.name = "exec",
	.args = "[OPTIONS] CONTAINER COMMAND [ARG...]",
	.summary = "Execute a command in a running container",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = docker_exec_main,
	.flags = DOOR_FLAGS_FIRST,
};
