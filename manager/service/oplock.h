/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oplock - tracks the operations under way in each sandbox, within this berthd.
 *
 * Operations share the sandbox. An operation that destroys or replaces it takes it alone: it admits
 * no new operation, waits for those under way, then cuts their connections, whereupon the keeper
 * ends their commands.
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
	int sock;		/* the connection that is cut when the operation must end, or -1 */
	int forced;
};

struct oplocks *oplocks_new(struct err *e);
void oplocks_free(struct oplocks *l);

/* Begins an operation; waits while another one has the sandbox alone; ERR_BUSY if that takes long. */
int oplock_enter(struct oplocks *l, const char *name, struct oplock *op, struct err *e);
/* Sets the operation's connection; borrowed, to be unset before it is closed. */
void oplock_set_sock(struct oplock *op, int sock);
/* Ends the operation; 1 if it was ended by force. */
int oplock_leave(struct oplock *op);

/*
 * Takes the sandbox alone: waits while another operation has it alone, then at most drain_ms for
 * shared ones, which it then cuts. ERR_BUSY if the former takes long, or at once with a drain_ms of
 * 0; ERR_TIMEOUT if an operation does not end even so.
 */
int oplock_alone(struct oplocks *l, const char *name, uint64_t drain_ms, struct err *e);
/*
 * Takes the sandbox alone if no operation is under way, else ERR_BUSY; cuts nothing. For a short
 * look: oplock_alone() waits for its end.
 */
int oplock_try_alone(struct oplocks *l, const char *name, struct err *e);
void oplock_alone_end(struct oplocks *l, const char *name);
/* Returns the number of operations under way on name, or of all sandboxes if name is NULL. */
unsigned oplock_count(struct oplocks *l, const char *name);

#endif
