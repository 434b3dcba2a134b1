/* SPDX-License-Identifier: Apache-2.0 */
/* image, pull, push, save, load, login, logout: the store and the registries of the host there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/files/dest.h"
#include "cli/image/imagecmd.h"
#include "cli/remote/remote.h"

#define PATH_BUF BUF_INIT(65536)

/* One request, its answer printed; body is consumed. */
static int ask_remote_store(struct remote *r, const char *method, const char *path, json_t *body, struct err *e)
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

static int remove_remote_images(struct remote *r, struct err *e)
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
static int export_remote_image(struct remote *r, struct err *e)
{
	int rootfs = r->count == 5 && !strcmp(r->words[1], "--format") && !strcmp(r->words[2], "rootfs");

	if ((r->count != 3 && !rootfs) || strcmp(r->words[r->count - 1], "-"))
		return err_set(e, ERR_UNSUPPORTED, "from afar there is: image export [--format rootfs] NAME -, to stdout");
	return with_ref(r, "GET", rootfs ? "/v1/images/export?format=rootfs" : "/v1/images/export", "ref", r->words[r->count - 2], -1, e);
}

/* ---- archives, from stdin or a file of ours and to stdout or one ---- */

/* words from from on: "-o FILE", "-oFILE", "--output FILE", "--output=FILE" for letter 'o', and at most one other. */
static int archive_words(const struct remote *r, int from, char letter, const char *name, const char **file, const char **other, struct err *e)
{
	size_t n = strlen(name);
	int i, plain = 0;

	*file = "-";
	*other = NULL;
	for (i = from; i < r->count; i++) {
		const char *w = r->words[i];
		int is_short = w[0] == '-' && w[1] == letter, is_long = !strncmp(w, "--", 2) && !strncmp(w + 2, name, n);

		if (!plain && !strcmp(w, "--")) {
			plain = 1;
		} else if (!plain && ((is_short && !w[2]) || (is_long && !w[2 + n]))) {
			if (++i == r->count)
				return err_set(e, ERR_USAGE, "%.40s wants a FILE", w);
			*file = r->words[i];
		} else if (!plain && (is_short || (is_long && w[2 + n] == '='))) {
			*file = is_short ? w + 2 : w + n + 3;
		} else if (!plain && w[0] == '-' && w[1]) {
			return err_set(e, ERR_UNSUPPORTED, "option %.60s works on the sandbox's own host only", w);
		} else if (*other) {
			return err_set(e, ERR_UNSUPPORTED, "from afar it is one image at a time");
		} else {
			*other = w;
		}
	}
	return 0;
}

static int to_dest(void *ctx, const char *data, size_t n, struct err *e)
{
	return io_write_all(((struct dest *)ctx)->fd, data, n) < 0 ? err_sys(e, "write the archive") : 0;
}

static int save_remote_image(struct remote *r, int from, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	const char *file, *ref;
	struct dest d;
	struct remote_io io = { .in_fd = -1, .take = to_dest, .ctx = &d };

	if (archive_words(r, from, 'o', "output", &file, &ref, e) < 0)
		return -1;
	if (!ref)
		return err_set(e, ERR_USAGE, "no image given; hint: berth save --help");
	if (buf_adds(&path, "/v1/images/save", e) < 0 || remote_query(&path, "ref", ref, e) < 0 || dest_open(&d, file, "-o FILE", e) < 0)
		return -1;
	return dest_close(&d, remote_transfer(r, "GET", path.data, &io, e), e);
}

