/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Daytona's snapshots, which are images of the store, its volumes, and what it tells of itself.  The id
 * of each is its name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/daytona.h"
#include "manager/api/daytona_create.h"
#include "manager/api/e2b.h"
#include "manager/api/preview.h"
#include "manager/keeper/wire.h"

#define LIST_MAX 200
#define LIST_PRESET 100
#define BUILD_OUT_MAX (16u << 20)

/* ---- images ------------------------------------------------------------------------------- */

/* Only an administrator changes the store: a tenant gets what is there. */
static int check_builder(struct http_request *rq, const char *what, struct err *e)
{
	return http_who(rq)->admin ? 0 : err_set(e, ERR_DENIED, "%s needs an admin token; hint: an image that is there, by its name", what);
}

int daytona_build(struct http_request *rq, const char *dockerfile, const char *name, struct err *e)
{
	autobuf struct buf out = BUF_INIT(BUILD_OUT_MAX);
	autoclose int fd = -1;
	struct config c;
	json_t *call;

	if (check_builder(rq, "a Dockerfile with more than FROM", e) < 0)
		return -1;
	fd = wire_data(dockerfile, strlen(dockerfile), e);
	if (fd < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "hand over the Dockerfile");
	api_config(api_of(rq), &c);
	call = call_of("build", NULL);
	call_flag(call, "quiet");
	call_text(call, "tag", name);
	call_text(call, "network", c.network_enabled ? "bridge" : "none");
	call_operand(call, "-");
	return spawn_berth(rq, call, 1, fd, &out, e);
}

static json_t *text_member(const json_t *from, const char *key)
{
	const json_t *v = json_object_get(from, key);

	return json_is_string(v) ? json_incref((json_t *)(size_t)v) : json_string("1970-01-01T00:00:00Z");
}

static json_t *describe_snapshot(struct http_request *rq, const json_t *image)
{
	struct config c;
	const json_t *name = json_object_get(image, "name"), *size = json_object_get(image, "size");

	api_config(api_of(rq), &c);
	return json_pack("{s:O,s:O,s:O,s:s,s:b,s:s,s:o,s:n,s:f,s:i,s:f,s:f,s:n,s:o,s:o,s:n,s:n,s:O*}", "id", name, "name", name, "imageName", name,
			 "organizationId", http_who(rq)->name, "general", 0, "state", "active", "size",
			 json_is_number(size) ? json_real(json_number_value(size) / (1 << 30)) : json_null(), "entrypoint", "cpu",
			 (double)c.cpu_milli / 1000, "gpu", 0, "mem", (double)c.memory_bytes / (1 << 30), "disk", (double)c.disk_bytes / (1 << 30),
			 "errorReason", "createdAt", text_member(image, "created"), "updatedAt", text_member(image, "created"), "lastUsedAt",
			 "sourceSandboxId", "ref", json_object_get(image, "digest"));
}

static int get_snapshots(struct http_request *rq, struct err *e)
{
	const uint64_t page = http_query_u64(rq, "page", 1), limit = http_query_u64(rq, "limit", LIST_PRESET);
	const char *name = http_query(rq, "name");
	autojson json_t *images = NULL;
	json_t *items = json_array(), *one;
	uint64_t total = 0;
	size_t i;

	if (page < 1 || page > INT32_MAX || limit < 1 || limit > LIST_MAX)
		err_set(e, ERR_INVALID, "page or limit is out of range: limit is at most %d", LIST_MAX);
	else
		images = api_images(rq, e);
	json_array_foreach(images, i, one) {
		const char *own = json_string_value(json_object_get(one, "name"));

		if (!own || (name && !strstr(own, name)))
			continue;
		if (total >= (page - 1) * limit && total < page * limit)
			json_array_append_new(items, describe_snapshot(rq, one));
		total++;
	}
	if (images)
		return http_reply_json(rq, 0,
				       json_pack("{s:o,s:I,s:I,s:I}", "items", items, "total", (json_int_t)total, "page", (json_int_t)page,
						 "totalPages", (json_int_t)((total + limit - 1) / limit)),
				       e);
	json_decref(items);
	return -1;
}

