/* SPDX-License-Identifier: Apache-2.0 */
/* The sandboxes of requests: one that is named, a new one, one that arrives. */
#include "manager/api/box.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/api/once.h"
#include "manager/api/route_manager.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/service/createargs.h"
#include "manager/service/service.h"

/* ---- one sandbox of a request ---- */

#define LOCK_LOOK_MS 5

void box_init(struct box *b, struct http_request *rq)
{
	memset(b, 0, sizeof(*b));
	b->rq = rq;
	b->sock = b->lock_fd = -1;
	b->registry = (struct registry)REGISTRY_INIT;
}

int box_open(struct box *b, struct http_request *rq, struct err *e)
{
	box_init(b, rq);
	api_config(api_of(rq), &b->config);
	return registry_open(&b->registry, &b->config, e);
}

/* Upholds S19 of SECURITY.md. */
int box_allowed(struct box *b, const char *id)
{
	const struct http_who *who = http_who(b->rq);
	autojson json_t *owner = NULL;
	const char *name;
	struct err ignored;

	if (who->only[0] && strcmp(who->only, id))
		return 0;
	if (who->admin)
		return 1;
	owner = registry_load(&b->registry, id, REGISTRY_OWNER, &ignored);
	name = json_string_value(json_object_get(owner, "name"));
	return name && !strcmp(name, who->name);
}

static int is_box_seen(void *ctx, const char *id)
{
	return box_allowed(ctx, id);
}

static int sees_all(const struct http_request *rq)
{
	return http_who(rq)->admin && !http_who(rq)->only[0];
}

/* Upholds S19 of SECURITY.md. */
int box_find(struct box *b, struct http_request *rq, struct err *e)
{
	return box_find_ref(b, rq, http_param(rq, "id"), e);
}

int box_find_ref(struct box *b, struct http_request *rq, const char *ref, struct err *e)
{
	if (box_open(b, rq, e) < 0)
		return -1;
	if (!path_is_name(ref))
		return err_set(e, ERR_NOT_FOUND, "no such sandbox");
	/*
	 * a sandbox that the caller may not see is answered, in every word, like one that does
	 * not exist
	 */
	if (registry_find_seen(&b->registry, ref, sees_all(rq) ? NULL : is_box_seen, b, b->id,
			       &b->kept, e) < 0)
		return e->code != ERR_NOT_FOUND ? -1 :
		       err_set(e, ERR_NOT_FOUND, "no sandbox '%.80s'; hint: GET /v1/sandboxes lists them", ref);
	http_audit(rq, "id", b->id);
	return 0;
}

int box_name_taken(struct http_request *rq, const char *name, struct err *e)
{
	if (e->code == ERR_EXISTS && !http_who(rq)->admin)
		err_set(e, ERR_EXISTS, "the name '%.64s' is taken; hint: another one", name);
	return -1;
}

static int look_again_at_box(struct box *b, struct err *e)
{
	b->kept = !record_is_there(b->registry.sandboxes_fd, b->id);
	if (b->kept && !record_is_there(b->registry.kept_fd, b->id))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s was removed meanwhile", b->id);
	return 0;
}

