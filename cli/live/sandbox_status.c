/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/sandbox_status.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "manager/keeper/pings.h"

static int is_running(const json_t *record)
{
	const char *status = json_string_value(json_object_get(record, "status"));

	return status && !strcmp(status, "running");
}

void sandbox_status_kept(json_t *record)
{
	if (is_running(record))
		json_object_set_new(record, "status", json_string("stopped"));
}

static void set_state(json_t *record, const json_t *answer)
{
	if (json_object_get(answer, "state"))
		json_object_set(record, "status", json_object_get(answer, "state"));
}

static void set_all(json_t *record, const json_t *answer)
{
	static const char *const keys[] = { "idle_ms", "busy", "commands", "sessions" };
	size_t i;

	set_state(record, answer);
	for (i = 0; i < ARRAY_LEN(keys); i++)
		json_object_set(record, keys[i], json_object_get(answer, keys[i]));
}

void sandbox_status_ask(struct registry *r, json_t *record)
{
	autojson json_t *list = json_pack("[O]", record);

	if (list)
		pings_ask(r, list, set_state);
}

void sandbox_status_ask_all(struct registry *r, json_t *list)
{
	pings_ask(r, list, set_all);
}
