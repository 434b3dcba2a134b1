/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners: a session that was made for a process of this machine is reaped when the process ends.
 * A pidfd for each is in one epoll, for which one thread waits: a living owner costs nothing,
 * and the death of one is noticed at once.
 *
 * owners/MACHINE/SESSION in the store holds its name (procid.h), so after a crash the next berthd
 * watches the same process or knows that it is gone. The scan only looks for entries that other
 * berthds have written.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/host/procid.h"
#include "manager/service/state.h"

#define AGAIN_MS 1000	/* interval while there is a session to reap */
#define STACK_BYTES (1u << 20)

struct owner {
	struct owner *next;
	int pid_fd;		/* -1: the owner has ended */
	uint64_t serial;	/* number of its entry in the epoll */
	char text[PROCID_SIZE];
	char session[];
};

struct owners {
	pthread_mutex_t lock;
	pthread_t thread;
	int started, stopping;
	int epoll_fd, wake_fd;
	struct owner *list;
	uint64_t serials;
};

int owner_name(int pid, char ret[64], struct err *e)
{
	if (procid_name(pid, ret, e) == 0)
		return 0;
	return err_set(e, ERR_INVALID, "owner_pid %d is not a living process of this host", pid);
}

static void owner_key_of(const struct service *s, const char *session, char out[LEDGER_KEY_MAX + 1])
{
	_Static_assert(sizeof("owners/") + sizeof(s->machine) + SESSION_MAX <= LEDGER_KEY_MAX, "no name of a session is cut");
	snprintf(out, LEDGER_KEY_MAX + 1, "owners/%s/%s", s->machine, session);
}

static void drop_owner(struct owner *o)
{
	fd_close(&o->pid_fd);	/* and with it goes its place in the epoll */
	free(o);
}

