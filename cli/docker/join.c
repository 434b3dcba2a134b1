/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a container and being there: docker start, attach, wait. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/detachkeys.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/docker/verbs.h"
#include "cli/live/follow.h"
#include "cli/live/lifecycle.h"
#include "manager/engine/name.h"
#include "manager/host/forget.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define GONE_LOOK_MS 1
#define END_MS 5000 /* for a keeper to tidy up after its command */

/* ---- start ----------------------------------------------------------------------------------- */

int door_exec_failed(const char *head, const struct err *why)
{
	if (why->code == ERR_EXEC)
		return door_say(126, "%s: exec: %s%s: unknown", head, why->msg,
				strstr(why->msg, strerror(E2BIG)) ? "" : ": permission denied");
	return door_say(127, "%s: exec: %s: executable file not found in $PATH: unknown", head,
			why->msg);
}

int door_start_it(struct sandbox_ref *s, unsigned awaited, struct err *e)
{
	if (lifecycle_start(s, s->id, &(struct resident_again){ .awaited = awaited }, e) < 0)
		return -1;
	s->kept = 0;
	return 0;
}

/*
 * The keeper closes our connection when nothing of the run is left, and the kernel does when the
 * keeper was killed.
 */
static void await_keeper_gone(struct sandbox_ref *s, int timeout_ms)
{
	struct pollfd p = { .fd = s->sock };

	if (s->sock < 0)
		return;
	while (poll(&p, 1, timeout_ms) < 0 && errno == EINTR)
		;
	fd_close(&s->sock);
}

static int is_sandbox_left(const struct sandbox_ref *s)
{
	return path_has(s->registry.kept_fd, s->id) || path_has(s->registry.sandboxes_fd, s->id);
}

void door_await_removal(struct sandbox_ref *s)
{
	struct err ignored;
	uint64_t until;

	await_keeper_gone(s, -1);
	/* what a killed keeper left is removed here; another keeper runs it if it was restarted */
	if (is_sandbox_left(s) && registry_clear_dead(&s->registry, s->id, END_MS, 0, &ignored) == 1)
		forget_alone(&s->registry, s->id, &ignored);
	for (until = clock_ms() + END_MS; is_sandbox_left(s) && clock_ms() < until;)
		poll(NULL, 0, GONE_LOOK_MS);
}

/* With a restart policy the next run has the same place. */
void door_await_end(struct sandbox_ref *s)
{
	await_keeper_gone(s, END_MS);
}

/* ---- join ------------------------------------------------------------------------------------ */

struct main_command {
	uint64_t bytes[2];
	int tty, stdin_open;
};

static int look_at_main_command(struct sandbox_ref *s, struct main_command *ret, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_commands);
	autojson json_t *answer = keeper_call(s->sock, rq, NULL, 0, NULL, e);
	const json_t *c;
	size_t i;

	if (!answer)
		return -1;
	json_array_foreach (json_object_get(answer, "commands"), i, c) {
		if (!json_is_true(json_object_get(c, KEEPER_MAIN)))
			continue;
		ret->tty = json_is_true(json_object_get(c, "tty"));
		ret->stdin_open = json_is_true(json_object_get(c, "stdin_open"));
		ret->bytes[0] = (uint64_t)json_integer_value(json_object_get(c, "stdout_bytes"));
		ret->bytes[1] = (uint64_t)json_integer_value(json_object_get(c, "stderr_bytes"));
		return 0;
	}
	return err_set(e, ERR_INVALID, "the container has no main command: berth create made it");
}

/* A stream that nobody wants goes where nothing is kept. */
static int silence_unjoined_stream(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int r = null < 0 || dup2(null, fd) < 0 ? -1 : 0;

	fd_close(&null);
	return r;
}

/* Our signals are our own end, and not the command's. */
static int follow_alone(struct sandbox_ref *s, const uint64_t from[2], json_t **ret_verdict,
			struct err *e)
{
	struct follow f = { .sock = s->sock,
			    .command = KEEPER_MAIN,
			    .stream = "both",
			    .from = { from[0], from[1] },
			    .to = { STDOUT_FILENO, STDERR_FILENO },
			    .hold = 1 };
	int r = 0;

	while (r == 0) {
		if (follow_ask(&f, e) < 0)
			return -1;
		r = follow_take(&f, ret_verdict, e);
	}
	return r;
}

