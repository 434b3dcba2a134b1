/* SPDX-License-Identifier: Apache-2.0 */
/* berth start, stop, restart, pause, resume, kill, rm and open-files: change the state of sandboxes. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/live/lifecycle.h"
#include "cli/live/sandbox_open.h"
#include "cli/live/select.h"
#include "manager/host/conf.h"
#include "manager/host/forget.h"
#include "manager/host/journal.h"
#include "manager/host/layerpool.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/restart.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/optvalues.h"

/* ---- after a boot of the host ---- */

/* After a boot of the host: starts every sandbox whose restart policy says so. */

/* One that joins the network of another starts after those that do not. */
static int find_due_at_boot(void *ctx, const char *id, int kept, json_t *record)
{
	const json_t *network = json_object_get(record, "network");

	if (!kept || !restart_is_due_at_boot(record))
		return 0;
	if (json_object_get(network, "container"))
		json_array_append_new(ctx, json_string(id));
	else
		json_array_insert_new(ctx, 0, json_string(id));
	return 0;
}

/* Its guardian, if any, starts it already. */
static int start_one_at_boot(struct registry *r, const char *id, struct err *e)
{
	if (restart_pending(r, id))
		return 0;
	return resident_start(r, id, e) == 0 || (e->code == ERR_EXISTS && record_is_there(r->sandboxes_fd, id)) ? 0 : -1;
}

/* Tries all, telling the id or the error of each; the exit status. */
static int boot_start_all(const struct command *self, int as_json)
{
	autojson json_t *ids = json_array();
	struct sandbox_ref s;
	struct err e = { 0 };
	unsigned cleared;
	int status = 0;
	json_t *id;
	size_t i;

	sandbox_ref_init(&s);
	/* what died without a word is cleared first: then it is one that does not run */
	if (sandbox_ref_registry(&s, &e) < 0 || registry_gc(&s.registry, &cleared, &e) < 0 ||
	    registry_list(&s.registry, 1, find_due_at_boot, ids, &e) < 0)
		status = command_fail(self, &e, as_json);
	json_array_foreach(ids, i, id) {
		const char *text = json_string_value(id);

		if (start_one_at_boot(&s.registry, text, &e) < 0)
			status = command_fail(self, &e, as_json);
		else
			printf(as_json ? "{\"id\":\"%s\",\"done\":\"start\"}\n" : "%s\n", text);
	}
	sandbox_ref_close(&s);
	return status;
}

/* ---- start, stop, restart, pause, resume, kill ---- */

#define STOP_TRIES 5
#define DYING_MS 5000	/* for processes of a sandbox whose keeper is dead */
#define ENDING_MS 60000	/* for a stop that is under way */

enum { OPT_JSON = 1, OPT_GRACE, OPT_STOP_SIGNAL, OPT_FILTER, OPT_SIGNAL, OPT_BOOT, OPT_AWAIT, OPT_ACCEPT_SOURCES };

static const struct opt lifecycle_options[] = {
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

static int set_lifecycle_option(void *ctx, int id, const char *value, struct err *e)
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

static int ask_in_lifecycle(struct sandbox_ref *s, const char *ref, enum protocol_op op, struct err *e)
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
	int tries, stopped;

	if (sandbox_ref_find(s, ref, e) < 0)
		return -1;
	for (tries = 0; tries < STOP_TRIES; tries++) {
		*e = (struct err){ 0 };
		/* what another stopped or undid at this moment has ended, or runs again */
		stopped = s->kept ? 0 : resident_stop(&s->registry, s->id, how, e);
		if (stopped < 0 && e->code != ERR_NOT_FOUND)
			return -1;
		if (stopped > 0)
			log_note("berth stop", "sandbox %s has stopped, but %s, so its record still has its last start; hint: berth prune or "
				 "berth rm makes room", s->id, e->msg);
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

static int change_state(struct sandbox_ref *s, const char *verb, const char *ref,
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
	return ask_in_lifecycle(s, ref, strcmp(verb, "pause") ? OP_resume : OP_pause, e);
}

static int change_one(void *ctx, const char *ref, struct err *e)
{
	const struct lifecycle *l = ctx;
	const char *verb = l->select.command->name;
	struct sandbox_ref s;
	int result;

	sandbox_ref_init(&s);
	result = change_state(&s, verb, ref, l, e);
	if (result == 0 && l->select.json)
		printf("{\"id\":\"%s\",\"done\":\"%s\"}\n", s.id, verb);
	else if (result == 0)
		puts(s.id);
	sandbox_ref_close(&s);
	return result;
}

/* Those that a filter finds and for which the verb would change something. */
static enum select_state state_for_verb(const char *verb)
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
	l.select.state = state_for_verb(self->name);
	if (command_options(self, argc, argv, set_lifecycle_option, &l, &rest, &help, &e) < 0)
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
LIFECYCLE(pause, lifecycle_options, "freeze every process of sandboxes");
LIFECYCLE(resume, lifecycle_options, "let frozen sandboxes go on");
LIFECYCLE(kill, kill_options, "end every process of sandboxes at once, or signal the main command");

/* ---- rm ---- */

/* berth rm: remove sandboxes and their files. */

#define REMOVE_MS 10000	/* while others start it again and again */
#define REMOVE_LOOK_MS 10

enum { RM_FORCE = 1, RM_FILTER, RM_JSON };

static const struct opt rm_command_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "stop it first if it runs; ignore a missing one", RM_FORCE },
	SELECT_OPTION(RM_FILTER),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object", RM_JSON },
};

