/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/expire.h"

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/events.h"
#include "manager/host/forget.h"
#include "manager/host/list.h"
#include "manager/host/procid.h"
#include "manager/host/record.h"

int expire_is_over(const json_t *record)
{
	const json_int_t at = record_expires_ms(record);
	const char *owner = record_owner_process(record);

	return (at > 0 && (uint64_t)at <= clock_wall_ms() && !record_pause_at_end(record) &&
		!record_stop_at_end(record)) ||
	       (owner[0] && procid_has_ended(owner));
}

/* One that was not started yet has no end at which it would go. */
static int expire_is_due(const json_t *record)
{
	return (record_auto_remove(record) && record_status(record) != RECORD_CREATED) ||
	       expire_is_over(record);
}

/* Names first, work later: a list holds nothing. */
static int find_due(void *ctx, const char *id, int kept, json_t *record)
{
	if (kept && expire_is_due(record))
		json_array_append_new(ctx, json_string(id));
	return 0;
}

int expire_stopped(struct registry *r, unsigned *ret_removed, struct err *e)
{
	autojson json_t *ids = json_array();
	struct err ignored;
	json_t *id;
	size_t i;

	*ret_removed = 0;
	if (registry_list(r, 1, find_due, ids, e) < 0)
		return -1;
	json_array_foreach(ids, i, id) {
		/* again, as it may have been started meanwhile; forget_alone() refuses one that runs */
		autojson json_t *record = record_load_kept(r, json_string_value(id), &ignored);

		if (!record || !expire_is_due(record) || forget_alone(r, json_string_value(id), &ignored) < 0)
			continue;
		events_add(r, "rm", json_string_value(id), json_pack("{s:s}", "reason", "expired"));
		++*ret_removed;
	}
	return 0;
}

int expire_dry(struct registry *r, int (*each)(void *ctx, const char *id), void *ctx, struct err *e)
{
	autojson json_t *ids = json_array();
	json_t *id;
	size_t i;
	int result = registry_list(r, 1, find_due, ids, e) < 0 ? -1 : 0;

	json_array_foreach(ids, i, id)
		if (result == 0)
			result = each(ctx, json_string_value(id));
	return result;
}
