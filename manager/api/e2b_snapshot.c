/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses, snapshots and forks of E2B's sandboxes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/api/box.h"
#include "manager/api/e2b.h"
#include "manager/host/names.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/protocol.h"

/* ---- pauses ---- */

/*
 * Pauses of E2B's sandboxes.  A pause that keeps the memory freezes the sandbox; one that does not
 * stops it, and its files stay.  So what is stopped is paused to E2B's SDKs, and connect() starts
 * it.
 */

#define RESUMED_S_MIN 300 /* E2B gives at least this to one that a request resumes */

/* ---- what create says -------------------------------------------------------------------- */

static int is_boolean_or_absent(const json_t *v)
{
	return !v || json_is_null(v) || json_is_boolean(v);
}

static int resumes(const json_t *body, int *ret, struct err *e)
{
	const json_t *v = json_object_get(body, "autoResume"), *one;
	const char *name;

	*ret = 0;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_object(v) || !json_is_boolean(json_object_get(v, "enabled")))
		return err_set(e, ERR_INVALID, "autoResume is not {\"enabled\": BOOLEAN}");
	json_object_foreach ((json_t *)(size_t)v, name, one)
		if (strcmp(name, "enabled"))
			return err_set(e, ERR_INVALID, "autoResume has an unknown member '%.64s'",
				       name);
	*ret = json_is_true(json_object_get(v, "enabled"));
	return 0;
}

int e2b_lifecycle_of(const json_t *body, json_int_t timeout, struct e2b_lifecycle *ret,
		     struct err *e)
{
	const json_t *memory = json_object_get(body, "autoPauseMemory");
	struct e2b_lifecycle l = { .pauses = json_is_true(json_object_get(body, "autoPause")) };
	int resumed;

	if (!is_boolean_or_absent(json_object_get(body, "autoPause")) ||
	    !is_boolean_or_absent(memory))
		return err_set(e, ERR_INVALID, "autoPause or autoPauseMemory is not a boolean");
	if (resumes(body, &resumed, e) < 0)
		return -1;
	l.drops_memory = l.pauses && json_is_false(memory);
	if (resumed && (!l.pauses || l.drops_memory))
		return err_set(e, ERR_INVALID,
			       "autoResume needs autoPause: true, and a pause that keeps the "
			       "memory");
	if (resumed)
		l.resume_s = timeout < RESUMED_S_MIN ? RESUMED_S_MIN : timeout;
	*ret = l;
	return 0;
}

struct e2b_lifecycle e2b_lifecycle_in(const json_t *record)
{
	return (struct e2b_lifecycle){
		.pauses = record_pause_at_end(record) || record_stop_at_end(record),
		.drops_memory = record_stop_at_end(record),
		.resume_s = record_resume_ttl_ms(record) / 1000,
	};
}

/* ---- a sandbox that runs ------------------------------------------------------------------- */

int e2b_pause_at_end(struct http_request *rq, const char *id, json_int_t timeout,
		     const struct e2b_lifecycle *l, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_update), *answer = NULL;
	struct box b;

	request_set_ttl_ms(ask, (uint64_t)(timeout ? timeout : 1) * 1000);
	if (l->drops_memory)
		request_set_stop_at_end(ask, 1);
	else
		request_set_pause_at_end(ask, 1);
	request_set_resume_ttl_ms(ask, (uint64_t)l->resume_s * 1000);
	if (box_connect_ref(&b, rq, id, e) == 0)
		answer = box_call(&b, ask, NULL, 0, NULL, e);
	box_close(&b);
	if (answer)
		return 0;
	api_forget(rq, id);
	return -1;
}

int e2b_is_paused(const json_t *live)
{
	const char *status = json_string_value(json_object_get(live, "state"));

	return !live || (status && !strcmp(status, "paused"));
}

