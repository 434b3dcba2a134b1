/* SPDX-License-Identifier: Apache-2.0 */
/* berth start, stop, restart, pause, resume, kill: change the state of sandboxes. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/boot.h"
#include "cli/live/lifecycle.h"
#include "cli/live/select.h"
#include "manager/host/layerpool.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/optvalues.h"

#define STOP_TRIES 5
#define DYING_MS 5000	/* for processes of a sandbox whose keeper is dead */
#define ENDING_MS 60000	/* for a stop that is under way */

enum { OPT_JSON = 1, OPT_GRACE, OPT_STOP_SIGNAL, OPT_FILTER, OPT_SIGNAL, OPT_BOOT, OPT_AWAIT, OPT_ACCEPT_SOURCES };

static const struct opt options[] = {
	SELECT_OPTION(OPT_FILTER),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

static const struct opt start_options[] = {
	{ "boot", 0, OPT_FLAG, NULL,
	  "instead of names: those whose --restart says so after a boot", OPT_BOOT },
	{ "await", 0, OPT_VALUE, "N",
	  "let a main command's end wait for N clients that follow or wait for it", OPT_AWAIT },
	{ "accept-sources", 0, OPT_FLAG, NULL,
	  "mount what is at the paths of its host directories now, though one was replaced", OPT_ACCEPT_SOURCES },
	SELECT_OPTION(OPT_FILTER),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

static const struct opt stop_options[] = {
	{ "grace", 0, OPT_VALUE, "TIME",
	  "until SIGKILL; 0 is at once (default: --stop-timeout, or the sandbox's grace)",
	  OPT_GRACE },
	{ "signal", 's', OPT_VALUE, "SIGNAL",
	  "what the main command gets first (default: --stop-signal of the sandbox)", OPT_STOP_SIGNAL },
	SELECT_OPTION(OPT_FILTER),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

static const struct opt kill_options[] = {
	{ "signal", 's', OPT_VALUE, "SIGNAL",
	  "send this to the main command only (default: KILL, to every process)", OPT_SIGNAL },
	SELECT_OPTION(OPT_FILTER),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

struct lifecycle {
	struct select select;
	uint64_t signo;		/* of kill; 0: it ends everything */
	int boot;
	struct resident_again how;	/* of start */
	struct stop_request end;	/* of stop and restart */
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct lifecycle *l = ctx;
	uint64_t awaited;

	if (id == OPT_BOOT) {
		l->boot = 1;
		return 0;
	}
	if (id == OPT_AWAIT) {
		if (num_u64(value, "await", 0, 64, &awaited, e) < 0)
			return -1;
		l->how.awaited = (unsigned)awaited;
		return 0;
	}
	if (id == OPT_ACCEPT_SOURCES)
		return l->how.accept_sources = 1, 0;
	if (id == OPT_SIGNAL)
		return signal_number(value, &l->signo, e);
	if (id == OPT_STOP_SIGNAL)
		return signal_number(value, &l->end.signo, e);
	if (id == OPT_GRACE) {
		l->end.own_grace = 0;
		return num_duration_ms(value, "grace", 86400000, &l->end.grace_ms, e);
	}
	if (id == OPT_FILTER)
		return filter_add(&l->select.filter, value, e);
	l->select.json = 1;
	return 0;
}

static int ask(struct sandbox_ref *s, const char *ref, enum protocol_op op, struct err *e)
{
	autojson json_t *rq = protocol_request(op);
	autojson json_t *answer = NULL;

	if (sandbox_ref_connect(s, ref, 0, e) < 0)
		return -1;
	answer = keeper_call(s->sock, rq, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

int lifecycle_start(struct sandbox_ref *s, const char *ref, const struct resident_again *how, struct err *e)
{
	int ended = 1;

	if (sandbox_ref_find(s, ref, e) < 0)
		return -1;
	/* a running sandbox is the wanted result, but not one that is stopping or whose keeper was killed */
	if (!s->kept && (ended = registry_clear_dead(&s->registry, s->id, DYING_MS, 0, e)) == 0)
		ended = keeper_await_stop(&s->registry, s->id, ENDING_MS, e);
	if (ended <= 0)
		return ended;
	restart_cancel(&s->registry, s->id);
	if (resident_start_again(&s->registry, s->id, how, e) == 0)
		return 0;
	/* another client started it meanwhile; what else is there already, such as an address, is no success */
	return e->code == ERR_EXISTS && record_is_there(s->registry.sandboxes_fd, s->id) ? 0 : -1;
}

int lifecycle_stop(struct sandbox_ref *s, const char *ref, const struct stop_request *how,
		   struct err *e)
{
	char id[65];
	int tries;

	if (sandbox_ref_find(s, ref, e) < 0)
		return -1;
	for (tries = 0; tries < STOP_TRIES; tries++) {
		*e = (struct err){ 0 };
		/* what another stopped or undid at this moment has ended, or runs again */
		if (!s->kept && resident_stop(&s->registry, s->id, how, e) < 0 && e->code != ERR_NOT_FOUND)
			return -1;
		restart_cancel(&s->registry, s->id);
		/* its guardian may have been about to start it again; gone: it had --auto-remove */
		if (registry_find(&s->registry, s->id, id, &s->kept, e) < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
		if (s->kept)
			return 0;
	}
	if (e->code == ERR_NOT_FOUND)
		return -1;
	return err_set(e, ERR_BUSY, "sandbox %s was started again meanwhile; hint: try again",
		       s->id);
}

int lifecycle_kill(struct sandbox_ref *s, const char *ref, uint64_t signo, struct err *e)
{
	static const struct stop_request at_once;
	autojson json_t *rq = protocol_request(OP_signal), *answer = NULL;

	if (!signo || signo == SIGKILL)
		return lifecycle_stop(s, ref, &at_once, e);
	request_set_command(rq, KEEPER_MAIN);
	request_set_signal(rq, signo);
	if (sandbox_ref_connect(s, ref, 0, e) < 0)
		return -1;
	answer = keeper_call(s->sock, rq, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

/* A sandbox that could not be started again is not stopped. */
int lifecycle_restart(struct sandbox_ref *s, const char *ref, const struct stop_request *how,
		      struct err *e)
{
	struct stop_request again = *how;
	autoclose int box = -1;

	again.stays = 1;
	if (sandbox_ref_find(s, ref, e) < 0 ||
	    record_check_format(&s->registry, s->id, e) < 0)
		return -1;
	box = registry_kept_dir(&s->registry, s->id);
	layerpool_hold(&s->registry, box);
	fd_close(&box); /* the keeper would have it, too */
	if (lifecycle_stop(s, ref, &again, e) < 0)
		return -1;
	return lifecycle_start(s, ref, &(struct resident_again){ 0 }, e);
}

static int change(struct sandbox_ref *s, const char *verb, const char *ref,
		  const struct lifecycle *l, struct err *e)
{
	if (!strcmp(verb, "start"))
		return lifecycle_start(s, ref, &l->how, e);
	if (!strcmp(verb, "stop"))
		return lifecycle_stop(s, ref, &l->end, e);
	if (!strcmp(verb, "kill"))
		return lifecycle_kill(s, ref, l->signo, e);
	if (!strcmp(verb, "restart"))
		return lifecycle_restart(s, ref, &l->end, e);
	return ask(s, ref, strcmp(verb, "pause") ? OP_resume : OP_pause, e);
}

static int change_one(void *ctx, const char *ref, struct err *e)
{
	const struct lifecycle *l = ctx;
	const char *verb = l->select.command->name;
	struct sandbox_ref s;
	int result;

	sandbox_ref_init(&s);
	result = change(&s, verb, ref, l, e);
	if (result == 0 && l->select.json)
		printf("{\"id\":\"%s\",\"done\":\"%s\"}\n", s.id, verb);
	else if (result == 0)
		puts(s.id);
	sandbox_ref_close(&s);
	return result;
}

/* Those that a filter finds and for which the verb would change something. */
static enum select_state state_of(const char *verb)
{
	if (!strcmp(verb, "restart"))
		return SELECT_ANY;
	if (!strcmp(verb, "start"))
		return SELECT_STOPPED;
	return !strcmp(verb, "pause")  ? SELECT_NOT_PAUSED :
	       !strcmp(verb, "resume") ? SELECT_PAUSED : SELECT_RUNS;
}

static int lifecycle_main(const struct command *self, int argc, char **argv)
{
	struct lifecycle l = { .end.own_grace = 1 };
	struct err e = { 0 };
	int rest, help = 0;

	l.select.command = self;
	l.select.filter.keys = filter_sandbox_keys;
	l.select.state = state_of(self->name);
	if (command_options(self, argc, argv, set_option, &l, &rest, &help, &e) < 0)
		return command_fail(self, &e, l.select.json);
	if (!help && l.boot && (argc > rest || l.select.filter.count)) {
		err_set(&e, ERR_USAGE, "--boot takes no sandboxes; hint: berth start --boot");
		return command_fail(self, &e, l.select.json);
	}
	if (!help && l.boot)
		return boot_start_all(self, l.select.json);
	return help ? 0 : select_run(&l.select, argv + rest, argc - rest, change_one, &l);
}

#define LIFECYCLE(verb, table, text) \
	const struct command cmd_##verb = { \
		.name = #verb, .args = "SANDBOX...", .summary = text, .opts = table, \
		.opt_count = ARRAY_LEN(table), .complete = COMPLETE_SANDBOX, .run = lifecycle_main, \
	}

LIFECYCLE(start, start_options, "start stopped sandboxes, with the files they had");
LIFECYCLE(stop, stop_options, "stop sandboxes: every process ends, the files stay");
LIFECYCLE(restart, stop_options, "stop and start sandboxes");
LIFECYCLE(pause, options, "freeze every process of sandboxes");
LIFECYCLE(resume, options, "let frozen sandboxes go on");
LIFECYCLE(kill, kill_options, "end every process of sandboxes at once, or signal the main command");
