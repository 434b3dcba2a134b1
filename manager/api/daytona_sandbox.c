/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Daytona's control plane: sandboxes.
 *
 * Each is one of the manager's, whose intervals are Daytona's: idle, it stops after
 * autoStopInterval; stopped, it is archived after autoArchiveInterval and removed after
 * autoDeleteInterval.  Without a [storage] an archived sandbox is a stopped one whose files stay on
 * this host.  What the manager has no word for is a note, "daytona" in its "meta".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/api/box.h"
#include "manager/api/daytona.h"
#include "manager/api/daytona_create.h"
#include "manager/api/e2b.h"
#include "manager/api/preview.h"
#include "manager/api/route_manager.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"

#define LIST_MAX 200
#define LIST_PRESET 100
#define GIB (1024.0 * 1024 * 1024)
#define DELETE_AT_STOP_MS 1000	/* of autoDeleteInterval 0: its stop removes it, the scan only one that stopped by itself */

/* ---- one sandbox ------------------------------------------------------------------------- */

struct found {
	struct box box;
	struct service_who who;
	json_t *info;		/* the manager's record */
	const json_t *note;	/* Daytona's part of it */
	char name[65];		/* the record's */
};

static void found_release(struct found *f)
{
	box_close(&f->box);
	json_decref(f->info);
}

static int no_such(const char *ref, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "Sandbox with ID or name %.80s not found", ref);
}

/* Whether the door made it. Its note says less: a client may write one into the "meta" of any sandbox that it makes. */
static int is_daytonas(const json_t *record)
{
	const char *face = json_string_value(json_object_get(json_object_get(record, "labels"), LABEL_FACE));

	return face && !strcmp(face, DAYTONA_FACE);
}

/* The sandbox that {id} names by its id or name; an archived one is in no registry, and has no mark to look at. */
static int find(struct found *f, struct http_request *rq, const char *ref, struct err *e)
{
	autojson json_t *record = NULL;
	const char *name, *state;
	struct err why;

	*f = (struct found){.who = manager_who(rq)};
	box_init(&f->box, rq);
	if (!manager_of(rq))
		return err_set(e, ERR_UNSUPPORTED, "this berthd serves without its manager");
	if (box_find_ref(&f->box, rq, ref, e) == 0) {
		record = boxlist_load(&f->box, e);
		if (!record)
			return -1;
		ref = record_name(record);
	} else if (e->code != ERR_NOT_FOUND) {
		return -1;
	} else {
		f->box.kept = 1;
	}
	f->info = service_info(manager_of(rq), &f->who, ref, e);
	f->note = json_object_get(json_object_get(f->info, "meta"), DAYTONA_META);
	name = json_string_value(json_object_get(f->info, "container_name"));
	state = json_string_value(json_object_get(f->info, "state"));
	/* the SDKs of 2025 look at what they have just deleted */
	if ((!f->info && e->code == ERR_NOT_FOUND) ||
	    (f->info && (!json_is_object(f->note) || !name || !state || (!strcmp(state, "released") && daytona_age(rq) != DAYTONA_OLD))))
		return no_such(http_param(rq, "id"), e);
	if (!f->info)
		return -1;
	/* the registry has one with a given name by that alone, and its id */
	if (f->box.kept && !f->box.id[0]) {
		box_close(&f->box);
		if (box_find_ref(&f->box, rq, json_string_value(json_object_get(f->info, "container_id")), &why) < 0)
			f->box.kept = 1;
		else
			record = boxlist_load(&f->box, &why);
	}
	if (f->box.id[0] && !is_daytonas(record))
		return no_such(http_param(rq, "id"), e);
	snprintf(f->name, sizeof(f->name), "%s", name);
	http_audit(rq, "sandbox", f->name);
	return 0;
}

static int find_of_request(struct found *f, struct http_request *rq, struct err *e)
{
	return find(f, rq, http_param(rq, "id"), e);
}

static int look_again(struct found *f, struct err *e)
{
	struct http_request *rq = f->box.rq;
	char name[65];

	snprintf(name, sizeof(name), "%s", f->name);
	found_release(f);
	return find(f, rq, name, e);
}

/* ---- what is told of it -------------------------------------------------------------------- */

static const json_t *own_of(const json_t *info)
{
	return json_object_get(info, "berth");
}

static double own_number(const json_t *info, const char *key)
{
	return json_number_value(json_object_get(own_of(info), key));
}

/* Minutes of an interval that the record has; absent or null is the manager's own, which no note of Daytona's leaves. */
static json_int_t minutes(const json_t *info, const char *key)
{
	return (json_int_t)(own_number(info, key) / 60000);
}