/* A limit that cannot be read, or is none, is not told. */
json_t *e2b_when_stopped(struct box *b, const char *id)
{
	struct err ignored;
	autojson json_t *spec = registry_load(&b->registry, id, "spec.json", &ignored);
	uint64_t memory = b->registry.config->memory_bytes, milli = b->registry.config->cpu_milli;
	const json_t *pair;
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, pair) {
		const char *option = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (!option || !value)
			continue;
		if (!strcmp(option, "memory") &&
		    num_size(value, option, 0, INT64_MAX, &memory, &ignored) < 0)
			memory = 0;
		if (!strcmp(option, "cpus") &&
		    num_milli(value, option, 0, INT32_MAX, &milli, &ignored) < 0)
			milli = 0;
	}
	return json_pack("{s:s,s:I,s:I}", "state", "paused", "memory_limit_bytes",
			 (json_int_t)memory, "cpu_limit_milli", (json_int_t)milli);
}

static int call_e2b_keeper(struct box *b, json_t *request, struct err *e)
{
	autojson json_t *ask = request, *answer = box_call(b, ask, NULL, 0, NULL, e);

	return answer ? 0 : -1;
}

/* From now on; 0 means never. */
static int set_ttl(struct box *b, json_int_t seconds, struct err *e)
{
	json_t *ask = protocol_request(OP_update);

	request_set_ttl_ms(ask, (uint64_t)seconds * 1000);
	return call_e2b_keeper(b, ask, e);
}

