/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay - a command's output on its way to the caller's pipes.
 *
 * A command does not get a pipe or stream socket of the caller's directly: a process that it
 * leaves behind would hold it, and its reader would wait for that process. The command gets a
 * pipe of ours, whose content is spliced on until the command has ended and the bytes in the
 * pipe at that time are through. Files and terminals have no reader that waits for an end, so
 * they are handed over.
 *
 * Two streams that are one pipe of the caller's become one pipe of ours, so that their order
 * stays. Standard input is handed over, because bytes that a command leaves unread are for the
 * caller's next one. Only if it is the same socket as an output, which no process in the sandbox
 * may hold, its bytes are passed on too.
 *
 * Nothing here blocks: the caller's descriptors keep their flags, and every write is one that
 * does not wait.
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

/* Slot i is for descriptor i; two outputs that are one share slot 1. */
struct relay {
	struct relay_stream stream[RELAY_STREAMS];
	int theirs[RELAY_STREAMS];	/* the command's ends, until relay_handed() */
};

/* Puts the ends of pipes for the command in std, which names the caller's descriptors, in place of what it must not hold. */
int relay_open(struct relay *r, int std[3], struct err *e);
/* The command has its ends: closes our copies of them, without which we would see no end. */
void relay_handed(struct relay *r);
/* Fills RELAY_POLLS entries. */
void relay_polls(const struct relay *r, struct pollfd *p);
/* Moves what can be moved, after poll(2) on those entries. */
void relay_move(struct relay *r, const struct pollfd *p);
/*
 * The command has ended, with this verdict (NULL: unknown). Passes on what is in its pipes now
 * and waits for their readers: after a timeout only for those that take something, and not
 * beyond a signal of signal_fd (-1: none) that asks to end. The keeper at sock reads the later
 * output of processes that were left behind. prog is for a note if a stream had no reader. r is
 * closed then; it may be what a failed relay_open() left.
 */
void relay_end(struct relay *r, const char *prog, int sock, int signal_fd, const char *command, const json_t *verdict);

#endif
