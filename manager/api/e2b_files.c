/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's filesystem.Filesystem and /files: the file helper's work, in E2B's words. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "manager/api/body.h"
#include "manager/api/e2b.h"
#include "manager/api/fileflow.h"
#include "manager/api/http.h"

#define LONG_MS 300000
#define ENTRIES_MAX 16384
#define ENTRY_BYTES 2048 /* memory for one entry as an object, beside its path */
#define DEPTH_MAX 64
#define FORM_MAX (32u << 20)

/* ---- Filesystem ------------------------------------------------------------------------ */

/* The sandbox, the user, and the path that the body has under key. */
struct place {
	struct box box;
	struct e2b_user user;
	struct accounts accounts;
	char path[4096];
};

static int e2b_place_open(struct place *p, struct http_request *rq, const char *key, struct err *e)
{
	const char *path = json_string_value(json_object_get(http_json(rq), key));

	accounts_init(&p->accounts);
	if (e2b_connect(&p->box, rq, e) < 0 || e2b_user_of(rq, NULL, &p->user, e) < 0)
		return -1;
	return e2b_place(&p->box, &p->accounts, &p->user, path ? path : "", p->path, e);
}

static void place_close(struct place *p)
{
	accounts_release(&p->accounts);
	box_close(&p->box);
}

static int reply_entry(struct http_request *rq, struct place *p, const char *path, int r,
		       struct err *e)
{
	json_t *entry = r == 0 ? e2b_entry(&p->box, &p->accounts, &p->user, path, e) : NULL;

	place_close(p);
	return entry ? http_reply_json(rq, 0, json_pack("{s:o}", "entry", entry), e) : -1;
}

static int post_stat(struct http_request *rq, struct err *e)
{
	struct place p;
	int r = e2b_place_open(&p, rq, "path", e);

	return reply_entry(rq, &p, p.path, r, e);
}

static int post_make_dir(struct http_request *rq, struct err *e)
{
	struct place p;
	const char *argv[] = { "mkdir", "p", "", p.path, NULL };
	int r = e2b_place_open(&p, rq, "path", e);
	struct err ignored;
	json_t *there;

	if (r == 0) {
		there = e2b_entry(&p.box, &p.accounts, &p.user, p.path, &ignored);
		if (there)
			r = err_set(e, ERR_EXISTS, "%.200s is there already", p.path);
		json_decref(there);
	}
	if (r == 0)
		r = e2b_file(&p.box, &p.user, argv, NULL, e);
	return reply_entry(rq, &p, p.path, r, e);
}

static int post_e2b_move(struct http_request *rq, struct err *e)
{
	const char *to = json_string_value(json_object_get(http_json(rq), "destination"));
	char destination[4096];
	struct place p;
	const char *argv[] = { "mv", p.path, destination, NULL };
	int r = e2b_place_open(&p, rq, "source", e);

	if (r == 0)
		r = e2b_place(&p.box, &p.accounts, &p.user, to ? to : "", destination, e);
	if (r == 0)
		r = e2b_file(&p.box, &p.user, argv, NULL, e);
	return reply_entry(rq, &p, destination, r, e);
}

static int post_e2b_remove(struct http_request *rq, struct err *e)
{
	struct place p;
	const char *argv[] = { "rm", "rf", p.path, NULL };
	int r = e2b_place_open(&p, rq, "path", e);

	if (r == 0)
		r = e2b_file(&p.box, &p.user, argv, NULL, e);
	place_close(&p);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_object(), e);
}

struct walk {
	struct http_request *rq;
	struct place *place;
	json_t *entries;
	struct http_hold hold;
	size_t found; /* entries, those that wait for their turn included */
};

/* Adds an entry to the list of its directory. */
static int add_e2b_entry(struct walk *w, json_t *list, const char *path, const struct filerecord *r,
		     struct err *e)
{
	json_t *entry = e2b_entry_of(&w->place->accounts, path, r);

	if (w->found++ == ENTRIES_MAX) {
		json_decref(entry);
		return err_set(e, ERR_LIMIT, "over %d entries; hint: a smaller depth", ENTRIES_MAX);
	}
	if (http_hold_take(w->rq, &w->hold, ENTRY_BYTES + 2 * strlen(path), e) < 0) {
		json_decref(entry);
		return -1;
	}
	/* JSON has no name that is not UTF-8 */
	return !entry || json_array_append_new(list, entry) == 0 ? 0 : err_nomem(e);
}

