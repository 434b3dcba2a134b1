/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that wait for their session.
 *
 * Each waits at most as long as its client asks. This is not the command's timeout, which begins
 * with the text. No later text waits behind a command without a waiting client (it awaits input,
 * is frozen or was left running), because the later client may be the one that has to continue
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_session.h"

#define QUEUE_MAX 16		/* of one session */
#define QUEUE_ALL (KEEPER_CLIENTS / 2)	/* of all: each holds a connection, and others must get one */
#define QUEUE_BYTES (16u << 20)		/* of all */

struct session_wait {
	struct session_wait *next;
	struct session_text t;
	uint64_t since_ms, until_ms;	/* 0: for ever */
	char text[];
};

static unsigned count_all(const struct keeper *k, size_t *ret_bytes)
{
	unsigned n = 0;
	int i;

	*ret_bytes = 0;
	for (i = 0; i < KEEPER_SESSIONS; i++) {
		n += k->sessions[i].queue_length;
		*ret_bytes += k->sessions[i].queue_bytes;
	}
	return n;
}

/* Takes one out of the list; the caller frees it. */
static struct session_wait *take(struct keeper_session *s, struct session_wait **at)
{
	struct session_wait *w = *at;

	*at = w->next;
	s->queue_length--;
	s->queue_bytes -= w->t.n;
	return w;
}

static void refuse(struct keeper *k, struct keeper_session *s, struct session_wait **at, const struct err *e)
{
	struct session_wait *w = take(s, at);

	keeper_answer_error(k, w->t.client, e);
	free(w);
}

static int append(struct keeper *k, struct keeper_session *s, const struct session_text *t, uint64_t queue_ms, struct err *e)
{
	struct session_wait **at = &s->queue, *w;
	size_t bytes;
	unsigned all;

	all = count_all(k, &bytes);
	if (s->queue_length == QUEUE_MAX)
		return err_set(e, ERR_LIMIT, "%u commands wait for session %s already; hint: another --session, or later", s->queue_length, s->name);
	if (all >= QUEUE_ALL || bytes + t->n > QUEUE_BYTES)
		return err_set(e, ERR_LIMIT, "%u commands of %zu bytes wait for sessions of this sandbox already; hint: later", all, bytes);
	w = malloc(sizeof(*w) + t->n + 1);
	if (!w)
		return err_nomem(e);
	w->next = NULL;
	w->t = *t;
	memcpy(w->text, t->text, t->n);
	w->text[t->n] = '\0';
	w->t.text = w->text;
	w->since_ms = clock_ms();
	w->until_ms = queue_ms ? w->since_ms + queue_ms : 0;
	while (*at)
		at = &(*at)->next;
	*at = w;
	s->queue_length++;
	s->queue_bytes += t->n;
	return 0;
}

static int run_now(struct keeper *k, struct keeper_session *s, const struct session_text *t, struct err *e)
{
	if (session_run(k, s, t, e) == 0) {
		keeper_checkpoint_ran(k, t->text, t->n);
		session_state_ran(s, t->text, t->n);
		return 0;
	}
	if (!s->shell_seq)
		session_release(k, s);
	return -1;
}

int session_queue_add(struct keeper *k, struct keeper_session *s, const struct session_text *t, const json_t *rq, struct err *e)
{
	const uint64_t queue_ms = request_queue_ms(rq, keeper_timeout(k, 1));
	const int no_wait = request_no_wait(rq);

	if (!s->busy && !s->queue)
		return run_now(k, s, t, e);
	if (no_wait || (s->busy && s->client < 0 && !s->facts.killed_by_us))
		return err_set(e, ERR_BUSY, "session %s still runs a command%s; hint: wait for it, send it input, interrupt it, or "
			       "use another --session", s->name, no_wait ? "" : " that nobody waits for");
	return append(k, s, t, queue_ms, e);
}

uint64_t session_queue_deadline(const struct keeper_session *s)
{
	const struct session_wait *w;
	uint64_t at = 0;

	for (w = s->queue; w; w = w->next)
		at = clock_earlier(at, w->until_ms);
	return at;
}

static void refuse_late(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	struct session_wait **at = &s->queue;
	struct err e;

	while (*at) {
		if (!(*at)->until_ms || now < (*at)->until_ms) {
			at = &(*at)->next;
			continue;
		}
		err_set(&e, ERR_BUSY, "session %s ran other commands for all of the %llu ms that this one waited; hint: another --session, "
			"or a longer --queue-timeout", s->name, (unsigned long long)(now - (*at)->since_ms));
		refuse(k, s, at, &e);
	}
}

void session_queue_refuse(struct keeper *k, struct keeper_session *s, const struct err *e)
{
	while (s->queue)
		refuse(k, s, &s->queue, e);
}

void session_queue_serve(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	struct session_wait *w;
	struct err e;

	if (k->stop_at_ms || k->drain_until_ms) {
		err_set(&e, ERR_BUSY, "sandbox %s is stopping", k->claim.id);
		session_queue_refuse(k, s, &e);
		return;
	}
	refuse_late(k, s, now);
	if (s->busy || !s->queue || k->paused)
		return;
	w = take(s, &s->queue);
	/* at least 1: it has waited */
	w->t.queued_ms = now > w->since_ms ? now - w->since_ms : 1;
	if (run_now(k, s, &w->t, &e) < 0)
		keeper_answer_error(k, w->t.client, &e);
	free(w);
}

static struct session_wait **find(struct keeper_session *s, int client)
{
	struct session_wait **at = &s->queue;

	while (*at && (*at)->t.client != client)
		at = &(*at)->next;
	return at;
}

void session_queue_leave(struct keeper_session *s, int client)
{
	struct session_wait **at;

	while (*(at = find(s, client)))
		free(take(s, at));
}

int session_queue_cancel(struct keeper *k, struct keeper_session *s, int client)
{
	struct session_wait **at = find(s, client);
	struct err e;

	if (!*at)
		return 0;
	err_set(&e, ERR_BUSY, "the command was cancelled before its turn in session %s", s->name);
	refuse(k, s, at, &e);
	return 1;
}
