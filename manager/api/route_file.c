/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S19 of SECURITY.md. */
/*
 * Routes on files of a sandbox.  The work is done in the sandbox by the file
 * helper; no path of a client is ever looked up on the host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/fileflow.h"

#define SHORT_MS 60000
#define LONG_MS 300000
#define ARCHIVE_MS 3600000

/* ---- one verb, one answer ----------------------------------------------------------- */

static int verb(struct http_request *rq, const char *const *argv, const char *user, struct buf *out, struct filecounts *ret,
		struct err *e)
{
	struct filecounts unused;
	struct box b;
	int r = box_connect(&b, rq, e);

	if (r == 0)
		r = fileclient_run(b.sock, argv, user, SHORT_MS, -1, out, ret ? ret : &unused, e);
	box_close(&b);
	return r;
}

static int get_stat(struct http_request *rq, struct err *e)
{
	const char *argv[] = { "stat", http_query_bool(rq, "follow") ? "L" : "", http_query(rq, "path"), NULL }, *at;
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct filerecord record;

	if (verb(rq, argv, http_query(rq, "user"), &text, NULL, e) < 0)
		return -1;
	at = text.data;
	if (filerecord_next(&at, text.data + text.len, &record, e) < 1)
		return err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	return http_reply_json(rq, 0, filerecord_json(&record), e);
}

static int check_upload_mode(const char *mode, struct err *e)
{
	if (mode && (!mode[0] || strlen(mode) > 4 || mode[strspn(mode, "01234567")]))
		return err_set(e, ERR_INVALID, "mode is not octal; hint: 644");
	return 0;
}

/* verb FLAGS [MODE] PATH... */
static int with_paths(struct http_request *rq, const char *name, const char *flags, const char *mode, struct err *e)
{
	const json_t *body = http_json(rq);
	json_t *paths = json_object_get(body, "paths"), *one;
	const char **argv = calloc(json_array_size(paths) + 4, sizeof(*argv));
	size_t n = 0, i;
	int r;

	if (!argv)
		return err_nomem(e);
	argv[n++] = name;
	argv[n++] = flags;
	if (mode)
		argv[n++] = mode;
	json_array_foreach(paths, i, one)
		argv[n++] = json_string_value(one);
	r = i ? verb(rq, argv, json_string_value(json_object_get(body, "user")), NULL, NULL, e) :
		err_set(e, ERR_INVALID, "body.paths is empty");
	free(argv);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:b}", "done", 1), e);
}

static int post_file_mkdir(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const char *mode = json_string_value(json_object_get(body, "mode"));

	if (check_upload_mode(mode, e) < 0)
		return -1;
	return with_paths(rq, "mkdir", json_is_true(json_object_get(body, "parents")) ? "p" : "", mode ? mode : "", e);
}

static int post_rm(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	int recursive = json_is_true(json_object_get(body, "recursive")), force = json_is_true(json_object_get(body, "force"));

	return with_paths(rq, "rm", recursive && force ? "rf" : recursive ? "r" : force ? "f" : "", NULL, e);
}

static int post_mv(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const char *argv[] = { "mv", json_string_value(json_object_get(body, "from")), json_string_value(json_object_get(body, "to")),
			       NULL };

	if (verb(rq, argv, json_string_value(json_object_get(body, "user")), NULL, NULL, e) < 0)
		return -1;
	return http_reply_json(rq, 0, json_pack("{s:b}", "done", 1), e);
}

/* ---- bytes out ------------------------------------------------------------------------- */

struct transfer {
	struct box box;
	struct fileflow flow;
};

static void file_transfer_free(void *ctx)
{
	struct transfer *t = ctx;

	if (!t)
		return;
	fileflow_release(&t->flow);
	box_close(&t->box);	/* the helper ends with its client */
	free(t);
}

static struct transfer *file_transfer_new(struct http_request *rq, struct err *e)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	fileflow_init(&t->flow);
	box_init(&t->box, rq);
	return t;
}

static int file_transfer_start(struct transfer *t, struct http_request *rq, const char *const *argv, int out, uint64_t timeout_ms,
			  struct err *e)
{
	if (box_connect(&t->box, rq, e) < 0)
		return -1;
	return fileflow_start(&t->flow, t->box.sock, argv, http_query(rq, "user"), timeout_ms, out, e);
}

