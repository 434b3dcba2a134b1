/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on images: the berth image commands, each as a program of its own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/host/tenant.h"
#include "manager/keeper/wire.h"
#include "manager/service/service.h"

#define OUTPUT_MAX (16u << 20)

/* A name must not be taken for an option; berth takes "--" before it anyway. */
static const char *image_ref(struct http_request *rq)
{
	return http_query(rq, "ref");
}

/* Upholds S44 of SECURITY.md. */
static int load_image_tenant(struct http_request *rq, struct tenant *ret, struct config *c, struct err *e)
{
	api_config(api_of(rq), c);
	return tenant_load(ret, c, http_who(rq)->name, e);
}

/*
 * The name by which berth knows the requested image, in ret; an image that a tenant does not see
 * is reported as missing. NULL: an error.
 */
static const char *seen_image(struct http_request *rq, const char *ref, char ret[REF_NAME_MAX + 1], struct err *e)
{
	struct tenant t;
	struct config c;

	if (http_who(rq)->admin)
		return ref;
	if (load_image_tenant(rq, &t, &c, e) < 0 || tenancy_find_image(&t, &c, ref, ret, e) < 0)
		return NULL;
	return ret;
}

static const char *seen_ref(struct http_request *rq, char ret[REF_NAME_MAX + 1], struct err *e)
{
	return seen_image(rq, image_ref(rq), ret, e);
}

void api_show_image_names(struct http_request *rq, json_t *j)
{
	const char *name = json_string_value(json_object_get(j, "name"));
	char plain[REF_NAME_MAX + 1];
	json_t *one;
	size_t i;

	if (http_who(rq)->admin)
		return;
	json_array_foreach(j, i, one)
		api_show_image_names(rq, one);
	if (json_is_array(json_object_get(j, "images")))
		api_show_image_names(rq, json_object_get(j, "images"));
	if (!name)
		return;
	image_plain_name(name, plain);
	json_object_set_new(j, "name", json_string(plain));
}

int api_check_options(struct http_request *rq, const json_t *options, const char *const *allowed,
		      struct err *e)
{
	const char *name;
	json_t *v;
	size_t i;

	if (http_who(rq)->admin)
		return 0;
	json_object_foreach((json_t *)(size_t)options, name, v) {
		for (i = 0; allowed[i] && strcmp(allowed[i], name); i++)
			;
		if (!allowed[i])
			return err_set(e, ERR_DENIED, "option %.60s needs an admin token", name);
	}
	return 0;
}

/* The tenant has its own image of that name, so the name does not mean this image. */
static int is_behind(const json_t *list, const json_t *image, const char *tenant)
{
	const char *name = json_string_value(json_object_get(image, "name")), *other;
	size_t n = name ? strlen(name) : 0, i;
	json_t *one;

	json_array_foreach(list, i, one) {
		other = json_string_value(json_object_get(one, "name"));
		if (n && other && !strncmp(other, name, n) && other[n] == '@' &&
		    !strcmp(other + n + 1, tenant))
			return 1;
	}
	return 0;
}

/* The part of a list, consumed, that a tenant sees. */
static json_t *only_seen(struct http_request *rq, json_t *list, struct err *e)
{
	struct tenant t;
	struct config c;
	size_t i;

	if (!list || http_who(rq)->admin)
		return list;
	if (load_image_tenant(rq, &t, &c, e) < 0) {
		json_decref(list);
		return NULL;
	}
	for (i = json_array_size(list); i-- > 0;)
		if (!tenant_sees_image(&t, &c, json_array_get(list, i)) ||
		    is_behind(list, json_array_get(list, i), t.name))
			json_array_remove(list, i);
	api_show_image_names(rq, list);
	return list;
}

json_t *api_images(struct http_request *rq, struct err *e)
{
	return only_seen(rq, spawn_json(rq, call_of("image ls", NULL), 0, e), e);
}

static int get_images(struct http_request *rq, struct err *e)
{
	json_t *list = api_images(rq, e);

	return list ? http_reply_json(rq, 0, json_pack("{s:o}", "images", list), e) : -1;
}

