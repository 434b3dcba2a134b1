/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of admission: one place for each sandbox of this berthd, by its name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/host/promise.h"
#include "manager/ops/params.h"
#include "manager/service/state.h"

/* ---- places ---- */

struct place {
	struct place *next;
	char name[65], id[65];	/* id: "" until it is there */
	uint64_t memory_bytes, cpu_milli;
	int being_made;
	int stopped;	/* it keeps its memory and CPUs, but does not count in the number */
};

static struct place *new_place(const char *name, uint64_t memory_bytes, uint64_t cpu_milli, struct err *e)
{
	struct place *p = calloc(1, sizeof(*p));

	if (!p) {
		err_nomem(e);
		return NULL;
	}
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->memory_bytes = memory_bytes;
	p->cpu_milli = cpu_milli;
	return p;
}

static void add_place(struct service *s, struct place *p)
{
	pthread_mutex_lock(&s->lock);
	p->next = s->places;
	s->places = p;
	pthread_mutex_unlock(&s->lock);
}

/* ---- the others of this host: those of POST /v1/sandboxes, of /v1/run and of the command line ---- */

struct ours {
	struct service *s;
	const struct registry *registry;
	json_t *ids;
};

/*
 * A sandbox that is being made is found by its record's name, which it has as soon as it is
 * claimed under the lock.
 */
static void list_ours(struct ours *o)
{
	const struct place *p;
	char id[65];
	ssize_t n;

	pthread_mutex_lock(&o->s->lock);
	for (p = o->s->places; p; p = p->next) {
		n = p->id[0] ? 0 : readlinkat(o->registry->names_fd, p->name, id, sizeof(id) - 1);
		id[n > 0 ? n : 0] = '\0';
		if (p->id[0] || id[0])
			json_object_set_new(o->ids, p->id[0] ? p->id : id, json_true());
	}
	pthread_mutex_unlock(&o->s->lock);
}

/* Called with the registry locked. */
static int is_place_ours(void *ctx, const char *id)
{
	struct ours *o = ctx;

	if (!o->ids) {
		o->ids = json_object();
		list_ours(o);
	}
	return json_object_get(o->ids, id) != NULL;
}

static int look_at_others(struct service *s, struct err *e)
{
	struct ours o = { .s = s };
	struct promise_sum sum;
	struct registry reg;
	int r;

	if (registry_open(&reg, &s->config, e) < 0)
		return -1;
	o.registry = &reg;
	r = promise_sum(&reg, is_place_ours, &o, &sum, e);
	registry_close(&reg);
	json_decref(o.ids);
	if (r == 0)
		admission_set_others(&s->admission, sum.running, sum.memory_bytes, sum.cpu_milli);
	return r;
}

/* Looks again for requests that wait for room, which other sandboxes may have given back. */
static void look_again_for_room(void *ctx)
{
	struct err ignored;

	look_at_others(ctx, &ignored);
}

int place_enter(struct service *s, const char *name, uint64_t memory_bytes, uint64_t cpu_milli, const struct admission_asker *asker,
		struct err *e)
{
	/* first, so that everything that admission counts has a place that gives it back */
	struct place *p = new_place(name, memory_bytes, cpu_milli, e);
	struct admission_asker looking = { asker ? asker->gone : NULL, asker ? asker->ctx : NULL, look_again_for_room, s };

	if (!p || look_at_others(s, e) < 0 ||
	    admission_enter(&s->admission, memory_bytes, cpu_milli, asker ? &looking : NULL, e) < 0) {
		free(p);
		return -1;
	}
	p->being_made = 1;
	add_place(s, p);
	return 0;
}

int place_take_over(struct service *s, const char *name, const char *id, uint64_t memory_bytes, uint64_t cpu_milli, struct err *e)
{
	struct place *p = new_place(name, memory_bytes, cpu_milli, e);

	if (!p)
		return -1;
	snprintf(p->id, sizeof(p->id), "%s", id);
	admission_count(&s->admission, memory_bytes, cpu_milli);
	add_place(s, p);
	return 0;
}

