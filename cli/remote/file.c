/* SPDX-License-Identifier: Apache-2.0 */
/* file, cp: bytes in and out of a sandbox there. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/remote/remote.h"
#include "runtime/fileop/extract.h"
#include "runtime/fileop/pack.h"

#define STALL_MS 60000
#define LIMIT_BYTES (64ULL << 30)
#define LIMIT_ENTRIES 10000000

static int to_fd(void *ctx, const char *data, size_t n, struct err *e)
{
	return io_write_all(*(int *)ctx, data, n) < 0 ? err_sys(e, "write the content") : 0;
}

static int query_of(struct remote *r, struct buf *path, const char *rest, const char *file, struct err *e)
{
	const char *user = remote_value(r, "user");

	if (remote_path(path, r->words[0], rest, e) < 0 || (file && remote_query(path, "path", file, e) < 0))
		return -1;
	return user ? remote_query(path, "user", user, e) : 0;
}

static int remote_file_read(struct remote *r, struct err *e)
{
	int out = STDOUT_FILENO;
	struct remote_io io = { .in_fd = -1, .take = to_fd, .ctx = &out };
	autobuf struct buf path = BUF_INIT(65536);
	const char *limit = remote_value(r, "limit");
	char number[32];
	uint64_t n;

	if (r->json)
		return err_set(e, ERR_UNSUPPORTED, "file read --json works on the sandbox's own host only");
	if (query_of(r, &path, "/files", r->words[1], e) < 0)
		return -1;
	if (limit) {
		if (num_size(limit, "limit", 1, 1ULL << 60, &n, e) < 0)
			return -1;
		snprintf(number, sizeof(number), "%llu", (unsigned long long)n);
		if (remote_query(&path, "limit", number, e) < 0)
			return -1;
	}
	return remote_transfer(r, "GET", path.data, &io, e);
}

static int collect_file_answer(void *ctx, const char *data, size_t n, struct err *e)
{
	return buf_add(ctx, data, n, e);
}

static int remote_file_write(struct remote *r, struct err *e)
{
	autobuf struct buf path = BUF_INIT(65536), answer = BUF_INIT(65536);
	struct remote_io io = { .in_fd = STDIN_FILENO, .take = collect_file_answer, .ctx = &answer };
	const char *mode = remote_value(r, "mode");

	if (query_of(r, &path, "/files", r->words[1], e) < 0 || (mode && remote_query(&path, "mode", mode, e) < 0) ||
	    (remote_flag(r, "append") && remote_query(&path, "append", "true", e) < 0) ||
	    (remote_flag(r, "parents") && remote_query(&path, "parents", "true", e) < 0) ||
	    remote_transfer(r, "PUT", path.data, &io, e) < 0)
		return -1;
	return r->json && answer.len ? (fwrite(answer.data, 1, answer.len, stdout) == answer.len ? 0 : err_sys(e, "write to stdout")) : 0;
}

static int remote_file_ls(struct remote *r, struct err *e)
{
	autobuf struct buf path = BUF_INIT(65536);
	autojson json_t *answer = NULL;
	json_t *one;
	char name[1024];
	size_t i;

	if (query_of(r, &path, "/files/list", r->count > 1 ? r->words[1] : NULL, e) < 0)
		return -1;
	answer = remote_call(r, "GET", path.data, NULL, e);
	if (!answer || r->json)
		return answer ? remote_print(json_incref(answer), e) : -1;
	json_array_foreach(json_object_get(answer, "entries"), i, one) {
		const char *text = json_string_value(json_object_get(one, "name"));

		log_clean(name, sizeof(name), text ? text : "?", 0);
		puts(name);
	}
	return 0;
}

static int remote_file_stat(struct remote *r, struct err *e)
{
	autobuf struct buf path = BUF_INIT(65536);
	json_t *answer;

	if (query_of(r, &path, "/files/stat", r->words[1], e) < 0 ||
	    (remote_flag(r, "follow") && remote_query(&path, "follow", "true", e) < 0))
		return -1;
	answer = remote_call(r, "GET", path.data, NULL, e);
	return answer ? remote_print(answer, e) : -1;
}

static int post_file_request(struct remote *r, const char *rest, json_t *body, struct err *e)
{
	autobuf struct buf path = BUF_INIT(65536);
	autojson json_t *answer = NULL;

	remote_set_string(r, body, "user", "user");
	if (remote_path(&path, r->words[0], rest, e) < 0)
		return -1;
	answer = remote_call(r, "POST", path.data, body, e);
	return !answer ? -1 : r->json ? remote_print(json_incref(answer), e) : 0;
}

static int do_paths(struct remote *r, const char *verb, struct err *e)
{
	static const char *const flags[] = { "parents", "recursive", "force" };
	autojson json_t *body = json_object();
	json_t *paths = json_array();
	size_t i;
	int n;

	json_object_set_new(body, "paths", paths);
	for (n = 1; n < r->count; n++)
		if (json_array_append_new(paths, json_string(r->words[n])) < 0)
			return err_set(e, ERR_INVALID, "the path is not valid UTF-8");
	for (i = 0; i < ARRAY_LEN(flags); i++)
		if (remote_flag(r, flags[i]))
			json_object_set_new(body, flags[i], json_true());
	remote_set_string(r, body, "mode", "mode");
	return post_file_request(r, !strcmp(verb, "mkdir") ? "/files/mkdir" : "/files/rm", body, e);
}

static int remote_file_mv(struct remote *r, struct err *e)
{
	autojson json_t *body = json_pack("{s:s,s:s}", "from", r->words[1], "to", r->words[2]);

	return body ? post_file_request(r, "/files/mv", body, e) : err_set(e, ERR_INVALID, "the path is not valid UTF-8");
}

int remote_file(struct remote *r, struct err *e)
{
	const char *verb = strchr(r->command->name, ' ') + 1;

	return !strcmp(verb, "read") ? remote_file_read(r, e) : !strcmp(verb, "write") ? remote_file_write(r, e) : !strcmp(verb, "ls") ? remote_file_ls(r, e) :
	       !strcmp(verb, "stat") ? remote_file_stat(r, e) : !strcmp(verb, "mv") ? remote_file_mv(r, e) : do_paths(r, verb, e);
}

/* ---- cp ----------------------------------------------------------------------------------- */

