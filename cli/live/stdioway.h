/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdioway - standard input and output, joined to a socket, for a ProxyCommand.
 *
 * The end of one direction is passed on as such, and the other goes on.  Nothing here waits,
 * whatever flags the caller's descriptors have.
 */
#ifndef BERTH_CLI_LIVE_STDIOWAY_H
#define BERTH_CLI_LIVE_STDIOWAY_H

#include <poll.h>
#include <stddef.h>

#include "base/err.h"

#define STDIOWAY_BYTES 65536
#define STDIOWAY_POLLS 4

/* One direction: [0] from standard input to the socket, [1] back. */
struct stdioway {
	int from, to, ended;
	size_t at, len;
	char buf[STDIOWAY_BYTES];
};

/* Both directions, zeroed; fd stays the caller's. */
void stdioway_init(struct stdioway way[2], int fd);
/* Fills STDIOWAY_POLLS entries. */
void stdioway_polls(const struct stdioway way[2], struct pollfd *p);
/* Moves what poll(2) found: 0, or -1 with ERR_SYS. */
int stdioway_move(struct stdioway way[2], const struct pollfd *p, struct err *e);

#endif
