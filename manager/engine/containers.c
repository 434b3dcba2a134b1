/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/containers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/engine/host.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/host/forget.h"
#include "manager/host/journal.h"
#include "manager/host/layerpool.h"
#include "manager/host/names.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/restart.h"
#include "manager/host/volume.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/pings.h"
#include "manager/keeper/protocol.h"
#include "manager/ops/call.h"
#include "manager/ops/optvalues.h"

#define GRACE_MAX_S 86400

/* ---- finding it ------------------------------------------------------------------------------ */

int engine_container_find(struct registry *r, const char *called, char ret_id[65], int *ret_kept, struct err *e)
{
	struct err why;

	called += *called == '/';
	if (engine_host_find(r, called, ret_id, ret_kept, &why) < 0)
		return why.code == ERR_INVALID ?
			       err_set(e, ERR_INVALID, "Multiple IDs found with provided prefix: %.100s", called) :
			       err_set(e, ERR_NOT_FOUND, "No such container: %.200s", called);
	/* a sandbox whose keeper was killed does not run, and its record is on the disk */
	if (!*ret_kept && registry_clear_dead(r, ret_id, PINGS_MS, 0, &why) == 1)
		*ret_kept = 1;
	return 0;
}

int engine_not_running(const char *id, struct err *e)
{
	char whole[ENGINE_ID];

	engine_id(id, whole);
	return err_set(e, ERR_BUSY, "Container %s is not running", whole);
}

int engine_container_explain(struct registry *r, const char *id, const char *called, struct err *e)
{
	if (!id[0] || r->run_fd < 0)
		return -1;
	if (record_is_gone(r, id))
		return err_set(e, ERR_NOT_FOUND, "No such container: %.200s", called + (*called == '/'));
	if (e->code == ERR_NOT_FOUND && !record_is_there(r->sandboxes_fd, id))
		return engine_not_running(id, e);
	return -1;
}

static int has_container_ended(const struct engine_container *c)
{
	return c->kept && restart_pending(c->registry, c->id) <= 0;
}

