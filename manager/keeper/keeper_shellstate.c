/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shells of a checkpoint: asks for their states, keeps them, and restores them after an undo.
 *
 * A shell that waits for a command is asked while the checkpoint is made, and its answer comes by
 * the status pipe, before that of any later text. A shell that has run nothing since it was asked
 * last is not asked again. A shell that runs a command cannot be asked: its state is that of its
 * last prompt, if the command had a checkpoint before it, and is lost otherwise. After an undo a
 * session has its script, which its shell reads when it is first used.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/host/checkpoint.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/shellscript.h"
#include "manager/keeper/shellstate.h"

#define ANSWER_MS 2000
#define ALL_MAX (1u << 20) /* bytes of all scripts of a checkpoint */

struct session_state {
	int known; /* script is the state after `number` texts */
	int due;   /* the shell that is started next reads it first */
	unsigned number;
	struct buf script;
	struct checkpoint_shell head; /* the state at a moment; not for lost ones */
	struct shellfuncs funcs;
	int funcs_missing; /* there were more functions than are kept */
	int too_long;      /* the answer was too long when the shell was asked last */
	/* set while the shell is asked */
	char nonce[17]; /* "": it is not */
	int late;       /* the answer is no longer waited for */
	uint64_t until_ms;
	unsigned asked_number;
	struct checkpoint_shell asked;
	struct buf answer;
	int begun, overflowed;
};

static struct session_state *session_state_of(struct keeper_session *s)
{
	if (!s->state) {
		s->state = calloc(1, sizeof(*s->state));
		if (s->state) {
			s->state->script = BUF_INIT(SHELLSTATE_MAX);
			s->state->answer = BUF_INIT(SHELLSTATE_MAX);
		}
	}
	return s->state;
}

void session_state_release(struct keeper_session *s)
{
	struct session_state *t = s->state;

	if (!t)
		return;
	buf_release(&t->script);
	buf_release(&t->answer);
	shellfuncs_release(&t->funcs);
	free(t);
	s->state = NULL;
}

static struct checkpoint_shell head_of(const struct keeper_session *s)
{
	struct checkpoint_shell h = {
		.is_bash = !s->fallback,
		.split = s->split,
		.traps = s->traps,
		.traces = s->traces,
		.status = s->last_status,
	};

	memcpy(h.tracing, s->tracing, sizeof(h.tracing));
	return h;
}

/* ---- texts that it runs ------------------------------------------------------------- */

void session_state_ran(struct keeper_session *s, const char *text, size_t n)
{
	struct session_state *t;
	struct err e = { 0 };

	/* bash tells its own; whether an image has it is known from its first answer on */
	if ((s->number > 1 && !s->fallback) || !memmem(text, n, "(", 1))
		return;
	t = session_state_of(s);
	if (t && shellfuncs_add(&t->funcs, text, n, &e) < 0)
		t->funcs_missing = 1;
}

/* ---- asking -------------------------------------------------------------------------- */

static void session_state_file(const struct keeper_session *s, char out[80])
{
	snprintf(out, 80, "+%s", s->name); /* no session has such a name */
}

static int put_state_file(struct keeper *k, const struct keeper_session *s, const struct buf *b,
		    struct err *e)
{
	autoclose int fd = -1;
	char file[80];

	session_state_file(s, file);
	unlinkat(k->sandbox.control_fd, file, 0);
	fd = openat(k->sandbox.control_fd, file,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 || fchmod(fd, 0644) < 0 || io_write_all(fd, b->data, b->len) < 0)
		return err_sys(e, "hand a script to the shell of session %s", s->name);
	return 0;
}

static int ask_shell_state(struct keeper *k, struct keeper_session *s, struct session_state *t, struct err *e)
{
	autobuf struct buf b = BUF_INIT(SHELLSTATE_MAX);
	char lines[SHELLSCRIPT_LINES];
	unsigned char raw[8];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	if (shellstate_question(!s->fallback, &t->funcs, &b, e) < 0 || put_state_file(k, s, &b, e) < 0)
		return -1;
	hex_format(t->nonce, raw, sizeof(raw));
	shellscript_ask(s->name, t->nonce, !s->fallback, lines);
	if (session_shell_write(s, lines, e) < 0) {
		t->nonce[0] = '\0';
		return -1;
	}
	t->answer.len = 0;
	t->begun = t->overflowed = t->late = t->too_long = 0;
	t->asked_number = s->number;
	t->asked = head_of(s);
	t->until_ms = clock_ms() + ANSWER_MS;
	return 0;
}

