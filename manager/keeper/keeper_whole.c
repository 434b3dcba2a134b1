/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a sandbox as a whole: its state, pause, resume and stop. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/cgroup_io.h"
#include "runtime/sandbox/attest.h"
#include "runtime/sandbox/writable.h"

/* ---- state, pause, resume and stop ---- */

static json_t *pressure_line(const struct pressure_line *l)
{
	return json_pack("{s:f,s:f,s:f,s:I}", "avg10", l->avg10 / 100.0, "avg60", l->avg60 / 100.0,
			 "avg300", l->avg300 / 100.0, "total_us", (json_int_t)l->total_us);
}

/* Adds the pressure, if the kernel reports it. */
static void add_pressure(const struct keeper *k, json_t *answer)
{
	json_t *all = json_object();
	struct pressure p;
	int i;

	for (i = 0; i < PRESSURE_COUNT; i++)
		if (pressure_read(k->sandbox.cgroup.v2_fd, (enum pressure_kind)i, &p))
			json_object_set_new(all, pressure_name((enum pressure_kind)i),
					    json_pack("{s:o,s:o}", "some", pressure_line(&p.some),
						      "full", pressure_line(&p.full)));
	if (json_object_size(all))
		json_object_set(answer, "pressure", all);
	json_decref(all);
}

/* The network of a bridge is asked of the kernel by another process: not at every ping. */
static json_t *sandbox_state(struct keeper *k, int with_network)
{
	struct cgroup_usage u;
	struct err ignored;
	unsigned i, running = 0, sessions = 0;
	json_t *j;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		running += k->commands[i] && !k->commands[i]->ended && !k->commands[i]->check &&
			   k->commands[i]->session < 0;
	for (i = 0; i < KEEPER_SESSIONS; i++)
		sessions += k->sessions[i].name[0] != '\0';
	if (cgroup_usage_now(&k->sandbox.cgroup, &u, &ignored) < 0)
		memset(&u, 0, sizeof(u));
	j = json_pack("{s:s,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:I}", "state",
		      k->paused ? "paused" : "running", "commands", running, "sessions", sessions,
		      "uptime_ms", (json_int_t)(clock_ms() - k->created_ms), "cpu_ms",
		      (json_int_t)(u.cpu_us / 1000), "memory_bytes", (json_int_t)u.memory_bytes,
		      "peak_memory_bytes", (json_int_t)u.memory_peak_bytes, "pids",
		      (json_int_t)u.pids, "oom_kills", (json_int_t)u.oom_kills);
	if (k->stopping || k->stop_at_ms || k->drain_until_ms || k->main.phase == MAIN_ENDED)
		json_object_set_new(j, "stopping", json_true());
	json_object_set_new(j, "read_bytes", json_integer((json_int_t)u.read_bytes));
	json_object_set_new(j, "write_bytes", json_integer((json_int_t)u.write_bytes));
	if (with_network)
		json_object_set_new(j, "disk_errors", json_integer((json_int_t)writable_errors(k->sandbox.base_fd)));
	for (i = 0; keeper_parts[i]; i++)
		if (keeper_parts[i]->describe && (with_network || keeper_parts[i] != &keeper_part_network))
			keeper_parts[i]->describe(k, j);
	return j;
}

int keeper_op_ping(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	(void)e;
	keeper_answer(k, rq->client, sandbox_state(k, 0), NULL, 0);
	/* do not look again for a while, even if clients ask more often */
	if (!k->still_looked && keeper_idle_may_stand(k))
		keeper_idle_stand(k);
	return 0;
}

int keeper_op_stats(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	json_t *j = sandbox_state(k, 1);

	(void)e;
	json_object_set_new(j, "memory_stat", cgroup_memory_stat_of(&k->sandbox.cgroup));
	add_pressure(k, j);
	keeper_answer(k, rq->client, j, NULL, 0);
	return 0;
}

int keeper_op_attest(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	json_t *j = attest_report(k->sandbox.pid, &k->sandbox.cgroup, e);

	if (!j)
		return -1;
	keeper_answer(k, rq->client, json_pack("{s:o}", "attest", j), NULL, 0);
	return 0;
}

/* Marks its client, as "guard" in any request does. Sends no answer. */
int keeper_op_guard(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	(void)e;
	k->clients[rq->client].guarded = 1;
	return 0;
}

/*
 * Freezes the sandbox as long as this client stays connected: if the client that copies its files
 * is killed, the sandbox goes on.
 */
int keeper_op_hold(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	if (k->held_by)
		return err_set(e, ERR_BUSY, "another commit of this sandbox is under way");
	if (!k->paused && cgroup_freeze(&k->sandbox.cgroup, 1, e) < 0)
		return -1;
	k->held_by = rq->client + 1;
	keeper_answer(k, rq->client, json_pack("{s:b}", "held", 1), NULL, 0);
	return 0;
}