/* The keeper's word for what the sandbox is doing: "running", "paused"...; "" when it does not answer. */
static int container_state(const struct engine_container *c, char *ret, size_t n, struct err *e)
{
	autojson json_t *ping = protocol_request(OP_ping), *now = c->keeper.ask(c->keeper.ctx, ping, e);
	const char *state = json_string_value(json_object_get(now, "state"));

	snprintf(ret, n, "%s", state ? state : "");
	return now ? 0 : -1;
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Docker's client makes the exit statuses 127 and 126 of these words. */
static void explain_start(struct err *e)
{
	const struct err why = *e;

	if (strstr(why.msg, strerror(ENOTDIR)))
		err_set(e, why.code, "failed to create task for container: %.300s: not a directory: unknown", why.msg);
	else if (why.code == ERR_EXEC_NOT_FOUND)
		err_set(e, why.code,
			"failed to create task for container: exec: %.300s: executable file not found in $PATH: unknown",
			why.msg);
	else if (why.code == ERR_EXEC)
		err_set(e, why.code, "failed to create task for container: exec: %.300s%s: unknown", why.msg,
			strstr(why.msg, strerror(E2BIG)) ? "" : ": permission denied");
}

/* Removes a container with AutoRemove that could not be started, as its end would. */
static void remove_unstarted(const struct engine_container *c)
{
	autojson json_t *asked = NULL, *answer = NULL;
	struct err ignored;
	json_t *call;

	asked = registry_load(c->registry, c->id, ENGINE_FILE_NAME, &ignored);
	if (!json_is_true(json_object_get(json_object_get(json_object_get(asked, "body"), "HostConfig"), "AutoRemove")))
		return;
	call = call_of("rm", c->id, NULL);
	call_flag(call, "force");
	answer = engine_do(&c->berth, call, &ignored);
}

/* A command found a part of it missing, as another client removes it. */
static int has_lost_container(const struct engine_container *c, struct err *e)
{
	if (e->code != ERR_NOT_FOUND || record_is_there(c->registry->kept_fd, c->id))
		return 0;
	err_set(e, ERR_NOT_FOUND, "No such container: %.200s", c->called);
	return 1;
}

static int start_kept_container(const struct engine_container *c, unsigned awaited, struct err *e)
{
	json_t *call = call_of("start", c->id, NULL);
	autojson json_t *answer = NULL;

	call_set(call, "await", json_integer(awaited));
	answer = engine_do(&c->berth, call, e);
	if (answer)
		return 0;
	if (has_lost_container(c, e))
		return -1;
	explain_start(e);
	/* it runs already, or its end does that */
	if (e->code != ERR_EXISTS && e->code != ERR_BUSY)
		remove_unstarted(c);
	return -1;
}

int engine_container_start(const struct engine_container *c, unsigned awaited, struct err *e)
{
	switch (c->kept ? KEEPER_ENDS : keeper_ask_doing(c->registry, c->id, NULL, e)) {
	case KEEPER_RUNS:
		return 1;
	case KEEPER_ENDS:
		return start_kept_container(c, awaited, e);
	case KEEPER_PAUSED:
		return err_set(e, ERR_BUSY, "cannot start a paused container, try unpause instead");
	case KEEPER_FAILS:
		break;
	}
	return -1;
}

/* ---- stop, restart, kill --------------------------------------------------------------------- */

int engine_check_signal(const char *word, struct err *e)
{
	uint64_t signo;
	struct err why;

	if (!word || !word[0] || signal_number(word, &signo, &why) == 0)
		return 0;
	return err_set(e, ERR_INVALID, "Invalid signal: %.40s", word);
}

static int end_it(const struct engine_container *c, const char *verb, const struct engine_ending *how, struct err *e)
{
	json_t *call = call_of(verb, c->id, NULL);
	autojson json_t *answer = NULL;

	call_text(call, "signal", how->signal && how->signal[0] ? how->signal : NULL);
	if (how->has_grace)
		call_set(call, "grace", json_integer(how->grace_s < 0 || how->grace_s > GRACE_MAX_S ? GRACE_MAX_S : how->grace_s));
	answer = engine_do(&c->berth, call, e);
	if (!answer)
		has_lost_container(c, e);
	return answer ? 0 : -1;
}

/* An event of it, unless its end took it away. */
static void tell_if_there(const struct engine_container *c, const char *event)
{
	char id[65];
	struct err ignored;
	int kept;

	if (engine_container_find(c->registry, c->id, id, &kept, &ignored) == 0)
		events_add(c->registry, event, c->id, NULL);
}

int engine_container_stop(const struct engine_container *c, const struct engine_ending *how, struct err *e)
{
	if (has_container_ended(c))
		return 1;
	if (end_it(c, "stop", how, e) < 0)
		return -1;
	tell_if_there(c, "stopped");
	return 0;
}

int engine_container_restart(const struct engine_container *c, const struct engine_ending *how, struct err *e)
{
	/* not stop and start: a container with AutoRemove would go with its stop */
	/* of one that another client has started meanwhile too */
	if (!(c->kept && start_kept_container(c, 0, e) == 0) &&
	    ((c->kept && e->code != ERR_EXISTS) || end_it(c, "restart", how, e) < 0))
		return -1;
	tell_if_there(c, "restarted");
	return 0;
}

int engine_container_kill(const struct engine_container *c, const char *signal, struct err *e)
{
	const char *word = signal && signal[0] ? signal : "KILL";
	json_t *call;
	autojson json_t *answer = NULL;
	char whole[ENGINE_ID];
	uint64_t signo;

	if (has_container_ended(c)) {
		engine_id(c->id, whole);
		return err_set(e, ERR_BUSY, "cannot kill container: %.200s: container %s is not running", c->called, whole);
	}
	if (signal_number(word, &signo, e) < 0)
		return -1;
	events_add(c->registry, "kill", c->id, json_pack("{s:o}", "signal", json_sprintf("%d", (int)signo)));
	call = call_of("kill", c->id, NULL);
	call_text(call, "signal", word);
	answer = engine_do(&c->berth, call, e);
	return answer ? 0 : engine_container_explain(c->registry, c->id, c->called, e);
}

/* ---- pause, rename, remove ------------------------------------------------------------------- */

int engine_container_pause(const struct engine_container *c, int on, struct err *e)
{
	autojson json_t *ask = protocol_request(on ? OP_pause : OP_resume), *answer = NULL;
	char state[32], whole[ENGINE_ID];

	if (c->kept)
		return engine_not_running(c->id, e);
	if (container_state(c, state, sizeof(state), e) < 0)
		return -1;
	if (state[0] && on == !strcmp(state, "paused")) {
		engine_id(c->id, whole);
		return err_set(e, ERR_BUSY, "Container %s is %s", whole, on ? "already paused" : "not paused");
	}
	answer = c->keeper.ask(c->keeper.ctx, ask, e);
	return answer ? 0 : engine_container_explain(c->registry, c->id, c->called, e);
}

int engine_container_rename(const struct engine_container *c, const char *name, struct err *e)
{
	name += *name == '/';
	if (!name[0])
		return err_set(e, ERR_INVALID, "Neither old nor new names may be empty");
	if (engine_check_name(name, e) < 0)
		return -1;
	if (engine_host_rename(c->registry, c->id, name, e) == 0)
		return 0;
	if (e->code == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND, "No such container: %.200s", c->called);
	return e->code == ERR_EXISTS ?
		       err_set(e, ERR_EXISTS,
			       "Error when allocating new name: Conflict. The container name \"/%.255s\" is already in use",
			       name) :
		       engine_container_explain(c->registry, c->id, c->called, e);
}

/* Removes one that has stopped and has no keeper, without a child: 1; 0: that needs berth rm. */
static int remove_stopped(const struct engine_container *c, struct err *e)
{
	if (path_has(c->registry->sandboxes_fd, c->id))
		return 0;
	restart_cancel(c->registry, c->id);
	if (forget_alone(c->registry, c->id, e) < 0)
		return e->code == ERR_BUSY ? 0 : -1;
	events_add(c->registry, "rm", c->id, NULL);
	return 1;
}

int engine_container_remove(const struct engine_container *c, int force, int volumes, struct err *e)
{
	const char *state = !c->kept ? "running" : restart_is_coming(c->registry, c->id) ? "restarting" : NULL;
	autojson json_t *own = NULL, *answer = NULL;
	json_t *call;
	int gone = 0;

	if (state && !force)
		return err_set(e, ERR_BUSY,
			       "cannot remove container \"%.200s\": container is %s: stop the container before removing or force remove",
			       c->called, state);
	own = volumes ? volume_own_load(c->registry, c->id) : NULL;
	if (!state)
		gone = remove_stopped(c, e);
	if (gone < 0)
		return -1;
	if (!gone) {
		call = call_of("rm", c->id, NULL);
		call_flag(call, "force");
		answer = engine_do(&c->berth, call, e);
		if (!answer)
			return -1;
	}
	engine_volumes_drop(&c->berth, own);
	return 0;
}

/* ---- looking at it --------------------------------------------------------------------------- */

int engine_watch_look(struct engine_watch *w, const struct engine_container *c, json_t **ret_doc, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_stats);
	struct engine_sample now = { .cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) };
	json_t *said = NULL;

	*ret_doc = NULL;
	if (!c->kept) {
		said = c->keeper.ask(c->keeper.ctx, ask, e);
		if (!said && e->code == ERR_NET)
			return -1;
	}
	now.said = said;
	now.host_cpu_ns = engine_host_cpu();
	now.host_memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	clock_gettime(CLOCK_REALTIME, &now.at);
	*ret_doc = engine_stats(c->id, w->name, w->last.cpus ? &w->last : NULL, &now);
	json_decref(w->said);
	w->said = said;
	w->last = now;
	return said != NULL;
}