static int may_ask(const struct keeper *k, const struct keeper_session *s)
{
	return s->name[0] && s->shell_seq && !s->busy && !k->paused && !k->held_by;
}

void session_states_ask(struct keeper *k)
{
	struct err ignored;
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++) {
		struct keeper_session *s = &k->sessions[i];
		struct session_state *t;

		if (!may_ask(k, s) || !(t = session_state_of(s)) || t->nonce[0] ||
		    (t->known && t->number == s->number))
			continue;
		ask_shell_state(k, s, t, &ignored);
	}
}

/* ---- the answer ---------------------------------------------------------------------- */

static void keep_answer(struct keeper *k, struct keeper_session *s, struct session_state *t)
{
	autobuf struct buf script = BUF_INIT(SHELLSTATE_MAX);
	autofree const char **env = NULL;
	struct err why = { 0 };
	size_t count;

	t->known = 0;
	t->too_long = t->overflowed;
	if (t->overflowed || session_shell_env(k, &env, &count, &why) < 0)
		return;
	if (shellstate_script(!s->fallback, t->answer.data ? t->answer.data : "", t->answer.len,
			      env, count, &t->funcs, &script, &why) < 0) {
		t->too_long = why.code == ERR_LIMIT;
		return;
	}
	buf_release(&t->script);
	t->script = script;
	script = BUF_INIT(0);
	t->head = t->asked;
	t->number = t->asked_number;
	t->known = 1;
}

static void add_state_answer(struct session_state *t, const char *p, size_t n)
{
	struct err ignored;
	size_t keep = sizeof(t->nonce) + 32;

	if (!t->overflowed && buf_add(&t->answer, p, n, &ignored) == 0)
		return;
	/* only its end still matters */
	t->overflowed = 1;
	if (t->answer.len > keep) {
		memmove(t->answer.data, t->answer.data + t->answer.len - keep, keep);
		t->answer.len = keep;
	}
	buf_add(&t->answer, p, n, &ignored);
}

/* The place behind the line with the nonce, or NULL; new_bytes came last. */
static const char *state_answer_end(const struct session_state *t, size_t new_bytes, size_t *ret_len)
{
	const size_t len = strlen(t->nonce), back = new_bytes + len + 32;
	const size_t from = t->answer.len > back ? t->answer.len - back : 0;
	const char *p, *nl;

	if (!t->answer.len)
		return NULL;
	p = memmem(t->answer.data + from, t->answer.len - from, t->nonce, len);
	nl = p ? memchr(p, '\n', (size_t)(t->answer.data + t->answer.len - p)) : NULL;
	if (!nl)
		return NULL;
	*ret_len = (size_t)(p - t->answer.data);
	return nl + 1;
}

size_t session_state_feed(struct keeper *k, struct keeper_session *s, const char *p, size_t n)
{
	struct session_state *t = s->state;
	const char *end;
	size_t len, rest;

	if (!t || !t->nonce[0])
		return 0;
	add_state_answer(t, p, n);
	end = state_answer_end(t, n, &len);
	if (end && !t->begun) {
		/* bytes before it are the rest of the shell's output about its last text */
		t->begun = 1;
		t->answer.len -= (size_t)(end - t->answer.data);
		memmove(t->answer.data, end, t->answer.len);
		end = state_answer_end(t, t->answer.len, &len);
	}
	if (!end)
		return n;
	rest = (size_t)(t->answer.data + t->answer.len - end);
	t->answer.len = len;
	t->nonce[0] = '\0';
	keep_answer(k, s, t);
	buf_release(&t->answer);
	t->answer = BUF_INIT(SHELLSTATE_MAX);
	return n > rest ? n - rest : 0;
}

uint64_t session_states_next(const struct keeper *k)
{
	uint64_t at = 0;
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++) {
		const struct session_state *t = k->sessions[i].state;

		if (k->sessions[i].name[0] && t && t->nonce[0] && !t->late)
			at = clock_earlier(at, t->until_ms);
	}
	return at;
}

void session_states_check(struct keeper *k, uint64_t now)
{
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++) {
		struct session_state *t = k->sessions[i].state;

		if (k->sessions[i].name[0] && t && t->nonce[0] && now >= t->until_ms)
			t->late = 1;
	}
}

/* ---- a checkpoint's ------------------------------------------------------------------ */

