/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/toolproc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "manager/service/state.h"

void toolproc_free(struct toolproc *p)
{
	if (p->running)
		lineproc_stop(&p->proc);
	json_decref(p->config);
	json_decref(p->tools);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void toolproc_drop(struct tools *t, const char *sandbox, const char *name, uint64_t idle_before_ms)
{
	struct toolproc **at, *p, *gone = NULL;

	pthread_mutex_lock(&t->lock);
	for (at = &t->all; (p = *at);) {
		int fits = (!sandbox || !strcmp(p->sandbox, sandbox)) &&
			   (!name || !strcmp(p->name, name)) &&
			   (!idle_before_ms || (p->used_ms < idle_before_ms && !p->users));

		if (!fits) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->doomed = 1;
		if (!p->users) {
			p->next = gone;
			gone = p;
		}
	}
	pthread_mutex_unlock(&t->lock);
	while ((p = gone)) {
		gone = p->next;
		toolproc_free(p);
	}
}

struct toolproc *toolproc_take(struct tools *t, const char *sandbox, const char *name, int make,
			       struct err *e)
{
	struct toolproc *p;

	pthread_mutex_lock(&t->lock);
	for (p = t->all; p && (strcmp(p->sandbox, sandbox) || strcmp(p->name, name)); p = p->next)
		;
	if (!p && make) {
		p = calloc(1, sizeof(*p));
		if (p) {
			snprintf(p->sandbox, sizeof(p->sandbox), "%s", sandbox);
			snprintf(p->name, sizeof(p->name), "%s", name);
			pthread_mutex_init(&p->lock, NULL);
			p->next = t->all;
			t->all = p;
		}
	}
	if (p)
		p->users++;
	pthread_mutex_unlock(&t->lock);
	if (!p) {
		if (make)
			err_nomem(e);
		return NULL;
	}
	pthread_mutex_lock(&p->lock);
	return p;
}

void toolproc_give(struct tools *t, struct toolproc *p, int failed)
{
	int last;

	if (failed && p->running) {
		lineproc_stop(&p->proc);
		p->running = 0;
	}
	pthread_mutex_unlock(&p->lock);
	pthread_mutex_lock(&t->lock);
	p->used_ms = clock_wall_ms();
	last = --p->users == 0 && p->doomed;
	pthread_mutex_unlock(&t->lock);
	if (last)
		toolproc_free(p);
}

int toolproc_start(struct service_use *u, struct toolproc *p, json_t *argv, json_t *env,
		   struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int sock;

	if (p->running)
		return 0;
	if (record_load(u->service, NULL, u->name, 0, &r, e) < 0)
		return -1;
	sock = driver_connect(u->service, &r, e);
	if (sock < 0)
		return -1;
	if (lineproc_start(&p->proc, sock, argv, env, e) < 0)
		return -1;
	p->running = 1;
	return 0;
}
