/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loosen - how options make a sandbox less confined than the default.
 *
 * A set of bits in the spec; 0 for most sandboxes, which costs them nothing. Settings of the
 * host's configuration do not count, because they are the default of that host.
 */
#ifndef BERTH_RUNTIME_SANDBOX_LOOSEN_H
#define BERTH_RUNTIME_SANDBOX_LOOSEN_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* X(enum, stable name, the option and what it takes away) */
#define LOOSENED(X) \
	X(LOOSE_NETWORK, "network-host", "--network host (the host's own network, its loopback included)") \
	X(LOOSE_CONNECTIONS, "connections-unlimited", "--network-connections unlimited (it can fill the host's table of connections)") \
	X(LOOSE_CAPS, "cap-add", "--cap-add (capabilities beyond the default ones)") \
	X(LOOSE_SECCOMP, "seccomp-unconfined", "--seccomp unconfined (no filter of system calls)") \
	X(LOOSE_PROFILE, "seccomp-profile", "--seccomp (a profile other than the host's default, and not strict)") \
	X(LOOSE_MEMORY, "memory-unlimited", "--memory unlimited (it can use up the host's memory)") \
	X(LOOSE_SWAP, "swap-unlimited", "--swap unlimited (it can use up the host's swap)") \
	X(LOOSE_CPUS, "cpus-unlimited", "--cpus unlimited (it can use all CPUs)") \
	X(LOOSE_DEVICES, "device", "--device (devices of the host)") \
	X(LOOSE_PIDS, "pids-unlimited", "--pids unlimited (it can use up the host's process ids)")

enum loosened {
#define X(sym, name, text) sym,
	LOOSENED(X)
#undef X
	LOOSE_COUNT
};

/* Appends the stable names as members of a JSON array, without its brackets. */
int loosen_names(uint32_t set, struct buf *out, struct err *e);
/* Appends what people read, separated by commas. */
int loosen_text(uint32_t set, struct buf *out, struct err *e);

#endif
