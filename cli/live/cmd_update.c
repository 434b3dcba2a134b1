/* SPDX-License-Identifier: Apache-2.0 */
/* berth update: change the limits of a sandbox while it runs, and for its next start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/resident.h"
#include "cli/live/sandbox_open.h"
#include "cli/live/update_life.h"
#include "cli/run/limitopts.h"
#include "cli/run/netopts.h"
#include "manager/host/promise.h"
#include "manager/host/record.h"
#include "manager/host/tenant.h"
#include "manager/keeper/request.h"
#include "runtime/kernel/cgroup_io.h"

#define SPEC_FILE "spec.json"

enum { OPT_MEMORY = 1, OPT_CPUS, OPT_PIDS, OPT_JSON, OPT_ALLOW_HOST, OPT_DENY_HOST, OPT_ALLOW_NET, OPT_DENY_NET, OPT_BYTES,
	OPT_CONNECTIONS, OPT_RATE, OPT_IDLE_TIMEOUT, OPT_TTL, OPT_TENANT,
	OPT_IO_WEIGHT, OPT_IO_RATE, OPT_RESET_RULES };

static const struct opt options[] = {
	{ "memory", 'm', OPT_VALUE, "SIZE", "memory, such as 512m, or unlimited", OPT_MEMORY },
	{ "cpus", 'c', OPT_VALUE, "N", "CPUs, such as 0.5, or unlimited", OPT_CPUS },
	{ "pids", 0, OPT_VALUE, "N", "processes and threads, or unlimited", OPT_PIDS },
	{ "io-weight", 0, OPT_VALUE, "N", "share of a busy disk, 1 to 10000", OPT_IO_WEIGHT },
	{ "io-rate", 0, OPT_LIST, "PATH:RATES",
	  "rates of the disk at PATH: read=SIZE,write=SIZE,read-iops=N,write-iops=N, or unlimited",
	  OPT_IO_RATE, COMPLETE_FILE },
	{ "allow-host", 0, OPT_LIST, "NAME[:PORT]", "egress: whom it may reach from now on", OPT_ALLOW_HOST },
	{ "deny-host", 0, OPT_LIST, "NAME[:PORT]", "egress: whom it may not reach any more; open connections are cut", OPT_DENY_HOST },
	{ "allow-net", 0, OPT_LIST, "CIDR", "addresses that are not public and may be reached all the same", OPT_ALLOW_NET },
	{ "deny-net", 0, OPT_LIST, "CIDR", "addresses that may not be reached; open connections are cut", OPT_DENY_NET },
	{ "reset-rules", 0, OPT_FLAG, NULL,
	  "first forget every --allow-host, --deny-host and --deny-net", OPT_RESET_RULES },
	{ "network-bytes", 0, OPT_VALUE, "SIZE", "bytes in and out since it was created, or unlimited", OPT_BYTES },
	{ "network-connections", 0, OPT_VALUE, "N", "egress: connections since it was created; bridge: open at once; or unlimited", OPT_CONNECTIONS },
	{ "network-rate", 0, OPT_VALUE, "RATE",
	  "bytes a second in each direction, or bits, such as 10mbit, or unlimited", OPT_RATE },
	{ "idle-timeout", 0, OPT_VALUE, "TIME", "stop it when nothing has happened in it for so long; 0 is never", OPT_IDLE_TIMEOUT },
	{ "ttl", 0, OPT_VALUE, "TIME", "remove it so long from now on, whatever it does; 0 is never", OPT_TTL },
	UPDATE_LIFE_TABLE,
	{ "tenant", 0, OPT_VALUE, "NAME", "for a tenant of berthd, whose it must be: [tenant] holds", OPT_TENANT },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

struct update {
	json_t *rq;	/* for the keeper */
	json_t *options;	/* for spec.json, as create was given them */
	int json, reset_rules;
	uint64_t cut;	/* connections that were */
	const char *tenant;	/* NULL: no tenant's limits apply */
};

static int add_rule(struct update *u, enum netopts_list l, const char *value, struct err *e)
{
	const char *key = netopts_key(l);

	if (netopts_check(l, value, e) < 0)
		return -1;
	if (!json_object_get(u->rq, key))
		json_object_set_new(u->rq, key, json_array());
	json_array_append_new(json_object_get(u->rq, key), json_string(value));
	return json_array_append_new(u->options, json_pack("[s,s]", netopts_option(l), value)) < 0 ? err_nomem(e) : 0;
}

