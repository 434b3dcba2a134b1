/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients of a keeper: connections, requests and answers. The operations are in their
 * handlers.
 */
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/keeper_state.h"

static void drop_client(struct keeper *k, int i)
{
	struct err ignored;

	if (k->clients[i].fd < 0)
		return;
	if (k->held_by == i + 1) {
		k->held_by = 0;
		if (!k->paused && !k->checkpoint.stands)
			cgroup_freeze(&k->sandbox.cgroup, 0, &ignored);
	}
	/* the last client that works on files sees its end when nothing of the keeper is left */
	if (!keeper_files_left(k, i))
		fd_close(&k->clients[i].fd);
	k->rest = 0;
	k->clients[i].waits = 0;
	k->clients[i].guarded = k->clients[i].waits_health = k->clients[i].attends = 0;
	keeper_follow_release(&k->clients[i]);
	keeper_command_client_gone(k, i);
	keeper_code_client_gone(k, i);
	keeper_checkpoint_client_gone(k, i);
	session_client_gone(k, i);
}

void keeper_answer(struct keeper *k, int client, json_t *msg, const int *fds, size_t count)
{
	struct err ignored;

	if (client >= 0 && k->clients[client].fd >= 0 &&
	    wire_send(k->clients[client].fd, msg, fds, count, &ignored) < 0)
		shutdown(k->clients[client].fd, SHUT_RDWR); /* the loop sees it close */
	json_decref(msg);
}

void keeper_answer_verdict(struct keeper *k, int client, json_t *msg, const struct verdict *v,
			   const int *fds, size_t count)
{
	autobuf struct buf b = BUF_INIT(4096);
	struct err ignored;

	/* written as text: an object would take as long as all the rest of the answer */
	if (client >= 0 && k->clients[client].fd >= 0 &&
	    (buf_reserve(&b, 500, &ignored) < 0 || buf_adds(&b, ",\"verdict\":", &ignored) < 0 ||
	     verdict_json(v, &b, &ignored) < 0 || buf_adds(&b, "}", &ignored) < 0 ||
	     wire_send_with(k->clients[client].fd, msg, b.data, b.len, fds, count, &ignored) < 0))
		shutdown(k->clients[client].fd, SHUT_RDWR);
	json_decref(msg);
}

void keeper_answer_error(struct keeper *k, int client, const struct err *e)
{
	keeper_answer(k, client, wire_error(e), NULL, 0);
}

/*
 * Accepts only root, or the user who started us; the path in a 0700 directory implies that already
 * (CVE-2020-15257).
 */
static int peer_is_ours(int fd)
{
	struct ucred c;
	socklen_t n = sizeof(c);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) &&
	       (c.uid == 0 || c.uid == geteuid());
}

void keeper_clients_begin(struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++)
		k->clients[i].fd = -1;
}

static int err_places(const struct keeper *k, struct err *e)
{
	return err_set(e, ERR_LIMIT, "sandbox %s serves %d clients at once, and all of them are there; hint: try again when one has ended",
		       k->claim.id, KEEPER_PLACES);
}

/* Says why, because a client that is only shut out takes the sandbox for ended. */
static void refuse_client(const struct keeper *k, int fd)
{
	autojson json_t *answer = NULL;
	struct err e;

	err_places(k, &e);
	answer = wire_error(&e);
	(void)wire_send(fd, answer, NULL, 0, &e);
}

/* A free place, else the next of the last places whose client has not asked for the end; -1. */
static int find_place(struct keeper *k)
{
	int i, n;

	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd < 0)
			return i;
	for (n = 0; n < KEEPER_CLIENTS - KEEPER_PLACES; n++) {
		i = KEEPER_PLACES + (int)(k->last_place++ % (KEEPER_CLIENTS - KEEPER_PLACES));
		if (k->clients[i].ends)
			continue;
		refuse_client(k, k->clients[i].fd);
		drop_client(k, i);
		if (k->clients[i].fd < 0)
			return i;
	}
	return -1;
}

void keeper_accept(struct keeper *k)
{
	/* a client that does not read its answers must not stop the others */
	const struct timeval limit = { .tv_usec = 100000 };
	int fd = accept4(k->listen_fd, NULL, NULL, SOCK_CLOEXEC), i;

	if (fd < 0)
		return;
	i = peer_is_ours(fd) ? find_place(k) : -1;
	if (i >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		k->clients[i].fd = fd;
		k->clients[i].ends = 0;
		return;
	}
	if (peer_is_ours(fd))
		refuse_client(k, fd);
	close(fd);
}

