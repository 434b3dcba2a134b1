/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay - a command's output on its way to the caller's pipes.
 *
 * A pipe or stream socket of the caller's is not handed to a command: a process
 * that the command leaves behind would hold it, and its reader would wait for
 * that process.  The command gets a pipe of ours, whose content is spliced on
 * until the command has ended and what was in the pipe then is through.  Files
 * and terminals have no reader that waits for an end: they are handed over.
 *
 * Two streams that are one pipe of the caller's are one pipe of ours, so that
 * their order stays.  Standard input is handed over, as what a command leaves
 * unread is for the caller's next one; only where it is the same socket as an
 * output, which nobody in the sandbox may hold, its bytes are passed on too.
 *
 * Nothing here blocks: the caller's descriptors stay as they are, and every
 * write is one that does not wait.
 */
#ifndef BERTH_CLI_LIVE_RELAY_H
#define BERTH_CLI_LIVE_RELAY_H

#include <poll.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

#define RELAY_BUFFER 16384
#define RELAY_STREAMS 3
#define RELAY_POLLS (2 * RELAY_STREAMS)

struct relay_stream {
	int from, to;		/* -1: it has ended, or there is none */
	int is_input;		/* to is ours, and from the caller's; else the other way round */
	int spliced;		/* from pipe to pipe; else by way of buf */
	int full;		/* to takes no more now */
	size_t left;		/* bytes of from still to be read; SIZE_MAX: until its end */
	size_t at, len;		/* of buf, still to be written */
	char buf[RELAY_BUFFER];
};

/* Slot i is for descriptor i; that of two outputs that are one is slot 1. */
struct relay {
	struct relay_stream stream[RELAY_STREAMS];
	int theirs[RELAY_STREAMS];	/* the command's ends, until relay_handed() */
};

/* Puts the ends of pipes for the command in std, which names the caller's descriptors, in place of what it must not hold. */
int relay_open(struct relay *r, int std[3], struct err *e);
/* The command has its ends: ours of them are closed, without which no end would be seen. */
void relay_handed(struct relay *r);
/* Fills RELAY_POLLS entries. */
void relay_polls(const struct relay *r, struct pollfd *p);
/* Moves what can be moved, after poll(2) on those entries. */
void relay_move(struct relay *r, const struct pollfd *p);
/*
 * The command has ended, with this verdict (NULL: nobody knows how): passes on
 * what is in its pipes now and waits for their readers, after a timeout only for
 * those that take something, and not beyond a signal of signal_fd (-1: none)
 * that asks to end.  What processes that it left behind write later is read by
 * the keeper at sock.  prog is for a note when something had no reader.  r is
 * closed then; what relay_open() left when it failed is accepted.
 */
void relay_end(struct relay *r, const char *prog, int sock, int signal_fd, const char *command, const json_t *verdict);

#endif