int box_lock(struct box *b, struct err *e)
{
	b->lock_fd = openat(b->registry.kept_fd, b->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (b->lock_fd < 0)	/* of berth run: no directory, nothing to lock */
		return look_again_at_box(b, e);
	while (flock(b->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "lock sandbox %s", b->id);
		if (http_wait(b->rq, -1, 0, LOCK_LOOK_MS, e) < 0)
			return -1;
	}
	return look_again_at_box(b, e);
}

static int tell_stopped(const struct box *b, struct err *e)
{
	return err_set(e, ERR_BUSY, "sandbox %s is not running; hint: POST /v1/sandboxes/%s/start", b->id, b->id);
}

/* It ran a moment ago. */
static void tell_ended(struct box *b, struct err *e)
{
	b->ended = 1;
	if (record_is_there(b->registry.kept_fd, b->id))
		tell_stopped(b, e);
	else
		wire_ended(e);
}

int box_connect(struct box *b, struct http_request *rq, struct err *e)
{
	return box_connect_ref(b, rq, http_param(rq, "id"), e);
}

int box_connect_ref(struct box *b, struct http_request *rq, const char *ref, struct err *e)
{
	if (box_find_ref(b, rq, ref, e) < 0)
		return -1;
	if (b->kept)
		return tell_stopped(b, e);
	b->sock = keeper_connect(&b->registry, b->id, e);
	if (b->sock < 0 && e->code == ERR_NOT_FOUND)
		tell_ended(b, e);
	return b->sock < 0 ? -1 : 0;
}

void box_close(struct box *b)
{
	fd_close(&b->sock);
	fd_close(&b->lock_fd);
	registry_close(&b->registry);
}

/* A keeper closes a connection when nothing of its sandbox is left, or at once when it serves too many. */
static void tell_closed(struct box *b, struct err *e)
{
	if (record_is_there(b->registry.sandboxes_fd, b->id))
		err_set(e, ERR_LIMIT, "too many requests are under way in sandbox %s", b->id);
	else
		tell_ended(b, e);
}

/* A request sent to a connection that is closed already is answered as if it had arrived. */
static int sent(struct box *b, int result, struct err *e)
{
	if (result < 0 && (e->os_errno == EPIPE || e->os_errno == ECONNRESET))
		tell_closed(b, e);
	return result;
}

/* A delete waits for this request before it uses force (keeper_stop.c). */
static int is_work(const json_t *request)
{
	const enum protocol_op op = protocol_find(request_op(request, ""));

	return op < OP_COUNT && protocol_operations[op].flags & PROTOCOL_WORK;
}

int box_send(struct box *b, json_t *request, const int *fds, size_t count, struct err *e)
{
	if (is_work(request))
		request_set_guard(request, 1);
	return sent(b, wire_request(b->sock, request, fds, count, e), e);
}

json_t *box_receive(struct box *b, int wait_ms, int *fds, size_t max, size_t *ret_count, struct err *e)
{
	json_t *answer = NULL;
	size_t i;
	int r = http_wait(b->rq, b->sock, POLLIN, wait_ms, e);

	*ret_count = 0;
	if (r == 0)
		err_set(e, ERR_TIMEOUT, "the sandbox did not answer within %d ms", wait_ms);
	if (r <= 0)
		return NULL;
	r = wire_recv(b->sock, 0, &answer, fds, max, ret_count, e);
	if (r == 0)
		tell_closed(b, e);
	if (r <= 0)
		return NULL;
	if (wire_check(answer, e) < 0) {
		for (i = 0; i < *ret_count; i++)
			fd_close(&fds[i]);
		*ret_count = 0;
		json_decref(answer);
		return NULL;
	}
	json_object_del(answer, "v");
	return answer;
}

json_t *box_receive_data(struct box *b, int wait_ms, struct buf *data, struct err *e)
{
	int fds[WIRE_FDS_MAX], r = 0;
	size_t n = 0;
	json_t *answer = box_receive(b, wait_ms, fds, WIRE_FDS_MAX, &n, e);

	if (answer && n)
		r = wire_read_data(fds[0], data, e);
	while (n)
		fd_close(&fds[--n]);
	if (r == 0)
		return answer;
	json_decref(answer);
	return NULL;
}

json_t *box_call(struct box *b, json_t *request, const int *fds, size_t count, int *ret_fd, struct err *e)
{
	int got[WIRE_FDS_MAX];
	size_t n = 0, i;
	json_t *answer;

	if (ret_fd)
		*ret_fd = -1;
	if (box_send(b, request, fds, count, e) < 0)
		return NULL;
	answer = box_receive(b, -1, got, WIRE_FDS_MAX, &n, e);
	for (i = 0; i < n; i++) {
		if (i == 0 && ret_fd)
			*ret_fd = got[0];
		else
			fd_close(&got[i]);
	}
	return answer;
}

int box_answer(struct http_request *rq, json_t *request, struct err *e)
{
	json_t *answer = NULL;
	struct box b;

	if (box_connect(&b, rq, e) == 0)
		answer = box_call(&b, request, NULL, 0, NULL, e);
	box_close(&b);
	json_decref(request);
	return answer ? http_reply_json(rq, 0, answer, e) : -1;
}

int box_upload(struct http_request *rq, int *fd, const char *data, size_t n, struct err *e)
{
	while (n && *fd >= 0) {
		ssize_t w = write(*fd, data, n);

		if (w > 0) {
			data += w;
			n -= (size_t)w;
		} else if (errno == EPIPE) {
			fd_close(fd);
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_sys(e, "write to the file helper");
		} else if (http_wait(rq, *fd, POLLOUT, -1, e) < 0) {
			return -1;
		}
	}
	return 0;
}

/* ---- one record ---- */

struct listing {
	struct box *box;
	json_t *list;
};

static int list_box_record(void *ctx, const char *id, int kept, json_t *record)
{
	struct listing *l = ctx;

	if (!box_allowed(l->box, id))
		return 0;
	if (kept)
		record_settle_kept(record);
	return json_array_append(l->list, record);
}

/* The record of one sandbox: a list of all would cost more with each sandbox. */
json_t *boxlist_load(struct box *b, struct err *e)
{
	json_t *record = record_load_kept(&b->registry, b->id, e);
	struct listing l = { .box = b };

	if (record) {
		if (b->kept)
			record_set_status(record, RECORD_STOPPED);
		return record;
	}
	if (e->code == ERR_UNSUPPORTED) /* of a newer format */
		return NULL;
	/* a sandbox of berth run has its record in the run directory only */
	l.list = json_array();
	if (registry_list_one(&b->registry, b->id, list_box_record, &l, e) == 0 &&
	    json_array_size(l.list))
		record = json_incref(json_array_get(l.list, 0));
	else
		err_set(e, ERR_NOT_FOUND, "sandbox %s is gone", b->id);
	json_decref(l.list);
	return record;
}

/* ---- one of its own ---------------------------------------------------------------- */

/* By its id, which only the zygote has that the caller sees now. */
static int find_zygote(struct http_request *rq, const json_t *body, char ret[65], struct err *e)
{
	const char *ref = NULL;
	struct box b;
	int r;

	ret[0] = '\0';
	if (json_get_str(body, "zygote", &ref, "body", e) < 0)
		return -1;
	if (!ref)
		return 0;
	if (json_object_get(body, "image") || json_object_get(body, "command") ||
	    json_object_get(body, "pull"))
		return err_set(e, ERR_INVALID,
			       "\"zygote\" goes without \"image\", \"command\" and \"pull\", as it "
			       "brings its own");
	r = api_find_zygote(&b, rq, ref, e);
	if (r == 0)
		memcpy(ret, b.id, sizeof(b.id));
	box_close(&b);
	return r;
}

static json_t *create_call(struct http_request *rq, const json_t *body, const json_t *own,
			   const char *name, struct err *e)
{
	struct config c;
	char zygote[65];
	struct createargs what = {.own = own,
				  .tenant = http_who(rq)->admin ? NULL : http_who(rq)->name,
				  .zygote = zygote};
	json_t *call;

	api_config(api_of(rq), &c);
	what.image = c.image;
	what.pull = c.registry_pull;
	if (find_zygote(rq, body, zygote, e) < 0 || createargs_read(&what, body, e) < 0)
		return NULL;
	call = createargs_call(&what, e);
	if (name && name[0])
		call_text(call, "name", name);
	return call;
}

static int has_request_mark(const json_t *own)
{
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(own, "mark"), i, one)
		if (label_is_request(json_string_value(one)))
			return 1;
	return 0;
}

