/* SPDX-License-Identifier: Apache-2.0 */
/* image, pull, push, save, load, login, logout: the store and the registries of the host there. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/remote/remote.h"

#define PATH_BUF BUF_INIT(65536)

/* One request, its answer printed; body is consumed. */
static int ask(struct remote *r, const char *method, const char *path, json_t *body, struct err *e)
{
	json_t *answer = remote_call(r, method, path, body, e);

	json_decref(body);
	return answer ? remote_print(answer, e) : -1;
}

static int with_ref(struct remote *r, const char *method, const char *path, const char *key, const char *ref, int in_fd, struct err *e)
{
	autobuf struct buf b = PATH_BUF;
	struct remote_io io = { .in_fd = in_fd, .take = remote_to_stdout };

	if (buf_adds(&b, path, e) < 0 || (ref && remote_query(&b, key, ref, e) < 0))
		return -1;
	return remote_transfer(r, method, b.data, &io, e);
}

static int rm(struct remote *r, struct err *e)
{
	int i;

	for (i = 1; i < r->count; i++) {
		autobuf struct buf b = PATH_BUF;
		autojson json_t *answer = NULL;

		if (buf_adds(&b, "/v1/images", e) < 0 || remote_query(&b, "ref", r->words[i], e) < 0)
			return -1;
		answer = remote_call(r, "DELETE", b.data, NULL, e);
		if (!answer)
			return -1;
	}
	return 0;
}

static json_t *two(const char *a, const char *x, const char *b, const char *y)
{
	return json_pack("{s:s,s:s*}", a, x, b, y);
}

/* image export NAME -, image export --format rootfs NAME - */
static int export(struct remote *r, struct err *e)
{
	int rootfs = r->count == 5 && !strcmp(r->words[1], "--format") && !strcmp(r->words[2], "rootfs");

	if ((r->count != 3 && !rootfs) || strcmp(r->words[r->count - 1], "-"))
		return err_set(e, ERR_UNSUPPORTED, "from afar there is: image export [--format rootfs] NAME -, to stdout");
	return with_ref(r, "GET", rootfs ? "/v1/images/export?format=rootfs" : "/v1/images/export", "ref", r->words[r->count - 2], -1, e);
}

int remote_image(struct remote *r, struct err *e)
{
	const char *verb = r->words[0], *one = r->count > 1 ? r->words[1] : NULL, *more = r->count > 2 ? r->words[2] : NULL;
	int n = r->count - 1;

	if (n == 0 && !strcmp(verb, "ls"))
		return ask(r, "GET", "/v1/images", NULL, e);
	if (n == 0 && !strcmp(verb, "gc"))
		return ask(r, "POST", "/v1/images/gc", NULL, e);
	if (n == 0 && !strcmp(verb, "prune"))
		return ask(r, "POST", "/v1/images/prune", json_object(), e);
	if (n == 0 && !strcmp(verb, "fsck"))
		return ask(r, "POST", "/v1/images/fsck", json_object(), e);
	if (n == 1 && (!strcmp(verb, "inspect") || !strcmp(verb, "history")))
		return with_ref(r, "GET", verb[0] == 'i' ? "/v1/images/inspect" : "/v1/images/history", "ref", one, -1, e);
	if (n == 2 && !strcmp(verb, "pin"))
		return ask(r, "POST", "/v1/images/pin", two("word", one, "image", more), e);
	if (n == 1 && !strcmp(verb, "unpin"))
		return ask(r, "POST", "/v1/images/unpin", two("word", one, "x", NULL), e);
	if (n == 2 && !strcmp(verb, "tag"))
		return ask(r, "POST", "/v1/images/tag", two("image", one, "name", more), e);
	if (n == 2 && !strcmp(verb, "copy"))
		return ask(r, "POST", "/v1/images/copy", two("source", one, "target", more), e);
	if (n >= 1 && n <= 2 && !strcmp(verb, "import") && !strcmp(one, "-"))
		return with_ref(r, "POST", "/v1/images/import", "name", more, STDIN_FILENO, e);
	if (!strcmp(verb, "export"))
		return export(r, e);
	if (n == 1 && !strcmp(verb, "save"))
		return with_ref(r, "GET", "/v1/images/save", "ref", one, -1, e);
	if (n == 0 && !strcmp(verb, "load"))
		return with_ref(r, "POST", "/v1/images/load", "", NULL, STDIN_FILENO, e);
	if (n >= 1 && !strcmp(verb, "rm"))
		return rm(r, e);
	return err_set(e, ERR_UNSUPPORTED, "from afar there are: image ls, inspect NAME, history NAME, rm NAME..., tag, copy, pin, unpin, gc, prune, "
		       "fsck, import - [NAME], export NAME -, save NAME, load, all without options");
}

int remote_pull(struct remote *r, struct err *e)
{
	return ask(r, "POST", "/v1/images/pull", two("ref", r->words[0], "x", NULL), e);
}

int remote_push(struct remote *r, struct err *e)
{
	return ask(r, "POST", "/v1/images/push", two("image", r->words[0], "ref", r->count > 1 ? r->words[1] : NULL), e);
}

int remote_save(struct remote *r, struct err *e)
{
	return with_ref(r, "GET", "/v1/images/save", "ref", r->words[0], -1, e);
}

int remote_load(struct remote *r, struct err *e)
{
	return with_ref(r, "POST", "/v1/images/load", "", NULL, STDIN_FILENO, e);
}

int remote_login(struct remote *r, struct err *e)
{
	autobuf struct buf password = BUF_INIT(65536);
	const char *user = NULL, *registry = NULL;
	json_t *body;
	int i, piped = 0, result;

	for (i = 0; i < r->count; i++) {
		if (!strcmp(r->words[i], "--password-stdin"))
			piped = 1;
		else if ((!strcmp(r->words[i], "--username") || !strcmp(r->words[i], "-u")) && i + 1 < r->count)
			user = r->words[++i];
		else if (r->words[i][0] != '-' && !registry)
			registry = r->words[i];
		else
			return err_set(e, ERR_USAGE, "from afar there is: login --username USER --password-stdin [REGISTRY]");
	}
	if (!user || !piped)
		return err_set(e, ERR_USAGE, "from afar there is: login --username USER --password-stdin [REGISTRY]");
	if (io_read_all(STDIN_FILENO, &password, "stdin", e) < 0)
		return -1;
	while (password.len && strchr("\r\n", password.data[password.len - 1]))
		password.len--;
	if (!password.len)
		return err_set(e, ERR_INVALID, "no password on stdin");
	body = json_pack("{s:s,s:s%,s:s*}", "username", user, "password", password.data, password.len, "registry", registry);
	explicit_bzero(password.data, password.len);
	if (!body)
		return err_set(e, ERR_INVALID, "the password is not valid UTF-8");
	result = ask(r, "POST", "/v1/registries/login", body, e);
	return result;
}

int remote_logout(struct remote *r, struct err *e)
{
	return ask(r, "POST", "/v1/registries/logout", json_pack("{s:s*}", "registry", r->count ? r->words[0] : NULL), e);
}
