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
#include "manager/service/args.h"
#include "manager/host/tenant.h"
#include "manager/keeper/wire.h"
#include "manager/service/tenancy.h"

#define OUTPUT_MAX (16u << 20)

/* A name must not be taken for an option; berth takes "--" before it anyway. */
static const char *image_ref(struct http_request *rq)
{
	return http_query(rq, "ref");
}

/* Upholds S44 of SECURITY.md. */
static int load_tenant(struct http_request *rq, struct tenant *ret, struct config *c, struct err *e)
{
	api_config(api_of(rq), c);
	return tenant_load(ret, c, http_who(rq)->name, e);
}

/*
 * The name by which berth knows the requested image, in ret; an image that a tenant does not see
 * is reported as missing. NULL: an error.
 */
static const char *seen_ref(struct http_request *rq, char ret[REF_NAME_MAX + 1], struct err *e)
{
	const char *ref = image_ref(rq);
	struct tenant t;
	struct config c;

	if (http_who(rq)->admin)
		return ref;
	if (load_tenant(rq, &t, &c, e) < 0 || tenancy_find_image(&t, &c, ref, ret, e) < 0)
		return NULL;
	return ret;
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
	if (load_tenant(rq, &t, &c, e) < 0) {
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

static int get_images(struct http_request *rq, struct err *e)
{
	static const char *const argv[] = { "berth", "image", "ls", "--json", NULL };
	json_t *list = only_seen(rq, spawn_json(rq, argv, 0, e), e);

	return list ? http_reply_json(rq, 0, json_pack("{s:o}", "images", list), e) : -1;
}

static int get_inspect(struct http_request *rq, struct err *e)
{
	char name[REF_NAME_MAX + 1];
	const char *ref = seen_ref(rq, name, e);
	const char *argv[] = { "berth", "image", "inspect", "--json", "--", ref, NULL };
	json_t *j = ref ? spawn_json(rq, argv, 0, e) : NULL;

	if (!j)
		return -1;
	api_show_image_names(rq, j);
	return http_reply_json(rq, 0, j, e);
}

/* Tells berth to apply [tenant] to the client: at argv[n] and after; returns the next n. */
static size_t add_tenant(struct http_request *rq, const char **argv, size_t n)
{
	if (http_who(rq)->admin)
		return n;
	argv[n++] = "--tenant";
	argv[n++] = http_who(rq)->name;
	return n;
}

static int delete_image(struct http_request *rq, struct err *e)
{
	const char *argv[10] = { "berth", "image", "rm", "--json" };
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	size_t n = add_tenant(rq, argv, 4);

	if (http_query_bool(rq, "force"))
		argv[n++] = "--force";
	argv[n++] = "--";
	argv[n] = image_ref(rq);
	if (spawn_berth(rq, argv, 1, -1, &out, e) < 0)
		return -1;
	return http_reply_json(rq, 0, json_pack("{s:b}", "removed", 1), e);
}

static int post_gc(struct http_request *rq, struct err *e)
{
	static const char *const argv[] = { "berth", "image", "gc", "--json", NULL };
	json_t *j = spawn_json(rq, argv, 1, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

/* ---- import ------------------------------------------------------------------------ */

struct import {
	struct spawned program;
	int in;		/* our end of its stdin */
};

static void import_free(void *data)
{
	struct import *i = data;

	fd_close(&i->in);
	spawn_abort(&i->program);
	free(i);
}

static int start_import(struct http_request *rq, const char *const *argv, struct err *e)
{
	struct import *i = calloc(1, sizeof(*i));
	int p[2], r;

	if (!i)
		return err_nomem(e);
	i->in = -1;
	i->program = (struct spawned){ -1, -1, -1 };
	http_set_data(rq, i, import_free);
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	i->in = p[1];
	r = spawn_start(rq, argv, p[0], &i->program, e);
	close(p[0]);
	if (r == 0 && fcntl(i->in, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return r;
}

static int begin_import(struct http_request *rq, struct err *e)
{
	const char *argv[12] = { "berth", "image", "import", "--json", "--quiet" };
	size_t n = add_tenant(rq, argv, 5);

	argv[n++] = "--";
	argv[n++] = "-";
	argv[n] = http_query(rq, "name");
	return start_import(rq, argv, e);
}

static int begin_load(struct http_request *rq, struct err *e)
{
	const char *argv[8] = { "berth", "image", "load", "--json", "--quiet" };

	add_tenant(rq, argv, 5);
	return start_import(rq, argv, e);
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

/* berth WORDS --json OPTIONS -- OPERANDS; words and operands end with NULL, an empty operand list is none. */
static int run(struct http_request *rq, const char *const *words, json_t *options, const char *const *operands, struct err *e)
{
	struct args a = { .n = 0 };
	json_t *j = NULL;

	if (args_add(&a, "berth", e) == 0 && args_words(&a, words, e) == 0 && args_add(&a, "--json", e) == 0 &&
	    args_options(&a, options, e) == 0 && args_add(&a, "--", e) == 0 && args_words(&a, operands, e) == 0)
		j = spawn_json(rq, (const char *const *)a.v, 0, e);
	args_release(&a);
	/* some programs answer with a list, and a reply of berthd is always an object */
	if (json_is_array(j))
		j = json_pack("{s:o}", "items", j);
	if (j)
		api_show_image_names(rq, j);
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static const char *text(struct http_request *rq, const char *key)
{
	return json_string_value(json_object_get(http_json(rq), key));
}

static int post_pull(struct http_request *rq, struct err *e)
{
	static const char *const allowed[] = { "platform", NULL };
	const char *words[6] = { "pull", "--quiet" }, *operands[] = { text(rq, "ref"), NULL };

	if (api_check_options(rq, json_object_get(http_json(rq), "options"), allowed, e) < 0)
		return -1;
	add_tenant(rq, words, 2);
	return run(rq, words, json_object_get(http_json(rq), "options"), operands, e);
}

static int post_push(struct http_request *rq, struct err *e)
{
	const char *words[] = { "push", "--quiet", NULL }, *operands[] = { text(rq, "image"), text(rq, "ref"), NULL };

	return run(rq, words, json_object_get(http_json(rq), "options"), operands, e);
}

static int post_copy(struct http_request *rq, struct err *e)
{
	const char *words[] = { "image", "copy", "--quiet", NULL }, *operands[] = { text(rq, "source"), text(rq, "target"), NULL };

	return run(rq, words, json_object_get(http_json(rq), "options"), operands, e);
}

static int post_tag(struct http_request *rq, struct err *e)
{
	const char *words[] = { "image", "tag", NULL }, *operands[] = { text(rq, "image"), text(rq, "name"), NULL };

	return run(rq, words, NULL, operands, e);
}

static int post_prune(struct http_request *rq, struct err *e)
{
	static const char *const words[] = { "image", "prune", NULL }, *const operands[] = { NULL };

	return run(rq, words, http_json(rq), operands, e);
}

static int get_history(struct http_request *rq, struct err *e)
{
	char name[REF_NAME_MAX + 1];
	const char *words[] = { "image", "history", NULL };
	const char *operands[] = { seen_ref(rq, name, e), NULL };

	return operands[0] ? run(rq, words, NULL, operands, e) : -1;
}

static int get_save(struct http_request *rq, struct err *e)
{
	const char *argv[10] = { "berth", "image", "save", "--quiet", "--json" };
	size_t n = add_tenant(rq, argv, 5);
	char name[REF_NAME_MAX + 1];

	argv[n++] = "--";
	argv[n] = seen_ref(rq, name, e);
	if (!argv[n])
		return -1;
	return spawn_reply(rq, argv, "application/x-tar", e);
}

static int get_export(struct http_request *rq, struct err *e)
{
	const char *format = http_query(rq, "format");
	const char *argv[14] = { "berth", "image", "export", "--quiet", "--json", "--format",
				 format ? format : "archive" };
	size_t n = add_tenant(rq, argv, 7);
	char name[REF_NAME_MAX + 1];

	argv[n++] = "--";
	argv[n++] = seen_ref(rq, name, e);
	argv[n] = "-";
	if (!argv[n - 1])
		return -1;
	return spawn_reply(rq, argv, "application/x-tar", e);
}

static int post_pin(struct http_request *rq, struct err *e)
{
	const char *words[] = { "image", "pin", NULL }, *operands[] = { text(rq, "word"), text(rq, "image"), NULL };

	return run(rq, words, NULL, operands, e);
}

static int post_unpin(struct http_request *rq, struct err *e)
{
	const char *words[] = { "image", "unpin", NULL }, *operands[] = { text(rq, "word"), NULL };

	return run(rq, words, NULL, operands, e);
}

static int post_fsck(struct http_request *rq, struct err *e)
{
	static const char *const words[] = { "image", "fsck", "--quiet", NULL }, *const operands[] = { NULL };

	return run(rq, words, http_json(rq), operands, e);
}

/* The password goes through memory: it is in no argument, no environment, no file and no audit line. */
static int post_login(struct http_request *rq, struct err *e)
{
	const char *password = text(rq, "password"), *registry = text(rq, "registry");
	const char *argv[] = { "berth", "login", "--json", "--password-stdin", "--username", text(rq, "username"), "--",
			       registry ? registry : "docker.io", NULL };
	autoclose int fd = wire_data(password, strlen(password), e);
	json_t *j = fd < 0 ? NULL : spawn_json_fed(rq, argv, 0, fd, e);

	http_audit(rq, "registry", argv[7]);
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int post_logout(struct http_request *rq, struct err *e)
{
	const char *words[] = { "logout", NULL }, *operands[] = { text(rq, "registry") ? text(rq, "registry") : "docker.io", NULL };

	http_audit(rq, "registry", operands[0]);
	return run(rq, words, NULL, operands, e);
}

const struct http_route image_routes[] = {
	{ "GET", "/v1/images", get_images, "list images", .response = "ImageList" },
	{ "GET", "/v1/images/inspect", get_inspect, "all that is known of an image", .query = "ref!:string", .response = "Document" },
	{ "DELETE", "/v1/images", delete_image, "remove an image and what only it needed",
	  .query = "ref!:string force:boolean", .response = "ImageRemoved" },
	{ "POST", "/v1/images/import", post_import, "make an image of the body: an OCI or docker archive, or a root file system",
	  HTTP_RAW, .query = "name:string", .response = "Document", .status = 201, .begin = begin_import,
	  .feed = feed_import },
	{ "POST", "/v1/images/gc", post_gc, "remove layers and blobs that nothing needs", .flags = HTTP_ADMIN, .response = "Document" },
	{ "POST", "/v1/images/load", post_import, "read the images of the body, an archive of save", HTTP_RAW,
	  .response = "Document", .status = 201, .begin = begin_load, .feed = feed_import },
	{ "GET", "/v1/images/save", get_save, "an image as an archive", .query = "ref!:string",
	  .type = "application/x-tar" },
	{ "GET", "/v1/images/history", get_history, "how an image was made", .query = "ref!:string", .response = "Document" },
	{ "POST", "/v1/images/pull", post_pull, "fetch an image from a registry", HTTP_JSON, .request = "Pull",
	  .response = "Document" },
	{ "POST", "/v1/images/push", post_push, "send an image to a registry", HTTP_JSON, HTTP_ADMIN, .request = "Push",
	  .response = "Document" },
	{ "POST", "/v1/images/copy", post_copy, "copy an image between registries and the store", HTTP_JSON, HTTP_ADMIN,
	  .request = "Copy", .response = "Document" },
	{ "POST", "/v1/images/tag", post_tag, "give an image a further name", HTTP_JSON, HTTP_ADMIN, .request = "Tag",
	  .response = "Document" },
	{ "POST", "/v1/images/prune", post_prune, "remove what no image needs", HTTP_JSON, HTTP_ADMIN | HTTP_OPTIONAL, .request = "Prune",
	  .response = "Document" },
	{ "GET", "/v1/images/export", get_export, "an image as an archive, or with format=rootfs its merged files as a tar",
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
