/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Docker's client attaches to a container, and waits for its end, before it starts it. These
 * requests wait here until the start, which then tells the keeper how many will come, so that
 * even the shortest command waits for them.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/docker/docker.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"

#define LOOK_MS 100 /* for a start by another process: the command line, a restart */

struct arrivals {
	pthread_mutex_t lock;
	struct arrival *first;
};

struct arrivals *arrivals_new(void)
{
	struct arrivals *l = calloc(1, sizeof(*l));

	if (l)
		pthread_mutex_init(&l->lock, NULL);
	return l;
}

void arrivals_free(struct arrivals *l)
{
	if (l)
		pthread_mutex_destroy(&l->lock);
	free(l);
}

int arrival_join(struct arrivals *l, struct arrival *a, const char *id, struct err *e)
{
	memset(a, 0, sizeof(*a));
	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->fd < 0)
		return err_sys(e, "make an eventfd");
	snprintf(a->id, sizeof(a->id), "%s", id);
	a->list = l;
	pthread_mutex_lock(&l->lock);
	a->next = l->first;
	a->prev = &l->first;
	if (a->next)
		a->next->prev = &a->next;
	l->first = a;
	pthread_mutex_unlock(&l->lock);
	return 0;
}

void arrival_leave(struct arrival *a)
{
	if (a->prev) {
		pthread_mutex_lock(&a->list->lock);
		*a->prev = a->next;
		if (a->next)
			a->next->prev = a->prev;
		pthread_mutex_unlock(&a->list->lock);
		a->prev = NULL;
	}
	fd_close(&a->fd);
}

unsigned arrivals_count(struct arrivals *l, const char *id)
{
	struct arrival *a;
	unsigned n = 0;

	pthread_mutex_lock(&l->lock);
	for (a = l->first; a; a = a->next)
		n += !strcmp(a->id, id) && a->news == ARRIVAL_NONE;
	pthread_mutex_unlock(&l->lock);
	return n;
}

void arrivals_tell(struct arrivals *l, const char *id, enum arrival_news news)
{
	struct arrival *a;

	pthread_mutex_lock(&l->lock);
	for (a = l->first; a; a = a->next)
		if (!strcmp(a->id, id) && a->news == ARRIVAL_NONE) {
			a->news = news;
			(void)!eventfd_write(a->fd, 1);
		}
	pthread_mutex_unlock(&l->lock);
}

static enum arrival_news news_of(struct arrival *a)
{
	enum arrival_news news;

	pthread_mutex_lock(&a->list->lock);
	news = a->news;
	pthread_mutex_unlock(&a->list->lock);
	return news;
}

/* The record of a sandbox that starts is there before its keeper is. */
static int is_up(struct box *b)
{
	struct err ignored;
	autoclose int sock = record_is_there(b->registry.sandboxes_fd, b->id) ?
				     keeper_connect(&b->registry, b->id, &ignored) :
				     -1;

	return sock >= 0;
}

int arrival_wait(struct arrival *a, struct box *b, struct http_request *rq, struct err *e)
{
	enum arrival_news news;

	for (;;) {
		if (http_wait(rq, a->fd, POLLIN, LOOK_MS, e) < 0)
			return -1;
		news = news_of(a);
		if (news != ARRIVAL_NONE)
			return (int)news;
		if (is_up(b))
			return ARRIVAL_STARTED;
		if (!path_has(b->registry.kept_fd, b->id))
			return ARRIVAL_FAILED;
	}
}