/* The half that is here: a tree of this host from or to a pipe, in a thread. */
struct half {
	int fd;
	const char *path, *there;
	int follow, parents, result;
	struct err e;
};

static void *pack_half(void *arg)
{
	struct half *h = arg;
	struct stream *s = calloc(1, sizeof(*s));
	struct pack_stats sent = { 0 };

	h->result = s ? 0 : err_nomem(&h->e);
	if (s) {
		stream_init(s, h->fd, STALL_MS);
		h->result = pack_path(s, h->path, h->follow ? PACK_FOLLOW : 0, &sent, &h->e);
	}
	free(s);
	fd_close(&h->fd);
	return NULL;
}

static void *extract_half(void *arg)
{
	struct half *h = arg;
	struct extract_limits limits = { LIMIT_BYTES, LIMIT_ENTRIES };
	struct stream *s = calloc(1, sizeof(*s));
	struct extract_stats got = { 0 };

	h->result = s ? 0 : err_nomem(&h->e);
	if (s) {
		stream_init(s, h->fd, STALL_MS);
		h->result = extract_to(s, h->path, EXTRACT_STRICT | (h->parents ? EXTRACT_PARENTS : 0) |
				       (pack_is_contents(h->there) ? EXTRACT_CONTENTS : 0), &limits, &got, &h->e);
	}
	free(s);
	fd_close(&h->fd);
	return NULL;
}

