/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/engine/filters.h"
#include "manager/engine/host.h"
#include "manager/engine/links.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/restart.h"
#include "manager/keeper/pings.h"
#include "manager/keeper/protocol.h"

static json_t *load_view_file(struct registry *r, const char *id, const char *file)
{
	struct err ignored;

	return registry_load(r, id, file, &ignored);
}

static json_t *load_live(struct registry *r, const char *id)
{
	struct err ignored;

	return record_load_run(r, id, &ignored);
}

static json_t *ask_for_view(const struct engine_asker *a, enum protocol_op op)
{
	autojson json_t *rq = protocol_request(op);
	struct err ignored;

	return a->ask(a->ctx, rq, &ignored);
}

/*
 * The facts that only its keeper knows; if the keeper does not answer, the sandbox has just
 * ended, and does not run.
 */
static void ask_keeper_for_view(struct engine_loaded *l, const struct engine_asker *a)
{
	autojson json_t *health = NULL, *net = NULL;

	l->ping = ask_for_view(a, OP_ping);
	if (!l->ping)
		return;
	if (json_object_get(l->ping, "health") && (health = ask_for_view(a, OP_health)))
		json_object_set(l->ping, "health_detail", health);
	if (strcmp(engine_network_mode(&l->v), "none")) {
		net = ask_for_view(a, OP_network);
		l->network = json_incref(json_object_get(net, "network"));
	}
	l->v.network = l->network;
}

/*
 * Its keeper ended while we asked: the record that was read before lacks the verdict, which the
 * keeper writes before it closes its connections.
 */
static void take_end(struct engine_loaded *l, struct registry *r, const char *id)
{
	struct err ignored;
	json_t *record = record_load_kept(r, id, &ignored);

	l->v.runs = 0;
	if (!record)
		return;
	json_decref(l->record);
	l->record = record;
	l->v.record = record;
}

void engine_load_label(struct registry *r, const char *id, json_t *record)
{
	json_t *labels = json_object_get(record, "labels");
	char file[96];

	/* each container has this time; only berth run and zygotes have not */
	if (!json_is_object(labels) || json_object_get(record, "started"))
		return;
	snprintf(file, sizeof(file), "%.64s/" REGISTRY_ZYGOTE_FILE, id);
	if (path_has(r->sandboxes_fd, file))
		json_object_set_new(labels, LABEL_ZYGOTE, json_string(id));
}

int engine_load(struct engine_loaded *l, struct registry *r, const char *id, int kept,
		const struct engine_asker *asker, struct err *e)
{
	struct err ignored;

	memset(l, 0, sizeof(*l));
	l->live = kept ? NULL : load_live(r, id);
	l->record = record_load_kept(r, id, &ignored);
	if (!l->record)
		l->record = json_incref(l->live);
	if (!l->record)
		return err_set(e, ERR_NOT_FOUND, "No such container: %.64s", id);
	if (!kept)
		engine_load_label(r, id, l->record);
	l->asked = load_view_file(r, id, ENGINE_FILE_NAME);
	l->image = load_view_file(r, id, "image.json");
	l->spec = load_view_file(r, id, "spec.json");
	l->v = (struct engine_view){ .id = id,
				     .spec = l->spec,
				     .record = l->record,
				     .live = l->live,
				     .asked = l->asked,
				     .image = l->image,
				     .runs = !kept };
	if (!kept && asker)
		ask_keeper_for_view(l, asker);
	if (!kept && asker && !l->ping && path_has(r->kept_fd, id))
		take_end(l, r, id);
	l->v.ping = l->ping;
	l->v.links = l->links = engine_links_shown(r, l->asked, engine_name(&l->v));
	l->v.restarting = kept && restart_is_due(l->record) && restart_is_coming(r, id);
	return 0;
}

void engine_loaded_release(struct engine_loaded *l)
{
	json_decref(l->record);
	json_decref(l->live);
	json_decref(l->ping);
	json_decref(l->asked);
	json_decref(l->image);
	json_decref(l->spec);
	json_decref(l->network);
	json_decref(l->links);
	json_decref(l->names);
	memset(l, 0, sizeof(*l));
}

static int may_join(const struct engine_view *v, struct err *e)
{
	const char *mode = engine_network_mode(v);

	if (!strcmp(mode, "none"))
		return err_set(e, ERR_DENIED, "container cannot be connected to multiple networks with one of the networks in private (none) mode");
	if (!strcmp(mode, "host") || json_object_get(json_object_get(v->record, "network"), "container"))
		return err_set(e, ERR_DENIED, "container sharing network namespace with another container or host cannot be connected to any "
			       "other network");
	return 0;
}

int engine_load_joiner(struct registry *r, const char *id, int kept, char ret_alias[ENGINE_NAME], struct err *e)
{
	struct engine_loaded l;
	struct err ignored;
	const char *called;
	int result;

	ret_alias[0] = '\0';
	/* one that is gone is told by what comes next */
	if (engine_load(&l, r, id, kept, NULL, &ignored) < 0)
		return 0;
	result = may_join(&l.v, e);
	called = engine_name(&l.v);
	if (!strcmp(called, id) || !strcmp(called, record_name(l.record)) || !engine_name_alias(called, ret_alias))
		ret_alias[0] = '\0';
	engine_loaded_release(&l);
	return result;
}

/* ---- the list ------------------------------------------------------------------------------ */

struct listing {
	struct registry *r;
	json_t *records;
	int by_label; /* a label is asked for, which those have that no client made */
};

static int add_listed_record(void *ctx, const char *id, int kept, json_t *record)
{
	const struct listing *l = ctx;
	json_t *copy;

	if (!kept)
		engine_load_label(l->r, id, record);
	if (!l->by_label && engine_is_internal(record, !kept))
		return 0;
	copy = json_deep_copy(record);
	json_object_set_new(copy, "id", json_string(id));
	json_object_set_new(copy, "kept", json_boolean(kept));
	return json_array_append_new(l->records, copy);
}