/* ---- requests ------------------------------------------------------------------ */

static keeper_handler *const handlers[OP_COUNT] = {
#define X(name, ...) keeper_op_##name,
	PROTOCOL_OPERATIONS(X)
#undef X
};

/* An operation that init or a process of the sandbox serves would wait while they are frozen. */
static int check_operation_allowed(const struct keeper *k, unsigned flags, struct err *e)
{
	if (!(flags & PROTOCOL_RUNNING))
		return 0;
	if (k->stop_at_ms || k->drain_until_ms)
		return err_set(e, ERR_BUSY, "sandbox %s is stopping", k->claim.id);
	if (k->paused)
		return err_set(e, ERR_BUSY, "sandbox %s is paused; hint: berth resume %s",
			       k->claim.id, k->claim.id);
	return 0;
}

static int dispatch_request(struct keeper *k, int i, const json_t *json, const int *fds, size_t count,
		    struct err *e)
{
	struct keeper_request rq = { .client = i, .json = json, .fds = fds, .count = count };
	unsigned flags;

	rq.op = protocol_check(json, count, e);
	if (rq.op == OP_COUNT || keeper_files_allows(k, rq.op, e) < 0)
		return -1;
	flags = protocol_operations[rq.op].flags;
	if (i >= KEEPER_PLACES && !(flags & PROTOCOL_LAST))
		return err_places(k, e);
	k->clients[i].ends |= rq.op == OP_stop;
	if (rq.op != OP_ping)
		keeper_idle_move(k);
	if (request_guard(json))
		k->clients[i].guarded = 1;
	if (flags & (PROTOCOL_RUNNING | PROTOCOL_WAKES) && keeper_life_wake(k, e) < 0)
		return -1;
	if (check_operation_allowed(k, flags, e) < 0)
		return -1;
	if (rq.op == OP_wait && keeper_main_awaits(k, i, request_command(json, NULL)))
		return 0;
	if (flags & PROTOCOL_COMMAND || (flags & PROTOCOL_EITHER && request_command(json, NULL))) {
		rq.command = keeper_command_of(k, json, e);
		if (!rq.command)
			return -1;
	}
	if (rq.op == OP_exec || rq.op == OP_sh) {
		int waits = keeper_checkpoint_before(k, &rq, e);

		if (waits)
			return waits < 0 ? -1 : 0;
	}
	return handlers[rq.op](k, &rq, e);
}

int keeper_serve_again(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	if (check_operation_allowed(k, protocol_operations[rq->op].flags, e) < 0)
		return -1;
	return handlers[rq->op](k, rq, e);
}

/* A long request is {"op":...,"data":true}; its members are in a memfd, the last descriptor. */
static int unfold_request(json_t *rq, const int *fds, size_t *count, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	autojson json_t *more = NULL;

	if (!json_is_true(json_object_get(rq, "data")))
		return 0;
	if (!*count)
		return err_set(e, ERR_INVALID, "\"data\" without a descriptor");
	if (wire_read_data(fds[--*count], &b, e) < 0)
		return -1;
	more = json_parse(b.data ? b.data : "", b.len, WIRE_DATA_MAX, "request", e);
	if (!more)
		return -1;
	return json_object_update_missing(rq, more) < 0 ? err_nomem(e) : 0;
}

void keeper_serve_client(struct keeper *k, int i)
{
	int fds[WIRE_FDS_MAX];
	json_t *rq = NULL;
	struct err e = { 0 };
	size_t count, all, j;
	int r = wire_recv(k->clients[i].fd, 0, &rq, fds, WIRE_FDS_MAX, &count, &e);

	if (r <= 0) {
		if (r < 0 && e.code != ERR_TIMEOUT)
			keeper_answer_error(k, i, &e);
		if (r == 0 || e.code != ERR_TIMEOUT)
			drop_client(k, i);
		return;
	}
	all = count;
	if (unfold_request(rq, fds, &count, &e) < 0 || dispatch_request(k, i, rq, fds, count, &e) < 0)
		keeper_answer_error(k, i, &e);
	json_decref(rq);
	for (j = 0; j < all; j++)
		close(fds[j]);
}
