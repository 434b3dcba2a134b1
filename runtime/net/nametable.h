/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nametable - the names of a network's members, in a file that every resolver of the network
 * maps.
 *
 * The file has a fixed size, so no process that maps it can fault. Only the host's side writes
 * it: rows are taken under the lock of the network (pool.h) and given back by the holder of the
 * member's number. A row counts once its stamp is set, which is the last write, and no longer
 * once the stamp is 0, which is the first. So a kill in between leaves nothing half true, and a
 * reader needs no lock.
 */
#ifndef BERTH_RUNTIME_NET_NAMETABLE_H
#define BERTH_RUNTIME_NET_NAMETABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/netaddr.h"
#include "runtime/net/dnsmsg.h"

#define NAMETABLE_FILE "names"
#define NAMETABLE_NAME 65	/* with the NUL */
#define NAMETABLE_NAMES 20	/* of a member */

struct nametable {
	struct nametable_map *map;	/* NULL: closed */
};

/* Maps the file in dir_fd, and makes it if it is missing; the caller holds the lock. */
int nametable_open(struct nametable *t, int dir_fd, struct err *e);
/* Maps the file itself, for a reader. */
int nametable_map(struct nametable *t, int fd, struct err *e);
void nametable_close(struct nametable *t);
/*
 * Gives the member with that number these names, and no others; the first is the name of its
 * address. ERR_LIMIT if the table is full.
 */
int nametable_set(struct nametable *t, uint32_t number, const char *const *names, size_t count,
		  struct err *e);
void nametable_forget(struct nametable *t, uint32_t number);
/* Finds the numbers of the members with this name, at most max, starting anywhere; returns how many. */
size_t nametable_find(const struct nametable *t, const char *name, uint32_t from, uint32_t *ret,
		      size_t max);
/* Gives the first name of the number: 1, or 0. */
int nametable_name(const struct nametable *t, uint32_t number, char ret[NAMETABLE_NAME]);

/* ---- answers from the table ---- */

/* namezone - answers questions for the names and addresses of one network, from its table. */

struct namezone {
	struct nametable table;
	char network[NAMETABLE_NAME];
	struct netcidr pool, pool6;
	int with6;
};

/* A network's name, its pools, and the file of its table. */
struct namezone_place {
	const char *network;
	const struct netcidr *pool, *pool6;
	int with6, fd;
};

int namezone_open(struct namezone *z, const struct namezone_place *at, struct err *e);
void namezone_close(struct namezone *z);
/*
 * Returns 1 if the query q, with the bytes p, concerns the network: out (DNSMSG_SMALL) then has the
 * answer of *len bytes. A member's names are NAME and NAME.NETWORK.
 */
int namezone_answer(const struct namezone *z, const struct dnsmsg *q, const uint8_t *p,
		    uint8_t *out, size_t *len);

#endif
