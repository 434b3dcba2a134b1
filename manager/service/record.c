/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's records of sandboxes: their states, and how they are read and written. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/service/state.h"

/* ---- states ---- */

/*
 * The states of a record, and the events that lead from one to the next.
 *
 *   creating   written ahead of whatever is made for it; the next start undoes it
 *   warm       a sandbox of a pool, which runs and has no owner
 *   running    a client's; "status" says whether the sandbox runs, has stopped, or is archived
 *   recycled   its lease has ended: what it had is stored, and nothing is left on the host
 *   replaced   a restore has made another of it, to which "redirect_to" leads
 *   released   nothing is left
 *   error      unusable, or its release has failed: that is tried again
 */

static const char *const state_names[] = {
	[STATE_UNKNOWN] = "", [STATE_CREATING] = "creating", [STATE_WARM] = "warm",
	[STATE_RUNNING] = "running", [STATE_RECYCLED] = "recycled", [STATE_REPLACED] = "replaced",
	[STATE_RELEASED] = "released", [STATE_ERROR] = "error",
};
_Static_assert(ARRAY_LEN(state_names) == STATES, "each state has its word");

static const char *const event_names[] = {
	[EVENT_POOLED] = "joins a pool", [EVENT_OWNED] = "gets an owner",
	[EVENT_SPOILED] = "is found unusable", [EVENT_RECYCLED] = "is recycled",
	[EVENT_REPLACED] = "is restored", [EVENT_RELEASED] = "is released",
};
_Static_assert(ARRAY_LEN(event_names) == STATE_EVENTS, "each event has its words");

