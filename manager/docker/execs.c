/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/docker/execs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/engine/id.h"

struct entry {
	struct entry *next; /* newer ones first */
	struct exec e;	/* its body is in text */
	char *text;	/* of the body: as JSON it would take many times as much */
	size_t bytes;
};

struct execs {
	pthread_mutex_t lock;
	struct entry *first;
	size_t count, bytes;
};

struct execs *execs_new(void)
{
	struct execs *x = calloc(1, sizeof(*x));

	if (x)
		pthread_mutex_init(&x->lock, NULL);
	return x;
}

static void entry_free(struct entry *n)
{
	free(n->text);
	free(n);
}

void execs_free(struct execs *x)
{
	struct entry *n;

	if (!x)
		return;
	while ((n = x->first)) {
		x->first = n->next;
		entry_free(n);
	}
	pthread_mutex_destroy(&x->lock);
	free(x);
}

static struct entry *find(struct execs *x, const char *id)
{
	struct entry *n = x->first;

	while (n && strcmp(n->e.id, id))
		n = n->next;
	return n;
}

/* With the lock held: removes the oldest that is over or was never started; 0 when there is none. */
static int drop_oldest(struct execs *x)
{
	struct entry **at, **oldest = NULL, *n;

	for (at = &x->first; *at; at = &(*at)->next)
		if ((*at)->e.state == EXEC_ENDED || (*at)->e.state == EXEC_NEW)
			oldest = at;
	if (!oldest)
		return 0;
	n = *oldest;
	*oldest = n->next;
	x->count--;
	x->bytes -= n->bytes;
	entry_free(n);
	return 1;
}

/* With the lock held: room for one more of these bytes, or 0. */
static int make_room(struct execs *x, size_t bytes)
{
	while (x->count >= EXECS_MAX || x->bytes + bytes > EXECS_BYTES_MAX)
		if (!drop_oldest(x))
			return 0;
	return 1;
}

int execs_add(struct execs *x, const char *box, const json_t *body, char ret_id[EXEC_ID],
	      struct err *e)
{
	struct entry *n = calloc(1, sizeof(*n));
	int room;

	if (!n || engine_new_id(n->e.id) < 0 || !(n->text = json_dumps(body, JSON_COMPACT))) {
		free(n);
		return err_nomem(e);
	}
	snprintf(n->e.box, sizeof(n->e.box), "%s", box);
	n->bytes = sizeof(*n) + strlen(n->text);
	memcpy(ret_id, n->e.id, EXEC_ID);
	pthread_mutex_lock(&x->lock);
	room = make_room(x, n->bytes);
	if (room) {
		n->next = x->first;
		x->first = n;
		x->count++;
		x->bytes += n->bytes;
	}
	pthread_mutex_unlock(&x->lock);
	if (room)
		return 0;
	entry_free(n);
	return err_set(e, ERR_LIMIT, "%d execs of %u bytes run at once, which is the most; hint: wait for one to end", EXECS_MAX,
		       EXECS_BYTES_MAX);
}

int execs_get(struct execs *x, const char *id, struct exec *ret)
{
	struct entry *n;

	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	if (n) {
		*ret = n->e;
		ret->body = json_loads(n->text, 0, NULL);
	}
	pthread_mutex_unlock(&x->lock);
	return n != NULL;
}

int execs_of_command(struct execs *x, const char *box, const char *command, char ret_id[EXEC_ID])
{
	struct entry *n;

	pthread_mutex_lock(&x->lock);
	for (n = x->first; n && (strcmp(n->e.box, box) || strcmp(n->e.command, command)); n = n->next)
		;
	if (n)
		memcpy(ret_id, n->e.id, EXEC_ID);
	pthread_mutex_unlock(&x->lock);
	return n != NULL;
}

void exec_release(struct exec *e)
{
	json_decref(e->body);
	e->body = NULL;
}

int execs_begin(struct execs *x, const char *id)
{
	struct entry *n;
	int r = -1;

	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	if (n)
		r = n->e.state == EXEC_NEW;
	if (r == 1)
		n->e.state = EXEC_STARTS;
	pthread_mutex_unlock(&x->lock);
	return r;
}

void execs_started(struct execs *x, const char *id, const char *command)
{
	struct entry *n;

	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	if (n) {
		n->e.state = EXEC_RUNS;
		snprintf(n->e.command, sizeof(n->e.command), "%s", command);
	}
	pthread_mutex_unlock(&x->lock);
}

void execs_ended(struct execs *x, const char *id, int exit_code)
{
	struct entry *n;

	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	if (n) {
		n->e.state = EXEC_ENDED;
		n->e.exit_code = exit_code;
	}
	pthread_mutex_unlock(&x->lock);
}
