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
#include "manager/keeper/livebudget.h"
#include "manager/keeper/protocol.h"

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

static int ask_keeper(struct sandbox_ref *s, const struct livebudget *more, struct err *e)
{
	static void (*const set[])(json_t *rq, uint64_t v) = {
		[LIVEBUDGET_CPU] = request_set_cpu_ms,
		[LIVEBUDGET_TIME] = request_set_time_ms,
		[LIVEBUDGET_IO] = request_set_io_bytes,
		[LIVEBUDGET_NET] = request_set_net_bytes,
	};
	autojson json_t *rq = protocol_request(OP_grant), *answer = NULL;
	size_t k;

	s->sock = keeper_connect(&s->registry, s->id, e);
	if (s->sock < 0)
		return -1;
	for (k = 0; k < ARRAY_LEN(set); k++)
		if (more->v[k])
			set[k](rq, more->v[k]);
	answer = keeper_call(s->sock, rq, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

static int grant(struct sandbox_ref *s, const char *ref, const char *text, struct livebudget *ret,
		 struct err *e)
{
	autojson json_t *spec = NULL;
	struct livebudget more;
	json_t *pair;

	if (livebudget_parse(text, &more, e) < 0 || sandbox_ref_find(s, ref, e) < 0)
		return -1;
	spec = registry_load(&s->registry, s->id, SPEC_FILE, e);
	if (!spec && e->code != ERR_NOT_FOUND)
		return -1;
	pair = budget_of(spec);
	if (!pair)
		return err_set(e, ERR_INVALID, "sandbox %s has no budget; hint: berth create "
			       "--budget cpu=60s", s->id);
	if (livebudget_parse(json_string_value(json_array_get(pair, 1)), ret, e) < 0 ||
	    livebudget_add(ret, &more, s->id, e) < 0)
		return -1;
	if (!s->kept && ask_keeper(s, &more, e) < 0)
		return -1;
	json_array_set_new(pair, 1, livebudget_text(ret));
	return registry_save(&s->registry, s->id, SPEC_FILE, spec, e);
}

/* {"id":ID,"cpu_ms":...}: what it may use now. */
static void tell(const char *id, const struct livebudget *b)
{
	size_t k;

	printf("{\"id\":\"%s\"", id);
	for (k = 0; k < LIVEBUDGET_KINDS; k++)
		if (b->v[k])
			printf(",\"%s\":%llu", livebudget_rows[k].limit,
			       (unsigned long long)b->v[k]);
	puts("}");
}

static int grant_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, json = 0, r;
	struct livebudget budget;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and what it gets are wanted; "
			    "hint: berth grant ID cpu=+60s");
	if (r == 0)
		r = grant(&s, argv[rest], argv[rest + 1], &budget, &e);
	if (r == 0 && json)
		tell(s.id, &budget);
	sandbox_ref_close(&s);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_grant = {
	.name = "grant",
	.args = "SANDBOX cpu=+TIME,...",
	.summary = "add to the budget of a sandbox, which goes on if it stood still",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = grant_main,
};