static int reply_snapshot(struct http_request *rq, const char *name, struct err *e)
{
	autojson json_t *image = api_image(rq, name, e);

	if (!image)
		return -1;
	json_object_set_new(image, "name", json_string(name));
	return http_reply_json(rq, 0, describe_snapshot(rq, image), e);
}

static int get_snapshot(struct http_request *rq, struct err *e)
{
	return reply_snapshot(rq, http_param(rq, "name"), e);
}

static int delete_snapshot(struct http_request *rq, struct err *e)
{
	return api_remove_image(rq, http_param(rq, "name"), 0, e) < 0 ? -1 : http_reply_empty(rq, 204, e);
}

static int spawn_quietly(struct http_request *rq, json_t *call, struct err *e)
{
	autobuf struct buf out = BUF_INIT(BUILD_OUT_MAX);

	return spawn_berth(rq, call, 1, -1, &out, e);
}

/* Gives the image the name, and fetches it first when it is not there. */
static int name_image(struct http_request *rq, const char *image, const char *name, struct err *e)
{
	json_t *call;

	if (!strcmp(image, name))
		return 0;
	if (spawn_quietly(rq, call_of("image tag", image, name, NULL), e) == 0)
		return 0;
	if (e->code != ERR_NOT_FOUND)
		return -1;
	call = call_of("pull", image, NULL);
	call_flag(call, "quiet");
	return spawn_quietly(rq, call, e) < 0 ? -1 : spawn_quietly(rq, call_of("image tag", image, name, NULL), e);
}

