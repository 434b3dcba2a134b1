/* SPDX-License-Identifier: Apache-2.0 */
/* What of admission is taken by whom: one place for each sandbox of this berthd, by its name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/service/state.h"

struct place {
	struct place *next;
	char name[65];
	uint64_t memory_bytes, cpu_milli;
	int being_made;
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

static void add(struct service *s, struct place *p)
{
	pthread_mutex_lock(&s->lock);
	p->next = s->places;
	s->places = p;
	pthread_mutex_unlock(&s->lock);
}

int place_enter(struct service *s, const char *name, uint64_t memory_bytes, uint64_t cpu_milli, const struct admission_asker *asker,
		struct err *e)
{
	/* first: what admission counts must have a place that gives it back */
	struct place *p = new_place(name, memory_bytes, cpu_milli, e);

	if (!p || admission_enter(&s->admission, memory_bytes, cpu_milli, asker, e) < 0) {
		free(p);
		return -1;
	}
	p->being_made = 1;
	add(s, p);
	return 0;
}

int place_take_over(struct service *s, const char *name, uint64_t memory_bytes, uint64_t cpu_milli, struct err *e)
{
	struct place *p = new_place(name, memory_bytes, cpu_milli, e);

	if (!p)
		return -1;
	admission_count(&s->admission, memory_bytes, cpu_milli);
	add(s, p);
	return 0;
}

void place_made(struct service *s, const char *name)
{
	struct place *p;

	pthread_mutex_lock(&s->lock);
	for (p = s->places; p; p = p->next)
		if (!strcmp(p->name, name))
			p->being_made = 0;
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

/* Those whose records another berthd has ended; one that is being made has no record at first. */
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
		    record_is_over(&r) || record_is(&r, "recycled"))
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