/* STATE_UNKNOWN, which is 0: the event does not come in that state. */
static const enum record_state next_states[STATES][STATE_EVENTS] = {
	[STATE_UNKNOWN] = { [EVENT_SPOILED] = STATE_ERROR,	/* written by a newer berthd */
			    [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_CREATING] = { [EVENT_POOLED] = STATE_WARM, [EVENT_OWNED] = STATE_RUNNING,
			     [EVENT_SPOILED] = STATE_ERROR, [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_WARM] = { [EVENT_OWNED] = STATE_RUNNING, [EVENT_SPOILED] = STATE_ERROR,
			 [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_RUNNING] = { [EVENT_SPOILED] = STATE_ERROR, [EVENT_RECYCLED] = STATE_RECYCLED,
			    [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_RECYCLED] = { [EVENT_REPLACED] = STATE_REPLACED, [EVENT_SPOILED] = STATE_ERROR,
			     [EVENT_RELEASED] = STATE_RELEASED },
	[STATE_RELEASED] = { [EVENT_SPOILED] = STATE_ERROR },	/* it could not be written */
	[STATE_ERROR] = { [EVENT_SPOILED] = STATE_ERROR, [EVENT_RELEASED] = STATE_RELEASED },
};

enum record_state record_state(const struct record *r)
{
	const char *word = record_str(r, "state");
	int i;

	for (i = STATES - 1; i > STATE_UNKNOWN; i--)
		if (!strcmp(word, state_names[i]))
			break;
	return (enum record_state)i;
}

int record_is(const struct record *r, enum record_state state)
{
	return record_state(r) == state;
}

int record_is_over(const struct record *r)
{
	return record_is(r, STATE_RELEASED) || record_is(r, STATE_REPLACED);
}

const char *record_state_name(enum record_state state)
{
	return state_names[state];
}

int record_step(struct record *r, enum record_event event, struct err *e)
{
	const enum record_state to = next_states[record_state(r)][event];

	if (to == STATE_UNKNOWN)
		return err_set(e, ERR_INTERNAL, "sandbox %s %s while its record is '%.20s'", r->name,
			       event_names[event], record_str(r, "state"));
	json_object_set_new(r->j, "state", json_string(state_names[to]));
	record_touch(r);
	return 0;
}

void record_touch(struct record *r)
{
	json_object_set_new(r->j, "updated_at", json_real(wall_seconds()));
}

static const char *const status_names[] = {
	[RUN_OTHER] = "", [RUN_RUNS] = "running", [RUN_STOPPED] = "stopped",
	[RUN_ARCHIVED] = "archived",
};
_Static_assert(ARRAY_LEN(status_names) == RUN_STATUSES, "each status has its word");

enum run_status record_run(const struct record *r)
{
	const char *word = record_own(r, "status");
	int i;

	for (i = RUN_STATUSES - 1; i > RUN_OTHER; i--)
		if (!strcmp(word, status_names[i]))
			break;
	return (enum run_status)i;
}

const char *record_run_name(enum run_status status)
{
	return status_names[status];
}

void record_set_run(struct record *r, enum run_status status)
{
	record_set_own(r, "status", json_string(status_names[status]));
}

/* ---- records ---- */

#define CHANGE_TRIES 5
#define REDIRECTS_MAX 64
#define USES_NOTED 8	/* per released_ttl */

double wall_seconds(void)
{
	return (double)clock_wall_ms() / 1000;
}

void record_close(struct record *r)
{
	json_decref(r->j);
	r->j = NULL;
}

const char *record_str(const struct record *r, const char *key)
{
	const char *v = json_string_value(json_object_get(r->j, key));

	return v ? v : "";
}

const char *record_own(const struct record *r, const char *key)
{
	const char *v = json_string_value(json_object_get(json_object_get(r->j, "berth"), key));

	return v ? v : "";
}

uint64_t record_own_u64(const struct record *r, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(json_object_get(r->j, "berth"), key));

	return v > 0 ? (uint64_t)v : 0;
}

void record_set_own(struct record *r, const char *key, json_t *v)
{
	json_t *own = json_object_get(r->j, "berth");

	if (!own) {
		own = json_object();
		json_object_set_new(r->j, "berth", own);
	}
	json_object_set_new(own, key, v);
}

void record_show(struct record *r)
{
	const char *type = record_str(r, "sandbox_type"), *image = record_str(r, "version");

	mcp_hide(r);
	json_object_set(r->j, "image", json_object_get(r->j, "version"));
	/* agentscope's client finds the class of a living sandbox by the type's name in the name of its image */
	if (!strstr(image, type))
		json_object_set(r->j, "version", json_object_get(r->j, "sandbox_type"));
}

int record_failed_lately(const struct record *r, uint64_t used_ms)
{
	uint64_t at = record_own_u64(r, "failed_ms"), now = clock_wall_ms();
	int refused = json_is_true(json_object_get(json_object_get(r->j, "berth"), "refused"));

	return at && now >= at && now - at < (refused && used_ms <= at ? REFUSED_MS : FAILED_MS);
}

void record_clear_failed(struct record *r)
{
	json_t *own = json_object_get(r->j, "berth");

	json_object_del(own, "failed_ms");
	json_object_del(own, "refused");
	json_object_del(own, "failed");
}

static void record_key(char out[LEDGER_KEY_MAX + 1], const char *name, int over)
{
	snprintf(out, LEDGER_KEY_MAX + 1, "%s%s", over ? OVER_PREFIX : RECORD_PREFIX, name);
}

/*
 * Loads a record; it tries the key of a live record first: a record that is moved meanwhile is
 * found at the second look.
 */
static int load_key(struct service *s, const char *name, struct record *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	char key[LEDGER_KEY_MAX + 1];
	int r;

	for (ret->over = 0; ret->over < 2; ret->over++) {
		record_key(key, name, ret->over);
		r = ledger_get(s->ledger, key, &b, &ret->version, e);
		if (r)
			break;
	}
	if (r < 1)
		return r;
	json_decref(ret->j);
	ret->j = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, key, e);
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	return ret->j ? 1 : -1;
}

static int no_such_record(const char *identity, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "no sandbox '%.80s'", identity);
}

struct by_container {
	const char *id;
	char name[65];
};

static int is_container(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct by_container *c = ctx;
	struct record r = { .version = version };
	struct err ignored;

	if (!strstr(value, c->id))
		return 0;
	/* text that a tenant put into its record may look the same */
	r.j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored);
	if (r.j && !strcmp(record_str(&r, "container_id"), c->id))
		snprintf(c->name, sizeof(c->name), "%s", record_str(&r, "container_name"));
	record_close(&r);
	return 0;
}

int record_scan_all(struct service *s, ledger_each *each, void *ctx, struct err *e)
{
	int r = ledger_scan(s->ledger, RECORD_PREFIX, each, ctx, e);

	return r ? r : ledger_scan(s->ledger, OVER_PREFIX, each, ctx, e);
}

/* agentscope's clients may name a sandbox by its container_id too: none of ours, so not in a key. */
static int load_container(struct service *s, const char *id, struct record *ret, struct err *e)
{
	struct by_container c = { .id = id };

	if (strlen(id) != 12 || strspn(id, "0123456789abcdef") != 12)
		return 0;
	if (record_scan_all(s, is_container, &c, e) < 0)
		return -1;
	return c.name[0] ? load_key(s, c.name, ret, e) : 0;
}

/* Finds a record by its name, the session id, the name that its owner gave it, or container_id. */
static int find_record_of_identity(struct service *s, const char *identity, struct record *ret, struct err *e)
{
	char name[80];
	int r = load_key(s, identity, ret, e);

	if (r == 0 && strlen(identity) < 50) {
		snprintf(name, sizeof(name), NAME_PREFIX "%s", identity);
		r = load_key(s, name, ret, e);
	}
	if (r == 0 && (r = given_find(s, identity, name, e)) > 0)
		r = load_key(s, name, ret, e);
	return r ? r : load_container(s, identity, ret, e);
}