static ssize_t read_file_transfer(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	return fileflow_read(&((struct transfer *)ctx)->flow, rq, buf, max);
}

/*
 * The helper's output is the reply, once its first bytes have arrived: until then an error has
 * its own status.
 */
static int send_out(struct http_request *rq, const char *const *argv, const char *type, uint64_t timeout_ms, struct err *e)
{
	struct transfer *t = file_transfer_new(rq, e);
	struct http_stream st = { read_file_transfer, file_transfer_free, t };

	if (!t)
		return -1;
	if (file_transfer_start(t, rq, argv, 1, timeout_ms, e) < 0 || fileflow_first(&t->flow, rq, e) < 0) {
		file_transfer_free(t);
		return -1;
	}
	return http_reply_stream(rq, 0, type, &st, e);
}

static int get_file_route(struct http_request *rq, struct err *e)
{
	char limit[24];
	const char *argv[] = { "read", limit, http_query(rq, "path"), NULL };

	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)http_query_u64(rq, "limit", 0));
	return send_out(rq, argv, "application/octet-stream", LONG_MS, e);
}

static int get_file_archive(struct http_request *rq, struct err *e)
{
	int follow = http_query_bool(rq, "follow"), checked = http_query_bool(rq, "checked");
	const char *argv[] = { "pack", follow && checked ? "Ll" : follow ? "L" : checked ? "l" : "", http_query(rq, "path"), NULL };

	return send_out(rq, argv, "application/x-tar", ARCHIVE_MS, e);
}

/* ---- a directory ------------------------------------------------------------------------- */

struct lister {
	struct box box;
	struct listing listing;
	uint64_t limit, shown;	/* limit 0: all */
	int is_first, began;
	char last[2 * 4096 + 1];	/* the name that was shown last, in hexadecimal digits */
};

static void file_lister_free(void *ctx)
{
	struct lister *l = ctx;

	listing_release(&l->listing);
	box_close(&l->box);
	free(l);
}

static int end_list(struct lister *l, int more, struct buf *out, struct err *e)
{
	return (more ? buf_addf(out, e, "],\"next\":\"%s\"}\n", l->last) : buf_adds(out, "]}\n", e)) < 0 ? -1 : 0;
}

static int next_file_entry(void *ctx, struct http_request *rq, struct buf *out, struct err *e)
{
	struct lister *l = ctx;
	struct filerecord r;
	int got;

	if (!l->began++ && buf_adds(out, "{\"entries\":[", e) < 0)
		return -1;
	got = listing_next(&l->listing, rq, &r, e);
	if (got <= 0)
		return got < 0 ? -1 : end_list(l, 0, out, e);
	if (l->limit && l->shown == l->limit)
		return end_list(l, 1, out, e);
	l->shown++;
	if (strlen(r.name) * 2 < sizeof(l->last))
		hex_format(l->last, r.name, strlen(r.name));
	return listing_add(out, &l->is_first, filerecord_json(&r), e) < 0 ? -1 : 1;
}

static int get_file_list(struct http_request *rq, struct err *e)
{
	const char *path = http_query(rq, "path"), *after = http_query(rq, "after");
	struct lister *l = calloc(1, sizeof(*l));
	struct listing_reply how = { next_file_entry, file_lister_free, l };

	if (!l)
		return err_nomem(e);
	listing_init(&l->listing);
	l->is_first = 1;
	l->limit = http_query_u64(rq, "limit", 0);
	if (box_connect(&l->box, rq, e) == 0 &&
	    listing_start(&l->listing, rq, l->box.sock, path ? path : ".", http_query(rq, "user"), after ? after : "", l->limit, e) == 0)
		return listing_stream(rq, &how, e);
	file_lister_free(l);
	return -1;
}

/* ---- bytes in ----------------------------------------------------------------------------- */

static int begin_file_upload(struct http_request *rq, const char *const *argv, uint64_t timeout_ms, struct err *e)
{
	struct transfer *t = file_transfer_new(rq, e);

	if (!t)
		return -1;
	http_set_data(rq, t, file_transfer_free);
	return file_transfer_start(t, rq, argv, 0, timeout_ms, e);
}

