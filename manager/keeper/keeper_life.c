/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a sandbox: its time to live, and its removal when it has stopped. The keeper does
 * both, without a daemon.
 *
 * The end of its time to live is a time of the wall clock in its record, so it survives
 * restarts. A sandbox that is stopped at that time has no keeper: the next start, gc or berthd
 * removes it (manager/host/forget.h).
 *
 * With pause_at_end it is paused at that time, and then has no end until a client sets one. With
 * stop_at_end it is stopped in the same way, and its files stay. With resume_ttl_ms the next
 * request that needs the paused sandbox resumes it for that time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/forget.h"
#include "manager/host/journal.h"
#include "manager/host/procid.h"
#include "manager/host/ranges.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/cgroup_io.h"

#define LOOK_AGAIN_MS 1000	/* time after the end was begun: a second request asks for nothing new */

static const char time_is_over[] = "ttl";
static const char not_paused[] = "it could not be paused";
static const char stopped_at_end[] = "stop-at-end";

static uint64_t life_next(struct keeper *k)
{
	uint64_t wall, now;

	if (!k->life.expires_ms)
		return 0;
	wall = clock_wall_ms();
	now = clock_ms();
	if (k->stop_reason == time_is_over || k->life_look_ms > now)
		return k->life_look_ms > now ? k->life_look_ms : now + LOOK_AGAIN_MS;
	return k->life.expires_ms > wall ? now + (k->life.expires_ms - wall) : now;
}

/* Tries again when that it has no end any more cannot be written: the next start would see it. */
static void stop_at_end(struct keeper *k)
{
	struct keeper_life l = k->life;
	struct err ignored;

	k->life_look_ms = clock_ms() + LOOK_AGAIN_MS;
	l.expires_ms = 0;
	if (k->held_by || k->stopping || k->stop_reason || keeper_life_set(k, &l, &ignored) < 0)
		return;
	if (k->paused)	/* a user wants what is in its memory */
		return;
	k->stop_reason = stopped_at_end;
	keeper_stop_begin(k, keeper_main_grace_ms(k));
}

/* A sandbox that a commit holds still is looked at again. */
static void pause_at_end(struct keeper *k)
{
	struct keeper_life l = k->life;
	const int was = k->paused;
	struct err e;

	k->life_look_ms = clock_ms() + LOOK_AGAIN_MS;
	if (k->held_by || k->stopping || k->stop_reason)
		return;
	if (!was && !k->checkpoint.stands && cgroup_freeze(&k->sandbox.cgroup, 1, &e) < 0) {
		k->stop_reason = not_paused;
		k->stopping = 1;
		return;
	}
	k->paused = 1;
	if (!was) {
		keeper_command_stands_still(k);
		keeper_event(k, "pause", json_pack("{s:s}", "reason", time_is_over));
	}
	/* if that cannot be written now, it is tried again */
	l.expires_ms = 0;
	keeper_life_set(k, &l, &e);
}

static void life_check(struct keeper *k, uint64_t now)
{
	(void)now;
	if (!k->life.expires_ms || k->stop_reason == time_is_over || clock_wall_ms() < k->life.expires_ms)
		return;
	if (k->life.pause_at_end || k->life.stop_at_end) {
		if (clock_ms() < k->life_look_ms)
			return;
		if (k->life.stop_at_end)
			stop_at_end(k);
		else
			pause_at_end(k);
		return;
	}
	k->stop_reason = time_is_over;
	keeper_stop_begin(k, keeper_main_grace_ms(k));
}

static int is_to_go(const struct keeper *k)
{
	if (k->stays || !k->announced)
		return 0;
	return k->life.auto_remove || k->stop_reason == time_is_over ||
	       k->stop_reason == keeper_owner_reason ||
	       (k->life.remove_idle && k->stop_reason == keeper_idle_reason);
}

int keeper_life_note(const struct keeper *k, json_t *record)
{
	if (!is_to_go(k) || k->life.auto_remove)
		return 0;
	record_set_auto_remove(record, 1);
	return 1;
}

