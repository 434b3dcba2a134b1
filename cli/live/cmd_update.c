/* SPDX-License-Identifier: Apache-2.0 */
/* berth update, grant and rename: change the limits, the budget or the name of a sandbox. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/resident.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/journal.h"
#include "manager/host/names.h"
#include "manager/host/promise.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/restart.h"
#include "manager/host/tenant.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/livebudget.h"
#include "manager/keeper/protocol.h"
#include "manager/ops/netopts.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"
#include "manager/ops/runopts.h"
#include "manager/ops/settleopt.h"
#include "runtime/kernel/cgroup_io.h"

/* ---- its life ---- */

/*
 * What berth update changes of a sandbox's life: its restart policy, its owner, its
 * health check.
 *
 * A change is checked on the whole description that the sandbox will have, as its next start will
 * read it.
 */

/* A guardian for a sandbox that runs without one, which waits until it is told. */
struct update_guardian {
	pid_t pid;	/* 0: none is needed */
	int go_fd;
};

#define UPDATE_GUARDIAN_INIT { 0, -1 }

static int is_health_option(const struct param *p)
{
	return p->group >= PARAM_G_HEALTH;
}

static void ask_for_life_option(json_t *rq, const struct param *p, const char *value, const json_t *health,
				uint64_t grace_ms)
{
	if (p->opt.id == PARAM_RESTART)
		request_set_restart(rq, value);
	else if (p->opt.id == PARAM_OWNER_PID)
		request_set_owner(rq, strcmp(value, "0") ? value : "");
	else if (p->opt.id == PARAM_OWNER_GRACE)
		request_set_owner_grace_ms(rq, grace_ms);
	else
		request_set_health(rq, json_deep_copy(health));
}

/*
 * Checks spec, which has the options in it, and puts what they say into a request for the keeper.
 * Without an option about its life it does nothing.
 */
static int update_life_ask(struct registry *r, const char *id, const json_t *spec, const json_t *options,
			   json_t *rq, struct err *e)
{
	autojson json_t *health = NULL;
	uint64_t grace_ms = 0;
	const json_t *pair;
	size_t i;

	json_array_foreach(options, i, pair) {
		const struct param *p = param_named(json_string_value(json_array_get(pair, 0)));

		if (p->group != PARAM_G_LIFE && !is_health_option(p))
			continue;
		if (!health && !(health = resident_check_life(r, id, spec, &grace_ms, e)))
			return -1;
		ask_for_life_option(rq, p, json_string_value(json_array_get(pair, 1)), health, grace_ms);
	}
	return 0;
}

/* The same into the record of a sandbox that does not run. */
static int update_life_record(struct registry *r, const char *id, const json_t *rq, struct err *e)
{
	const char *restart = request_restart(rq, NULL), *owner = request_owner(rq, NULL);
	autojson json_t *record = restart || owner ? record_load_kept(r, id, e) : NULL;
	struct restart_policy p;

	if (!restart && !owner)
		return 0;
	if (!record || (restart && restart_parse(restart, &p, e) < 0))
		return -1;
	if (restart)
		restart_note(record, &p, 0);
	if (owner && owner[0]) {
		record_set_owner_process(record, owner);
		record_set_owner_pid(record, (uint64_t)atoi(owner));
	} else if (owner) {
		record_drop_owner(record);
	}
	return record_save_kept(r, id, record, e);
}

/* Where the request asks for a restart policy: names the new guardian in it. */
static int update_guardian_begin(struct update_guardian *g, struct registry *r, const char *id,
				 json_t *rq, struct err *e)
{
	const char *restart = request_restart(rq, NULL);
	int fds[2];

	if (!restart || !strcmp(restart, "no") || restart_is_guarded(r, id))
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fflush(NULL);
	g->pid = fork();
	if (g->pid == 0) {
		close(fds[1]);
		guardian_become(id, 0, fds[0]);
	}
	close(fds[0]);
	g->go_fd = fds[1];
	if (g->pid < 0) {
		g->pid = 0;
		fd_close(&g->go_fd);
		return err_sys(e, "fork a guardian");
	}
	request_set_guardian_pid(rq, (uint64_t)g->pid);
	return 0;
}

