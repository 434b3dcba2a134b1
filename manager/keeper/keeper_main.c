/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main command of a sandbox that is a service.
 *
 * It begins before the caller of create or start hears that the sandbox runs, after the init
 * command, when there is one, has succeeded; if either fails, so does the start.  It is a
 * detached command like another, but that all of its output is in the sandbox's log, and that
 * its end is the sandbox's: the keeper stops, and writes into the record how it ended.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_state.h"

#define PACE_MS 100		/* time in which its output takes at most PACE_US of ours */
#define PACE_US 30000
#define PACE_SAVED_US 500000	/* time that a service which writes little may save for more */
#define FOLLOWED_MS 1000	/* time for followers to ask for the rest of its output */
#define LAST_WORDS 200		/* bytes of an init command's output in the error */

static const char keeper_main_reason[] = "its main command ended";

static json_t *request_of(const struct keeper *k)
{
	const struct keeper_service *s = k->main.service;
	json_t *argv, *rq;
	size_t i;

	if (k->main.phase == MAIN_PREPARES)
		return json_pack("{s:[s,s,s],s:b,s:i,s:i}", "argv", "/bin/sh", "-c", s->init_command,
				 "detach", 1, "timeout_ms", 0, "max_silent_ms", 0);
	argv = json_array();
	for (i = 0; i < k->spec->argc; i++)
		json_array_append_new(argv, json_string(k->spec->argv[i]));
	rq = json_pack("{s:o,s:b,s:b,s:I,s:I}", "argv", argv, "detach", 1, "tty", s->tty,
		       "timeout_ms", (json_int_t)s->timeout_ms, "max_silent_ms",
		       (json_int_t)s->max_silent_ms);
	if (rq && s->rows && (json_object_set_new(rq, "rows", json_integer((json_int_t)s->rows)) < 0 ||
			      json_object_set_new(rq, "cols", json_integer((json_int_t)s->cols)) < 0))
		json_object_clear(rq);
	if (rq && json_array_size(argv) == k->spec->argc)
		return rq;
	json_decref(rq);
	return NULL;
}

/* Clients that asked for its end before it began. */
static void set_waiters(struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0 && k->clients[i].waits == KEEPER_WAITS_MAIN)
			k->clients[i].waits = k->main.seq;
}

static int launch_main(struct keeper *k, enum main_phase phase, struct err *e)
{
	struct keeper_request ask = { .client = KEEPER_OWN, .op = OP_exec };
	autojson json_t *rq = NULL;
	struct keeper_command *c;
	int i;

	k->main.phase = phase;
	rq = request_of(k);
	if (!rq)
		return err_set(e, ERR_INVALID, "the main command is not valid UTF-8");
	k->main.seq = k->next_seq;
	ask.json = rq;
	if (keeper_op_exec(k, &ask, e) < 0)
		return -1;
	c = keeper_command_find(k, k->main.seq);
	if (!k->main.service->interactive && !c->tty)
		fd_close(&c->in_fd);
	/* for a service that may run without end the last bytes count, and the log has those before them */
	for (i = 0; i < 2 && !c->tty; i++)
		ring_init(&c->out[i], 0, k->tail_max);
	if (phase == MAIN_STARTS) {
		set_waiters(k);
		k->main.held_until_ms = clock_ms() + KEEPER_AWAITED_MS;
	}
	return 0;
}

int keeper_main_begin(struct keeper *k, struct err *e)
{
	const struct keeper_service *s = k->main.service;

	if (!s)
		return 0;
	k->main.awaited = s->awaited;
	if (launch_main(k, s->init_command ? MAIN_PREPARES : MAIN_STARTS, e) == 0)
		return 0;
	k->main.phase = MAIN_FAILED;
	return err_wrap(e, s->init_command ? "init command" : "main command");
}

int keeper_main_pends(const struct keeper *k)
{
	return k->main.service && !k->stopping && (k->main.phase == MAIN_PREPARES ||
						   k->main.phase == MAIN_STARTS);
}

int keeper_main_result(const struct keeper *k, struct err *e)
{
	if (!k->main.service || k->main.phase == MAIN_RUNS || k->main.phase == MAIN_ENDED)
		return 0;
	if (k->main.failed.code != ERR_NONE) {
		*e = k->main.failed;
		return -1;
	}
	return err_set(e, ERR_BUSY, "the sandbox was stopped before its main command began");
}

