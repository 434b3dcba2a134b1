/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of a sandbox, at /proxy/IDENTITY/workspace/..., as agentscope's
 * container serves it.  The work is done in the sandbox by the file helper.  A path
 * is relative to /workspace or below it; the check is by components, so that
 * /workspace-evil is outside, and a link inside leads at most elsewhere in the sandbox.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "manager/api/body.h"
#include "manager/api/fileflow.h"
#include "manager/api/http.h"
#include "manager/api/route_manager.h"

#define ROOT "/workspace"
#define SHORT_MS 60000
#define LONG_MS 300000
#define QUEUE_MAX (4u << 20)	/* paths of directories still to list */
#define PATH_BYTES 4096
#define DEPTH_MAX 64
#define BATCH_MAX (32u << 20)
#define BATCH_FILES 4096

/* Resolves "." and ".." in the text, and refuses a path that is not below ROOT. */
static int resolve_workspace_path(const char *path, char out[PATH_BYTES], struct err *e)
{
	autofree char *whole = NULL;
	size_t len = 0;
	char *part, *save = NULL;

	if (!path || asprintf(&whole, "%s%s", path[0] == '/' ? "" : ROOT "/", path) < 0) {
		whole = NULL;
		return path ? err_nomem(e) : err_set(e, ERR_INVALID, "\"path\" is required");
	}
	if (strlen(whole) >= PATH_BYTES)
		return err_set(e, ERR_INVALID, "the path is too long");
	for (part = strtok_r(whole, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
		if (!strcmp(part, "."))
			continue;
		if (!strcmp(part, "..")) {
			while (len && out[--len] != '/')
				;
			continue;
		}
		out[len++] = '/';
		memcpy(out + len, part, strlen(part));
		len += strlen(part);
	}
	out[len] = '\0';
	if (strncmp(out, ROOT, strlen(ROOT)) || (out[strlen(ROOT)] && out[strlen(ROOT)] != '/'))
		return err_set(e, ERR_DENIED, "the path is not within " ROOT);
	return 0;
}

static int use(struct http_request *rq, struct service_who *who, struct service_use *u, struct err *e)
{
	*who = manager_who(rq);
	return service_use(manager_of(rq), who, http_param(rq, "identity"), u, e);
}

static json_t *entry_of(const char *path, const struct filerecord *r)
{
	const char *type = S_ISDIR(r->mode) ? "dir" : S_ISREG(r->mode) ? "file" : S_ISLNK(r->mode) ? "symlink" : "other";
	const char *slash = strrchr(path, '/');
	json_t *j = json_pack("{s:s,s:s,s:s,s:n,s:I}", "path", path, "name", slash ? slash + 1 : path, "type", type, "size", "mtime_ms",
			      (json_int_t)(r->mtime_sec * 1000 + r->mtime_nsec / 1000000));

	if (j && S_ISREG(r->mode))
		json_object_set_new(j, "size", json_integer((json_int_t)r->size));
	return j;
}

static int run_workspace_verb(struct service_use *u, const char *const *argv, struct buf *out, struct err *e)
{
	struct filecounts c;

	return fileclient_run(u->sock, argv, NULL, SHORT_MS, -1, out, &c, e);
}

/* 1 with the entry, or 0 if there is none; flags "L" follows links. */
static int describe_workspace_entry(struct service_use *u, const char *flags, const char *path, json_t **ret, unsigned *ret_mode, struct err *e)
{
	const char *argv[] = { "stat", flags, path, NULL }, *at;
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct filerecord r;

	/* a link in a circle leads nowhere either */
	if (run_workspace_verb(u, argv, &text, e) < 0)
		return e->code == ERR_NOT_FOUND || (flags[0] && e->code == ERR_INVALID) ? 0 : -1;
	at = text.data;
	if (filerecord_next(&at, text.data + text.len, &r, e) < 1)
		return err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	if (ret)
		*ret = entry_of(path, &r);
	if (ret_mode)
		*ret_mode = r.mode;
	return !ret || *ret ? 1 : err_set(e, ERR_CORRUPT, "the name is not valid UTF-8");
}

/* ---- small things --------------------------------------------------------------------- */

static int get_exists(struct http_request *rq, struct err *e)
{
	char path[PATH_BYTES];
	struct service_who who;
	struct service_use u;
	int r;

	if (resolve_workspace_path(http_query(rq, "path"), path, e) < 0 || use(rq, &who, &u, e) < 0)
		return -1;
	r = describe_workspace_entry(&u, "L", path, NULL, NULL, e);
	service_use_end(&u);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:b}", "exists", r), e);
}

