/* SPDX-License-Identifier: Apache-2.0 */
/* namezone - answers for the names and addresses of one network, from its table. */
#ifndef BERTH_RUNTIME_NET_NAMEZONE_H
#define BERTH_RUNTIME_NET_NAMEZONE_H

#include "runtime/net/dnsmsg.h"
#include "base/netaddr.h"
#include "runtime/net/nametable.h"

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
 * 1 if the query q, with the bytes p, concerns the network: then out (DNSMSG_SMALL) has the
 * answer of *len bytes. NAME and NAME.NETWORK are its names.
 */
int namezone_answer(const struct namezone *z, const struct dnsmsg *q, const uint8_t *p,
		    uint8_t *out, size_t *len);

#endif
