/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot - the process that copies the writable layer of a living sandbox.
 *
 * The keeper forks it, so that the keeper goes on to answer its clients.  It writes out what is
 * dirty while the sandbox runs, says SNAPSHOT_READY and waits for one byte, with which the keeper
 * tells it that the sandbox stands still; it copies the layer's file and says SNAPSHOT_COPIED; then
 * it writes the list, and says SNAPSHOT_DONE.
 *
 * The layer's ext4 has no journal, so its file must hold a whole file system: all processes of the
 * sandbox stand still, outside of system calls, and all is written out.  With reflinks the file is
 * then cloned in an instant.  Elsewhere, or while a process sleeps in the kernel without end, the
 * file system is frozen (FIFREEZE) for the time of the copy.
 *
 * Whoever is killed, a frozen layer goes on.  When the keeper is, this process thaws the layer after
 * the piece that it copies now.  When this process is, the keeper thaws it.  When both are, the one
 * who clears up after the sandbox does (checkpoint_thaw_left()): it finds the lock of the sandbox
 * free, which this process holds as long as it has the layer open.
 */
#ifndef BERTH_MANAGER_KEEPER_SNAPSHOT_H
#define BERTH_MANAGER_KEEPER_SNAPSHOT_H

#include <stdint.h>
#include <sys/types.h>

#include "manager/host/checkpoint.h"

struct snapshot {
	int box_fd;       /* the sandbox's directory */
	int layer_fd;     /* the mount of its layer */
	int lock_fd;      /* that says that the sandbox lives */
	int cgroup_fd;    /* that of the sandbox, v2 */
	int turn_fd;      /* copyturn.h; or -1 */
	uint64_t turn_at;
	int waits; /* for that turn: SNAPSHOT_TURN tells when it has come */
	const char *name; /* of the checkpoint; "": none */
	json_t *members;  /* of its record, borrowed */
	struct checkpoint_bounds bounds;
};

enum snapshot_kind { SNAPSHOT_TURN, SNAPSHOT_READY, SNAPSHOT_COPIED, SNAPSHOT_DONE, SNAPSHOT_FAILED };

/* One packet. */
struct snapshot_note {
	enum snapshot_kind kind;
	struct err err;         /* of SNAPSHOT_FAILED */
	char id[CHECKPOINT_ID]; /* from here on of SNAPSHOT_DONE */
	char parent[CHECKPOINT_ID];
	uint64_t bytes, flush_us, frozen_us;
	int shared; /* with the layer it came from */
};

/* Forks it.  *ret_sock is our end of its socket. */
int snapshot_start(const struct snapshot *s, pid_t *ret_pid, int *ret_sock, struct err *e);

#endif
