/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many archived sandboxes a tenant may have.  Upholds S41 of SECURITY.md.
 *
 * One that is archived promises nothing of the host's memory any more, but it keeps bytes of
 * the storage and, on the host that made it, a range of ids.  Archives under way count.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/tenant.h"
#include "manager/service/state.h"

#define RECORD_BYTES_MAX (1u << 20)

struct tally {
	const char *owner;
	uint64_t count;
};

static int add_record(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct tally *t = ctx;
	autorecord struct record r = { .version = version };
	struct err ignored;

	/* most are not: that is seen before it is parsed */
	if (!strstr(value, "archived"))
		return 0;
	r.j = json_parse(value, strlen(value), RECORD_BYTES_MAX, key, &ignored);
	if (r.j && tenancy_is_tenants(&r) && record_run(&r) == RUN_ARCHIVED &&
	    !strcmp(record_own(&r, "owner"), t->owner) && !record_is_over(&r))
		t->count++;
	return 0;
}

/* With the lock held. */
static uint64_t under_way(const struct service *s, const char *owner)
{
	const struct archive_turn *t;
	uint64_t n = 0;

	for (t = s->archive_turns; t; t = t->next)
		n += !strcmp(t->owner, owner);
	return n;
}

void archive_share_leave(struct service *s, struct archive_turn *t)
{
	struct archive_turn **at;

	pthread_mutex_lock(&s->lock);
	for (at = &s->archive_turns; *at; at = &(*at)->next)
		if (*at == t) {
			*at = t->next;
			break;
		}
	pthread_mutex_unlock(&s->lock);
}

/*
 * The turn is taken before the records are counted, so of two that come at once each sees
 * the other; an archive that has just ended may count twice for a moment.
 */
int archive_share_enter(struct service *s, const struct record *r, struct archive_turn *t,
			struct err *e)
{
	struct tally n = { .owner = record_own(r, "owner") };
	struct tenant tenant;

	*t = (struct archive_turn){ .next = NULL };
	if (!tenancy_is_tenants(r) || record_run(r) == RUN_ARCHIVED)
		return 0;
	if (tenant_load(&tenant, &s->config, n.owner, e) < 0)
		return -1;
	snprintf(t->owner, sizeof(t->owner), "%s", n.owner);
	pthread_mutex_lock(&s->lock);
	t->next = s->archive_turns;
	s->archive_turns = t;
	n.count = under_way(s, n.owner);
	pthread_mutex_unlock(&s->lock);
	if (ledger_scan(s->ledger, RECORD_PREFIX, add_record, &n, e) < 0) {
		archive_share_leave(s, t);
		return -1;
	}
	if (n.count <= tenant.archives)
		return 0;
	archive_share_leave(s, t);
	return err_set(e, ERR_LIMIT, "tenant %s has %" PRIu64 " archived sandboxes, which is the "
		       "most; hint: start or release some, or [tenant] archives in berth.toml",
		       t->owner, tenant.archives);
}
