/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/keeper/wire.h"

void conn_drop(struct stdio *st, int i)
{
	fd_close(&st->conns[i].fd);
	st->conns[i].used = 0;
}

static int idle_conn(struct stdio *st, const char *sandbox)
{
	int i;

	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++)
		if (st->conns[i].fd >= 0 && !st->conns[i].used && !strcmp(st->conns[i].sandbox, sandbox))
			return i;
	return -1;
}

static int count_conns(const struct stdio *st, const char *sandbox)
{
	int i, n = 0;

	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++)
		n += st->conns[i].fd >= 0 && !strcmp(st->conns[i].sandbox, sandbox);
	return n;
}

static int free_conn(struct stdio *st, struct err *e)
{
	int i, idle = -1;

	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++) {
		if (st->conns[i].fd < 0)
			return i;
		if (!st->conns[i].used)
			idle = i;
	}
	if (idle < 0)
		return err_set(e, ERR_LIMIT, "%d connections are in use", STDIO_CONNECTIONS_MAX);
	conn_drop(st, idle);
	return idle;
}

int conn_add(struct stdio *st, int fd, struct err *e)
{
	int i = free_conn(st, e);

	if (i < 0) {
		close(fd);
		return -1;
	}
	st->conns[i] = (struct stdio_conn){ .fd = fd, .used = 1 };
	return i;
}

/* A connection to the sandbox that ref names: an open one by its id at once, else looked up. */
int conn_take(struct stdio *st, const char *ref, struct err *e)
{
	int i = idle_conn(st, ref);

	if (i < 0) {
		if (sandbox_ref_find(&st->ref, ref, e) < 0)
			return -1;
		i = idle_conn(st, st->ref.id);
	}
	if (i < 0) {
		if (count_conns(st, st->ref.id) >= STDIO_SANDBOX_MAX)
			return err_set(e, ERR_LIMIT, "%d requests are under way in sandbox %s", STDIO_SANDBOX_MAX, st->ref.id);
		i = free_conn(st, e);
		if (i < 0)
			return -1;
		st->conns[i].fd = keeper_connect(&st->ref.registry, st->ref.id, e);
		if (st->conns[i].fd < 0)
			return -1;
		memcpy(st->conns[i].sandbox, st->ref.id, sizeof(st->ref.id));
	}
	st->conns[i].used = 1;
	return i;
}

int conn_send(struct stdio *st, const struct stdio_request *r, json_t *rq, const int *fds, size_t count, struct err *e)
{
	return wire_request(st->conns[r->conn].fd, rq, fds, count, e);
}
