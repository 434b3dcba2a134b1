/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence - since when a command has written nothing, where it writes to descriptors of its caller.
 *
 * The command gets pipes in place of those descriptors.  A process between them, which is killed
 * with its parent, moves the bytes on and notes in shared memory when some came.  It may block in a
 * write to the caller's descriptor: so it is a process, and not part of a loop that serves others.
 * A reader that is slow is no silence of the command.
 *
 * SILENCE_NONE is one that watches nothing; every call takes it.
 */
#ifndef BERTH_RUNTIME_KERNEL_SILENCE_H
#define BERTH_RUNTIME_KERNEL_SILENCE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* How long the output of a command that a limit ended waits for readers. */
#define SILENCE_STUCK_MS 1000

struct silence_shared;

struct silence {
	struct silence_shared *shared;	/* NULL: nothing is watched */
	pid_t pid;
	int fd;		/* readable, at its end, when all that was written has been moved on */
};

#define SILENCE_NONE { .fd = -1 }

/*
 * Watches what is written to out[0] and out[1], which stay the caller's.  ret holds the write ends
 * for the command, to be closed by the caller; one of both if out is the same file twice, so that
 * the order of what is written stays.
 */
int silence_open(struct silence *s, const int out[2], int ret[2], struct err *e);
/* When something was written last (clock_ms()); now as long as a reader is waited for. */
uint64_t silence_last_ms(const struct silence *s, uint64_t now);
/* The command has ended: from now on only what is in the pipes is moved on, then fd ends. */
void silence_stop(struct silence *s);
/* silence_stop(), and waits for that, up to most_ms (-1: for ever) or until wake_fd is readable. */
void silence_drain(struct silence *s, int most_ms, int wake_fd);
/* Ends the process, with what it has not moved on.  Idempotent. */
void silence_close(struct silence *s);

#endif