static int list_e2b_entry(struct walk *w, json_t *list, const char *path, struct err *e)
{
	const char *user = w->place->user.name;
	struct filerecord r;
	struct listing *l = malloc(sizeof(*l));
	char child[4096];
	int got;

	if (!l)
		return err_nomem(e);
	listing_init(l);
	l->flags = "m";
	got = listing_start(l, w->rq, w->place->box.sock, path, user, "", 0, e);
	while (got >= 0 && (got = listing_next(l, w->rq, &r, e)) > 0) {
		if ((size_t)snprintf(child, sizeof(child), "%s/%s", strcmp(path, "/") ? path : "",
				     r.name) >= sizeof(child))
			continue;
		if (add_e2b_entry(w, list, child, &r, e) < 0)
			got = -1;
	}
	listing_release(l);
	free(l);
	return got;
}

/* No link to a directory, which may lead to one that it is in. */
static int is_listed_dir(const json_t *entry)
{
	const char *type = json_string_value(json_object_get(entry, "type"));

	return type && !strcmp(type, "FILE_TYPE_DIRECTORY") && !json_object_get(entry, "symlinkTarget");
}

/* Adds the entries of a directory, each followed by those below it. */
static int list_into(struct walk *w, const char *path, unsigned depth, struct err *e)
{
	autojson json_t *list = json_array();
	struct err ignored;
	json_t *one;
	size_t i;

	if (!list || list_e2b_entry(w, list, path, e) < 0)
		return list ? -1 : err_nomem(e);
	json_array_foreach (list, i, one) {
		if (json_array_append(w->entries, one) < 0)
			return err_nomem(e);
		/* a directory that was removed meanwhile, or may not be read, has no entries */
		if (depth > 1 && is_listed_dir(one) &&
		    list_into(w, json_string_value(json_object_get(one, "path")), depth - 1,
			      &ignored) < 0 &&
		    (ignored.code == ERR_LIMIT || ignored.code == ERR_NET)) {
			*e = ignored;
			return -1;
		}
	}
	return 0;
}

static int post_list_dir(struct http_request *rq, struct err *e)
{
	json_int_t depth = json_integer_value(json_object_get(http_json(rq), "depth"));
	struct place p;
	struct walk w = { .rq = rq, .place = &p, .entries = json_array() };
	int r = e2b_place_open(&p, rq, "path", e);

	if (depth < 1)
		depth = 1;
	if (r == 0)
		accounts_read(&p.accounts, p.box.sock);
	if (r == 0)
		do
			r = list_into(&w, p.path, depth > DEPTH_MAX ? DEPTH_MAX : (unsigned)depth,
				      e);
		while (r < 0 && e2b_user_retry(&p.user, e));
	place_close(&p);
	http_hold_end(&w.hold);
	if (r == 0)
		return http_reply_json(rq, 0, json_pack("{s:o}", "entries", w.entries), e);
	json_decref(w.entries);
	return -1;
}

/* ---- /files: bytes out -------------------------------------------------------------------- */

struct transfer {
	struct place place;
	struct fileflow flow;
	char boundary[80]; /* of a form; "" of the bytes of one file */
	struct buf form;
	size_t metadata_bytes;
	struct http_hold hold;
	json_t *metadata; /* what the file will have, or NULL */
	struct gunzip *gunzip;	  /* of a body that is gzip data, or NULL */
	struct http_request *rq; /* of that body */
};

static void e2b_transfer_free(void *ctx)
{
	struct transfer *t = ctx;

	fileflow_release(&t->flow);
	gunzip_free(t->gunzip);
	json_decref(t->metadata);
	buf_release(&t->form);
	http_hold_end(&t->hold);
	place_close(&t->place);
	free(t);
}

static struct transfer *e2b_transfer_new(struct http_request *rq, struct err *e)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	fileflow_init(&t->flow);
	accounts_init(&t->place.accounts);
	t->form = BUF_INIT(FORM_MAX);
	if (e2b_connect(&t->place.box, rq, e) == 0 &&
	    e2b_user_of(rq, http_query(rq, "username"), &t->place.user, e) == 0)
		return t;
	e2b_transfer_free(t);
	return NULL;
}

static ssize_t read_e2b_transfer(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	return fileflow_read(&((struct transfer *)ctx)->flow, rq, buf, max);
}

/* Starts the helper, as root where the image has no such user. */
static int flow_start(struct transfer *t, struct http_request *rq, const char *const *argv, int out,
		      struct err *e)
{
	int r;

	do {
		fileflow_release(&t->flow);
		fileflow_init(&t->flow);
		r = fileflow_start(&t->flow, t->place.box.sock, argv,
				   t->place.user.name, LONG_MS, out, e);
		if (r == 0 && out)
			r = fileflow_first(&t->flow, rq, e);
	} while (r < 0 && e2b_user_retry(&t->place.user, e));
	return r;
}

