/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S8 of SECURITY.md. */
/*
 * Budgets of a sandbox over its life (--budget cpu=TIME,time=TIME,io=SIZE,net=SIZE), across starts
 * and stops.
 *
 * When a budget is used up, the sandbox is frozen, as by berth pause, until berth grant adds more;
 * nothing is lost. The keeper checks when the rest could be used up at the earliest, but at most
 * every LOOK_MS, so a sandbox may exceed a budget by its use in that time. The keeper records the
 * use at its end; a keeper that is killed does not.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_state.h"

#define LOOK_MS 100
#define LOOK_MAX_MS 60000
#define BYTES_A_MS (8U << 20) /* faster than any disk and network of the host */

static const char not_held[] = "budget";

/* Reads the cgroup's counters, also at its end: if they cannot be read, the last values stay. */
static int read_cgroup(struct keeper *k, struct err *e)
{
	struct cgroup *cg = &k->sandbox.cgroup;
	struct cgroup_usage u;

	if (cgroup_usage(cg, &u, e) < 0)
		return -1;
	k->budget.run.v[LIVEBUDGET_CPU] = u.cpu_us / 1000;
	if (!k->life.budget.v[LIVEBUDGET_IO])
		return 0;
	/* without the file the kernel counts nothing, which would read as 0 */
	if (faccessat(cg->v2_fd, "io.stat", F_OK, 0) < 0)
		return err_sys(e, "read io.stat");
	k->budget.run.v[LIVEBUDGET_IO] = u.read_bytes + u.write_bytes;
	return 0;
}

static int read_network_use(struct keeper *k, struct err *e)
{
	const struct nethelper *meter = sandbox_meter(&k->sandbox);
	struct netcounters c, near;

	if (!k->life.budget.v[LIVEBUDGET_NET])
		return 0;
	/* a dead proxy passes nothing, but that would not show */
	if (nethelper_count(meter, k->spec, &c, e) <= 0 ||
	    (meter->counters && !nethelper_lives(meter)))
		return err_set(e, ERR_UNSUPPORTED, "the network of sandbox %s is not counted",
			       k->claim.id);
	/* including what earlier runs used, which the network remembers itself */
	k->budget.run.v[LIVEBUDGET_NET] = nethelper_used(&c, k->spec);
	if (!k->spec->net_egress)
		return 0;
	/* including traffic between members, which only the record of the budget remembers */
	if (nethelper_count(&k->sandbox.net, k->spec, &near, e) <= 0)
		return err_set(e, ERR_UNSUPPORTED, "the network of sandbox %s is not counted",
			       k->claim.id);
	k->budget.run.v[LIVEBUDGET_NET] = c.bytes_in + c.bytes_out + near.bytes_in + near.bytes_out;
	return 0;
}

/* Reads how much this run has used. */
static int read_used(struct keeper *k, struct err *e)
{
	const uint64_t now = k->budget.over_ms ? k->budget.over_ms : clock_ms();

	if (!k->budget.began_ms)
		k->budget.began_ms = now;
	k->budget.run.v[LIVEBUDGET_TIME] = now - k->budget.began_ms - k->budget.stood_ms;
	return read_cgroup(k, e) < 0 || read_network_use(k, e) < 0 ? -1 : 0;
}

static void add_earlier(const struct keeper *k, struct livebudget *ret)
{
	size_t i;

	for (i = 0; i < LIVEBUDGET_KINDS; i++)
		ret->v[i] = k->budget.run.v[i] + k->life.budget_used.v[i];
	if (!k->spec->net_egress)
		ret->v[LIVEBUDGET_NET] = k->budget.run.v[LIVEBUDGET_NET];
	else if (k->life.budget_used.v[LIVEBUDGET_NET] < k->spec->net_used_bytes)
		/* the keeper of the last run was killed */
		ret->v[LIVEBUDGET_NET] = k->budget.run.v[LIVEBUDGET_NET] + k->spec->net_used_bytes;
}

static struct livebudget used_now(struct keeper *k)
{
	struct livebudget used;
	struct err ignored;

	(void)read_used(k, &ignored);
	add_earlier(k, &used);
	return used;
}

/* Returns the first kind that is used up, or LIVEBUDGET_KINDS. */
static size_t used_up(const struct keeper *k, const struct livebudget *used)
{
	size_t i = 0;

	while (i < LIVEBUDGET_KINDS &&
	       (!k->life.budget.v[i] || used->v[i] < k->life.budget.v[i]))
		i++;
	return i;
}

/* Returns how fast a kind is used at most, in thousandths of its unit a ms. */
static uint64_t fastest(const struct keeper *k, size_t kind)
{
	const struct cgroup_limits *l = k->limits_changed ? &k->limits : &k->spec->limits;
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (kind == LIVEBUDGET_CPU && l->cpu_milli != CGROUP_UNLIMITED)
		return l->cpu_milli;
	if (kind == LIVEBUDGET_CPU)
		return cpus > 0 ? (uint64_t)cpus * 1000 : 1000;
	return kind == LIVEBUDGET_TIME ? 1000 : BYTES_A_MS * UINT64_C(1000);
}

