/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/boxcreate.h"

#include <string.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/route_manager.h"
#include "manager/service/createargs.h"
#include "manager/service/service.h"

/* ---- one of its own ---------------------------------------------------------------- */

/* By its id, which only the zygote has that the caller sees now. */
static int find_zygote(struct http_request *rq, const json_t *body, char ret[65], struct err *e)
{
	const char *ref = NULL;
	struct box b;
	int r;

	ret[0] = '\0';
	if (json_get_str(body, "zygote", &ref, "body", e) < 0)
		return -1;
	if (!ref)
		return 0;
	if (json_object_get(body, "image") || json_object_get(body, "command") ||
	    json_object_get(body, "pull"))
		return err_set(e, ERR_INVALID,
			       "\"zygote\" goes without \"image\", \"command\" and \"pull\", as it "
			       "brings its own");
	r = api_find_zygote(&b, rq, ref, e);
	if (r == 0)
		memcpy(ret, b.id, sizeof(b.id));
	box_close(&b);
	return r;
}

static json_t *create_call(struct http_request *rq, const json_t *body, const json_t *own,
			   const char *name, struct err *e)
{
	struct config c;
	char zygote[65];
	struct createargs what = {.own = own,
				  .tenant = http_who(rq)->admin ? NULL : http_who(rq)->name,
				  .zygote = zygote};
	json_t *call;

	api_config(api_of(rq), &c);
	what.image = c.image;
	what.pull = c.registry_pull;
	if (find_zygote(rq, body, zygote, e) < 0 || createargs_read(&what, body, e) < 0)
		return NULL;
	call = createargs_call(&what, e);
	if (name && name[0])
		call_text(call, "name", name);
	return call;
}

json_t *api_create(struct http_request *rq, const json_t *body, const json_t *own, struct err *e)
{
	const char *name = NULL, *id;
	json_t *made, *call;

	if (json_get_str(body, "name", &name, "body", e) < 0 ||
	    !(call = create_call(rq, body, own, name, e)))
		return NULL;
	made = spawn_json(rq, call, 1, e);
	if (!made && name)
		box_name_taken(rq, name, e);
	id = json_string_value(json_object_get(made, "id"));
	if (!id) {
		if (made)
			err_set(e, ERR_INTERNAL, "berth create gave no id");
		json_decref(made);
		return NULL;
	}
	http_audit(rq, "id", id);
	/* no client would ever learn its id */
	if (http_wait(rq, -1, 0, 0, e) < 0) {
		api_forget(rq, id);
		json_decref(made);
		return NULL;
	}
	atomic_fetch_add(&api_of(rq)->creates, 1);
	return made;
}

/* ---- one that the manager keeps -------------------------------------------------- */

static const char *const manager_members[] = {
	"session", "sandbox_type", "storage_path", "auto_stop", "auto_archive", "auto_delete",
};

static int is_managers(const json_t *body)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(manager_members); i++)
		if (json_object_get(body, manager_members[i]))
			return 1;
	return 0;
}

/* The arguments of service_create(), where a session is a part of "meta". */
static json_t *manager_args(const json_t *body)
{
	json_t *args = json_copy((json_t *)(size_t)body),
	       *session = json_object_get(args, "session");

	if (session)
		json_object_set_new(args, "meta", json_pack("{s:O}", "session_ctx_id", session));
	json_object_del(args, "session");
	return args;
}

static int make_managed(struct http_request *rq, struct err *e)
{
	struct service_who who = manager_who(rq);
	autojson json_t *args = manager_args(http_json(rq)), *info = NULL;
	const char *given = json_string_value(json_object_get(args, "name"));
	char name[65];

	if (!manager_of(rq))
		return err_set(e, ERR_UNSUPPORTED, "this berthd serves without its manager");
	if (!args)
		return err_nomem(e);
	if (service_create(manager_of(rq), &who, args, 0, name, e) < 0)
		return -1;
	http_audit(rq, "sandbox", name);
	info = service_info(manager_of(rq), &who, name, e);
	return info ? http_reply_json(rq, 0,
				      json_pack("{s:O,s:s,s:O}", "id",
						json_object_get(info, "container_id"), "name",
						given ? given : name, "session",
						json_object_get(info, "session_ctx_id")),
				      e) :
		      -1;
}

int boxcreate_post(struct http_request *rq, struct err *e)
{
	json_t *made;

	if (is_managers(http_json(rq)) && json_object_get(http_json(rq), "zygote"))
		return err_set(e, ERR_INVALID,
			       "a sandbox of a session has the zygote of its type; hint: "
			       "[pool.NAME] zygote, or leave the session out");
	if (is_managers(http_json(rq)))
		return make_managed(rq, e);
	made = api_create(rq, http_json(rq), NULL, e);
	return made ? http_reply_json(rq, 0, made, e) : -1;
}
