/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle: how long a sandbox has done no work, and what it does now.
 *
 * Work is a running command or text of a session, bytes from or to one, and CPU time above a
 * floor (a background job, a server). Requests that only ask are not work. After --idle-timeout,
 * or [manager] idle_timeout, without work, the keeper stops.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/ranges.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/cgroup_io.h"

#define FLOOR_PERCENT 1		/* of one CPU; below it is housekeeping, not work */
#define CHECK_MAX_MS 60000
#define WINDOW_MAX_MS 1000	/* a rate over less says little */

const char keeper_idle_reason[] = "idle timeout";

void keeper_busy(struct keeper *k)
{
	k->busy_ms = clock_ms();
}

static uint64_t check_every(const struct keeper *k)
{
	uint64_t t = k->life.idle_timeout_ms / 10;

	return t > CHECK_MAX_MS ? CHECK_MAX_MS : t < 50 ? 50 : t;
}

/* The running command: 1 with its name. */
static int running(const struct keeper *k, char *out, size_t n)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++) {
		const struct keeper_command *c = k->commands[i];

		if (c && !c->ended && !c->check && c->session < 0) {
			if (keeper_main_is(k, c))
				snprintf(out, n, "%s runs", keeper_main_source(k));
			else
				snprintf(out, n, "command c%u runs", c->seq);
			return 1;
		}
	}
	if (k->code.phase == CODE_RUNS) {
		snprintf(out, n, "code runs");
		return 1;
	}
	for (i = 0; i < KEEPER_SESSIONS; i++) {
		if (k->sessions[i].name[0] && k->sessions[i].busy) {
			snprintf(out, n, "session %s runs a command", k->sessions[i].name);
			return 1;
		}
	}
	return 0;
}

static void look(struct keeper *k, uint64_t now)
{
	uint64_t elapsed = now - k->idle_checked_ms, window = check_every(k), used;
	struct cgroup_usage u;
	struct err ignored;
	char what[100];

	if (running(k, what, sizeof(what)))
		k->busy_ms = now;
	if (window > WINDOW_MAX_MS)
		window = WINDOW_MAX_MS;
	if (elapsed < window || cgroup_usage(&k->sandbox.cgroup, &u, &ignored) < 0)
		return;
	/* the sandbox's use, without that of its health checks */
	u.cpu_us -= keeper_health_cpu_us(k) < u.cpu_us ? keeper_health_cpu_us(k) : u.cpu_us;
	used = u.cpu_us > k->idle_cpu_us ? u.cpu_us - k->idle_cpu_us : 0;
	k->idle_cpu_busy = used > elapsed * 1000 * FLOOR_PERCENT / 100;
	if (k->idle_cpu_busy)
		k->busy_ms = now;
	k->idle_cpu_us = u.cpu_us;
	k->idle_checked_ms = now;
}

static uint64_t idle_next(struct keeper *k)
{
	return k->life.idle_timeout_ms ? k->idle_checked_ms + check_every(k) : 0;
}

void keeper_record_stop(struct keeper *k)
{
	struct err ignored;

	record_note_stopped(k->registry, k->claim.id, k->stop_reason, &ignored);
}

static void idle_check(struct keeper *k, uint64_t now)
{
	uint64_t limit = k->life.idle_timeout_ms;

	if (!limit || now < k->idle_checked_ms + check_every(k))
		return;
	look(k, now);
	k->idle_checked_ms = now;
	if (now - k->busy_ms >= limit) {
		k->stopping = 1;
		k->stop_reason = keeper_idle_reason;
	}
}

static void describe_limits(const struct keeper *k, json_t *answer)
{
	const struct cgroup_limits *l = k->limits_changed ? &k->limits : &k->spec->limits;

	if (l->memory_bytes != CGROUP_UNLIMITED)
		json_object_set_new(answer, "memory_limit_bytes", json_integer((json_int_t)l->memory_bytes));
	if (l->cpu_milli != CGROUP_UNLIMITED)
		json_object_set_new(answer, "cpu_limit_milli", json_integer((json_int_t)l->cpu_milli));
	if (l->pids != CGROUP_UNLIMITED)
		json_object_set_new(answer, "pids_limit", json_integer((json_int_t)l->pids));
	if (l->io_weight)
		json_object_set_new(answer, "io_weight", json_integer((json_int_t)l->io_weight));
	if (l->io_rate_count)
		json_object_set_new(answer, "io_rates", cgroup_io_json(l));
}

static void idle_describe(struct keeper *k, json_t *answer)
{
	uint64_t now = clock_ms();
	char what[100];

	describe_limits(k, answer);
	look(k, now);
	json_object_set_new(answer, "idle_ms", json_integer((json_int_t)(now - k->busy_ms)));
	if (running(k, what, sizeof(what)))
		json_object_set_new(answer, "busy", json_string(what));
	else if (k->idle_cpu_busy)
		json_object_set_new(answer, "busy", json_string("cpu"));
}

/* ---- standing still --------------------------------------------------------------- */

static int describe_standing(const struct keeper *k, struct standing *ret)
{
	int i;

	*ret = (struct standing){ .since_ms = k->busy_ms, .turn = k->turn };
	if (k->paused || k->held_by || k->health || k->stopping || k->stop_at_ms ||
	    k->drain_until_ms || k->code.phase == CODE_RUNS)
		return 0;
	for (i = 0; i < KEEPER_COMMANDS; i++) {
		const struct keeper_command *c = k->commands[i];

		if (!c || c->ended || c->session >= 0)
			continue;
		if (!keeper_main_is(k, c) || k->main.phase != MAIN_RUNS)
			return 0;
		ret->is_main = 1;
	}
	for (i = 0; i < KEEPER_SESSIONS; i++) {
		if (k->sessions[i].name[0] && k->sessions[i].busy)
			return 0;
		ret->sessions += k->sessions[i].name[0] != '\0';
	}
	return 1;
}

int keeper_idle_may_stand(const struct keeper *k)
{
	struct standing s;

	return describe_standing(k, &s);
}

void keeper_idle_stand(struct keeper *k)
{
	struct cgroup_usage u;
	struct standing s;
	struct err ignored;

	k->still_looked = 1;
	look(k, clock_ms());
	if (!describe_standing(k, &s))
		return;
	/* processes that a command left behind may work: only their CPU time shows it */
	if (!s.is_main && (cgroup_usage_now(&k->sandbox.cgroup, &u, &ignored) < 0 ||
			   u.pids != 1 + s.sessions))
		return;
	if (k->notes_fd < 0)
		k->notes_fd = ranges_open(k->registry, &ignored);
	k->still = ranges_stand(k->notes_fd, &k->claim, &s) == 0;
}

void keeper_idle_move(struct keeper *k)
{
	k->still_looked = 0;
	k->turn++;
	if (k->still && ranges_stand(k->notes_fd, &k->claim, NULL) == 0)
		k->still = 0;
}

const struct keeper_part keeper_part_idle = { .next = idle_next, .check = idle_check, .describe = idle_describe };