static void add_ping(json_t *record, const json_t *answer)
{
	json_object_set(record, "ping", (json_t *)(size_t)answer);
}

/* An entry of the list, with the files beside its record. */
static void open_view(struct engine_loaded *l, struct registry *r, json_t *record)
{
	const char *id = json_string_value(json_object_get(record, "id"));

	memset(l, 0, sizeof(*l));
	id = id ? id : "";
	l->record = json_incref(record);
	l->asked = load_view_file(r, id, ENGINE_FILE_NAME);
	l->image = load_view_file(r, id, "image.json");
	l->names = engine_links_names(r, id, l->asked);
	l->v = (struct engine_view){ .id = id,
				     .record = record,
				     .live = record,
				     .asked = l->asked,
				     .image = l->image,
				     .ping = json_object_get(record, "ping"),
				     .names = l->names,
				     .runs = !json_is_true(json_object_get(record, "kept")) };
}

static int newer_first(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;
	const char *s = json_string_value(json_object_get(*x, "created")),
		   *t = json_string_value(json_object_get(*y, "created"));

	return strcmp(t ? t : "", s ? s : "");
}

static int add_wanted_summaries(struct registry *r, json_t *records, const json_t *filters, long limit,
		      json_t *out, struct err *e)
{
	const size_t n = json_array_size(records);
	autofree json_t **sorted = calloc(n + 1, sizeof(*sorted));
	int64_t now = (int64_t)time(NULL);
	size_t i;
	int wanted = 0;

	if (!sorted)
		return err_nomem(e);
	for (i = 0; i < n; i++)
		sorted[i] = json_array_get(records, i);
	qsort(sorted, n, sizeof(*sorted), newer_first);
	for (i = 0; i < n && wanted >= 0; i++) {
		struct engine_loaded l;

		if (limit > 0 && json_array_size(out) >= (size_t)limit)
			break;
		open_view(&l, r, sorted[i]);
		wanted = engine_filters_match(filters, &l.v, e);
		if (wanted > 0)
			json_array_append_new(out, engine_summary(&l.v, now));
		engine_loaded_release(&l);
	}
	return wanted < 0 ? -1 : 0;
}

/* The containers that before and since name, as the times when they were made. */
static int resolve_times(struct registry *r, json_t *filters, struct err *e)
{
	static const char *const keys[] = { "before", "since" };
	size_t k, i;

	for (k = 0; k < ARRAY_LEN(keys); k++) {
		json_t *list = json_object_get(filters, keys[k]), *one;

		json_array_foreach (list, i, one) {
			const char *name = json_string_value(one), *created;
			struct engine_loaded l;
			struct err why;
			char id[65];
			int kept;

			if (engine_host_find(r, name + (*name == '/'), id, &kept, &why) < 0 ||
			    engine_load(&l, r, id, kept, NULL, &why) < 0)
				return err_set(e, ERR_NOT_FOUND, "No such container: %.200s", name);
			created = json_string_value(json_object_get(l.record, "created"));
			json_array_set_new(list, i, json_string(created ? created : ""));
			engine_loaded_release(&l);
		}
	}
	return 0;
}

json_t *engine_load_list(struct registry *r, const json_t *filters, int all, long limit,
			 struct err *e)
{
	autojson json_t *records = json_array(), *wanted = json_deep_copy(filters);
	struct listing l = { r, records, engine_filters_has(filters, "label") };
	json_t *out = json_array();
	struct err ignored;
	unsigned cleared;

	/* a state that is asked for counts more than "those that run" */
	all |= limit > 0 || engine_filters_has(filters, "status") ||
	       engine_filters_has(filters, "exited");
	registry_gc(r, &cleared, &ignored);
	if (engine_accept(ENGINE_CONTAINERS, filters, e) == 0 && resolve_times(r, wanted, e) == 0 &&
	    registry_list(r, all, add_listed_record, &l, e) == 0) {
		pings_look(r, records, add_ping);
		if (add_wanted_summaries(r, records, wanted, limit, out, e) == 0)
			return out;
	}
	json_decref(out);
	return NULL;
}

/* ---- other containers that a body names ------------------------------------------------------- */

json_t *engine_load_others(struct registry *r, const json_t *body, struct err *e)
{
	json_t *all = json_object(), *one;
	size_t i;

	json_array_foreach (json_object_get(json_object_get(body, "HostConfig"), "VolumesFrom"), i, one) {
		const char *text = json_string_value(one);
		struct engine_loaded l;
		struct err why;
		char name[300], id[65];
		int kept;

		snprintf(name, sizeof(name), "%.*s", text ? (int)strcspn(text, ":") : 0, text ? text : "");
		if (!name[0] || engine_host_find(r, name, id, &kept, &why) < 0 ||
		    engine_load(&l, r, id, kept, NULL, &why) < 0)
			continue;
		json_object_set_new(all, name, engine_mounts(&l.v));
		engine_loaded_release(&l);
	}
	if (!all)
		err_nomem(e);
	return all;
}

int engine_check_modes(struct registry *r, const json_t *body, struct err *e)
{
	static const char *const keys[] = { "PidMode", "IpcMode" };
	const json_t *host = json_object_get(body, "HostConfig");
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		const char *mode = json_string_value(json_object_get(host, keys[i]));
		struct err why;
		char id[65];
		int kept;

		if (mode && !strncmp(mode, "container:", 10) && mode[10] && engine_host_find(r, mode + 10, id, &kept, &why) < 0)
			return err_set(e, ERR_INVALID, "No such container: %.200s", mode + 10);
	}
	return 0;
}
