/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/nl.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/mem.h"

#define ANSWER_MS 20000		/* a batch of nftables waits for its turn */

struct nl *nl_open(int bus, struct err *e)
{
	struct nl *n = calloc(1, sizeof(*n));
	int on = 1, size = 1 << 20;

	if (n)
		n->buf = malloc(NL_BUFFER + 8192);	/* the last message may reach past the mark */
	if (!n || !n->buf) {
		nl_close(n);
		err_nomem(e);
		return NULL;
	}
	n->sock = mnl_socket_open2(bus, SOCK_CLOEXEC);
	if (!n->sock || mnl_socket_bind(n->sock, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_setsockopt(n->sock, NETLINK_EXT_ACK, &on, sizeof(on)) < 0 ||
	    mnl_socket_setsockopt(n->sock, NETLINK_CAP_ACK, &on, sizeof(on)) < 0) {
		err_sys(e, "open a netlink socket");
		nl_close(n);
		return NULL;
	}
	/* an acknowledgment per message must not be dropped */
	setsockopt(mnl_socket_get_fd(n->sock), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(mnl_socket_get_fd(n->sock), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	n->seq = n->first = (unsigned)time(NULL);
	return n;
}

void nl_close(struct nl *n)
{
	if (!n)
		return;
	if (n->sock)
		mnl_socket_close(n->sock);
	free(n->buf);
	free(n);
}

struct nlmsghdr *nl_begin(struct nl *n, uint16_t type, uint16_t flags, const char *what_fmt, ...)
{
	struct nlmsghdr *nlh;
	unsigned index = n->seq - n->first;
	va_list ap;

	if (index >= NL_MESSAGES || n->len > NL_BUFFER)
		return NULL;
	nlh = mnl_nlmsg_put_header(n->buf + n->len);
	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = n->seq++;
	n->notes[index] = (struct nl_note){ .acked = (flags & NLM_F_ACK) != 0 };
	va_start(ap, what_fmt);
	vsnprintf(n->notes[index].what, NL_WHAT, what_fmt, ap);
	va_end(ap);
	return nlh;
}

void nl_end(struct nl *n, const struct nlmsghdr *nlh)
{
	n->len += MNL_ALIGN(nlh->nlmsg_len);
}

void nl_may_fail(struct nl *n, int os_errno)
{
	n->notes[n->seq - n->first - 1].may_fail = -os_errno;
}

/* Drops what was put in since the last nl_send(). */
static void nl_reset(struct nl *n)
{
	n->len = 0;
	n->first = n->seq;
}

static const char *extack(const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *m = mnl_nlmsg_get_payload(nlh);
	size_t at = sizeof(*m);
	const struct nlattr *a;

	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS))
		return NULL;
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED))
		at += m->msg.nlmsg_len - sizeof(struct nlmsghdr);
	mnl_attr_for_each(a, nlh, at)
		if (mnl_attr_get_type(a) == NLMSGERR_ATTR_MSG)
			return mnl_attr_get_str(a);
	return NULL;
}

static int netlink_failed(struct err *e, int os_errno, const struct nlmsghdr *nlh, const char *what)
{
	const char *words = extack(nlh);

	err_errno(e, os_errno, "%s", what);
	if (words) {
		size_t len = strlen(e->msg);

		snprintf(e->msg + len, sizeof(e->msg) - len, " (the kernel says: %.200s)", words);
	}
	return -1;
}

/* Takes one message of the answer: *left of our messages are not settled yet. */
static void take_netlink_message(struct nl *n, const struct nlmsghdr *nlh, unsigned *left, int *ret_failed, struct err *e)
{
	const struct nlmsgerr *m = mnl_nlmsg_get_payload(nlh);
	unsigned index = nlh->nlmsg_seq - n->first;

	if (nlh->nlmsg_type != NLMSG_ERROR || index >= n->seq - n->first)
		return;
	if (m->error && m->error != n->notes[index].may_fail && !*ret_failed) {
		netlink_failed(e, -m->error, nlh, n->notes[index].what);
		*ret_failed = 1;
	}
	if (n->notes[index].acked) {
		n->notes[index].acked = 0;
		--*left;
	} else if (m->error) {
		*left = 0;	/* the frame of an nftables batch: the whole was refused, and no more comes */
	}
}

