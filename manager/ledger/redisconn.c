/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ledger/redisconn.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

#define CONNECT_MS 2000
#define CALL_MS 5000

static int expect_ok(redisReply *r, const char *what, redisContext *c, struct err *e)
{
	int ok = r && r->type != REDIS_REPLY_ERROR;

	if (!r)
		err_set(e, ERR_NET, "%s Redis: %s", what, c->errstr);
	else if (!ok)
		err_set(e, ERR_NET, "%s Redis: %.200s", what, r->str);
	if (r)
		freeReplyObject(r);
	return ok ? 0 : -1;
}

static int log_in(struct redisconn *s, redisContext *c, struct err *e)
{
	if (s->password[0]) {
		redisReply *r = s->user[0] ? redisCommand(c, "AUTH %s %s", s->user, s->password) :
					     redisCommand(c, "AUTH %s", s->password);

		if (expect_ok(r, "log in to", c, e) < 0)
			return -1;
	}
	if (s->db && expect_ok(redisCommand(c, "SELECT %llu", (unsigned long long)s->db),
			       "select the database of", c, e) < 0)
		return -1;
	return 0;
}

static int load_scripts(struct redisconn *s, redisContext *c, struct err *e)
{
	int i;

	for (i = 0; i < s->script_count; i++) {
		redisReply *r = redisCommand(c, "SCRIPT LOAD %s", s->scripts[i]);

		/* the hash of a text is the same on every connection: written under no lock, once
		 */
		if (r && r->type == REDIS_REPLY_STRING && r->len == 40 && !s->sha[i][0])
			memcpy(s->sha[i], r->str, 41);
		if (expect_ok(r, "load a script into", c, e) < 0)
			return -1;
	}
	return 0;
}

static redisContext *dial(struct redisconn *s, struct err *e)
{
	struct timeval limit = { CONNECT_MS / 1000, 0 }, call = { CALL_MS / 1000, 0 };
	redisContext *c = s->path[0] ? redisConnectUnixWithTimeout(s->path, limit) :
				       redisConnectWithTimeout(s->host, s->port, limit);

	if (!c) {
		err_nomem(e);
		return NULL;
	}
	if (c->err)
		err_set(e, ERR_NET, "reach Redis at %s: %s", s->path[0] ? s->path : s->host,
			c->errstr);
	else if (redisSetTimeout(c, call) != REDIS_OK)
		err_set(e, ERR_NET, "set up the connection to Redis");
	else if (log_in(s, c, e) == 0)
		return c;
	redisFree(c);
	return NULL;
}

/* A slot for the caller; its connection may be NULL. */
static int take_slot(struct redisconn *s)
{
	int i;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		int dead = -1;

		for (i = 0; i < REDISCONN_MAX; i++) {
			if (s->used[i])
				continue;
			if (s->c[i])
				break;
			dead = i;
		}
		if (i == REDISCONN_MAX)
			i = dead;
		if (i >= 0)
			break;
		pthread_cond_wait(&s->freed, &s->lock);
	}
	s->used[i] = 1;
	pthread_mutex_unlock(&s->lock);
	return i;
}

static void give_slot(struct redisconn *s, int i)
{
	pthread_mutex_lock(&s->lock);
	s->used[i] = 0;
	pthread_cond_signal(&s->freed);
	pthread_mutex_unlock(&s->lock);
}

/* An answer that says "not now": a server that starts, or has just become a replica. */
static int is_passing(const redisReply *r)
{
	static const char *const words[] = { "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN",
					     "TRYAGAIN", "BUSY " };
	size_t i;

	for (i = 0; r->type == REDIS_REPLY_ERROR && i < ARRAY_LEN(words); i++)
		if (!strncmp(r->str, words[i], strlen(words[i])))
			return 1;
	return 0;
}

static redisReply *try_once(struct redisconn *s, int slot, int script, int argc, const char **argv,
			    const size_t *len, struct err *e)
{
	redisReply *r;
	int again;

	if (!s->c[slot]) {
		s->c[slot] = dial(s, e);
		if (!s->c[slot])
			return NULL;
	}
	for (again = 0; again < 2; again++) {
		if (script >= 0)
			argv[1] = s->sha[script];
		r = redisCommandArgv(s->c[slot], argc, argv, len);
		if (!r || script < 0 || r->type != REDIS_REPLY_ERROR ||
		    strncmp(r->str, "NOSCRIPT", 8))
			break;
		freeReplyObject(r); /* a server that was restarted has forgotten them */
		r = NULL;
		if (load_scripts(s, s->c[slot], e) < 0)
			break;
	}
	if (!r) {
		err_set(e, ERR_NET, "lost the connection to Redis: %s", s->c[slot]->errstr);
	} else if (is_passing(r)) {
		err_set(e, ERR_NET, "Redis is not ready: %.200s", r->str);
		freeReplyObject(r);
		r = NULL;
	} else {
		return r;
	}
	redisFree(s->c[slot]);
	s->c[slot] = NULL;
	return NULL;
}

redisReply *redisconn_call(struct redisconn *s, int script, int argc, const char **argv,
			   const size_t *len, struct err *e)
{
	uint64_t until = clock_ms() + s->retry_ms, pause_ms = 5;
	int slot = take_slot(s);
	redisReply *r;

	while (!(r = try_once(s, slot, script, argc, argv, len, e)) && e->code == ERR_NET &&
	       clock_ms() + pause_ms < until) {
		struct timespec t = { .tv_nsec = (long)pause_ms * 1000000 };

		nanosleep(&t, NULL);
		pause_ms = pause_ms < 250 ? pause_ms * 2 : 250;
	}
	give_slot(s, slot);
	if (r && r->type == REDIS_REPLY_ERROR) {
		err_set(e, ERR_NET, "Redis refused: %.300s", r->str);
		freeReplyObject(r);
		return NULL;
	}
	return r;
}

int redisconn_ping(struct redisconn *s, struct err *e)
{
	redisContext *c = dial(s, e);
	int r;

	if (!c)
		return -1;
	r = expect_ok(redisCommand(c, "PING"), "be answered by", c, e);
	redisFree(c);
	return r;
}

void redisconn_init(struct redisconn *s, const char *const *scripts, int count)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->freed, NULL);
	s->scripts = scripts;
	s->script_count = count;
}

int redisconn_open(struct redisconn *s, struct err *e)
{
	int i;

	s->c[0] = dial(s, e);
	if (!s->c[0] || load_scripts(s, s->c[0], e) < 0)
		return -1;
	for (i = 0; i < s->script_count; i++)
		if (!s->sha[i][0])
			return err_set(e, ERR_NET, "Redis did not take a script");
	return 0;
}

void redisconn_close(struct redisconn *s)
{
	int i;

	for (i = 0; i < REDISCONN_MAX; i++)
		if (s->c[i])
			redisFree(s->c[i]);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->freed);
	explicit_bzero(s->password, sizeof(s->password));
}
