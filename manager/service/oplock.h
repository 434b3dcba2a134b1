/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oplock - the operations that run in a sandbox right now, within this berthd.
 *
 * Operations share the sandbox. An operation that destroys or replaces it takes it alone: it
 * admits no new operation, waits for those under way, then cuts their connections, at which the
 * keeper ends their commands.
 */
#ifndef BERTH_MANAGER_SERVICE_OPLOCK_H
#define BERTH_MANAGER_SERVICE_OPLOCK_H

#include <stdint.h>

#include "base/err.h"

struct oplocks;

struct oplock {			/* one operation, on the stack of its thread */
	struct oplocks *all;
	struct oplock_entry *entry;
	struct oplock *next;
	int sock;		/* cut when it must end, or -1 */
	int forced;
};

struct oplocks *oplocks_new(struct err *e);
void oplocks_free(struct oplocks *l);

/* Waits while another has the sandbox alone; ERR_BUSY when that takes long. */
int oplock_enter(struct oplocks *l, const char *name, struct oplock *op, struct err *e);
/* The connection the operation works over; borrowed, to be unset before it is closed. */
void oplock_set_sock(struct oplock *op, int sock);
/* 1 when it was ended by force. */
int oplock_leave(struct oplock *op);

/*
 * Alone: waits while another has it alone, then at most drain_ms for operations, which it then
 * cuts; ERR_BUSY when the former takes long, or at all with a drain_ms of 0; ERR_TIMEOUT when an
 * operation does not end even so.
 */
int oplock_alone(struct oplocks *l, const char *name, uint64_t drain_ms, struct err *e);
/* Alone if nobody works in it, else ERR_BUSY; cuts nothing.  For a short look: oplock_alone() waits for its end. */
int oplock_try_alone(struct oplocks *l, const char *name, struct err *e);
void oplock_alone_end(struct oplocks *l, const char *name);
/* Operations under way on name; of all sandboxes when name is NULL. */
unsigned oplock_count(struct oplocks *l, const char *name);

#endif