static int get_e2b_file(struct http_request *rq, struct err *e)
{
	struct transfer *t = e2b_transfer_new(rq, e);
	const char *argv[] = { "read", "0", NULL, NULL };
	struct http_stream st = { read_e2b_transfer, e2b_transfer_free, t };
	const char *path = http_query(rq, "path");

	if (!t)
		return -1;
	argv[2] = t->place.path;
	if (e2b_place(&t->place.box, &t->place.accounts, &t->place.user, path, t->place.path, e) == 0 &&
	    flow_start(t, rq, argv, 1, e) == 0)
		return http_reply_stream(rq, 0, "application/octet-stream", &st, e);
	e2b_transfer_free(t);
	return -1;
}

/* ---- /files: bytes in ------------------------------------------------------------------------ */

/* The field Content-Encoding, which SDKs send with {gzip: true}. */
static int begin_encoding(struct transfer *t, struct http_request *rq, struct err *e)
{
	const char *encoding = http_header(rq, "Content-Encoding");

	if (!encoding || !strcasecmp(encoding, "identity"))
		return 0;
	if (strcasecmp(encoding, "gzip"))
		return err_set(e, ERR_UNSUPPORTED,
			       "Content-Encoding %.40s is not taken; hint: gzip, or none",
			       encoding);
	t->rq = rq;
	t->gunzip = gunzip_new(e);
	return t->gunzip ? 0 : -1;
}

#define METADATA "user.e2b." /* the names of such attributes, and then the client's name */
#define METADATA_MAX 32
#define METADATA_BYTES 3072 /* all of one file, names and values */

/* A field X-Metadata-NAME. */
static int take_metadata(void *ctx, const char *name, const char *value, struct err *e)
{
	struct transfer *t = ctx;
	char key[128];
	size_t i, n = strlen(name);

	for (i = 0; value[i] && value[i] >= ' ' && value[i] <= '~'; i++)
		;
	if (!n || n >= sizeof(key) || value[i] || strchr(name, '='))
		return err_set(e, ERR_INVALID,
			       "the metadata %.40s has a malformed name or value; hint: printable "
			       "ASCII",
			       name);
	for (i = 0; i <= n; i++)
		key[i] = (char)tolower((unsigned char)name[i]);
	t->metadata_bytes += n + strlen(value);
	if (!t->metadata)
		t->metadata = json_object();
	json_object_set_new(t->metadata, key, json_string(value));
	return json_object_size(t->metadata) > METADATA_MAX || t->metadata_bytes > METADATA_BYTES ?
		       err_set(e, ERR_LIMIT, "the metadata of a file have more than %d fields or %d bytes",
			       METADATA_MAX, METADATA_BYTES) :
		       0;
}

/* Starts the helper that writes t->place.path. */
static int start_write(struct transfer *t, struct http_request *rq, struct err *e)
{
	const char *argv[4 + METADATA_MAX + 1] = { "write", "p", "", t->place.path }, *name;
	char *texts[METADATA_MAX] = { NULL };
	size_t n = 0, i;
	json_t *value;
	int r = 0;

	json_object_foreach (t->metadata, name, value) {
		if (asprintf(&texts[n], METADATA "%s=%s", name, json_string_value(value)) < 0) {
			texts[n] = NULL;
			r = err_nomem(e);
			break;
		}
		argv[4 + n] = texts[n];
		n++;
	}
	if (r == 0)
		r = flow_start(t, rq, argv, 0, e);
	for (i = 0; i < n; i++)
		free(texts[i]);
	return r;
}

static int begin_e2b_upload(struct http_request *rq, struct err *e)
{
	const char *type = http_header(rq, "Content-Type"), *path = http_query(rq, "path");
	struct transfer *t = e2b_transfer_new(rq, e);

	if (!t)
		return -1;
	http_set_data(rq, t, e2b_transfer_free);
	if (begin_encoding(t, rq, e) < 0)
		return -1;
	if (http_each_field(rq, "X-Metadata-", take_metadata, t, e) < 0)
		return -1;
	if (type && !strncmp(type, "multipart/form-data", 19))
		return form_boundary(type, t->boundary, e);
	if (!path)
		return err_set(e, ERR_INVALID, "query parameter path is missing");
	if (e2b_place(&t->place.box, &t->place.accounts, &t->place.user, path, t->place.path, e) < 0)
		return -1;
	return start_write(t, rq, e);
}

