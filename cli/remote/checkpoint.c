/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, undo and fork. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/files/dest.h"
#include "cli/image/portable.h"
#include "cli/remote/remote.h"
#include "cli/time/timereport.h"

/* ---- Made, undone, forked ---- */

#define PATH_BUF BUF_INIT(65536)

/* Sets key of body from the option of that name, a whole number; berthd knows its bounds. */
static int set_checkpoint_number(const struct remote *r, json_t *body, const char *key, struct err *e)
{
	const char *v = remote_value(r, key);
	uint64_t n;

	if (!v)
		return 0;
	if (num_u64(v, key, 1, UINT32_MAX, &n, e) < 0)
		return -1;
	return json_object_set_new(body, key, json_integer((json_int_t)n));
}

static json_t *post_checkpoint_request(struct remote *r, const char *id, const char *rest, const json_t *body,
				       struct err *e)
{
	autobuf struct buf path = PATH_BUF;

	if (remote_path(&path, id, rest, e) < 0)
		return NULL;
	return remote_call(r, "POST", path.data, body, e);
}

static void print_checkpoint_text(const json_t *j, const char *key)
{
	char text[256];
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(text, sizeof(text), s ? s : "", 0);
	puts(text);
}

int remote_checkpoint(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object(), *made = NULL;

	remote_set_string(r, body, "name", "name");
	if (set_checkpoint_number(r, body, "keep", e) < 0)
		return -1;
	made = post_checkpoint_request(r, r->words[0], "/checkpoints", body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	print_checkpoint_text(made, "checkpoint");
	return 0;
}

int remote_checkpoints(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	autojson json_t *all = NULL;

	if (remote_path(&path, r->words[0], "/checkpoints", e) < 0)
		return -1;
	all = remote_call(r, "GET", path.data, NULL, e);
	if (!all)
		return -1;
	if (r->json)
		return remote_print(json_incref(all), e);
	checkpointtable_print(all);
	return 0;
}

int remote_checkpoint_rm(struct remote *r, struct err *e)
{
	autojson json_t *gone = json_array();
	int i;

	for (i = 1; i < r->count; i++) {
		autobuf struct buf path = PATH_BUF;
		autojson json_t *answer = NULL;
		json_t *ids;

		if (remote_path(&path, r->words[0], "/checkpoints/", e) < 0 ||
		    remote_escape(&path, r->words[i], e) < 0)
			return -1;
		answer = remote_call(r, "DELETE", path.data, NULL, e);
		if (!answer)
			return -1;
		ids = json_object_get(answer, "removed");
		json_array_extend(gone, ids);
		if (!r->json)
			puts(json_string_value(json_array_get(ids, 0)) ?: r->words[i]);
	}
	return r->json ? remote_print(json_pack("{s:s,s:O}", "id", r->words[0], "removed", gone),
				      e) :
			 0;
}

int remote_undo(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object(), *done = NULL;

	remote_set_string(r, body, "to", "to");
	if (set_checkpoint_number(r, body, "steps", e) < 0)
		return -1;
	done = post_checkpoint_request(r, r->words[0], "/undo", body, e);
	if (!done)
		return -1;
	if (r->json)
		return remote_print(json_incref(done), e);
	undoreport_print(done);
	return 0;
}

/* SANDBOX[@CHECKPOINT] */
int remote_fork(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object(), *made = NULL, *options = remote_params(r, " name count ");
	char *at = strchr(r->words[0], '@');
	json_t *one;
	size_t i;

	if (at) {
		*at = '\0';
		json_object_set_new(body, "checkpoint", json_string(at + 1));
	}
	remote_set_string(r, body, "name", "name");
	if (set_checkpoint_number(r, body, "count", e) < 0)
		return -1;
	if (json_object_size(options))
		json_object_set(body, "options", options);
	made = post_checkpoint_request(r, r->words[0], "/fork", body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	json_array_foreach (json_object_get(made, "forks"), i, one)
		print_checkpoint_text(one, "id");
	return 0;
}

/* ---- Stored by berthd ---- */

/* Checkpoints in the storage of berthd. */

static const char *stored_checkpoint_text(const json_t *j, const char *key, char *ret, size_t n)
{
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(ret, n, s && s[0] ? s : "-", 0);
	return ret;
}

/* "/v1/checkpoints", the name of one unless NULL, and what follows. */
static int make_path(struct remote *r, struct buf *path, const char *name, const char *rest,
		     struct err *e)
{
	const char *tenant = remote_value(r, "tenant");

	if (buf_adds(path, "/v1/checkpoints", e) < 0)
		return -1;
	if (name && (buf_adds(path, "/", e) < 0 || remote_escape(path, name, e) < 0 ||
		     buf_adds(path, rest, e) < 0))
		return -1;
	return tenant ? remote_query(path, "tenant", tenant, e) : 0;
}

int remote_checkpoint_store(struct remote *r, struct err *e)
{
	const char *tenant = remote_value(r, "tenant");
	autojson json_t *body = json_object(), *made = NULL;
	autobuf struct buf path = PATH_BUF;
	char *at = strchr(r->words[0], '@'), name[200];

	if (!at)
		return err_set(e, ERR_USAGE,
			       "which checkpoint is not said; hint: berth checkpoints %.64s lists "
			       "them, and berth checkpoint store %.64s@k1 takes one",
			       r->words[0], r->words[0]);
	*at++ = '\0';
	remote_set_string(r, body, "name", "name");
	if (remote_path(&path, r->words[0], "/checkpoints/", e) < 0 ||
	    remote_escape(&path, at, e) < 0 || buf_adds(&path, "/store", e) < 0 ||
	    (tenant && remote_query(&path, "tenant", tenant, e) < 0))
		return -1;
	made = remote_call(r, "POST", path.data, body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	puts(stored_checkpoint_text(made, "name", name, sizeof(name)));
	return 0;
}

int remote_checkpoint_stored(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	autojson json_t *all = NULL;
	char name[200], tenant[80], state[40], image[130];
	const json_t *one;
	size_t i;

	if (make_path(r, &path, NULL, "", e) < 0)
		return -1;
	all = remote_call(r, "GET", path.data, NULL, e);
	if (!all)
		return -1;
	if (r->json)
		return remote_print(json_incref(all), e);
	printf("%-30s  %-12s  %-9s  %9s  %s\n", "NAME", "TENANT", "STATE", "MIB", "IMAGE");
	json_array_foreach (json_object_get(all, "checkpoints"), i, one)
		printf("%-30s  %-12s  %-9s  %9.1f  %s\n",
		       stored_checkpoint_text(one, "name", name, sizeof(name)),
		       stored_checkpoint_text(one, "tenant", tenant, sizeof(tenant)),
		       stored_checkpoint_text(one, "state", state, sizeof(state)),
		       (double)json_integer_value(json_object_get(one, "bytes")) / (1 << 20),
		       stored_checkpoint_text(one, "image", image, sizeof(image)));
	return 0;
}

int remote_checkpoint_restore(struct remote *r, struct err *e)
{
	static const char *const flags[][2] = { { "trust", "trust" },
						{ "drop", "drop" },
						{ "no-start", "no_start" } };
	autojson json_t *body = json_object(), *made = NULL;
	autobuf struct buf path = PATH_BUF;
	size_t i;

	remote_set_string(r, body, "name", "name");
	for (i = 0; i < ARRAY_LEN(flags); i++)
		if (remote_flag(r, flags[i][0]))
			json_object_set_new(body, flags[i][1], json_true());
	if (make_path(r, &path, r->words[0], "/restore", e) < 0)
		return -1;
	made = remote_call(r, "POST", path.data, body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	remote_print_made("berth checkpoint restore", made);
	return 0;
}

int remote_checkpoint_discard(struct remote *r, struct err *e)
{
	autojson json_t *gone = json_array();
	int i;

	for (i = 0; i < r->count; i++) {
		autobuf struct buf path = PATH_BUF;
		autojson json_t *answer = NULL;

		if (make_path(r, &path, r->words[i], "", e) < 0)
			return -1;
		answer = remote_call(r, "DELETE", path.data, NULL, e);
		if (!answer)
			return -1;
		json_array_append_new(gone, json_string(r->words[i]));
		if (!r->json)
			puts(r->words[i]);
	}
	return r->json ? remote_print(json_pack("{s:O}", "removed", gone), e) : 0;
}

/* ---- To and from a file ---- */

/* checkpoint export and import: the file is ours, the sandbox is on the other host. */

#define ANSWER_MAX 65536

/* ---- export ---------------------------------------------------------------------------- */

static int to_file(void *ctx, const char *data, size_t n, struct err *e)
{
	return io_write_all(*(const int *)ctx, data, n) < 0 ?
		       err_sys(e, "write the checkpoint's file") :
		       0;
}

/* What the file that came says of itself. */
static int tell_checkpoint_file(const struct remote *r, int fd, const char *file, struct err *e)
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

static int fetch_checkpoint_file(struct remote *r, const char *path, const char *file, struct err *e)
{
	int fd = newfile_open(file, "a checkpoint", e), result;
	struct remote_io io = { .in_fd = -1, .take = to_file, .ctx = &fd };

	if (fd < 0)
		return -1;
	result = remote_transfer(r, "GET", path, &io, e);
	if (result == 0 && fd != STDOUT_FILENO)
		result = tell_checkpoint_file(r, fd, file, e);
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
	return fetch_checkpoint_file(r, path.data, file ? file : "-", e);
}

/* ---- import ------------------------------------------------------------------------------ */

static int collect_import_answer(void *ctx, const char *data, size_t n, struct err *e)
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
	struct remote_io io = { .in_fd = STDIN_FILENO, .take = collect_import_answer, .ctx = &answer };
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
