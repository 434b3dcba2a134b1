/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot - the process that copies the writable layer of a running sandbox.
 *
 * The keeper forks it, so that the keeper can continue to answer its clients. It writes dirty data
 * out while the sandbox runs, reports SNAPSHOT_READY and waits for one byte, by which the keeper
 * tells it that the sandbox is frozen. It copies the layer's file and reports SNAPSHOT_COPIED; then
 * it writes the list, and reports SNAPSHOT_DONE.
 *
 * The layer's ext4 has no journal, so its file must hold a whole file system: all processes of the
 * sandbox stand still, outside of system calls, and all data is written out. With reflinks the file
 * is then cloned in an instant. Elsewhere, or while a process sleeps in the kernel without end, the
 * file system is frozen (FIFREEZE) for the time of the copy.
 *
 * A frozen layer is always thawed. If the keeper is killed, this process thaws the layer after the
 * piece that it is copying. If this process is killed, the keeper thaws it. If both are, the
 * process that clears up after the sandbox does (checkpoint_thaw_left()): it finds the lock of the
 * sandbox free, which this process holds as long as it has the layer open.
 */
#ifndef BERTH_MANAGER_KEEPER_SNAPSHOT_H
#define BERTH_MANAGER_KEEPER_SNAPSHOT_H

#include <stdint.h>
#include <sys/types.h>

#include "manager/host/checkpoint.h"

struct snapshot {
	int box_fd;       /* the sandbox's directory */
	int layer_fd;     /* the mount of its layer */
	int lock_fd;      /* lock that shows that the sandbox is alive */
	int cgroup_fd;    /* the sandbox's v2 cgroup */
	int turn_fd;      /* descriptor of the turn (copyturn.h); or -1 */
	uint64_t turn_at;
	int waits; /* waits for that turn: SNAPSHOT_TURN reports when it has come */
	const char *name; /* name of the checkpoint; "": none */
	json_t *members;  /* members of its record, borrowed */
	struct checkpoint_bounds bounds;
};

enum snapshot_kind { SNAPSHOT_TURN, SNAPSHOT_READY, SNAPSHOT_COPIED, SNAPSHOT_DONE, SNAPSHOT_FAILED };

/* One packet. */
struct snapshot_note {
	enum snapshot_kind kind;
	struct err err;         /* with SNAPSHOT_FAILED */
	char id[CHECKPOINT_ID]; /* from here on with SNAPSHOT_DONE */
	char parent[CHECKPOINT_ID];
	uint64_t bytes, flush_us, frozen_us;
	int shared; /* the file shares blocks with the layer */
};

/* Forks the process. *ret_sock is our end of its socket. */
int snapshot_start(const struct snapshot *s, pid_t *ret_pid, int *ret_sock, struct err *e);

#endif