int keeper_main_is(const struct keeper *k, const struct keeper_command *c)
{
	return k->main.service && c->seq == k->main.seq;
}

struct keeper_command *keeper_main_command(struct keeper *k)
{
	return k->main.service && k->main.phase >= MAIN_STARTS ? keeper_command_find(k,
		k->main.seq) : NULL;
}

const char *keeper_main_source(const struct keeper *k)
{
	return k->main.phase == MAIN_PREPARES ? KEEPER_LOG_INIT : KEEPER_LOG_MAIN;
}

void keeper_main_started(struct keeper *k)
{
	if (k->main.phase == MAIN_STARTS)
		k->main.phase = MAIN_RUNS;
}

static void fail_main(struct keeper *k, const struct err *why, const char *what)
{
	k->main.failed = *why;
	err_wrap(&k->main.failed, "%s", what);
	k->main.phase = MAIN_FAILED;
	k->stop_reason = keeper_main_reason;
	k->stopping = 1;
}

void keeper_main_failed(struct keeper *k, const struct err *why)
{
	fail_main(k, why, k->main.phase == MAIN_PREPARES ? "init command" : "main command");
}

/* Gives the last line that it wrote, which mostly tells why it ended. */
static void last_main_line(const struct keeper_command *c, char out[LAST_WORDS])
{
	autobuf struct buf b = BUF_INIT(LAST_WORDS + 1);
	uint64_t start, next, total;
	struct err ignored;
	const char *nl;
	int which;

	out[0] = '\0';
	for (which = 1; which >= 0 && !b.len; which--) {
		total = c->out[which].total;
		ring_read(&c->out[which], total > LAST_WORDS - 1 ? total - (LAST_WORDS - 1) : 0,
			  LAST_WORDS - 1, &b,
			  &start, &next, &ignored);
	}
	while (b.len && b.data[b.len - 1] == '\n')
		b.len--;
	if (!b.len || buf_add(&b, "", 1, &ignored) < 0)
		return;
	nl = strrchr(b.data, '\n');
	log_clean(out, LAST_WORDS, nl ? nl + 1 : b.data, 0);
}

static void prepared(struct keeper *k, const struct keeper_command *c)
{
	char words[LAST_WORDS];
	struct err e;

	if (c->verdict.cause == CAUSE_EXIT && verdict_exit_status(&c->verdict) == 0) {
		if (launch_main(k, MAIN_STARTS, &e) < 0)
			keeper_main_failed(k, &e);
		return;
	}
	last_main_line(c, words);
	err_set(&e, ERR_INTERNAL, "it ended with exit status %d, cause %s%s%s",
		verdict_exit_status(&c->verdict),
		verdict_cause_name(c->verdict.cause), words[0] ? ": " : "", words);
	fail_main(k, &e, "init command");
}

static void main_check(struct keeper *k, uint64_t now);

/*
 * A client got some of its output, and has not asked for the rest; holds: a client that may miss
 * nothing.
 */
static int is_followed(const struct keeper *k, int holds)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0 && k->clients[i].follow.seq == k->main.seq &&
		    (!holds || k->clients[i].follow.hold))
			return 1;
	return 0;
}

void keeper_main_concluded(struct keeper *k, const struct keeper_command *c)
{
	if (k->main.phase == MAIN_PREPARES && !k->stopping) {
		prepared(k, c);
		return;
	}
	if (k->main.phase == MAIN_PREPARES)
		return;
	k->main.verdict = c->verdict;
	k->main.phase = MAIN_ENDED;
	if (!k->stop_reason && !k->stopping && !k->stop_at_ms)
		k->stop_reason = keeper_main_reason;
	k->main.until_ms = clock_ms() +
			   (k->main.awaited || is_followed(k, 1) ? KEEPER_AWAITED_MS : FOLLOWED_MS);
	main_check(k, clock_ms());
}

/* Each client counts once, for any number of requests. */
void keeper_main_attended(struct keeper *k, int client, const struct keeper_command *c)
{
	if (!keeper_main_is(k, c) || k->clients[client].attends)
		return;
	k->clients[client].attends = 1;
	k->main.awaited -= k->main.awaited != 0;
}

/*
 * Tells whether its output is held; never an init command's, because the caller that announced the
 * clients waits for its end.
 */
int keeper_main_holds(const struct keeper *k, const struct keeper_command *c)
{
	return k->main.awaited && k->main.held_until_ms && keeper_main_is(k, c);
}

