/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/fdpass.h"

int wire_send(int sock, json_t *msg, const int *fds, size_t count, struct err *e)
{
	return wire_send_with(sock, msg, "}", 1, fds, count, e);
}

int wire_send_with(int sock, json_t *msg, const char *rest, size_t n, const int *fds, size_t count, struct err *e)
{
	autofree char *own = NULL;
	const char *text;
	char room[2048];
	size_t len;

	json_object_set_new(msg, "v", json_integer(WIRE_VERSION));
	text = json_text(msg, room, sizeof(room), &own, &len);
	if (!text)
		return err_set(e, ERR_INVALID, "the text is not valid UTF-8");
	len--;	/* the brace: rest ends the object */
	if (len + n > WIRE_MAX)
		return err_set(e, ERR_LIMIT, "the message has %zu bytes, the limit is %d", len + n, WIRE_MAX);
	if (fdpass_send2(sock, text, len, rest, n, fds, count) < 0)
		return err_code_sys(e, errno == EPIPE || errno == ECONNRESET ? ERR_NOT_FOUND : ERR_SYS,
				    "send to the other side");
	return 0;
}

int wire_recv(int sock, int wait_ms, json_t **ret_msg, int *fds, size_t max, size_t *ret_count, struct err *e)
{
	char buf[WIRE_MAX + 1];	/* not static: berthd has threads; not thread-local: musl would map it at every start */
	struct pollfd p = { .fd = sock, .events = POLLIN };
	uint64_t version = 0;
	json_t *msg;
	ssize_t n;
	size_t i;
	int r;

	*ret_count = 0;
	do
		r = wait_ms ? poll(&p, 1, wait_ms) : 1;
	while (r < 0 && errno == EINTR);
	n = r ? fdpass_recv_flags(sock, buf, sizeof(buf), fds, max, ret_count, wait_ms ? 0 : MSG_DONTWAIT) : 0;
	if (r == 0 || (n < 0 && errno == EAGAIN && !wait_ms))
		return err_set(e, ERR_TIMEOUT, "no answer within %d ms", wait_ms);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	if (n < 0)
		return err_sys(e, "receive from the other side");
	msg = (size_t)n > WIRE_MAX ? NULL : json_parse(buf, (size_t)n, WIRE_MAX, "message", e);
	if ((size_t)n > WIRE_MAX)
		err_set(e, ERR_LIMIT, "a message of more than %d bytes", WIRE_MAX);
	if (msg && (!json_is_object(msg) || json_get_u64(msg, "v", &version, "message", e) < 1 || version != WIRE_VERSION)) {
		err_set(e, ERR_INVALID, "a message of version %llu, not %d; hint: restart the sandbox with this berth",
			(unsigned long long)version, WIRE_VERSION);
		json_decref(msg);
		msg = NULL;
	}
	if (!msg) {
		for (i = 0; i < *ret_count; i++)
			fd_close(&fds[i]);
		*ret_count = 0;
		return -1;
	}
	*ret_msg = msg;
	return 1;
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