struct rm_options {
	struct select select;
	struct registry registry;
	int force;
};

static int set_rm_option(void *ctx, int id, const char *value, struct err *e)
{
	struct rm_options *o = ctx;

	if (id == RM_FILTER)
		return filter_add(&o->select.filter, value, e);
	*(id == RM_FORCE ? &o->force : &o->select.json) = 1;
	return 0;
}

/* The drain timeout of [session] also applies to removals beside berthd. */
static int stop_first(struct registry *r, const char *id, struct err *e)
{
	static struct conf conf;
	struct stop_request how = { 0 };

	if (conf_load(&conf, r->config, e) < 0)
		return -1;
	how.drain_ms = conf.drain_timeout_ms;
	return resident_stop(r, id, &how, e);
}

static int forget_stopped(struct registry *r, const char *id, int kept, struct err *e)
{
	/* a sandbox that does not run, of which a failed removal may have left only a part */
	if (!kept && stop_first(r, id, e) < 0 && e->code != ERR_NOT_FOUND && e->code != ERR_INVALID)
		return -1;
	restart_cancel(r, id);
	return forget_alone(r, id, e);
}

int lifecycle_remove(struct registry *r, const char *ref, int force, struct err *e)
{
	char id[65];
	const uint64_t until = clock_ms() + REMOVE_MS;
	int kept, cleared;

	if (registry_find(r, ref, id, &kept, e) < 0)
		return force && e->code == ERR_NOT_FOUND ? 0 : -1;
	/* of a newer berth there may be more than we know of: removed only when that is asked for */
	if (!force && record_check_format(r, id, e) < 0)
		return -1;
	/* its keeper was killed: its remains are cleared, as gc would */
	cleared = kept ? 0 : registry_clear_dead(r, id, DYING_MS, 1, e);
	if (cleared < 0)
		return -1;
	/* a run's sandbox is gone by that, any other is only stopped */
	if (cleared && !path_has(r->kept_fd, id)) {
		events_add(r, "rm", id, NULL);
		return 0;
	}
	kept |= cleared;
	if (!kept && !force && keeper_is_run(r, id))
		return err_set(e, ERR_BUSY, "sandbox %s is running; hint: berth rm --force %s ends it", id, id);
	if (!kept && !force)
		return err_set(e, ERR_BUSY, "sandbox %s is running; hint: berth stop %s first, or rm --force", id, id);
	for (; forget_stopped(r, id, kept, e) < 0; kept = 0)
		/* its guardian, or another client, may have started it again meanwhile */
		if (!force || e->code != ERR_BUSY || clock_ms() >= until || poll(NULL, 0, REMOVE_LOOK_MS) < 0)
			return -1;
	events_add(r, "rm", id, NULL);
	return 0;
}

static int remove_each_sandbox(void *ctx, const char *ref, struct err *e)
{
	struct rm_options *o = ctx;

	return lifecycle_remove(&o->registry, ref, o->force, e);
}

static int berth_rm_main(const struct command *self, int argc, char **argv)
{
	struct rm_options o = { .select = { .command = self, .state = SELECT_ANY } };
	struct config c;
	struct err e = { 0 };
	int rest, help = 0, status;

	o.select.filter.keys = filter_sandbox_keys;
	if (config_load(&c, &e) < 0 || command_options(self, argc, argv, set_rm_option, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.select.json);
	if (help)
		return 0;
	if (registry_open(&o.registry, &c, &e) < 0)
		return command_fail(self, &e, o.select.json);
	status = select_run(&o.select, argv + rest, argc - rest, remove_each_sandbox, &o);
	registry_close(&o.registry);
	if (status == 0 && o.select.json)
		puts("{\"removed\":true}");
	return status;
}

const struct command cmd_rm = {
	.name = "rm",
	.args = "SANDBOX...",
	.summary = "remove sandboxes and their files",
	.opts = rm_command_options,
	.opt_count = ARRAY_LEN(rm_command_options),
	.complete = COMPLETE_SANDBOX,
	.run = berth_rm_main,
};

/* ---- open-files ---- */

/*
 * berth open-files: what berthd starts before it works on files of a sandbox that does not run.
 * The keeper that this makes serves nothing else, and ends with its last client.
 */

enum { OPEN_FILES_JSON = 1 };

static const struct opt open_files_options[] = {
	{"json", 0, OPT_FLAG, NULL, "errors are JSON, as always here", OPEN_FILES_JSON},
};

static int set_open_files_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)ctx, (void)id, (void)value, (void)e;
	return 0;
}

static int files_main(const struct command *self, int argc, char **argv)
{
	int status = 0, rest = 0, help = 0, r;
	struct sandbox_ref s;
	struct err e = {0};

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_open_files_option, NULL, &rest, &help, &e);
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "berthd starts it by itself, with one id");
	if (r == 0)
		r = sandbox_ref_find(&s, argv[rest], &e);
	if (r == 0)
		r = s.kept ? resident_start_files(&s.registry, s.id, &e) :
			     err_set(&e, ERR_EXISTS, "sandbox %s is running", s.id);
	if (r < 0)
		status = command_fail(self, &e, 1);
	sandbox_ref_close(&s);
	return status;
}

const struct command cmd_open_files = {
	.name = "open-files",
	.args = "ID",
	.summary = "let clients work on the files of a sandbox that does not run",
	.opts = open_files_options,
	.opt_count = 1,
	.run = files_main,
	.flags = COMMAND_HIDDEN,
};
