/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netgroup - the budget and the log that the proxies of one network's members share.
 *
 * They are in a file of one page in the network's directory, which the proxy of each member maps.
 * Every byte is taken from the budget before it is read, so that all members together never get
 * more.
 */
#ifndef BERTH_RUNTIME_NET_NETGROUP_H
#define BERTH_RUNTIME_NET_NETGROUP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NETGROUP_FILE "egress.used"
#define NETGROUP_SIZE 4096

struct netgroup {
	uint64_t bytes, connections;	/* used by all members since the network was made */
	uint32_t log_now;		/* which of the log's two files is written */
};

/* Opens the file below dir, or makes it: a descriptor. */
int netgroup_open(const char *dir, struct err *e);
/* Maps the file; NULL with e. fd is not kept. */
struct netgroup *netgroup_map(int fd, struct err *e);
/* Returns the bytes that are left; max 0: no budget. */
uint64_t netgroup_bytes_left(const struct netgroup *g, uint64_t max);
/* Takes up to n bytes of the budget, and returns how many; the caller gives unused ones back. */
size_t netgroup_take(struct netgroup *g, uint64_t max, size_t n);
void netgroup_give_back(struct netgroup *g, size_t n);
/* Takes one connection of the budget; 0 if none is left. */
int netgroup_connect(struct netgroup *g, uint64_t max);
/* Appends a line of n bytes to one of the two files, which take turns at half_bytes. */
void netgroup_log(struct netgroup *g, const int fd[2], const char *line, size_t n,
		  size_t half_bytes);

#endif
