/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of berth update to a living sandbox. */
#include <errno.h>

#include "base/mem.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/cgroup_io.h"

#define IO_WEIGHT_DEFAULT 100

/* What could fail when the network's rules, which cannot be taken back, have changed. */
static int check(struct keeper *k, const json_t *rq, struct err *e)
{
	const char *restart = request_restart(rq, NULL);
	struct restart_policy policy;
	struct health_spec health;

	if (restart && !k->main.service)
		return err_set(e, ERR_INVALID, "sandbox %s is not a service, so nothing of it can run "
			       "again", k->claim.id);
	if (restart && restart_parse(restart, &policy, e) < 0)
		return -1;
	return request_health(rq) ? health_spec_parse(request_health(rq), &health, e) : 0;
}

/*
 * What is asked of disks goes into l.  old gets those disks too, without a limit, so that setting
 * it takes all of l back.
 */
static int put_io(const json_t *rq, struct cgroup_limits *old, struct cgroup_limits *l,
		  struct err *e)
{
	struct cgroup_io_rate rate;
	const json_t *text;
	unsigned i;
	size_t k;

	l->io_weight = request_io_weight(rq, l->io_weight);
	if (l->io_weight && !old->io_weight)
		old->io_weight = IO_WEIGHT_DEFAULT;
	json_array_foreach (request_io_rates(rq), k, text)
		if (cgroup_io_read(json_string_value(text), &rate, e) < 0 ||
		    cgroup_io_put(l, &rate, e) < 0)
			return -1;
	for (i = old->io_rate_count; i < l->io_rate_count; i++) {
		old->io_rates[i] = l->io_rates[i];
		for (k = 0; k < CGROUP_IO_KINDS; k++)
			old->io_rates[i].v[k] = CGROUP_UNLIMITED;
		old->io_rate_count++;
	}
	return 0;
}

int keeper_op_update(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct cgroup_limits old = k->limits_changed ? k->limits : k->spec->limits, l = old;
	const struct keeper_life life = k->life;
	struct err ignored;
	uint64_t cut;
	int r;

	l.memory_bytes = request_memory_bytes(rq->json, l.memory_bytes);
	l.cpu_milli = request_cpu_milli(rq->json, l.cpu_milli);
	l.pids = request_pids(rq->json, l.pids);
	if (check(k, rq->json, e) < 0 || put_io(rq->json, &old, &l, e) < 0)
		return -1;
	r = k->sandbox.cgroup.ops->limit(&k->sandbox.cgroup, &l, e);
	if (r == 0)
		r = k->sandbox.cgroup.ops->lift(&k->sandbox.cgroup, &l, e);
	if (r == 0)
		r = keeper_life_update(k, rq->json, e);
	if (r == 0)
		r = keeper_network_update(k, rq->json, &cut, e);
	if (r == 0)
		r = keeper_main_update(k, rq->json, e);
	if (r == 0)
		r = keeper_health_update(k, rq->json, e);
	if (r < 0) {
		/* all or nothing: limits that were set before the failure are restored */
		keeper_life_set(k, &life, &ignored);
		k->sandbox.cgroup.ops->limit(&k->sandbox.cgroup, &old, &ignored);
		/* v1 cannot set a limit below the memory in use */
		if (e->os_errno == EBUSY)
			err_set(e, ERR_LIMIT, "the sandbox uses more memory than that; "
				"hint: berth stats shows what it uses, a restart frees it");
		return -1;
	}
	k->limits = l;
	k->limits_changed = 1;
	keeper_answer(k, rq->client, json_pack("{s:b,s:I}", "updated", 1, "cut", (json_int_t)cut),
		      NULL, 0);
	keeper_event(k, "update", NULL);
	return 0;
}