static int receive_netlink(struct nl *n, char *buf, size_t size, int *ret_len, struct err *e)
{
	struct pollfd p = { .fd = mnl_socket_get_fd(n->sock), .events = POLLIN };
	int ready;

	do
		ready = poll(&p, 1, ANSWER_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		return ready ? err_sys(e, "wait for the kernel's answer") : err_set(e, ERR_TIMEOUT, "the kernel did not answer by netlink");
	*ret_len = (int)mnl_socket_recvfrom(n->sock, buf, size);
	return *ret_len < 0 ? err_sys(e, "read the kernel's answer") : 0;
}

int nl_send(struct nl *n, struct err *e)
{
	autofree char *buf = malloc(NL_BUFFER);
	unsigned wanted = 0, i;
	int bad = 0, r = 0;

	if (!buf)
		return err_nomem(e);
	for (i = 0; i < n->seq - n->first; i++)
		wanted += (unsigned)n->notes[i].acked;
	if (n->len > NL_BUFFER || i >= NL_MESSAGES)
		r = err_set(e, ERR_LIMIT, "too much for one netlink batch");
	else if (n->len && mnl_socket_sendto(n->sock, n->buf, n->len) < 0)
		r = err_sys(e, "send a netlink batch");
	while (r == 0 && wanted) {
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)(const void *)buf;
		int len = 0;

		r = receive_netlink(n, buf, NL_BUFFER, &len, e);
		for (; r == 0 && mnl_nlmsg_ok(nlh, len); nlh = mnl_nlmsg_next(nlh, &len))
			take_netlink_message(n, nlh, &wanted, &bad, e);
	}
	nl_reset(n);
	return bad ? -1 : r;
}

int nl_query(struct nl *n, struct nlmsghdr *nlh, mnl_cb_t cb, void *ctx, const char *what, struct err *e)
{
	autofree char *buf = malloc(NL_BUFFER);
	int len, r = MNL_CB_OK;

	if (!buf)
		return err_nomem(e);
	nlh->nlmsg_seq = n->seq++;
	n->first = n->seq;
	if (mnl_socket_sendto(n->sock, nlh, nlh->nlmsg_len) < 0)
		return err_sys(e, "%s", what);
	while (r > MNL_CB_STOP) {
		if (receive_netlink(n, buf, NL_BUFFER, &len, e) < 0)
			return -1;
		r = mnl_cb_run(buf, (size_t)len, nlh->nlmsg_seq, mnl_socket_get_portid(n->sock), cb, ctx);
	}
	return r < 0 ? err_sys(e, "%s", what) : 0;
}

/* ---- where a packet would go ---- */

struct mnl_socket *route_open(struct err *e)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	if (!nl || mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0) {
		err_sys(e, "open a netlink socket");
		if (nl)
			mnl_socket_close(nl);
		return NULL;
	}
	return nl;
}

static int take_type(const struct nlmsghdr *nlh, void *type)
{
	const struct rtmsg *rm = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type == RTM_NEWROUTE)
		*(int *)type = rm->rtm_type;
	return MNL_CB_OK;
}

const char *route_special(struct mnl_socket *nl, const struct netaddr *a)
{
	static unsigned seq;
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct rtmsg *rm;
	int type = -1, n;

	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = ++seq;
	rm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rm));
	rm->rtm_family = a->family == 4 ? AF_INET : AF_INET6;
	rm->rtm_dst_len = a->family == 4 ? 32 : 128;
	mnl_attr_put(nlh, RTA_DST, a->family == 4 ? 4 : 16, a->b);
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return "unknown to the routing table";
	n = (int)mnl_socket_recvfrom(nl, buf, sizeof(buf));
	if (n <= 0 || mnl_cb_run(buf, (size_t)n, seq, mnl_socket_get_portid(nl), take_type, &type) < 0)
		/* no route at all: connecting will report that itself */
		return n > 0 && (errno == ENETUNREACH || errno == EHOSTUNREACH) ? NULL : "unknown to the routing table";
	if (type == RTN_LOCAL)
		return "the host's own";
	return type == RTN_UNICAST || type == RTN_UNREACHABLE || type == RTN_BLACKHOLE || type == RTN_PROHIBIT ? NULL :
	       "broadcast or multicast";
}