json_t *api_image(struct http_request *rq, const char *ref, struct err *e)
{
	char name[REF_NAME_MAX + 1];
	json_t *j;

	ref = seen_image(rq, ref, name, e);
	j = ref ? spawn_json(rq, call_of("image inspect", ref, NULL), 0, e) : NULL;
	if (j)
		api_show_image_names(rq, j);
	return j;
}

static int get_inspect(struct http_request *rq, struct err *e)
{
	json_t *j = api_image(rq, image_ref(rq), e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

/* A program that shows no progress, for the client. */
static json_t *quiet_call(struct http_request *rq, const char *command)
{
	json_t *call = call_of(command, NULL);

	call_flag(call, "quiet");
	spawn_tenant(rq, call);
	return call;
}

int api_remove_image(struct http_request *rq, const char *ref, int force, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	json_t *call = call_of("image rm", ref, NULL);

	spawn_tenant(rq, call);
	call_set(call, "force", json_boolean(force));
	return spawn_berth(rq, call, 1, -1, &out, e);
}

static int delete_image(struct http_request *rq, struct err *e)
{
	if (api_remove_image(rq, image_ref(rq), http_query_bool(rq, "force"), e) < 0)
		return -1;
	return http_reply_json(rq, 0, json_pack("{s:b}", "removed", 1), e);
}

static int post_image_gc_route(struct http_request *rq, struct err *e)
{
	json_t *j = spawn_json(rq, call_of("image gc", NULL), 1, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

/* ---- import ------------------------------------------------------------------------ */

struct import {
	struct called program;
	int in;		/* our end of its stdin */
};

static void image_import_call_free(void *data)
{
	struct import *i = data;

	fd_close(&i->in);
	call_abort(&i->program);
	free(i);
}

static int start_import(struct http_request *rq, json_t *call, struct err *e)
{
	struct import *i = calloc(1, sizeof(*i));
	int p[2], r;

	if (!i) {
		json_decref(call);
		return err_nomem(e);
	}
	i->in = -1;
	i->program = (struct called)CALLED_NONE;
	http_set_data(rq, i, image_import_call_free);
	if (pipe2(p, O_CLOEXEC) < 0) {
		json_decref(call);
		return err_sys(e, "make a pipe");
	}
	i->in = p[1];
	r = spawn_start(rq, call, p[0], &i->program, e);
	close(p[0]);
	if (r == 0 && fcntl(i->in, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return r;
}

static int begin_image_import_route(struct http_request *rq, struct err *e)
{
	json_t *call = quiet_call(rq, "image import");

	call_operand(call, "-");
	if (http_query(rq, "name"))
		call_operand(call, http_query(rq, "name"));
	return start_import(rq, call, e);
}

static int begin_image_load_route(struct http_request *rq, struct err *e)
{
	return start_import(rq, quiet_call(rq, "image load"), e);
}

static int feed_import(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct import *i = http_data(rq);

	while (n && i->in >= 0) {
		ssize_t w = write(i->in, data, n);

		if (w > 0) {
			data += w;
			n -= (size_t)w;
		} else if (errno == EPIPE) {
			fd_close(&i->in);	/* its last word says why */
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_sys(e, "hand on the image");
		} else if (http_wait(rq, i->in, POLLOUT, -1, e) < 0) {
			return -1;
		}
	}
	return 0;
}

static int post_import(struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	struct import *i = http_data(rq);
	json_t *j;

	fd_close(&i->in);
	if (spawn_finish(rq, &i->program, 1, &out, e) < 0)
		return -1;
	j = json_parse(out.data ? out.data : "", out.len, OUTPUT_MAX, "berth's answer", e);
	if (!j)
		return -1;
	api_show_image_names(rq, j);
	return http_reply_json(rq, 0, j, e);
}

/* ---- the rest: one program, one answer ------------------------------------------------- */

/* The call's answer as the reply; a call that could not be built is NULL. */
static int reply_image_call(struct http_request *rq, json_t *call, struct err *e)
{
	json_t *j = spawn_json(rq, call, 0, e);

	/* some programs answer with a list, and a reply of berthd is always an object */
	if (json_is_array(j))
		j = json_pack("{s:o}", "items", j);
	if (j)
		api_show_image_names(rq, j);
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static const char *image_body_text(struct http_request *rq, const char *key)
{
	return json_string_value(json_object_get(http_json(rq), key));
}

static json_t *with_options(json_t *call, const json_t *options)
{
	call_options(call, options);
	return call;
}

static int post_pull(struct http_request *rq, struct err *e)
{
	static const char *const allowed[] = { "platform", NULL };
	json_t *options = json_object_get(http_json(rq), "options"), *call;

	if (api_check_options(rq, options, allowed, e) < 0)
		return -1;
	call = with_options(quiet_call(rq, "pull"), options);
	call_operand(call, image_body_text(rq, "ref"));
	return reply_image_call(rq, call, e);
}

/* For administrators: a program that takes an image, and another one or a place in a registry. */
static int run_quiet(struct http_request *rq, const char *command, const char *from, const char *to, struct err *e)
{
	json_t *call = with_options(quiet_call(rq, command), json_object_get(http_json(rq), "options"));

	call_operand(call, from);
	if (to)
		call_operand(call, to);
	return reply_image_call(rq, call, e);
}

static int post_image_push_route(struct http_request *rq, struct err *e)
{
	return run_quiet(rq, "push", image_body_text(rq, "image"), image_body_text(rq, "ref"), e);
}

static int post_copy(struct http_request *rq, struct err *e)
{
	return run_quiet(rq, "image copy", image_body_text(rq, "source"), image_body_text(rq, "target"), e);
}

static int post_image_tag_route(struct http_request *rq, struct err *e)
{
	return reply_image_call(rq, call_of("image tag", image_body_text(rq, "image"), image_body_text(rq, "name"), NULL), e);
}

static int post_image_prune_route(struct http_request *rq, struct err *e)
{
	return reply_image_call(rq, with_options(call_of("image prune", NULL), http_json(rq)), e);
}

static int get_image_history_route(struct http_request *rq, struct err *e)
{
	char name[REF_NAME_MAX + 1];
	const char *ref = seen_ref(rq, name, e);

	return ref ? reply_image_call(rq, call_of("image history", ref, NULL), e) : -1;
}

static int get_image_save_route(struct http_request *rq, struct err *e)
{
	char name[REF_NAME_MAX + 1];
	const char *ref = seen_ref(rq, name, e);
	json_t *call;

	if (!ref)
		return -1;
	call = quiet_call(rq, "image save");
	call_operand(call, ref);
	return spawn_reply(rq, call, "application/x-tar", e);
}

static int get_image_export_route(struct http_request *rq, struct err *e)
{
	const char *format = http_query(rq, "format");
	char name[REF_NAME_MAX + 1];
	const char *ref = seen_ref(rq, name, e);
	json_t *call;

	if (!ref)
		return -1;
	call = quiet_call(rq, "image export");
	call_text(call, "format", format ? format : "archive");
	call_operand(call, ref);
	call_operand(call, "-");
	return spawn_reply(rq, call, "application/x-tar", e);
}

static int post_pin(struct http_request *rq, struct err *e)
{
	return reply_image_call(rq, call_of("image pin", image_body_text(rq, "word"), image_body_text(rq, "image"), NULL), e);
}

static int post_unpin(struct http_request *rq, struct err *e)
{
	return reply_image_call(rq, call_of("image unpin", image_body_text(rq, "word"), NULL), e);
}

static int post_fsck(struct http_request *rq, struct err *e)
{
	return reply_image_call(rq, with_options(quiet_call(rq, "image fsck"), http_json(rq)), e);
}

/* The password goes through memory: it is in no argument, no environment, no file and no audit line. */
static int post_login(struct http_request *rq, struct err *e)
{
	const char *password = image_body_text(rq, "password"), *registry = image_body_text(rq, "registry") ? image_body_text(rq, "registry") : "docker.io";
	autoclose int fd = wire_data(password, strlen(password), e);
	json_t *call, *j;

	http_audit(rq, "registry", registry);
	if (fd < 0)
		return -1;
	call = call_of("login", registry, NULL);
	call_flag(call, "password-stdin");
	call_text(call, "username", image_body_text(rq, "username"));
	j = spawn_json_fed(rq, call, 0, fd, e);
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int post_logout(struct http_request *rq, struct err *e)
{
	const char *registry = image_body_text(rq, "registry") ? image_body_text(rq, "registry") : "docker.io";

	http_audit(rq, "registry", registry);
	return reply_image_call(rq, call_of("logout", registry, NULL), e);
}

const struct http_route image_routes[] = {
	{ "GET", "/v1/images", get_images, "list images", .response = "ImageList" },
	{ "GET", "/v1/images/inspect", get_inspect, "all that is known of an image", .query = "ref!:string", .response = "Document" },
	{ "DELETE", "/v1/images", delete_image, "remove an image and what only it needed",
	  .query = "ref!:string force:boolean", .response = "ImageRemoved" },
	{ "POST", "/v1/images/import", post_import, "make an image of the body: an OCI or docker archive, or a root file system",
	  HTTP_RAW, .query = "name:string", .response = "Document", .status = 201, .begin = begin_image_import_route,
	  .feed = feed_import },
	{ "POST", "/v1/images/gc", post_image_gc_route, "remove layers and blobs that nothing needs", .flags = HTTP_ADMIN, .response = "Document" },
	{ "POST", "/v1/images/load", post_import, "read the images of the body, an archive of save", HTTP_RAW,
	  .response = "Document", .status = 201, .begin = begin_image_load_route, .feed = feed_import },
	{ "GET", "/v1/images/save", get_image_save_route, "an image as an archive", .query = "ref!:string",
	  .type = "application/x-tar" },
	{ "GET", "/v1/images/history", get_image_history_route, "how an image was made", .query = "ref!:string", .response = "Document" },
	{ "POST", "/v1/images/pull", post_pull, "fetch an image from a registry", HTTP_JSON, .request = "Pull",
	  .response = "Document" },
	{ "POST", "/v1/images/push", post_image_push_route, "send an image to a registry", HTTP_JSON, HTTP_ADMIN, .request = "Push",
	  .response = "Document" },
	{ "POST", "/v1/images/copy", post_copy, "copy an image between registries and the store", HTTP_JSON, HTTP_ADMIN,
	  .request = "Copy", .response = "Document" },
	{ "POST", "/v1/images/tag", post_image_tag_route, "give an image a further name", HTTP_JSON, HTTP_ADMIN, .request = "Tag",
	  .response = "Document" },
	{ "POST", "/v1/images/prune", post_image_prune_route, "remove what no image needs", HTTP_JSON, HTTP_ADMIN | HTTP_OPTIONAL, .request = "Prune",
	  .response = "Document" },
	{ "GET", "/v1/images/export", get_image_export_route, "an image as an archive, or with format=rootfs its merged files as a tar",
	  .query = "ref!:string format:string", .type = "application/x-tar" },
	{ "POST", "/v1/images/pin", post_pin, "keep an image's files, whatever becomes of its names", HTTP_JSON, HTTP_ADMIN, .request = "Pin",
	  .response = "Document" },
	{ "POST", "/v1/images/unpin", post_unpin, "take a pin away", HTTP_JSON, HTTP_ADMIN, .request = "Unpin", .response = "Document" },
	{ "POST", "/v1/images/fsck", post_fsck, "read the whole store and report what is damaged", HTTP_JSON, HTTP_ADMIN | HTTP_OPTIONAL,
	  .request = "Fsck", .response = "Document" },
	{ "POST", "/v1/registries/login", post_login, "keep a user name and password for a registry", HTTP_JSON, HTTP_ADMIN, .request = "Login",
	  .response = "Document" },
	{ "POST", "/v1/registries/logout", post_logout, "forget the password for a registry", HTTP_JSON, HTTP_ADMIN | HTTP_OPTIONAL,
	  .request = "Logout", .response = "Document" },
	{ NULL },
};
