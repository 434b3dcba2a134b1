/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's control plane: sandboxes.  A template is an image's name, and "base" (or what else E2B's
 * SDKs take when none is said) the configuration's image.  A timeout is the sandbox's ttl, at whose
 * end the sandbox's keeper removes or pauses it; a paused sandbox has none (e2b_snapshot.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/api/box.h"
#include "manager/api/e2b.h"
#include "manager/api/once.h"
#include "manager/api/preview.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/pings.h"
#include "manager/keeper/protocol.h"

/* ---- the body of create ---- */

/*
 * The body of E2B's create, as that of POST /v1/sandboxes.  Pure.  What berth does not do is
 * refused: a sandbox with less of a guard than was asked for is worse than none.
 */

/* The default template, if a client names none. */
static int is_preset(const char *template)
{
	static const char *const presets[] = { "base", "code-interpreter-v1", "desktop",
					       "mcp-gateway" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(presets); i++)
		if (!strcmp(template, presets[i]))
			return 1;
	return 0;
}

static int check_e2b_create_members(const json_t *body, struct err *e)
{
	const json_t *mcp = json_object_get(body, "mcp");
	const char *name;
	json_t *v;

	if (!json_is_string(json_object_get(body, "templateID")))
		return err_set(e, ERR_INVALID, "templateID is missing");
	if (e2b_rules_given(body, "iam"))
		return err_set(e, ERR_UNSUPPORTED,
			       "iam is not served: no cloud gives credentials to a sandbox");
	/* the SDK itself runs the image's mcp-gateway with these servers */
	if (mcp && !json_is_object(mcp) && !json_is_null(mcp))
		return err_set(e, ERR_INVALID, "mcp is not an object");
	json_object_foreach(json_object_get(body, "metadata"), name, v)
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "metadata has a value that is not a string");
	return 0;
}

/* ---- volumes -------------------------------------------------------------------------------- */

/* [{"name","path"}] as the option volume; a new reference, or NULL with e. */
static json_t *volumes_of(const json_t *body, struct err *e)
{
	json_t *mounts = json_object_get(body, "volumeMounts"), *one, *list = json_array();
	int bad = mounts && !json_is_array(mounts) && !json_is_null(mounts);
	size_t i;

	json_array_foreach(mounts, i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));
		const char *path = json_string_value(json_object_get(one, "path"));

		/* a name with a slash would be a directory of the host */
		bad |= !name || !path || !name[0] || strpbrk(name, "/:") || path[0] != '/' ||
		       strchr(path, ':');
		if (!bad)
			json_array_append_new(list, json_sprintf("%s:%s:rw", name, path));
	}
	if (!bad)
		return list;
	err_set(e, ERR_INVALID, "volumeMounts is not an array of names and paths");
	json_decref(list);
	return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static json_t *labels_of(const json_t *body, const char *template)
{
	const json_t *metadata = json_object_get(body, "metadata");
	json_t *labels =
		json_pack("[o]", json_sprintf(E2B_TEMPLATE "=%s", template));
	autofree char *text = NULL;

	if (json_is_object(metadata))
		text = json_dumps(metadata, JSON_COMPACT | JSON_SORT_KEYS);
	if (text)
		json_array_append_new(labels, json_sprintf(E2B_METADATA "=%s", text));
	return labels;
}

json_t *e2b_create_request(const json_t *body, json_int_t timeout, int pauses, struct err *e)
{
	const char *template = json_string_value(json_object_get(body, "templateID"));
	json_t *envs, *volumes, *request, *options;
	char ttl[32];

	if (check_e2b_create_members(body, e) < 0)
		return NULL;
	volumes = volumes_of(body, e);
	envs = volumes ? e2b_env(json_object_get(body, "envVars"), e) : NULL;
	if (!envs) {
		json_decref(volumes);
		return NULL;
	}
	if (!timeout)
		timeout = 1;
	/* e2b_pause_at_end() gives it its own time: until then it must not end */
	if (pauses)
		timeout += E2B_PAUSE_SPARE_S;
	snprintf(ttl, sizeof(ttl), "%llds", (long long)timeout);
	options = json_pack("{s:s,s:o,s:o,s:o}", "ttl", ttl, "env", envs, "label",
			    labels_of(body, template), "volume", volumes);
	request = json_pack("{s:o}", "options", options);
	if (!is_preset(template))
		json_object_set_new(request, "image", json_string(template));
	return request;
}

