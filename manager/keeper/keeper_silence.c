/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit of the time for which a command may write nothing (--max-silent-time).
 *
 * Output that the keeper reads shows it by itself.  Where a command writes to descriptors of its
 * client, a process between them sees it (runtime/kernel/silence.h); the verdict waits then until
 * that has moved on the rest.  A terminal whose master side the client holds is watched by the
 * client, which was told the limit and asks for "silent".
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_state.h"

uint64_t keeper_silence_limit(const struct keeper *k, const json_t *rq)
{
	return request_max_silent_ms(rq, k->spec->max_silent_ms);
}

int keeper_silence_begin(struct keeper *k, struct keeper_command *c, int tty, int std[3],
			 struct err *e)
{
	int theirs[2];

	(void)k;
	if (!c->max_silent_ms || c->detached || tty)
		return 0;
	if (silence_open(&c->silence, std + 1, theirs, e) < 0)
		return -1;
	close(std[1]);
	close(std[2]);
	std[1] = theirs[0];
	std[2] = theirs[1];
	return 0;
}

/* Its client holds the terminal, and tells. */
static int is_told(const struct keeper_command *c)
{
	return !c->detached && !c->silence.shared;
}

uint64_t keeper_silence_due(const struct keeper_command *c)
{
	const uint64_t now = clock_ms();
	uint64_t last = c->spoke_ms;

	if (!c->max_silent_ms || is_told(c) || c->facts.timed_out || c->ended)
		return 0;
	if (c->silence.shared && silence_last_ms(&c->silence, now) > last)
		last = silence_last_ms(&c->silence, now);
	return last + c->max_silent_ms;
}

int keeper_silence_over(struct keeper *k, struct keeper_command *c, uint64_t now)
{
	if (!keeper_silence_due(c))
		return 0;
	/* it cannot write, or what it wrote is not read */
	if (k->paused || k->held_by || keeper_follow_lags(k, c) || keeper_main_rests(k, c))
		c->spoke_ms = now;
	if (now < keeper_silence_due(c))
		return 0;
	c->facts.silent = 1;
	return 1;
}

int keeper_silence_drains(struct keeper_command *c)
{
	if (!c->silence.shared || c->client < 0)
		return 0;
	c->facts.wall_ms = clock_ms() - c->started_ms;
	keeper_rest_limit(c);
	silence_stop(&c->silence);
	c->draining = 1;
	c->drained_ms = c->facts.timed_out ? clock_ms() + SILENCE_STUCK_MS : 0;
	return 1;
}

void keeper_silence_drained(struct keeper *k, struct keeper_command *c)
{
	if (c && c->draining)
		keeper_command_conclude(k, c);
}

/* The foreground command of this very client; one that has ended meanwhile is no error. */
int keeper_op_silent(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	int i;

	(void)e;
	for (i = 0; i < KEEPER_COMMANDS; i++) {
		struct keeper_command *c = k->commands[i];

		if (!c || c->client != rq->client || c->ended || c->facts.timed_out ||
		    !c->max_silent_ms || !is_told(c))
			continue;
		c->facts.silent = 1;
		keeper_command_over_time(k, c, clock_ms());
	}
	return 0;
}