static json_int_t delete_interval(const json_t *info)
{
	const double ms = own_number(info, "auto_delete_ms");

	return ms <= 0 ? -1 : ms <= DELETE_AT_STOP_MS ? 0 : (json_int_t)(ms / 60000);
}

static int is_archived(const json_t *info, const json_t *note)
{
	const char *status = json_string_value(json_object_get(own_of(info), "status"));
	const double stopped = own_number(info, "stopped_ms"), after = own_number(info, "auto_archive_ms");

	if (status && !strcmp(status, "archived"))
		return 1;
	return json_is_true(json_object_get(note, "archived")) ||
	       (stopped > 0 && after > 0 && (double)clock_wall_ms() - stopped >= after);
}

/* Daytona's word; paused: its processes are frozen. */
static const char *state_of(const json_t *info, const json_t *note, int runs, int paused)
{
	const char *state = json_string_value(json_object_get(info, "state"));

	if (!state || !strcmp(state, "released"))
		return "destroyed";
	if (!strcmp(state, "error"))
		return "error";
	if (runs)
		return paused ? "paused" : "started";
	return is_archived(info, note) ? "archived" : "stopped";
}

static json_t *when_of(const json_t *info, const char *key)
{
	const json_t *v = json_object_get(info, key);
	char text[CLOCK_UTC];

	if (!json_is_number(v))
		return json_null();
	clock_utc((time_t)json_number_value(v), text);
	return json_string(text);
}

static json_t *whole_or_real(double v)
{
	return v == (double)(json_int_t)v ? json_integer((json_int_t)v) : json_real(v);
}

static json_t *describe(struct http_request *rq, const json_t *info, const char *state)
{
	const json_t *note = json_object_get(json_object_get(info, "meta"), DAYTONA_META);
	const char *id = json_string_value(json_object_get(info, "container_id"));
	const char *given = json_string_value(json_object_get(own_of(info), "name"));
	autofree char *proxy = daytona_address(rq, "/api/toolbox");
	json_t *j;

	j = json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:I,s:s,s:s,s:I,s:I,s:I,s:o,s:o,s:s,s:s,s:s,s:s}", "id", id ? id : "", "name",
		      given ? given : id ? id : "", "organizationId", json_string_value(json_object_get(own_of(info), "owner")), "cpu",
		      whole_or_real(own_number(info, "cpu_milli") / 1000), "memory", whole_or_real(own_number(info, "memory_bytes") / GIB),
		      "disk", json_incref(json_object_get(note, "disk")), "gpu", (json_int_t)0, "state", state, "desiredState", state,
		      "autoStopInterval", minutes(info, "auto_stop_ms"), "autoArchiveInterval", minutes(info, "auto_archive_ms"),
		      "autoDeleteInterval", delete_interval(info), "createdAt", when_of(info, "created_at"), "updatedAt",
		      when_of(info, "updated_at"), "toolboxProxyUrl", proxy ? proxy : "", "backupState", "None", "class", "small",
		      "sandboxClass", "container");
	if (!j)
		return NULL;
	/* labels, env, user, public, target, snapshot, volumes, buildInfo, network* */
	json_object_update_missing(j, (json_t *)(size_t)note);
	json_object_del(j, "archived");
	return j;
}

/* The keeper's word, so that one that has just ended does not look alive. */
static int runs(struct found *f, int *ret_paused)
{
	autojson json_t *ping = protocol_request(OP_ping), *live = NULL;
	const char *state;
	struct err ignored;

	*ret_paused = 0;
	if (f->box.kept)
		return 0;
	fd_close(&f->box.sock);
	f->box.sock = keeper_connect(&f->box.registry, f->box.id, &ignored);
	live = f->box.sock >= 0 ? box_call(&f->box, ping, NULL, 0, NULL, &ignored) : NULL;
	state = json_string_value(json_object_get(live, "state"));
	*ret_paused = state && !strcmp(state, "paused");
	return live != NULL;
}

static int reply_found(struct found *f, struct err *e)
{
	int paused;
	const int running = runs(f, &paused);
	json_t *j = describe(f->box.rq, f->info, state_of(f->info, f->note, running, paused));

	return j ? http_reply_json(f->box.rq, 0, j, e) : err_nomem(e);
}

static int end_reply(struct found *f, int r, struct err *e)
{
	if (r == 0)
		r = reply_found(f, e);
	found_release(f);
	return r;
}

/* ---- create ------------------------------------------------------------------------------------ */

