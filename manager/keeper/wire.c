/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/wire.h"

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
#include "runtime/kernel/fdpass.h"

/* ---- packets ---- */

/* "v" is a digit, so that every prefix has one length. */
#define PREFIX(version) "{\"v\":" version ","
#define PREFIX_LEN (sizeof(PREFIX("1")) - 1)
_Static_assert(PROTOCOL_VERSION < 10, "the version is one digit");

int wire_ended(struct err *e)
{
	err_set(e, ERR_NOT_FOUND, "the sandbox ended");
	e->os_errno = ESRCH;
	return -1;
}

/* text: an object, with its braces; rest stands for the last of them. */
static int wire_send_text(int sock, unsigned version, const char *text, size_t len, const char *rest, size_t n, const int *fds, size_t count,
		     struct err *e)
{
	char prefix[] = PREFIX("1");
	struct iovec part[3];

	prefix[PREFIX_LEN - 2] = (char)('0' + version);
	/* without its braces: the version is first, and rest ends the object */
	len -= 2;
	if (PREFIX_LEN + len + n > WIRE_MAX)
		return err_set(e, ERR_LIMIT, "the message has %zu bytes, the limit is %d", PREFIX_LEN + len + n, WIRE_MAX);
	/* without members there is no comma */
	part[0] = (struct iovec){ prefix, PREFIX_LEN - !len };
	part[1] = (struct iovec){ (void *)(size_t)(text + 1), len };
	part[2] = (struct iovec){ (void *)(size_t)rest, n };
	if (fdpass_sendv(sock, part, ARRAY_LEN(part), fds, count) < 0) {
		const int why = errno;

		if (why != EPIPE && why != ECONNRESET)
			return err_sys(e, "send to the other side");
		wire_ended(e);
		e->os_errno = why;	/* some callers tell a stop from an end by it */
		return -1;
	}
	return 0;
}

int wire_send_with(int sock, json_t *msg, const char *rest, size_t n, const int *fds, size_t count, struct err *e)
{
	autofree char *own = NULL;
	char room[2048];
	size_t len;
	const char *text = json_text(msg, room, sizeof(room), &own, &len);

	if (!text)
		return err_set(e, ERR_INVALID, "the text is not valid UTF-8");
	return wire_send_text(sock, WIRE_VERSION, text, len, rest, n, fds, count, e);
}

int wire_send(int sock, json_t *msg, const int *fds, size_t count, struct err *e)
{
	return wire_send_with(sock, msg, "}", 1, fds, count, e);
}

/* In a memory file, which is the last descriptor, with {"op":...,"data":true} for its packet. */
static int send_long(int sock, const json_t *rq, const char *text, size_t len, const int *fds, size_t count, struct err *e)
{
	autoclose int data = wire_data(text, len, e);
	int all[WIRE_FDS_MAX], n;
	char packet[100];

	if (data < 0)
		return -1;
	if (count >= WIRE_FDS_MAX)
		return err_set(e, ERR_INTERNAL, "a long request with %zu descriptors", count);
	if (count)
		memcpy(all, fds, count * sizeof(*all));
	all[count] = data;
	n = snprintf(packet, sizeof(packet), "{\"op\":\"%s\",\"data\":true}", request_op(rq, ""));
	if (n >= (int)sizeof(packet))
		return err_set(e, ERR_INVALID, "unknown operation '%.40s'", request_op(rq, ""));
	return wire_send_text(sock, protocol_needs(rq), packet, (size_t)n, "}", 1, all, count + 1, e);
}

int wire_request(int sock, const json_t *rq, const int *fds, size_t count, struct err *e)
{
	autofree char *own = NULL;
	char room[2048];
	size_t len;
	const char *text = json_text(rq, room, sizeof(room), &own, &len);

	if (!text || !request_op(rq, NULL))
		return err_set(e, ERR_INVALID, "the request holds text that is not valid UTF-8");
	if (len > WIRE_MAX - PREFIX_LEN)
		return send_long(sock, rq, text, len, fds, count, e);
	return wire_send_text(sock, protocol_needs(rq), text, len, "}", 1, fds, count, e);
}

int wire_recv_text(int sock, int wait_ms, char *buf, size_t *ret_len, int *fds, size_t max, size_t *ret_count, struct err *e)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	ssize_t n;
	int r;

	*ret_count = 0;
	do
		r = wait_ms ? poll(&p, 1, wait_ms) : 1;
	while (r < 0 && errno == EINTR);
	n = r ? fdpass_recv_flags(sock, buf, WIRE_MAX + 1, fds, max, ret_count, wait_ms ? 0 : MSG_DONTWAIT) : 0;
	if (r == 0 || (n < 0 && errno == EAGAIN && !wait_ms))
		return err_set(e, ERR_TIMEOUT, "no answer within %d ms", wait_ms);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	if (n < 0)
		return err_sys(e, "receive from the other side");
	*ret_len = (size_t)n;
	return 1;
}

