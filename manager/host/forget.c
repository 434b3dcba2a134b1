/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/forget.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/journal.h"
#include "manager/host/procid.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/volume.h"

/* ---- the files of a stopped sandbox go ---- */

#define TRIES 1000
#define LOOK_NS 10000000

int forget_claim(struct registry *r, const char *id, struct claim *ret, struct err *e)
{
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		if (!path_has(r->kept_fd, id))
			return err_set(e, ERR_NOT_FOUND, "sandbox %s is gone", id);
		if (registry_reclaim(r, id, NULL, ret, e) == 0)
			return 0;
		if ((e->code != ERR_EXISTS && e->code != ERR_BUSY) ||
		    record_is_there(r->sandboxes_fd, id))
			break;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
	return e->code == ERR_EXISTS || e->code == ERR_BUSY ?
	       err_set(e, ERR_BUSY, "sandbox %s was started meanwhile, or its files are in use; hint: try again", id) : -1;
}

/* The volumes that go with it, as it removes itself; NULL without any. */
static json_t *own_of(struct registry *r, const char *id)
{
	autojson json_t *own = volume_own_load(r, id), *record = NULL;
	struct err ignored;

	if (!own)
		return NULL;
	record = record_load_kept(r, id, &ignored);
	return record && record_auto_remove(record) ? take_ptr(&own) : NULL;
}

int forget_alone(struct registry *r, const char *id, struct err *e)
{
	autojson json_t *own = NULL;
	struct claim c;
	struct err ignored;
	int claimed = forget_claim(r, id, &c, e) == 0, result;

	if (!claimed && e->code == ERR_BUSY)
		return -1;
	own = own_of(r, id);
	result = registry_forget(r, id, e);
	if (claimed)
		registry_release(r, &c, &ignored);
	if (result == 0)
		volume_own_remove(r, own);
	return result;
}

/* ---- sandboxes whose time is over ---- */

int expire_is_over(const json_t *record)
{
	const json_int_t at = record_expires_ms(record);
	const char *owner = record_owner_process(record);

	return (at > 0 && (uint64_t)at <= clock_wall_ms() && !record_pause_at_end(record) &&
		!record_stop_at_end(record)) ||
	       (owner[0] && procid_has_ended(owner));
}

/* Tells whether it is due. A sandbox that was never started has not ended, so it cannot expire by its end. */
static int expire_is_due(const json_t *record)
{
	return (record_auto_remove(record) && record_status(record) != RECORD_CREATED) ||
	       expire_is_over(record);
}

/* Names first, work later: a list holds nothing. */
static int find_expired(void *ctx, const char *id, int kept, json_t *record)
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
	if (registry_list(r, 1, find_expired, ids, e) < 0)
		return -1;
	json_array_foreach(ids, i, id) {
		/*
		 * read again, because it may have been started meanwhile; forget_alone() refuses a
		 * running one
		 */
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
	int result = registry_list(r, 1, find_expired, ids, e) < 0 ? -1 : 0;

	json_array_foreach(ids, i, id)
		if (result == 0)
			result = each(ctx, json_string_value(id));
	return result;
}
