/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence - measures for how long a command has written nothing to descriptors of its caller.
 *
 * The command gets pipes in place of those descriptors. A process between them, which is killed
 * with its parent, moves the bytes on and notes in shared memory when some came. It may block in a
 * write to the caller's descriptor, so it is a process and not part of a loop that serves others. A
 * slow reader does not count as silence of the command.
 *
 * SILENCE_NONE is one that watches nothing; every call takes it.
 */
#ifndef BERTH_RUNTIME_KERNEL_SILENCE_H
#define BERTH_RUNTIME_KERNEL_SILENCE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Time for which the output of a command that a limit ended waits for readers. */
#define SILENCE_STUCK_MS 1000

struct silence_shared;

struct silence {
	struct silence_shared *shared;	/* NULL: no output is watched */
	pid_t pid;
	int fd;		/* readable, at its end, once all output has been moved on */
};

#define SILENCE_NONE { .fd = -1 }

/*
 * Watches the output to out[0] and out[1], which stay the caller's. ret gets the write ends for the
 * command, to be closed by the caller; one write end twice if both of out are the same file, so
 * that the order of the output stays.
 */
int silence_open(struct silence *s, const int out[2], int ret[2], struct err *e);
/* Returns when the command last wrote (clock_ms()), or now while a reader is waited for. */
uint64_t silence_last_ms(const struct silence *s, uint64_t now);
/* Call it when the command has ended: only bytes that are in the pipes are still moved on, then fd ends. */
void silence_stop(struct silence *s);
/*
 * Calls silence_stop(), and waits for the end of fd, up to most_ms (-1: for ever) or until wake_fd
 * is readable.
 */
void silence_drain(struct silence *s, int most_ms, int wake_fd);
/* Ends the process, and drops the bytes that it has not moved on. Idempotent. */
void silence_close(struct silence *s);

#endif
