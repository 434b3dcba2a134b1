/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a lasting sandbox: its keeper is asked, and killed when it does not answer. */
#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/keeper/request.h"
#include "manager/keeper/wire.h"

#define STUCK_MS 5000	/* a keeper that kills does not take longer to say so */
#define GRACE_MAX_MS 86400000

static int ask_to_stop(struct registry *r, const char *id, const struct resident_end *how, struct err *e)
{
	const int waits = how->own_grace || how->grace_ms;
	const uint64_t grace_ms = how->own_grace || how->grace_ms > GRACE_MAX_MS ? GRACE_MAX_MS : how->grace_ms;
	const int wait_ms = (int)how->drain_ms + (waits ? 30000 + (int)grace_ms : STUCK_MS);
	autoclose int sock = keeper_connect_within(r, id, waits ? KEEPER_CONNECT_MS : STUCK_MS, e);
	autojson json_t *rq = protocol_request(OP_stop);
	json_t *answer = NULL;
	size_t n;
	int got;

	if (sock < 0)
		return -1;
	if (!how->own_grace)
		request_set_grace_ms(rq, how->grace_ms);
	if (how->stays)
		request_set_stays(rq, 1);
	if (how->drain_ms)
		request_set_drain_ms(rq, how->drain_ms);
	if (wire_request(sock, rq, NULL, 0, e) < 0)
		return -1;
	/* the keeper closes the connection last of all */
	while ((got = wire_recv(sock, wait_ms, &answer, NULL, 0, &n, e)) > 0) {
		int refused = wire_check(answer, e);

		json_decref(answer);
		if (refused < 0)
			return -1;
	}
	return got < 0 && e->code == ERR_TIMEOUT ? -1 : 0;
}

int resident_stop(struct registry *r, const char *id, const struct resident_end *how, struct err *e)
{
	const int at_once = !how->own_grace && !how->grace_ms;
	const int is_run = at_once && keeper_is_run(r, id);
	int result = is_run ? keeper_kill(r, id, e) : ask_to_stop(r, id, how, e);

	if (is_run)
		return result;	/* a berth run --keep has written its own record */
	if (result < 0 && e->code == ERR_TIMEOUT && at_once) {
		restart_cancel(r, id);
		result = keeper_kill(r, id, e);
	}
	if (result < 0)
		return -1;
	return record_note_stopped(r, id, NULL, e);
}
