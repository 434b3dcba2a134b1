/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/boot.h"

#include <stdio.h>

#include "base/mem.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/restart.h"

/* One that joins the network of another starts after those that do not. */
static int find_due(void *ctx, const char *id, int kept, json_t *record)
{
	const json_t *network = json_object_get(record, "network");

	if (!kept || !restart_is_due_at_boot(record))
		return 0;
	if (json_object_get(network, "container"))
		json_array_append_new(ctx, json_string(id));
	else
		json_array_insert_new(ctx, 0, json_string(id));
	return 0;
}

/* Its guardian, if any, starts it already. */
static int start_one(struct registry *r, const char *id, struct err *e)
{
	if (restart_pending(r, id))
		return 0;
	return resident_start(r, id, e) == 0 || (e->code == ERR_EXISTS && record_is_there(r->sandboxes_fd, id)) ? 0 : -1;
}

int boot_start_all(const struct command *self, int as_json)
{
	autojson json_t *ids = json_array();
	struct sandbox_ref s;
	struct err e = { 0 };
	unsigned cleared;
	int status = 0;
	json_t *id;
	size_t i;

	sandbox_ref_init(&s);
	/* what died without a word is cleared first: then it is one that does not run */
	if (sandbox_ref_registry(&s, &e) < 0 || registry_gc(&s.registry, &cleared, &e) < 0 ||
	    registry_list(&s.registry, 1, find_due, ids, &e) < 0)
		status = command_fail(self, &e, as_json);
	json_array_foreach(ids, i, id) {
		const char *text = json_string_value(id);

		if (start_one(&s.registry, text, &e) < 0)
			status = command_fail(self, &e, as_json);
		else
			printf(as_json ? "{\"id\":\"%s\",\"done\":\"start\"}\n" : "%s\n", text);
	}
	sandbox_ref_close(&s);
	return status;
}