static int delete_entry(struct http_request *rq, struct err *e)
{
	char path[PATH_BYTES];
	const char *argv[] = { "rm", "rf", path, NULL };
	struct service_who who;
	struct service_use u;
	int r;

	if (resolve_workspace_path(http_query(rq, "path"), path, e) < 0)
		return -1;
	if (!strcmp(path, ROOT))
		return err_set(e, ERR_DENIED, ROOT " itself is not removed");
	if (use(rq, &who, &u, e) < 0)
		return -1;
	r = run_workspace_verb(&u, argv, NULL, e);
	service_use_end(&u);
	return r < 0 && e->code != ERR_NOT_FOUND ? -1 : http_reply_empty(rq, 204, e);
}

static int make_parent(struct service_use *u, const char *path, struct err *e)
{
	char parent[PATH_BYTES];
	const char *argv[] = { "mkdir", "p", "", parent, NULL };

	snprintf(parent, sizeof(parent), "%s", path);
	*strrchr(parent, '/') = '\0';
	return strlen(parent) <= strlen(ROOT) ? 0 : run_workspace_verb(u, argv, NULL, e);
}

static int post_workspace_move(struct http_request *rq, struct err *e)
{
	char from[PATH_BYTES], to[PATH_BYTES];
	const char *argv[] = { "mv", from, to, NULL };
	json_t *entry = NULL;
	struct service_who who;
	struct service_use u;
	int r;

	if (resolve_workspace_path(json_string_value(json_object_get(http_json(rq), "source")), from, e) < 0 ||
	    resolve_workspace_path(json_string_value(json_object_get(http_json(rq), "destination")), to, e) < 0 || use(rq, &who, &u, e) < 0)
		return -1;
	r = make_parent(&u, to, e);
	if (r == 0)
		r = run_workspace_verb(&u, argv, NULL, e);
	if (r == 0)
		r = describe_workspace_entry(&u, "", to, &entry, NULL, e);
	service_use_end(&u);
	if (r == 0)
		return err_set(e, ERR_NOT_FOUND, "the entry was moved away meanwhile");
	return r < 0 ? -1 : http_reply_json(rq, 0, entry, e);
}

static int post_workspace_mkdir(struct http_request *rq, struct err *e)
{
	char path[PATH_BYTES];
	const char *argv[] = { "mkdir", "p", "", path, NULL };
	struct service_who who;
	struct service_use u;
	unsigned mode = 0;
	int r;

	if (resolve_workspace_path(json_string_value(json_object_get(http_json(rq), "path")), path, e) < 0 || use(rq, &who, &u, e) < 0)
		return -1;
	r = describe_workspace_entry(&u, "", path, NULL, &mode, e);
	if (r == 1 && !S_ISDIR(mode))
		r = err_set(e, ERR_EXISTS, "the path exists and is not a directory");
	if (r == 0 && run_workspace_verb(&u, argv, NULL, e) < 0)
		r = -1;
	service_use_end(&u);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:b}", "created", !r), e);
}

/* Directories still to list, one path after another, each with its NUL; and their depth. */
struct queue {
	struct buf paths, depths;
	size_t path_at, depth_at;
};

struct lister {
	struct service_who who;
	struct service_use u;
	struct listing listing;
	struct queue queue;
	char path[PATH_BYTES];	/* of what is read */
	unsigned char depth;	/* what is left */
	int is_first, began, is_open;
};

static void workspace_lister_free(void *ctx)
{
	struct lister *l = ctx;

	listing_release(&l->listing);
	service_use_end(&l->u);
	buf_release(&l->queue.paths);
	buf_release(&l->queue.depths);
	free(l);
}

static int push_dir(struct queue *q, const char *path, unsigned char depth, struct err *e)
{
	if (buf_add(&q->paths, path, strlen(path) + 1, e) == 0 && buf_add(&q->depths, &depth, 1, e) == 0)
		return 0;
	return e->code == ERR_LIMIT ? err_set(e, ERR_LIMIT, "too many directories; hint: a smaller depth, or one of them") : -1;
}

/*
 * 1 when the next directory is open, 0 if there is none; one that was removed meanwhile has no
 * entries.
 */