static int post_snapshot(struct http_request *rq, struct err *e)
{
	static const char *const own[] = {"cpu", "gpu", "gpuType", "memory", "disk", "entrypoint"};
	const json_t *body = http_json(rq), *build = json_object_get(body, "buildInfo");
	const char *name = json_string_value(json_object_get(body, "name")), *image = json_string_value(json_object_get(body, "imageName"));
	const char *dockerfile = json_string_value(json_object_get(build, "dockerfileContent"));
	char from[512];
	size_t i;
	int plain = 1;

	if (check_builder(rq, "a new snapshot", e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(own); i++)
		if (e2b_rules_given(body, own[i]))
			return err_set(e, ERR_UNSUPPORTED, "%s of a snapshot is not served: a sandbox gets its own when it is made", own[i]);
	if (json_array_size(json_object_get(build, "contextHashes")))
		return err_set(e, ERR_UNSUPPORTED, "buildInfo.contextHashes is not served: no object storage takes the files of a build; hint: berth build");
	if (!image == !dockerfile)
		return err_set(e, ERR_INVALID, "a snapshot is made of imageName or of buildInfo.dockerfileContent, and of one of them");
	if (dockerfile && (plain = daytona_from(dockerfile, from, e)) < 0)
		return -1;
	if ((plain ? name_image(rq, image ? image : from, name, e) : daytona_build(rq, dockerfile, name, e)) < 0)
		return -1;
	return reply_snapshot(rq, name, e);
}

static int refuse_snapshot(struct http_request *rq, struct err *e)
{
	(void)rq;
	return err_set(e, ERR_UNSUPPORTED, "a snapshot is active as long as it is there, and its build has no log; hint: delete it");
}

/* ---- volumes ------------------------------------------------------------------------------------ */

static json_t *describe_daytona_volume(struct http_request *rq, const json_t *v)
{
	const json_t *name = json_object_get(v, "name");

	return json_pack("{s:O,s:O,s:s,s:s,s:o,s:o,s:n,s:n}", "id", name, "name", name, "organizationId", http_who(rq)->name, "state", "ready",
			 "createdAt", text_member(v, "created"), "updatedAt", text_member(v, "created"), "lastUsedAt", "errorReason");
}

static int reply_volume(struct http_request *rq, const char *name, struct err *e)
{
	autojson json_t *v = api_volume(rq, "volume inspect", name, 0, e);

	return v ? http_reply_json(rq, 0, describe_daytona_volume(rq, v), e) : -1;
}

static int get_daytona_volumes(struct http_request *rq, struct err *e)
{
	autojson json_t *list = api_volume(rq, "volume ls", NULL, 0, e);
	json_t *out = json_array(), *one;
	size_t i;

	json_array_foreach(list, i, one)
		json_array_append_new(out, describe_daytona_volume(rq, one));
	if (list)
		return http_reply_json(rq, 0, out, e);
	json_decref(out);
	return -1;
}

static int get_daytona_volume(struct http_request *rq, struct err *e)
{
	return reply_volume(rq, http_param(rq, "name"), e);
}

static int post_daytona_volume(struct http_request *rq, struct err *e)
{
	const char *name = json_string_value(json_object_get(http_json(rq), "name"));
	json_t *made = api_volume(rq, "volume create", name, 1, e);

	if (!made)
		return -1;
	json_decref(made);
	return reply_volume(rq, name, e);
}

static int delete_daytona_volume(struct http_request *rq, struct err *e)
{
	json_t *gone = api_volume(rq, "volume rm", http_param(rq, "name"), 1, e);

	json_decref(gone);
	return gone ? http_reply_empty(rq, 200, e) : -1;
}

/* ---- itself ------------------------------------------------------------------------------------- */

static int get_daytona_config(struct http_request *rq, struct err *e)
{
	autofree char *toolbox = daytona_address(rq, "/api/toolbox"), *page = daytona_address(rq, "/ui");
	struct config c;
	char domain[220];
	const char *preview = preview_domain(api_of(rq)->previews, domain, sizeof(domain));
	json_t *address = preview ? json_sprintf("http://{{PORT}}-{{sandboxId}}.%s", preview) : json_string("");

	api_config(api_of(rq), &c);
	return http_reply_json(rq, 0,
			       json_pack("{s:s,s:{s:s,s:s,s:s},s:b,s:{},s:o,s:s?,s:s,s:s?,s:i,s:b,s:s}", "version", BERTH_VERSION, "oidc", "issuer", "",
					 "clientId", "", "audience", "", "linkedAccountsEnabled", 0, "announcements", "proxyTemplateUrl", address,
					 "proxyToolboxUrl", toolbox, "defaultSnapshot", c.image, "dashboardUrl", page, "maxAutoArchiveInterval",
					 DAYTONA_ARCHIVE_MAX, "maintananceMode", 0, "environment", "berth"),
			       e);
}

#define DOC .response = "Document", DAYTONA_ERRORS

const struct http_route daytona_object_routes[] = {
	{"GET", "/api/config", get_daytona_config, "Daytona: what it tells of itself", DOC},
	{"GET", "/api/snapshots", get_snapshots, "Daytona: images, as snapshots",
	 .query = "page:integer limit:integer name:string", DOC},
	{"POST", "/api/snapshots", post_snapshot, "Daytona: name an image, or build one", HTTP_JSON, .request = "DaytonaSnapshot", DOC},
	{"GET", "/api/snapshots/{name}", get_snapshot, "Daytona: an image", DOC},
	{"DELETE", "/api/snapshots/{name}", delete_snapshot, "Daytona: remove an image", .status = 204, DAYTONA_ERRORS},
	{"POST", "/api/snapshots/{name}/activate", refuse_snapshot, "Daytona: refused", DOC},
	{"POST", "/api/snapshots/{name}/deactivate", refuse_snapshot, "Daytona: refused", DOC},
	{"GET", "/api/snapshots/{name}/build-logs", refuse_snapshot, "Daytona: refused", .query = "follow:boolean", DOC},
	{"GET", "/api/snapshots/{name}/build-logs-url", refuse_snapshot, "Daytona: refused", DOC},
	{"GET", "/api/volumes", get_daytona_volumes, "Daytona: volumes", .query = "includeDeleted:boolean", .response = "Documents", DAYTONA_ERRORS},
	{"POST", "/api/volumes", post_daytona_volume, "Daytona: a new volume", HTTP_JSON, .request = "DaytonaVolume", DOC},
	{"GET", "/api/volumes/{name}", get_daytona_volume, "Daytona: a volume", DOC},
	{"GET", "/api/volumes/by-name/{name}", get_daytona_volume, "Daytona: a volume", DOC},
	{"DELETE", "/api/volumes/{name}", delete_daytona_volume, "Daytona: remove a volume", DAYTONA_ERRORS},
	{NULL},
};