static int take_bytes(struct transfer *t, struct http_request *rq, const char *data, size_t n,
		      struct err *e)
{
	if (t->boundary[0])
		return http_hold_take(rq, &t->hold, n, e) < 0 ? -1 : buf_add(&t->form, data, n, e);
	return fileflow_feed(&t->flow, rq, data, n, e);
}

/* The bounds of a plain body hold for what comes out: those of a form, or the sandbox's disk. */
static int take_inflated(void *ctx, const char *data, size_t n, struct err *e)
{
	struct transfer *t = ctx;

	if (take_bytes(t, t->rq, data, n, e) < 0)
		return -1;
	/* the helper has ended, and fileflow_end() says why */
	return !t->boundary[0] && t->flow.pipe_fd < 0;
}

static int feed_e2b_upload(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct transfer *t = http_data(rq);
	int r = t->gunzip ? gunzip_feed(t->gunzip, data, n, take_inflated, t, e) :
			    take_bytes(t, rq, data, n, e);

	/* before the client hears of it: nothing of the file is there then */
	if (r < 0)
		fileflow_release(&t->flow);
	return r;
}

static json_t *written(struct transfer *t)
{
	const char *path = t->place.path;
	const char *slash = strrchr(path, '/');

	return json_pack("{s:s,s:s,s:s,s:O*}", "name", slash ? slash + 1 : path, "type", "file",
			 "path", path, "metadata", t->metadata);
}

struct batch {
	struct http_request *rq;
	struct transfer *transfer;
	json_t *list;
	int parts;
};

/* A part "file": its file name is the path, unless the query has one. */
static int take_part(void *ctx, const struct form_part *part, struct err *e)
{
	struct batch *b = ctx;
	struct transfer *t = b->transfer;
	const char *path = http_query(b->rq, "path");
	struct filecounts ignored;

	if (strcmp(part->name, "file"))
		return 0;
	if (path && b->parts++)
		return err_set(e, ERR_INVALID, "several files for one path");
	if (e2b_place(&t->place.box, &t->place.accounts, &t->place.user, path ? path : part->filename, t->place.path,
		      e) < 0)
		return -1;
	if (start_write(t, b->rq, e) < 0 ||
	    fileflow_feed(&t->flow, b->rq, part->data, part->n, e) < 0 ||
	    fileflow_end(&t->flow, &ignored, e) < 0)
		return -1;
	return json_array_append_new(b->list, written(t));
}

static int post_files(struct http_request *rq, struct err *e)
{
	struct transfer *t = http_data(rq);
	struct batch b = { rq, t, json_array(), 0 };
	struct filecounts ignored;
	int r;

	if (t->gunzip && gunzip_end(t->gunzip, e) < 0) {
		fileflow_release(&t->flow);
		json_decref(b.list);
		return -1;
	}
	if (t->boundary[0]) {
		r = form_each(&t->form, t->boundary, take_part, &b, e);
	} else {
		r = fileflow_end(&t->flow, &ignored, e);
		json_array_append_new(b.list, written(t));
	}
	if (r == 0)
		return http_reply_json(rq, 0, b.list, e);
	json_decref(b.list);
	return -1;
}

#define FILESYSTEM "/filesystem.Filesystem"
#define SIGNATURE "signature:string signature_expiration:integer"
#define UNARY                                                                                      \
	HTTP_JSON, HTTP_ONE, .response = "Document", .shape_error = e2b_connect_error,             \
		   .error_schema = "Document"

const struct http_route e2b_file_routes[] = {
	{ "POST", FILESYSTEM "/Stat", post_stat, "E2B: describe a file", UNARY },
	{ "POST", FILESYSTEM "/ListDir", post_list_dir, "E2B: list a directory", UNARY },
	{ "POST", FILESYSTEM "/MakeDir", post_make_dir, "E2B: make a directory", UNARY },
	{ "POST", FILESYSTEM "/Move", post_e2b_move, "E2B: move a file or directory", UNARY },
	{ "POST", FILESYSTEM "/Remove", post_e2b_remove, "E2B: remove a file or directory", UNARY },
	{ "GET", "/files", get_e2b_file, "E2B: a file's bytes", .flags = HTTP_ONE,
	  .query = "path!:string username:string " SIGNATURE,
	  .type = "application/octet-stream", .shape_error = e2b_error,
	  .error_schema = "Document" },
	{ "POST", "/files", post_files, "E2B: write files: their bytes, or multipart/form-data",
	  HTTP_RAW, HTTP_ONE, .query = "path:string username:string " SIGNATURE,
	  .response = "Documents",
	  .begin = begin_e2b_upload, .feed = feed_e2b_upload, .shape_error = e2b_error,
	  .error_schema = "Document" },
	{ NULL },
};
