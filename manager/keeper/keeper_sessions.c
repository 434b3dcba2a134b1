/* SPDX-License-Identifier: Apache-2.0 */
/* Shell sessions, one long-lived shell each: the list of them, and the requests to them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/shellscript.h"

#define TEXT_MAX (8u << 20)

static struct keeper_session *find_keeper_session(struct keeper *k, const char *name)
{
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (!strcmp(k->sessions[i].name, name))
			return &k->sessions[i];
	return NULL;
}

void session_release(struct keeper *k, struct keeper_session *s)
{
	struct keeper_command *c = s->shell_seq ? keeper_command_find(k, s->shell_seq) : NULL;
	char file[80];
	struct err e;

	err_set(&e, ERR_NOT_FOUND, "session %s was closed", s->name);
	session_queue_refuse(k, s, &e);
	if (c)
		keeper_command_remove(k, c);
	session_shell_close(s);
	ring_release(&s->out[0]);
	ring_release(&s->out[1]);
	free(s->baseline);
	session_state_release(s);
	snprintf(file, sizeof(file), "+%s", s->name);
	unlinkat(k->sandbox.control_fd, file + 1, 0);
	unlinkat(k->sandbox.control_fd, file, 0);
	memset(s, 0, sizeof(*s));
}

struct keeper_session *session_of_name(struct keeper *k, const char *name, int split,
				       struct err *e)
{
	struct keeper_session *s = find_keeper_session(k, name);

	if (s && s->split != split) {
		err_set(e, ERR_EXISTS, "session %s is %s --split; hint: another --session", name,
			s->split ? "with" : "without");
		return NULL;
	}
	if (s)
		return s;
	s = find_keeper_session(k, "");
	if (!s) {
		err_set(e, ERR_LIMIT, "%d sessions are open already; hint: close one",
			KEEPER_SESSIONS);
		return NULL;
	}
	memset(s, 0, sizeof(*s));
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->split = split;
	s->client = -1;
	s->tty_fd = s->out_fd = s->err_fd = s->script_fd = s->status_fd = s->text_fd = -1;
	ring_init(&s->out[0], k->head_max, k->tail_max);
	ring_init(&s->out[1], k->head_max, k->tail_max);
	return s;
}

void session_client_gone(struct keeper *k, int client)
{
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++) {
		struct keeper_session *s = &k->sessions[i];

		session_queue_leave(s, client);
		if (!s->name[0] || !s->busy || s->client != client)
			continue;
		s->client = -1;
		s->facts.killed_by_us = 1;
		s->on_timeout = ON_TIMEOUT_KILL;
		session_force(k, s, clock_ms());
	}
}

static int get_on_timeout(const json_t *rq, enum session_on_timeout *ret, struct err *e)
{
	static const char *const names[] = { "kill", "interrupt", "freeze", "detach" };
	const char *s = request_on_timeout(rq, "kill");
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		if (!strcmp(s, names[i])) {
			*ret = (enum session_on_timeout)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%.20s' is not one of kill, interrupt, freeze, detach", s);
}

static int get_name(const json_t *rq, const char **ret, struct err *e)
{
	*ret = request_session(rq, "main");
	return path_is_name(*ret) ? 0 : err_set(e, ERR_INVALID, "session name '%.40s' is malformed; hint: a-z 0-9 _ . -", *ret);
}

int keeper_op_sh(struct keeper *k, const struct keeper_request *q, struct err *e)
{
	const json_t *rq = q->json;
	autobuf struct buf b = BUF_INIT(TEXT_MAX);
	struct session_text t = {
		.client = q->client, .timeout_ms = request_timeout_ms(rq, keeper_timeout(k, 1)), .inlined = request_inline(rq),
		.text = request_text(rq, NULL), .max_silent_ms = keeper_silence_limit(k, rq),
	};
	struct keeper_session *s = NULL;
	const char *name;

	if (get_name(rq, &name, e) < 0 || get_on_timeout(rq, &t.on_timeout, e) < 0)
		return -1;
	if (!t.text && q->count && wire_read_data(q->fds[0], &b, e) < 0)
		return -1;
	t.n = t.text ? strlen(t.text) : b.len;
	if (!t.text)
		t.text = b.data;
	if (!t.text)
		return err_set(e, ERR_INVALID, "no command text");
	if (keeper_policy_text(k, t.text, t.n, e) < 0)
		return -1;
	s = session_of_name(k, name, request_split(rq), e);
	return s ? session_queue_add(k, s, &t, rq, e) : -1;
}

static struct keeper_session *requested_session(struct keeper *k, const json_t *rq, struct err *e)
{
	struct keeper_session *s;
	const char *name;

	if (get_name(rq, &name, e) < 0)
		return NULL;
	s = find_keeper_session(k, name);
	if (!s)
		err_set(e, ERR_NOT_FOUND, "no session '%s'; hint: berth sh --list ID", name);
	return s;
}

/* Waits for the command that runs, with a new deadline; thaws a frozen one. */
int keeper_op_sh_wait(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_session *s = requested_session(k, rq->json, e);
	struct keeper_command *c = s ? keeper_command_find(k, s->shell_seq) : NULL;
	const uint64_t timeout_ms = request_timeout_ms(rq->json, keeper_timeout(k, 1));

	if (!s || get_on_timeout(rq->json, &s->on_timeout, e) < 0)
		return -1;
	if (!s->busy && s->unclaimed) {
		s->unclaimed = 0;
		s->client = rq->client;
		s->inlined = request_inline(rq->json);
		session_answer(k, s, s->verdict.facts.timed_out ? "timeout" : "done", &s->verdict);
		return 0;
	}
	if (!s->busy)
		return err_set(e, ERR_NOT_FOUND, "session %s runs no command", s->name);
	if (s->client >= 0)
		return err_set(e, ERR_BUSY, "another client waits for session %s", s->name);
	if (c && cgroup_freeze(&c->leaf, 0, e) < 0)
		return -1;
	s->client = rq->client;
	s->inlined = request_inline(rq->json);
	session_watch(s, timeout_ms);
	return 0;
}