int keeper_pause(struct keeper *k, int paused, struct err *e)
{
	if (k->held_by)
		return err_set(
			e, ERR_BUSY,
			"a commit has frozen the sandbox; hint: try again when the commit is done");
	if (!paused && keeper_budget_allows(k, e) < 0)
		return -1;
	/* after a checkpoint it stays frozen, or is thawed */
	if (!k->checkpoint.stands && cgroup_freeze(&k->sandbox.cgroup, paused, e) < 0)
		return -1;
	k->paused = paused;
	if (paused)
		keeper_command_stands_still(k);
	keeper_event(k, paused ? "pause" : "resume", NULL);
	return 0;
}

static int set_paused(struct keeper *k, int client, int paused, struct err *e)
{
	if (keeper_pause(k, paused, e) < 0)
		return -1;
	keeper_answer(k, client, json_pack("{s:b}", "paused", paused), NULL, 0);
	return 0;
}

int keeper_op_pause(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	return set_paused(k, rq->client, 1, e);
}

int keeper_op_resume(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	return set_paused(k, rq->client, 0, e);
}

/* The connection's end is the answer: then nothing of the sandbox is left. */
int keeper_op_stop(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const uint64_t signo = request_signal(rq->json, 0);

	if (signo > 64)
		return err_set(e, ERR_INVALID, "signal %llu does not exist", (unsigned long long)signo);
	/* a stop that waits for the work of others keeps the signal that it named */
	if (signo || !k->drain_until_ms)
		k->end_signal = (int)signo;
	k->main.by_hand = 1;
	k->stays = request_stays(rq->json);
	keeper_stop_drain(k, request_grace_ms(rq->json, keeper_main_grace_ms(k)),
			  request_drain_ms(rq->json, 0));
	return 0;
}

/* ---- berth update ---- */

/* The changes of berth update to a living sandbox. */

#define IO_WEIGHT_DEFAULT 100

/* Checks everything that could fail once the network's rules, which cannot be taken back, have changed. */
static int check_live_update(struct keeper *k, const json_t *rq, struct err *e)
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
 * Adds the requested rates of disks to l. old gets those disks too, without a limit, so that
 * setting it undoes all of l.
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
	if (check_live_update(k, rq->json, e) < 0 || put_io(rq->json, &old, &l, e) < 0)
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

/* ---- a warm sandbox for its owner ---- */

/*
 * Gives a warm sandbox to its owner. "adopt" adds to the environment of every later command and
 * session, and mounts the owner's directory instead of the sandbox's own, once. It refuses a
 * second claim with another token, after any earlier error (one sandbox, one tenant).
 */

static int same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return !strncmp(a, b, n + 1);
}

/* The spec with more environment; our own copy, since the first was read from the options. */
static int merge_env(struct keeper *k, const json_t *list, struct err *e)
{
	struct spec *s = malloc(sizeof(*s));
	char **env = s ? calloc(k->spec->env_count + json_array_size(list) + 1, sizeof(*env)) : NULL;
	size_t count = k->spec->env_count, i, j;
	json_t *item;

	if (!env) {
		free(s);
		return err_nomem(e);
	}
	memcpy(env, k->spec->env, count * sizeof(*env));
	json_array_foreach((json_t *)(size_t)list, i, item) {
		char *text = strdup(json_string_value(item));

		if (!text)
			return err_nomem(e);	/* the keeper ends with it */
		for (j = 0; j < count && !same_name(text, env[j]); j++)
			;
		env[j] = text;
		count += j == count;
	}
	*s = *k->spec;
	s->env = (const char *const *)env;
	s->env_count = count;
	k->spec = s;
	return 0;
}

/* {"target": "/workspace", "source": "/srv/it"}; by the time it is asked for, nothing has run in the sandbox. */
static int swap_mount(struct keeper *k, const json_t *mount, struct err *e)
{
	const char *target = NULL, *source = NULL;

	if (json_get_str(mount, "target", &target, "mount", e) < 0 || json_get_str(mount, "source", &source, "mount", e) < 0)
		return -1;
	if (!target || target[0] != '/' || !source || source[0] != '/')
		return err_set(e, ERR_INVALID, "\"mount\" has a target and a source, both absolute");
	return sandbox_swap_mount(&k->sandbox, target, source, e);
}

int keeper_op_adopt(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const char *token = request_token(rq->json, NULL);
	json_t *env = request_env(rq->json), *mount = request_mount(rq->json), *item;
	size_t i;

	if (!token || !token[0] || strlen(token) >= sizeof(k->adopted))
		return err_set(e, ERR_INVALID, "\"token\" has 1 to %zu bytes", sizeof(k->adopted) - 1);
	json_array_foreach(env, i, item) {
		const char *text = json_string_value(item);

		if (!text || strlen(text) != json_string_length(item) || text[0] == '=' || !strchr(text, '='))
			return err_set(e, ERR_INVALID, "\"env\" holds something else than NAME=VALUE");
	}
	if (k->adopted[0] && strcmp(k->adopted, token))
		return err_set(e, ERR_EXISTS, "the sandbox belongs to another claim already");
	if (!k->adopted[0] && ((mount && swap_mount(k, mount, e) < 0) || merge_env(k, env, e) < 0))
		return -1;
	snprintf(k->adopted, sizeof(k->adopted), "%s", token);
	keeper_answer(k, rq->client, json_pack("{s:b}", "adopted", 1), NULL, 0);
	return 0;
}