/* ---- sandboxes ---- */

#define ENVD_VERSION "0.6.4" /* what of envd's is here: octet-stream, the end of stdin */
#define TIMEOUT_S 300
#define TIMEOUT_S_MAX 31536000
#define LIST_MAX 100
#define METRICS_SLACK_S 5

/* ---- create -------------------------------------------------------------------------- */

int e2b_timeout(const json_t *body, json_int_t *ret, struct err *e)
{
	const json_t *v = json_object_get(body, "timeout");

	*ret = TIMEOUT_S;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    json_integer_value(v) > TIMEOUT_S_MAX)
		return err_set(e, ERR_INVALID, "timeout is not a number of seconds from 0 to %d",
			       TIMEOUT_S_MAX);
	*ret = json_integer_value(v);
	return 0;
}

json_t *e2b_answer(struct http_request *rq, const char *id, const char *template, struct err *e)
{
	json_t *key = e2b_key(rq, id, e);
	char domain[220];

	/* some requests carry the one, some the other */
	return key ? json_pack("{s:s,s:s,s:s,s:s,s:O,s:o,s:s?}", "sandboxID", id, "templateID",
			       template ? template : "base", "clientID", "berth", "envdVersion",
			       ENVD_VERSION, "envdAccessToken", key, "trafficAccessToken", key,
			       "domain", preview_domain(api_of(rq)->previews, domain, sizeof(domain))) :
		     NULL;
}

int e2b_reply_new(struct http_request *rq, int status, const char *id, const char *template,
		  struct err *e)
{
	json_t *answer = e2b_answer(rq, id, template, e);

	return answer ? http_reply_json(rq, status, answer, e) : -1;
}

/*
 * What was asked of its network, for getInfo() and for previews.  A sandbox without this note would
 * have public ports, so none stays when it cannot be written.
 */
static int note_asked_network(struct http_request *rq, const char *id, struct err *e)
{
	const json_t *body = http_json(rq);
	struct err ignored;
	struct box b;
	int r;

	if (!json_object_get(body, "network") && !json_object_get(body, "allow_internet_access"))
		return 0;
	r = box_open(&b, rq, e);
	if (r == 0) {
		snprintf(b.id, sizeof(b.id), "%s", id);
		r = e2b_network_note(&b, json_object_get(body, "allow_internet_access"),
				     json_object_get(body, "network"), e);
	}
	box_close(&b);
	if (r < 0)
		(void)api_remove(rq, id, &ignored);
	return r;
}

