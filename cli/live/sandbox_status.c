/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/sandbox_status.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/wire.h"

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

void sandbox_status_ask(struct registry *r, json_t *record, int all)
{
	static const char *const keys[] = { "idle_ms", "busy", "commands", "sessions" };
	autojson json_t *rq = json_pack("{s:s}", "op", "ping"), *answer = NULL;
	const char *id = json_string_value(json_object_get(record, "id"));
	struct err ignored;
	autoclose int sock = id && is_running(record) ? keeper_connect_within(r, id, SANDBOX_ASK_MS, &ignored) : -1;
	size_t n = 0, i;

	if (sock < 0 || wire_send(sock, rq, NULL, 0, &ignored) < 0 || wire_recv(sock, SANDBOX_ASK_MS, &answer, NULL, 0, &n, &ignored) != 1)
		return;
	if (json_object_get(answer, "state"))
		json_object_set(record, "status", json_object_get(answer, "state"));
	for (i = 0; all && i < ARRAY_LEN(keys); i++)
		json_object_set(record, keys[i], json_object_get(answer, keys[i]));
}