int session_op_send(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 16);
	struct keeper_session *s = requested_session(k, rq->json, e);
	ssize_t n;

	if (!s)
		return -1;
	if (s->tty_fd < 0)
		return err_set(e, ERR_NOT_FOUND, "session %s has no shell", s->name);
	if (rq->count && wire_read_data(rq->fds[0], &b, e) < 0)
		return -1;
	if (request_eof(rq->json) && !s->split && buf_add(&b, "\004", 1, e) < 0)
		return -1;
	n = session_type(k, s, b.data, b.len);
	if (n < 0)
		return err_sys(e, "write to session %s", s->name);
	keeper_answer(k, rq->client, json_pack("{s:I}", "sent", (json_int_t)n), NULL, 0);
	return 0;
}

int session_op_signal(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_session *s = requested_session(k, rq->json, e);
	const uint64_t signo = request_signal(rq->json, 2);

	if (!s)
		return -1;
	if (signo < 1 || signo > 64)
		return err_set(e, ERR_INVALID, "signal %llu does not exist", (unsigned long long)signo);
	if ((signo == SIGINT ? session_interrupt(k, s) : session_signal(k, s, (int)signo)) < 0)
		return err_set(e, ERR_NOT_FOUND, "session %s has no foreground process", s->name);
	keeper_answer(k, rq->client, json_pack("{s:b}", "signalled", 1), NULL, 0);
	return 0;
}

/*
 * Ends everything that runs in the session; its client gets the verdict, killed-by. With "own" a
 * client cancels its own text, which may still wait for its turn; then it gets no other answer.
 */
int keeper_op_sh_cancel(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_session *s = requested_session(k, rq->json, e);
	struct keeper_command *c = s ? keeper_command_find(k, s->shell_seq) : NULL;
	const int own = request_own(rq->json);

	if (!s)
		return -1;
	if (own && session_queue_cancel(k, s, rq->client))
		return 0;
	if (own && (!s->busy || s->client != rq->client))
		return 0;	/* the text has just ended */
	if (!s->busy)
		return err_set(e, ERR_NOT_FOUND, "session %s runs no command", s->name);
	if (c && cgroup_freeze(&c->leaf, 0, e) < 0)
		return -1;
	s->facts.killed_by_us = 1;
	s->on_timeout = ON_TIMEOUT_KILL;
	session_force(k, s, clock_ms());
	if (!own)
		keeper_answer(k, rq->client, json_pack("{s:b}", "cancelled", 1), NULL, 0);
	return 0;
}