static int set_public(struct box *b, int on, struct err *e)
{
	autojson json_t *rules = NULL;
	int r;

	/* one that is archived, or was removed meanwhile, has no directory */
	if (!b->id[0])
		return err_set(e, ERR_BUSY, "Sandbox is archived; hint: start it");
	r = registry_lock(&b->registry, e);
	if (r < 0)
		return -1;
	rules = preview_rules(&b->registry, b->id, e);
	r = rules ? 0 : -1;
	if (r == 0 && json_is_true(json_object_get(rules, PREVIEW_ALL)) != !!on) {
		json_object_set_new(rules, PREVIEW_ALL, json_boolean(on));
		r = registry_save(&b->registry, b->id, PREVIEW_FILE, rules, e);
	}
	registry_unlock(&b->registry);
	return r;
}

static int wants_public(const json_t *note)
{
	return json_is_true(json_object_get(note, "public"));
}

/* The image of a Dockerfile is built once: the same text has the same name. */
static int build_once(struct http_request *rq, const struct daytona_create *c, struct err *e)
{
	autojson json_t *there = api_image(rq, c->built, e);

	return there ? 0 : e->code != ERR_NOT_FOUND ? -1 : daytona_build(rq, c->dockerfile, c->built, e);
}

static int post_daytona_sandbox(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);
	const struct once none = {.table = NULL};
	struct daytona_create c;
	struct config config;
	struct found f;
	char name[65];
	int r;

	if (!manager_of(rq))
		return err_set(e, ERR_UNSUPPORTED, "this berthd serves without its manager");
	api_config(api_of(rq), &config);
	if (daytona_create_read(&c, http_json(rq), &config, http_who(rq)->admin, e) < 0)
		return -1;
	who.own = c.own;
	if (c.dockerfile && build_once(rq, &c, e) < 0) {
		daytona_create_release(&c);
		return -1;
	}
	r = service_create(manager_of(rq), &who, c.args, 0, name, e);
	daytona_create_release(&c);
	if (r < 0)
		return -1;
	manager_undo_unsent(rq, &none, name);
	atomic_fetch_add(&api_of(rq)->creates, 1);
	r = find(&f, rq, name, e);
	if (r == 0 && wants_public(f.note))
		r = set_public(&f.box, 1, e);
	if (r < 0) {
		struct err ignored;

		service_release(manager_of(rq), &who, name, 0, &ignored);
	}
	return end_reply(&f, r, e);
}

/* ---- looking -------------------------------------------------------------------------------- */

static int get_daytona_sandbox(struct http_request *rq, struct err *e)
{
	struct found f;

	return end_reply(&f, find_of_request(&f, rq, e), e);
}

/* 1 if all members of wanted are labels of the sandbox. */
static int has_labels(const json_t *note, const json_t *wanted)
{
	const json_t *labels = json_object_get(note, "labels");
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(size_t)wanted, key, v)
		if (!json_equal(json_object_get(labels, key), v))
			return 0;
	return 1;
}

static int is_state_wanted(struct http_request *rq, const char *state)
{
	const char *one = http_query_each(rq, "states", 0);
	size_t i;

	if (!one)
		return 1;
	for (i = 0; (one = http_query_each(rq, "states", i)); i++) {
		const size_t n = strlen(state);

		for (; *one; one += strcspn(one, ","), one += *one == ',')
			if (strcspn(one, ",") == n && !strncmp(one, state, n))
				return 1;
	}
	return 0;
}

static int begins(const json_t *one, const char *key, const char *wanted)
{
	const char *v = json_string_value(json_object_get(one, key));

	return !wanted || (v && !strncmp(v, wanted, strlen(wanted)));
}

static int by_newest(const void *a, const void *b)
{
	const json_t *one = *(json_t *const *)a, *other = *(json_t *const *)b;
	const double x = json_number_value(json_object_get(one, "created_at")), y = json_number_value(json_object_get(other, "created_at"));

	return x < y ? 1 :
	       x > y ? -1 :
		       strcmp(json_string_value(json_object_get(one, "container_name")),
			      json_string_value(json_object_get(other, "container_name")));
}

