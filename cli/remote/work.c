/* SPDX-License-Identifier: Apache-2.0 */
/* code, commit, logs: results of work in a sandbox on the other host. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/remote/remote.h"

#define PATH_BUF BUF_INIT(65536)
#define CODE_MAX (8u << 20)

/* As berth code writes it here. */
static int show_code(struct remote *r, const json_t *answer, struct err *e)
{
	char path[1024], change[16];
	const json_t *file;
	size_t i;

	if (remote_write_data(answer, "stdout", STDOUT_FILENO, e) < 0 || remote_write_data(answer, "stderr", STDERR_FILENO, e) < 0)
		return -1;
	json_array_foreach(json_object_get(answer, "files"), i, file) {
		const char *p = json_string_value(json_object_get(file, "path")), *c = json_string_value(json_object_get(file, "change"));

		log_clean(path, sizeof(path), p ? p : "a name that is not text", 0);
		log_clean(change, sizeof(change), c ? c : "", 0);
		if (!remote_flag(r, "quiet"))
			log_note("berth code", "%s %s (%lld bytes)", change, path, (long long)json_integer_value(json_object_get(file, "size")));
	}
	return 0;
}

int remote_code(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF, text = BUF_INIT(CODE_MAX);
	autojson json_t *body = NULL, *answer = NULL;

	if (remote_path(&path, r->words[0], "/code", e) < 0 || io_read_all(STDIN_FILENO, &text, "stdin", e) < 0)
		return -1;
	body = json_pack("{s:s%}", "code", text.data ? text.data : "", text.len);
	if (!body)
		return err_set(e, ERR_INVALID, "the code is not valid UTF-8, which a request wants; hint: berth cp it there and run it");
	remote_set_string(r, body, "lang", "lang");
	remote_set_list(r, body, "env", "env");
	remote_set_string(r, body, "user", "user");
	remote_set_string(r, body, "timeout", "timeout");
	if (remote_set_ms(r, body, "max_silent_ms", "max-silent-time", e) < 0)
		return -1;
	if (remote_flag(r, "keep"))
		json_object_set_new(body, "keep", json_true());
	answer = remote_call(r, "POST", path.data, body, e);
	if (!answer)
		return -1;
	r->status = (int)json_integer_value(json_object_get(answer, "exit_status"));
	return r->json ? remote_print(json_incref(answer), e) : show_code(r, answer, e);
}

int remote_commit(struct remote *r, struct err *e)
{
	autojson json_t *body = json_pack("{s:s,s:o}", "image", r->words[1], "options", json_object()), *answer = NULL;
	json_t *options = json_object_get(body, "options"), *values;
	autobuf struct buf path = PATH_BUF;
	char *at = strchr(r->words[0], '@');
	const char *name, *digest;

	if (at) {
		*at = '\0';
		json_object_set_new(body, "checkpoint", json_string(at + 1));
	}
	if (!body)
		return err_set(e, ERR_INVALID, "the image's name is not valid UTF-8");
	json_object_foreach(r->options, name, values)
		if (strcmp(name, "quiet") != 0 && strcmp(name, "json") != 0)
			json_object_set(options, name, json_is_true(json_array_get(values, 0)) ? json_array_get(values, 0) : values);
	if (remote_path(&path, r->words[0], "/commit", e) < 0)
		return -1;
	answer = remote_call(r, "POST", path.data, body, e);
	if (!answer)
		return -1;
	if (r->json)
		return remote_print(json_incref(answer), e);
	digest = json_string_value(json_object_get(answer, "digest"));
	puts(digest ? digest : "");
	return 0;
}

int remote_logs(struct remote *r, struct err *e)
{
	static const char *const values[] = { "since", "from", "source", "tail" }, *const flags[] = { "follow", "timestamps" };
	struct remote_io io = { .in_fd = -1, .take = remote_to_stdout };
	autobuf struct buf path = PATH_BUF;
	size_t i;

	if (remote_path(&path, r->words[0], "/logs", e) < 0 || (!r->json && remote_query(&path, "text", "true", e) < 0))
		return -1;
	for (i = 0; i < ARRAY_LEN(values); i++)
		if (remote_value(r, values[i]) && remote_query(&path, values[i], remote_value(r, values[i]), e) < 0)
			return -1;
	for (i = 0; i < ARRAY_LEN(flags); i++)
		if (remote_flag(r, flags[i]) && remote_query(&path, flags[i], "true", e) < 0)
			return -1;
	return remote_transfer(r, "GET", path.data, &io, e);
}
