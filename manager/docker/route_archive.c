/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a container: HEAD, GET and PUT of /archive.  The file helper does the work in the
 * sandbox, so no path of a client is looked up on the host.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/fileflow.h"
#include "manager/docker/docker.h"
#include "manager/engine/image.h"
#include "manager/keeper/fileclient.h"

#define STAT_HEADER "X-Docker-Container-Path-Stat"
#define STAT_MS 60000
#define ARCHIVE_MS 3600000

struct transfer {
	struct box box;
	int fed; /* some bytes of an archive came */
	struct fileflow flow;
};

static void archive_transfer_free(void *ctx)
{
	struct transfer *t = ctx;

	fileflow_release(&t->flow);
	box_close(&t->box); /* the helper ends with its client */
	free(t);
}

static struct transfer *archive_transfer_new(struct err *e)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	fileflow_init(&t->flow);
	box_clear(&t->box);
	return t;
}

/* Of the query, from the root of the container. */
static int get_path(struct http_request *rq, char path[PATH_MAX], struct err *e)
{
	const char *v = http_query(rq, "path");

	if (!v || !v[0])
		return docker_fail(rq, 400, e, "missing parameter: path");
	if (snprintf(path, PATH_MAX, "%s%s", v[0] == '/' ? "" : "/", v) >= PATH_MAX)
		return docker_fail(rq, 400, e, "the path is too long");
	return 0;
}

static int open_files(struct box *b, struct http_request *rq, char path[PATH_MAX], struct err *e)
{
	box_clear(b);
	return get_path(rq, path, e) < 0 ? -1 : docker_open_files(b, rq, e);
}

/* "/etc/passwd/": there is such a path without the slash. */
static int is_no_directory(struct box *b, const char *path)
{
	const size_t n = strlen(path);
	char plain[PATH_MAX];
	const char *argv[] = { "stat", "", plain, NULL };
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct filecounts unused;
	struct err ignored;

	snprintf(plain, sizeof(plain), "%s", path);
	if (n < 2 || plain[n - 1] != '/')
		return 0;
	plain[n - 1] = '\0';
	return fileclient_run(b->sock, argv, NULL, STAT_MS, -1, &text, &unused, &ignored) == 0;
}

static int tell_archive_failure(struct box *b, struct http_request *rq, const char *path, struct err *e)
{
	if (e->code == ERR_NOT_FOUND && is_no_directory(b, path))
		return docker_fail(rq, 400, e, "%.200s: not a directory", path);
	if (e->code == ERR_NOT_FOUND)
		return docker_fail(rq, 404, e, "Could not find the file %.200s in container %.64s",
				   path, docker_called(rq));
	return -1;
}

/* ---- what it is ------------------------------------------------------------------------------ */

/* Docker uses the last part of a path as its name; a slash at the end does not count. */
static const char *archive_base_name(const char *path, char *room, size_t n)
{
	const char *slash;
	size_t len;

	snprintf(room, n, "%s", path);
	/* "/x/." is called "." */
	len = strlen(room);
	if (len > 1 && !strcmp(room + len - 2, "/."))
		return ".";
	if (!strcmp(path, "/"))
		return "/";
	for (len = strlen(room);
	     len > 1 && room[len - 1] == '/';
	     len--)
		room[len - 1] = '\0';
	slash = strrchr(room, '/');
	return slash && slash[1] ? slash + 1 : room;
}

