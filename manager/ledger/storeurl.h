/* SPDX-License-Identifier: Apache-2.0 */
/* storeurl - the grammar of [store] url: the configuration is checked by it, and the store opened. */
#ifndef BERTH_MANAGER_LEDGER_STOREURL_H
#define BERTH_MANAGER_LEDGER_STOREURL_H

#include <stdint.h>

#include "base/err.h"

struct storeurl {
	enum { STORE_SQLITE, STORE_REDIS, STORE_REDIS_UNIX } kind;
	char path[256];		/* of the database, or of the socket */
	char host[256];		/* STORE_REDIS: without the brackets of an IPv6 address */
	int port;
	uint64_t db;
};

/* sqlite:/PATH, redis://HOST[:PORT][/DB], redis+unix:/PATH.  ERR_CONFIG, which names what ("store.url"). */
int storeurl_parse(const char *url, const char *what, struct storeurl *ret, struct err *e);

#endif
