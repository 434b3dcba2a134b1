/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storedsum - what a tenant, and what all together, have in the storage: stored-bytes/t/TENANT and stored-bytes/all of the ledger.
 *
 * A sum is read with its version and written in one batch with the record of what it counts, before anything is sent; so it is
 * never too small, also when several berthds share the store.
 */
#ifndef BERTH_MANAGER_SERVICE_STOREDSUM_H
#define BERTH_MANAGER_SERVICE_STOREDSUM_H

#include <stdint.h>

#include "manager/ledger/ledger.h"
#include "manager/service/service.h"

#define STOREDSUM_TRIES 1000	/* each takes that another writes a sum in that moment */

struct storedsum {
	char key[200], value[24];
	uint64_t bytes, version;
};

/* whose: a tenant, or "" for all. */
int storedsum_read(struct service *s, const char *whose, struct storedsum *ret, struct err *e);
/* The operation that sets it to so many bytes more, or less, if it has not changed; t lasts as long as that. */
struct ledger_op storedsum_set(struct storedsum *t, uint64_t more, uint64_t less);
/* [tenant] stored_bytes of a tenant. */
int storedsum_limit(struct service *s, const char *whose, uint64_t *ret, struct err *e);

#endif
