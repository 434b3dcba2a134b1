/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side: how a keeper is reached and asked. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "runtime/kernel/fdpass.h"


#define CLEAR_MS 5000 /* longest wait for the processes of a sandbox whose keeper was killed */

int keeper_connect(struct registry *r, const char *id, struct err *e)
{
	return keeper_connect_within(r, id, KEEPER_CONNECT_MS, e);
}

static int tell_not_running(struct registry *r, const char *id, struct err *e)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/spec.json", id);
	if (path_has(r->kept_fd, path))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s is not running; hint: berth start %s",
			       id, id);
	if (path_has(r->kept_fd, id))
		return err_set(e, ERR_INVALID,
			       "sandbox %s was kept by berth run, when its command had ended, and "
			       "cannot be started; "
			       "hint: berth create makes sandboxes that can",
			       id);
	return err_set(e, ERR_NOT_FOUND, "sandbox %s is gone; hint: berth ps -a", id);
}

int keeper_not_running(struct registry *r, const char *id, struct err *e)
{
	tell_not_running(r, id, e);
	e->os_errno = ESRCH;
	return -1;
}

/* A live sandbox without a keeper. */
static int has_no_keeper(struct registry *r, const char *id, struct err *e)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/" REGISTRY_ZYGOTE_FILE, id);
	if (path_has(r->sandboxes_fd, path))
		return err_set(e, ERR_UNSUPPORTED,
			       "sandbox %s is a zygote, in which nothing but its forks runs; hint: "
			       "berth run --zygote %s CODE, or berth zygote rm %s",
			       id, id, id);
	return err_set(e, ERR_BUSY,
		       "sandbox %s belongs to a berth run, and runs its one command only; "
		       "hint: berth kill %s, or berth rm -f, ends it",
		       id, id);
}

/* errno says what connect(2) did. */
static int unreachable(struct registry *r, const char *id, unsigned ms, struct err *e)
{
	const int why = errno;

	if (why == EAGAIN)
		return err_set(
			e, ERR_TIMEOUT,
			"the keeper of sandbox %s does not answer; hint: berth kill %s ends it", id,
			id);
	/* killed from outside: no process has reported that or cleaned up */
	if (registry_clear_dead(r, id, ms < CLEAR_MS ? ms : CLEAR_MS, 0, e) < 0)
		return err_wrap(e, "its keeper has ended");
	if (!path_has(r->sandboxes_fd, id))
		return keeper_not_running(r, id, e);
	if (keeper_is_run(r, id))
		return has_no_keeper(r, id, e);
	if (why == ENOENT || why == ECONNREFUSED) {
		err_set(e, ERR_NOT_FOUND,
			"sandbox %s is not running: it begins or ends at this moment; hint: "
			"berth ps -a",
			id);
		e->os_errno = ESRCH;
		return -1;
	}
	errno = why;
	return err_code_sys(e, ERR_NOT_FOUND, "reach the keeper of sandbox %s", id);
}