/* The caller's sandboxes of this door, as the query wants them, the newest first: a new array. */
static json_t *list_wanted(struct http_request *rq, struct err *e)
{
	const char *text = http_query(rq, "labels");
	autojson json_t *labels = text ? json_parse(text, strlen(text), 65536, "labels", e) : json_object();
	struct service_who who = manager_who(rq);
	autojson json_t *records = NULL;
	json_t *out = json_array(), *info, *one;
	autofree json_t **v = NULL;
	struct box b;
	size_t i, n = 0;
	int r;

	if (labels && !json_is_object(labels))
		err_set(e, ERR_INVALID, "labels is not an object of JSON");
	if (!manager_of(rq))
		err_set(e, ERR_UNSUPPORTED, "this berthd serves without its manager");
	r = !json_is_object(labels) || !manager_of(rq) ? -1 : 0;
	if (r < 0 && text)
		e->code = ERR_INVALID;
	box_init(&b, rq);
	if (r == 0)
		r = box_open(&b, rq, e);
	records = r == 0 ? service_list(manager_of(rq), &who, e) : NULL;
	v = calloc(json_array_size(records) + 1, sizeof(*v));
	json_array_foreach(records, i, info)
		if (v && json_is_object(json_object_get(json_object_get(info, "meta"), DAYTONA_META)))
			v[n++] = info;
	if (v)
		qsort(v, n, sizeof(*v), by_newest);
	for (i = 0; v && i < n; i++) {
		const json_t *note = json_object_get(json_object_get(v[i], "meta"), DAYTONA_META);
		const char *id = json_string_value(json_object_get(v[i], "container_id"));
		const char *state = state_of(v[i], note, id && id[0] && record_is_there(b.registry.sandboxes_fd, id), 0);

		if (!strcmp(state, "destroyed") || !has_labels(note, labels) || !is_state_wanted(rq, state) || !(one = describe(rq, v[i], state)))
			continue;
		if (begins(one, "id", http_query(rq, "id")) && begins(one, "name", http_query(rq, "name")))
			json_array_append(out, one);
		json_decref(one);
	}
	box_close(&b);
	if (records)
		return out;
	json_decref(out);
	return NULL;
}

static int check_limit(struct http_request *rq, uint64_t *ret, struct err *e)
{
	*ret = http_query_u64(rq, "limit", LIST_PRESET);
	return *ret < 1 || *ret > LIST_MAX ? err_set(e, ERR_INVALID, "limit is not a number from 1 to %d", LIST_MAX) : 0;
}

static json_t *page_of(const json_t *all, uint64_t from, uint64_t limit)
{
	json_t *page = json_array();
	size_t i;

	for (i = from; i < json_array_size(all) && i - from < limit; i++)
		json_array_append(page, json_array_get(all, i));
	return page;
}

/* {"items","nextCursor"}: newer SDKs give cursor or limit; the bare array is what those of 2025 wait for. */
static int get_daytona_sandboxes(struct http_request *rq, struct err *e)
{
	const int is_old = daytona_age(rq) == DAYTONA_OLD;
	uint64_t from = http_query_u64(rq, "cursor", 0), limit;
	autojson json_t *all = check_limit(rq, &limit, e) < 0 ? NULL : list_wanted(rq, e);
	json_t *reply;

	if (!all)
		return -1;
	if (is_old)
		return http_reply_json(rq, 0, json_incref(all), e);
	reply = json_pack("{s:o}", "items", page_of(all, from, limit));
	json_object_set_new(reply, "nextCursor", from + limit < json_array_size(all) ? json_sprintf("%llu", (unsigned long long)(from + limit)) : json_null());
	return http_reply_json(rq, 0, reply, e);
}

static int get_daytona_pages(struct http_request *rq, struct err *e)
{
	uint64_t page = http_query_u64(rq, "page", 1), limit;
	autojson json_t *all = check_limit(rq, &limit, e) < 0 ? NULL : list_wanted(rq, e);
	const uint64_t total = json_array_size(all);

	if (!all)
		return -1;
	if (!page)
		return err_set(e, ERR_INVALID, "page is not a number from 1 on");
	return http_reply_json(rq, 0,
			       json_pack("{s:o,s:I,s:I,s:I}", "items", page_of(all, page - 1 > total ? total : (page - 1) * limit, limit), "total",
					 (json_int_t)total, "page", (json_int_t)page, "totalPages", (json_int_t)((total + limit - 1) / limit)),
			       e);
}

/* ---- its life ---------------------------------------------------------------------------------- */

/* Gone: what is told is what it was. */
static int reply_destroyed(struct found *f, struct err *e)
{
	json_t *j = describe(f->box.rq, f->info, "destroyed");

	return j ? http_reply_json(f->box.rq, 0, j, e) : err_nomem(e);
}

static int release(struct found *f, struct err *e)
{
	fd_close(&f->box.sock);
	return service_release(manager_of(f->box.rq), &f->who, f->name, 0, e);
}