static int open_next(struct lister *l, struct http_request *rq, struct err *e)
{
	struct queue *q = &l->queue;

	while (q->path_at < q->paths.len) {
		snprintf(l->path, sizeof(l->path), "%s", q->paths.data + q->path_at);
		l->depth = (unsigned char)q->depths.data[q->depth_at++];
		q->path_at += strlen(l->path) + 1;
		listing_release(&l->listing);
		listing_init(&l->listing);
		if (listing_start(&l->listing, rq, l->u.sock, l->path, NULL, "", 0, e) == 0)
			return 1;
		if (e->code != ERR_NOT_FOUND)
			return -1;
	}
	return 0;
}

static int next_workspace_entry(void *ctx, struct http_request *rq, struct buf *out, struct err *e)
{
	struct lister *l = ctx;
	struct filerecord r;
	char child[PATH_BYTES];
	json_t *entry;
	int got;

	if (!l->began++ && buf_adds(out, "[", e) < 0)
		return -1;
	if (!l->is_open) {
		l->is_open = got = open_next(l, rq, e);
		if (got < 0)
			return -1;
		if (!got)
			return buf_adds(out, "]\n", e) < 0 ? -1 : 0;
	}
	got = listing_next(&l->listing, rq, &r, e);
	if (got < 0)
		return -1;
	l->is_open = got;
	if (!got || (size_t)snprintf(child, sizeof(child), "%s/%s", l->path, r.name) >= sizeof(child))
		return 1;
	entry = entry_of(child, &r);
	if (!entry)
		return 1;	/* a name that JSON cannot say */
	if (listing_add(out, &l->is_first, entry, e) < 0)
		return -1;
	return S_ISDIR(r.mode) && l->depth > 1 && push_dir(&l->queue, child, l->depth - 1, e) < 0 ? -1 : 1;
}

static int begin_workspace_list(struct lister *l, struct http_request *rq, const char *path, uint64_t depth, struct err *e)
{
	unsigned mode = 0;
	int r = describe_workspace_entry(&l->u, "", path, NULL, &mode, e);

	if (r == 0 || (r == 1 && !S_ISDIR(mode)))
		return err_set(e, ERR_NOT_FOUND, "no such directory");
	if (r < 0 || push_dir(&l->queue, path, (unsigned char)depth, e) < 0)
		return -1;
	l->is_open = open_next(l, rq, e);
	return l->is_open < 0 ? -1 : 0;
}

static int get_workspace_list(struct http_request *rq, struct err *e)
{
	uint64_t depth = http_query_u64(rq, "depth", 1);
	char path[PATH_BYTES];
	struct lister *l;
	struct listing_reply how = { next_workspace_entry, workspace_lister_free, NULL };

	if (depth < 1 || depth > DEPTH_MAX)
		return err_set(e, ERR_INVALID, "depth is 1 to %d", DEPTH_MAX);
	if (resolve_workspace_path(http_query(rq, "path"), path, e) < 0)
		return -1;
	how.ctx = l = calloc(1, sizeof(*l));
	if (!l)
		return err_nomem(e);
	listing_init(&l->listing);
	l->queue = (struct queue){ .paths = BUF_INIT(QUEUE_MAX), .depths = BUF_INIT(QUEUE_MAX) };
	l->is_first = 1;
	if (use(rq, &l->who, &l->u, e) < 0)
		l->u.service = NULL;
	else if (begin_workspace_list(l, rq, path, depth, e) == 0)
		return listing_stream(rq, &how, e);
	workspace_lister_free(l);
	return -1;
}

/* ---- bytes ------------------------------------------------------------------------------ */

struct transfer {
	struct service_who who;
	struct service_use u;
	struct fileflow flow;
	char path[PATH_BYTES];
	struct buf form;	/* a batch, which is held whole */
	struct http_hold hold;
};

static void workspace_transfer_free(void *ctx)
{
	struct transfer *t = ctx;

	if (!t)
		return;
	fileflow_release(&t->flow);
	service_use_end(&t->u);	/* the helper ends with its client */
	http_hold_end(&t->hold);
	buf_release(&t->form);
	free(t);
}

static struct transfer *workspace_transfer_new(struct http_request *rq, struct err *e)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	fileflow_init(&t->flow);
	t->form = BUF_INIT(BATCH_MAX);
	if (use(rq, &t->who, &t->u, e) < 0) {
		t->u.service = NULL;
		workspace_transfer_free(t);
		return NULL;
	}
	return t;
}

