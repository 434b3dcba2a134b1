/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/pings.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/request.h"
#include "manager/keeper/wire.h"

struct batch {
	json_t *records[PINGS_AT_ONCE];	/* borrowed */
	int socks[PINGS_AT_ONCE];
	size_t count;
};

/* Adds the sandbox to the batch, with its request sent, when its keeper takes it. */
static void ask(struct batch *b, struct registry *r, json_t *record, json_t *ping)
{
	const char *id = json_string_value(json_object_get(record, "id"));
	const char *status = json_string_value(json_object_get(record, "status"));
	struct err ignored;
	autoclose int sock = id && status && !strcmp(status, "running") ? keeper_connect_within(r, id, PINGS_MS, &ignored) : -1;

	if (sock < 0 || wire_request(sock, ping, NULL, 0, &ignored) < 0)
		return;
	b->records[b->count] = record;
	b->socks[b->count++] = take_fd(&sock);
}

static void collect(struct batch *b, pings_fn *answered)
{
	const uint64_t until = clock_ms() + PINGS_MS;
	size_t i;

	for (i = 0; i < b->count; i++) {
		const uint64_t now = clock_ms();
		autojson json_t *answer = NULL;
		struct err ignored;
		size_t fds;

		/* past the deadline those that have answered already still count */
		if (wire_recv(b->socks[i], now < until ? (int)(until - now) : 0, &answer, NULL, 0, &fds, &ignored) == 1)
			answered(b->records[i], answer);
		fd_close(&b->socks[i]);
	}
	b->count = 0;
}

void pings_ask(struct registry *r, json_t *list, pings_fn *answered)
{
	autojson json_t *ping = protocol_request(OP_ping);
	struct batch b = { .count = 0 };
	json_t *record;
	size_t i;

	if (!ping)
		return;
	json_array_foreach(list, i, record) {
		ask(&b, r, record, ping);
		if (b.count == PINGS_AT_ONCE)
			collect(&b, answered);
	}
	collect(&b, answered);
}
