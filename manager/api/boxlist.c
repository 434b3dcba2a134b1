/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/boxlist.h"

#include <string.h>

#include "base/mem.h"
#include "manager/host/filter.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/pings.h"

static const char *const live_keys[] = {
	"idle_ms",
	"health",
	"busy",
	"commands",
	"sessions",
	"uptime_ms",
	"cpu_ms",
	"memory_bytes",
	"peak_memory_bytes",
	"pids",
	"oom_kills",
	"read_bytes",
	"write_bytes",
	"memory_limit_bytes",
	"cpu_limit_milli",
	"pids_limit",
};

void boxlist_add_live(json_t *record, const json_t *answer)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(live_keys); i++)
		json_object_set(record, live_keys[i], json_object_get(answer, live_keys[i]));
}

struct listing {
	struct box *box;
	json_t *list;
	struct filter filter;
};

static int add_record(void *ctx, const char *id, int kept, json_t *record)
{
	struct listing *l = ctx;

	if (!box_allowed(l->box, id))
		return 0;
	if (kept)
		record_settle_kept(record);
	return json_array_append(l->list, record);
}

/* ?label=K=V&label=... and ?filter=KEY=VALUE&..., as berth ps takes them. */
static int add_filters(struct http_request *rq, struct listing *l, struct err *e)
{
	const char *v;
	size_t i;

	for (i = 0; (v = http_query_each(rq, "label", i)); i++)
		if (filter_add_label(&l->filter, v, e) < 0)
			return -1;
	for (i = 0; (v = http_query_each(rq, "filter", i)); i++)
		if (filter_add(&l->filter, v, e) < 0)
			return -1;
	return 0;
}

static void drop_unwanted(struct listing *l)
{
	size_t i;

	for (i = json_array_size(l->list); i-- > 0;)
		if (!filter_matches(&l->filter, json_array_get(l->list, i)))
			json_array_remove(l->list, i);
}

int boxlist_get(struct http_request *rq, struct err *e)
{
	struct listing l = { .list = json_array(), .filter = { .keys = filter_sandbox_keys } };
	struct box b;
	int r = box_open(&b, rq, e);

	l.box = &b;
	if (r == 0)
		r = add_filters(rq, &l, e);
	if (r == 0) {
		/* a sandbox whose keeper was killed does not run */
		r = registry_sweep_list(&b.registry, !http_query_bool(rq, "running"), add_record,
					&l, e);
	}
	if (r == 0)
		drop_unwanted(&l);
	if (r == 0)
		pings_remember(&b.registry, l.list, api_of(rq)->pings, boxlist_add_live);
	box_close(&b);
	if (r < 0) {
		json_decref(l.list);
		return -1;
	}
	return http_reply_json(rq, 0, json_pack("{s:o}", "sandboxes", l.list), e);
}

/* The record of one sandbox: a list of all would cost more with each sandbox. */
json_t *boxlist_load(struct box *b, struct err *e)
{
	json_t *record = record_load_kept(&b->registry, b->id, e);
	struct listing l = { .box = b };

	if (record) {
		if (b->kept)
			record_set_status(record, RECORD_STOPPED);
		return record;
	}
	if (e->code == ERR_UNSUPPORTED) /* of a newer format */
		return NULL;
	/* a sandbox of berth run has its record in the run directory only */
	l.list = json_array();
	if (registry_list_one(&b->registry, b->id, add_record, &l, e) == 0 &&
	    json_array_size(l.list))
		record = json_incref(json_array_get(l.list, 0));
	else
		err_set(e, ERR_NOT_FOUND, "sandbox %s is gone", b->id);
	json_decref(l.list);
	return record;
}
