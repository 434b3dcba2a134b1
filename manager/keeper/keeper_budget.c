/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU time that a sandbox may use over its life (--budget cpu=TIME), across starts and
 * stops.
 *
 * When the time is used up, the sandbox is frozen, as by berth pause, until berth grant adds
 * more; nothing is lost. The keeper checks when the rest could be used up at the earliest, but
 * at most every LOOK_MS, so a sandbox may use that much more on each of its CPUs. The keeper
 * records the used time at its end; a keeper that is killed does not.
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_state.h"

#define LOOK_MS 100
#define LOOK_MAX_MS 60000

static const char not_held[] = "budget";

/* Reads the use of this run; if it cannot be read, the last value stays. */
static int read_used(struct keeper *k, struct err *e)
{
	struct cgroup_usage u;

	if (cgroup_usage(&k->sandbox.cgroup, &u, e) < 0)
		return -1;
	k->budget_run_ms = u.cpu_us / 1000;
	return 0;
}

static uint64_t used_ms(struct keeper *k)
{
	struct err ignored;

	(void)read_used(k, &ignored);
	return k->life.budget_used_ms + k->budget_run_ms;
}

/* The rest cannot be gone before. */
static uint64_t time_of(const struct keeper *k, uint64_t rest_ms)
{
	const struct cgroup_limits *l = k->limits_changed ? &k->limits : &k->spec->limits;
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t milli = l->cpu_milli, ms;

	if (milli == CGROUP_UNLIMITED)
		milli = cpus > 0 ? (uint64_t)cpus * 1000 : 1000;
	if (rest_ms > LOOK_MAX_MS * milli / 1000)
		return LOOK_MAX_MS;
	ms = rest_ms * 1000 / milli;
	return ms < LOOK_MS ? LOOK_MS : ms;
}

uint64_t keeper_budget_next(const struct keeper *k)
{
	if (!k->life.budget_cpu_ms || k->budget_over || k->paused || k->stopping)
		return 0;
	return k->budget_look_ms ? k->budget_look_ms : 1;
}

void keeper_budget_check(struct keeper *k, uint64_t now)
{
	const uint64_t at = keeper_budget_next(k), budget = k->life.budget_cpu_ms;
	uint64_t used;
	struct err e;

	if (!at || now < at)
		return;
	/* what cannot be measured, or frozen, must not go on */
	if (read_used(k, &e) < 0)
		goto stop;
	used = k->life.budget_used_ms + k->budget_run_ms;
	if (used < budget) {
		k->budget_look_ms = now + time_of(k, budget - used);
		return;
	}
	if (cgroup_freeze(&k->sandbox.cgroup, 1, &e) < 0)
		goto stop;
	k->budget_over = k->paused = 1;
	keeper_command_stands_still(k);
	keeper_event(k, "budget", json_pack("{s:I,s:I}", "cpu_ms", (json_int_t)budget,
					    "cpu_used_ms", (json_int_t)used));
	return;
stop:
	k->stop_reason = not_held;
	k->stopping = 1;
}

int keeper_budget_allows(const struct keeper *k, struct err *e)
{
	return !k->budget_over ? 0 :
	       err_set(e, ERR_LIMIT, "the budget of sandbox %s is used up; hint: berth grant %s "
		       "cpu=+60s", k->claim.id, k->claim.id);
}

void keeper_budget_describe(struct keeper *k, json_t *answer)
{
	if (k->life.budget_cpu_ms)
		json_object_set_new(answer, "budget", json_pack("{s:I,s:I}", "cpu_ms",
			(json_int_t)k->life.budget_cpu_ms, "cpu_used_ms", (json_int_t)used_ms(k)));
}

void keeper_budget_save(struct keeper *k)
{
	struct err ignored;
	autojson json_t *record = k->life.budget_cpu_ms ?
		record_load_kept(k->registry, k->claim.id, &ignored) : NULL;

	if (!record)
		return;
	record_set_budget_used_ms(record, used_ms(k));
	record_save_kept(k->registry, k->claim.id, record, &ignored);
}

static int go_on(struct keeper *k, struct err *e)
{
	if (k->owner_until_ms || k->held_by)	/* it stands still for another reason, too */
		return 0;
	if (!k->checkpoint.stands && cgroup_freeze(&k->sandbox.cgroup, 0, e) < 0)
		return -1;
	k->paused = 0;
	return 0;
}

int keeper_op_grant(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const uint64_t more = request_cpu_ms(rq->json, 0);
	struct keeper_life l = k->life;
	uint64_t used;

	if (!l.budget_cpu_ms)
		return err_set(e, ERR_INVALID, "sandbox %s has no budget; hint: berth create "
			       "--budget cpu=60s", k->claim.id);
	if (!more || more > KEEPER_BUDGET_MAX_MS - l.budget_cpu_ms)
		return err_set(e, ERR_INVALID, "a budget has at most %llu ms",
			       (unsigned long long)KEEPER_BUDGET_MAX_MS);
	l.budget_cpu_ms += more;
	if (keeper_life_set(k, &l, e) < 0)
		return -1;
	used = used_ms(k);
	k->budget_look_ms = 0;
	if (k->budget_over && used < l.budget_cpu_ms) {
		if (go_on(k, e) < 0)
			return -1;
		k->budget_over = 0;
	}
	keeper_event(k, "grant", json_pack("{s:I}", "cpu_ms", (json_int_t)l.budget_cpu_ms));
	keeper_answer(k, rq->client, json_pack("{s:I,s:I}", "cpu_ms", (json_int_t)l.budget_cpu_ms,
					       "cpu_used_ms", (json_int_t)used), NULL, 0);
	return 0;
}