/* Returns why the shell of s cannot be restored as it was at the checkpoint; "": it can. */
static const char *lost(const struct keeper_session *s, const struct session_state *t)
{
	if (t && t->known && t->number == s->number - (s->busy ? 1u : 0u))
		return t->funcs_missing && s->fallback ? "it has too many functions" : "";
	if (s->busy)
		return "a command ran in it";
	if (t && t->too_long)
		return "its state is longer than 256 KiB";
	return t && t->nonce[0] ? "it did not tell its state in time" : "its state is not known";
}

static void write_one(int box, const char *id, const struct keeper_session *s, size_t *used)
{
	const struct session_state *t = s->state;
	struct checkpoint_shell head = t && t->known ? t->head : head_of(s);
	const char *why = lost(s, t);
	struct err ignored;
	size_t n = 0;

	if (!why[0] && *used + t->script.len > ALL_MAX)
		why = "the states of all sessions are longer than 1 MiB";
	if (!why[0])
		n = t->script.len;
	*used += n;
	snprintf(head.lost, sizeof(head.lost), "%s", why);
	checkpoint_shell_write(box, id, s->name, &head, n ? t->script.data : "", n, &ignored);
}

void session_states_write(struct keeper *k, const char *id)
{
	autoclose int box = -1;
	struct err ignored;
	size_t used = 0;
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++) {
		const struct keeper_session *s = &k->sessions[i];

		/* a session whose shell has ended has nothing to restore */
		if (!s->name[0] || (!s->shell_seq && !(s->state && s->state->due)))
			continue;
		if (box < 0)
			box = registry_keep_dir(k->registry, k->claim.id, &ignored);
		if (box >= 0)
			write_one(box, id, s, &used);
	}
}

/* ---- after an undo ------------------------------------------------------------------- */

struct load {
	struct keeper *k;
	int box;
	const char *id;
};

static int load_shell_state(void *ctx, const char *name)
{
	const struct load *l = ctx;
	autobuf struct buf script = BUF_INIT(SHELLSTATE_MAX);
	struct checkpoint_shell head;
	struct keeper_session *s;
	struct session_state *t;
	struct err ignored;

	if (checkpoint_shell_read(l->box, l->id, name, &head, &script, &ignored) < 0 ||
	    head.lost[0] || !script.len)
		return 0;
	s = session_of_name(l->k, name, head.split, &ignored);
	t = s ? session_state_of(s) : NULL;
	if (!t)
		return 0;
	s->fallback = !head.is_bash;
	t->head = head;
	t->script = script;
	script = BUF_INIT(0);
	t->known = t->due = 1;
	t->number = s->number;
	session_state_begin(s);
	if (!head.is_bash && shellfuncs_add(&t->funcs, t->script.data, t->script.len, &ignored) < 0)
		t->funcs_missing = 1;
	return 0;
}

void session_states_load(struct keeper *k)
{
	struct err ignored;
	autoclose int box = registry_keep_dir(k->registry, k->claim.id, &ignored);
	char id[CHECKPOINT_ID];
	struct load l = { k, box, id };

	if (box < 0 || !checkpoint_shells_due(box, id))
		return;
	checkpoint_shells_each(box, id, load_shell_state, &l, &ignored);
	checkpoint_shells_done(box);
}

void session_states_start(struct keeper *k)
{
	struct err ignored;
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++) {
		struct keeper_session *s = &k->sessions[i];

		/* a shell that does not start now starts when it is used */
		if (s->name[0] && s->state && s->state->due && !s->shell_seq &&
		    session_shell_start(k, s, &ignored) == 0)
			session_state_restore(k, s, &ignored);
	}
}

void session_state_begin(struct keeper_session *s)
{
	const struct session_state *t = s->state;

	if (!t || !t->due)
		return;
	s->traps = t->head.traps;
	s->traces = t->head.traces;
	memcpy(s->tracing, t->head.tracing, sizeof(s->tracing));
	s->last_status = t->head.status;
}

int session_state_restore(struct keeper *k, struct keeper_session *s, struct err *e)
{
	struct session_state *t = s->state;
	char lines[SHELLSCRIPT_LINES];

	if (!t || !t->due)
		return 0;
	t->due = 0;
	if (put_state_file(k, s, &t->script, e) < 0)
		return -1;
	shellscript_restore(s->name, t->head.is_bash, t->head.status, lines);
	return session_shell_write(s, lines, e) < 0 ? -1 : 1;
}