json_t *api_create(struct http_request *rq, const json_t *body, const json_t *own, struct err *e)
{
	const char *name = NULL, *id;
	json_t *made, *call;

	if (json_get_str(body, "name", &name, "body", e) < 0 ||
	    !(call = create_call(rq, body, own, name, e)))
		return NULL;
	made = spawn_json(rq, call, 1, e);
	if (!made && name)
		box_name_taken(rq, name, e);
	id = json_string_value(json_object_get(made, "id"));
	if (!id) {
		if (made)
			err_set(e, ERR_INTERNAL, "berth create gave no id");
		json_decref(made);
		return NULL;
	}
	http_audit(rq, "id", id);
	/* no client would ever learn its id */
	if (!has_request_mark(own)) {
		if (http_wait(rq, -1, 0, 0, e) < 0) {
			api_forget(rq, id);
			json_decref(made);
			return NULL;
		}
		http_undo_unsent(rq, api_forget, id);
	}
	atomic_fetch_add(&api_of(rq)->creates, 1);
	return made;
}

/* ---- one that the manager keeps -------------------------------------------------- */

static const char *const manager_members[] = {
	"session", "sandbox_type", "storage_path", "auto_stop", "auto_archive", "auto_delete",
};

static int is_managers(const json_t *body)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(manager_members); i++)
		if (json_object_get(body, manager_members[i]))
			return 1;
	return 0;
}