void place_made(struct service *s, const char *name, const char *id)
{
	struct place *p;

	pthread_mutex_lock(&s->lock);
	for (p = s->places; p; p = p->next) {
		if (!strcmp(p->name, name)) {
			p->being_made = 0;
			snprintf(p->id, sizeof(p->id), "%s", id);
		}
	}
	pthread_mutex_unlock(&s->lock);
}

void place_drop(struct service *s, const char *name)
{
	struct place **at, *p = NULL;

	pthread_mutex_lock(&s->lock);
	for (at = &s->places; *at; at = &(*at)->next) {
		if (!strcmp((*at)->name, name)) {
			p = *at;
			*at = p->next;
			break;
		}
	}
	pthread_mutex_unlock(&s->lock);
	if (p && p->stopped)
		admission_count(&s->admission, 0, 0);	/* admission_leave() below takes it off again */
	if (p)
		admission_leave(&s->admission, p->memory_bytes, p->cpu_milli);
	free(p);
}

/* Under the lock: the place, or NULL. */
static struct place *find_place(const struct service *s, const char *name)
{
	struct place *p = s->places;

	while (p && strcmp(p->name, name))
		p = p->next;
	return p;
}

void place_stopped(struct service *s, const char *name)
{
	struct place *p;
	int counted;

	pthread_mutex_lock(&s->lock);
	p = find_place(s, name);
	counted = p && !p->stopped;
	if (counted)
		p->stopped = 1;
	pthread_mutex_unlock(&s->lock);
	if (counted)
		admission_leave(&s->admission, 0, 0);
}

void place_runs(struct service *s, const char *name)
{
	struct place *p;
	int counts;

	pthread_mutex_lock(&s->lock);
	p = find_place(s, name);
	counts = p && p->stopped;
	if (counts)
		p->stopped = 0;
	pthread_mutex_unlock(&s->lock);
	if (counts)
		admission_count(&s->admission, 0, 0);
}

int place_starts(struct service *s, const char *name, struct err *e)
{
	struct admission_asker looking = { NULL, NULL, look_again_for_room, s };
	struct place *p;
	int r;

	pthread_mutex_lock(&s->lock);
	p = find_place(s, name);
	r = p && p->stopped;
	pthread_mutex_unlock(&s->lock);
	if (!r)
		return 0;
	if (look_at_others(s, e) < 0 || admission_enter(&s->admission, 0, 0, &looking, e) < 0)
		return -1;
	pthread_mutex_lock(&s->lock);
	p = find_place(s, name);
	r = p && p->stopped;
	if (r)
		p->stopped = 0;
	pthread_mutex_unlock(&s->lock);
	if (!r)
		admission_leave(&s->admission, 0, 0);
	return 0;
}

int place_has(struct service *s, const char *name)
{
	int found;

	pthread_mutex_lock(&s->lock);
	found = find_place(s, name) != NULL;
	pthread_mutex_unlock(&s->lock);
	return found;
}

int place_change(struct service *s, const char *name, uint64_t memory_bytes, uint64_t cpu_milli, struct err *e)
{
	struct place *p;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	p = find_place(s, name);
	if (p)
		r = admission_change(&s->admission, (uint64_t[]){ p->memory_bytes, memory_bytes },
				     (uint64_t[]){ p->cpu_milli, cpu_milli }, e);
	if (p && r == 0) {
		p->memory_bytes = memory_bytes;
		p->cpu_milli = cpu_milli;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

/*
 * Sandboxes whose records another berthd has ended; one that is being made has no record at
 * first.
 */
void places_check(struct service *s)
{
	char (*names)[65] = NULL;
	struct place *p;
	size_t n = 0, i;
	struct err e;

	pthread_mutex_lock(&s->lock);
	for (p = s->places; p; p = p->next)
		n += !p->being_made;
	names = calloc(n ? n : 1, sizeof(*names));
	for (p = s->places, i = 0; names && p; p = p->next)
		if (!p->being_made)
			memcpy(names[i++], p->name, sizeof(p->name));
	pthread_mutex_unlock(&s->lock);
	for (i = 0; names && i < n; i++) {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, NULL, names[i], 0, &r, &e) < 0 ? e.code == ERR_NOT_FOUND :
		    record_is_over(&r) || record_is(&r, STATE_RECYCLED))
			place_drop(s, names[i]);
	}
	free(names);
}