static int load_remote_image(struct remote *r, int from, struct err *e)
{
	const char *file, *other;
	autoclose int fd = -1;

	if (archive_words(r, from, 'i', "input", &file, &other, e) < 0)
		return -1;
	if (other)
		return err_set(e, ERR_USAGE, "unexpected argument '%.80s'; hint: -i FILE", other);
	if (strcmp(file, "-") && (fd = open(file, O_RDONLY | O_CLOEXEC)) < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %.300s", file);
	return with_ref(r, "POST", "/v1/images/load", "", NULL, fd < 0 ? STDIN_FILENO : fd, e);
}

/* Options of another program's table; a word that looks like an option is not a name here. */
static int no_options(const struct remote *r, struct err *e)
{
	int i;

	for (i = 0; i < r->count; i++)
		if (r->words[i][0] == '-' && r->words[i][1])
			return err_set(e, ERR_UNSUPPORTED, "option %.60s works on the sandbox's own host only", r->words[i]);
	return 0;
}

static int list_remote_images(struct remote *r, struct err *e)
{
	const int quiet = r->count == 2;
	autojson json_t *answer = remote_call(r, "GET", "/v1/images", NULL, e);
	const json_t *list = json_object_get(answer, "images"), *one;
	char name[256];
	size_t i;

	if (!answer)
		return -1;
	if (r->json)
		return remote_print(json_incref((json_t *)(size_t)list), e);
	if (!quiet)
		imagecmd_print_list(list, 0);
	else
		json_array_foreach (list, i, one)
			puts(imagecmd_text(one, "name", name, sizeof(name)));
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

int remote_image(struct remote *r, struct err *e)
{
	const char *verb = r->words[0], *one = r->count > 1 ? r->words[1] : NULL, *more = r->count > 2 ? r->words[2] : NULL;
	int n = r->count - 1;

	if (!strcmp(verb, "ls") && (n == 0 || (n == 1 && (!strcmp(one, "-q") || !strcmp(one, "--quiet")))))
		return list_remote_images(r, e);
	if (n == 0 && !strcmp(verb, "gc"))
		return ask_remote_store(r, "POST", "/v1/images/gc", NULL, e);
	if (n == 0 && !strcmp(verb, "prune"))
		return ask_remote_store(r, "POST", "/v1/images/prune", json_object(), e);
	if (n == 0 && !strcmp(verb, "fsck"))
		return ask_remote_store(r, "POST", "/v1/images/fsck", json_object(), e);
	if (n == 1 && (!strcmp(verb, "inspect") || !strcmp(verb, "history")))
		return with_ref(r, "GET", verb[0] == 'i' ? "/v1/images/inspect" : "/v1/images/history", "ref", one, -1, e);
	if (n == 2 && !strcmp(verb, "pin"))
		return ask_remote_store(r, "POST", "/v1/images/pin", two("word", one, "image", more), e);
	if (n == 1 && !strcmp(verb, "unpin"))
		return ask_remote_store(r, "POST", "/v1/images/unpin", two("word", one, "x", NULL), e);
	if (n == 2 && !strcmp(verb, "tag"))
		return ask_remote_store(r, "POST", "/v1/images/tag", two("image", one, "name", more), e);
	if (n == 2 && !strcmp(verb, "copy"))
		return ask_remote_store(r, "POST", "/v1/images/copy", two("source", one, "target", more), e);
	if (n >= 1 && n <= 2 && !strcmp(verb, "import") && !strcmp(one, "-"))
		return with_ref(r, "POST", "/v1/images/import", "name", more, STDIN_FILENO, e);
	if (!strcmp(verb, "export"))
		return export_remote_image(r, e);
	if (!strcmp(verb, "save"))
		return save_remote_image(r, 1, e);
	if (!strcmp(verb, "load"))
		return load_remote_image(r, 1, e);
	if (n >= 1 && !strcmp(verb, "rm"))
		return remove_remote_images(r, e);
	return err_set(e, ERR_UNSUPPORTED, "from afar there are: image ls [--quiet], inspect NAME, history NAME, rm NAME..., tag, copy, pin, unpin, gc, prune, "
		       "fsck, import - [NAME], export NAME -, all without other options, save [-o FILE] NAME, load [-i FILE]");
}

int remote_pull(struct remote *r, struct err *e)
{
	if (no_options(r, e) < 0)
		return -1;
	return ask_remote_store(r, "POST", "/v1/images/pull", two("ref", r->words[0], "x", NULL), e);
}

int remote_push(struct remote *r, struct err *e)
{
	if (no_options(r, e) < 0)
		return -1;
	return ask_remote_store(r, "POST", "/v1/images/push", two("image", r->words[0], "ref", r->count > 1 ? r->words[1] : NULL), e);
}

int remote_save(struct remote *r, struct err *e)
{
	return save_remote_image(r, 0, e);
}

int remote_load(struct remote *r, struct err *e)
{
	return load_remote_image(r, 0, e);
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
	result = ask_remote_store(r, "POST", "/v1/registries/login", body, e);
	return result;
}

int remote_logout(struct remote *r, struct err *e)
{
	if (no_options(r, e) < 0)
		return -1;
	return ask_remote_store(r, "POST", "/v1/registries/logout", json_pack("{s:s*}", "registry", r->count ? r->words[0] : NULL), e);
}