static char *archive_stat_header(const struct filerecord *r, const char *path)
{
	char name[PATH_MAX], when[40];
	time_t t = (time_t)r->mtime_sec;
	struct tm tm;
	autojson json_t *j = NULL;
	autofree char *text = NULL;
	char *coded;

	gmtime_r(&t, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	j = json_pack("{s:s,s:I,s:I,s:s,s:s}", "name", archive_base_name(path, name, sizeof(name)), "size",
		      (json_int_t)r->size, "mode", (json_int_t)engine_go_mode(r->mode), "mtime",
		      when, "linkTarget", r->link ? r->link : "");
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	coded = text ? malloc(BASE64_LEN(strlen(text)) + 1) : NULL;
	if (coded)
		base64_encode(coded, text, strlen(text));
	return coded;
}

/* The value of the header, to be freed; NULL with e. */
static char *look_at_archive_path(struct box *b, struct http_request *rq, const char *path, struct err *e)
{
	const char *argv[] = { "stat", "", path, NULL }, *at;
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct filerecord record;
	struct filecounts unused;
	char *coded;

	if (fileclient_run(b->sock, argv, NULL, STAT_MS, -1, &text, &unused, e) < 0) {
		tell_archive_failure(b, rq, path, e);
		return NULL;
	}
	at = text.data;
	if (filerecord_next(&at, text.data + text.len, &record, e) < 1) {
		err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
		return NULL;
	}
	coded = archive_stat_header(&record, path);
	if (!coded)
		err_set(e, ERR_INVALID, "the name of %.200s is not UTF-8", path);
	return coded;
}

static int head_archive(struct http_request *rq, struct err *e)
{
	autofree char *coded = NULL;
	char path[PATH_MAX];
	struct box b;
	int r = open_files(&b, rq, path, e);

	if (r == 0)
		coded = look_at_archive_path(&b, rq, path, e);
	box_close(&b);
	if (!coded || http_reply_empty(rq, 200, e) < 0)
		return -1;
	return http_reply_header(rq, STAT_HEADER, coded, e);
}

/* ---- out ---------------------------------------------------------------------------------------
 */

static ssize_t read_out(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	return fileflow_read(&((struct transfer *)ctx)->flow, rq, buf, max);
}

static int begin_out(struct transfer *t, struct http_request *rq, char **ret_coded, struct err *e)
{
	char path[PATH_MAX];
	const char *argv[] = { "pack", "", path, NULL };

	if (open_files(&t->box, rq, path, e) < 0)
		return -1;
	*ret_coded = look_at_archive_path(&t->box, rq, path, e);
	if (!*ret_coded)
		return -1;
	if (fileflow_start(&t->flow, t->box.sock, argv, NULL, ARCHIVE_MS, 1, e) < 0 ||
	    fileflow_first(&t->flow, rq, e) < 0)
		return tell_archive_failure(&t->box, rq, path, e);
	return 0;
}

static int get_box_archive(struct http_request *rq, struct err *e)
{
	struct transfer *t = archive_transfer_new(e);
	struct http_stream st = { read_out, archive_transfer_free, t };
	autofree char *coded = NULL;

	if (!t)
		return -1;
	if (begin_out(t, rq, &coded, e) < 0) {
		archive_transfer_free(t);
		return -1;
	}
	events_add(&t->box.registry, "archive-path", t->box.id, NULL);
	if (http_reply_stream(rq, 200, "application/x-tar", &st, e) < 0)
		return -1;
	return http_reply_header(rq, STAT_HEADER, coded, e);
}

static int begin_export(struct transfer *t, struct http_request *rq, struct err *e)
{
	static const char *const argv[] = { "pack", "xb", "/.", NULL };

	if (docker_open_files(&t->box, rq, e) < 0 ||
	    fileflow_start(&t->flow, t->box.sock, argv, NULL, ARCHIVE_MS, 1, e) < 0)
		return -1;
	return fileflow_first(&t->flow, rq, e);
}

static int get_box_export(struct http_request *rq, struct err *e)
{
	struct transfer *t = archive_transfer_new(e);
	struct http_stream st = { read_out, archive_transfer_free, t };

	if (!t)
		return -1;
	if (begin_export(t, rq, e) < 0) {
		archive_transfer_free(t);
		return -1;
	}
	events_add(&t->box.registry, "export", t->box.id, NULL);
	return http_reply_stream(rq, 200, "application/octet-stream", &st, e);
}

/* ---- in -----------------------------------------------------------------------------------------
 */

static int check_directory(struct box *b, struct http_request *rq, const char *path, struct err *e)
{
	const char *argv[] = { "stat", "L", path, NULL }, *at;
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct filerecord record;
	struct filecounts unused;

	if (fileclient_run(b->sock, argv, NULL, STAT_MS, -1, &text, &unused, e) < 0)
		return tell_archive_failure(b, rq, path, e);
	at = text.data;
	if (filerecord_next(&at, text.data + text.len, &record, e) < 1)
		return err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	return (record.mode & 0170000) == 0040000
		       ? 0
		       : docker_fail(rq, 400, e, "extraction point is not a directory");
}

static int begin_archive_put(struct http_request *rq, struct err *e)
{
	struct transfer *t = archive_transfer_new(e);
	char path[PATH_MAX];
	const char *argv[] = { "extract", "io", path, NULL };

	if (!t)
		return -1;
	http_set_data(rq, t, archive_transfer_free);
	if (open_files(&t->box, rq, path, e) < 0 || check_directory(&t->box, rq, path, e) < 0)
		return -1;
	return fileflow_start(&t->flow, t->box.sock, argv, NULL, ARCHIVE_MS, 0, e);
}

/* dockerd looks before it unpacks; here the file system says no, to whatever way led there. */
static int tell_read_only(struct transfer *t, struct http_request *rq, struct err *e)
{
	struct engine_loaded d;
	struct err ignored;
	int root;

	if (!strstr(e->msg, strerror(EROFS)) || docker_load(&d, &t->box, 0, &ignored) < 0)
		return -1;
	root = json_is_true(engine_asked_host(&d.v, "ReadonlyRootfs"));
	engine_loaded_release(&d);
	return docker_fail(rq, 400, e, "%s is marked read-only", root ? "container rootfs" : "mounted volume");
}

static int feed_archive_put(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct transfer *t = http_data(rq);

	t->fed |= n > 0;
	return fileflow_feed(&t->flow, rq, data, n, e) < 0 ? tell_read_only(t, rq, e) : 0;
}

static int put_box_archive(struct http_request *rq, struct err *e)
{
	struct transfer *t = http_data(rq);
	struct filecounts unused;

	/* nothing at all is an archive of nothing, as with dockerd; its helper ends with t */
	if (t->fed && fileflow_end(&t->flow, &unused, e) < 0)
		return tell_read_only(t, rq, e);
	events_add(&t->box.registry, "extract-to-dir", t->box.id, NULL);
	return http_reply_empty(rq, 200, e);
}

const struct http_route docker_archive_routes[] = {
	{ "HEAD", "/containers/{id}/archive", head_archive, "what a file of a container is",
	  HTTP_NONE, HTTP_QUIET },
	{ "GET", "/containers/{id}/archive", get_box_archive, "files of a container as tar",
	  HTTP_NONE },
	{ "GET", "/containers/{id}/export", get_box_export, "all files of a container as tar",
	  HTTP_NONE },
	{ "PUT", "/containers/{id}/archive", put_box_archive, "unpack a tar in a container", HTTP_RAW,
	  .begin = begin_archive_put, .feed = feed_archive_put },
	{ NULL },
};