static int delete_daytona_sandbox(struct http_request *rq, struct err *e)
{
	struct found f;
	int r = find_of_request(&f, rq, e);

	if (r == 0)
		r = release(&f, e);
	if (r == 0)
		r = reply_destroyed(&f, e);
	found_release(&f);
	return r;
}

static int note_archived(struct found *f, int archived, struct err *e)
{
	if (json_is_true(json_object_get(f->note, "archived")) == archived)
		return 0;
	return service_change_meta(manager_of(f->box.rq), &f->who, f->name, DAYTONA_META, json_pack("{s:b}", "archived", archived), e);
}

static int post_daytona_start(struct http_request *rq, struct err *e)
{
	struct found f;
	int r = find_of_request(&f, rq, e);

	if (r == 0)
		r = service_start(manager_of(rq), &f.who, f.name, e);
	if (r == 0)
		r = note_archived(&f, 0, e);
	if (r == 0)
		r = look_again(&f, e);
	/* an archive keeps no rules of previews */
	if (r == 0 && wants_public(f.note))
		r = set_public(&f.box, 1, e);
	return end_reply(&f, r, e);
}

static int stop(struct found *f, int force, struct err *e)
{
	struct http_request *rq = f->box.rq;

	fd_close(&f->box.sock);
	if (force && !f->box.kept && spawn_berth(rq, call_of("kill", f->box.id, NULL), 1, -1, NULL, e) < 0 && e->code != ERR_NOT_FOUND &&
	    e->code != ERR_BUSY)
		return -1;
	return service_stop(manager_of(rq), &f->who, f->name, e);
}

static int post_daytona_stop(struct http_request *rq, struct err *e)
{
	struct found f;
	int r = find_of_request(&f, rq, e);

	if (r == 0)
		r = stop(&f, http_query_bool(rq, "force"), e);
	if (r == 0 && delete_interval(f.info) == 0) {
		r = release(&f, e);
		if (r == 0)
			r = reply_destroyed(&f, e);
		found_release(&f);
		return r;
	}
	if (r == 0)
		r = look_again(&f, e);
	return end_reply(&f, r, e);
}

static int post_daytona_archive(struct http_request *rq, struct err *e)
{
	struct found f;
	int paused, r = find_of_request(&f, rq, e);

	if (r == 0 && runs(&f, &paused)) {
		http_error_status(rq, 400);
		r = err_set(e, ERR_BUSY, "Sandbox is not stopped; hint: stop it, then archive it");
	}
	/* without a storage it stays where it is */
	if (r == 0 && service_archive(manager_of(rq), &f.who, f.name, e) < 0)
		r = e->code == ERR_UNSUPPORTED ? note_archived(&f, 1, e) : -1;
	if (r == 0)
		r = look_again(&f, e);
	return end_reply(&f, r, e);
}