int wire_parse(const char *buf, size_t len, json_t **ret_msg, int *fds, size_t *count, struct err *e)
{
	uint64_t version = 0;
	json_t *msg = len > WIRE_MAX ? NULL : json_parse(buf, len, WIRE_MAX, "message", e);
	size_t i;

	if (len > WIRE_MAX)
		err_set(e, ERR_LIMIT, "a message of more than %d bytes", WIRE_MAX);
	if (msg && (!json_is_object(msg) || json_get_u64(msg, "v", &version, "message", e) < 1 || !version ||
		    version > PROTOCOL_VERSION)) {
		err_set(e, ERR_INVALID, "the message has version %llu of the keeper's protocol, the other side knows 1 to %d; hint: restart the "
			"sandbox with this berth", (unsigned long long)version, PROTOCOL_VERSION);
		json_decref(msg);
		msg = NULL;
	}
	if (!msg) {
		for (i = 0; i < *count; i++)
			fd_close(&fds[i]);
		*count = 0;
		return -1;
	}
	*ret_msg = msg;
	return 1;
}

int wire_recv(int sock, int wait_ms, json_t **ret_msg, int *fds, size_t max, size_t *ret_count, struct err *e)
{
	char buf[WIRE_MAX + 1];	/* not static: berthd has threads; not thread-local: musl would map it at every start */
	size_t len;
	int r = wire_recv_text(sock, wait_ms, buf, &len, fds, max, ret_count, e);

	return r < 1 ? r : wire_parse(buf, len, ret_msg, fds, ret_count, e);
}

const char *wire_members(const char *buf, size_t len, size_t *ret_len)
{
	if (len > WIRE_MAX || len < PREFIX_LEN + 2 || memcmp(buf, PREFIX("1"), PREFIX_LEN) != 0 || buf[len - 1] != '}' || memchr(buf, '\n', len))
		return NULL;
	*ret_len = len - PREFIX_LEN - 1;
	return buf + PREFIX_LEN;
}

json_t *wire_error(const struct err *e)
{
	json_t *msg = json_string(e->msg);

	return json_pack("{s:{s:s,s:i,s:o}}", "error", "code", err_name(e->code), "number", e->code, "message",
			 msg ? msg : json_string("the reason is not valid UTF-8"));
}

int wire_check(const json_t *msg, struct err *e)
{
	const json_t *error = json_object_get(msg, "error");
	const char *text = json_string_value(json_object_get(error, "message"));
	json_int_t code = json_integer_value(json_object_get(error, "number"));

	if (!error)
		return 0;
	return err_set(e, code > 0 && code < ERR_CODE_COUNT ? (enum err_code)code : ERR_INTERNAL, "%s", text ? text : "failed");
}

int wire_data(const void *p, size_t n, struct err *e)
{
	autoclose int fd = memfd_create("berth-data", MFD_CLOEXEC);

	if (fd < 0 || io_write_all(fd, p, n) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "hand over %zu bytes", n);
	return take_fd(&fd);
}

int wire_read_data(int fd, struct buf *out, struct err *e)
{
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "read handed-over data");
	return io_read_all(fd, out, "handed-over data", e);
}

/* ---- how a keeper is reached and asked ---- */

/* The client's side: how a keeper is reached and asked. */

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
		       "sandbox %s is that of a berth run, for its one command only; "
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
	/* killed from outside: nobody has reported it or cleaned up */
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

/* 1: a stop is under way, or nothing answers any more. */
static int tells_stop(int sock)
{
	autojson json_t *ping = protocol_request(OP_ping), *now = NULL;
	struct err why;

	now = keeper_call(sock, ping, NULL, 0, NULL, &why);
	return now ? json_is_true(json_object_get(now, "stopping")) : 1;
}

int keeper_is_stopping(struct registry *r, const char *id)
{
	struct err ignored;
	autoclose int sock = keeper_connect(r, id, &ignored);

	return sock < 0 || tells_stop(sock);
}

int keeper_await_stop(struct registry *r, const char *id, int ms, struct err *e)
{
	const uint64_t until = clock_ms() + (uint64_t)ms;
	autoclose int sock = keeper_connect(r, id, e);
	json_t *more = NULL;
	size_t n;
	int got;

	if (sock < 0)
		return e->code == ERR_NOT_FOUND ? 1 : -1;
	if (!tells_stop(sock))
		return 0;
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