static int workspace_transfer_start(struct transfer *t, const char *const *argv, int out, struct err *e)
{
	return fileflow_start(&t->flow, t->u.sock, argv, NULL, LONG_MS, out, e);
}

static ssize_t read_workspace_transfer(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	return fileflow_read(&((struct transfer *)ctx)->flow, rq, buf, max);
}

static int get_workspace_file(struct http_request *rq, struct err *e)
{
	const char *format = http_query(rq, "format");
	int text = !format || !strcmp(format, "text");
	struct transfer *t;
	struct http_stream st = { read_workspace_transfer, workspace_transfer_free, NULL };
	char path[PATH_BYTES];
	const char *argv[] = { "read", "0", path, NULL };
	unsigned mode = 0;
	int r;

	if (format && !text && strcmp(format, "bytes"))
		return err_set(e, ERR_INVALID, "format is text or bytes");
	if (resolve_workspace_path(http_query(rq, "path"), path, e) < 0 || !(t = workspace_transfer_new(rq, e)))
		return -1;
	st.ctx = t;
	r = describe_workspace_entry(&t->u, "L", path, NULL, &mode, e);
	if (r == 0 || (r == 1 && S_ISDIR(mode)))
		r = err_set(e, ERR_NOT_FOUND, "not found");
	if (r < 0 || workspace_transfer_start(t, argv, 1, e) < 0 || fileflow_first(&t->flow, rq, e) < 0) {
		workspace_transfer_free(t);
		return -1;
	}
	return http_reply_stream(rq, 0, text ? "text/plain; charset=utf-8" : "application/octet-stream", &st, e);
}

static int begin_workspace_put(struct http_request *rq, struct err *e)
{
	struct transfer *t;
	unsigned mode = 0;
	int r;

	char path[PATH_BYTES];

	if (resolve_workspace_path(http_query(rq, "path"), path, e) < 0 || !(t = workspace_transfer_new(rq, e)))
		return -1;
	http_set_data(rq, t, workspace_transfer_free);
	memcpy(t->path, path, sizeof(t->path));
	r = describe_workspace_entry(&t->u, "", t->path, NULL, &mode, e);
	if (r == 1 && S_ISDIR(mode))
		return err_set(e, ERR_EXISTS, "path exists and is a directory");
	if (r < 0)
		return -1;
	return workspace_transfer_start(t, (const char *[]){ "write", "p", "", t->path, NULL }, 0, e);
}

static int feed_workspace_put(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	return fileflow_feed(&((struct transfer *)http_data(rq))->flow, rq, data, n, e);
}

/* The file is there: its entry. */
static json_t *finish_put(struct transfer *t, struct err *e)
{
	struct filecounts c;
	json_t *entry = NULL;
	int r;

	if (fileflow_end(&t->flow, &c, e) < 0)
		return NULL;
	r = describe_workspace_entry(&t->u, "", t->path, &entry, NULL, e);
	if (r == 0)
		err_set(e, ERR_NOT_FOUND, "the file was removed meanwhile");
	return r == 1 ? entry : NULL;
}

static int put_workspace_file(struct http_request *rq, struct err *e)
{
	json_t *entry = finish_put(http_data(rq), e);

	return entry ? http_reply_json(rq, 0, entry, e) : -1;
}

/* ---- many files: multipart/form-data ------------------------------------------------------- */

static int begin_batch(struct http_request *rq, struct err *e)
{
	struct transfer *t = workspace_transfer_new(rq, e);

	if (!t)
		return -1;
	http_set_data(rq, t, workspace_transfer_free);
	return 0;
}

static int feed_batch(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct transfer *t = http_data(rq);

	if (t->form.len + n > BATCH_MAX)
		return err_set(e, ERR_LIMIT, "a batch has at most %u bytes; hint: PUT larger files one by one", BATCH_MAX);
	if (http_hold_take(rq, &t->hold, n, e) < 0)
		return -1;
	return buf_add(&t->form, data, n, e);
}

static int write_part(struct http_request *rq, struct transfer *t, const char *path, const struct form_part *p, json_t *out, struct err *e)
{
	unsigned mode = 0;
	json_t *entry;
	int r;

	if (resolve_workspace_path(path, t->path, e) < 0)
		return -1;
	r = describe_workspace_entry(&t->u, "", t->path, NULL, &mode, e);
	if (r == 1 && S_ISDIR(mode))
		return err_set(e, ERR_EXISTS, "target exists and is a directory: %.200s", path);
	if (r < 0 || workspace_transfer_start(t, (const char *[]){ "write", "p", "", t->path, NULL }, 0, e) < 0 ||
	    fileflow_feed(&t->flow, rq, p->data, p->n, e) < 0)
		return -1;
	entry = finish_put(t, e);
	if (!entry)
		return -1;
	json_array_append_new(out, entry);
	return 0;
}