/* ok: the keeper knows it, and it stays; else it ends. */
static void update_guardian_end(struct update_guardian *g, int ok)
{
	if (ok && g->pid)
		io_write_all(g->go_fd, "", 1);
	fd_close(&g->go_fd);
	if (!ok && g->pid)
		waitpid(g->pid, NULL, 0);
	g->pid = 0;
}

/* ---- update ---- */

/* berth update: change the limits of a sandbox while it runs, and for its next start. */

#define SPEC_FILE "spec.json"

enum { OPT_TENANT = PARAM_END, OPT_JSON };

static const struct opt update_options[] = {
	{ "tenant", 0, OPT_VALUE, "NAME", "for a tenant of berthd, whose it must be: [tenant] holds", OPT_TENANT },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

struct update {
	json_t *rq;	/* for the keeper */
	json_t *options;	/* for spec.json, as create was given them */
	struct runopts asked;	/* the same in native units, each within its bounds */
	int json, reset_rules;
	uint64_t cut;	/* connections that were */
	const char *tenant;	/* NULL: no tenant's limits apply */
};

/* The number that option p was given, for the keeper. */
static int ask_number(struct update *u, const struct param *p, struct err *e)
{
	const uint64_t v = *(const uint64_t *)((const char *)&u->asked + p->at);
	json_t *number = v == CGROUP_UNLIMITED ? json_string("unlimited") : json_integer((json_int_t)v);

	return json_object_set_new(u->rq, p->live, number) < 0 ? err_nomem(e) : 0;
}

static int is_no_owner(int id, const char *value)
{
	return id == PARAM_OWNER_PID && !strcmp(value, "0");
}

static int set_update_option(void *ctx, int id, const char *value, struct err *e)
{
	struct update *u = ctx;
	autofree char *settled = NULL;
	const struct param *p;

	switch (id) {
	case OPT_JSON:
		return u->json = 1, 0;
	case OPT_TENANT:
		u->tenant = value;
		return path_is_name(value) ? 0 : err_set(e, ERR_INVALID, "'%.80s' is not a tenant's name; hint: a-z 0-9 _ . -", value);
	case PARAM_RESET_RULES:
		u->reset_rules = 1;
		request_set_reset_rules(u->rq, 1);
		return 0;
	default:
		p = param_of(id);
	}
	if (params_read(&u->asked, p, value, e) < 0 || (value && !is_no_owner(id, value) && settleopt(id, value, &settled, e) < 0) ||
	    params_keep(u->options, p->opt.name, settled ? settled : value, e) < 0)
		return -1;
	return p->live ? ask_number(u, p, e) : 0;
}

/* The rules and budgets of its network: netopts keeps them by the names that the keeper reads. */
static int ask_network(struct update *u, struct err *e)
{
	return u->asked.net.policy && json_object_update(u->rq, u->asked.net.policy) < 0 ? err_nomem(e) : 0;
}

static const struct param *row_of_option(const json_t *pair)
{
	return param_named(json_string_value(json_array_get(pair, 0)));
}

/* What --reset-rules forgets: not the ranges that were opened. */
static int is_forgotten(const struct update *u, const json_t *old)
{
	const struct param *p = row_of_option(old);

	return u->reset_rules && p && p->group == PARAM_G_RULE && p->opt.id != PARAM_ALLOW_NET;
}

/* Whether spec.json leaves the option out: it takes another back, and says nothing itself. */
static int takes_back(const json_t *pair)
{
	return row_of_option(pair)->opt.id == PARAM_OWNER_PID && !strcmp(json_string_value(json_array_get(pair, 1)), "0");
}

#define SPEC_WAIT_MS 5000
#define SPEC_LOOK_MS 5

/* Its spec.json.  One that lasts is without only while another command makes or removes it, which is waited for. */
static json_t *load_update_spec(struct sandbox_ref *s, struct err *e)
{
	const uint64_t until = clock_ms() + SPEC_WAIT_MS;
	json_t *spec;

	while (!(spec = registry_load(&s->registry, s->id, SPEC_FILE, e)) && e->code == ERR_NOT_FOUND) {
		if (record_is_gone(&s->registry, s->id))
			err_set(e, ERR_NOT_FOUND, "sandbox %s is gone", s->id);
		else if (keeper_is_run(&s->registry, s->id))
			err_set(e, ERR_INVALID, "sandbox %s does not last and cannot be updated", s->id);
		else if (clock_ms() >= until)
			err_set(e, ERR_BUSY, "sandbox %s is being made or removed; hint: try again", s->id);
		else if (poll(NULL, 0, SPEC_LOOK_MS) <= 0)
			continue;
		return NULL;
	}
	return spec;
}

/* Its spec.json with the changes: one entry per option, however often it is changed. */
static json_t *changed_spec(struct sandbox_ref *s, const struct update *u, struct err *e)
{
	json_t *spec = load_update_spec(s, e);
	json_t *kept = NULL, *all, *old, *new;
	size_t i, j;

	if (!spec || json_get_arr(spec, "options", &kept, SPEC_FILE, e) < 0) {
		json_decref(spec);
		return NULL;
	}
	all = json_array();
	json_array_foreach(kept, i, old) {
		int replaced = is_forgotten(u, old);

		json_array_foreach(u->options, j, new)
			replaced |= params_update_replaces(new, old);
		if (!replaced)
			json_array_append(all, old);
	}
	json_array_foreach(u->options, j, new)
		if (!takes_back(new))
			json_array_append(all, new);
	json_object_set_new(spec, "options", all);
	return spec;
}

static int save_update(struct sandbox_ref *s, const struct update *u, struct err *e)
{
	autojson json_t *spec = changed_spec(s, u, e);

	return spec ? registry_save(&s->registry, s->id, SPEC_FILE, spec, e) : -1;
}

/* For a stopped sandbox: the keeper of a running one writes its records itself. */
static int save_ttl(struct sandbox_ref *s, const struct update *u, struct err *e)
{
	const json_t *ttl = json_object_get(u->rq, "ttl_ms");
	autojson json_t *record = ttl && s->kept ? record_load_kept(&s->registry, s->id, e) : NULL;

	if (!ttl || !s->kept)
		return 0;
	if (!record)
		return -1;
	record_set_expiry(record, json_integer_value(ttl) ? clock_wall_ms() + (uint64_t)json_integer_value(ttl) :
				  0);
	return record_save_kept(&s->registry, s->id, record, e);
}

/* For a stopped sandbox: the options of its next start must fit together. */
static int check_update_mode(const char *id, const json_t *spec, const struct update *u, struct err *e)
{
	const char *mode = "none";
	json_t *pair;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair)
		if (!strcmp(json_string_value(json_array_get(pair, 0)), "network"))
			mode = json_string_value(json_array_get(pair, 1));
	json_array_foreach(u->options, i, pair) {
		const enum param_group group = row_of_option(pair)->group;

		if ((group == PARAM_G_RULE || group == PARAM_G_OF_NETWORK) && strcmp(mode, "egress") && strcmp(mode, "bridge"))
			return err_set(e, ERR_INVALID, "its network mode is %s, which has no rules; hint: berth fork --network egress "
				       "--allow-host NAME %s makes one with its files", mode, id);
	}
	return 0;
}

