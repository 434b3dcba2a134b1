/* SPDX-License-Identifier: Apache-2.0 */
/* berth start, stop, restart, pause, resume, kill: change the state of sandboxes. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/wire.h"

#define DYING_MS 5000	/* for processes of one whose keeper is dead */

enum { OPT_JSON = 1, OPT_GRACE };

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

static const struct opt stop_options[] = {
	{ "grace", 0, OPT_VALUE, "TIME", "between SIGTERM and SIGKILL; 0 is at once (default: the sandbox's, 2s)", OPT_GRACE },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

struct lifecycle {
	int json;
	uint64_t grace_ms;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct lifecycle *l = ctx;

	if (id == OPT_GRACE)
		return num_duration_ms(value, "grace", 86400000, &l->grace_ms, e);
	l->json = 1;
	return 0;
}

static int ask(struct sandbox_ref *s, const char *ref, const char *op, struct err *e)
{
	autojson json_t *rq = json_pack("{s:s}", "op", op);
	autojson json_t *answer = NULL;

	if (sandbox_ref_connect(s, ref, 0, e) < 0)
		return -1;
	answer = keeper_call(s->sock, rq, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

static int start(struct sandbox_ref *s, const char *ref, struct err *e)
{
	int cleared;

	if (sandbox_ref_find(s, ref, e) < 0)
		return -1;
	/* one that runs is what was asked for, one whose keeper was killed is not */
	if (!s->kept && (cleared = registry_clear_dead(&s->registry, s->id, DYING_MS, 0, e)) <= 0)
		return cleared;
	return resident_start(&s->registry, s->id, e);
}

static int stop(struct sandbox_ref *s, const char *ref, uint64_t grace_ms, int stays, struct err *e)
{
	if (sandbox_ref_find(s, ref, e) < 0)
		return -1;
	return s->kept ? 0 : resident_halt(&s->registry, s->id, grace_ms, 0, stays, e);
}

static int change(struct sandbox_ref *s, const char *verb, const char *ref, uint64_t grace_ms, struct err *e)
{
	if (!strcmp(verb, "start"))
		return start(s, ref, e);
	if (!strcmp(verb, "stop"))
		return stop(s, ref, grace_ms, 0, e);
	if (!strcmp(verb, "kill"))
		return stop(s, ref, 0, 0, e);
	if (!strcmp(verb, "restart"))	/* what could not be started again is not stopped */
		return sandbox_ref_find(s, ref, e) < 0 || registry_check_format(&s->registry, s->id, e) < 0 ||
		       stop(s, ref, grace_ms, 1, e) < 0 || start(s, ref, e) < 0 ? -1 : 0;
	return ask(s, ref, verb, e);
}

static int lifecycle_main(const struct command *self, int argc, char **argv)
{
	struct lifecycle l = { .grace_ms = RESIDENT_GRACE };
	struct err e = { 0 };
	int rest, help = 0, result;

	result = command_options(self, argc, argv, set_option, &l, &rest, &help, &e);
	if (result == 0 && help)
		return 0;
	if (result == 0 && rest >= argc)
		result = err_set(&e, ERR_USAGE, "no sandbox given; hint: berth %s ID, ids are listed by berth ps -a", self->name);
	for (; result == 0 && rest < argc; rest++) {
		struct sandbox_ref s;

		sandbox_ref_init(&s);
		result = change(&s, self->name, argv[rest], l.grace_ms, &e);
		if (result == 0 && l.json)
			printf("{\"id\":\"%s\",\"done\":\"%s\"}\n", s.id, self->name);
		else if (result == 0)
			puts(s.id);
		sandbox_ref_close(&s);
	}
	return result < 0 ? command_fail(self, &e, l.json) : 0;
}

#define LIFECYCLE(verb, table, text) \
	const struct command cmd_##verb = { \
		.name = #verb, .args = "SANDBOX...", .summary = text, .opts = table, \
		.opt_count = ARRAY_LEN(table), .complete = COMPLETE_SANDBOX, .run = lifecycle_main, \
	}

LIFECYCLE(start, options, "start stopped sandboxes, with the files they had");
LIFECYCLE(stop, stop_options, "stop sandboxes: every process ends, the files stay");
LIFECYCLE(restart, stop_options, "stop and start sandboxes");
LIFECYCLE(pause, options, "freeze every process of sandboxes");
LIFECYCLE(resume, options, "let frozen sandboxes go on");
LIFECYCLE(kill, options, "end every process of sandboxes at once; the files stay");
