/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releases a sandbox: stores its workspace, removes everything, and only then records that. Each
 * step can be repeated, so a release that failed or was interrupted continues where it stopped.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "manager/objects/storage.h"
#include "manager/service/state.h"

#define RELEASE_TRIES 5

/*
 * Stores its data before any of it is removed: an archive was uploaded when it was made, a reaped
 * sandbox when it was reaped.
 */
static int store_first(struct service *s, struct record *r, struct err *e)
{
	if (record_is(r, STATE_WARM) || record_run(r) == RUN_ARCHIVED || !record_str(r, "storage_path")[0] || !s->storage ||
	    json_is_true(json_object_get(json_object_get(r->j, "berth"), "stored")))
		return 0;
	if (driver_stop(s, r, e) < 0)
		return -1;
	if (workspace_upload(s, r, e) < 0) {
		size_t n = strlen(e->msg);

		snprintf(e->msg + n, sizeof(e->msg) - n, "%s \"discard\": true releases it without", strstr(e->msg, "; hint: ") ? ", or" : "; hint:");
		return -1;
	}
	record_set_own(r, "stored", json_true());
	return 0;
}

/* The steps, each of which may be done again: a record says released only when nothing is left. */
static int take_away(struct service *s, struct record *r, int discard, struct err *e)
{
	if (driver_remove(s, r, e) < 0 || archive_drop(s, r, discard, e) < 0)
		return -1;
	/*
	 * an archive has none, except the remains of a crash, and the path may belong to its
	 * last host
	 */
	if ((record_is_ours(s, r) || record_run(r) != RUN_ARCHIVED) &&
	    (workspace_remove_spare(r, e) < 0 ||
	     (json_is_true(json_object_get(json_object_get(r->j, "berth"), "own_workspace")) && workspace_remove(s, r, e) < 0)))
		return -1;
	json_object_set_new(r->j, "released_at", json_real(wall_seconds()));
	json_object_set_new(r->j, "recycled_at", json_null());
	if (record_step(r, EVENT_RELEASED, e) < 0 ||
	    (record_str(r, "session_ctx_id")[0] ? session_unbind(s, r, e) : record_save(s, r, NULL, 0, e)) < 0)
		return -1;
	given_drop(s, r);
	return 0;
}

static void drop_from_pool(struct service *s, const struct record *r)
{
	char key[LEDGER_KEY_MAX + 1], item[160];
	struct ledger_op op = { LEDGER_TAKE, key, item, 0, 0 };
	struct err ignored;

	pool_list_key(record_own(r, "machine"), record_str(r, "sandbox_type"), key);
	snprintf(item, sizeof(item), "%s/%s", record_own(r, "host"), r->name);
	ledger_commit(s->ledger, &op, 1, NULL, &ignored);
}

int service_release_gone(struct service *s, const char *name, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int gone;

	/* the process that has it alone may be restoring it; when the record is gone, none can */
	if (oplock_try_alone(s->ops, name, e) < 0)
		return -1;
	gone = record_load(s, NULL, name, 0, &r, e) == 0 && record_is(&r, STATE_RUNNING) && record_run(&r) != RUN_ARCHIVED &&
	       record_is_ours(s, &r) && !driver_exists(s, record_str(&r, "container_id"));
	oplock_alone_end(s->ops, name);
	return gone ? service_release_record(s, &r, 0, e) : 0;
}

static int is_refused(const struct err *e)
{
	return e->code == ERR_LIMIT || e->code == ERR_INVALID;
}

static int change_failed(struct record *r, void *ctx, struct err *e)
{
	const struct err *why = ctx;
	char text[sizeof(why->msg)];

	(void)e;
	log_clean(text, sizeof(text), why->msg, 0);	/* the message may contain a file name of any bytes */
	record_set_own(r, "failed_ms", json_integer((json_int_t)clock_wall_ms()));
	record_set_own(r, "refused", json_boolean(is_refused(why)));
	record_set_own(r, "failed", json_string(text));
	record_touch(r);
	return 1;
}

void service_note_failed(struct service *s, const char *name, const struct err *why)
{
	struct err copy = *why, ignored;

	record_change(s, name, change_failed, &copy, &ignored);
}