static int follow_main_command(struct sandbox_ref *s, const struct door_join *j, const struct main_command *m,
		  json_t **ret_verdict, struct err *e)
{
	const uint64_t from[2] = { j->all ? 0 : m->bytes[0], j->all ? 0 : m->bytes[1] };
	const int in = j->in && (m->stdin_open || m->tty);

	if ((!j->out && silence_unjoined_stream(STDOUT_FILENO) < 0) || (!j->err && silence_unjoined_stream(STDERR_FILENO) < 0))
		return err_sys(e, "open /dev/null");
	if (m->tty && in && isatty(STDIN_FILENO))
		return follow_terminal(s, KEEPER_MAIN, from[0], j->keys ? j->keys : DETACH_KEYS,
				       ret_verdict, e);
	if (j->no_signals && !in)
		return follow_alone(s, from, ret_verdict, e);
	return follow_joined(s, KEEPER_MAIN, from,
			     !in     ? FOLLOW_NO_STDIN :
			     j->ends ? FOLLOW_STDIN_ENDS :
				       FOLLOW_STDIN,
			     1, ret_verdict, e);
}

int door_join(struct sandbox_ref *s, const struct door_join *j, int *ret_status, struct err *e)
{
	autojson json_t *verdict = NULL;
	struct main_command m = { { 0 } };
	int r;

	if (s->sock < 0)
		s->sock = keeper_connect(&s->registry, s->id, e);
	if (s->sock < 0)
		return -1;
	if (look_at_main_command(s, &m, e) < 0)
		return -1;
	r = follow_main_command(s, j, &m, &verdict, e);
	if (r < 0)
		return -1;
	*ret_status = r ? follow_status(verdict) : -1;
	return 0;
}

/* ---- docker start ---------------------------------------------------------------------------- */

static int start_one_container(void *ctx, const struct engine_container *c, struct err *e)
{
	(void)ctx;
	return engine_container_start(c, 0, e);
}

static int start_joined(const struct door_args *a)
{
	const struct door_join j = { .in = door_on(a, "interactive"),
				     .out = 1,
				     .err = 1,
				     .keys = door_value(a, "detach-keys"),
				     .ends = 1,
				     .all = 1 };
	struct engine_container c;
	struct sandbox_ref s;
	struct err e = { 0 };
	int status = 0, r;

	sandbox_ref_init(&s);
	r = door_container(&c, &s, a->words[0], &e);
	if (r == 0)
		r = engine_container_start(&c, 1, &e) < 0 ? -1 : 0;
	if (r == 0)
		r = door_join(&s, &j, &status, &e);
	if (r == 0 && status >= 0)
		door_await_end(&s);
	if (r < 0) {
		door_error(&e);
		status = e.code == ERR_EXEC ? 126 : e.code == ERR_EXEC_NOT_FOUND ? 127 : 1;
	}
	sandbox_ref_close(&s);
	return status < 0 ? 0 : status;
}

static int start_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	int status;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	else if ((door_on(&a, "attach") || door_on(&a, "interactive")) && a.count > 1)
		status = door_say(1, "you cannot start and attach multiple containers at once");
	else
		status = door_on(&a, "attach") || door_on(&a, "interactive") ?
				 start_joined(&a) :
				 door_each(&a, start_one_container, NULL);
	door_release(&a);
	return status;
}

static const struct opt start_options[] = {
	{ "attach", 'a', OPT_FLAG, NULL, "Attach STDOUT/STDERR and forward signals", DOOR_TAKEN },
	{ "checkpoint", 0, OPT_VALUE, "string", "Restore from this checkpoint", DOOR_REFUSED,
	  COMPLETE_NONE, "memory is not kept; docker commit keeps files" },
	{ "checkpoint-dir", 0, OPT_VALUE, "string", "Use a custom checkpoint storage directory",
	  DOOR_REFUSED, COMPLETE_NONE, "memory is not kept; docker commit keeps files" },
	{ "detach-keys", 0, OPT_VALUE, "string",
	  "Override the key sequence for detaching a container", DOOR_TAKEN },
	{ "interactive", 'i', OPT_FLAG, NULL, "Attach container's STDIN", DOOR_TAKEN },
};

