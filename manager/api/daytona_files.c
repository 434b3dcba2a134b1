/* SPDX-License-Identifier: Apache-2.0 */
/* Daytona's toolbox: files, and where a sandbox works. The file helper's work, in Daytona's words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/api/body.h"
#include "manager/api/daytona.h"
#include "manager/api/e2b.h"
#include "manager/api/fileflow.h"

#define LONG_MS 1800000
#define ENTRIES_MAX 16384
#define ENTRY_BYTES 2048 /* memory for one entry as an object, beside its path */
#define DEPTH_MAX 64
#define REPLACE_MAX (8u << 20) /* bytes of a file in which a text is replaced */

/* ---- one path of the query ---- */

struct where {
	struct daytona_place place;
	char path[4096];
};

static int where_open(struct where *w, struct http_request *rq, const char *key, struct err *e)
{
	if (daytona_enter(&w->place, rq, e) < 0)
		return -1;
	return daytona_path(&w->place, http_query(rq, key), w->path, e);
}

/* A verb of the helper's on the path; the reply has no body. */
static int do_verb(struct http_request *rq, struct where *w, int r, const char *const *argv, int status, struct err *e)
{
	if (r == 0)
		r = daytona_file(&w->place, argv, NULL, e);
	daytona_leave(&w->place);
	return r < 0 ? -1 : http_reply_empty(rq, status, e);
}

static int check_octal(const char *mode, struct err *e)
{
	return strlen(mode) > 4 || !mode[0] || mode[strspn(mode, "01234567")] ?
		       err_set(e, ERR_INVALID, "mode is not an octal number of at most 4 digits") :
		       0;
}

static int post_daytona_folder(struct http_request *rq, struct err *e)
{
	const char *mode = http_query(rq, "mode");
	struct where w;
	const char *argv[] = {"mkdir", "p", mode, w.path, NULL};
	int r = where_open(&w, rq, "path", e);

	if (r == 0)
		r = check_octal(mode, e);
	return do_verb(rq, &w, r, argv, 201, e);
}

static int delete_daytona_file(struct http_request *rq, struct err *e)
{
	struct where w;
	const char *argv[] = {"rm", http_query_bool(rq, "recursive") ? "r" : "", w.path, NULL};
	int r = where_open(&w, rq, "path", e);

	return do_verb(rq, &w, r, argv, 204, e);
}

static int post_daytona_move(struct http_request *rq, struct err *e)
{
	char to[4096];
	struct where w;
	const char *argv[] = {"mv", w.path, to, NULL};
	int r = where_open(&w, rq, "source", e);

	if (r == 0)
		r = daytona_path(&w.place, http_query(rq, "destination"), to, e);
	return do_verb(rq, &w, r, argv, 200, e);
}

/* ---- commands that the image has ------------------------------------------------------------ */

/* Runs argv (consumed) in the sandbox: 0 with what it wrote, or -1 with its own last words. */
static int run_tool(struct http_request *rq, json_t *argv, json_t *env, struct daytona_ran *ran, struct err *e)
{
	struct daytona_run run = {.argv = argv, .env = env, .timeout_ms = 120000};
	const char *name = json_string_value(json_array_get(argv, 0));
	char tool[40];

	snprintf(tool, sizeof(tool), "%s", name ? name : "");
	if (daytona_execute(rq, &run, ran, e) < 0)
		return -1;
	if (ran->timed_out)
		return err_set(e, ERR_TIMEOUT, "%s took more than 120 s", tool);
	if (!ran->status)
		return 0;
	return err_set(e, ran->text[1].len && memmem(ran->text[1].data, ran->text[1].len, "No such file", 12) ? ERR_NOT_FOUND : ERR_INVALID,
		       "%s: %.*s", tool, (int)(ran->text[1].len > 300 ? 300 : ran->text[1].len), ran->text[1].len ? ran->text[1].data : "failed");
}

static int do_tool(struct http_request *rq, json_t *argv, struct err *e)
{
	struct daytona_ran ran;
	int r = run_tool(rq, argv, NULL, &ran, e);

	daytona_ran_release(&ran);
	return r;
}

