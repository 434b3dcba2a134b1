/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint export and import: the file is ours, the sandbox is on the other host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/files/dest.h"
#include "cli/image/portable.h"
#include "cli/remote/remote.h"

#define PATH_BUF BUF_INIT(65536)
#define ANSWER_MAX 65536

/* ---- export ---------------------------------------------------------------------------- */

static int to_file(void *ctx, const char *data, size_t n, struct err *e)
{
	return io_write_all(*(const int *)ctx, data, n) < 0 ?
		       err_sys(e, "write the checkpoint's file") :
		       0;
}

/* What the file that came says of itself. */
static int tell(const struct remote *r, int fd, const char *file, struct err *e)
{
	autojson json_t *m = NULL;
	const json_t *layer, *digest;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "read %.200s", file);
	m = portable_read(fd, e);
	if (!m)
		return err_wrap(e, "the answer of berthd");
	layer = json_object_get(m, "layer");
	digest = json_object_get(layer, "digest");
	if (r->json)
		return remote_print(json_pack("{s:s,s:O*,s:s,s:O,s:O}", "id", r->words[0],
					      "checkpoint",
					      json_object_get(json_object_get(m, "checkpoint"),
							      "id"),
					      "file", file, "digest", digest, "bytes",
					      json_object_get(layer, "size")),
				    e);
	return puts(json_string_value(digest)) < 0 ? err_sys(e, "write") : 0;
}

static int fetch(struct remote *r, const char *path, const char *file, struct err *e)
{
	int fd = newfile_open(file, "a checkpoint", e), result;
	struct remote_io io = { .in_fd = -1, .take = to_file, .ctx = &fd };

	if (fd < 0)
		return -1;
	result = remote_transfer(r, "GET", path, &io, e);
	if (result == 0 && fd != STDOUT_FILENO)
		result = tell(r, fd, file, e);
	if (result == 0)
		result = newfile_name(fd, file, e);
	newfile_close(&fd);
	return result;
}

int remote_checkpoint_export(struct remote *r, struct err *e)
{
	const char *file = remote_value(r, "output");
	autobuf struct buf path = PATH_BUF;
	char *at = strchr(r->words[0], '@');

	if (!at)
		return err_set(e, ERR_USAGE,
			       "which checkpoint is not said; hint: berth checkpoints %.64s lists "
			       "them, and berth checkpoint export %.64s@k1 takes one",
			       r->words[0], r->words[0]);
	*at++ = '\0';
	if (remote_path(&path, r->words[0], "/checkpoints/", e) < 0 ||
	    remote_escape(&path, at, e) < 0 || buf_adds(&path, "/export", e) < 0)
		return -1;
	return fetch(r, path.data, file ? file : "-", e);
}

/* ---- import ------------------------------------------------------------------------------ */

static int collect(void *ctx, const char *data, size_t n, struct err *e)
{
	return buf_add(ctx, data, n, e);
}

static int set_query(struct remote *r, struct buf *path, struct err *e)
{
	static const char *const flags[][2] = { { "trust", "trust" },
						{ "drop", "drop" },
						{ "no-start", "no_start" } };
	const char *name = remote_value(r, "name");
	size_t i;

	if (name && remote_query(path, "name", name, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(flags); i++)
		if (remote_flag(r, flags[i][0]) && remote_query(path, flags[i][1], "true", e) < 0)
			return -1;
	return 0;
}

void remote_print_made(const char *who, const json_t *made)
{
	const json_t *one;
	char text[256];
	size_t i;

	json_array_foreach (json_object_get(made, "dropped"), i, one) {
		log_clean(text, sizeof(text), json_string_value(one), 0);
		log_note(who, "--%s of the file is left out", text);
	}
	log_clean(text, sizeof(text), json_string_value(json_object_get(made, "id")), 0);
	puts(text);
}

int remote_checkpoint_import(struct remote *r, struct err *e)
{
	const char *file = r->words[0];
	autobuf struct buf path = PATH_BUF, answer = BUF_INIT(ANSWER_MAX);
	struct remote_io io = { .in_fd = STDIN_FILENO, .take = collect, .ctx = &answer };
	autojson json_t *made = NULL;
	autoclose int fd = -1;

	if (strcmp(file, "-") != 0) {
		fd = io.in_fd = open(file, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS,
					    "open %.300s", file);
	}
	if (buf_adds(&path, "/v1/checkpoints/import", e) < 0 || set_query(r, &path, e) < 0 ||
	    remote_transfer(r, "POST", path.data, &io, e) < 0)
		return -1;
	made = json_parse(answer.data ? answer.data : "", answer.len, ANSWER_MAX,
			  "berthd's answer", e);
	if (!made || !json_is_string(json_object_get(made, "id")))
		return made ? err_set(e, ERR_INTERNAL, "berthd told no id") : -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	remote_print_made("berth checkpoint import", made);
	return 0;
}
