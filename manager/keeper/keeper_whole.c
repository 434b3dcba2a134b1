/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a sandbox as a whole: its state, pause, resume and stop. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/sandbox/attest.h"

static json_t *pressure_line(const struct pressure_line *l)
{
	return json_pack("{s:f,s:f,s:f,s:I}", "avg10", l->avg10 / 100.0, "avg60", l->avg60 / 100.0,
			 "avg300", l->avg300 / 100.0, "total_us", (json_int_t)l->total_us);
}

/* Only if the kernel reports it. */
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
static json_t *state_of(struct keeper *k, int with_network)
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
	if (k->stopping || k->stop_at_ms || k->main.phase == MAIN_ENDED)
		json_object_set_new(j, "stopping", json_true());
	json_object_set_new(j, "read_bytes", json_integer((json_int_t)u.read_bytes));
	json_object_set_new(j, "write_bytes", json_integer((json_int_t)u.write_bytes));
	for (i = 0; keeper_parts[i]; i++)
		if (keeper_parts[i]->describe && (with_network || keeper_parts[i] != &keeper_part_network))
			keeper_parts[i]->describe(k, j);
	return j;
}

int keeper_op_ping(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	(void)e;
	keeper_answer(k, rq->client, state_of(k, 0), NULL, 0);
	/* do not look again for a while, even if clients ask more often */
	if (!k->still_looked && keeper_idle_may_stand(k))
		keeper_idle_stand(k);
	return 0;
}

int keeper_op_stats(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	json_t *j = state_of(k, 1);

	(void)e;
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

/* It marks its client, as "guard" in any request does.  No answer. */
int keeper_op_guard(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	(void)e;
	k->clients[rq->client].guarded = 1;
	return 0;
}

/*
 * Nothing in the sandbox runs as long as this client stays connected: if the client that copies its
 * files is killed, the sandbox goes on.
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
	/* after a checkpoint it stays frozen, or goes on */
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
	k->end_signal = (int)signo;
	k->main.by_hand = 1;
	k->stays = request_stays(rq->json);
	keeper_stop_drain(k, request_grace_ms(rq->json, keeper_main_grace_ms(k)),
			  request_drain_ms(rq->json, 0));
	return 0;
}
