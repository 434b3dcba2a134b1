/* SPDX-License-Identifier: Apache-2.0 */
/* When an idle sandbox stops, is archived, is released: [session] auto_*, or what its owner said
 * for this one. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/service/state.h"

#define YEAR_S (366 * 86400LL)

static const struct {
	const char *name, *own;
} intervals[] = {
	{"auto_stop", "auto_stop_ms"},
	{"auto_archive", "auto_archive_ms"},
	{"auto_delete", "auto_delete_ms"},
};

/* 1 with ms, 0 when it is not there or null: as the configuration says. */
static int read_one(const json_t *args, const char *name, uint64_t *ret_ms, struct err *e)
{
	const json_t *v = json_object_get(args, name);

	if (!v || json_is_null(v))
		return 0;
	if (json_is_string(v))
		return num_duration_ms(json_string_value(v), name, (uint64_t)YEAR_S * 1000, ret_ms,
				       e) < 0 ?
			       -1 :
			       1;
	if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > YEAR_S)
		return err_set(
			e, ERR_INVALID,
			"\"%s\" is not a time; hint: seconds, or such as \"15m\"; 0 is never",
			name);
	*ret_ms = (uint64_t)json_integer_value(v) * 1000;
	return 1;
}

int interval_check(const json_t *args, struct err *e)
{
	uint64_t ms;
	size_t i;

	for (i = 0; i < ARRAY_LEN(intervals); i++)
		if (read_one(args, intervals[i].name, &ms, e) < 0)
			return -1;
	return 0;
}

int interval_note(struct record *r, const json_t *args, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(intervals); i++) {
		uint64_t ms;
		int given = read_one(args, intervals[i].name, &ms, e);

		if (given < 0)
			return -1;
		if (given)
			record_set_own(r, intervals[i].own, json_integer((json_int_t)ms));
		else if (json_object_get(args, intervals[i].name))
			record_set_own(r, intervals[i].own, json_null());
	}
	return 0;
}

void interval_inherit(struct record *to, const struct record *from)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(intervals); i++) {
		json_t *v = json_object_get(json_object_get(from->j, "berth"), intervals[i].own);

		if (v)
			record_set_own(to, intervals[i].own, json_incref(v));
	}
}

static uint64_t one_of(const struct record *r, const char *own, uint64_t of_all)
{
	return json_is_integer(json_object_get(json_object_get(r->j, "berth"), own)) ?
		       record_own_u64(r, own) :
		       of_all;
}

struct intervals interval_of(const struct record *r, const struct conf *c)
{
	return (struct intervals){one_of(r, "auto_stop_ms", c->auto_stop_ms),
				  one_of(r, "auto_archive_ms", c->auto_archive_ms),
				  one_of(r, "auto_delete_ms", c->auto_delete_ms)};
}

static int change(struct record *r, void *ctx, struct err *e)
{
	return interval_note(r, ctx, e) < 0 ? -1 : 1;
}

json_t *service_intervals(struct service *s, const struct service_who *who, const char *identity,
			  const json_t *args, struct err *e)
{
	autorecord struct record r = {.j = NULL};
	struct intervals its;

	if (record_load(s, who, identity, 1, &r, e) < 0 ||
	    (json_object_size(args) &&
	     (interval_note(&r, args, e) < 0 ||
	      record_change(s, r.name, change, (void *)(size_t)args, e) < 0)))
		return NULL;
	pthread_rwlock_rdlock(&s->conf_lock);
	its = interval_of(&r, &s->conf);
	pthread_rwlock_unlock(&s->conf_lock);
	return json_pack("{s:I,s:I,s:I}", "auto_stop_ms", (json_int_t)its.stop_ms,
			 "auto_archive_ms", (json_int_t)its.archive_ms, "auto_delete_ms",
			 (json_int_t)its.delete_ms);
}