/* The arguments of service_create(), where a session is a part of "meta". */
static json_t *manager_args(const json_t *body)
{
	json_t *args = json_copy((json_t *)(size_t)body),
	       *session = json_object_get(args, "session");

	if (session)
		json_object_set_new(args, "meta", json_pack("{s:O}", "session_ctx_id", session));
	json_object_del(args, "session");
	return args;
}

static int make_managed(struct http_request *rq, const struct once *o, struct once_made *made, struct err *e)
{
	struct service_who who = manager_who_once(rq, o);
	autojson json_t *args = manager_args(http_json(rq));

	if (!manager_of(rq))
		return err_set(e, ERR_UNSUPPORTED, "this berthd serves without its manager");
	if (!args)
		return err_nomem(e);
	if (service_create(manager_of(rq), &who, args, 0, made->name, e) < 0)
		return -1;
	manager_undo_unsent(rq, o, made->name);
	return 0;
}

static int reply_managed(struct http_request *rq, const char *name, struct err *e)
{
	const char *given = json_string_value(json_object_get(http_json(rq), "name"));
	struct service_who who = manager_who(rq);
	autojson json_t *info = NULL;

	http_audit(rq, "sandbox", name);
	info = service_info(manager_of(rq), &who, name, e);
	return info ? http_reply_json(rq, 0,
				      json_pack("{s:O,s:s,s:O}", "id",
						json_object_get(info, "container_id"), "name",
						given ? given : name, "session",
						json_object_get(info, "session_ctx_id")),
				      e) :
		      -1;
}

static int make_plain(struct http_request *rq, const struct once *o, struct once_made *made, struct err *e)
{
	autojson json_t *own = o->word[0] ? json_pack("{s:[o]}", "mark", json_sprintf(LABEL_REQUEST "=%s", o->word)) : NULL;
	autojson json_t *answer = api_create(rq, http_json(rq), own, e);
	const char *name = json_string_value(json_object_get(answer, "name"));

	if (!answer)
		return -1;
	snprintf(made->id, sizeof(made->id), "%s", json_string_value(json_object_get(answer, "id")));
	snprintf(made->name, sizeof(made->name), "%s", name ? name : "");
	return http_reply_json(rq, 0, json_incref(answer), e);
}

/* Nothing is made for a request whose key came before. */
static int reply_once_more(struct http_request *rq, const struct once_made *made, struct err *e)
{
	int r = made->id[0] ? http_reply_json(rq, 0, json_pack("{s:s,s:s}", "id", made->id, "name", made->name), e) :
			      reply_managed(rq, made->name, e);

	return r < 0 ? -1 : once_replayed(rq, e);
}

int boxcreate_post(struct http_request *rq, struct err *e)
{
	const int managed = is_managers(http_json(rq));
	struct once_made made = { .id = "" };
	struct once o;
	int r;

	if (managed && json_object_get(http_json(rq), "zygote"))
		return err_set(e, ERR_INVALID,
			       "a sandbox of a session has the zygote of its type; hint: "
			       "[pool.NAME] zygote, or leave the session out");
	r = once_begin(&o, rq, &made, e);
	if (r != 0)
		return r < 0 ? -1 : reply_once_more(rq, &made, e);
	r = managed ? make_managed(rq, &o, &made, e) : make_plain(rq, &o, &made, e);
	once_end(&o, r == 0 ? &made : NULL);
	return r == 0 && managed ? reply_managed(rq, made.name, e) : r;
}

