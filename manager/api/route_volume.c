/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on volumes: the berth volume commands.  A tenant has names of its own, and no others. */
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/service/args.h"

/* berth volume VERB --json, as the tenant that asks. */
static int begin(struct args *a, struct http_request *rq, const char *verb, struct err *e)
{
	const char *const words[] = { "berth", "volume", verb, "--json", NULL };
	const struct http_who *who = http_who(rq);

	if (args_words(a, words, e) < 0)
		return -1;
	if (who->admin)
		return 0;
	return args_add(a, "--tenant", e) < 0 ? -1 : args_add(a, who->name, e);
}

static json_t *ask(struct http_request *rq, const char *verb, const char *name, int changes,
		   struct err *e)
{
	const char *const operands[] = { "--", name, NULL };
	struct args a = { .n = 0 };
	json_t *j = NULL;

	if (begin(&a, rq, verb, e) == 0 && (!name || args_words(&a, operands, e) == 0))
		j = spawn_json(rq, (const char *const *)a.v, changes, e);
	args_release(&a);
	return j;
}

static int get_volumes(struct http_request *rq, struct err *e)
{
	json_t *list = ask(rq, "ls", NULL, 0, e);

	return list ? http_reply_json(rq, 0, json_pack("{s:o}", "volumes", list), e) : -1;
}

static int get_volume(struct http_request *rq, struct err *e)
{
	json_t *j = ask(rq, "inspect", http_param(rq, "name"), 0, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int delete_volume(struct http_request *rq, struct err *e)
{
	json_t *j = ask(rq, "rm", http_param(rq, "name"), 1, e);

	if (!j)
		return -1;
	json_decref(j);
	return http_reply_json(rq, 0, json_pack("{s:b}", "removed", 1), e);
}

static int post_volume(struct http_request *rq, struct err *e)
{
	json_t *body = http_json(rq), *size = json_object_get(body, "size");
	json_t *label = json_object_get(body, "label"), *j = NULL;
	const char *const name = json_string_value(json_object_get(body, "name"));
	const char *const operands[] = { "--", name, NULL };
	struct args a = { .n = 0 };
	size_t i;
	json_t *one;
	int r = begin(&a, rq, "create", e);

	if (r == 0 && size)
		r = args_option(&a, "size", size, e);
	json_array_foreach(label, i, one)
		if (r == 0)
			r = args_option(&a, "label", one, e);
	if (r == 0 && args_words(&a, operands, e) == 0)
		j = spawn_json(rq, (const char *const *)a.v, 1, e);
	args_release(&a);
	return j ? http_reply_json(rq, 201, j, e) : -1;
}

const struct http_route volume_routes[] = {
	{ "GET", "/v1/volumes", get_volumes, "list volumes", .response = "VolumeList" },
	{ "POST", "/v1/volumes", post_volume, "make a volume", HTTP_JSON, .request = "VolumeCreate",
	  .response = "Document", .status = 201 },
	{ "GET", "/v1/volumes/{name}", get_volume, "a volume and the sandboxes that use it",
	  .response = "Document" },
	{ "DELETE", "/v1/volumes/{name}", delete_volume, "remove a volume that no sandbox uses",
	  .response = "ImageRemoved" },
	{ NULL },
};