/* Both halves at once; of two errors the other side's, unless it only saw us end. */
static int both(struct remote *r, const char *method, const char *path, struct half *h, void *(*ours)(void *), struct remote_io *io,
		int *their_fd, struct err *e)
{
	pthread_t thread;
	int result, code = pthread_create(&thread, NULL, ours, h);

	if (code) {
		fd_close(&h->fd);
		fd_close(their_fd);
		return err_errno(e, code, "start a thread");
	}
	result = remote_transfer(r, method, path, io, e);
	fd_close(their_fd);
	pthread_join(thread, NULL);
	if (h->result < 0 && (result == 0 || e->code == ERR_SYS)) {
		*e = h->e;
		return -1;
	}
	return result;
}

static int copy_from_remote(struct remote *r, const char *path, const char *dest, struct err *e)
{
	int out = STDOUT_FILENO, p[2] = { -1, -1 }, tar = !strcmp(dest, "-");
	struct remote_io io = { .in_fd = -1, .take = to_fd, .ctx = tar ? &out : &p[1] };
	struct half h = { .path = dest, .there = path, .parents = remote_flag(r, "parents") };
	autobuf struct buf url = BUF_INIT(65536);

	if (query_of(r, &url, "/files/archive", path, e) < 0 ||
	    (remote_flag(r, "follow-link") && remote_query(&url, "follow", "true", e) < 0) ||
	    (!tar && remote_query(&url, "checked", "true", e) < 0))
		return -1;
	if (tar)
		return remote_transfer(r, "GET", url.data, &io, e);
	if (pipe(p) < 0)
		return err_sys(e, "make a pipe");
	h.fd = p[0];
	fcntl(h.fd, F_SETFL, O_NONBLOCK);	/* our end does not block, so that a stall is noticed */
	return both(r, "GET", url.data, &h, extract_half, &io, &p[1], e);
}

static int copy_to_remote(struct remote *r, const char *source, const char *path, struct err *e)
{
	int p[2] = { -1, -1 }, tar = !strcmp(source, "-");
	autobuf struct buf url = BUF_INIT(65536), answer = BUF_INIT(65536);
	struct half h = { .path = source, .follow = remote_flag(r, "follow-link") };
	struct remote_io io = { .in_fd = STDIN_FILENO, .take = collect_file_answer, .ctx = &answer };

	if (query_of(r, &url, "/files/archive", path, e) < 0 ||
	    (remote_flag(r, "archive") && remote_query(&url, "keep_owners", "true", e) < 0) ||
	    (remote_flag(r, "parents") && remote_query(&url, "parents", "true", e) < 0) ||
	    (!tar && remote_query(&url, "as", pack_is_contents(source) ? "contents" : "copy", e) < 0))
		return -1;
	if (tar)
		return remote_transfer(r, "PUT", url.data, &io, e);
	if (access(source, F_OK) < 0)
		return err_code_sys(e, ERR_NOT_FOUND, "%.300s", source);
	if (pipe(p) < 0)
		return err_sys(e, "make a pipe");
	h.fd = p[1];
	fcntl(h.fd, F_SETFL, O_NONBLOCK);
	io.in_fd = p[0];
	return both(r, "PUT", url.data, &h, pack_half, &io, &p[0], e);
}

/* The path after "SANDBOX:", or NULL: a path of this host, as berth cp has it. */
static char *split_remote_path(char *arg)
{
	char *colon = strchr(arg, ':');

	if (!colon || colon == arg || memchr(arg, '/', (size_t)(colon - arg)) || arg[0] == '.')
		return NULL;
	*colon = '\0';
	return colon[1] ? colon + 1 : NULL;
}

int remote_cp(struct remote *r, struct err *e)
{
	char *from = r->words[0], *to = r->words[1], *from_path = split_remote_path(from), *to_path = split_remote_path(to);

	if (!from_path == !to_path)
		return err_set(e, ERR_USAGE, "one of the two must be SANDBOX:PATH, the other a path of this host or -");
	r->words[0] = from_path ? from : to;
	return from_path ? copy_from_remote(r, from_path, to, e) : copy_to_remote(r, from, to_path, e);
}
