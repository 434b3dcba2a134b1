/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S46 of SECURITY.md. */
/*
 * The lock of a session in the store: its holder reaps, restores or releases the session. It
 * expires, because a berthd may die. So a living berthd renews its locks at each scan, as an
 * upload, a pull or a place in the queue may take longer. Otherwise another berthd would release
 * the workspace of a restore that still waits for room.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "manager/service/state.h"

#define LOCK_MS 120000
#define LOCK_WAIT_MS 30000

struct session_lock {
	struct session_lock *next;
	uint64_t token;
	char name[LEDGER_KEY_MAX + 1];
};

static void name_lock(const char *session, char out[LEDGER_KEY_MAX + 1])
{
	_Static_assert(sizeof("lock/reap/") + SESSION_MAX <= LEDGER_KEY_MAX, "no name of a session is cut");
	snprintf(out, LEDGER_KEY_MAX + 1, "reap/%s", session);
}

int session_try_lock(struct service *s, const char *session, uint64_t *ret_token, struct err *e)
{
	struct session_lock *l = calloc(1, sizeof(*l));

	if (!l)
		return err_nomem(e);
	name_lock(session, l->name);
	if (ledger_lock(s->ledger, l->name, s->host, LOCK_MS, &l->token, e) < 0) {
		free(l);
		return -1;
	}
	*ret_token = l->token;
	pthread_mutex_lock(&s->lock);
	l->next = s->session_locks;
	s->session_locks = l;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

int session_lock(struct service *s, const char *session, uint64_t *ret_token, struct err *e)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	uint64_t until = clock_wall_ms() + LOCK_WAIT_MS;
	int r;

	while ((r = session_try_lock(s, session, ret_token, e)) < 0 && e->code == ERR_BUSY &&
	       clock_wall_ms() < until)
		nanosleep(&pause, NULL);
	return r;
}

void session_unlock(struct service *s, const char *session, uint64_t token)
{
	struct session_lock **at, *l;
	struct err ignored;
	char name[LEDGER_KEY_MAX + 1];

	name_lock(session, name);
	pthread_mutex_lock(&s->lock);
	for (at = &s->session_locks; *at && (*at)->token != token; at = &(*at)->next)
		;
	l = *at;
	if (l)
		*at = l->next;
	pthread_mutex_unlock(&s->lock);
	free(l);
	ledger_unlock(s->ledger, name, token, &ignored);
}

/* Under the lock of the service a copy only: the store may be away for long. */
static struct session_lock *copy_locks(struct service *s)
{
	struct session_lock *copies = NULL, *l, *c;

	pthread_mutex_lock(&s->lock);
	for (l = s->session_locks; l && (c = malloc(sizeof(*c))); l = l->next) {
		*c = *l;
		c->next = copies;
		copies = c;
	}
	pthread_mutex_unlock(&s->lock);
	return copies;
}

void session_renew_locks(struct service *s)
{
	struct session_lock *copies = copy_locks(s), *l;
	struct err ignored;

	while ((l = copies)) {
		copies = l->next;
		/* one that was given up meanwhile is not there to be renewed */
		ledger_renew(s->ledger, l->name, l->token, LOCK_MS, &ignored);
		free(l);
	}
}
