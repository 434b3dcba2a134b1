/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a lasting sandbox: its keeper is asked, and killed when it does not answer. */

#include "base/mem.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"

static int ask_to_stop(struct registry *r, const char *id, const struct stop_request *how, struct err *e)
{
	const int waits = how->own_grace || how->grace_ms;
	autoclose int sock = keeper_connect_within(r, id, waits ? KEEPER_CONNECT_MS : KEEPER_STUCK_MS, e);

	return sock < 0 ? -1 : keeper_ask_to_stop(sock, how, e);
}

int resident_stop(struct registry *r, const char *id, const struct stop_request *how, struct err *e)
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