static void wake_owners(struct owners *w)
{
	uint64_t one = 1;

	while (write(w->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Under the lock: takes the session's off the list. */
static struct owner *unlist_owner(struct owners *w, const char *session)
{
	struct owner **at, *o;

	for (at = &w->list; *at && strcmp((*at)->session, session); at = &(*at)->next)
		;
	o = *at;
	if (o)
		*at = o->next;
	return o;
}

/* Watches it from now on, instead of the previous owner. */
static int watch_owner(struct service *s, const char *session, const char *text, struct err *e)
{
	struct owners *w = s->owners;
	struct owner *o = calloc(1, sizeof(*o) + strlen(session) + 1), *old;
	struct epoll_event ev = { .events = EPOLLIN };
	int failed = 0;

	if (!o)
		return err_nomem(e);
	strcpy(o->session, session);
	snprintf(o->text, sizeof(o->text), "%s", text);
	pthread_mutex_lock(&w->lock);
	ev.data.u64 = o->serial = ++w->serials;	/* 0 stands for wake_fd */
	pthread_mutex_unlock(&w->lock);
	o->pid_fd = procid_open(text, e);
	if (o->pid_fd < -1) {
		free(o);
		return -1;
	}
	pthread_mutex_lock(&w->lock);
	old = unlist_owner(w, session);
	o->next = w->list;
	w->list = o;
	/* put into the list first: an event without an entry would be reported again and again */
	if (o->pid_fd >= 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, o->pid_fd, &ev) < 0) {
		err_sys(e, "watch an owner");
		drop_owner(unlist_owner(w, session));
		failed = 1;
	} else if (o->pid_fd < 0) {
		wake_owners(w);
	}
	pthread_mutex_unlock(&w->lock);
	if (old)
		drop_owner(old);
	return failed ? -1 : 0;
}

int owner_watch(struct service *s, const char *session, const char *text, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op op = { LEDGER_SET, key, text, LEDGER_ANY, 0 };

	owner_key_of(s, session, key);
	return ledger_commit(s->ledger, &op, 1, NULL, e) < 0 ? -1 : watch_owner(s, session, text, e);
}

void owner_forget(struct service *s, const char *session)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op op = { LEDGER_DELETE, key, NULL, LEDGER_ANY, 0 };
	struct err ignored;
	struct owner *o;

	owner_key_of(s, session, key);
	ledger_commit(s->ledger, &op, 1, NULL, &ignored);
	pthread_mutex_lock(&s->owners->lock);
	o = unlist_owner(s->owners, session);
	pthread_mutex_unlock(&s->owners->lock);
	if (o)
		drop_owner(o);
}

/* ---- what the scan finds -------------------------------------------------------------- */

struct found {
	struct service *s;
	size_t skip;
	json_t *unknown;	/* session -> text */
};

static int look_at_owner(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct found *f = ctx;
	struct owner *o;

	(void)version;
	pthread_mutex_lock(&f->s->owners->lock);
	for (o = f->s->owners->list; o && (strcmp(o->session, key + f->skip) || strcmp(o->text, value)); o = o->next)
		;
	pthread_mutex_unlock(&f->s->owners->lock);
	if (!o)
		json_object_set_new(f->unknown, key + f->skip, json_string(value));
	return 0;
}

void owners_look(struct service *s)
{
	struct found f = { .s = s, .unknown = json_object() };
	char prefix[LEDGER_KEY_MAX + 1];
	const char *session;
	struct err ignored;
	json_t *text;

	owner_key_of(s, "", prefix);
	f.skip = strlen(prefix);
	if (ledger_scan(s->ledger, prefix, look_at_owner, &f, &ignored) == 0)
		json_object_foreach(f.unknown, session, text)
			watch_owner(s, session, json_string_value(text), &ignored);
	json_decref(f.unknown);
}

/* ---- the thread ----------------------------------------------------------------------- */

static void mark_ended_owners(struct owners *w, const struct epoll_event *ev, int n)
{
	struct owner *o;
	int i;

	pthread_mutex_lock(&w->lock);
	for (i = 0; i < n; i++)
		for (o = w->list; o; o = o->next)
			if (o->serial == ev[i].data.u64)
				fd_close(&o->pid_fd);
	pthread_mutex_unlock(&w->lock);
}

/* The session of one that has ended (malloc'ed), other than those in tried. */
static char *next_dead(struct owners *w, const json_t *tried)
{
	struct owner *o;
	char *session = NULL;

	pthread_mutex_lock(&w->lock);
	for (o = w->list; o && !session; o = o->next)
		if (o->pid_fd < 0 && !json_object_get(tried, o->session))
			session = strdup(o->session);
	pthread_mutex_unlock(&w->lock);
	return session;
}

static int are_owners_stopping(struct owners *w)
{
	int v;

	pthread_mutex_lock(&w->lock);
	v = w->stopping;
	pthread_mutex_unlock(&w->lock);
	return v;
}

/* Reaps sessions of dead owners: 1 if one is being reaped now, or must be tried again. */
static int reap_dead(struct service *s)
{
	autojson json_t *tried = json_object();
	int again = 0;
	char *session;

	while (!are_owners_stopping(s->owners) && (session = next_dead(s->owners, tried))) {
		json_object_set_new(tried, session, json_true());
		session_reap_owned(s, session);
		again = 1;
		free(session);
	}
	return again;
}

static void *owners_loop(void *arg)
{
	struct service *s = arg;
	struct owners *w = s->owners;
	struct epoll_event ev[16];
	int again = 0;

	while (!are_owners_stopping(w)) {
		uint64_t count;
		int n = epoll_wait(w->epoll_fd, ev, ARRAY_LEN(ev), again ? AGAIN_MS : -1);

		if (n < 0 && errno != EINTR)
			break;
		while (read(w->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
			;
		mark_ended_owners(w, ev, n);
		again = reap_dead(s);
	}
	return NULL;
}

struct owners *owners_new(struct err *e)
{
	struct owners *w = calloc(1, sizeof(*w));
	struct epoll_event ev = { .events = EPOLLIN };

	if (!w) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&w->lock, NULL);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->epoll_fd < 0 || w->wake_fd < 0 || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->wake_fd, &ev) < 0) {
		err_sys(e, "set up the watch over owners");
		owners_free(w);
		return NULL;
	}
	return w;
}

int owners_start(struct service *s, struct err *e)
{
	pthread_attr_t a;
	int r;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, STACK_BYTES);
	r = pthread_create(&s->owners->thread, &a, owners_loop, s);
	pthread_attr_destroy(&a);
	s->owners->started = r == 0;
	return r ? err_errno(e, r, "start a thread") : 0;
}

void owners_stop(struct service *s)
{
	struct owners *w = s->owners;

	if (!w || !w->started)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = 1;
	pthread_mutex_unlock(&w->lock);
	wake_owners(w);
	pthread_join(w->thread, NULL);
	w->started = 0;
}

void owners_free(struct owners *w)
{
	struct owner *o;

	if (!w)
		return;
	while ((o = w->list)) {
		w->list = o->next;
		drop_owner(o);
	}
	fd_close(&w->epoll_fd);
	fd_close(&w->wake_fd);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