struct redirect {
	const char *to;
	uint64_t now_ms, every_ms;
};

static int change_redirect(struct record *r, void *ctx, struct err *e)
{
	const struct redirect *d = ctx;
	uint64_t used = record_own_u64(r, "used_ms");

	(void)e;
	if (!record_is(r, STATE_REPLACED) || (!strcmp(record_str(r, "redirect_to"), d->to) && d->now_ms >= used && d->now_ms - used < d->every_ms))
		return 0;
	json_object_set_new(r->j, "redirect_to", json_string(d->to));
	record_set_own(r, "used_ms", json_integer((json_int_t)d->now_ms));
	return 1;
}

/*
 * A client that knows a sandbox by a name from before a restore continues with that name. Each
 * use keeps the name for another released_ttl and redirects it to the last record, so the
 * records in between may be removed.
 */
static int follow_redirects(struct service *s, const struct service_who *who, struct record *ret, struct err *e)
{
	struct redirect d = { .now_ms = clock_wall_ms() };
	char first[65], next[65];
	struct err ignored;
	int hops, r = 1;

	memcpy(first, ret->name, sizeof(first));
	for (hops = 0; r == 1 && record_is(ret, STATE_REPLACED) && hops < REDIRECTS_MAX; hops++) {
		snprintf(next, sizeof(next), "%s", record_str(ret, "redirect_to"));
		r = path_is_name(next) ? load_key(s, next, ret, e) : 0;
	}
	if (r == 1 && who && !record_is_over(ret) && (who->admin || !strcmp(record_own(ret, "owner"), who->name))) {
		pthread_rwlock_rdlock(&s->conf_lock);
		d.every_ms = s->conf.released_ttl_ms / USES_NOTED;
		pthread_rwlock_unlock(&s->conf_lock);
		d.to = ret->name;
		record_change(s, first, change_redirect, &d, &ignored);
	}
	return r;
}

int record_load(struct service *s, const struct service_who *who, const char *identity, int follow, struct record *ret, struct err *e)
{
	int r;

	*ret = (struct record){ .j = NULL };
	if (!path_is_name(identity))
		return no_such_record(identity, e);
	r = find_record_of_identity(s, identity, ret, e);
	if (r == 1 && follow && record_is(ret, STATE_REPLACED))
		r = follow_redirects(s, who, ret, e);
	if (r == 1 && who && !who->admin && strcmp(record_own(ret, "owner"), who->name))
		r = 0;	/* the same answer as for a record that does not exist */
	if (r == 1 && who && record_is(ret, STATE_CREATING))
		r = 0;	/* no client has been told of it yet */
	if (r == 1)
		return 0;
	record_close(ret);
	return r < 0 ? -1 : no_such_record(identity, e);
}

int record_save(struct service *s, struct record *r, const struct ledger_op *more, size_t n, struct err *e)
{
	autofree char *text = json_dumps(r->j, JSON_COMPACT);
	char key[LEDGER_KEY_MAX + 1], old[LEDGER_KEY_MAX + 1];
	struct ledger_op ops[LEDGER_OPS_MAX];
	int over = record_is_over(r);
	uint64_t version = r->version;

	if (!text)
		return err_nomem(e);
	if (n + 2 > LEDGER_OPS_MAX)
		return err_set(e, ERR_LIMIT, "too many changes at once");
	record_key(key, r->name, over);
	record_key(old, r->name, r->over);
	if (n)
		memcpy(ops, more, n * sizeof(*ops));
	if (over != r->over) {
		if (version != LEDGER_ABSENT)
			ops[n++] = (struct ledger_op){ LEDGER_DELETE, old, NULL, version, 0 };
		version = LEDGER_ANY;
	}
	ops[n] = (struct ledger_op){ LEDGER_SET, key, text, version, 0 };
	if (ledger_commit(s->ledger, ops, n + 1, &version, e) < 0)
		return -1;
	r->version = version;
	r->over = over;
	return 0;
}

static int change_once(struct service *s, const char *name, int (*change)(struct record *r, void *ctx, struct err *e), void *ctx,
		       struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int changed;

	if (record_load(s, NULL, name, 0, &r, e) < 0)
		return -1;
	changed = change(&r, ctx, e);
	return changed > 0 ? record_save(s, &r, NULL, 0, e) : changed;
}

int record_change(struct service *s, const char *name, int (*change)(struct record *r, void *ctx, struct err *e), void *ctx, struct err *e)
{
	int tries = 0, r;

	do
		r = change_once(s, name, change, ctx, e);
	while (r < 0 && e->code == ERR_BUSY && ++tries < CHANGE_TRIES);
	return r;
}

int record_delete(struct service *s, struct record *r, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op op = { LEDGER_DELETE, key, NULL, r->version, 0 };

	record_key(key, r->name, r->over);
	return ledger_commit(s->ledger, &op, 1, NULL, e);
}
