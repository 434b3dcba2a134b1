/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/route.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

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
		/* no route at all: connecting will say so itself */
		return n > 0 && (errno == ENETUNREACH || errno == EHOSTUNREACH) ? NULL : "unknown to the routing table";
	if (type == RTN_LOCAL)
		return "the host's own";
	return type == RTN_UNICAST || type == RTN_UNREACHABLE || type == RTN_BLACKHOLE || type == RTN_PROHIBIT ? NULL :
	       "broadcast or multicast";
}
