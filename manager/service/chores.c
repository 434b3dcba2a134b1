/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives, releases and reaping that no request asked for: the scans start them and go on, so
 * that one tenant's large folder does not delay the scan of the others' sandboxes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/service/state.h"

#define CHORES_MAX 8
#define TENANTS_MAX 3	/* of one tenant: two with many large folders leave room for a third */
#define STACK_BYTES (1u << 20)

struct chore {
	struct chore *next;
	struct service *s;
	chore_fn *work;
	char name[SESSION_MAX + 1], tenant[100];
};

static int has_room(const struct service *s, const struct chore *new)
{
	const struct chore *c;
	unsigned n = 0, tenants = 0;

	for (c = s->chores; c; c = c->next, n++) {
		if (c->work == new->work && !strcmp(c->name, new->name))
			return 0;
		tenants += !strcmp(c->tenant, new->tenant);
	}
	return !s->stopping && n < CHORES_MAX && tenants < TENANTS_MAX;
}

static void forget(struct chore *chore)
{
	struct service *s = chore->s;
	struct chore **at;

	pthread_mutex_lock(&s->lock);
	for (at = &s->chores; *at != chore; at = &(*at)->next)
		;
	*at = chore->next;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	free(chore);
}

static void *do_chore(void *arg)
{
	struct chore *c = arg;

	c->work(c->s, c->name);
	forget(c);
	return NULL;
}

void chore_begin(struct service *s, chore_fn *work, const char *name, const char *tenant)
{
	struct chore *c = calloc(1, sizeof(*c));
	pthread_attr_t a;
	pthread_t thread;
	int room;

	if (!c)
		return;	/* until the next scan */
	c->s = s;
	c->work = work;
	snprintf(c->name, sizeof(c->name), "%s", name);
	snprintf(c->tenant, sizeof(c->tenant), "%s", tenant);
	pthread_mutex_lock(&s->lock);
	room = has_room(s, c);
	if (room) {
		c->next = s->chores;
		s->chores = c;
	}
	pthread_mutex_unlock(&s->lock);
	if (!room) {
		free(c);
		return;
	}
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, STACK_BYTES);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &a, do_chore, c))
		forget(c);
	pthread_attr_destroy(&a);
}

void chores_wait(struct service *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->chores)
		pthread_cond_wait(&s->wake, &s->lock);
	pthread_mutex_unlock(&s->lock);
}