/* Releases it alone: 1 if it was the pool's and now has an owner, or is not due any more. */
static int release_alone(struct service *s, struct record *r, const char *name, const struct release *how, struct err *e)
{
	struct err ignored;
	int result, whole;

	record_close(r);
	/* the present record, now that no other process works on it */
	if (record_load(s, NULL, name, 0, r, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (record_is(r, STATE_WARM)) {
		drop_from_pool(s, r);
		record_close(r);
		if (record_load(s, NULL, name, 0, r, e) < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
	}
	/* the pool's when it was chosen, but a claim was first */
	if (how->was_warm && record_is(r, STATE_RUNNING))
		return 1;
	if (record_is_over(r))
		return 0;
	if (how->if_due && !session_is_due(s, r, DUE_DELETE))
		return 1;
	tools_forget(s, r->name);
	result = how->discard ? 0 : store_first(s, r, e);
	/* data that cannot be stored is left for its owner to mend: all of it stays, and in use */
	whole = result < 0 && is_refused(e);
	if (result == 0)
		result = take_away(s, r, how->discard, e);
	if (result == 0) {
		s->released++;
	} else if (whole) {
		service_note_failed(s, name, e);
		service_failed(s, "release", name, e);
	} else if (e->code != ERR_BUSY) {
		/* not released: the rest is tried again at the next request, and by cleanup */
		record_step(r, EVENT_SPOILED, &ignored);
		json_object_set_new(r->j, "recycle_reason", json_string(e->msg));
		record_save(s, r, NULL, 0, &ignored);
		service_failed(s, "release", name, e);
	}
	return result;
}

static int release_record(struct service *s, struct record *r, struct release how, struct err *e)
{
	char name[65];
	int result, tries = 0;

	how.was_warm = record_is(r, STATE_WARM);
	memcpy(name, r->name, sizeof(name));
	/* a sandbox in use or starting is not due: its clients' connections are not cut for this */
	if ((how.if_due ? oplock_try_alone(s->ops, name, e) : oplock_alone(s->ops, name, how.drain_ms, e)) < 0)
		return -1;
	/*
	 * its steps can be repeated: if another berthd has changed the record meanwhile, all of it
	 * is looked at anew
	 */
	do
		result = release_alone(s, r, name, &how, e);
	while (result < 0 && e->code == ERR_BUSY && !storage_use_stopped_ms() && tries++ < RELEASE_TRIES);
	if (result == 0)
		place_drop(s, name);
	oplock_alone_end(s->ops, name);
	pool_poke(s);
	return result < 0 ? -1 : 0;
}

int release_locked(struct service *s, struct record *r, struct release how, struct err *e)
{
	char session[SESSION_MAX + 1] = "";
	uint64_t token;
	int result;

	if (home_check(s, r, e) < 0)
		return -1;
	/* a reaped sandbox may just be restored, on the workspace that would be removed */
	if (record_is(r, STATE_RECYCLED) && session_of(r, session, e) < 0)
		return -1;
	if (session[0] && session_lock(s, session, &token, e) < 0)
		return -1;
	result = release_record(s, r, how, e);
	if (session[0])
		session_unlock(s, session, token);
	return result;
}

int service_release_record(struct service *s, struct record *r, uint64_t drain_ms, struct err *e)
{
	return release_locked(s, r, (struct release){ .drain_ms = drain_ms }, e);
}

int service_delete_due(struct service *s, const char *name, struct err *e)
{
	autorecord struct record r = { .j = NULL };

	return record_load(s, NULL, name, 0, &r, e) < 0 ? -1 : release_record(s, &r, (struct release){ .if_due = 1 }, e);
}

uint64_t service_drain_ms(struct service *s)
{
	uint64_t ms;

	pthread_rwlock_rdlock(&s->conf_lock);
	ms = s->conf.drain_timeout_ms;
	pthread_rwlock_unlock(&s->conf_lock);
	return ms;
}

int service_release(struct service *s, const struct service_who *who, const char *identity, int discard, struct err *e)
{
	int tries = 0, was_recycled;

	do {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, who, identity, 1, &r, e) < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
		was_recycled = record_is(&r, STATE_RECYCLED);
		if (release_locked(s, &r, (struct release){ .drain_ms = service_drain_ms(s), .discard = discard }, e) < 0)
			return -1;
		/* if it was restored in between, its present sandbox is released */
	} while (was_recycled && ++tries < RELEASE_TRIES);
	return 0;
}
