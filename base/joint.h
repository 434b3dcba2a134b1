/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joint - two connected sockets, joined: what comes in at one goes out at the other.
 *
 * An end of one direction is passed on as such (shutdown(2)) and the other direction goes on; an
 * error of one side resets the other, so that no reader takes a cut stream for a whole one.  What
 * a reader does not take stays in the sender's socket: of a joint berth holds at most what one
 * pipe holds in each direction, and nothing while both sides keep up.  Bytes go through pipes
 * by splice(2), without a copy.
 *
 * Nothing here waits.  The caller watches both descriptors with EPOLLET and calls joint_move() at
 * any event of either.
 */
#ifndef BERTH_BASE_JOINT_H
#define BERTH_BASE_JOINT_H

#include <poll.h>
#include <stddef.h>

#define JOINT_SPARE 16

/* Empty pipes that no joint holds now: for all joints of a process. */
struct joint_spares {
	int fd[JOINT_SPARE][2];
	size_t n;
};

struct joint {
	int fd[2];			/* non-blocking sockets, owned; -1: none yet */
	struct joint_way {
		int pipe[2];		/* of bytes on their way to fd[1 - i]; -1: there are none */
		size_t held;
		int ended, passed_on;	/* fd[i] has sent its end, and fd[1 - i] has got it */
	} way[2];			/* from fd[i] */
};

#define JOINT_INIT { .fd = { -1, -1 }, .way = { { .pipe = { -1, -1 } }, { .pipe = { -1, -1 } } } }

/* Sends a probe to a side that is silent, so that the end of a host that has gone is seen. */
void joint_keep_alive(int fd);
/* 1: there is more to move now, call it again; 0: wait for an event; -1: it has ended, release it. */
int joint_move(struct joint *j, struct joint_spares *s);
/* For poll(2) in place of EPOLLET: what joint_move() waits for; p[i].fd is -1 when both directions of fd[i] are done. */
void joint_polls(const struct joint *j, struct pollfd p[2]);
/* Closes both; with reset, by a reset for what was not cleanly ended. */
void joint_release(struct joint *j, int reset);
void joint_spares_release(struct joint_spares *s);

#endif