const struct command door_start = {
	.name = "start",
	.args = "[OPTIONS] CONTAINER [CONTAINER...]",
	.summary = "Start one or more stopped containers",
	.opts = start_options,
	.opt_count = ARRAY_LEN(start_options),
	.complete = COMPLETE_SANDBOX,
	.run = start_main,
};

/* ---- docker attach --------------------------------------------------------------------------- */

static const struct opt attach_options[] = {
	{ "detach-keys", 0, OPT_VALUE, "string",
	  "Override the key sequence for detaching a container", DOOR_TAKEN },
	{ "no-stdin", 0, OPT_FLAG, NULL, "Do not attach STDIN", DOOR_TAKEN },
	{ "sig-proxy", 0, OPT_FLAG, NULL, "Proxy all received signals to the process", DOOR_TAKEN },
};

static int docker_attach_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct err e = { 0 };
	struct door_args a;
	int status = 0;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 1, 1)) {
		status = a.status;
	} else {
		const struct door_join j = { .in = !door_on(&a, "no-stdin"),
					     .out = 1,
					     .err = 1,
					     .keys = door_value(&a, "detach-keys") };

		if (door_find(&s, a.words[0], &e) == 0 && s.kept)
			status = door_say(1, "You cannot attach to a stopped container, start it "
					     "first");
		else if (!e.code && door_is_paused(&s))
			status = door_say(1, "You cannot attach to a paused container, unpause it first");
		else if (e.code || door_connect(&s, a.words[0], &e) < 0 ||
			 door_join(&s, &j, &status, &e) < 0)
			status = door_error(&e);
	}
	sandbox_ref_close(&s);
	door_release(&a);
	return status < 0 ? 0 : status;
}

const struct command door_attach = {
	.name = "attach",
	.args = "[OPTIONS] CONTAINER",
	.summary = "Attach local standard input, output, and error streams to a running container",
	.opts = attach_options,
	.opt_count = ARRAY_LEN(attach_options),
	.complete = COMPLETE_SANDBOX,
	.run = docker_attach_main,
};

/* ---- docker wait ----------------------------------------------------------------------------- */

/* Until its keeper has gone; what it says on the way is how the main command ended. */
static int await_command_end(struct sandbox_ref *s, json_t **ret_verdict, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_wait);
	json_t *said;
	size_t n;
	int r;

	request_set_command(ask, KEEPER_MAIN);
	s->sock = keeper_connect(&s->registry, s->id, e);
	if (s->sock < 0 || wire_request(s->sock, ask, NULL, 0, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	while ((r = wire_recv(s->sock, -1, &said, NULL, 0, &n, e)) > 0) {
		if (!*ret_verdict)
			*ret_verdict = json_incref(json_object_get(said, "verdict"));
		json_decref(said);
	}
	return r < 0 && e->code != ERR_NOT_FOUND ? -1 : 0;
}

static int wait_one(struct sandbox_ref *s, const char *name, struct err *e)
{
	autojson json_t *verdict = NULL;
	struct engine_loaded l;
	int code;

	if (door_find(s, name, e) < 0 || (!s->kept && await_command_end(s, &verdict, e) < 0))
		return -1;
	if (verdict)
		return printf("%d\n", follow_status(verdict)) < 0;
	s->kept = 1;
	if (door_load(&l, s, 0, e) < 0)
		return -1;
	code = engine_exit_code(&l.v);
	engine_loaded_release(&l);
	return printf("%d\n", code) < 0;
}

static int docker_wait_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	const int parsed = door_parse(&a, self, argc, argv, 1, -1);
	int i, status = parsed ? 0 : a.status;

	/* one that is not there does not end the wait for the others */
	for (i = 0; parsed && i < a.count; i++) {
		struct sandbox_ref s;
		struct err e;
		int r;

		sandbox_ref_init(&s);
		r = wait_one(&s, a.words[i], &e);
		if (r)
			status = r < 0 ? door_error(&e) : r;
		sandbox_ref_close(&s);
		fflush(stdout);
	}
	door_release(&a);
	return status;
}

const struct command door_wait = {
	.name = "wait",
	.args = "CONTAINER [CONTAINER...]",
	.summary = "Block until one or more containers stop, then print their exit codes",
	.complete = COMPLETE_SANDBOX,
	.run = docker_wait_main,
};