void engine_watch_release(struct engine_watch *w)
{
	json_decref(w->said);
	w->said = NULL;
}

json_t *engine_container_top(const struct engine_container *c, const char *ps_args, struct err *e)
{
	autojson json_t *said = NULL;

	if (c->kept) {
		engine_not_running(c->id, e);
		return NULL;
	}
	said = engine_look(&c->berth, call_of("top", c->id, NULL), e);
	if (said)
		events_add(c->registry, "top", c->id, NULL);
	return said ? engine_top(said, ps_args, e) : NULL;
}

json_t *engine_container_changes(const struct engine_container *c, struct err *e)
{
	autojson json_t *said = engine_look(&c->berth, call_of("diff", c->id, NULL), e);
	json_t *changes = said ? engine_changes(said) : NULL;

	if (said && !changes)
		err_nomem(e);
	return changes;
}

/* ---- update ---------------------------------------------------------------------------------- */

static int apply_live(const struct engine_container *c, struct engine_create *asked, struct err *e)
{
	autojson json_t *live = json_array(), *answer = NULL;
	json_t *call, *word;
	size_t i;

	json_array_foreach (asked->words, i, word) {
		const char *text = json_string_value(word);

		if (engine_is_live(text))
			json_array_append(live, word);
		else if (engine_warn(asked, e, "%.60s cannot be changed any more and was ignored", text) < 0)
			return -1;
	}
	if (!json_array_size(live))
		return 0;
	call = call_of("update", c->id, NULL);
	call_words(call, live);
	answer = engine_do(&c->berth, call, e);
	return answer ? 0 : -1;
}