/* The requested value of key, or preset without one. */
static uint64_t asked(const struct update *u, const char *key, uint64_t preset)
{
	const json_t *v = json_object_get(u->rq, key);

	return !v ? preset : json_is_string(v) ? UINT64_MAX : (uint64_t)json_integer_value(v);
}

/* The new limits are recorded first, and restored if the change fails. */
static int take_promise(struct sandbox_ref *s, const struct update *u, struct promise *ret_old, struct err *e)
{
	uint64_t memory = asked(u, "memory_bytes", PROMISE_SAME), cpu = asked(u, "cpu_milli", PROMISE_SAME);
	struct promise p = { .memory_bytes = memory, .cpu_milli = cpu, .disk_bytes = PROMISE_SAME };
	struct tenant t;

	if (u->tenant) {
		if (tenant_load(&t, s->registry.config, u->tenant, e) < 0 || tenant_check_pids(&t, asked(u, "pids", 0), e) < 0 ||
		    (memory != PROMISE_SAME && tenant_check_memory(&t, memory, e) < 0) ||
		    (cpu != PROMISE_SAME && tenant_check_cpus(&t, cpu, e) < 0))
			return -1;
		p = tenant_promise(&t, memory, cpu, PROMISE_SAME);
		p.max_sandboxes = 0;	/* it is one already */
	}
	return promise_change(&s->registry, s->id, &p, 0, ret_old, e);
}

