/* SPDX-License-Identifier: Apache-2.0 */
/* Native routes of the manager: pools, sessions, workspaces, archives, stats. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/api/api.h"
#include "manager/api/route_manager.h"

int manager_start(struct api *a, struct err *e)
{
	struct service *s = NULL;

	if (service_new(&s, &a->config, a->berth_path, e) < 0)
		return -1;
	a->manager = s;
	return 0;
}

void manager_ending(struct api *a, unsigned grace_ms)
{
	service_ending(a->manager, grace_ms);
}

int manager_end(struct api *a, struct err *e)
{
	int result = service_end(a->manager, e);

	a->manager = NULL;
	return result;
}

static int reply_manager_json(struct http_request *rq, json_t *j, struct err *e)
{
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int get_manager_stats(struct http_request *rq, struct err *e)
{
	return reply_manager_json(rq, service_stats(manager_of(rq), e), e);
}

void manager_tell_url(const struct http_request *rq, json_t *record)
{
	const char *host = http_header(rq, "Host"), *name = json_string_value(json_object_get(record, "container_name"));
	const char *colon, *bracket;
	char url[400];
	uint64_t port;
	struct err ignored;

	if (!host || !host[0])
		host = "localhost";
	colon = strrchr(host, ':');
	bracket = strrchr(host, ']');
	if (!colon || (bracket && colon < bracket) || num_u64(colon + 1, "a port", 1, 65535, &port, &ignored) < 0)
		port = 80;
	snprintf(url, sizeof(url), "http://%.255s/proxy/%.64s", host, name ? name : "");
	json_object_set_new(record, "url", json_string(url));
	json_object_set_new(record, "ports", json_pack("[I]", (json_int_t)port));
}

static int get_managed_sandboxes(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);
	json_t *list = service_list(manager_of(rq), &who, e), *record;
	size_t i;

	json_array_foreach(list, i, record)
		manager_tell_url(rq, record);
	return list ? reply_manager_json(rq, json_pack("{s:o}", "sandboxes", list), e) : -1;
}

static int get_manager_sessions(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);
	json_t *list = service_session_keys(manager_of(rq), &who, e);

	return list ? reply_manager_json(rq, json_pack("{s:o}", "sessions", list), e) : -1;
}

static int reply_done(struct http_request *rq, int r, struct err *e)
{
	return r < 0 ? -1 : reply_manager_json(rq, json_pack("{s:b}", "done", 1), e);
}

static int post_heartbeat(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return reply_done(rq, service_heartbeat(manager_of(rq), &who, http_param(rq, "session"), e), e);
}

static int post_reap(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return reply_done(rq, service_reap(manager_of(rq), &who, http_param(rq, "session"), "asked", e), e);
}

static int post_manager_restore(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return reply_done(rq, service_restore(manager_of(rq), &who, http_param(rq, "session"), e), e);
}

static int post_archive(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return reply_done(rq, service_archive(manager_of(rq), &who, http_param(rq, "identity"), e), e);
}

static int intervals(struct http_request *rq, const json_t *args, struct err *e)
{
	struct service_who who = manager_who(rq);

	return reply_manager_json(rq, service_intervals(manager_of(rq), &who, http_param(rq, "identity"), args, e), e);
}

static int get_intervals(struct http_request *rq, struct err *e)
{
	return intervals(rq, NULL, e);
}

static int patch_intervals(struct http_request *rq, struct err *e)
{
	return intervals(rq, http_json(rq), e);
}

static int post_upload(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return reply_done(rq, service_upload(manager_of(rq), &who, http_param(rq, "identity"), e), e);
}

static int post_download(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return reply_done(rq, service_download(manager_of(rq), &who, http_param(rq, "identity"), e), e);
}

#define V1 "/v1/manager"

const struct http_route manager_routes[] = {
	{ "GET", V1 "/stats", get_manager_stats, "numbers of the manager: states, pools, admission", .response = "ManagerStats",
	  .flags = HTTP_QUIET | HTTP_ADMIN },
	{ "GET", V1 "/sandboxes", get_managed_sandboxes, "records of the caller's sandboxes", .response = "ManagerRecords", .flags = HTTP_QUIET },
	{ "GET", V1 "/sessions", get_manager_sessions, "the caller's sessions", .response = "ManagerSessions", .flags = HTTP_QUIET },
	{ "POST", V1 "/sessions/{session}/heartbeat", post_heartbeat, "renew a session's lease", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL | HTTP_QUIET },
	{ "POST", V1 "/sessions/{session}/reap", post_reap, "reap a session now; its workspaces stay", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ "POST", V1 "/sessions/{session}/restore", post_manager_restore, "make the sandboxes of a reaped session anew", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ "POST", V1 "/sandboxes/{identity}/archive", post_archive, "move a sandbox to the storage; using it brings it back", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ "GET", V1 "/sandboxes/{identity}/intervals", get_intervals, "when it stops, is archived, is released", .response = "IntervalsSet",
	  .flags = HTTP_QUIET },
	{ "PATCH", V1 "/sandboxes/{identity}/intervals", patch_intervals, "change them; null is what [session] says, 0 never", HTTP_JSON,
	  .request = "Intervals", .response = "IntervalsSet" },
	{ "POST", V1 "/sandboxes/{identity}/upload", post_upload, "store the workspace", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ "POST", V1 "/sandboxes/{identity}/download", post_download, "fetch the stored workspace", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ NULL },
};
