/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/events.h"

#include <string.h>

#include "base/mem.h"

void events_add_to(struct journal *j, const char *event, const char *id, json_t *members)
{
	json_t *entry = json_pack("{s:s,s:s}", "event", event, "id", id);
	struct err ignored;

	if (members)
		json_object_update(entry, members);
	json_decref(members);
	if (entry)
		journal_add(j, entry, &ignored);
}

void events_add(struct registry *r, const char *event, const char *id, json_t *members)
{
	struct journal j = JOURNAL_INIT(r->state_fd, EVENTS_FILE, EVENTS_BYTES);

	events_add_to(&j, event, id, members);
	journal_close(&j);
}

int events_is_own(const char *event)
{
	static const char *const all[] = { "checkpoint", "checkpoint-rm", "undo", "fork",
					   "zygote-create", "zygote-end" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(all); i++)
		if (!strcmp(event, all[i]))
			return 1;
	return !strncmp(event, "network-", 8);
}
