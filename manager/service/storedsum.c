/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/storedsum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "manager/host/tenant.h"
#include "manager/service/state.h"

int storedsum_read(struct service *s, const char *whose, struct storedsum *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(32);
	int got;

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->key, sizeof(ret->key), "stored-bytes/%s%s", whose[0] ? "t/" : "all", whose);
	got = ledger_get(s->ledger, ret->key, &b, &ret->version, e);
	if (got < 0)
		return -1;
	if (!got) {
		ret->version = LEDGER_ABSENT;
		return 0;
	}
	return buf_add(&b, "", 1, e) < 0 ? -1 : num_u64(b.data, "bytes in the storage", 0, INT64_MAX, &ret->bytes, e);
}

struct ledger_op storedsum_set(struct storedsum *t, uint64_t more, uint64_t less)
{
	const uint64_t v = t->bytes + more;

	snprintf(t->value, sizeof(t->value), "%" PRIu64, v > less ? v - less : 0);
	return (struct ledger_op){ .kind = LEDGER_SET, .key = t->key, .value = t->value, .version = t->version };
}

int storedsum_limit(struct service *s, const char *whose, uint64_t *ret, struct err *e)
{
	struct tenant t;

	if (tenant_load(&t, &s->config, whose, e) < 0)
		return -1;
	*ret = t.stored_bytes;
	return 0;
}
