/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/look/eventfilter.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/record.h"

#define KNOWN_MAX 16384 /* sandboxes; they are looked up again */

const struct filter_key eventfilter_keys[] = {
	{ "event", FILTER_GLOB, "event" },   { "id", FILTER_ID, "id" },
	{ "container", FILTER_NAMED, "id" }, { "sandbox", FILTER_NAMED, "id" },
	{ "name", FILTER_GLOB, "name" },     { "image", FILTER_GLOB, "image" },
	{ "label", FILTER_LABEL, "labels" }, { NULL, FILTER_GLOB, NULL },
};

/* The facts that an event has: a new object. */
static json_t *facts(const json_t *from)
{
	json_t *j = json_object();

	json_object_set(j, "name", json_object_get(from, "name"));
	json_object_set(j, "image", json_object_get(from, "image"));
	json_object_set(j, "labels", json_object_get(from, "labels"));
	return j;
}

/* Its record, running or kept; else the facts in its creation event. */
static const json_t *look_up(struct eventfilter *f, struct registry *r, const json_t *entry,
			     const char *id)
{
	const json_t *known = json_object_get(f->known, id);
	autojson json_t *record = NULL;
	struct err ignored;

	if (known || !path_is_name(id))
		return known;
	if (!f->known)
		f->known = json_object();
	if (json_object_size(f->known) >= KNOWN_MAX)
		json_object_clear(f->known);
	if (record_read(r->kept_fd, id, &record, &ignored) <= 0)
		record_read(r->sandboxes_fd, id, &record, &ignored);
	json_object_set_new(f->known, id, facts(record ? record : entry));
	return json_object_get(f->known, id);
}

int eventfilter_wants(struct eventfilter *f, struct registry *r, const json_t *entry)
{
	const char *event = json_string_value(json_object_get(entry, "event"));
	const char *id = json_string_value(json_object_get(entry, "id"));
	autojson json_t *whole = NULL;
	int wanted;

	if (!f->filter.count)
		return 1;
	whole = json_copy((json_t *)(size_t)entry);
	if (!whole || !id || !event)
		return 0;
	/* the event's own members count before the record's: a rename tells the new name */
	json_object_update_missing(whole, (json_t *)(size_t)look_up(f, r, entry, id));
	wanted = filter_matches(&f->filter, whole);
	/* it is not heard of again; and after a rename its record says another name */
	if (!strcmp(event, "rm") || !strcmp(event, "rename"))
		json_object_del(f->known, id);
	return wanted;
}

void eventfilter_release(struct eventfilter *f)
{
	json_decref(f->known);
	f->known = NULL;
}