static int post_timeout(struct http_request *rq, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	json_int_t timeout;
	struct box b = { .sock = -1, .lock_fd = -1 };
	int r = e2b_timeout(http_json(rq), &timeout, e);

	if (r < 0)
		return -1;
	r = e2b_look(&b, rq, &record, &live, e);
	if (r == 0)
		r = set_ttl(&b, timeout ? timeout : 1, e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* ---- stop and start ------------------------------------------------------------------------ */

/* Whether the body says "memory": false. */
static int without_memory(struct http_request *rq, int *ret, struct err *e)
{
	const json_t *v = json_object_get(http_json(rq), "memory");

	*ret = json_is_false(v);
	return is_boolean_or_absent(v) ? 0 : err_set(e, ERR_INVALID, "memory is not a boolean");
}

/* berth stop or start, when no other request does so and it is needed. */
static int turn_e2b_sandbox(struct http_request *rq, struct box *b, const char *verb, int when_stopped,
		struct err *e)
{
	int r;

	fd_close(&b->sock);
	fd_close(&b->lock_fd);
	r = box_lock(b, e);
	if (r == 0 && b->kept == when_stopped)
		r = spawn_berth(rq, call_of(verb, b->id, NULL), 1, -1, NULL, e);
	fd_close(&b->lock_fd);
	if (r == 0)
		b->kept = !when_stopped;
	return r;
}

static int stop_e2b_sandbox(struct http_request *rq, struct box *b, struct err *e)
{
	return turn_e2b_sandbox(rq, b, "stop", 0, e);
}

/* It is connected afterwards. */
static int start_e2b_sandbox(struct http_request *rq, struct box *b, struct err *e)
{
	char id[65];

	memcpy(id, b->id, sizeof(id));
	if (turn_e2b_sandbox(rq, b, "start", 1, e) < 0)
		return -1;
	box_close(b);
	return box_connect_ref(b, rq, id, e);
}

/* ---- pause --------------------------------------------------------------------------------- */

/* The end that it had, which a pause that failed has taken away. */
static void give_back_end(struct box *b, struct http_request *rq, const json_t *record)
{
	const json_int_t left = record_expires_ms(record) - (json_int_t)clock_wall_ms();
	struct err ignored;

	if (!record_expires_ms(record))
		return;
	box_close(b);
	if (box_connect(b, rq, &ignored) == 0)
		set_ttl(b, left > 1000 ? left / 1000 : 1, &ignored);
}

/* While it is paused no time runs out. */
static int post_e2b_pause(struct http_request *rq, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	struct box b = { .sock = -1, .lock_fd = -1 };
	int drops, r;

	if (without_memory(rq, &drops, e) < 0)
		return -1;
	r = e2b_look_at_any(&b, rq, &record, &live, e);
	if (r == 0 && e2b_is_paused(live))
		r = err_set(e, ERR_EXISTS, "sandbox %s is paused already", b.id);
	if (r == 0)
		r = set_ttl(&b, 0, e);
	if (r == 0) {
		r = drops ? stop_e2b_sandbox(rq, &b, e) : call_e2b_keeper(&b, protocol_request(OP_pause), e);
		if (r < 0)
			give_back_end(&b, rq, record);
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* ---- resume -------------------------------------------------------------------------------- */

/*
 * A sandbox that has just started has no end yet: without one it does not stay.  Its files must: so
 * it is not removed.
 */
static int begin_stopped_again(struct http_request *rq, struct box *b, json_int_t timeout, struct err *e)
{
	struct err ignored;

	if (start_e2b_sandbox(rq, b, e) < 0)
		return -1;
	if (set_ttl(b, timeout, e) == 0)
		return 0;
	stop_e2b_sandbox(rq, b, &ignored);
	return -1;
}

/* *ret_ends: it is being stopped at the end of its time, and cannot go on. */
static int let_e2b_sandbox_go_on(struct box *b, const json_t *record, const json_t *live, json_int_t timeout,
		 int *ret_ends, struct err *e)
{
	const json_int_t ends = record_expires_ms(record);
	const struct e2b_lifecycle l = e2b_lifecycle_in(record);

	/* its time may end at this moment: it has more before it goes on */
	if (!l.pauses && e2b_is_paused(live) && call_e2b_keeper(b, protocol_request(OP_resume), e) < 0)
		return -1;
	if ((!ends || ends < (json_int_t)clock_wall_ms() + timeout * 1000) &&
	    set_ttl(b, timeout, e) < 0) {
		*ret_ends = l.drops_memory && (e->code == ERR_BUSY || b->ended);
		return -1;
	}
	return l.pauses ? call_e2b_keeper(b, protocol_request(OP_resume), e) : 0;
}

/* Resumes it where it is paused, and gives it at least so much time. */
static int resume_e2b_sandbox(struct http_request *rq, int status, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	json_int_t timeout;
	struct box b = { .sock = -1, .lock_fd = -1 };
	int drops, ends = 0, r = e2b_timeout(http_json(rq), &timeout, e);

	if (r < 0 || without_memory(rq, &drops, e) < 0)
		return -1;
	timeout += !timeout;
	r = e2b_look_at_any(&b, rq, &record, &live, e);
	/* a pause that another request asked for comes first */
	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0 && live && !b.kept) {
		ends = drops && e2b_is_paused(live); /* of one that runs, connect() ends nothing */
		r = ends ? 0 : let_e2b_sandbox_go_on(&b, record, live, timeout, &ends, e);
		if (ends)
			r = stop_e2b_sandbox(rq, &b, e);
	}
	if (r == 0 && (b.kept || ends))
		r = begin_stopped_again(rq, &b, timeout, e);
	box_close(&b);
	return r < 0 ? -1 : e2b_reply_new(rq, status, b.id, e2b_label(record, E2B_TEMPLATE), e);
}

static int post_e2b_connect(struct http_request *rq, struct err *e)
{
	return resume_e2b_sandbox(rq, 200, e);
}

static int post_e2b_resume(struct http_request *rq, struct err *e)
{
	return resume_e2b_sandbox(rq, 201, e);
}

#define ERRORS .shape_error = e2b_error, .error_schema = "Document"

const struct http_route e2b_pause_routes[] = {
	{ "POST", "/sandboxes/{id}/timeout", post_timeout, "E2B: let it live so long from now on",
	  HTTP_JSON, .status = 204, ERRORS },
	{ "POST", "/sandboxes/{id}/refreshes", post_timeout, "E2B: let it live so long from now on",
	  HTTP_JSON, HTTP_OPTIONAL, .status = 204, ERRORS },
	{ "POST", "/sandboxes/{id}/pause", post_e2b_pause, "E2B: freeze it, or stop it", HTTP_JSON,
	  HTTP_OPTIONAL, .status = 204, ERRORS },
	{ "POST", "/sandboxes/{id}/resume", post_e2b_resume, "E2B: let it go on", HTTP_JSON,
	  HTTP_OPTIONAL, .response = "Document", .status = 201, ERRORS },
	{ "POST", "/sandboxes/{id}/connect", post_e2b_connect, "E2B: let it go on", HTTP_JSON,
	  HTTP_OPTIONAL, .response = "Document", ERRORS },
	{ "POST", "/v2/sandboxes/{id}/connect", post_e2b_connect, "E2B: let it go on", HTTP_JSON,
	  HTTP_OPTIONAL, .response = "Document", ERRORS },
	{ NULL },
};

/* ---- snapshots and forks ---- */

/*
 * E2B's snapshots and forks: files, not memory.
 *
 * A snapshot outlives its sandbox, so it is a sandbox of its own: a fork that is never started,
 * of the face E2B_SNAPSHOT.  It counts among its tenant's sandboxes.  Create makes forks of it.
 * A snapshot with a name has the sandbox's name "snapshot.[TENANT.]NAME", by which it is found at
 * once; names of E2B's have no dot, so each tenant has names of its own.
 */

#define TAG ":default" /* what an id of E2B's ends with */
#define NAME_MAX_BYTES 64
#define FORKS_MAX 100
#define PAGE_MAX 100

/* ---- which snapshot ------------------------------------------------------------------ */

/* E2B's name or id, without the one tag that there is. */
static void cut_tag(const char *text, char ret[NAME_MAX_BYTES + 1])
{
	const size_t n = strlen(text), tag = sizeof(TAG) - 1;
	const int tagged = n > tag && !strcmp(text + n - tag, TAG);

	snprintf(ret, NAME_MAX_BYTES + 1, "%.*s",
		 n < 4 * NAME_MAX_BYTES ? (int)(tagged ? n - tag : n) : 0, text);
}

/* The name of its sandbox: 1, or 0 when name cannot be that of a snapshot. */
static int sandbox_name(const struct http_request *rq, const char *name, char ret[65])
{
	const struct http_who *who = http_who(rq);
	int n;

	if (!name[0] || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")])
		return 0;
	n = who->admin ? snprintf(ret, 65, REGISTRY_SNAPSHOT "%s", name) :
			 snprintf(ret, 65, REGISTRY_SNAPSHOT "%s.%s", who->name, name);
	return n > 0 && n < 65 && path_is_name(ret);
}

/*
 * Upholds S19 of SECURITY.md.  A tenant gives its sandboxes names and labels as it likes, those of
 * the operator's snapshots too; and a fork of what is a tenant's is that tenant's.
 */
static int is_of_others(struct box *b, const struct http_request *rq)
{
	autojson json_t *owner = NULL;
	struct err ignored;
	const char *name;

	if (!http_who(rq)->admin)
		return 0; /* it finds its own alone */
	owner = registry_load(&b->registry, b->id, REGISTRY_OWNER, &ignored);
	name = json_string_value(json_object_get(owner, "name"));
	return name && name[0];
}

/*
 * The snapshot that the text names: 1 with b open and the record, a new reference; 0; -1.  At the
 * cost of two looks, however many sandboxes there are.
 */
static int find_e2b_snapshot(struct box *b, struct http_request *rq, const char *text, json_t **ret_record,
		struct err *e)
{
	char word[NAME_MAX_BYTES + 1], name[65] = "";
	const char *face;

	*ret_record = NULL;
	cut_tag(text, word);
	if (box_open(b, rq, e) < 0)
		return -1;
	if (!path_is_name(word))
		return 0;
	if (!path_has(b->registry.kept_fd, word)) {
		if (!sandbox_name(rq, word, name) || !path_has(b->registry.names_fd, name))
			return 0;
	}
	box_close(b);
	if (box_find_ref(b, rq, name[0] ? name : word, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (name[0] && is_of_others(b, rq))
		return 0;
	*ret_record = boxlist_load(b, e);
	face = e2b_label(*ret_record, E2B_FACE);
	return face && !strcmp(face, E2B_SNAPSHOT);
}

/* ---- make one -------------------------------------------------------------------------- */

static json_t *e2b_snapshot_info(const char *id, const char *name)
{
	return name && name[0] ? json_pack("{s:o,s:[o]}", "snapshotID", json_sprintf("%s" TAG, name),
					   "names", json_sprintf("%s" TAG, name)) :
				 json_pack("{s:o,s:[]}", "snapshotID", json_sprintf("%s" TAG, id),
					   "names");
}

static json_t *fork_body(const struct box *b, const char *name)
{
	json_t *labels = json_pack("[o]", json_sprintf(E2B_SNAPSHOT_OF "=%s", b->id));

	if (name)
		json_array_append_new(labels, json_sprintf(E2B_SNAPSHOT_NAME "=%s", name));
	/* what it is of may have little time left */
	return json_pack("{s:b,s:{s:s,s:o}}", "no-start", 1, "options", "ttl", "0", "label",
			 labels);
}

/* Of the one fork that api_fork() made; NULL: none. */
static const char *e2b_snapshot_id(const json_t *made)
{
	const json_t *one = json_array_get(json_object_get(made, "forks"), 0);

	return json_string_value(json_object_get(one, "id"));
}

static int forget_e2b_snapshot(struct http_request *rq, const char *id, struct err *e)
{
	return api_remove(rq, id, e);
}

/* The newest snapshot with a name has it alone. */
static int take_e2b_snapshot_name(struct http_request *rq, const char *id, const char *word, struct err *e)
{
	autojson json_t *record = NULL;
	char name[65] = "";
	struct box b;
	int r;

	sandbox_name(rq, word, name); /* it was checked */
	r = find_e2b_snapshot(&b, rq, word, &record, e);
	if (r > 0)
		r = forget_e2b_snapshot(rq, b.id, e);
	if (r == 0 && registry_rename(&b.registry, id, name, e) < 0)
		r = box_name_taken(rq, name, e);
	box_close(&b);
	return r;
}

static int check_e2b_snapshot_name(struct http_request *rq, const char *name, struct err *e)
{
	char ignored[65];

	return !name || sandbox_name(rq, name, ignored) ?
		       0 :
		       err_set(e, ERR_INVALID,
			       "'%.64s' is not a name of a snapshot; hint: a-z 0-9 _ -, and not "
			       "too long",
			       name);
}

static int post_snapshot(struct http_request *rq, struct err *e)
{
	const char *name = json_string_value(json_object_get(http_json(rq), "name")), *id;
	autojson json_t *record = NULL, *live = NULL, *body = NULL, *made = NULL, *own = NULL;
	struct box b = { .sock = -1, .lock_fd = -1 };
	int r;

	if (check_e2b_snapshot_name(rq, name, e) < 0)
		return -1;
	r = e2b_look(&b, rq, &record, &live, e);
	body = r == 0 ? fork_body(&b, name) : NULL;
	own = json_pack("{s:[s,s]}", "mark", LABEL_MANAGED "=e2b", E2B_FACE "=" E2B_SNAPSHOT);
	made = body && own ? api_fork(rq, &b, body, own, e) : NULL;
	id = e2b_snapshot_id(made);
	if (made && !id)
		err_set(e, ERR_INTERNAL, "berth fork gave no id");
	if (id && e2b_network_inherit(rq, &b, id, e) < 0)
		id = NULL;
	box_close(&b);
	if (!id)
		return -1;
	if (name && take_e2b_snapshot_name(rq, id, name, e) < 0) {
		struct err ignored;

		forget_e2b_snapshot(rq, id, &ignored);
		return -1;
	}
	return http_reply_json(rq, 0, e2b_snapshot_info(id, name), e);
}

/* ---- use one ----------------------------------------------------------------------------- */

int e2b_is_snapshot(struct http_request *rq, struct err *e)
{
	const char *template = json_string_value(json_object_get(http_json(rq), "templateID"));
	autojson json_t *record = NULL;
	struct box b;
	int r = find_e2b_snapshot(&b, rq, template ? template : "", &record, e);

	box_close(&b);
	return r > 0;
}

static int says_network(const struct http_request *rq)
{
	return json_object_size(json_object_get(http_json(rq), "network")) ||
	       json_is_boolean(json_object_get(http_json(rq), "allow_internet_access"));
}

/*
 * Without a word of the network the snapshot's own guard stays, and not what create gives to new
 * ones; but where the operator gives none at all, there is none.
 */
static int chooses_network(const struct http_request *rq, const json_t *own)
{
	const char *mode = json_string_value(json_object_get(own, "network"));

	return says_network(rq) || (mode && !strcmp(mode, "none"));
}

json_t *e2b_from_snapshot(struct http_request *rq, const json_t *request, const json_t *own,
			  struct err *e)
{
	const char *template = json_string_value(json_object_get(http_json(rq), "templateID"));
	autojson json_t *record = NULL, *body = NULL, *forks = NULL;
	autojson json_t *marks = json_pack("{s:O}", "mark", json_object_get(own, "mark"));
	json_t *options = json_deep_copy(json_object_get(request, "options")), *one = NULL;
	struct box b;
	int r = find_e2b_snapshot(&b, rq, template, &record, e);

	/* those of the sandbox that it is of are not those of this one */
	if (!json_object_size(json_object_get(http_json(rq), "metadata")))
		json_array_append_new(json_object_get(options, "label"),
				      json_string(E2B_METADATA "={}"));
	body = json_pack("{s:o}", "options", options);
	if (r == 0)
		err_set(e, ERR_NOT_FOUND, "snapshot %.80s not found", template);
	forks = r > 0 ? api_fork(rq, &b, body, chooses_network(rq, own) ? own : marks, e) : NULL;
	/* create writes down what the request says of it */
	if (e2b_snapshot_id(forks) && !says_network(rq))
		r = e2b_network_inherit(rq, &b, e2b_snapshot_id(forks), e);
	box_close(&b);
	if (forks && r >= 0)
		one = json_array_get(json_object_get(forks, "forks"), 0);
	return json_incref(one);
}

/* ---- list and remove ------------------------------------------------------------------------ */

struct listing {
	struct box *box;
	json_t *list;
	const char *of;
	char name[NAME_MAX_BYTES + 1];
};

static int list_e2b_snapshot(void *ctx, const char *id, int kept, json_t *record)
{
	const char *face = e2b_label(record, E2B_FACE), *of = e2b_label(record, E2B_SNAPSHOT_OF);
	const char *name = e2b_label(record, E2B_SNAPSHOT_NAME);
	struct listing *l = ctx;

	(void)kept;
	if (!face || strcmp(face, E2B_SNAPSHOT) || !box_allowed(l->box, id) ||
	    (l->of && (!of || strcmp(of, l->of))) ||
	    (l->name[0] && strcmp(id, l->name) && (!name || strcmp(name, l->name))))
		return 0;
	return json_array_append_new(l->list, e2b_snapshot_info(id, name));
}

static int get_snapshots(struct http_request *rq, struct err *e)
{
	const uint64_t after = http_query_u64(rq, "nextToken", 0);
	const uint64_t limit = http_query_u64(rq, "limit", PAGE_MAX);
	const char *named = http_query(rq, "name");
	struct listing l = { .list = json_array(), .of = http_query(rq, "sandboxID") };
	json_t *page = json_array(), *one;
	char next[24] = "";
	struct box b;
	size_t i;
	int r = box_open(&b, rq, e);

	l.box = &b;
	cut_tag(named ? named : "", l.name);
	if (r == 0)
		r = registry_list(&b.registry, 1, list_e2b_snapshot, &l, e);
	box_close(&b);
	json_array_foreach (l.list, i, one)
		if (i >= after && json_array_size(page) < limit)
			json_array_append(page, one);
	if (after + json_array_size(page) < json_array_size(l.list))
		snprintf(next, sizeof(next), "%zu", (size_t)after + json_array_size(page));
	json_decref(l.list);
	if (r < 0) {
		json_decref(page);
		return -1;
	}
	r = http_reply_json(rq, 0, page, e);
	return r == 0 && next[0] ? http_reply_header(rq, "X-Next-Token", next, e) : r;
}

static int delete_template(struct http_request *rq, struct err *e)
{
	const char *text = http_param(rq, "template");
	autojson json_t *record = NULL;
	struct box b;
	int r = find_e2b_snapshot(&b, rq, text, &record, e);

	if (r > 0)
		r = forget_e2b_snapshot(rq, b.id, e);
	else if (r == 0)
		r = err_set(e, ERR_NOT_FOUND, "snapshot %.80s not found", text);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* ---- forks ---------------------------------------------------------------------------------- */

/* Each succeeds or fails by itself: {"sandbox"} or {"error"}. */
static json_t *make_e2b_fork(struct http_request *rq, struct box *b, const json_t *record,
			 const char *point, json_int_t timeout)
{
	const struct e2b_lifecycle l = e2b_lifecycle_in(record);
	const json_int_t ttl = (timeout ? timeout : 1) + (l.pauses ? E2B_PAUSE_SPARE_S : 0);
	autojson json_t *body = json_pack("{s:s,s:{s:o}}", "checkpoint", point, "options", "ttl",
					  json_sprintf("%llds", (long long)ttl));
	autojson json_t *made = NULL;
	struct err e = { 0 };
	const char *id;
	json_t *answer;

	made = body ? api_fork(rq, b, body, NULL, &e) : NULL;
	id = e2b_snapshot_id(made);
	if (id && e2b_network_inherit(rq, b, id, &e) < 0)
		id = NULL;
	if (id && l.pauses && e2b_pause_at_end(rq, id, timeout, &l, &e) < 0)
		id = NULL;
	answer = id ? e2b_answer(rq, id, e2b_label(record, E2B_TEMPLATE), &e) : NULL;
	return answer ? json_pack("{s:o}", "sandbox", answer) :
			json_pack("{s:o}", "error", e2b_error(&e));
}

static int post_e2b_fork(struct http_request *rq, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL, *point = NULL;
	const json_t *number = json_object_get(http_json(rq), "count");
	json_int_t count = json_is_integer(number) ? json_integer_value(number) : 1, timeout, i;
	struct box b = { .sock = -1, .lock_fd = -1 };
	json_t *all = NULL;
	const char *id = NULL;

	if ((number && !json_is_integer(number)) || count < 1 || count > FORKS_MAX)
		return err_set(e, ERR_INVALID, "count is not a number from 1 to %d", FORKS_MAX);
	if (e2b_timeout(http_json(rq), &timeout, e) < 0)
		return -1;
	if (e2b_look(&b, rq, &record, &live, e) == 0)
		point = api_own_checkpoint(&b, e);
	id = json_string_value(json_object_get(point, "checkpoint"));
	if (id)
		all = json_array();
	for (i = 0; all && i < count && http_wait(rq, -1, 0, 0, e) >= 0; i++)
		json_array_append_new(all, make_e2b_fork(rq, &b, record, id, timeout));
	if (id)
		api_drop_checkpoint(&b, id);
	box_close(&b);
	return all ? http_reply_json(rq, 0, all, e) : -1;
}

const struct http_route e2b_snapshot_routes[] = {
	{ "POST", "/sandboxes/{id}/snapshots", post_snapshot,
	  "E2B: keep its files as they are, beyond its end", HTTP_JSON, HTTP_OPTIONAL,
	  .response = "Document", .status = 201, ERRORS },
	{ "GET", "/snapshots", get_snapshots, "E2B: list snapshots",
	  .query = "sandboxID:string name:string limit:integer nextToken:integer",
	  .response = "Documents", ERRORS },
	{ "DELETE", "/templates/{template}", delete_template, "E2B: remove a snapshot",
	  .status = 204, ERRORS },
	{ "POST", "/sandboxes/{id}/fork", post_e2b_fork,
	  "E2B: sandboxes that begin with its files, each with its own result", HTTP_JSON,
	  HTTP_OPTIONAL, .response = "Documents", .status = 201, ERRORS },
	{ NULL },
};
