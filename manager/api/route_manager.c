/* SPDX-License-Identifier: Apache-2.0 */
/* Native routes of the manager: pools, sessions, workspaces, archives, stats. */
#include <string.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/route_manager.h"
#include "manager/api/schema.h"

static const char schemas[] =
	"{\"Data\": {\"type\": \"object\", \"required\": [\"data\"]},"
	"\"Detail\": {\"type\": \"object\", \"required\": [\"detail\", \"code\"], \"additionalProperties\": false, \"properties\": {"
	"\"detail\": {\"type\": \"string\"}, \"code\": {\"type\": \"string\"}}},"
	"\"Nothing\": {\"type\": \"object\", \"additionalProperties\": false},"
	"\"ManagerRecord\": {\"type\": \"object\", \"required\": [\"session_id\", \"container_name\", \"state\", \"berth\"], \"properties\": {"
	"\"session_id\": {\"type\": \"string\"}, \"container_name\": {\"type\": \"string\"}, \"state\": {\"type\": \"string\"},"
	"\"berth\": {\"type\": \"object\"}}},"
	"\"ManagerRecords\": {\"type\": \"object\", \"required\": [\"sandboxes\"], \"additionalProperties\": false, \"properties\": {"
	"\"sandboxes\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/components/schemas/ManagerRecord\"}}}},"
	"\"ManagerSessions\": {\"type\": \"object\", \"required\": [\"sessions\"], \"additionalProperties\": false, \"properties\": {"
	"\"sessions\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}},"
	"\"ManagerStats\": {\"type\": \"object\", \"required\": [\"host\", \"store\", \"storage\", \"states\", \"sessions\", \"pools\", \"admission\","
	" \"operations\", \"counts\", \"claim_median_us\", \"pool_error\"], \"additionalProperties\": false, \"properties\": {"
	"\"host\": {\"type\": \"string\"}, \"store\": {\"type\": \"string\"}, \"storage\": {\"type\": \"string\"},"
	"\"states\": {\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}, \"sessions\": {\"type\": \"integer\"},"
	"\"pools\": {\"type\": \"object\", \"additionalProperties\": {\"type\": \"object\", \"required\": [\"image\", \"size\", \"warm\"]}},"
	"\"admission\": {\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}, \"operations\": {\"type\": \"integer\"},"
	"\"counts\": {\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}, \"claim_median_us\": {\"type\": \"integer\"},"
	"\"pool_error\": {\"type\": [\"string\", \"null\"]}}},"
	"\"WorkEntry\": {\"type\": \"object\", \"required\": [\"path\", \"name\", \"type\", \"size\", \"mtime_ms\"], \"additionalProperties\": false,"
	"\"properties\": {\"path\": {\"type\": \"string\"}, \"name\": {\"type\": \"string\"},"
	"\"type\": {\"type\": \"string\", \"enum\": [\"file\", \"dir\", \"symlink\", \"other\"]},"
	"\"size\": {\"type\": [\"integer\", \"null\"]}, \"mtime_ms\": {\"type\": \"integer\"}}},"
	"\"WorkEntries\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/components/schemas/WorkEntry\"}},"
	"\"Exists\": {\"type\": \"object\", \"required\": [\"exists\"], \"additionalProperties\": false, \"properties\": {"
	"\"exists\": {\"type\": \"boolean\"}}},"
	"\"MadeDir\": {\"type\": \"object\", \"required\": [\"created\"], \"additionalProperties\": false, \"properties\": {"
	"\"created\": {\"type\": \"boolean\"}}},"
	"\"Identity\": {\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"identity\"], \"properties\": {\"identity\": {\"type\": \"string\", \"maxLength\": 256}}},"
	"\"SessionId\": {\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"session_ctx_id\"], \"properties\": {"
	"\"session_ctx_id\": {\"type\": \"string\", \"maxLength\": 256}}},"
	"\"ManagerCreate\": {\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
	"\"sandbox_type\": {\"type\": [\"string\", \"null\"], \"maxLength\": 64}, \"mount_dir\": {\"type\": [\"string\", \"null\"], \"maxLength\": 500},"
	"\"storage_path\": {\"type\": [\"string\", \"null\"], \"maxLength\": 900}, \"environment\": {\"type\": [\"object\", \"null\"]},"
	"\"meta\": {\"type\": [\"object\", \"null\"]}, \"memory\": {\"type\": [\"string\", \"integer\", \"null\"], \"maxLength\": 32},"
	"\"cpus\": {\"type\": [\"number\", \"null\"]}, \"name\": {\"type\": [\"string\", \"null\"], \"maxLength\": 64},"
	"\"owner_pid\": {\"type\": [\"integer\", \"null\"], \"minimum\": 1, \"description\": \"the session is reaped when this process of the host ends\"}}},"
	"\"ListTools\": {\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"identity\"], \"properties\": {\"identity\": {\"type\": \"string\", \"maxLength\": 256},"
	"\"tool_type\": {\"type\": [\"string\", \"null\"], \"maxLength\": 64}}},"
	"\"CallTool\": {\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"identity\", \"tool_name\"], \"properties\": {"
	"\"identity\": {\"type\": \"string\", \"maxLength\": 256}, \"tool_name\": {\"type\": \"string\", \"maxLength\": 256},"
	"\"arguments\": {\"type\": [\"object\", \"null\"]}}},"
	"\"AddMcp\": {\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"identity\", \"server_configs\"], \"properties\": {"
	"\"identity\": {\"type\": \"string\", \"maxLength\": 256}, \"server_configs\": {\"type\": \"object\"}, \"overwrite\": {\"type\": \"boolean\"}}},"
	"\"Move\": {\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"source\", \"destination\"], \"properties\": {"
	"\"source\": {\"type\": \"string\", \"maxLength\": 4096}, \"destination\": {\"type\": \"string\", \"maxLength\": 4096}}},"
	"\"MakeDir\": {\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"path\"], \"properties\": {\"path\": {\"type\": \"string\", \"maxLength\": 4096}}}}";