static int set_budget(struct update *u, enum netopts_budget b, const char *value, struct err *e)
{
	static const struct {
		void (*set)(json_t *rq, uint64_t v);
		const char *option;
	} budgets[NETOPTS_BUDGETS] = {
		[NETOPTS_BYTES] = { request_set_max_bytes, "network-bytes" },
		[NETOPTS_CONNECTIONS] = { request_set_max_connections, "network-connections" },
		[NETOPTS_RATE] = { request_set_max_rate, "network-rate" },
	};
	uint64_t v;

	if (netopts_budget(b, value, &v, e) < 0)
		return -1;
	budgets[b].set(u->rq, v);
	return json_array_append_new(u->options, json_pack("[s,s]", budgets[b].option, value)) < 0 ?
	       err_nomem(e) : 0;
}

static int set_network(struct update *u, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_ALLOW_HOST:
		return add_rule(u, NETOPTS_ALLOW_HOST, value, e);
	case OPT_DENY_HOST:
		return add_rule(u, NETOPTS_DENY_HOST, value, e);
	case OPT_ALLOW_NET:
		return add_rule(u, NETOPTS_ALLOW_NET, value, e);
	case OPT_DENY_NET:
		return add_rule(u, NETOPTS_DENY_NET, value, e);
	case OPT_BYTES:
		return set_budget(u, NETOPTS_BYTES, value, e);
	case OPT_RATE:
		return set_budget(u, NETOPTS_RATE, value, e);
	default:
		return set_budget(u, NETOPTS_CONNECTIONS, value, e);
	}
}

static int set_time(struct update *u, int is_ttl, const char *value, struct err *e)
{
	const char *option = is_ttl ? "ttl" : "idle-timeout";
	uint64_t ms;

	if (resident_time(option, value, &ms, e) < 0)
		return -1;
	if (is_ttl)
		request_set_ttl_ms(u->rq, ms);
	else
		request_set_idle_timeout_ms(u->rq, ms);
	return json_array_append_new(u->options, json_pack("[s,s]", option, value)) < 0 ? err_nomem(e) : 0;
}

static int set_io(struct update *u, int is_rate, const char *value, struct err *e)
{
	struct limitopts_io rate;
	uint64_t weight;

	if (is_rate ? limitopts_io_parse(value, &rate, e) < 0 :
		      num_u64(value, "io-weight", 1, 10000, &weight, e) < 0)
		return -1;
	if (!is_rate)
		request_set_io_weight(u->rq, weight);
	return json_array_append_new(u->options,
				     json_pack("[s,s]", is_rate ? "io-rate" : "io-weight", value)) <
			       0 ?
		       err_nomem(e) :
		       0;
}

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	static const char *const names[] = { NULL, "memory", "cpus", "pids" };
	void (*const set[])(json_t *rq, uint64_t v) = {
		NULL, request_set_memory_bytes, request_set_cpu_milli, request_set_pids,
	};
	struct update *u = ctx;
	uint64_t v = 0;
	int r = update_life_option(u->options, id, value, e);

	if (r <= 0)
		return r;
	if (id == OPT_JSON) {
		u->json = 1;
		return 0;
	}
	if (id == OPT_RESET_RULES) {
		u->reset_rules = 1;
		request_set_reset_rules(u->rq, 1);
		return 0;
	}
	if (id == OPT_IDLE_TIMEOUT || id == OPT_TTL)
		return set_time(u, id == OPT_TTL, value, e);
	if (id == OPT_TENANT) {
		u->tenant = value;
		return path_is_name(value) ? 0 : err_set(e, ERR_INVALID, "'%.80s' is not a tenant's name; hint: a-z 0-9 _ . -", value);
	}
	if (id == OPT_IO_WEIGHT || id == OPT_IO_RATE)
		return set_io(u, id == OPT_IO_RATE, value, e);
	if (id >= OPT_ALLOW_HOST)
		return set_network(u, id, value, e);
	if (!strcmp(value, "unlimited")) {
		set[id](u->rq, PROTOCOL_UNLIMITED);
		return json_array_append_new(u->options, json_pack("[s,s]", names[id], value)) < 0 ? err_nomem(e) : 0;
	}
	/* the ranges of create */
	r = id == OPT_MEMORY ? num_size(value, "memory", 512 << 10, 1ULL << 60, &v, e) :
	    id == OPT_CPUS ? num_milli(value, "cpus", 10, 4096000, &v, e) : num_u64(value, "pids", 2, 4194304, &v, e);
	if (r < 0)
		return -1;
	set[id](u->rq, v);
	return json_array_append_new(u->options, json_pack("[s,s]", names[id], value)) < 0 ? err_nomem(e) : 0;
}