static int post_sandbox(struct http_request *rq, struct err *e)
{
	autojson json_t *request = NULL, *made = NULL, *key = NULL, *network = NULL;
	struct e2b_lifecycle lifecycle;
	struct once_made found = { .id = "" };
	struct once o = { .table = NULL };
	struct config c;
	json_int_t timeout;
	int r;

	api_config(api_of(rq), &c);
	if (e2b_timeout(http_json(rq), &timeout, e) == 0 &&
	    e2b_lifecycle_of(http_json(rq), timeout, &lifecycle, e) == 0)
		network = e2b_rules_of_create(http_json(rq), c.network_enabled, e);
	/* what berthd itself adds */
	if (network)
		json_object_set_new(network, "mark", json_pack("[s]", E2B_FACE "=e2b"));
	request = network ? e2b_create_request(http_json(rq), timeout, lifecycle.pauses, e) : NULL;
	/* keys can be made, before there is a sandbox that would stay without one */
	key = request ? e2b_key(rq, "any", e) : NULL;
	r = key ? once_begin(&o, rq, &found, e) : -1;
	if (r > 0)
		return e2b_reply_new(rq, 201, found.id, json_string_value(json_object_get(http_json(rq), "templateID")), e) < 0 ?
			       -1 : once_replayed(rq, e);
	if (r == 0 && o.word[0])
		json_array_append_new(json_object_get(network, "mark"), json_sprintf(LABEL_REQUEST "=%s", o.word));
	made = r < 0 ? NULL :
	       json_object_get(request, "image") && e2b_is_snapshot(rq, e) ?
		      e2b_from_snapshot(rq, request, network, e) :
		      api_create(rq, request, network, e);
	if (made)
		snprintf(found.id, sizeof(found.id), "%s", json_string_value(json_object_get(made, "id")));
	once_end(&o, made ? &found : NULL);
	if (!made)
		return -1;
	if (lifecycle.pauses &&
	    e2b_pause_at_end(rq, json_string_value(json_object_get(made, "id")), timeout,
			     &lifecycle, e) < 0)
		return -1;
	if (note_asked_network(rq, json_string_value(json_object_get(made, "id")), e) < 0)
		return -1;
	return e2b_reply_new(rq, 201, json_string_value(json_object_get(made, "id")),
			 json_string_value(json_object_get(http_json(rq), "templateID")), e);
}

/* ---- looking ----------------------------------------------------------------------------- */

const char *e2b_label(const json_t *record, const char *key)
{
	return json_string_value(json_object_get(json_object_get(record, "labels"), key));
}

static int is_e2b(const json_t *record)
{
	const char *face = e2b_label(record, E2B_FACE);

	return face && !strcmp(face, "e2b");
}