int manager_start(struct api *a, struct err *e)
{
	struct service *s = NULL;

	if (service_new(&s, &a->config, a->berth_path, e) < 0)
		return -1;
	a->manager = s;
	return 0;
}

int manager_schemas(struct err *e)
{
	return schema_add(schemas, e);
}

void manager_end(struct api *a)
{
	service_end(a->manager);
	a->manager = NULL;
}

static int reply(struct http_request *rq, json_t *j, struct err *e)
{
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int get_stats(struct http_request *rq, struct err *e)
{
	return reply(rq, service_stats(manager_of(rq), e), e);
}

static int get_sandboxes(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);
	json_t *list = service_list(manager_of(rq), &who, e);

	return list ? reply(rq, json_pack("{s:o}", "sandboxes", list), e) : -1;
}

static int get_sessions(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);
	json_t *list = service_session_keys(manager_of(rq), &who, e);

	return list ? reply(rq, json_pack("{s:o}", "sessions", list), e) : -1;
}

static int done(struct http_request *rq, int r, struct err *e)
{
	return r < 0 ? -1 : reply(rq, json_pack("{s:b}", "done", 1), e);
}

static int post_heartbeat(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return done(rq, service_heartbeat(manager_of(rq), &who, http_param(rq, "session"), e), e);
}

static int post_reap(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return done(rq, service_reap(manager_of(rq), &who, http_param(rq, "session"), "asked", e), e);
}

static int post_restore(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return done(rq, service_restore(manager_of(rq), &who, http_param(rq, "session"), e), e);
}

static int post_archive(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return done(rq, service_archive(manager_of(rq), &who, http_param(rq, "identity"), e), e);
}

static int post_upload(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return done(rq, service_upload(manager_of(rq), &who, http_param(rq, "identity"), e), e);
}

static int post_download(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);

	return done(rq, service_download(manager_of(rq), &who, http_param(rq, "identity"), e), e);
}

#define V1 "/v1/manager"

const struct http_route manager_routes[] = {
	{ "GET", V1 "/stats", get_stats, "numbers of the manager: states, pools, admission", .response = "ManagerStats", .flags = HTTP_QUIET | HTTP_ADMIN },
	{ "GET", V1 "/sandboxes", get_sandboxes, "records of the caller's sandboxes", .response = "ManagerRecords", .flags = HTTP_QUIET },
	{ "GET", V1 "/sessions", get_sessions, "the caller's sessions", .response = "ManagerSessions", .flags = HTTP_QUIET },
	{ "POST", V1 "/sessions/{session}/heartbeat", post_heartbeat, "renew a session's lease", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL | HTTP_QUIET },
	{ "POST", V1 "/sessions/{session}/reap", post_reap, "reap a session now; its workspaces stay", HTTP_JSON, .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ "POST", V1 "/sessions/{session}/restore", post_restore, "make the sandboxes of a reaped session anew", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ "POST", V1 "/sandboxes/{identity}/archive", post_archive, "move a sandbox to the storage; using it brings it back", HTTP_JSON,
	  .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ "POST", V1 "/sandboxes/{identity}/upload", post_upload, "store the workspace", HTTP_JSON, .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ "POST", V1 "/sandboxes/{identity}/download", post_download, "fetch the stored workspace", HTTP_JSON, .request = "Nothing", .response = "Done", .flags = HTTP_OPTIONAL },
	{ NULL },
};