static int ask_for_update(struct sandbox_ref *s, struct update *u, struct err *e)
{
	struct update_guardian guardian = UPDATE_GUARDIAN_INIT;
	autojson json_t *answer = NULL;

	s->sock = keeper_connect(&s->registry, s->id, e);
	if (s->sock < 0 || update_guardian_begin(&guardian, &s->registry, s->id, u->rq, e) < 0)
		return -1;
	answer = keeper_call(s->sock, u->rq, NULL, 0, NULL, e);
	update_guardian_end(&guardian, !!answer);
	return answer ? json_get_u64(answer, "cut", &u->cut, "answer", e) : -1;
}

/* Once: at its keeper, when it runs, and in its files. */
static int change_now(struct sandbox_ref *s, struct update *u, const json_t *spec, struct err *e)
{
	autojson json_t *changed = changed_spec(s, u, e);

	if (!changed || update_life_ask(&s->registry, s->id, changed, u->options, u->rq, e) < 0)
		return -1;
	if (!s->kept ? ask_for_update(s, u, e) < 0 : check_update_mode(s->id, spec, u, e) < 0)
		return -1;
	if (save_update(s, u, e) < 0 || (s->kept && update_life_record(&s->registry, s->id, u->rq, e) < 0))
		return -1;
	return save_ttl(s, u, e);
}

#define STARTING_MS 5000
#define LOOK_NS 5000000

/* Somebody starts it, or removes it: waits for what becomes of it. */
static int settle_start(struct sandbox_ref *s, struct err *e)
{
	const uint64_t end = clock_ms() + STARTING_MS;

	for (;;) {
		autoclose int sock = -1;

		s->kept = !record_is_there(s->registry.sandboxes_fd, s->id);
		/* its record is there before its keeper listens */
		sock = s->kept ? -1 : keeper_connect(&s->registry, s->id, e);
		if (sock >= 0 || (s->kept && !path_has(s->registry.sandboxes_fd, s->id)))
			return 0;
		if (clock_ms() >= end)
			return err_set(e, ERR_BUSY, "sandbox %s is being started; hint: again later, and berth gc if nobody starts it", s->id);
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
}

static int change_or_wait(struct sandbox_ref *s, struct update *u, const json_t *spec, struct err *e)
{
	const int stopped = s->kept;

	if (change_now(s, u, spec, e) < 0)
		return -1;
	/*
	 * a start that began meanwhile may have read its files before, and its keeper writes
	 * them
	 */
	if (!stopped || !path_has(s->registry.sandboxes_fd, s->id))
		return 0;
	return settle_start(s, e) < 0 ? -1 : change_now(s, u, spec, e);
}

/* The disks that are asked for, by their numbers, and whether they can be held to it. */
static int find_disks(struct sandbox_ref *s, struct update *u, struct err *e)
{
	const struct runopts_strings *texts = &u->asked.io_rates;
	struct cgroup_limits l = {.io_weight = u->asked.spec.limits.io_weight};
	autojson json_t *rates = json_array();
	char text[CGROUP_IO_TEXT];
	size_t i;

	if (!rates)
		return err_nomem(e);
	if (limitopts_io_settle(texts->v, texts->count, s->registry.config->state_dir, &l, e) < 0)
		return -1;
	for (i = 0; i < l.io_rate_count; i++) {
		cgroup_io_print(&l.io_rates[i], text);
		json_array_append_new(rates, json_string(text));
	}
	if (texts->count)
		request_set_io_rates(u->rq, json_incref(rates));
	return 0;
}

static int update_sandbox(struct sandbox_ref *s, struct update *u, const char *ref, struct err *e)
{
	autojson json_t *spec = NULL;
	struct promise old;
	struct err ignored;

	if (sandbox_ref_find(s, ref, e) < 0)
		return -1;
	spec = load_update_spec(s, e);
	if (!spec)
		return -1;
	if (find_disks(s, u, e) < 0 || ask_network(u, e) < 0 || take_promise(s, u, &old, e) < 0)
		return -1;
	if (change_or_wait(s, u, spec, e) == 0)
		return 0;
	promise_change(&s->registry, s->id, &old, 1, NULL, &ignored);
	return -1;
}

static int berth_update_main(const struct command *self, int argc, char **argv)
{
	struct update u = { .rq = protocol_request(OP_update), .options = json_array() };
	struct config presets;
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&s);
	config_defaults(&presets);
	runopts_init(&u.asked, &presets);
	r = command_options(self, argc, argv, set_update_option, &u, &rest, &help, &e);
	if (r == 0 && !help) {
		if (rest + 1 != argc)
			r = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth update --memory 1g ID");
		else if (!json_array_size(u.options) && !u.reset_rules)
			r = err_set(&e, ERR_USAGE, "nothing to change; "
				    "hint: --memory, --cpus, --pids, --allow-host and others "
				    "(berth update --help)");
		if (r == 0)
			r = update_sandbox(&s, &u, argv[rest], &e);
		if (r == 0 && u.json)
			printf("{\"id\":\"%s\",\"updated\":true,\"connections_cut\":%llu}\n", s.id, (unsigned long long)u.cut);
		else if (r == 0)
			puts(s.id);
	}
	sandbox_ref_close(&s);
	json_decref(u.rq);
	json_decref(u.options);
	runopts_release(&u.asked);
	return r < 0 ? command_fail(self, &e, u.json) : 0;
}

