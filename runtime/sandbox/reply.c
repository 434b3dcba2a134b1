/* SPDX-License-Identifier: Apache-2.0 */
/* Reads replies of a sandbox's init, which are hostile input. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/sandbox/launch.h"

/*
 * One packet.  Before init runs the child hands over the listener of filters; after that it is recv(2), not
 * recvmsg: descriptors that the sandbox might send are dropped (K19).
 */
static ssize_t take_packet(struct sandbox *sb, struct init_reply *ret, int flags)
{
	struct filterwatch *w = &sb->filters;
	uint32_t tag = 0;
	size_t got = 0;
	ssize_t n;

	if (!w->awaited)
		return recv(sb->sock, ret, sizeof(*ret), MSG_TRUNC | flags);
	n = fdpass_recv_flags(sb->sock, ret, sizeof(*ret), &w->fd, 1, &got, flags);
	if (n > 0)
		w->awaited = 0;
	if (n == (ssize_t)sizeof(tag))
		memcpy(&tag, ret, sizeof(tag));
	if (tag == FILTERWATCH_TAG)
		return take_packet(sb, ret, flags);
	if (got)
		fd_close(&w->fd);
	return n;
}

int sandbox_reply(struct sandbox *sb, struct init_reply *ret, int wait, struct err *e)
{
	ssize_t n;

	do
		n = take_packet(sb, ret, wait ? 0 : MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	/* a peer that closed with our packets unread: its own last words come after the error (unix(7)) */
	if (n < 0 && errno == ECONNRESET)
		n = take_packet(sb, ret, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return err_set(e, ERR_BUSY, "no reply yet");
	if (n <= 0)
		return 0;
	if (n != (ssize_t)sizeof(*ret) || ret->magic != INIT_MAGIC || !ret->type || ret->type > INIT_STATUS)
		return err_set(e, ERR_CORRUPT, "malformed reply from the sandbox's init");
	ret->err.msg[sizeof(ret->err.msg) - 1] = '\0';
	/* it becomes berth's exit status: a failure must never read as "ok" */
	if (ret->err.code <= ERR_NONE || ret->err.code >= ERR_CODE_COUNT)
		ret->err.code = ERR_INTERNAL;
	/* 128 + 128 would be exit status 0 */
	if (ret->value > 255 || ret->exited > 1 ||
	    (ret->type == INIT_EXITED && !ret->exited && (ret->value < 1 || ret->value >= (uint32_t)_NSIG)))
		return err_set(e, ERR_CORRUPT, "malformed reply from the sandbox's init");
	return 1;
}

/* The child's error explains the failure better than ours, so it replaces ours. */
int sandbox_prefer_error(struct sandbox *sb, struct err *e)
{
	struct init_reply r;
	struct err mine = *e, ignored;

	if (sandbox_reply(sb, &r, 0, &ignored) == 1 && r.type == INIT_SETUP_FAILED)
		*e = r.err;
	else
		*e = mine;
	return -1;
}
