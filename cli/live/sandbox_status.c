/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/sandbox_status.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/pings.h"
#include "manager/keeper/protocol.h"

static void set_state(json_t *record, const json_t *answer)
{
	if (json_object_get(answer, "state"))
		json_object_set(record, "status", json_object_get(answer, "state"));
}

static void set_all(json_t *record, const json_t *answer)
{
	static const char *const keys[] = { "idle_ms", "busy", "commands", "sessions", "health" };
	size_t i;

	set_state(record, answer);
	for (i = 0; i < ARRAY_LEN(keys); i++)
		json_object_set(record, keys[i], json_object_get(answer, keys[i]));
}

static void set_state_and_health(json_t *record, const json_t *answer)
{
	set_state(record, answer);
	json_object_set(record, "health", json_object_get(answer, "health"));
}

/* The word becomes the whole: the last results, too. */
static void ask_health(struct registry *r, json_t *record)
{
	autojson json_t *rq = protocol_request(OP_health), *answer = NULL;
	const char *id = record_id(record);
	struct err ignored;
	autoclose int sock = id[0] ? keeper_connect_within(r, id, PINGS_MS, &ignored) : -1;

	json_object_del(record, "health");
	if (sock >= 0 && rq)
		answer = keeper_call(sock, rq, NULL, 0, NULL, &ignored);
	if (!answer)
		return;
	json_object_del(answer, "v");
	json_object_set(record, "health", answer);
}

void sandbox_status_ask(struct registry *r, json_t *record)
{
	autojson json_t *list = json_pack("[O]", record);

	if (list)
		pings_ask(r, list, set_state_and_health);
	if (json_object_get(record, "health"))
		ask_health(r, record);
}

void sandbox_status_restart(struct registry *r, json_t *record)
{
	const char *id = record_id(record);

	if (id[0] && restart_is_due(record) && restart_pending(r, id))
		record_set_status(record, RECORD_RESTARTING);
}

static int is_over(const json_t *record)
{
	const enum record_status status = record_status(record);

	return status == RECORD_EXITED || status == RECORD_STOPPED;
}

void sandbox_status_ask_all(struct registry *r, json_t *list)
{
	json_t *record;
	size_t i;

	json_array_foreach(list, i, record)
		if (is_over(record))
			sandbox_status_restart(r, record);
	pings_look(r, list, set_all);
}