/*
 * Paces the output. Reading and logging takes our time, which no cgroup of the sandbox counts, so a
 * service that writes for ever waits for its pipe instead (D13). Time that a read took beyond a
 * window's is taken from the next window's; what it does not use it saves, to a bound, so that a
 * command of a short life is not slowed.
 */
static void main_pace(struct keeper *k, uint64_t now)
{
	const uint64_t windows = (now - k->main.paced_ms) / PACE_MS;
	const uint64_t most = (PACE_SAVED_US + PACE_US) / PACE_US;

	if (!windows)
		return;
	k->main.paced_ms += windows * PACE_MS;
	k->main.paced_us -= (int64_t)(windows < most ? windows : most) * PACE_US;
	if (k->main.paced_us < -PACE_SAVED_US)
		k->main.paced_us = -PACE_SAVED_US;
}

void keeper_main_read(struct keeper *k, uint64_t cpu_us)
{
	main_pace(k, clock_ms());
	k->main.paced_us += (int64_t)cpu_us;
}

int keeper_main_rests(const struct keeper *k, const struct keeper_command *c)
{
	return k->main.paced_us >= PACE_US && keeper_main_is(k, c);
}

static uint64_t main_next(struct keeper *k)
{
	if (k->main.phase == MAIN_ENDED)
		return k->main.until_ms;
	return clock_earlier(k->main.paced_us >= PACE_US ? k->main.paced_ms + PACE_MS : 0,
			     k->main.awaited ? k->main.held_until_ms : 0);
}

static void main_check(struct keeper *k, uint64_t now)
{
	main_pace(k, now);
	if (now >= k->main.held_until_ms)
		k->main.held_until_ms = 0;
	if (k->main.phase == MAIN_ENDED &&
	    (now >= k->main.until_ms || (!k->main.awaited && !is_followed(k, 0))))
		k->stopping = 1;
}

/* Sends the main command the signal of the stop, or its own: 1 if there is one. */
int keeper_main_ask_to_end(struct keeper *k)
{
	const struct keeper_command *c = keeper_main_command(k);
	struct err ignored;

	if (!c || c->ended)
		return 0;
	if (keeper_command_signal(k, c, k->end_signal ? k->end_signal : k->main.service->stop_signal, &ignored) < 0)
		k->stopping = 1;
	return 1;
}

uint64_t keeper_main_grace_ms(const struct keeper *k)
{
	return k->main.service ? k->main.service->stop_timeout_ms : k->spec->grace_ms;
}

int keeper_main_awaits(struct keeper *k, int client, const char *id)
{
	if (!id || strcmp(id, KEEPER_MAIN) || k->main.phase != MAIN_PREPARES)
		return 0;
	k->clients[client].waits = KEEPER_WAITS_MAIN;
	return 1;
}

int keeper_main_note(const struct keeper *k, json_t *record)
{
	char now[JOURNAL_TIME];
	struct timespec t;

	if (!k->main.service)
		return 0;
	clock_gettime(CLOCK_REALTIME, &t);
	journal_time(&t, now);
	record_set_status(record, k->main.by_hand ? RECORD_STOPPED : RECORD_EXITED);
	record_set_stopped_by_hand(record, k->main.by_hand);
	record_set_finished(record, now);
	if (k->main.phase == MAIN_ENDED)
		record_set_verdict(record, keeper_command_verdict(&k->main.verdict));
	else if (k->main.failed.code != ERR_NONE)
		record_set_start_error(record, k->main.failed.msg);
	return 1;
}

int keeper_main_update(struct keeper *k, const json_t *rq, struct err *e)
{
	const char *text = request_restart(rq, NULL);
	const uint64_t guardian = request_guardian_pid(rq, 0);
	autojson json_t *kept = NULL;
	struct restart_policy p;

	if (!text)
		return 0;
	if (restart_parse(text, &p, e) < 0)
		return -1;
	kept = record_load_kept(k->registry, k->claim.id, e);
	if (!kept)
		return -1;
	restart_note(kept, &p, guardian);
	restart_note(k->record, &p, guardian);
	if (record_save_kept(k->registry, k->claim.id, kept, e) < 0)
		return -1;
	return record_save_run(&k->claim, k->record, e);
}

const struct keeper_part keeper_part_main = { .next = main_next, .check = main_check };
