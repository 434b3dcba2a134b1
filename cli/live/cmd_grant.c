/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth grant: add to the budget of a sandbox, which continues if it was frozen because the
 * budget was used up.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/resident.h"
#include "manager/keeper/request.h"

#define BUDGET "budget"

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print the budget as JSON, errors too", OPT_JSON },
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

/* The option in its spec.json, which the next start reads; NULL: it has none. */
static json_t *budget_of(const json_t *spec)
{
	json_t *pair, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));

		if (name && !strcmp(name, BUDGET))
			found = pair;
	}
	return found;
}

static int ask_keeper(struct sandbox_ref *s, uint64_t more_ms, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_grant), *answer = NULL;

	s->sock = keeper_connect(&s->registry, s->id, e);
	if (s->sock < 0)
		return -1;
	request_set_cpu_ms(rq, more_ms);
	answer = keeper_call(s->sock, rq, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

static int grant(struct sandbox_ref *s, const char *ref, const char *text, uint64_t *ret_ms,
		 struct err *e)
{
	autojson json_t *spec = NULL;
	uint64_t more, has = 0;
	json_t *pair;

	if (resident_budget(text, &more, e) < 0 || sandbox_ref_find(s, ref, e) < 0)
		return -1;
	spec = registry_load(&s->registry, s->id, SPEC_FILE, e);
	if (!spec && e->code != ERR_NOT_FOUND)
		return -1;
	pair = budget_of(spec);
	if (!pair)
		return err_set(e, ERR_INVALID, "sandbox %s has no budget; hint: berth create "
			       "--budget cpu=60s", s->id);
	if (resident_budget(json_string_value(json_array_get(pair, 1)), &has, e) < 0)
		return -1;
	if (more > KEEPER_BUDGET_MAX_MS - has)
		return err_set(e, ERR_INVALID, "a budget has at most %llu ms",
			       (unsigned long long)KEEPER_BUDGET_MAX_MS);
	if (!s->kept && ask_keeper(s, more, e) < 0)
		return -1;
	*ret_ms = has + more;
	json_array_set_new(pair, 1, json_sprintf("cpu=%llums", (unsigned long long)*ret_ms));
	return registry_save(&s->registry, s->id, SPEC_FILE, spec, e);
}

static int grant_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, json = 0, r;
	uint64_t ms = 0;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and what it gets are wanted; "
			    "hint: berth grant ID cpu=+60s");
	if (r == 0)
		r = grant(&s, argv[rest], argv[rest + 1], &ms, &e);
	if (r == 0 && json)
		printf("{\"id\":\"%s\",\"cpu_ms\":%llu}\n", s.id, (unsigned long long)ms);
	sandbox_ref_close(&s);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_grant = {
	.name = "grant",
	.args = "SANDBOX cpu=+TIME",
	.summary = "add to the budget of a sandbox, which goes on if it stood still",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = grant_main,
};