/* ---- one that arrives as a file ---- */

#define ANSWER_MAX 65536

struct arrival {
	struct http_request *rq; /* which lasts as long */
	struct called program;
	int in; /* our end of its stdin */
	char *name; /* of the sandbox, or NULL */
};

static json_t *finish_arrival(struct arrival *a, struct err *e)
{
	autobuf struct buf out = BUF_INIT(ANSWER_MAX);

	fd_close(&a->in);
	if (spawn_finish(a->rq, &a->program, 1, &out, e) < 0)
		return NULL;
	return json_parse(out.data ? out.data : "", out.len, ANSWER_MAX, "berth's answer", e);
}

/* No client would ever learn its id. */
static void forget_again(struct http_request *rq, const json_t *made)
{
	const char *id = json_string_value(json_object_get(made, "id"));

	if (id)
		api_forget(rq, id);
}

/* The client has gone, or was told an error; the program ends by itself, and leaves nothing. */
static void arrival_free(void *data)
{
	struct arrival *a = data;
	struct err ignored;

	if (a->program.pid > 0) {
		autojson json_t *made = finish_arrival(a, &ignored);

		forget_again(a->rq, made);
	}
	fd_close(&a->in);
	free(a->name);
	free(a);
}

static int start_arrival(struct http_request *rq, struct arrival *a, const struct arrival_options *o,
		 struct err *e)
{
	json_t *call;
	int p[2], r;

	if (o->name && !(a->name = strdup(o->name)))
		return err_nomem(e);
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	a->in = p[1];
	call = call_of("checkpoint import", "-", NULL);
	spawn_tenant(rq, call);
	call_text(call, "name", o->name);
	call_set(call, "trust", json_boolean(o->trust));
	call_set(call, "drop", json_boolean(o->drop));
	call_set(call, "no-start", json_boolean(o->no_start));
	r = spawn_start(rq, call, p[0], &a->program, e);
	close(p[0]);
	return r == 0 && fcntl(a->in, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : r;
}

int arrival_begin(struct http_request *rq, const struct arrival_options *o, struct err *e)
{
	struct arrival *a = calloc(1, sizeof(*a));

	if (!a)
		return err_nomem(e);
	*a = (struct arrival){ .rq = rq, .program = CALLED_NONE, .in = -1 };
	http_set_data(rq, a, arrival_free);
	return start_arrival(rq, a, o, e);
}

/* The program reads up to the end of the body, unless it refuses an earlier part. */
static int end_early(struct arrival *a, struct err *e)
{
	autojson json_t *made = finish_arrival(a, e);

	if (!made)
		return -1;
	forget_again(a->rq, made);
	return err_set(e, ERR_INTERNAL, "berth checkpoint import did not read all of the body");
}

int arrival_feed(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct arrival *a = http_data(rq);

	while (n) {
		const ssize_t w = write(a->in, data, n);

		if (w > 0) {
			data += w;
			n -= (size_t)w;
		} else if (errno == EPIPE) {
			return end_early(a, e);
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_sys(e, "hand on the checkpoint's file");
		} else if (http_wait(rq, a->in, POLLOUT, -1, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int arrival_end(struct http_request *rq, struct err *e)
{
	struct arrival *a = http_data(rq);
	json_t *made = finish_arrival(a, e);
	const char *id;

	if (!made) {
		if (a->name)
			box_name_taken(rq, a->name, e);
		return -1;
	}
	if (http_wait(rq, -1, 0, 0, e) < 0) {
		forget_again(rq, made);
		json_decref(made);
		return -1;
	}
	id = json_string_value(json_object_get(made, "id"));
	http_audit(rq, "id", id ? id : "");
	atomic_fetch_add(&api_of(rq)->creates, 1);
	return http_reply_json(rq, 0, made, e);
}