struct batch {
	struct http_request *rq;
	struct transfer *t;
	json_t *paths, *out;
	size_t files, parts;
};

/* Every part is seen twice: paths[] may come before or after the files[] they belong to. */
static int take_workspace_path(void *ctx, const struct form_part *p, struct err *e)
{
	struct batch *b = ctx;

	if (!strcmp(p->name, "files") && ++b->parts > BATCH_FILES)
		return err_set(e, ERR_LIMIT, "a batch has at most %d files; hint: several batches, or a tar to /v1/sandboxes/ID/files/archive",
			       BATCH_FILES);
	if (!strcmp(p->name, "paths") && json_array_size(b->paths) == BATCH_FILES)
		return err_set(e, ERR_LIMIT, "a batch has at most %d paths; hint: several batches", BATCH_FILES);
	if (!strcmp(p->name, "paths") && json_array_append_new(b->paths, json_stringn(p->data, p->n)) < 0)
		return err_set(e, ERR_INVALID, "a path is not valid UTF-8");
	return 0;
}

static int take_file(void *ctx, const struct form_part *p, struct err *e)
{
	struct batch *b = ctx;
	const char *path;

	if (strcmp(p->name, "files"))
		return 0;
	path = json_string_value(json_array_get(b->paths, b->files++));
	if (!path)
		path = p->filename;
	if (!path[0])
		return err_set(e, ERR_INVALID, "missing filename for a part");
	return write_part(b->rq, b->t, path, p, b->out, e);
}

static int post_batch(struct http_request *rq, struct err *e)
{
	struct transfer *t = http_data(rq);
	struct batch b = { .rq = rq, .t = t, .paths = json_array(), .out = json_array() };
	char boundary[80];
	int r;

	r = form_boundary(http_header(rq, "Content-Type"), boundary, e);
	if (r == 0)
		r = form_each(&t->form, boundary, take_workspace_path, &b, e);
	if (r == 0)
		r = form_each(&t->form, boundary, take_file, &b, e);
	json_decref(b.paths);
	if (r == 0)
		return http_reply_json(rq, 0, b.out, e);
	json_decref(b.out);
	return -1;
}

#define PROXY "/proxy/{identity}/workspace"

const struct http_route proxy_routes[] = {
	{ "GET", PROXY "/file", get_workspace_file, "agentscope: a file of the workspace", .query = "path!:string format:string",
	  .type = "text/plain; charset=utf-8, application/octet-stream", .shape_error = manager_detail },
	{ "PUT", PROXY "/file", put_workspace_file, "agentscope: replace a file of the workspace", HTTP_RAW, .query = "path!:string",
	  .response = "WorkEntry", .begin = begin_workspace_put, .feed = feed_workspace_put, .shape_error = manager_detail },
	{ "POST", PROXY "/files:batch", post_batch, "agentscope: write many files: multipart/form-data of files and paths", HTTP_RAW,
	  .response = "WorkEntries", .begin = begin_batch, .feed = feed_batch,
	  .shape_error = manager_detail },
	{ "GET", PROXY "/list", get_workspace_list, "agentscope: list a directory", .query = "path!:string depth:integer",
	  .response = "WorkEntries", .shape_error = manager_detail },
	{ "GET", PROXY "/exists", get_exists, "agentscope: whether an entry exists", .query = "path!:string",
	  .response = "Exists", .shape_error = manager_detail },
	{ "DELETE", PROXY "/entry", delete_entry, "agentscope: remove an entry", .query = "path!:string", .status = 204,
	  .shape_error = manager_detail },
	{ "POST", PROXY "/move", post_workspace_move, "agentscope: move an entry", HTTP_JSON, .request = "Move", .response = "WorkEntry",
	  .shape_error = manager_detail },
	{ "POST", PROXY "/mkdir", post_workspace_mkdir, "agentscope: make a directory", HTTP_JSON, .request = "MakeDir",
	  .response = "MadeDir", .shape_error = manager_detail },
	{ NULL },
};
