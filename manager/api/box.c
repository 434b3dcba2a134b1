/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

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

static int is_seen(void *ctx, const char *id)
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
	if (registry_find_seen(&b->registry, ref, sees_all(rq) ? NULL : is_seen, b, b->id,
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

static int look_again(struct box *b, struct err *e)
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
		return look_again(b, e);
	while (flock(b->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "lock sandbox %s", b->id);
		if (http_wait(b->rq, -1, 0, LOCK_LOOK_MS, e) < 0)
			return -1;
	}
	return look_again(b, e);
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