const struct command cmd_update = {
	.name = "update",
	.args = "SANDBOX",
	.summary = "change limits, network rules and life of a sandbox, at once and for good",
	.detail = "A limit that the kernel refuses (less memory than is in use) is an error and nothing changes.",
	.params = PARAM_OF_UPDATE,
	.opts = update_options,
	.opt_count = ARRAY_LEN(update_options),
	.complete = COMPLETE_SANDBOX,
	.run = berth_update_main,
};

/* ---- grant ---- */

/*
 * berth grant: add to the budget of a sandbox, which continues if it was frozen because the
 * budget was used up.
 */

#define BUDGET "budget"

enum { GRANT_JSON = 1 };

static const struct opt grant_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print the budget as JSON, errors too", GRANT_JSON },
};

static int set_grant_option(void *ctx, int id, const char *value, struct err *e)
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

static int ask_for_grant(struct sandbox_ref *s, const struct livebudget *more, struct err *e)
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
	if (!s->kept && ask_for_grant(s, &more, e) < 0)
		return -1;
	json_array_set_new(pair, 1, livebudget_text(ret));
	return registry_save(&s->registry, s->id, SPEC_FILE, spec, e);
}

/* {"id":ID,"cpu_ms":...}: what it may use now. */
static void tell_granted(const char *id, const struct livebudget *b)
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
	r = command_options(self, argc, argv, set_grant_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and what it gets are wanted; "
			    "hint: berth grant ID cpu=+60s");
	if (r == 0)
		r = grant(&s, argv[rest], argv[rest + 1], &budget, &e);
	if (r == 0 && json)
		tell_granted(s.id, &budget);
	sandbox_ref_close(&s);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_grant = {
	.name = "grant",
	.args = "SANDBOX cpu=+TIME,...",
	.summary = "add to the budget of a sandbox, which goes on if it stood still",
	.opts = grant_options,
	.opt_count = ARRAY_LEN(grant_options),
	.complete = COMPLETE_SANDBOX,
	.run = grant_main,
};

/* ---- rename ---- */

/* berth rename: another name for a sandbox, running or not. */

enum { RENAME_JSON = 1 };

static const struct opt rename_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", RENAME_JSON },
};

static int set_rename_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

static int berth_rename_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, json = 0, r;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_rename_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and its new name are wanted; hint: berth rename ID NAME");
	if (r == 0)
		r = sandbox_ref_find(&s, argv[rest], &e);
	if (r == 0)
		r = registry_check_given(argv[rest + 1], &e);
	if (r == 0)
		r = registry_rename(&s.registry, s.id, argv[rest + 1], &e);
	if (r == 0)
		events_add(&s.registry, "rename", s.id, json_pack("{s:s}", "name", argv[rest + 1]));
	if (r == 0 && json)
		printf("{\"id\":\"%s\",\"name\":\"%s\"}\n", s.id, argv[rest + 1]);
	sandbox_ref_close(&s);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_rename = {
	.name = "rename",
	.args = "SANDBOX NAME",
	.summary = "give a sandbox another name",
	.opts = rename_options,
	.opt_count = ARRAY_LEN(rename_options),
	.complete = COMPLETE_SANDBOX,
	.run = berth_rename_main,
};