/* A rule is one of many of its option; a value has one. */
static int is_rule(const char *option)
{
	return !strncmp(option, "allow-", 6) || !strncmp(option, "deny-", 5);
}

/* The later of two rules on the same counts: allow-host X takes deny-host X back, and the other way round. */
static int replaces(const json_t *new, const json_t *old)
{
	const char *a = json_string_value(json_array_get(new, 0)), *b = json_string_value(json_array_get(old, 0));

	if (!a || !b)
		return 0;
	if (!strcmp(a, "io-rate") && !strcmp(b, a))
		return limitopts_io_same(json_string_value(json_array_get(new, 1)),
					 json_string_value(json_array_get(old, 1)));
	if (is_rule(a) && is_rule(b))
		return !strcmp(strchr(a, '-'), strchr(b, '-')) && json_equal(json_array_get(new, 1), json_array_get(old, 1));
	return update_life_replaces(a, b);
}

/* What --reset-rules forgets: not the ranges that were opened. */
static int is_forgotten(const struct update *u, const json_t *old)
{
	const char *option = json_string_value(json_array_get(old, 0));

	return u->reset_rules && option && is_rule(option) && strcmp(option, "allow-net");
}

static int no_spec(struct sandbox_ref *s, struct err *e)
{
	if (record_is_gone(&s->registry, s->id))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s is gone", s->id);
	return err_set(e, ERR_INVALID, "sandbox %s does not last and cannot be updated", s->id);
}

/* Its spec.json with the changes: one entry per option, however often it is changed. */
static json_t *changed_spec(struct sandbox_ref *s, const struct update *u, struct err *e)
{
	json_t *spec = registry_load(&s->registry, s->id, SPEC_FILE, e);
	json_t *kept = NULL, *all, *old, *new;
	size_t i, j;

	if (!spec && e->code == ERR_NOT_FOUND)
		no_spec(s, e);
	if (!spec || json_get_arr(spec, "options", &kept, SPEC_FILE, e) < 0) {
		json_decref(spec);
		return NULL;
	}
	all = json_array();
	json_array_foreach(kept, i, old) {
		int replaced = is_forgotten(u, old);

		json_array_foreach(u->options, j, new)
			replaced |= replaces(new, old);
		if (!replaced)
			json_array_append(all, old);
	}
	json_array_foreach(u->options, j, new)
		if (!update_life_takes_back(new))
			json_array_append(all, new);
	json_object_set_new(spec, "options", all);
	return spec;
}

static int save(struct sandbox_ref *s, const struct update *u, struct err *e)
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
static int check_mode(const json_t *spec, const struct update *u, struct err *e)
{
	const char *mode = "none";
	json_t *pair;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair)
		if (!strcmp(json_string_value(json_array_get(pair, 0)), "network"))
			mode = json_string_value(json_array_get(pair, 1));
	json_array_foreach(u->options, i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));

		if ((is_rule(name) || !strncmp(name, "network-", 8)) && strcmp(mode, "egress") && strcmp(mode, "bridge"))
			return err_set(e, ERR_INVALID, "its network mode is %s, which has no rules; hint: create it with --network "
				       "egress or bridge", mode);
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
static int take(struct sandbox_ref *s, const struct update *u, struct promise *ret_old, struct err *e)
{
	uint64_t memory = asked(u, "memory_bytes", PROMISE_SAME), cpu = asked(u, "cpu_milli", PROMISE_SAME);
	struct promise p = { .memory_bytes = memory, .cpu_milli = cpu };
	struct tenant t;

	if (u->tenant) {
		if (tenant_load(&t, s->registry.config, u->tenant, e) < 0 || tenant_check_pids(&t, asked(u, "pids", 0), e) < 0 ||
		    (memory != PROMISE_SAME && tenant_check_memory(&t, memory, e) < 0) ||
		    (cpu != PROMISE_SAME && tenant_check_cpus(&t, cpu, e) < 0))
			return -1;
		p = tenant_promise(&t, memory, cpu);
		p.max_sandboxes = 0;	/* it is one already */
	}
	return promise_change(&s->registry, s->id, &p, 0, ret_old, e);
}