static json_t *when(int64_t wall_ms)
{
	time_t t = (time_t)(wall_ms / 1000);
	char text[40] = "";
	struct tm tm;

	if (gmtime_r(&t, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}

static json_t *e2b_metadata_of(const json_t *record)
{
	const char *text = e2b_label(record, E2B_METADATA);
	struct err ignored;
	json_t *j = text ? json_parse(text, strlen(text), 8192, E2B_METADATA, &ignored) : NULL;

	return j ? j : json_object();
}

static json_t *describe_e2b_sandbox(const json_t *record, const json_t *live)
{
	const char *template = e2b_label(record, E2B_TEMPLATE);
	json_int_t ends = json_integer_value(json_object_get(record, "expires_ms"));
	json_int_t memory = json_integer_value(json_object_get(live, "memory_limit_bytes"));
	json_int_t milli = json_integer_value(json_object_get(live, "cpu_limit_milli"));
	const struct e2b_lifecycle l = e2b_lifecycle_in(record);

	return json_pack(
		"{s:O,s:s,s:s,s:O,s:o,s:s,s:I,s:I,s:I,s:o,s:s,s:{s:s,s:b}}", "sandboxID",
		json_object_get(record, "id"), "templateID", template ? template : "base",
		"clientID", "berth", "startedAt", json_object_get(record, "created"), "endAt",
		when(ends ? ends : (int64_t)clock_wall_ms() + TIMEOUT_S_MAX * 1000ll), "state",
		e2b_is_paused(live) ? "paused" : "running", "cpuCount", (milli + 999) / 1000,
		"memoryMB", memory >> 20, "diskSizeMB", (json_int_t)0, "metadata",
		e2b_metadata_of(record), "envdVersion", ENVD_VERSION, "lifecycle", "onTimeout",
		l.pauses ? "pause" : "kill", "autoResume", l.resume_s > 0);
}

static int no_such_e2b_sandbox(struct http_request *rq, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "sandbox %s not found", http_param(rq, "id"));
}

int e2b_look_at_any(struct box *b, struct http_request *rq, json_t **ret_record, json_t **ret_live,
		    struct err *e)
{
	autojson json_t *ping = protocol_request(OP_ping);

	*ret_record = *ret_live = NULL;
	if (box_connect(b, rq, e) < 0) {
		if (e->code != ERR_BUSY)
			return -1;
		b->kept = 1; /* it has stopped now, if not before */
	}
	*ret_record = boxlist_load(b, e);
	if (*ret_record && !is_e2b(*ret_record))
		return no_such_e2b_sandbox(rq, e);
	if (!*ret_record || b->kept)
		return *ret_record ? 0 : -1;
	*ret_live = box_call(b, ping, NULL, 0, NULL, e);
	if (!*ret_live && b->ended && e->code == ERR_BUSY)
		b->kept = 1;
	return *ret_live || b->kept ? 0 : -1;
}

int e2b_look(struct box *b, struct http_request *rq, json_t **ret_record, json_t **ret_live,
	     struct err *e)
{
	int r = e2b_look_at_any(b, rq, ret_record, ret_live, e);

	return r == 0 && !*ret_live ? no_such_e2b_sandbox(rq, e) : r;
}

static int get_e2b_sandbox(struct http_request *rq, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	json_t *description = NULL;
	struct box b;
	int r = e2b_look_at_any(&b, rq, &record, &live, e);

	if (r == 0 && !live)
		live = e2b_when_stopped(&b, b.id);
	if (r == 0) {
		description = describe_e2b_sandbox(record, live);
		e2b_network_tell(&b, description);
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 0, description, e);
}

struct listing {
	struct box *box;
	json_t *list;
};

static int list_e2b_sandbox(void *ctx, const char *id, int kept, json_t *record)
{
	struct listing *l = ctx;

	if (!is_e2b(record) || !box_allowed(l->box, id))
		return 0;
	if (kept) {
		record_set_status(record, RECORD_STOPPED);
		json_object_set_new(record, "live", e2b_when_stopped(l->box, id));
	}
	return json_array_append(l->list, record);
}

static int unescape_twice(char *s)
{
	return http_unescape(s) < 0 ? -1 : http_unescape(s);
}

/* ?metadata=...: the value is itself a query, of names and values that were escaped before. */
static int has_metadata(const json_t *metadata, const char *wanted)
{
	autofree char *text = strdup(wanted ? wanted : "");
	char *part, *save = NULL;

	for (part = text ? strtok_r(text, "&", &save) : NULL; part;
	     part = strtok_r(NULL, "&", &save)) {
		char *value = strchr(part, '=');
		const char *has;

		if (!value)
			return 0;
		*value++ = '\0';
		if (unescape_twice(part) < 0 || unescape_twice(value) < 0)
			return 0;
		has = json_string_value(json_object_get(metadata, part));
		if (!has || strcmp(has, value))
			return 0;
	}
	return 1;
}

/* ?state=a,b&state=c: any of them. */
static int has_state(struct http_request *rq, const char *state)
{
	const char *wanted = http_query_each(rq, "state", 0);
	size_t i, n = strlen(state);

	if (!wanted)
		return 1;
	for (i = 0; (wanted = http_query_each(rq, "state", i)); i++)
		for (; *wanted; wanted += strspn(wanted, ",")) {
			if (strcspn(wanted, ",") == n && !strncmp(wanted, state, n))
				return 1;
			wanted += strcspn(wanted, ",");
		}
	return 0;
}

static int is_e2b_sandbox_wanted(struct http_request *rq, const json_t *one)
{
	const char *after = http_query(rq, "startedAfter"), *template = http_query(rq, "template");

	if (!has_state(rq, json_string_value(json_object_get(one, "state"))))
		return 0;
	/* both are of UTC and of one form up to the second */
	if (after && strncmp(json_string_value(json_object_get(one, "startedAt")), after, 19) < 0)
		return 0;
	if (template && strcmp(template, json_string_value(json_object_get(one, "templateID"))))
		return 0;
	return has_metadata(json_object_get(one, "metadata"), http_query(rq, "metadata"));
}

static int by_age(const void *a, const void *b)
{
	const json_t *one = *(json_t *const *)a, *other = *(json_t *const *)b;
	const int r = strcmp(json_string_value(json_object_get(one, "created")),
			     json_string_value(json_object_get(other, "created")));

	/* of one moment, in an order that every page has */
	return r ? r :
		   strcmp(json_string_value(json_object_get(one, "id")),
			  json_string_value(json_object_get(other, "id")));
}

/* The records in the order that the query names: the newest first, if it names none. */
static int sort(struct http_request *rq, json_t *list, struct err *e)
{
	const char *order = http_query(rq, "order");
	const int asc = order && !strcmp(order, "asc");
	size_t n = json_array_size(list), i;
	autofree json_t **v = calloc(n + 1, sizeof(json_t *));

	if (order && !asc && strcmp(order, "desc"))
		return err_set(e, ERR_INVALID, "order is neither asc nor desc");
	if (!v)
		return err_nomem(e);
	for (i = 0; i < n; i++)
		v[i] = json_incref(json_array_get(list, i));
	qsort(v, n, sizeof(json_t *), by_age);
	for (i = 0; i < n; i++)
		json_array_set_new(list, i, v[asc ? i : n - 1 - i]);
	return 0;
}

static void add_live(json_t *record, const json_t *answer)
{
	json_object_set(record, "live", (json_t *)(size_t)answer);
}

static int get_e2b_sandboxes(struct http_request *rq, struct err *e)
{
	uint64_t limit = http_query_u64(rq, "limit", LIST_MAX),
		 after = http_query_u64(rq, "nextToken", 0), seen = 0;
	struct listing l = { .list = json_array() };
	json_t *found = json_array(), *record;
	char next[24] = "";
	struct box b;
	size_t i;
	int r = box_open(&b, rq, e);

	l.box = &b;
	if (r == 0) /* one whose keeper was killed is not there, whatever was noted of it */
		r = registry_sweep_list(&b.registry, 1, list_e2b_sandbox, &l, e);
	if (r == 0)
		r = sort(rq, l.list, e);
	if (r == 0)
		pings_remember(&b.registry, l.list, api_of(rq)->pings, add_live);
	box_close(&b);
	json_array_foreach(l.list, i, record) {
		autojson json_t *one = describe_e2b_sandbox(record, json_object_get(record, "live"));

		if (!json_object_get(record, "live") || !is_e2b_sandbox_wanted(rq, one) || seen++ < after)
			continue;
		if (json_array_size(found) == limit) {
			snprintf(next, sizeof(next), "%llu", (unsigned long long)(after + limit));
			break;
		}
		json_array_append(found, one);
	}
	json_decref(l.list);
	if (r < 0) {
		json_decref(found);
		return -1;
	}
	r = http_reply_json(rq, 0, found, e);
	return r == 0 && next[0] ? http_reply_header(rq, "X-Next-Token", next, e) : r;
}

/* ---- changing ------------------------------------------------------------------------------ */

static int delete_e2b_sandbox(struct http_request *rq, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	struct box b;
	int r = e2b_look_at_any(&b, rq, &record, &live, e);

	fd_close(&b.sock);
	if (r == 0)
		r = api_remove(rq, b.id, e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* Whether the range of the query, in seconds, has this moment; metrics of the past are not kept. */
static int has_now(struct http_request *rq)
{
	const uint64_t now = clock_wall_ms() / 1000;

	/* a client's clock may differ by a little, and its seconds are rounded */
	return http_query_u64(rq, "start", 0) <= now + METRICS_SLACK_S &&
	       http_query_u64(rq, "end", UINT64_MAX) >= now - METRICS_SLACK_S;
}

static int get_e2b_metrics(struct http_request *rq, struct err *e)
{
	autojson json_t *record = NULL, *live = NULL;
	struct box b;
	int r = e2b_look(&b, rq, &record, &live, e);
	json_int_t milli = json_integer_value(json_object_get(live, "cpu_limit_milli"));
	json_int_t up = json_integer_value(json_object_get(live, "uptime_ms"));
	json_int_t cpu = json_integer_value(json_object_get(live, "cpu_ms"));

	box_close(&b);
	if (r < 0)
		return -1;
	if (!has_now(rq))
		return http_reply_json(rq, 0, json_array(), e);
	return http_reply_json(
		rq, 0,
		json_pack("[{s:o,s:I,s:I,s:f,s:O,s:O,s:I,s:I,s:I}]", "timestamp",
			  when((int64_t)clock_wall_ms()), "timestampUnix",
			  (json_int_t)(clock_wall_ms() / 1000), "cpuCount", (milli + 999) / 1000,
			  "cpuUsedPct", up ? 100.0 * (double)cpu / (double)up : 0.0, "memUsed",
			  json_object_get(live, "memory_bytes"), "memTotal",
			  json_object_get(live, "memory_limit_bytes"), "memCache", (json_int_t)0,
			  "diskUsed", (json_int_t)0, "diskTotal", (json_int_t)0),
		e);
}

#define ERRORS .shape_error = e2b_error, .error_schema = "Document"
#define LIST_QUERY                                                                                 \
	"metadata:string state:strings template:string startedAfter:string limit:integer "         \
	"nextToken:integer order:string"

const struct http_route e2b_sandbox_routes[] = {
	{ "POST", "/sandboxes", post_sandbox, "E2B: make a sandbox", HTTP_JSON, HTTP_ONCE | HTTP_TIMED_CREATE,
	  .response = "Document", .status = 201, ERRORS },
	{ "POST", "/v2/sandboxes", post_sandbox, "E2B: make a sandbox", HTTP_JSON, HTTP_ONCE | HTTP_TIMED_CREATE,
	  .response = "Document", .status = 201, ERRORS },
	{ "GET", "/sandboxes", get_e2b_sandboxes, "E2B: list sandboxes", .query = LIST_QUERY,
	  .response = "Documents", ERRORS },
	{ "GET", "/v2/sandboxes", get_e2b_sandboxes, "E2B: list sandboxes", .query = LIST_QUERY,
	  .response = "Documents", ERRORS },
	{ "GET", "/sandboxes/{id}", get_e2b_sandbox, "E2B: a sandbox", .response = "Document", ERRORS },
	{ "DELETE", "/sandboxes/{id}", delete_e2b_sandbox, "E2B: end and remove a sandbox",
	  .status = 204, ERRORS },
	{ "GET", "/sandboxes/{id}/metrics", get_e2b_metrics, "E2B: what it uses",
	  .query = "start:integer end:integer", .response = "Documents", ERRORS },
	{ NULL },
};

/* ---- the network of one that is there ---- */

/* E2B's rules of the network of a sandbox that is there (e2b_rules.c). */

#define SPEC_FILE "spec.json"

/* ---- what was asked for --------------------------------------------------------------------- */

int e2b_network_note(struct box *b, const json_t *access, const json_t *network, struct err *e)
{
	static const struct {
		const char *name;
		int stays;
	} members[] = {
		{"allowOut", 0}, {"denyOut", 0}, {"allowPublicTraffic", 1}, {"maskRequestHost", 1},
	};
	autojson json_t *note = json_object(), *rules = json_object();
	autojson json_t *before = registry_load(&b->registry, b->id, E2B_NOTE, e);
	size_t i;

	if (!before && e->code != ERR_NOT_FOUND)
		return -1;
	for (i = 0; i < ARRAY_LEN(members); i++) {
		json_t *v = json_object_get(network, members[i].name);

		if (members[i].stays && !json_is_boolean(v) && !json_is_string(v))
			v = json_object_get(json_object_get(before, "network"), members[i].name);
		else if (!members[i].stays && !e2b_rules_given(network, members[i].name))
			v = NULL;
		if (v)
			json_object_set(rules, members[i].name, v);
	}
	if (json_object_size(rules))
		json_object_set(note, "network", rules);
	if (json_is_boolean(access))
		json_object_set(note, "allowInternetAccess", (json_t *)(size_t)access);
	return note && rules ? registry_save(&b->registry, b->id, E2B_NOTE, note, e) :
			       err_nomem(e);
}

void e2b_network_tell(struct box *b, json_t *description)
{
	struct err ignored;
	autojson json_t *note = registry_load(&b->registry, b->id, E2B_NOTE, &ignored);

	if (note)
		json_object_update(description, note);
}

int e2b_network_inherit(struct http_request *rq, struct box *b, const char *id, struct err *e)
{
	autojson json_t *note = registry_load(&b->registry, b->id, E2B_NOTE, e);
	struct err ignored;

	if (note ? registry_save(&b->registry, id, E2B_NOTE, note, e) == 0 : e->code == ERR_NOT_FOUND)
		return 0;
	(void)api_remove(rq, id, &ignored);
	return -1;
}

/* ---- a change -------------------------------------------------------------------------------- */

static const char *e2b_network_mode(const json_t *spec)
{
	const char *mode = "none";
	const json_t *pair;
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, pair)
		if (!strcmp(json_string_value(json_array_get(pair, 0)), "network"))
			mode = json_string_value(json_array_get(pair, 1));
	return mode;
}

static int change_e2b_rules(struct http_request *rq, struct box *b, json_t *options, struct err *e)
{
	json_t *call = call_of("update", b->id, NULL), *made;

	call_flag(call, "reset-rules");
	call_options(call, options);
	made = spawn_json(rq, call, 1, e);
	json_decref(made);
	return made ? 0 : -1;
}

static int apply_e2b_rules(struct http_request *rq, struct box *b, const struct e2b_rules *r, struct err *e)
{
	autojson json_t *options = NULL, *spec = registry_load(&b->registry, b->id, SPEC_FILE, e);
	int egress;

	if (!spec)
		return -1;
	egress = !strcmp(e2b_network_mode(spec), "egress");
	if (!egress && strcmp(e2b_network_mode(spec), "bridge"))
		return r->closed ? 0 : e2b_rules_refuse_none(e);
	if (!egress && json_array_size(r->names))
		return err_set(
			e, ERR_UNSUPPORTED,
			"sandbox %s was made without names in network.allowOut, and rules by "
			"name cannot be added; hint: create it with allowInternetAccess: "
			"false, or with names",
			b->id);
	options = e2b_rules_options(r, egress, e);
	return options ? change_e2b_rules(rq, b, options, e) : -1;
}

int e2b_network_change(struct http_request *rq, struct box *b, const json_t *access, const json_t *network, struct err *e)
{
	autofree struct e2b_rules *r = calloc(1, sizeof(*r));
	int result = r ? e2b_rules_check(network, e) : err_nomem(e);

	if (result == 0)
		result = e2b_rules_read(access, network, r, e);
	if (result == 0)
		result = box_lock(b, e);
	if (result == 0)
		result = apply_e2b_rules(rq, b, r, e);
	if (r)
		json_decref(r->names);
	return result;
}

static int put_network(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq),
		     *access = json_object_get(body, "allow_internet_access");
	autojson json_t *record = NULL, *live = NULL;
	struct box b;
	int result = e2b_look(&b, rq, &record, &live, e);

	if (result == 0)
		result = e2b_network_change(rq, &b, access, body, e);
	if (result == 0)
		result = e2b_network_note(&b, access, body, e);
	box_close(&b);
	return result < 0 ? -1 : http_reply_empty(rq, 204, e);
}

const struct http_route e2b_network_routes[] = {
	{"PUT", "/sandboxes/{id}/network", put_network, "E2B: other rules for its network",
	 HTTP_JSON, .status = 204, .shape_error = e2b_error, .error_schema = "Document"},
	{NULL},
};
