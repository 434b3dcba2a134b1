/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health check of a sandbox: an ordinary command that the keeper starts by a timer of its
 * loop, one at a time, with a deadline after which all its processes are killed. health.c
 * interprets a result.
 *
 * A check is as hostile as any other command. It may use half of the sandbox's processes, output
 * above the limit is read and dropped, and no process that it leaves behind outlives it. It does
 * not count as use of the sandbox (keeper_life.c), and appears in no list of commands, no log
 * and no event.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/health.h"
#include "manager/keeper/keeper_state.h"

#define PIDS_MIN 16

struct keeper_health {
	struct health h;
	uint32_t seq;		/* number of the command that checks now; 0: none */
	uint64_t began_ms, start_ms;	/* of the running check: monotonic, and since 1970 */
	uint64_t cpu_us;	/* used by those that have ended */
	int frozen;		/* the sandbox stood still at the last look */
	uint64_t left_ms;	/* time left of the check when the sandbox was frozen */
	json_t *owned;		/* the argv of a spec that came by an update */
	int stale;		/* the check that runs is from before an update */
};

int keeper_health_begin(struct keeper *k, const struct health_spec *spec, struct err *e)
{
	if (!spec->argv)
		return 0;
	k->health = calloc(1, sizeof(*k->health));
	if (!k->health)
		return err_nomem(e);
	health_init(&k->health->h, spec, clock_ms());
	return 0;
}

/* The check that runs, or NULL. */
static struct keeper_command *running_check(struct keeper *k)
{
	return k->health && k->health->seq ? keeper_command_find(k, k->health->seq) : NULL;
}

/* The new check begins when the old one has ended, which is killed at once. */
int keeper_health_update(struct keeper *k, const json_t *rq, struct err *e)
{
	json_t *asked = request_health(rq);
	struct keeper_command *c = running_check(k);
	struct keeper_health *kh = k->health;
	struct health_spec spec;

	if (!asked)
		return 0;
	if (health_spec_parse(asked, &spec, e) < 0 ||
	    (!kh && keeper_health_begin(k, &spec, e) < 0))
		return -1;
	if (!k->health)
		return 0;
	kh = k->health;
	health_release(&kh->h);
	health_init(&kh->h, &spec, clock_ms());
	json_decref(kh->owned);
	kh->owned = json_incref(spec.argv);
	kh->stale = !!c;
	if (c && c->ending == ENDING_NOT)
		c->deadline_ms = clock_ms();
	return 0;
}

static void tell_health_waiters(struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++) {
		if (k->clients[i].fd >= 0 && k->clients[i].waits_health) {
			k->clients[i].waits_health = 0;
			keeper_answer(k, i, health_json(&k->health->h), NULL, 0);
		}
	}
}

static void add_check_result(struct keeper *k, struct health_result *r)
{
	struct keeper_health *kh = k->health;

	r->began_ms = kh->began_ms;
	r->start_ms = kh->start_ms;
	r->end_ms = clock_wall_ms();
	kh->seq = 0;
	if (!health_add(&kh->h, r, clock_ms()))
		return;
	keeper_event(k, "health", json_pack("{s:s}", "status", health_name(kh->h.status)));
	tell_health_waiters(k);
}

/* The check could not be started: that is a failed one, and its output says why. */
static void add_failure(struct keeper *k, const struct err *e)
{
	struct health_result r = { .exit_code = err_exit_status(e->code) };

	r.output = strdup(e->msg);
	r.output_len = r.output ? strlen(r.output) : 0;
	add_check_result(k, &r);
}

void keeper_health_failed(struct keeper *k, const struct err *e)
{
	k->health->seq = 0;
	if (!k->health->stale)
		add_failure(k, e);
	k->health->stale = 0;
}

void keeper_health_ended(struct keeper *k, struct keeper_command *c)
{
	const enum verdict_cause cause = c->verdict.cause;
	struct health_result r = { .exit_code = verdict_exit_status(&c->verdict) };
	autobuf struct buf b = BUF_INIT(2 * HEALTH_OUTPUT);
	uint64_t from, next;
	struct err ignored;

	if (cause != CAUSE_EXIT)
		r.cause = verdict_cause_name(cause);
	k->health->cpu_us += c->facts.usage.cpu_us;
	k->health->seq = 0;
	if (ring_read(&c->out[0], 0, HEALTH_OUTPUT, &b, &from, &next, &ignored) == 0 && b.len) {
		r.output = b.data;
		r.output_len = b.len;
		b.data = NULL;
	}
	keeper_command_remove(k, c);
	/* it was killed, or told to end, with the sandbox: that does not count as a result */
	if (k->stopping || k->stop_at_ms || k->health->stale)
		free(r.output);
	else
		add_check_result(k, &r);
	k->health->stale = 0;
}

