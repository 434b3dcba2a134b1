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
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
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

/* Whether the other side has said why it closed, which is the error then. */
static int was_refused(int sock, struct err *e)
{
	char text[2048];
	ssize_t n = recv(sock, text, sizeof(text), MSG_DONTWAIT);
	autojson json_t *answer = NULL;
	struct err ignored;

	/* this is told once, before what was sent ahead of it (unix(7)) */
	if (n < 0 && errno == ECONNRESET)
		n = recv(sock, text, sizeof(text), MSG_DONTWAIT);
	answer = n > 0 ? json_parse(text, (size_t)n, sizeof(text), "message", &ignored) : NULL;
	return answer && wire_check(answer, e) < 0;
}

/* Sends text, an object with its braces; rest replaces the last of them. */
static int wire_send_text(int sock, unsigned version, const char *text, size_t len, const char *rest, size_t n, const int *fds, size_t count,
		     struct err *e)
{
	char prefix[] = PREFIX("1");
	struct iovec part[3];

	prefix[PREFIX_LEN - 2] = (char)('0' + version);
	/* without its braces: the version comes first, and rest ends the object */
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
		if (was_refused(sock, e))
			return -1;
		wire_ended(e);
		e->os_errno = why;	/* some callers tell a stop from an end by this errno */
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

/*
 * Sends the request in a memory file, which is the last descriptor, with {"op":...,"data":true} as
 * its packet.
 */
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
	/* this is told once, before what was sent ahead of it (unix(7)) */
	if (n < 0 && errno == ECONNRESET)
		n = fdpass_recv_flags(sock, buf, WIRE_MAX + 1, fds, max, ret_count, MSG_DONTWAIT);
	if (n == 0 || (n < 0 && (errno == ECONNRESET || errno == EAGAIN)))
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

int wire_data_parts(const struct iovec *part, size_t n, struct err *e)
{
	autoclose int fd = memfd_create("berth-data", MFD_CLOEXEC);
	size_t i;

	for (i = 0; i < n && fd >= 0; i++)
		if (io_write_all(fd, part[i].iov_base, part[i].iov_len) < 0)
			return err_sys(e, "hand over output");
	if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "hand over output");
	return take_fd(&fd);
}

int wire_read_data(int fd, struct buf *out, struct err *e)
{
	struct stat st;
	size_t room = out->max - out->len;

	if (lseek(fd, 0, SEEK_SET) < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "read handed-over data");
	/* all of it at once; one byte more, for the read that finds the end */
	if (st.st_size > 0 && (size_t)st.st_size < room && buf_reserve(out, (size_t)st.st_size + 1, e) < 0)
		return err_wrap(e, "handed-over data");
	return io_read_all(fd, out, "handed-over data", e);
}