static pid_t shell_of(struct keeper *k, const struct keeper_session *s)
{
	pid_t *pids = NULL, shell = 0;
	size_t n = 0;

	if (s->shell_seq && look_pids(k, s, &pids, &n) == 0)
		shell = look_shell(s, pids, n);
	free(pids);
	return shell;
}

static json_t *describe_session(struct keeper *k, const struct keeper_session *s)
{
	return json_pack("{s:s,s:b,s:b,s:b,s:i,s:i,s:I}", "session", s->name, "busy", s->busy,
			 "alive", s->shell_seq != 0, "split", s->split, "commands", (int)s->number,
			 "queued", (int)s->queue_length, "host_pid", (json_int_t)shell_of(k, s));
}

int keeper_op_sessions(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	json_t *list = json_array();
	int i;

	(void)e;
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0])
			json_array_append_new(list, describe_session(k, &k->sessions[i]));
	keeper_answer(k, rq->client, json_pack("{s:o}", "sessions", list), NULL, 0);
	return 0;
}

int keeper_op_session_close(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_session *s = requested_session(k, rq->json, e);

	if (!s)
		return -1;
	if (s->client >= 0 && s->client != rq->client) {
		struct err busy;

		err_set(&busy, ERR_NOT_FOUND, "session %s was closed", s->name);
		keeper_answer_error(k, s->client, &busy);
	}
	session_release(k, s);
	keeper_answer(k, rq->client, json_pack("{s:b}", "closed", 1), NULL, 0);
	return 0;
}

/* ---- texts that wait ---- */

/*
 * Texts that wait for their session.
 *
 * Each waits at most as long as its client asks. This is not the command's timeout, which begins
 * with the text. No later text waits behind a command without a waiting client (it awaits input,
 * is frozen or was left running), because the later client may be the one that has to continue
 * it.
 */

#define QUEUE_MAX 16		/* texts that wait in one session */
#define QUEUE_ALL 32		/* texts that wait in all sessions: each holds a connection, and
					 * others must get one */
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
static struct session_wait *take_waiting_text(struct keeper_session *s, struct session_wait **at)
{
	struct session_wait *w = *at;

	*at = w->next;
	s->queue_length--;
	s->queue_bytes -= w->t.n;
	return w;
}

static void refuse_waiting_text(struct keeper *k, struct keeper_session *s, struct session_wait **at, const struct err *e)
{
	struct session_wait *w = take_waiting_text(s, at);

	keeper_answer_error(k, w->t.client, e);
	free(w);
}

static int queue_text(struct keeper *k, struct keeper_session *s, const struct session_text *t, uint64_t queue_ms, struct err *e)
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
	layerguard_look(&k->sandbox.guard);
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
	return queue_text(k, s, t, queue_ms, e);
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
		refuse_waiting_text(k, s, at, &e);
	}
}

void session_queue_refuse(struct keeper *k, struct keeper_session *s, const struct err *e)
{
	while (s->queue)
		refuse_waiting_text(k, s, &s->queue, e);
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
	w = take_waiting_text(s, &s->queue);
	/* at least 1, which shows that it has waited */
	w->t.queued_ms = now > w->since_ms ? now - w->since_ms : 1;
	if (run_now(k, s, &w->t, &e) < 0)
		keeper_answer_error(k, w->t.client, &e);
	free(w);
}

static struct session_wait **find_waiting_text(struct keeper_session *s, int client)
{
	struct session_wait **at = &s->queue;

	while (*at && (*at)->t.client != client)
		at = &(*at)->next;
	return at;
}

void session_queue_leave(struct keeper_session *s, int client)
{
	struct session_wait **at;

	while (*(at = find_waiting_text(s, client)))
		free(take_waiting_text(s, at));
}

int session_queue_cancel(struct keeper *k, struct keeper_session *s, int client)
{
	struct session_wait **at = find_waiting_text(s, client);
	struct err e;

	if (!*at)
		return 0;
	err_set(&e, ERR_BUSY, "the command was cancelled before its turn in session %s", s->name);
	refuse_waiting_text(k, s, at, &e);
	return 1;
}
