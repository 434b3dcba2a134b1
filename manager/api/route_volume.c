/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on volumes: the berth volume commands.  A tenant has names of its own, and no others. */
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/host/labels.h"

/* The command of berth volume, as the tenant that asks. */
json_t *api_volume(struct http_request *rq, const char *command, const char *name, int changes, struct err *e)
{
	json_t *call = call_of(command, name, NULL);

	spawn_tenant(rq, call);
	return spawn_json(rq, call, changes, e);
}

static int get_volumes_route(struct http_request *rq, struct err *e)
{
	json_t *list = api_volume(rq, "volume ls", NULL, 0, e);

	return list ? http_reply_json(rq, 0, json_pack("{s:o}", "volumes", list), e) : -1;
}

static int get_volume_route(struct http_request *rq, struct err *e)
{
	json_t *j = api_volume(rq, "volume inspect", http_param(rq, "name"), 0, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int delete_volume_route(struct http_request *rq, struct err *e)
{
	json_t *j = api_volume(rq, "volume rm", http_param(rq, "name"), 1, e);

	if (!j)
		return -1;
	json_decref(j);
	return http_reply_json(rq, 0, json_pack("{s:b}", "removed", 1), e);
}

static int post_volume_route(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const json_t *labels = json_object_get(body, "label");
	json_t *call, *j;

	if (labels_refuse_own_list(labels, e) < 0)
		return -1;
	call = call_of("volume create", json_string_value(json_object_get(body, "name")), NULL);
	call_set(call, "size", json_incref(json_object_get(body, "size")));
	call_set(call, "label", json_incref(json_object_get(body, "label")));
	spawn_tenant(rq, call);
	j = spawn_json(rq, call, 1, e);
	return j ? http_reply_json(rq, 201, j, e) : -1;
}

const struct http_route volume_routes[] = {
	{ "GET", "/v1/volumes", get_volumes_route, "list volumes", .response = "VolumeList" },
	{ "POST", "/v1/volumes", post_volume_route, "make a volume", HTTP_JSON, .request = "VolumeCreate",
	  .response = "Document", .status = 201 },
	{ "GET", "/v1/volumes/{name}", get_volume_route, "a volume and the sandboxes that use it",
	  .response = "Document" },
	{ "DELETE", "/v1/volumes/{name}", delete_volume_route, "remove a volume that no sandbox uses",
	  .response = "ImageRemoved" },
	{ NULL },
};