void places_free(struct service *s)
{
	struct place *p;

	while ((p = s->places)) {
		s->places = p->next;
		free(p);
	}
}

/* ---- new limits of a sandbox ---- */

/* Changes limits of a living sandbox, and its share of [admission] with them. */

struct search {
	struct service *s;
	const char *id;
	struct service_limits *l;
};

static int find_limits_of_id(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct search *f = ctx;
	struct err ignored;
	struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };

	if (r.j && record_is_ours(f->s, &r) && (record_is(&r, STATE_RUNNING) || record_is(&r, STATE_WARM)) &&
	    !strcmp(record_str(&r, "container_id"), f->id)) {
		snprintf(f->l->name, sizeof(f->l->name), "%s", record_str(&r, "container_name"));
		f->l->memory_bytes[0] = f->l->memory_bytes[1] = record_own_u64(&r, "memory_bytes");
		f->l->cpu_milli[0] = f->l->cpu_milli[1] = record_own_u64(&r, "cpu_milli");
	}
	record_close(&r);
	return 0;
}

/*
 * Replaces *limit by a new one, NULL for none. If nothing is promised it is unlimited: the sandbox
 * counts as before.
 */
static int read_new_limit(enum param_id id, const json_t *v, uint64_t most, uint64_t *limit, struct err *e)
{
	uint64_t n;

	if (!v)
		return 0;
	if (param_number(param_of(id), v, &n, e) < 0)
		return -1;
	if (n == UINT64_MAX)
		return most ? err_set(e, ERR_LIMIT, "unlimited is more than [admission] has") : 0;
	*limit = n;
	return 0;
}

static int read_new_limits(struct service *s, const json_t *memory, const json_t *cpus, struct service_limits *l, struct err *e)
{
	struct admission_limits has;

	pthread_mutex_lock(&s->admission.lock);
	has = s->admission.limits;
	pthread_mutex_unlock(&s->admission.lock);
	return read_new_limit(PARAM_MEMORY, memory, has.memory_bytes, &l->memory_bytes[1], e) < 0 ||
	       read_new_limit(PARAM_CPUS, cpus, has.cpu_milli, &l->cpu_milli[1], e) < 0 ? -1 : 0;
}

int service_limits_begin(struct service *s, const char *id, const json_t *memory, const json_t *cpus, struct service_limits *l, struct err *e)
{
	struct search f = { s, id, l };

	l->name[0] = '\0';
	if ((!memory && !cpus) || ledger_scan(s->ledger, RECORD_PREFIX, find_limits_of_id, &f, e) < 0)
		return memory || cpus ? -1 : 0;
	if (!l->name[0])
		return 0;
	return read_new_limits(s, memory, cpus, l, e) < 0 ? -1 : place_change(s, l->name, l->memory_bytes[1], l->cpu_milli[1], e);
}

static int write_new_limits(struct record *r, void *ctx, struct err *e)
{
	const struct service_limits *l = ctx;

	(void)e;
	record_set_own(r, "memory_bytes", json_integer((json_int_t)l->memory_bytes[1]));
	record_set_own(r, "cpu_milli", json_integer((json_int_t)l->cpu_milli[1]));
	return 1;
}

int service_limits_end(struct service *s, const struct service_limits *l, int done, struct err *e)
{
	if (!l->name[0])
		return 0;
	if (!done)
		return place_change(s, l->name, l->memory_bytes[0], l->cpu_milli[0], NULL);
	return record_change(s, l->name, write_new_limits, (void *)(size_t)l, e);
}
