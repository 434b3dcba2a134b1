/* SPDX-License-Identifier: Apache-2.0 */
/* zygote create, ls, inspect, rm, and run --zygote: warm interpreters of the other host. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/remote/remote.h"

#define CODE_MAX (1u << 20) /* berthd takes 1 MiB of JSON */

int remote_zygote_path(struct buf *path, const char *zygote, const char *rest, struct err *e)
{
	return buf_adds(path, "/v1/zygotes/", e) < 0 || remote_escape(path, zygote, e) < 0 ?
		       -1 :
		       buf_adds(path, rest, e);
}

int remote_zygote_create(struct remote *r, struct err *e)
{
	return remote_create_at(r, "/v1/zygotes", e);
}

static void print_remote_zygote(const json_t *j)
{
	static const char *const names[] = {"id", "name", "image", "mode"};
	char text[4][128];
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		const char *s = json_string_value(json_object_get(j, names[i]));

		log_clean(text[i], sizeof(text[i]), s ? s : "", 0);
	}
	printf("%-14s %-20s %-20s %-5s %5d %5d %5zu\n", text[0], text[1], text[2], text[3],
	       (int)json_integer_value(json_object_get(j, "pool")),
	       (int)json_integer_value(json_object_get(j, "forks")),
	       json_array_size(json_object_get(j, "alive")));
}

int remote_zygote_ls(struct remote *r, struct err *e)
{
	autojson json_t *answer = remote_call(r, "GET", "/v1/zygotes", NULL, e);
	json_t *list = json_object_get(answer, "zygotes"), *one;
	size_t i;

	if (!answer)
		return -1;
	if (r->json)
		return remote_print(json_incref(list), e);
	json_array_foreach (list, i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));

		if (remote_flag(r, "quiet"))
			puts(name && *name ? name : json_string_value(json_object_get(one, "id")));
	}
	if (remote_flag(r, "quiet"))
		return 0;
	printf("%-14s %-20s %-20s %-5s %5s %5s %5s\n", "ID", "NAME", "IMAGE", "MODE",
	       "POOL", "FORKS", "ALIVE");
	json_array_foreach (list, i, one)
		print_remote_zygote(one);
	return 0;
}

/* GET or DELETE of one. */
static json_t *call_one(struct remote *r, const char *method, struct err *e)
{
	autobuf struct buf path = BUF_INIT(4096);

	return remote_zygote_path(&path, r->words[0], "", e) < 0 ?
		       NULL :
		       remote_call(r, method, path.data, NULL, e);
}

int remote_zygote_inspect(struct remote *r, struct err *e)
{
	autojson json_t *one = call_one(r, "GET", e);

	return one ? command_print_json(one, r->json ? JSON_COMPACT : JSON_INDENT(2), e) : -1;
}

int remote_zygote_rm(struct remote *r, struct err *e)
{
	autojson json_t *gone = call_one(r, "DELETE", e);

	if (gone && r->json)
		puts("{\"removed\":true}");
	return gone ? 0 : -1;
}

/* ---- run --zygote -------------------------------------------------------------------------- */

static int check_remote_fork_options(const struct remote *r, struct err *e)
{
	static const char allowed[] = " zygote file env workdir timeout status-fd interactive ";
	const char *name;
	json_t *v;
	char word[64];

	json_object_foreach (r->options, name, v) {
		snprintf(word, sizeof(word), " %s ", name);
		if (!strstr(allowed, word))
			return err_set(e, ERR_USAGE,
				       "limits, mounts and the network are those of the zygote: "
				       "--%.40s does not go with --zygote",
				       name);
	}
	return 0;
}

/* The first word, or a file of this host, or our stdin. */
static int read_remote_code(struct remote *r, struct buf *code, int *ret_args, struct err *e)
{
	const char *file = remote_value(r, "file");
	autoclose int fd = -1;

	*ret_args = !file;
	if (!file && !r->count)
		return err_set(e, ERR_USAGE,
			       "no code given; hint: berth run --zygote %.80s CODE, or --file FILE",
			       remote_value(r, "zygote"));
	if (!file)
		return buf_adds(code, r->words[0], e);
	if (!strcmp(file, "-"))
		return io_read_all(STDIN_FILENO, code, "stdin", e);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_code_sys(e, ERR_NOT_FOUND, "open %.200s", file);
	return io_read_all(fd, code, file, e);
}

static int make_body(struct remote *r, json_t *body, struct err *e)
{
	autobuf struct buf code = BUF_INIT(CODE_MAX);
	json_t *args = json_array();
	int i;

	json_object_set_new(body, "args", args);
	if (check_remote_fork_options(r, e) < 0 || read_remote_code(r, &code, &i, e) < 0 ||
	    json_set_bytes(body, "code", code.data ? code.data : "", code.len, e) < 0 ||
	    remote_set_ms(r, body, "timeout_ms", "timeout", e) < 0)
		return -1;
	for (; i < r->count; i++)
		if (json_array_append_new(args, json_string(r->words[i])) < 0)
			return err_set(e, ERR_INVALID, "an argument is not valid UTF-8");
	remote_set_list(r, body, "env", "env");
	remote_set_string(r, body, "workdir", "workdir");
	json_object_set_new(body, "stream", json_true());
	json_object_set_new(body, "stdin_open", json_true());
	return 0;
}

int remote_run_zygote(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object();
	autobuf struct buf path = BUF_INIT(4096);
	const char *zygote = remote_value(r, "zygote");

	return make_body(r, body, e) < 0 || remote_zygote_path(&path, zygote, "/run", e) < 0 ?
		       -1 :
		       remote_stream(r, path.data, body, zygote, 1, e);
}