void keeper_life_end(struct keeper *k, const char *id)
{
	struct err ignored;

	/* its own volumes are removed with it, but not while another process has them open */
	if (k->let_go)
		k->let_go(k->let_go_ctx);
	if (is_to_go(k) && forget_alone(k->registry, id, &ignored) == 0)
		events_add(k->registry, "rm", id, json_pack("{s:s}", "reason", k->stop_reason ? k->stop_reason : "auto-remove"));
}

void keeper_life_tell(const struct keeper_life *l, json_t *record)
{
	record_set_idle_timeout_ms(record, l->idle_timeout_ms);
	record_set_expiry(record, l->expires_ms);
	if (l->pause_at_end || record_pause_at_end(record))
		record_set_pause_at_end(record, l->pause_at_end);
	if (l->stop_at_end || record_stop_at_end(record))
		record_set_stop_at_end(record, l->stop_at_end);
	if (l->resume_ttl_ms || record_resume_ttl_ms(record))
		record_set_resume_ttl_ms(record, l->resume_ttl_ms);
	if (l->owner[0]) {
		record_set_owner_process(record, l->owner);
		record_set_owner_pid(record, (uint64_t)atoi(l->owner));
		record_set_owner_grace_ms(record, l->owner_grace_ms);
	} else {
		record_drop_owner(record);
	}
	livebudget_tell(&l->budget, &l->budget_used, record);
	if (l->auto_remove)
		record_set_auto_remove(record, 1);
}

/* Sets the life in both records: that of the run, and that for the next start. */
int keeper_life_set(struct keeper *k, const struct keeper_life *l, struct err *e)
{
	autojson json_t *kept = NULL;
	autoclose int owner = -1;

	if (l->idle_timeout_ms == k->life.idle_timeout_ms && l->expires_ms == k->life.expires_ms &&
	    l->pause_at_end == k->life.pause_at_end && l->stop_at_end == k->life.stop_at_end &&
	    l->resume_ttl_ms == k->life.resume_ttl_ms &&
	    !memcmp(&l->budget, &k->life.budget, sizeof(l->budget)) &&
	    l->owner_grace_ms == k->life.owner_grace_ms && !strcmp(l->owner, k->life.owner))
		return 0;
	if (keeper_owner_watch(l->owner, &owner, e) < 0)
		return -1;
	kept = record_load_kept(k->registry, k->claim.id, e);
	if (!kept)
		return -1;
	keeper_life_tell(l, kept);
	keeper_life_tell(l, k->record);
	if (record_save_kept(k->registry, k->claim.id, kept, e) < 0 ||
	    record_save_run(&k->claim, k->record, e) < 0)
		return -1;
	k->life = *l;
	fd_close(&k->owner_fd);
	k->owner_fd = take_fd(&owner);
	return 0;
}

int keeper_life_update(struct keeper *k, const json_t *rq, struct err *e)
{
	struct keeper_life l = k->life;
	const uint64_t ttl_ms = request_ttl_ms(rq, 0);
	const char *owner = request_owner(rq, NULL);
	const int timed = request_has_ttl_ms(rq);

	l.idle_timeout_ms = request_idle_timeout_ms(rq, l.idle_timeout_ms);
	l.owner_grace_ms = request_owner_grace_ms(rq, l.owner_grace_ms);
	if (request_has_pause_at_end(rq))
		l.pause_at_end = request_pause_at_end(rq);
	if (request_has_stop_at_end(rq))
		l.stop_at_end = request_stop_at_end(rq);
	l.resume_ttl_ms = request_resume_ttl_ms(rq, l.resume_ttl_ms);
	if (owner && strlen(owner) >= sizeof(l.owner))
		return err_set(e, ERR_INVALID, "'%.80s' is not the name of a process", owner);
	if (owner)
		snprintf(l.owner, sizeof(l.owner), "%s", owner);
	if ((owner || l.owner_grace_ms != k->life.owner_grace_ms) && k->owner_until_ms)
		return err_set(e, ERR_BUSY, "the owner of sandbox %s has ended, and it is being "
			       "removed", k->claim.id);
	if (timed)
		l.expires_ms = ttl_ms ? clock_wall_ms() + ttl_ms : 0;
	if (timed && (k->stop_reason == time_is_over || k->stop_reason == stopped_at_end))
		return err_set(e, ERR_BUSY, "the time of sandbox %s is over", k->claim.id);
	return keeper_life_set(k, &l, e);
}