static uint64_t pids_of(const struct keeper *k)
{
	const struct cgroup_limits *l = k->limits_changed ? &k->limits : &k->spec->limits;

	if (l->pids == CGROUP_UNLIMITED || l->pids / 2 >= INT64_MAX)
		return CGROUP_UNLIMITED;
	return l->pids / 2 < PIDS_MIN ? PIDS_MIN : l->pids / 2;
}

static void start_check(struct keeper *k)
{
	struct keeper_health *kh = k->health;
	const struct health_spec *s = &kh->h.spec;
	const uint64_t pids = pids_of(k);
	autojson json_t *rq = json_pack("{s:O,s:b,s:b,s:I,s:i,s:i}", "argv", s->argv, "detach", 1,
					"merge", 1, "timeout_ms", (json_int_t)s->timeout_ms,
					"grace_ms", 0, "max_silent_ms", 0);
	const struct keeper_request ask = { .client = -1, .op = OP_exec, .json = rq };
	struct keeper_command *c;
	struct err e;

	kh->began_ms = clock_ms();
	kh->start_ms = clock_wall_ms();
	if (rq && pids != CGROUP_UNLIMITED)
		json_object_set_new(rq, "pids", json_integer((json_int_t)pids));
	if (!rq)
		err_nomem(&e);
	if (!rq || keeper_op_exec(k, &ask, &e) < 0) {
		add_failure(k, &e);
		return;
	}
	c = keeper_command_find(k, KEEPER_CHECKS | (k->next_check - 1));
	ring_init(&c->out[0], HEALTH_OUTPUT, 0);
	fd_close(&c->in_fd);
	kh->seq = c->seq;
}

/* The time of a check stops while the sandbox is frozen. */
static void look_at_freeze(struct keeper *k, uint64_t now)
{
	struct keeper_health *kh = k->health;
	struct keeper_command *c = running_check(k);
	const int frozen = k->paused || k->held_by;

	if (frozen == kh->frozen)
		return;
	kh->frozen = frozen;
	if (!c || c->ending != ENDING_NOT)
		return;
	if (frozen)
		kh->left_ms = c->deadline_ms > now ? c->deadline_ms - now : 0;
	c->deadline_ms = frozen ? 0 : now + kh->left_ms;
}

static int may_check(const struct keeper *k)
{
	const int stops = k->stopping || k->stop_at_ms || k->drain_until_ms;
	const int stands_still = k->paused || k->held_by;

	return k->health && k->health->h.spec.argv && !k->health->seq && !stands_still && !stops;
}

static uint64_t health_next(struct keeper *k)
{
	return may_check(k) ? k->health->h.next_ms : 0;
}

static void health_check(struct keeper *k, uint64_t now)
{
	if (!k->health)
		return;
	look_at_freeze(k, now);
	if (may_check(k) && now >= k->health->h.next_ms)
		start_check(k);
}

/* What berth-init has used, which is one thread and no work of the sandbox's: it starts the checks. */
static uint64_t init_cpu_us(const struct keeper *k)
{
	char path[40], text[80];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", k->sandbox.pid);	/* Documentation/scheduler/sched-stats.rst */
	return cgroup_read(AT_FDCWD, path, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10) / 1000 : 0;
}

uint64_t keeper_health_cpu_us(struct keeper *k)
{
	struct cgroup_usage u = { 0 };
	struct keeper_command *c;
	struct err ignored;

	if (!k->health)
		return 0;
	c = running_check(k);
	if (c && cgroup_usage(&c->leaf, &u, &ignored) < 0)
		u.cpu_us = 0;
	return k->health->cpu_us + u.cpu_us + init_cpu_us(k);
}

static void health_describe(struct keeper *k, json_t *answer)
{
	const int checked = k->health && k->health->h.spec.argv;
	const char *name = checked ? health_name(k->health->h.status) : NULL;

	if (name)
		json_object_set_new(answer, "health", json_string(name));
}

int keeper_op_health(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	if (!k->health || !k->health->h.spec.argv)
		return err_set(e, ERR_INVALID, "sandbox %s has no health check; "
			       "hint: berth create --health-cmd TEXT", k->claim.id);
	if (request_wait(rq->json) && k->health->h.status == HEALTH_STARTING)
		k->clients[rq->client].waits_health = 1;
	else
		keeper_answer(k, rq->client, health_json(&k->health->h), NULL, 0);
	return 0;
}

const struct keeper_part keeper_part_health = { .next = health_next, .check = health_check, .describe = health_describe };