/* Of an update, 0 and each negative number lift the limit, and are shown as 0; in a create Docker's client says 0 for the default. */
static int lifts_pids(const json_t *host)
{
	const json_t *pids = json_object_get(host, "PidsLimit");

	return json_is_integer(pids) && json_integer_value(pids) <= 0;
}

/* A quota that is negative lifts the limit of an update; a create without a quota has the default. */
static int lifts_cpus(const json_t *host)
{
	const json_t *quota = json_object_get(host, "CpuQuota"), *nano = json_object_get(host, "NanoCpus");

	return json_is_integer(quota) && json_integer_value(quota) < 0 && !json_integer_value(nano);
}

static int check_update_restart(const struct engine_container *c, const json_t *host, struct err *e)
{
	const char *name = json_string_value(json_object_get(json_object_get(host, "RestartPolicy"), "Name"));
	autojson json_t *asked = NULL;
	struct err ignored;

	if (!name || !name[0] || !strcmp(name, "no"))
		return 0;
	asked = registry_load(c->registry, c->id, ENGINE_FILE_NAME, &ignored);
	return json_is_true(json_object_get(json_object_get(json_object_get(asked, "body"), "HostConfig"), "AutoRemove")) ?
		       err_set(e, ERR_BUSY, "Restart policy cannot be updated because AutoRemove is enabled for the container") :
		       0;
}

json_t *engine_container_update(const struct engine_container *c, const struct engine_rules *rules, json_t *host,
				struct err *e)
{
	struct engine_create asked = { 0 };
	const int lifts = lifts_pids(host);
	json_t *warnings = NULL;

	if (lifts)
		json_object_set_new(host, "PidsLimit", json_integer(0));
	if (check_update_restart(c, host, e) < 0)
		return NULL;
	if (engine_create_init(&asked, rules, e) == 0 && engine_create_limits(&asked, host, e) == 0 &&
	    (!lifts || engine_word(&asked, e, "--pids=unlimited") == 0) &&
	    (!lifts_cpus(host) || engine_word(&asked, e, "--cpus=unlimited") == 0) &&
	    engine_create_restart(&asked, host, e) == 0 && apply_live(c, &asked, e) == 0 &&
	    engine_host_save_update(c->registry, c->id, host, e) == 0)
		warnings = json_incref(asked.warnings);
	else
		engine_container_explain(c->registry, c->id, c->called, e);
	engine_create_release(&asked);
	return warnings;
}

/* ---- prune ----------------------------------------------------------------------------------- */

struct container_pruning {
	struct registry *registry;
	const json_t *filters;
	json_t *ids;
};

static int add_prunable(void *ctx, const char *id, int kept, json_t *record)
{
	struct container_pruning *p = ctx;

	if (kept && !restart_is_coming(p->registry, id) && engine_filters_prune(p->filters, json_object_get(record, "labels"),
					 json_string_value(json_object_get(record, "created"))))
		return json_array_append_new(p->ids, json_string(id));
	return 0;
}

json_t *engine_container_prune(const struct engine_berth *b, struct registry *r, const json_t *filters, struct err *e)
{
	autojson json_t *ids = json_array(), *gone = json_array();
	struct container_pruning p = { r, filters, ids };
	json_int_t freed = 0;
	const json_t *one;
	size_t i;

	if (registry_list(r, 1, add_prunable, &p, e) < 0)
		return NULL;
	json_array_foreach (ids, i, one) {
		const char *id = json_string_value(one);
		const json_int_t bytes = (json_int_t)layerpool_layer_bytes(r->kept_fd, id);
		autojson json_t *answer = NULL;
		char whole[ENGINE_ID];
		struct err ignored;

		answer = engine_do(b, call_of("rm", id, NULL), &ignored);
		if (!answer)
			continue;
		freed += bytes;
		engine_id(id, whole);
		json_array_append_new(gone, json_string(whole));
	}
	return json_pack("{s:O,s:I}", "ContainersDeleted", gone, "SpaceReclaimed", freed);
}