int keeper_life_wake(struct keeper *k, struct err *e)
{
	struct keeper_life l = k->life;
	uint64_t end;

	if (!l.resume_ttl_ms || !k->paused || k->owner_until_ms || k->stopping || k->stop_reason)
		return 0;
	if (keeper_budget_allows(k, e) < 0)
		return -1;
	/* the time first: without it the sandbox would run for ever, or end at once */
	end = clock_wall_ms() + l.resume_ttl_ms;
	if (l.expires_ms < end)
		l.expires_ms = end;
	if (keeper_life_set(k, &l, e) < 0)
		return -1;
	return keeper_pause(k, 0, e);
}

const struct keeper_part keeper_part_life = { .next = life_next, .check = life_check };

/* ---- the owner process ---- */

/*
 * The owner process of a sandbox (--owner-pid). When it ends, the sandbox is frozen at once, so
 * that nothing runs without an owner. After a grace in which a user may look at it, it is removed.
 * The keeper waits for a pidfd, so a running owner costs nothing.
 *
 * If the keeper is killed too, the next start, gc or berthd removes the sandbox, because its
 * record names the owner (manager/host/forget.h).
 */

const char keeper_owner_reason[] = "owner ended";

int keeper_owner_watch(const char *owner, int *ret_fd, struct err *e)
{
	int fd;

	*ret_fd = -1;
	if (!owner[0])
		return 0;
	fd = procid_open(owner, e);
	if (fd == -1)
		return err_set(e, ERR_INVALID, "the owner of the sandbox, process %d, has ended",
			       atoi(owner));
	if (fd < 0)
		return -1;
	*ret_fd = fd;
	return 0;
}

int keeper_owner_begin(struct keeper *k, struct err *e)
{
	return keeper_owner_watch(k->life.owner, &k->owner_fd, e);
}

void keeper_owner_ended(struct keeper *k)
{
	struct err e;

	fd_close(&k->owner_fd);
	k->owner_until_ms = clock_ms() + k->life.owner_grace_ms;
	keeper_event(k, "owner-ended", json_pack("{s:I,s:I}", "pid",
						 (json_int_t)atoi(k->life.owner), "grace_ms",
						 (json_int_t)k->life.owner_grace_ms));
	/* a sandbox that cannot be frozen must not run on meanwhile */
	if (cgroup_freeze(&k->sandbox.cgroup, 1, &e) < 0)
		k->owner_until_ms = clock_ms();
	k->paused = 1;
	keeper_command_stands_still(k);
}

static uint64_t owner_next(struct keeper *k)
{
	return k->stopping ? 0 : k->owner_until_ms;
}

static void owner_check(struct keeper *k, uint64_t now)
{
	if (!k->owner_until_ms || now < k->owner_until_ms)
		return;
	k->stop_reason = keeper_owner_reason;
	k->stopping = 1;
}

const struct keeper_part keeper_part_owner = { .next = owner_next, .check = owner_check };

/* ---- idleness ---- */

/*
 * Idle: how long a sandbox has done no work, and what it does now.
 *
 * Work is a running command or text of a session, bytes from or to one, and CPU time above a
 * floor (a background job, a server). Requests that only ask are not work. After --idle-timeout,
 * or [manager] idle_timeout, without work, the keeper stops.
 */

#define FLOOR_PERCENT 1		/* percent of one CPU; use below it is housekeeping, not work */
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

static void look_for_work(struct keeper *k, uint64_t now)
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

int keeper_stop_note(const struct keeper *k, json_t *record)
{
	if (!k->stop_reason)
		return 0;
	record_set_status(record, RECORD_STOPPED);
	record_set_stop_reason(record, k->stop_reason);
	return 1;
}

static void idle_check(struct keeper *k, uint64_t now)
{
	uint64_t limit = k->life.idle_timeout_ms;

	if (!limit || now < k->idle_checked_ms + check_every(k))
		return;
	look_for_work(k, now);
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
	look_for_work(k, now);
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
	look_for_work(k, clock_ms());
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