int keeper_connect_within(struct registry *r, const char *id, unsigned ms, struct err *e)
{
	/* a full backlog blocks connect(2), and a full socket a request, as long as this */
	const struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int dir =
		openat(r->sandboxes_fd, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (dir < 0)
		return keeper_not_running(r, id, e);
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" KEEPER_SOCKET, dir);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
		return err_sys(e, "make a socket");
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return unreachable(r, id, ms, e);
	return take_fd(&fd);
}

json_t *keeper_take_answer(int sock, int *ret_fd, struct err *e)
{
	json_t *answer = NULL;
	int got[WIRE_FDS_MAX], r;
	size_t n = 0, i;

	if (ret_fd)
		*ret_fd = -1;
	r = wire_recv(sock, -1, &answer, got, WIRE_FDS_MAX, &n, e);
	for (i = 0; i < n; i++) {
		if (i == 0 && ret_fd && r == 1)
			*ret_fd = got[0];
		else
			close(got[i]);
	}
	if (r == 0)
		wire_ended(e);
	if (r != 1)
		return NULL;
	if (wire_check(answer, e) < 0) {
		json_decref(answer);
		if (ret_fd)
			fd_close(ret_fd);
		return NULL;
	}
	return answer;
}

json_t *keeper_call(int sock, json_t *request, const int *fds, size_t count, int *ret_fd,
		    struct err *e)
{
	if (ret_fd)
		*ret_fd = -1;
	return wire_request(sock, request, fds, count, e) < 0 ? NULL :
								keeper_take_answer(sock, ret_fd, e);
}

/* ---- its end --------------------------------------------------------------------------------- */

static uint64_t stop_grace_ms(const struct stop_request *how)
{
	return how->own_grace || how->grace_ms > KEEPER_GRACE_MAX_MS ? KEEPER_GRACE_MAX_MS : how->grace_ms;
}

json_t *keeper_stop_request(const struct stop_request *how)
{
	json_t *rq = protocol_request(OP_stop);

	if (!how->own_grace)
		request_set_grace_ms(rq, stop_grace_ms(how));
	if (how->drain_ms)
		request_set_drain_ms(rq, how->drain_ms);
	if (how->signo)
		request_set_signal(rq, how->signo);
	if (how->stays)
		request_set_stays(rq, 1);
	return rq;
}

int keeper_stop_wait_ms(const struct stop_request *how)
{
	const uint64_t grace_ms = stop_grace_ms(how);

	return (int)how->drain_ms + (grace_ms ? 30000 + (int)grace_ms : KEEPER_STUCK_MS);
}

int keeper_ask_to_stop(int sock, const struct stop_request *how, struct err *e)
{
	autojson json_t *rq = keeper_stop_request(how);
	json_t *answer = NULL;
	size_t n;
	int got;

	if (wire_request(sock, rq, NULL, 0, e) < 0)
		return -1;
	while ((got = wire_recv(sock, keeper_stop_wait_ms(how), &answer, NULL, 0, &n, e)) > 0) {
		const int refused = wire_check(answer, e);

		json_decref(answer);
		if (refused < 0)
			return -1;
	}
	return got < 0 && e->code == ERR_TIMEOUT ? -1 : 0;
}

/* What an answer to ping tells; an answer with an error is that of a keeper on its way out. */
static enum keeper_doing doing_of(const json_t *answer)
{
	const char *state = json_string_value(json_object_get(answer, "state"));

	if (!state || json_is_true(json_object_get(answer, "stopping")))
		return KEEPER_ENDS;
	return strcmp(state, "paused") ? KEEPER_RUNS : KEEPER_PAUSED;
}

enum keeper_doing keeper_ask_doing(struct registry *r, const char *id, int *ret_sock, struct err *e)
{
	autoclose int sock = keeper_connect_within(r, id, KEEPER_STUCK_MS, e);
	autojson json_t *ping = protocol_request(OP_ping), *now = NULL;
	enum keeper_doing doing;
	size_t n;
	int got;

	if (ret_sock)
		*ret_sock = -1;
	if (sock < 0 && (e->code == ERR_BUSY || e->code == ERR_UNSUPPORTED))
		return KEEPER_RUNS; /* a run or a zygote, which have no keeper */
	if (sock < 0)
		return e->code == ERR_NOT_FOUND ? KEEPER_ENDS : KEEPER_FAILS;
	got = wire_request(sock, ping, NULL, 0, e) < 0 ? 0 : wire_recv(sock, KEEPER_STUCK_MS, &now, NULL, 0, &n, e);
	if (got < 0) {
		if (e->code == ERR_TIMEOUT)
			err_set(e, ERR_TIMEOUT, "the keeper of sandbox %s does not answer; hint: berth kill %s ends it", id, id);
		return KEEPER_FAILS;
	}
	doing = doing_of(now);
	if (doing == KEEPER_ENDS && ret_sock)
		*ret_sock = take_fd(&sock);
	return doing;
}

int keeper_await_stop(struct registry *r, const char *id, int ms, struct err *e)
{
	const uint64_t until = clock_ms() + (uint64_t)ms;
	autoclose int sock = -1;
	const enum keeper_doing doing = keeper_ask_doing(r, id, &sock, e);
	json_t *more = NULL;
	size_t n;
	int got;

	if (doing != KEEPER_ENDS)
		return doing == KEEPER_FAILS ? -1 : 0;
	if (sock < 0)
		return 1;
	do {
		const uint64_t now = clock_ms();

		got = wire_recv(sock, now < until ? (int)(until - now) : 0, &more, NULL, 0, &n, e);
		if (got > 0)
			json_decref(more);
	} while (got > 0);
	if (got < 0 && e->code == ERR_TIMEOUT)
		return err_set(e, ERR_BUSY, "sandbox %s is stopping; hint: try again, or berth kill %s", id, id);
	return 1;
}
