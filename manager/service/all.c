/* SPDX-License-Identifier: Apache-2.0 */
/* All sandboxes that a caller may see: a list of them, and their release at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "manager/service/state.h"

struct lister {
	struct service *s;
	const struct service_who *who;
	/* at: name to place in out, for a list: a sandbox that ends meanwhile is met twice */
	json_t *out, *at;
	int for_cleanup;
	unsigned elsewhere;	/* of a cleanup: those of other hosts */
	char host[65];		/* of the first of them */
};

static void list_add(struct lister *l, json_t *j)
{
	const char *name = json_string_value(json_object_get(j, "container_name"));
	const json_t *at = json_object_get(l->at, name);

	if (at) {
		json_array_set(l->out, (size_t)json_integer_value(at), j);
	} else {
		json_object_set_new(l->at, name, json_integer((json_int_t)json_array_size(l->out)));
		json_array_append(l->out, j);
	}
}

static int is_left(const struct record *r)
{
	const enum record_state state = record_state(r);

	return state == STATE_RUNNING || state == STATE_WARM || state == STATE_ERROR ||
	       state == STATE_RECYCLED;
}

/* The pools of other hosts, and what is archived, are not in a cleanup's way. */
static void note_elsewhere(struct lister *l, const struct record *r)
{
	if (!record_is_elsewhere(l->s, r) || record_is(r, STATE_WARM))
		return;
	if (!l->elsewhere++)
		snprintf(l->host, sizeof(l->host), "%s", record_own(r, "host"));
}

static int list_one(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct lister *l = ctx;
	struct err ignored;
	struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };

	if (r.j && (l->who->admin || !strcmp(record_own(&r, "owner"), l->who->name)) && !record_is(&r, STATE_CREATING) &&
	    (!l->for_cleanup || is_left(&r))) {
		record_show(&r);
		if (l->for_cleanup && !record_is_ours(l->s, &r))
			note_elsewhere(l, &r);
		else if (l->for_cleanup)
			json_array_append(l->out, json_object_get(r.j, "container_name"));
		else
			list_add(l, r.j);
	}
	record_close(&r);
	return 0;
}

json_t *service_list(struct service *s, const struct service_who *who, struct err *e)
{
	autojson json_t *at = json_object();
	struct lister l = { .s = s, .who = who, .out = json_array(), .at = at };

	if (record_scan_all(s, list_one, &l, e) < 0) {
		json_decref(l.out);
		return NULL;
	}
	return l.out;
}

struct cleaner {
	struct service *s;
	const struct service_who *who;
	const json_t *names;
	_Atomic size_t next;
	uint64_t until_ms, drain;
	int discard;
	pthread_mutex_t lock;
	unsigned failed, late;
	struct err first;
};

static void *clean_some(void *arg)
{
	struct cleaner *c = arg;
	size_t i;

	while ((i = c->next++) < json_array_size(c->names)) {
		autorecord struct record r = { .j = NULL };
		uint64_t now = clock_wall_ms(), left = c->until_ms > now ? c->until_ms - now : 0;
		struct err e = { 0 };
		int result = 0;

		if (left && record_load(c->s, c->who, json_string_value(json_array_get(c->names, i)), 0, &r, &e) == 0)
			result = release_locked(c->s, &r, (struct release){ .drain_ms = c->drain < left ? c->drain : left, .discard = c->discard },
						&e);
		pthread_mutex_lock(&c->lock);
		c->late += !left;
		if (result < 0 && !c->failed++)
			c->first = e;
		pthread_mutex_unlock(&c->lock);
	}
	return NULL;
}

#define CLEANERS 16

int service_cleanup(struct service *s, const struct service_who *who, int discard, struct err *e)
{
	struct lister l = { .s = s, .who = who, .out = json_array(), .for_cleanup = 1 };
	struct cleaner c = { .s = s, .who = who, .names = l.out, .drain = service_drain_ms(s), .discard = discard,
			     .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t t[CLEANERS];
	size_t i, n;
	int r = ledger_scan(s->ledger, RECORD_PREFIX, list_one, &l, e) < 0 ? -1 : 0;

	pthread_rwlock_rdlock(&s->conf_lock);
	c.until_ms = clock_wall_ms() + s->conf.shutdown_timeout_ms;
	pthread_rwlock_unlock(&s->conf_lock);
	n = json_array_size(l.out) < CLEANERS ? json_array_size(l.out) : CLEANERS;
	for (i = 0; r == 0 && i < n; i++)
		if (pthread_create(&t[i], NULL, clean_some, &c))
			break;
	if (r == 0 && !i)
		clean_some(&c);
	while (r == 0 && i--)
		pthread_join(t[i], NULL);
	if (r == 0 && (c.failed || c.late)) {
		*e = c.first;
		r = c.failed ? err_wrap(e, "%u of %zu sandboxes could not be released, %u were not come to in time; the first",
					c.failed, json_array_size(l.out), c.late) :
		    err_set(e, ERR_TIMEOUT, "%u of %zu sandboxes were not released in time", c.late, json_array_size(l.out));
	}
	if (r == 0 && l.elsewhere)
		r = err_set(e, ERR_ELSEWHERE, "what is on this host was released, what is on others (%u, the first on host %.64s) was not; "
			    "hint: send the request to the berthd of each", l.elsewhere, l.host);
	json_decref(l.out);
	return r;
}