static int post_permissions(struct http_request *rq, struct err *e)
{
	const char *mode = http_query(rq, "mode"), *owner = http_query(rq, "owner"), *group = http_query(rq, "group");
	struct where w;
	int r = where_open(&w, rq, "path", e);

	daytona_leave(&w.place);
	if (r == 0 && mode && mode[0])
		r = check_octal(mode, e) < 0 ? -1 : do_tool(rq, json_pack("[s,s,s,s]", "chmod", "--", mode, w.path), e);
	if (r == 0 && ((owner && owner[0]) || (group && group[0])))
		r = do_tool(rq, json_pack("[s,s,o,s]", "chown", "--",
					  json_sprintf("%s%s%s", owner ? owner : "", group && group[0] ? ":" : "", group ? group : ""), w.path), e);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

static int too_many(struct err *e)
{
	return err_set(e, ERR_LIMIT, "more is found than one reply holds; hint: a path further down, or process/execute");
}

static int is_cut(const struct buf *text)
{
	return text->len > DAYTONA_OUTPUT_HEAD + DAYTONA_OUTPUT_TAIL;
}

/* Names that fit a glob, of the whole tree. */
static int get_search(struct http_request *rq, struct err *e)
{
	json_t *files = json_array();
	struct daytona_ran ran = {.status = 0};
	struct where w;
	const char *p, *end;
	int r = where_open(&w, rq, "path", e);

	daytona_leave(&w.place);
	if (r == 0)
		r = run_tool(rq, json_pack("[s,s,s,s,s]", "find", w.path, "-name", http_query(rq, "pattern"), "-print0"), NULL, &ran, e);
	if (r == 0 && is_cut(&ran.text[0]))
		r = too_many(e);
	for (p = ran.text[0].data, end = p ? p + ran.text[0].len : p; r == 0 && p < end; p += strnlen(p, (size_t)(end - p)) + 1)
		json_array_append_new(files, daytona_text(p, strnlen(p, (size_t)(end - p))));
	daytona_ran_release(&ran);
	if (r == 0)
		return http_reply_json(rq, 0, json_pack("{s:o}", "files", files), e);
	json_decref(files);
	return -1;
}

/* FILE \1 LINE \1 TEXT, a line each; awk is in every image that has a shell, and grep -Z is not. */
#define FIND_PROGRAM "index($0, ENVIRON[\"BERTH_PATTERN\"]) { printf \"%s\\001%d\\001%s\\n\", FILENAME, FNR, $0 }"

static int add_match(json_t *list, const char *p, const char *end)
{
	const char *line = memchr(p, 1, (size_t)(end - p)), *text = line ? memchr(line + 1, 1, (size_t)(end - line - 1)) : NULL;

	if (!text)
		return 0;
	return json_array_append_new(list, json_pack("{s:o,s:i,s:o}", "file", daytona_text(p, (size_t)(line - p)), "line", atoi(line + 1), "content",
						     daytona_text(text + 1, (size_t)(end - text - 1))));
}

/* Lines that have a text, of the whole tree. */
static int get_find(struct http_request *rq, struct err *e)
{
	json_t *found = json_array();
	struct daytona_ran ran = {.status = 0};
	struct where w;
	const char *p, *end;
	int r = where_open(&w, rq, "path", e);

	daytona_leave(&w.place);
	if (r == 0)
		r = run_tool(rq, json_pack("[s,s,s,s,s,s,s,s,s]", "find", w.path, "-type", "f", "-exec", "awk", FIND_PROGRAM, "{}", "+"),
			     json_pack("[o,s]", json_sprintf("BERTH_PATTERN=%s", http_query(rq, "pattern")), "LC_ALL=C"), &ran, e);
	if (r == 0 && is_cut(&ran.text[0]))
		r = too_many(e);
	for (p = ran.text[0].data, end = p ? p + ran.text[0].len : p; r == 0 && p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		add_match(found, p, nl ? nl : end);
		p = nl ? nl + 1 : end;
	}
	daytona_ran_release(&ran);
	if (r == 0)
		return http_reply_json(rq, 0, found, e);
	json_decref(found);
	return -1;
}

/* ---- what is there -------------------------------------------------------------------------------- */

static json_t *file_info(const struct accounts *a, const char *path, const struct filerecord *r)
{
	const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
	char mode[11], permissions[8], owner[65], group[65], when[CLOCK_UTC];
	json_t *names = daytona_text(name, strlen(name)), *paths = daytona_text(path, strlen(path));

	e2b_mode_text(r->mode, mode);
	snprintf(permissions, sizeof(permissions), "%04o", r->mode & 07777);
	accounts_owner(a, r->uid, owner);
	accounts_group(a, r->gid, group);
	clock_utc((time_t)r->mtime_sec, when);
	return json_pack("{s:o,s:o,s:b,s:I,s:s,s:s,s:s,s:s,s:s,s:s}", "name", names, "path", paths, "isDir",
			 S_ISDIR(S_ISLNK(r->mode) ? r->target : r->mode), "size", (json_int_t)r->size, "modTime", when, "modifiedAt", when, "mode",
			 mode, "permissions", permissions, "owner", owner, "group", group);
}

static int get_daytona_info(struct http_request *rq, struct err *e)
{
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct accounts accounts;
	struct filerecord record;
	struct where w;
	const char *argv[] = {"stat", "", w.path, NULL}, *at;
	json_t *info = NULL;
	int r = where_open(&w, rq, "path", e);

	accounts_init(&accounts);
	if (r == 0)
		r = daytona_file(&w.place, argv, &text, e);
	at = text.data;
	if (r == 0 && filerecord_next(&at, text.data + text.len, &record, e) < 1)
		r = err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	if (r == 0) {
		accounts_read(&accounts, w.place.box.sock);
		info = file_info(&accounts, w.path, &record);
	}
	accounts_release(&accounts);
	daytona_leave(&w.place);
	return r < 0 ? -1 : http_reply_json(rq, 0, info, e);
}

struct walk {
	struct http_request *rq;
	struct where where;
	struct accounts accounts;
	json_t *list;
	struct http_hold hold;
};

/* Entries of a directory, and of those in it. */
static int walk_into(struct walk *w, const char *path, unsigned depth, struct err *e)
{
	struct listing *l = malloc(sizeof(*l));
	autojson json_t *dirs = json_array(), *one;
	struct filerecord record;
	char child[4096];
	int got;
	size_t i;

	if (!l)
		return err_nomem(e);
	listing_init(l);
	got = listing_start(l, w->rq, w->where.place.box.sock, path, daytona_user(&w->where.place), "", 0, e);
	while (got >= 0 && (got = listing_next(l, w->rq, &record, e)) > 0) {
		if ((size_t)snprintf(child, sizeof(child), "%s/%s", strcmp(path, "/") ? path : "", record.name) >= sizeof(child))
			continue;
		if (json_array_size(w->list) == ENTRIES_MAX)
			got = err_set(e, ERR_LIMIT, "over %d entries; hint: a smaller depth", ENTRIES_MAX);
		else if (http_hold_take(w->rq, &w->hold, ENTRY_BYTES + 2 * strlen(child), e) < 0)
			got = -1;
		else
			json_array_append_new(w->list, file_info(&w->accounts, child, &record));
		if (got > 0 && depth > 1 && S_ISDIR(record.mode))
			json_array_append_new(dirs, json_string(child));
	}
	listing_release(l);
	free(l);
	json_array_foreach(dirs, i, one) {
		struct err why;

		/* a directory that was removed meanwhile, or may not be read, has no entries */
		if (got == 0 && json_is_string(one) && walk_into(w, json_string_value(one), depth - 1, &why) < 0 &&
		    (why.code == ERR_LIMIT || why.code == ERR_NET)) {
			*e = why;
			got = -1;
		}
	}
	one = NULL;
	return got;
}

static int get_daytona_files(struct http_request *rq, struct err *e)
{
	const uint64_t depth = http_query_u64(rq, "depth", 1);
	struct walk w = {.rq = rq, .list = json_array()};
	int r;

	r = daytona_enter(&w.where.place, rq, e);
	accounts_init(&w.accounts);
	if (r == 0)
		r = daytona_path(&w.where.place, http_query(rq, "path") ? http_query(rq, "path") : w.where.place.workdir, w.where.path, e);
	if (r == 0)
		accounts_read(&w.accounts, w.where.place.box.sock);
	if (r == 0)
		r = walk_into(&w, w.where.path, depth < 1 ? 1 : depth > DEPTH_MAX ? DEPTH_MAX : (unsigned)depth, e);
	accounts_release(&w.accounts);
	daytona_leave(&w.where.place);
	http_hold_end(&w.hold);
	if (r == 0)
		return http_reply_json(rq, 0, w.list, e);
	json_decref(w.list);
	return -1;
}

/* ---- bytes in ------------------------------------------------------------------------------------ */

/* A form whose parts are files; "files[0].path" names the place of "files[0].file". */
struct arriving {
	struct where where;
	struct fileflow flow;
	struct formstream form;
	struct http_request *rq;
	int is_bulk, is_file;
	json_t *paths;	/* by number: those whose files have not come; Python's SDK sends all paths first */
	unsigned long number;	/* of the path that comes */
	char name[4097];
	size_t name_n;
	unsigned files;
};

#define PATHS_MAX 1024

static void arriving_free(void *ctx)
{
	struct arriving *a = ctx;

	fileflow_release(&a->flow);
	formstream_release(&a->form);
	json_decref(a->paths);
	daytona_leave(&a->where.place);
	free(a);
}

static int start_file(struct arriving *a, struct err *e)
{
	const char *argv[] = {"write", "p", "", a->where.path, NULL};

	fileflow_release(&a->flow);
	fileflow_init(&a->flow);
	a->is_file = 1;
	return fileflow_start(&a->flow, a->where.place.box.sock, argv, daytona_user(&a->where.place), LONG_MS, 0, e);
}

/* files[N].path, files[N].file */
static int begin_bulk_part(struct arriving *a, const char *name, struct err *e)
{
	const char *path;
	char *end, key[24];
	unsigned long n;

	if (strncmp(name, "files[", 6))
		return err_set(e, ERR_INVALID, "the form has an unknown part '%.60s'; hint: files[0].path and files[0].file", name);
	n = strtoul(name + 6, &end, 10);
	if (!strcmp(end, "].path")) {
		a->name_n = 0;
		a->number = n;
		return json_object_size(a->paths) < PATHS_MAX ? 0 : err_set(e, ERR_LIMIT, "the form has over %d paths before their files", PATHS_MAX);
	}
	snprintf(key, sizeof(key), "%lu", n);
	path = json_string_value(json_object_get(a->paths, key));
	if (strcmp(end, "].file") || !path)
		return err_set(e, ERR_INVALID, "the form has a part '%.60s' without its path before it", name);
	if (daytona_path(&a->where.place, path, a->where.path, e) < 0)
		return -1;
	json_object_del(a->paths, key);
	return start_file(a, e);
}

static int end_path(struct arriving *a, struct err *e)
{
	char key[24];

	snprintf(key, sizeof(key), "%lu", a->number);
	return json_object_set_new(a->paths, key, json_stringn(a->name, a->name_n)) < 0 ? err_set(e, ERR_INVALID, "a path of the form is not UTF-8") : 0;
}

static int begin_file_part(void *ctx, const struct form_part *p, struct err *e)
{
	struct arriving *a = ctx;

	if (a->is_bulk)
		return begin_bulk_part(a, p->name, e);
	if (strcmp(p->name, "file") || a->files)
		return err_set(e, ERR_INVALID, "the form has another part than one named file: '%.60s'", p->name);
	return start_file(a, e);
}

static int take_file_part(void *ctx, const char *data, size_t n, struct err *e)
{
	struct arriving *a = ctx;

	if (a->is_file)
		return fileflow_feed(&a->flow, a->rq, data, n, e);
	if (memchr(data, '\0', n) || a->name_n + n >= sizeof(a->name))
		return err_set(e, ERR_INVALID, "a path of the form is too long or malformed");
	memcpy(a->name + a->name_n, data, n);
	a->name_n += n;
	return 0;
}

static int end_file_part(void *ctx, struct err *e)
{
	struct arriving *a = ctx;
	struct filecounts ignored;
	const int is_file = a->is_file;

	a->is_file = 0;
	a->files += is_file;
	return is_file ? fileflow_end(&a->flow, &ignored, e) : end_path(a, e);
}

static int begin_form(struct http_request *rq, int is_bulk, struct err *e)
{
	struct arriving *a = calloc(1, sizeof(*a));
	char boundary[80];

	if (!a)
		return err_nomem(e);
	fileflow_init(&a->flow);
	box_init(&a->where.place.box, rq);
	a->rq = rq;
	a->is_bulk = is_bulk;
	a->paths = json_object();
	http_set_data(rq, a, arriving_free);
	if ((is_bulk ? daytona_enter(&a->where.place, rq, e) : where_open(&a->where, rq, "path", e)) < 0 ||
	    form_boundary(http_header(rq, "Content-Type"), boundary, e) < 0)
		return -1;
	formstream_init(&a->form, boundary);
	a->form.begin = begin_file_part;
	a->form.data = take_file_part;
	a->form.end = end_file_part;
	a->form.ctx = a;
	return 0;
}

static int begin_bulk_upload(struct http_request *rq, struct err *e)
{
	return begin_form(rq, 1, e);
}

static int begin_one_upload(struct http_request *rq, struct err *e)
{
	return begin_form(rq, 0, e);
}

static int feed_form(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct arriving *a = http_data(rq);
	int r = formstream_feed(&a->form, data, n, e);

	/* before the client hears of it: nothing of the file is there then */
	if (r < 0)
		fileflow_release(&a->flow);
	return r;
}

static int post_form(struct http_request *rq, struct err *e)
{
	struct arriving *a = http_data(rq);

	if (formstream_end(&a->form, e) < 0)
		return -1;
	if (!a->files)
		return err_set(e, ERR_INVALID, "the form has no file");
	return http_reply_json(rq, 0, json_pack("{s:i}", "uploaded", (int)a->files), e);
}

/* ---- bytes out ------------------------------------------------------------------------------------ */

struct sending {
	struct where where;
	struct fileflow flow;
	json_t *paths;	/* NULL: one file, as it is */
	size_t next;
	int is_file;	/* the bytes of one are on their way */
	char boundary[40];
	struct buf out;
	size_t at;
};

static void sending_free(void *ctx)
{
	struct sending *s = ctx;

	fileflow_release(&s->flow);
	buf_release(&s->out);
	json_decref(s->paths);
	daytona_leave(&s->where.place);
	free(s);
}

static struct sending *sending_new(struct http_request *rq, struct err *e)
{
	struct sending *s = calloc(1, sizeof(*s));

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	fileflow_init(&s->flow);
	s->out = BUF_INIT(1 << 16);
	if (daytona_enter(&s->where.place, rq, e) == 0)
		return s;
	sending_free(s);
	return NULL;
}

static int start_sending(struct sending *s, struct http_request *rq, const char *path, struct err *e)
{
	const char *argv[] = {"read", "0", s->where.path, NULL};

	fileflow_release(&s->flow);
	fileflow_init(&s->flow);
	return daytona_path(&s->where.place, path, s->where.path, e) < 0 ||
			       fileflow_start(&s->flow, s->where.place.box.sock, argv, daytona_user(&s->where.place), LONG_MS, 1, e) < 0 ?
		       -1 :
		       fileflow_first(&s->flow, rq, e);
}

static ssize_t read_one_file(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	return fileflow_read(&((struct sending *)ctx)->flow, rq, buf, max);
}

static int get_daytona_download(struct http_request *rq, struct err *e)
{
	struct sending *s = sending_new(rq, e);
	const struct http_stream st = {read_one_file, sending_free, s};

	if (!s)
		return -1;
	if (start_sending(s, rq, http_query(rq, "path"), e) == 0)
		return http_reply_stream(rq, 0, "application/octet-stream", &st, e);
	sending_free(s);
	return -1;
}

/* The head of a part: the file name is the path as it was asked for. */
static int add_part_head(struct sending *s, const char *name, const char *path, const char *type, struct err *e)
{
	const char *p;

	if (buf_addf(&s->out, e, "%s--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"", s->next > 1 ? "\r\n" : "", s->boundary, name) < 0)
		return -1;
	for (p = path; *p; p++)
		if ((strchr("\\\"", *p) && buf_adds(&s->out, "\\", e) < 0) || buf_add(&s->out, p, 1, e) < 0)
			return -1;
	return buf_addf(&s->out, e, "\"\r\nContent-Type: %s\r\n\r\n", type);
}

static int add_error_part(struct sending *s, const char *path, const struct err *why, struct err *e)
{
	autojson json_t *j = daytona_error(why);
	autofree char *text = NULL;

	/* SDKs before 0.170 show the part as it is */
	if (daytona_age(s->where.place.box.rq) != DAYTONA_NEW)
		return add_part_head(s, "error", path, "text/plain", e) < 0 ? -1 : buf_adds(&s->out, why->msg, e);
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	return !text ? err_nomem(e) : add_part_head(s, "error", path, "application/json", e) < 0 ? -1 : buf_adds(&s->out, text, e);
}

/* The next part, or the end: 1; 0 after the end. */
static int next_part(struct sending *s, struct http_request *rq, struct err *e)
{
	const char *path = json_string_value(json_array_get(s->paths, s->next));
	struct err why;

	if (s->next > json_array_size(s->paths))
		return 0;
	s->next++;
	if (!path)
		return buf_addf(&s->out, e, "%s--%s--\r\n", s->next > 1 ? "\r\n" : "", s->boundary) < 0 ? -1 : 1;
	if (start_sending(s, rq, path, &why) < 0)
		return why.code == ERR_NET || add_error_part(s, path, &why, e) < 0 ? -1 : 1;
	s->is_file = 1;
	return add_part_head(s, "file", path, "application/octet-stream", e) < 0 ? -1 : 1;
}

static ssize_t read_parts(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct sending *s = ctx;
	struct err e;
	ssize_t n;

	for (;;) {
		if (s->at < s->out.len) {
			n = (ssize_t)(s->out.len - s->at < max ? s->out.len - s->at : max);
			memcpy(buf, s->out.data + s->at, (size_t)n);
			s->at += (size_t)n;
			return n;
		}
		s->out.len = s->at = 0;
		if (s->is_file && (n = fileflow_more(&s->flow, rq, buf, max, &e)))
			return n;
		s->is_file = 0;
		n = next_part(s, rq, &e);
		if (n <= 0)
			return n;
	}
}

static int post_bulk_download(struct http_request *rq, struct err *e)
{
	json_t *paths = json_object_get(http_json(rq), "paths"), *one;
	struct sending *s;
	struct http_stream st = {read_parts, sending_free, NULL};
	unsigned char raw[16];
	char type[100];
	size_t i;

	json_array_foreach(paths, i, one)
		if (strpbrk(json_string_value(one), "\r\n"))
			return err_set(e, ERR_INVALID, "paths has one with a line break");
	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	s = sending_new(rq, e);
	if (!s)
		return -1;
	hex_format(s->boundary, raw, sizeof(raw));
	s->paths = json_incref(paths);
	st.ctx = s;
	snprintf(type, sizeof(type), "multipart/form-data; boundary=%s", s->boundary);
	return http_reply_stream(rq, 0, type, &st, e);
}

/* ---- a text in files ------------------------------------------------------------------------------- */

static int replace_all(const struct buf *from, const char *pattern, const char *to, struct buf *out, struct err *e)
{
	const char *p = from->len ? from->data : "", *end = p + from->len, *at;
	const size_t n = strlen(pattern);

	while ((at = memmem(p, (size_t)(end - p), pattern, n))) {
		if (buf_add(out, p, (size_t)(at - p), e) < 0 || buf_adds(out, to, e) < 0)
			return -1;
		p = at + n;
	}
	return buf_add(out, p, (size_t)(end - p), e);
}

static int replace_in(struct where *w, struct http_request *rq, const char *file, struct err *e)
{
	const json_t *body = http_json(rq);
	autobuf struct buf from = BUF_INIT(REPLACE_MAX), to = BUF_INIT(REPLACE_MAX);
	const char *argv[] = {"read", "0", w->path, NULL};

	if (daytona_path(&w->place, file, w->path, e) < 0 || daytona_file(&w->place, argv, &from, e) < 0 ||
	    replace_all(&from, json_string_value(json_object_get(body, "pattern")), json_string_value(json_object_get(body, "newValue")), &to, e) < 0)
		return -1;
	return daytona_write(&w->place, rq, w->path, to.len ? to.data : "", to.len, e);
}

static int post_replace(struct http_request *rq, struct err *e)
{
	json_t *files = json_object_get(http_json(rq), "files"), *one, *results = json_array();
	struct http_hold hold = {.bytes = 0};
	struct where w;
	struct err why;
	size_t i;
	int r = daytona_enter(&w.place, rq, e);

	/* both texts of a file */
	if (r == 0)
		r = http_hold_take(rq, &hold, REPLACE_MAX * 2, e);
	if (r == 0)
		json_array_foreach(files, i, one) {
			const char *file = json_string_value(one);
			const int done = replace_in(&w, rq, file, &why) == 0;

			json_array_append_new(results, json_pack("{s:s,s:b,s:s?}", "file", file, "success", done, "error", done ? NULL : why.msg));
		}
	daytona_leave(&w.place);
	http_hold_end(&hold);
	if (r == 0)
		return http_reply_json(rq, 0, results, e);
	json_decref(results);
	return -1;
}

/* ---- where it works ---------------------------------------------------------------------------------- */

static int get_work_dir(struct http_request *rq, struct err *e)
{
	struct daytona_place p;
	int r = daytona_enter(&p, rq, e);

	daytona_leave(&p);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:s}", "dir", p.workdir), e);
}

static int get_home_dir(struct http_request *rq, struct err *e)
{
	struct accounts accounts;
	struct daytona_place p;
	char home[1024];
	int r = daytona_enter(&p, rq, e);

	accounts_init(&accounts);
	if (r == 0)
		r = accounts_home(&accounts, p.box.sock, p.user, home, e);
	accounts_release(&accounts);
	daytona_leave(&p);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:s}", "dir", home), e);
}

static int get_daemon_version(struct http_request *rq, struct err *e)
{
	struct daytona_place p;
	int r = daytona_enter(&p, rq, e);

	daytona_leave(&p);
	return r < 0 ? -1 : http_reply_json(rq, 0, json_pack("{s:s}", "version", BERTH_VERSION), e);
}

#define DOC .response = "Document"
#define ANY .response = "Any"
#define UPLOAD(begins) HTTP_RAW, .begin = begins, .feed = feed_form, DOC

const struct http_route daytona_file_routes[] = {
	DAYTONA_TOOLBOX("GET", "/files", get_daytona_files, "Daytona: entries of a directory", .query = "path:string depth:integer", ANY),
	DAYTONA_TOOLBOX("DELETE", "/files", delete_daytona_file, "Daytona: remove a file or a tree", .query = "path!:string recursive:boolean",
			.status = 204),
	DAYTONA_TOOLBOX("GET", "/files/info", get_daytona_info, "Daytona: describe a file", .query = "path!:string", DOC),
	DAYTONA_TOOLBOX("POST", "/files/folder", post_daytona_folder, "Daytona: make a directory", .query = "path!:string mode!:string", .status = 201),
	DAYTONA_TOOLBOX("POST", "/files/move", post_daytona_move, "Daytona: move a file or directory", .query = "source!:string destination!:string"),
	DAYTONA_TOOLBOX("POST", "/files/permissions", post_permissions, "Daytona: mode and owner of a file",
			.query = "path!:string mode:string owner:string group:string"),
	DAYTONA_TOOLBOX("GET", "/files/find", get_find, "Daytona: lines with a text", .query = "path!:string pattern!:string", ANY),
	DAYTONA_TOOLBOX("GET", "/files/search", get_search, "Daytona: files whose name fits a glob", .query = "path!:string pattern!:string", DOC),
	DAYTONA_TOOLBOX("POST", "/files/replace", post_replace, "Daytona: replace a text in files", HTTP_JSON, .request = "DaytonaReplace", ANY),
	DAYTONA_TOOLBOX("POST", "/files/upload", post_form, "Daytona: write a file", UPLOAD(begin_one_upload), .query = "path!:string"),
	DAYTONA_TOOLBOX("POST", "/files/upload-v2", post_form, "Daytona: write a file", UPLOAD(begin_one_upload), .query = "path!:string"),
	DAYTONA_TOOLBOX("POST", "/files/bulk-upload", post_form, "Daytona: write files", UPLOAD(begin_bulk_upload)),
	DAYTONA_TOOLBOX("GET", "/files/download", get_daytona_download, "Daytona: a file's bytes", .query = "path!:string",
			.type = "application/octet-stream"),
	DAYTONA_TOOLBOX("POST", "/files/bulk-download", post_bulk_download, "Daytona: the bytes of files", HTTP_JSON, .request = "DaytonaPaths",
			.type = "multipart/form-data"),
	DAYTONA_TOOLBOX("GET", "/work-dir", get_work_dir, "Daytona: where commands begin", DOC),
	DAYTONA_TOOLBOX("GET", "/project-dir", get_work_dir, "Daytona: the same, for SDKs of 2025", DOC),
	DAYTONA_TOOLBOX("GET", "/user-home-dir", get_home_dir, "Daytona: the home of its user", DOC),
	DAYTONA_TOOLBOX("GET", "/user-root-dir", get_home_dir, "Daytona: the same, for SDKs of 2025", DOC),
	DAYTONA_TOOLBOX("GET", "/version", get_daemon_version, "Daytona: berthd's version", DOC),
	{NULL},
};