static int feed_file_upload(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	return fileflow_feed(&((struct transfer *)http_data(rq))->flow, rq, data, n, e);
}

static int end_upload(struct http_request *rq, struct filecounts *ret, struct err *e)
{
	return fileflow_end(&((struct transfer *)http_data(rq))->flow, ret, e);
}

static int begin_put_file(struct http_request *rq, struct err *e)
{
	int append = http_query_bool(rq, "append"), parents = http_query_bool(rq, "parents");
	const char *mode = http_query(rq, "mode");
	const char *argv[] = { "write", append && parents ? "ap" : append ? "a" : parents ? "p" : "", mode ? mode : "",
			       http_query(rq, "path"), NULL };

	return check_upload_mode(mode, e) < 0 ? -1 : begin_file_upload(rq, argv, LONG_MS, e);
}

static int put_file_route(struct http_request *rq, struct err *e)
{
	struct filecounts c;

	if (end_upload(rq, &c, e) < 0)
		return -1;
	/* the helper reports the size of an appended file as what was skipped */
	return http_reply_json(rq, 0, json_pack("{s:I,s:I}", "written", (json_int_t)c.bytes, "size", (json_int_t)c.skipped), e);
}

static int begin_put_archive(struct http_request *rq, struct err *e)
{
	const char *as = http_query(rq, "as");
	char flags[8] = "";
	const char *argv[] = { "extract", flags, http_query(rq, "path"), NULL };

	if (as && strcmp(as, "archive") && strcmp(as, "copy") && strcmp(as, "contents"))
		return err_set(e, ERR_INVALID, "query parameter as is not one of archive, copy, contents");
	snprintf(flags, sizeof(flags), "%s%s%s", !as || !strcmp(as, "archive") ? "i" : !strcmp(as, "contents") ? "c" : "",
		 http_query_bool(rq, "keep_owners") ? "o" : "", http_query_bool(rq, "parents") ? "p" : "");
	return begin_file_upload(rq, argv, ARCHIVE_MS, e);
}

static int put_file_archive(struct http_request *rq, struct err *e)
{
	struct filecounts c;

	if (end_upload(rq, &c, e) < 0)
		return -1;
	return http_reply_json(rq, 0, json_pack("{s:I,s:I,s:I}", "entries", (json_int_t)c.entries, "bytes", (json_int_t)c.bytes,
						"skipped", (json_int_t)c.skipped), e);
}

#define FILES "/v1/sandboxes/{id}/files"

const struct http_route file_routes[] = {
	{ "GET", FILES, get_file_route, "a file's content", .query = "path!:string user:string limit:integer", .type = "application/octet-stream" },
	{ "PUT", FILES, put_file_route, "replace a file by the body, at once", HTTP_RAW,
	  .query = "path!:string user:string append:boolean parents:boolean mode:string", .response = "Written",
	  .begin = begin_put_file, .feed = feed_file_upload },
	{ "GET", FILES "/list", get_file_list, "list a directory", .query = "path:string user:string after:string limit:integer",
	  .response = "Entries" },
	{ "GET", FILES "/stat", get_stat, "describe a file", .query = "path!:string user:string follow:boolean", .response = "Entry" },
	{ "POST", FILES "/mkdir", post_file_mkdir, "make directories", HTTP_JSON, .request = "Mkdir", .response = "Done" },
	{ "POST", FILES "/rm", post_rm, "remove files", HTTP_JSON, .request = "Rm", .response = "Done" },
	{ "POST", FILES "/mv", post_mv, "move a file or directory", HTTP_JSON, .request = "Mv", .response = "Done" },
	{ "GET", FILES "/archive", get_file_archive, "a file or tree as tar", .query = "path!:string user:string follow:boolean checked:boolean",
	  .type = "application/x-tar" },
	{ "PUT", FILES "/archive", put_file_archive, "unpack the body, a tar, into a directory", HTTP_RAW,
	  .query = "path!:string user:string keep_owners:boolean parents:boolean as:string", .response = "Unpacked", .begin = begin_put_archive,
	  .feed = feed_file_upload },
	{ NULL },
};