/* Returns the earliest time at which a rest can be used up. */
static uint64_t time_to_budget_end(const struct keeper *k, const struct livebudget *used)
{
	uint64_t soonest = LOOK_MAX_MS;
	size_t i;

	for (i = 0; i < LIVEBUDGET_KINDS; i++) {
		const uint64_t speed = fastest(k, i), rest = k->life.budget.v[i] - used->v[i];

		if (k->life.budget.v[i] && rest < soonest * speed / 1000)
			soonest = rest * 1000 / speed;
	}
	return soonest < LOOK_MS ? LOOK_MS : soonest;
}

static uint64_t budget_next(struct keeper *k)
{
	if (!livebudget_is_set(&k->life.budget) || k->budget.over_ms || k->paused || k->stopping)
		return 0;
	return k->budget.look_ms ? k->budget.look_ms : 1;
}

static void budget_check(struct keeper *k, uint64_t now)
{
	const uint64_t at = budget_next(k);
	struct livebudget used;
	json_t *told;
	size_t kind;
	struct err e;

	if (!at || now < at)
		return;
	/* a sandbox whose use cannot be measured, or that cannot be frozen, must not run on */
	if (read_used(k, &e) < 0)
		goto stop;
	add_earlier(k, &used);
	kind = used_up(k, &used);
	if (kind == LIVEBUDGET_KINDS) {
		k->budget.look_ms = now + time_to_budget_end(k, &used);
		return;
	}
	if (cgroup_freeze(&k->sandbox.cgroup, 1, &e) < 0)
		goto stop;
	k->budget.over_ms = clock_ms();
	k->budget.kind = kind;
	k->paused = 1;
	keeper_command_stands_still(k);
	told = livebudget_json(&k->life.budget, &used);
	json_object_set_new(told, "budget", json_string(livebudget_rows[kind].word));
	keeper_event(k, "budget", told);
	return;
stop:
	k->stop_reason = not_held;
	k->stopping = 1;
}

int keeper_budget_allows(const struct keeper *k, struct err *e)
{
	const struct livebudget_row *row = &livebudget_rows[k->budget.kind];

	return !k->budget.over_ms ? 0 :
	       err_set(e, ERR_LIMIT, "the budget of sandbox %s is used up; hint: berth grant %s "
		       "%s=+%s", k->claim.id, k->claim.id, row->word, row->sample);
}

static void budget_describe(struct keeper *k, json_t *answer)
{
	struct livebudget used;

	if (!livebudget_is_set(&k->life.budget))
		return;
	used = used_now(k);
	json_object_set_new(answer, "budget", livebudget_json(&k->life.budget, &used));
}

int keeper_budget_note(struct keeper *k, json_t *record)
{
	struct livebudget used;

	if (!livebudget_is_set(&k->life.budget))
		return 0;
	used = used_now(k);
	livebudget_tell(&k->life.budget, &used, record);
	return 1;
}

static int thaw_after_grant(struct keeper *k, struct err *e)
{
	if (k->owner_until_ms || k->held_by)	/* the sandbox is frozen for another reason, too */
		return 0;
	if (!k->checkpoint.stands && cgroup_freeze(&k->sandbox.cgroup, 0, e) < 0)
		return -1;
	k->paused = 0;
	return 0;
}

int keeper_op_grant(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const struct livebudget more = { {
		[LIVEBUDGET_CPU] = request_cpu_ms(rq->json, 0),
		[LIVEBUDGET_TIME] = request_time_ms(rq->json, 0),
		[LIVEBUDGET_IO] = request_io_bytes(rq->json, 0),
		[LIVEBUDGET_NET] = request_net_bytes(rq->json, 0),
	} };
	struct keeper_life l = k->life;
	struct livebudget used;
	size_t kind;

	if (!livebudget_is_set(&more))
		return err_set(e, ERR_INVALID, "nothing is granted");
	if (livebudget_add(&l.budget, &more, k->claim.id, e) < 0 || keeper_life_set(k, &l, e) < 0)
		return -1;
	used = used_now(k);
	k->budget.look_ms = 0;
	kind = used_up(k, &used);
	if (k->budget.over_ms && kind < LIVEBUDGET_KINDS) {
		k->budget.kind = kind;
	} else if (k->budget.over_ms) {
		if (thaw_after_grant(k, e) < 0)
			return -1;
		k->budget.stood_ms += clock_ms() - k->budget.over_ms;
		k->budget.over_ms = 0;
	}
	keeper_event(k, "grant", livebudget_json(&k->life.budget, &used));
	keeper_answer(k, rq->client, livebudget_json(&k->life.budget, &used), NULL, 0);
	return 0;
}

const struct keeper_part keeper_part_budget = { .next = budget_next, .check = budget_check, .describe = budget_describe };
