/* SPDX-License-Identifier: Apache-2.0 */
/* What berthd's faces share, from its start to its end. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/api/daytona.h"
#include "manager/api/events.h"
#include "manager/api/http_state.h"
#include "manager/api/mcphub.h"
#include "manager/api/once.h"
#include "manager/api/preview.h"
#include "manager/api/route_manager.h"
#include "manager/api/schema.h"
#include "manager/api/tokens.h"
#include "manager/api/uisession.h"
#include "manager/api/watchhub.h"
#include "manager/host/tenant.h"
#include "manager/keeper/pings.h"
#include "manager/service/dlog.h"
#include "manager/service/service.h"

#define MCP_END_MS 10000	/* for the sandboxes of MCP sessions to be removed, when berthd stops */

const struct http_route *const daemon_routes[] = {
	system_routes, sandbox_routes, checkpoint_routes, portable_routes, stored_routes,
	zygote_routes, exec_routes, session_routes, command_routes, file_routes, image_routes, volume_routes, ui_routes,
	network_routes, port_routes, preview_routes,
	event_routes, work_routes, mcp_routes, runcode_routes, e2b_sandbox_routes,
	e2b_network_routes, e2b_pause_routes, e2b_snapshot_routes,
	e2b_process_routes, e2b_file_routes, e2b_watch_routes, e2b_code_routes,
	agentscope_routes, proxy_routes, manager_routes,
	daytona_sandbox_routes, daytona_object_routes, daytona_process_routes, daytona_session_routes, daytona_pty_routes,
	daytona_file_routes, daytona_git_routes, daytona_refused_routes, NULL,
};

int daemon_start(struct api *a, struct err *e)
{
	a->mcp = mcphub_new();
	a->watches = watchhub_new();
	a->once = once_new();
	if (!a->mcp || !a->watches || !a->once)
		return err_nomem(e);
	if (otlp_start(&a->config, &a->otlp, e) < 0)
		return -1;
	a->events = events_new(a, e);
	return a->events ? 0 : -1;
}

/* Without asking whether the session is there, which is being asked under its lock. */
static int keeps_pass(void *context, const struct http_who *who)
{
	struct http_who plain = *who;

	memset(plain.session, 0, sizeof(plain.session));
	return api_holds(context, &plain);
}

int daemon_reload(struct api *a, struct err *e)
{
	if (api_reload(a, e) < 0)
		return -1;
	mcphub_reload(a->mcp, api_holds, a);
	preview_reload(a->previews);
	uisessions_reload(a->ui, keeps_pass, a);
	return 0;
}

void daemon_end(struct api *a)
{
	mcphub_free(a->mcp, MCP_END_MS);
	watchhub_free(a->watches);
	once_free(a->once);
	events_free(a->events);
	otlp_stop(a->otlp);
	api_release(a);
}

/* A request that changed something: its audit line, without private parts, is an event. */
void daemon_on_audit(void *context, const json_t *line)
{
	const char *id = json_string_value(json_object_get(line, "id"));
	struct api *a = context;
	json_t *event;

	if (!a->events || !id || json_integer_value(json_object_get(line, "status")) >= 400)
		return;
	event = json_pack("{s:s,s:s,s:O,s:O}", "type", "request", "sandbox", id, "op", json_object_get(line, "op"), "who",
			  json_object_get(line, "who"));
	if (json_object_get(line, "command"))
		json_object_set(event, "command", json_object_get(line, "command"));
	events_publish(a->events, json_string_value(json_object_get(line, "who")), event);
}