static int ask_keeper(struct sandbox_ref *s, struct update *u, struct err *e)
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
	if (!s->kept ? ask_keeper(s, u, e) < 0 : check_mode(spec, u, e) < 0)
		return -1;
	if (save(s, u, e) < 0 || (s->kept && update_life_record(&s->registry, s->id, u->rq, e) < 0))
		return -1;
	return save_ttl(s, u, e);
}

#define STARTING_MS 5000
#define LOOK_NS 5000000

/* Somebody starts it, or removes it: waits for what becomes of it. */
static int settle(struct sandbox_ref *s, struct err *e)
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

static int change(struct sandbox_ref *s, struct update *u, const json_t *spec, struct err *e)
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
	return settle(s, e) < 0 ? -1 : change_now(s, u, spec, e);
}

/* The disks that are asked for, by their numbers, and whether they can be held to it. */
static int find_disks(struct sandbox_ref *s, struct update *u, struct err *e)
{
	struct cgroup_limits l = {.io_weight = request_io_weight(u->rq, 0)};
	autofree const char **texts = calloc(json_array_size(u->options) + 1, sizeof(*texts));
	autojson json_t *rates = json_array();
	char text[CGROUP_IO_TEXT];
	const json_t *pair;
	size_t i, n = 0;

	if (!texts || !rates)
		return err_nomem(e);
	json_array_foreach (u->options, i, pair)
		if (!strcmp(json_string_value(json_array_get(pair, 0)), "io-rate"))
			texts[n++] = json_string_value(json_array_get(pair, 1));
	if (limitopts_io_settle(texts, n, s->registry.config->state_dir, &l, e) < 0)
		return -1;
	for (i = 0; i < l.io_rate_count; i++) {
		cgroup_io_print(&l.io_rates[i], text);
		json_array_append_new(rates, json_string(text));
	}
	if (n)
		request_set_io_rates(u->rq, json_incref(rates));
	return 0;
}

static int update(struct sandbox_ref *s, struct update *u, const char *ref, struct err *e)
{
	autojson json_t *spec = NULL;
	struct promise old;
	struct err ignored;

	if (sandbox_ref_find(s, ref, e) < 0)
		return -1;
	spec = registry_load(&s->registry, s->id, SPEC_FILE, e);
	if (!spec && e->code == ERR_NOT_FOUND)
		return no_spec(s, e);
	if (find_disks(s, u, e) < 0 || take(s, u, &old, e) < 0)
		return -1;
	if (change(s, u, spec, e) == 0)
		return 0;
	promise_change(&s->registry, s->id, &old, 1, NULL, &ignored);
	return -1;
}

static int update_main(const struct command *self, int argc, char **argv)
{
	struct update u = { .rq = protocol_request(OP_update), .options = json_array() };
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_option, &u, &rest, &help, &e);
	if (r == 0 && !help) {
		if (rest + 1 != argc)
			r = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth update --memory 1g ID");
		else if (!json_array_size(u.options) && !u.reset_rules)
			r = err_set(&e, ERR_USAGE, "nothing to change; "
				    "hint: --memory, --cpus, --pids, --allow-host and others "
				    "(berth update --help)");
		if (r == 0)
			r = update(&s, &u, argv[rest], &e);
		if (r == 0 && u.json)
			printf("{\"id\":\"%s\",\"updated\":true,\"connections_cut\":%llu}\n", s.id, (unsigned long long)u.cut);
		else if (r == 0)
			puts(s.id);
	}
	sandbox_ref_close(&s);
	json_decref(u.rq);
	json_decref(u.options);
	return r < 0 ? command_fail(self, &e, u.json) : 0;
}

const struct command cmd_update = {
	.name = "update",
	.args = "SANDBOX",
	.summary = "change limits, network rules and life of a sandbox, at once and for good",
	.detail = "A limit that the kernel refuses (less memory than is in use) is an error and nothing changes.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = update_main,
};
