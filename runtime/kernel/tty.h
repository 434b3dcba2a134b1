/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tty - joins the caller's terminal to a sandbox's (pty(7), termios(3)).
 *
 * The caller's terminal is put in raw mode and restored by tty_close(), which
 * every path reaches.  Bytes are moved through two bounded buffers without ever
 * blocking, so that deadlines and signals are served meanwhile.
 */
#ifndef BERTH_RUNTIME_KERNEL_TTY_H
#define BERTH_RUNTIME_KERNEL_TTY_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

#include "base/err.h"

#define TTY_BUFFER 16384

struct tty {
	int master;	/* borrowed */
	int in, out;	/* the caller's stdin and stdout, borrowed */
	int raw;	/* saved is valid and must be restored */
	int in_eof, master_eof;
	struct termios saved;
	char to_master[TTY_BUFFER], to_out[TTY_BUFFER];
	size_t to_master_len, to_out_len;
	uint64_t heard;		/* bytes of output so far */
};

#define TTY_POLLS 3

/* Sets raw mode if in is a terminal; the sandbox's terminal gets its size. */
int tty_open(struct tty *t, int master, int in, int out, struct err *e);
/* As tty_open(), but the sandbox's terminal keeps a size of its own until the caller's window changes. */
int tty_open_sized(struct tty *t, int master, int in, int out, struct err *e);
/* Restores the caller's terminal.  Idempotent. */
void tty_close(struct tty *t);
/* Passes the caller's window size on, after SIGWINCH. */
void tty_resize(struct tty *t);
/* Fills TTY_POLLS entries for poll(2). */
void tty_polls(const struct tty *t, struct pollfd *p);
/* Moves what can be moved, after poll(2) on those entries. */
int tty_move(struct tty *t, const struct pollfd *p, struct err *e);
/* Reads what is still in the pty, after the command ended. */
void tty_drain(struct tty *t);

#endif