/* Consumes ask. */
static int keeper_does(struct found *f, json_t *ask, struct err *e)
{
	autojson json_t *request = ask, *answer = NULL;

	if (f->box.kept)
		return err_set(e, ERR_BUSY, "Sandbox is not started");
	f->box.sock = keeper_connect(&f->box.registry, f->box.id, e);
	answer = f->box.sock < 0 ? NULL : box_call(&f->box, request, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

static int post_daytona_pause(struct http_request *rq, struct err *e)
{
	struct found f;
	int r = find_of_request(&f, rq, e);

	if (r == 0)
		r = keeper_does(&f, protocol_request(OP_pause), e);
	return end_reply(&f, r, e);
}

/* A look at its root directory counts as use. */
static int post_last_activity(struct http_request *rq, struct err *e)
{
	static const char *const argv[] = {"stat", "m", "/", NULL};
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct daytona_place p;
	int r = daytona_enter(&p, rq, e);

	if (r == 0)
		r = daytona_file(&p, argv, &text, e);
	daytona_leave(&p);
	return r < 0 ? -1 : http_reply_empty(rq, 201, e);
}

/* ---- changes --------------------------------------------------------------------------------- */

static int read_minutes(struct http_request *rq, enum daytona_interval which, json_int_t *ret_seconds, struct err *e)
{
	const char *text = http_param(rq, "interval");
	const int is_negative = text[0] == '-';
	struct config config;
	uint64_t n;

	api_config(api_of(rq), &config);
	return num_u64(text + is_negative, "interval", 0, INT32_MAX, &n, e) < 0 ||
			       daytona_interval_seconds(which, is_negative ? -(json_int_t)n : (json_int_t)n, ret_seconds, e) < 0 ||
			       (which == DAYTONA_STOP && daytona_stop_check(*ret_seconds, &config, http_who(rq)->admin, e) < 0) ?
		       -1 :
		       0;
}

static int set_minutes(struct http_request *rq, enum daytona_interval which, struct err *e)
{
	autojson json_t *args = NULL, *told = NULL;
	json_int_t seconds = 0;
	struct found f;
	int r = find_of_request(&f, rq, e);

	if (r == 0)
		r = read_minutes(rq, which, &seconds, e);
	args = json_pack("{s:I}", daytona_interval_names[which], seconds);
	if (r == 0)
		r = (told = service_intervals(manager_of(rq), &f.who, f.name, args, e)) ? 0 : -1;
	if (r == 0)
		r = look_again(&f, e);
	return end_reply(&f, r, e);
}

static int post_autostop(struct http_request *rq, struct err *e)
{
	return set_minutes(rq, DAYTONA_STOP, e);
}

static int post_autoarchive(struct http_request *rq, struct err *e)
{
	return set_minutes(rq, DAYTONA_ARCHIVE, e);
}

static int post_autodelete(struct http_request *rq, struct err *e)
{
	return set_minutes(rq, DAYTONA_DELETE, e);
}

/* "ttl" of berth update; of a stopped sandbox nobody counts the time. */
static int post_daytona_ttl(struct http_request *rq, struct err *e)
{
	json_t *ask;
	struct found f;
	uint64_t n = 0;
	int r = find_of_request(&f, rq, e);

	if (r == 0)
		r = num_u64(http_param(rq, "interval"), "ttlMinutes", 0, 366 * 1440, &n, e);
	if (r == 0 && f.box.kept)
		r = err_set(e, ERR_BUSY, "Sandbox is not started, and its time is counted while it is");
	if (r == 0) {
		ask = protocol_request(OP_update);
		request_set_ttl_ms(ask, n * 60000);
		r = keeper_does(&f, ask, e);
	}
	return end_reply(&f, r, e);
}

/* Consumes value; NULL with e: it is wrong, which is told of a sandbox that is there. */
static int change_note(struct http_request *rq, const char *member, json_t *value, struct err *e)
{
	struct err wrong = *e;
	struct found f;
	int r = find_of_request(&f, rq, e);

	if (r == 0 && !value) {
		*e = wrong;
		r = -1;
	}
	if (r == 0 && !strcmp(member, "public"))
		r = set_public(&f.box, json_is_true(value), e);
	if (r == 0)
		r = service_change_meta(manager_of(rq), &f.who, f.name, DAYTONA_META, json_pack("{s:O}", member, value), e);
	json_decref(value);
	if (r == 0)
		r = look_again(&f, e);
	return end_reply(&f, r, e);
}

static int put_daytona_labels(struct http_request *rq, struct err *e)
{
	const json_t *labels = json_object_get(http_json(rq), "labels");

	return change_note(rq, "labels", daytona_labels_check(labels, e) < 0 ? NULL : json_deep_copy(labels), e);
}

static int post_daytona_public(struct http_request *rq, struct err *e)
{
	const char *word = http_param(rq, "interval");

	const int is_word = !strcmp(word, "true") || !strcmp(word, "false");

	if (!is_word)
		err_set(e, ERR_INVALID, "isPublic is neither true nor false");
	return change_note(rq, "public", is_word ? json_boolean(!strcmp(word, "true")) : NULL, e);
}

/* More or less CPU and memory of one that runs or not; a disk stays as it was made. */
static int post_daytona_resize(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq), *cpu = json_object_get(body, "cpu"), *memory = json_object_get(body, "memory");
	autojson json_t *options = json_object();
	struct found f;
	int r;

	if (json_is_number(cpu))
		json_object_set_new(options, "cpus", json_sprintf("%.3f", json_number_value(cpu)));
	if (json_is_number(memory))
		json_object_set_new(options, "memory", json_integer((json_int_t)(json_number_value(memory) * GIB)));
	r = find_of_request(&f, rq, e);
	if (r == 0 && json_is_number(json_object_get(body, "disk")))
		r = err_set(e, ERR_UNSUPPORTED, "a disk is not resized; hint: another sandbox with a larger disk");
	if (r == 0 && !f.box.id[0])
		r = err_set(e, ERR_BUSY, "Sandbox is archived; hint: start it");
	if (r == 0)
		r = api_update(rq, &f.box, options, e);
	if (r == 0)
		r = look_again(&f, e);
	return end_reply(&f, r, e);
}

/* The three members together replace what was; one that is not named is none. */
static int post_network_settings(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	autojson json_t *asked = daytona_network(body, e);
	const char *const *member;
	struct found f;
	json_t *told;
	int r;

	if (!asked)
		return -1;
	r = find_of_request(&f, rq, e);
	if (r == 0 && f.box.kept)
		r = err_set(e, ERR_BUSY, "Sandbox is not started");
	if (r == 0)
		r = e2b_network_change(rq, &f.box, json_object_get(asked, "allow_internet_access"), json_object_get(asked, "network"), e);
	if (r == 0) {
		told = json_object();
		for (member = daytona_network_members; *member; member++) {
			json_t *v = json_object_get(body, *member);

			json_object_set_new(told, *member, v ? json_incref(v) : json_null());
		}
		r = service_change_meta(manager_of(rq), &f.who, f.name, DAYTONA_META, told, e);
	}
	if (r == 0)
		r = look_again(&f, e);
	return end_reply(&f, r, e);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int get_toolbox_url(struct http_request *rq, struct err *e)
{
	autofree char *url = daytona_address(rq, "/api/toolbox");
	struct found f;
	int r = find_of_request(&f, rq, e);

	found_release(&f);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:s?}", "url", url), e);
}

static int reply_preview(struct http_request *rq, uint64_t ttl_ms, int is_signed, struct err *e)
{
	autojson json_t *given = NULL;
	struct found f;
	json_t *reply;
	uint64_t port = 0;
	int r = find_of_request(&f, rq, e);

	if (r == 0)
		r = num_u64(http_param(rq, "port"), "port", 1, UINT16_MAX, &port, e);
	if (r == 0 && !f.box.id[0])
		r = err_set(e, ERR_BUSY, "Sandbox is archived; hint: start it");
	if (r == 0)
		r = (given = preview_grant(&f.box, (unsigned)port, ttl_ms, e)) ? 0 : -1;
	if (r < 0) {
		found_release(&f);
		return -1;
	}
	reply = json_pack("{s:s,s:I,s:O,s:O}", "sandboxId", f.box.id, "port", (json_int_t)port, "token", json_object_get(given, "token"), "url",
			  json_object_get(given, is_signed ? "signed_url" : "url"));
	found_release(&f);
	return reply ? http_reply_json(rq, 0, reply, e) : err_nomem(e);
}

static int get_daytona_preview(struct http_request *rq, struct err *e)
{
	return reply_preview(rq, 0, 0, e);
}

static int get_signed_preview(struct http_request *rq, struct err *e)
{
	const uint64_t s = http_query_u64(rq, "expiresInSeconds", 60);

	if (s < 1 || s > 86400)
		return err_set(e, ERR_INVALID, "expiresInSeconds is not a number from 1 to 86400");
	return reply_preview(rq, s * 1000, 1, e);
}

/* ---- what is not served ------------------------------------------------------------------------ */

/* First: the sandbox is there. */
static int is_there(struct http_request *rq, struct err *e)
{
	struct found f;
	int r = find_of_request(&f, rq, e);

	found_release(&f);
	return r;
}

static int refuse_expire(struct http_request *rq, struct err *e)
{
	if (is_there(rq, e) < 0)
		return -1;
	return err_set(e, ERR_UNSUPPORTED, "no single token of a preview is taken back; hint: DELETE /v1/sandboxes/{id}/ports/{port}/preview "
		       "takes back all tokens of the sandbox");
}

static int refuse_control(struct http_request *rq, struct err *e)
{
	if (is_there(rq, e) < 0)
		return -1;
	return err_set(e, ERR_UNSUPPORTED, "this operation of Daytona's is not served by berthd; hint: berthd(8), Daytona, says what is");
}

#define SANDBOX "/api/sandbox/{id}"
#define DOC .response = "Document", DAYTONA_ERRORS
/* SDKs send {} or nothing. */
#define EMPTY HTTP_JSON, HTTP_OPTIONAL, .request = "Nothing"
#define FILTERS "limit:integer id:string name:string labels:string states:strings verbose:boolean"

const struct http_route daytona_sandbox_routes[] = {
	{"POST", "/api/sandbox", post_daytona_sandbox, "Daytona: make a sandbox", HTTP_JSON, HTTP_TIMED_CREATE, .request = "DaytonaCreate", DOC},
	{"GET", "/api/sandbox", get_daytona_sandboxes, "Daytona: list sandboxes; an array for SDKs of 2025", .query = "cursor:integer " FILTERS,
	 .response = "Any", DAYTONA_ERRORS},
	{"GET", "/api/sandbox/paginated", get_daytona_pages, "Daytona: a page of the list", .query = "page:integer " FILTERS, DOC},
	{"GET", SANDBOX, get_daytona_sandbox, "Daytona: a sandbox", .query = "verbose:boolean", DOC},
	{"DELETE", SANDBOX, delete_daytona_sandbox, "Daytona: end and remove it", .query = "force:boolean", DOC},
	{"POST", SANDBOX "/start", post_daytona_start, "Daytona: start it, from its archive too", EMPTY, DOC},
	{"POST", SANDBOX "/stop", post_daytona_stop, "Daytona: stop it", EMPTY, .query = "force:boolean", DOC},
	{"POST", SANDBOX "/pause", post_daytona_pause, "Daytona: freeze its processes", EMPTY, DOC},
	{"POST", SANDBOX "/archive", post_daytona_archive, "Daytona: archive it, once it is stopped", EMPTY, DOC},
	{"POST", SANDBOX "/autostop/{interval}", post_autostop, "Daytona: stop it after so many idle minutes; 0 is never", EMPTY, DOC},
	{"POST", SANDBOX "/autoarchive/{interval}", post_autoarchive, "Daytona: archive it after so many stopped minutes", EMPTY, DOC},
	{"POST", SANDBOX "/autodelete/{interval}", post_autodelete, "Daytona: remove it after so many stopped minutes; negative is never", EMPTY, DOC},
	{"POST", SANDBOX "/ttl/{interval}", post_daytona_ttl, "Daytona: remove it after so many minutes; 0 is never", EMPTY, DOC},
	{"POST", SANDBOX "/last-activity", post_last_activity, "Daytona: it is in use", EMPTY, .status = 201, DAYTONA_ERRORS},
	{"PUT", SANDBOX "/labels", put_daytona_labels, "Daytona: other labels", HTTP_JSON, .request = "DaytonaLabels", DOC},
	{"POST", SANDBOX "/public/{interval}", post_daytona_public, "Daytona: whether its ports are public", EMPTY, DOC},
	{"GET", SANDBOX "/toolbox-proxy-url", get_toolbox_url, "Daytona: where its toolbox is", DOC},
	{"GET", SANDBOX "/ports/{port}/preview-url", get_daytona_preview, "Daytona: the address of a port, and a token", DOC},
	{"GET", SANDBOX "/ports/{port}/signed-preview-url", get_signed_preview, "Daytona: an address of a port with its token",
	 .query = "expiresInSeconds:integer", DOC},
	{"POST", SANDBOX "/ports/{port}/signed-preview-url/{token}/expire", refuse_expire, "Daytona: refused", DOC},
	{"POST", SANDBOX "/backup", refuse_control, "Daytona: refused", DOC},
	{"POST", SANDBOX "/fork", refuse_control, "Daytona: refused", HTTP_JSON, HTTP_OPTIONAL, DOC},
	{"POST", SANDBOX "/snapshot", refuse_control, "Daytona: refused", HTTP_JSON, HTTP_OPTIONAL, DOC},
	{"POST", SANDBOX "/resize", post_daytona_resize, "Daytona: other limits of CPU and memory", HTTP_JSON, .request = "DaytonaResize", DOC},
	{"POST", SANDBOX "/recover", refuse_control, "Daytona: refused", .query = "skipStart:boolean", DOC},
	{"POST", SANDBOX "/autopause/{interval}", refuse_control, "Daytona: refused", DOC},
	{"POST", SANDBOX "/network-settings", post_network_settings, "Daytona: other rules for its network", HTTP_JSON, .request = "DaytonaNetwork", DOC},
	{"PUT", SANDBOX "/secrets", refuse_control, "Daytona: refused", HTTP_JSON, DOC},
	{"POST", SANDBOX "/ssh-access", refuse_control, "Daytona: refused", .query = "expiresInMinutes:integer", DOC},
	{"DELETE", SANDBOX "/ssh-access", refuse_control, "Daytona: refused", .query = "token:string", DOC},
	{"GET", SANDBOX "/build-logs", refuse_control, "Daytona: refused", .query = "follow:boolean", DOC},
	{"GET", SANDBOX "/build-logs-url", refuse_control, "Daytona: refused", DOC},
	{"GET", SANDBOX "/signing-key", refuse_control, "Daytona: refused", DOC},
	{"POST", SANDBOX "/signing-key/rotate", refuse_control, "Daytona: refused", DOC},
	{NULL},
};
