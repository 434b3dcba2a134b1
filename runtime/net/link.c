/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S20 of SECURITY.md. */
#include "runtime/net/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/net/netpolicy.h"
#include "runtime/net/nl.h"

#define ACK NLM_F_ACK
#define MAKE (NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
#define REPLACE (NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE)

void link_mac(const struct netaddr *v4, uint8_t mac[6])
{
	static const uint8_t own[] = { NETADDR_MAC_OWN };	/* locally administered */

	memcpy(mac, own, sizeof(own));
	memcpy(mac + 2, v4->b, 4);
}

void link_mac_of(const struct link_plan *p, uint8_t mac[6])
{
	static const uint8_t none[6];

	if (memcmp(p->mac, none, sizeof(none)))
		memcpy(mac, p->mac, 6);
	else
		link_mac(&p->address, mac);
}

static int af(const struct netaddr *a)
{
	return a->family == 4 ? AF_INET : AF_INET6;
}

static size_t bytes(const struct netaddr *a)
{
	return a->family == 4 ? 4 : 16;
}

static int full(struct err *e)
{
	return err_set(e, ERR_LIMIT, "too much for one netlink batch");
}

/* ---- messages ------------------------------------------------------------------------- */

static int put_address(struct nl *n, unsigned index, const struct netaddr *a, unsigned bits, const char *what, struct err *e)
{
	char text[NETADDR_TEXT];
	struct nlmsghdr *nlh = nl_begin(n, RTM_NEWADDR, REPLACE, "give %s the address %s/%u", what, netaddr_text(a, text), bits);
	struct ifaddrmsg *m;

	if (!nlh)
		return full(e);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->ifa_family = (uint8_t)af(a);
	m->ifa_prefixlen = (uint8_t)bits;
	m->ifa_flags = IFA_F_PERMANENT | (a->family == 6 ? IFA_F_NODAD : 0);
	m->ifa_index = index;
	mnl_attr_put(nlh, IFA_LOCAL, bytes(a), a->b);
	mnl_attr_put(nlh, IFA_ADDRESS, bytes(a), a->b);
	nl_end(n, nlh);
	return 0;
}

static int put_neighbour(struct nl *n, uint16_t type, unsigned index, const struct netaddr *a, const uint8_t mac[6], struct err *e)
{
	char text[NETADDR_TEXT];
	struct nlmsghdr *nlh = nl_begin(n, type, type == RTM_NEWNEIGH ? REPLACE : ACK, "%s the neighbour %s",
					type == RTM_NEWNEIGH ? "record" : "remove", netaddr_text(a, text));
	struct ndmsg *m;

	if (!nlh)
		return full(e);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->ndm_family = (uint8_t)af(a);
	m->ndm_ifindex = (int)index;
	m->ndm_state = NUD_PERMANENT;
	mnl_attr_put(nlh, NDA_DST, bytes(a), a->b);
	if (type == RTM_NEWNEIGH)
		mnl_attr_put(nlh, NDA_LLADDR, 6, mac);
	nl_end(n, nlh);
	if (type == RTM_DELNEIGH)
		nl_may_fail(n, ENOENT);
	return 0;
}

static int put_up(struct nl *n, unsigned index, const char *what, struct err *e)
{
	struct nlmsghdr *nlh = nl_begin(n, RTM_NEWLINK, ACK, "bring %s up", what);
	struct ifinfomsg *m;

	if (!nlh)
		return full(e);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->ifi_index = (int)index;
	m->ifi_flags = m->ifi_change = IFF_UP;
	nl_end(n, nlh);
	return 0;
}

/* Routes only the bridge on the link: packets to a neighbour are refused there, not left unanswered. */
static int put_gateway_route(struct nl *n, unsigned index, const struct netaddr *gateway, struct err *e)
{
	char text[NETADDR_TEXT];
	struct nlmsghdr *nlh = nl_begin(n, RTM_NEWROUTE, REPLACE, "route to %s", netaddr_text(gateway, text));
	struct rtmsg *m;

	if (!nlh)
		return full(e);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->rtm_family = (uint8_t)af(gateway);
	m->rtm_dst_len = (uint8_t)(bytes(gateway) * 8);
	m->rtm_table = RT_TABLE_MAIN;
	m->rtm_protocol = RTPROT_STATIC;
	m->rtm_scope = RT_SCOPE_LINK;
	m->rtm_type = RTN_UNICAST;
	mnl_attr_put(nlh, RTA_DST, bytes(gateway), gateway->b);
	mnl_attr_put_u32(nlh, RTA_OIF, index);
	nl_end(n, nlh);
	return 0;
}

/* Adds the route: for an internal network to the other members only, else everywhere. */
static int put_way_out(struct nl *n, unsigned index, const struct netaddr *gateway,
		       const struct netcidr *pool, int internal, struct err *e)
{
	char text[NETADDR_TEXT];
	struct nlmsghdr *nlh = nl_begin(n, RTM_NEWROUTE, REPLACE, "route by %s",
					netaddr_text(gateway, text));
	struct rtmsg *m;

	if (!nlh)
		return full(e);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->rtm_family = (uint8_t)af(gateway);
	m->rtm_table = RT_TABLE_MAIN;
	m->rtm_protocol = RTPROT_STATIC;
	m->rtm_scope = RT_SCOPE_UNIVERSE;
	m->rtm_type = RTN_UNICAST;
	if (internal) {
		m->rtm_dst_len = (uint8_t)pool->bits;
		mnl_attr_put(nlh, RTA_DST, bytes(gateway), pool->net.b);
	}
	mnl_attr_put(nlh, RTA_GATEWAY, bytes(gateway), gateway->b);
	mnl_attr_put_u32(nlh, RTA_OIF, index);
	nl_end(n, nlh);
	return 0;
}

static int remove_link(const char *name, struct err *e)
{
	struct nl *n = nl_open(NETLINK_ROUTE, e);
	struct nlmsghdr *nlh;
	int r;

	if (!n)
		return -1;
	nlh = nl_begin(n, RTM_DELLINK, ACK, "remove the interface %s", name);
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name);
	nl_end(n, nlh);
	nl_may_fail(n, ENODEV);
	r = nl_send(n, e);
	nl_close(n);
	return r;
}

/* Says what to do when the kernel has no such kind of interface. */
static int hint_lacking_links(struct err *e)
{
	if (e->os_errno == EOPNOTSUPP) {
		e->code = ERR_UNSUPPORTED;
		err_hint(e, "this kernel lacks it: modprobe bridge veth; berth doctor tells, and --network egress needs none of it");
	}
	return -1;
}

/* ---- the bridge ----------------------------------------------------------------------------- */

struct link_facts {
	int found, is_bridge;
	int isolated, locked, learning;
};

static void port_facts(const struct nlattr *data, struct link_facts *f)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, data) {
		uint16_t type = mnl_attr_get_type(a);

		if (type == IFLA_BRPORT_ISOLATED)
			f->isolated = mnl_attr_get_u8(a);
		else if (type == IFLA_BRPORT_LOCKED)
			f->locked = mnl_attr_get_u8(a);
		else if (type == IFLA_BRPORT_LEARNING)
			f->learning = mnl_attr_get_u8(a);
	}
}

static int take_facts(const struct nlmsghdr *nlh, void *ctx)
{
	struct link_facts *f = ctx;
	const struct nlattr *a, *b;

	f->found = 1;
	mnl_attr_for_each(a, nlh, sizeof(struct ifinfomsg)) {
		if (mnl_attr_get_type(a) != IFLA_LINKINFO)
			continue;
		mnl_attr_for_each_nested(b, a) {
			if (mnl_attr_get_type(b) == IFLA_INFO_KIND)
				f->is_bridge = !strcmp(mnl_attr_get_str(b), "bridge");
			else if (mnl_attr_get_type(b) == IFLA_INFO_SLAVE_DATA)
				port_facts(b, f);
		}
	}
	return MNL_CB_OK;
}

static int look_up_link(struct nl *n, const char *name, struct link_facts *f, struct err *e)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	int r;

	*f = (struct link_facts){ .learning = 1 };
	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name);
	r = nl_query(n, nlh, take_facts, f, "look for the interface", e);
	return r < 0 && e->os_errno == ENODEV ? 0 : r;
}

static int make_bridge(struct nl *n, const struct link_plan *p, struct err *e)
{
	struct nlmsghdr *nlh = nl_begin(n, RTM_NEWLINK, MAKE, "make the bridge %s", p->bridge);
	struct nlattr *info, *data;
	uint8_t mac[6];

	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, p->bridge);
	link_mac(&p->gateway, mac);
	mnl_attr_put(nlh, IFLA_ADDRESS, 6, mac);	/* otherwise it changes with the ports */
	info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);
	mnl_attr_put_strz(nlh, IFLA_INFO_KIND, "bridge");
	data = mnl_attr_nest_start(nlh, IFLA_INFO_DATA);
	mnl_attr_put_u32(nlh, IFLA_BR_FORWARD_DELAY, 0);
	mnl_attr_put_u32(nlh, IFLA_BR_STP_STATE, 0);
	mnl_attr_put_u8(nlh, IFLA_BR_MCAST_SNOOPING, 0);
	mnl_attr_nest_end(nlh, data);
	mnl_attr_nest_end(nlh, info);
	nl_end(n, nlh);
	return nl_send(n, e) < 0 ? hint_lacking_links(e) : 0;
}

int link_bridge(const struct link_plan *p, struct err *e)
{
	struct nl *n = nl_open(NETLINK_ROUTE, e);
	struct link_facts f;
	unsigned index;
	int r;

	if (!n)
		return -1;
	r = look_up_link(n, p->bridge, &f, e);
	if (r == 0 && f.found && !f.is_bridge)
		r = err_set(e, ERR_EXISTS, "%s is there and is not a bridge; hint: set [network] bridge to another name", p->bridge);
	if (r == 0 && !f.found)
		r = make_bridge(n, p, e);
	/* this is done also for an interface that a crash left half-made */
	index = r == 0 ? if_nametoindex(p->bridge) : 0;
	if (r == 0 && !index)
		r = err_sys(e, "find the bridge %s", p->bridge);
	if (r == 0)
		r = link_switches(p->bridge, e);
	/* from one member to another, and never out: the rules ensure that */
	if (r == 0 && p->internal)
		r = link_switch("ipv4", p->bridge, "forwarding", "1", e);
	if (r == 0)
		r = put_address(n, index, &p->gateway, p->pool.bits, p->bridge, e);
	if (r == 0 && p->with6)
		r = put_address(n, index, &p->gateway6, p->pool6.bits, p->bridge, e);
	if (r == 0)
		r = put_up(n, index, p->bridge, e);
	if (r == 0)
		r = nl_send(n, e);
	nl_close(n);
	return r;
}

int link_bridge_stands(const struct link_plan *p)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct ifreq ifr = { 0 };
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", p->bridge);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) < 0 || !(ifr.ifr_flags & IFF_UP) || ioctl(fd, SIOCGIFADDR, &ifr) < 0)
		return 0;
	memcpy(&a, &ifr.ifr_addr, sizeof(a));
	return !memcmp(&a.sin_addr, p->gateway.b, 4);
}

int link_bridge_remove(const char *bridge, struct err *e)
{
	return remove_link(bridge, e);
}

/* ---- a sandbox's pair ---------------------------------------------------------------------------- */

static const char *name_inside(const struct link_plan *p, char out[IF_NAMESIZE])
{
	snprintf(out, IF_NAMESIZE, "eth%u", p->interface);
	return out;
}

static int put_pair(struct nl *n, const struct link_plan *p, unsigned bridge, int netns_fd, struct err *e)
{
	char inside[IF_NAMESIZE];
	struct nlmsghdr *nlh = nl_begin(n, RTM_NEWLINK, MAKE, "make the interface %s", p->port);
	struct nlattr *info, *data, *peer;
	struct ifinfomsg *m;
	uint8_t mac[6];

	if (!nlh)
		return full(e);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, p->port);
	mnl_attr_put_u32(nlh, IFLA_MASTER, bridge);
	info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);
	mnl_attr_put_strz(nlh, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(nlh, IFLA_INFO_DATA);
	peer = mnl_attr_nest_start(nlh, VETH_INFO_PEER);
	mnl_nlmsg_put_extra_header(nlh, sizeof(*m));	/* of the far end, within the attribute */
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name_inside(p, inside));
	mnl_attr_put_u32(nlh, IFLA_NET_NS_FD, (uint32_t)netns_fd);
	link_mac_of(p, mac);
	mnl_attr_put(nlh, IFLA_ADDRESS, 6, mac);
	mnl_attr_nest_end(nlh, peer);
	mnl_attr_nest_end(nlh, data);
	mnl_attr_nest_end(nlh, info);
	nl_end(n, nlh);
	return 0;
}

static int put_port_flags(struct nl *n, const char *port, unsigned index, struct err *e)
{
	static const struct { uint16_t attr; uint8_t v; } flags[] = {
		{ IFLA_BRPORT_ISOLATED, 1 }, { IFLA_BRPORT_LOCKED, 1 }, { IFLA_BRPORT_LEARNING, 0 }, { IFLA_BRPORT_UNICAST_FLOOD, 0 },
		{ IFLA_BRPORT_MCAST_FLOOD, 0 }, { IFLA_BRPORT_BCAST_FLOOD, 0 }, { IFLA_BRPORT_GUARD, 1 }, { IFLA_BRPORT_PROTECT, 1 },
	};
	struct nlmsghdr *nlh = nl_begin(n, RTM_SETLINK, ACK, "lock the bridge's port %s", port);
	struct nlattr *info;
	struct ifinfomsg *m;
	size_t i;

	if (!nlh)
		return full(e);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->ifi_family = AF_BRIDGE;
	m->ifi_index = (int)index;
	info = mnl_attr_nest_start(nlh, IFLA_PROTINFO);
	info->nla_type |= NLA_F_NESTED;
	for (i = 0; i < ARRAY_LEN(flags); i++)
		mnl_attr_put_u8(nlh, flags[i].attr, flags[i].v);
	mnl_attr_nest_end(nlh, info);
	nl_end(n, nlh);
	return 0;
}

/* Records the one hardware address behind the port. */
static int put_station(struct nl *n, unsigned index, const uint8_t mac[6], struct err *e)
{
	struct nlmsghdr *nlh = nl_begin(n, RTM_NEWNEIGH, REPLACE, "record the port's hardware address");
	struct ndmsg *m;

	if (!nlh)
		return full(e);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->ndm_family = AF_BRIDGE;
	m->ndm_ifindex = (int)index;
	m->ndm_state = NUD_NOARP;
	m->ndm_flags = NTF_MASTER;
	mnl_attr_put(nlh, NDA_LLADDR, 6, mac);
	nl_end(n, nlh);
	return 0;
}

/* Our side of it, in two batches: the second needs the index that the first has given. */
static int join_outside(const struct link_plan *p, int netns_fd, struct err *e)
{
	struct nl *n = nl_open(NETLINK_ROUTE, e);
	unsigned bridge = if_nametoindex(p->bridge), port = 0;
	struct link_facts f;
	uint8_t mac[6];
	int r;

	if (!n)
		return -1;
	r = bridge ? put_pair(n, p, bridge, netns_fd, e) : err_sys(e, "find the bridge %s", p->bridge);
	if (r == 0)
		r = nl_send(n, e) < 0 ? hint_lacking_links(e) : 0;
	if (r == 0 && !(port = if_nametoindex(p->port)))
		r = err_sys(e, "find the interface %s", p->port);
	link_mac_of(p, mac);
	if (r == 0 && (put_port_flags(n, p->port, port, e) < 0 || put_station(n, port, mac, e) < 0 ||
		       put_neighbour(n, RTM_NEWNEIGH, bridge, &p->address, mac, e) < 0 ||
		       (p->with6 && put_neighbour(n, RTM_NEWNEIGH, bridge, &p->address6, mac, e) < 0) ||
		       link_switch("ipv6", p->port, "disable_ipv6", "1", e) < 0 ||
			       put_up(n, port, p->port, e) < 0 || nl_send(n, e) < 0))
		r = -1;
	if (r == 0)
		r = look_up_link(n, p->port, &f, e);
	if (r == 0 && (!f.isolated || !f.locked || f.learning))
		r = err_set(e, ERR_UNSUPPORTED, "this kernel's bridge cannot lock and isolate a port, so a sandbox could send in another's "
			    "name; hint: Linux 5.18 can, and --network egress needs no bridge");
	nl_close(n);
	return r;
}

static int configure_inside(const struct link_plan *p, struct err *e)
{
	struct nl *n = nl_open(NETLINK_ROUTE, e);
	/* the interface keeps the route that it was made with */
	const int near = p->internal || p->interface;
	char inside[IF_NAMESIZE];
	unsigned eth = if_nametoindex(name_inside(p, inside));
	uint8_t mac[6];
	int r = 0;

	if (!n)
		return -1;
	link_mac(&p->gateway, mac);
	if (!eth)
		r = err_sys(e, "find %s in the sandbox", inside);
	if (r == 0)
		r = link_switches(inside, e);
	if (r == 0 && (put_address(n, eth, &p->address, 32, inside, e) < 0 ||
		       (p->with6 && put_address(n, eth, &p->address6, 128, inside, e) < 0) ||
		       put_up(n, eth, inside, e) < 0 ||
		       put_gateway_route(n, eth, &p->gateway, e) < 0 ||
			       put_way_out(n, eth, &p->gateway, &p->pool, near, e) < 0 ||
		       (p->with6 && put_gateway_route(n, eth, &p->gateway6, e) < 0) || put_neighbour(n, RTM_NEWNEIGH, eth, &p->gateway, mac, e) < 0 ||
		       (p->with6 && put_neighbour(n, RTM_NEWNEIGH, eth, &p->gateway6, mac, e) < 0) ||
		       (p->with6 && p->route6 &&
			put_way_out(n, eth, &p->gateway6, &p->pool6, near, e) < 0) || nl_send(n, e) < 0))
		r = -1;
	nl_close(n);
	return r;
}

int link_join(const struct link_plan *p, int netns_fd, struct err *e)
{
	autoclose int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int r;

	if (home < 0)
		return err_sys(e, "open the host's network namespace");
	if (join_outside(p, netns_fd, e) < 0)
		return -1;
	if (setns(netns_fd, CLONE_NEWNET) < 0)
		return err_sys(e, "enter the sandbox's network namespace");
	r = configure_inside(p, e);
	if (setns(home, CLONE_NEWNET) < 0)
		return err_sys(e, "return from the sandbox's network namespace");
	return r;
}

int link_leave(const struct link_plan *p, struct err *e)
{
	return remove_link(p->port, e);
}

int link_forget(const struct link_plan *p, struct err *e)
{
	unsigned bridge = if_nametoindex(p->bridge);
	struct nl *n;
	int r = 0;

	if (!bridge)
		return 0;
	n = nl_open(NETLINK_ROUTE, e);
	if (!n)
		return -1;
	if (put_neighbour(n, RTM_DELNEIGH, bridge, &p->address, NULL, e) < 0 ||
	    (p->with6 && put_neighbour(n, RTM_DELNEIGH, bridge, &p->address6, NULL, e) < 0) || nl_send(n, e) < 0)
		r = -1;
	nl_close(n);
	return r;
}

/* ---- switches of an interface ---- */

/* Upholds S20 of SECURITY.md. */

int link_switch(const char *family, const char *interface, const char *key, const char *value,
		struct err *e)
{
	char path[160], got[16];
	autoclose int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/sys/net/%s/conf/%s/%s", family, interface, key);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", path);
	if (io_write_all(fd, value, strlen(value)) < 0)
		return err_sys(e, "write %s to %s", value, path);
	n = pread(fd, got, sizeof(got) - 1, 0);
	if (n <= 0 || strncmp(got, value, strlen(value)))
		return err_set(e, ERR_INTERNAL, "%s does not read back as %s", path, value);
	return 0;
}

/* Sets the switches so that no router is believed, and no source address that another interface leads to. */
int link_switches(const char *interface, struct err *e)
{
	static const struct { const char *family, *key, *value; } switches[] = {
		{ "ipv6", "accept_ra", "0" }, { "ipv6", "autoconf", "0" },
			{ "ipv6", "accept_redirects", "0" },
		{ "ipv6", "addr_gen_mode", "1" }, { "ipv6", "accept_dad", "0" },
			{ "ipv4", "rp_filter", "1" },
		{ "ipv4", "accept_redirects", "0" }, { "ipv4", "send_redirects", "0" },
			{ "ipv4", "route_localnet", "0" },
		/* no reply for any local address: the neighbours are recorded */
		{ "ipv4", "arp_ignore", "8" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(switches); i++)
		if (link_switch(switches[i].family, interface, switches[i].key, switches[i].value,
				e) < 0)
			return -1;
	return 0;
}

/* ---- token buckets ---- */

/* Upholds S20 of SECURITY.md. */

/* Bytes that wait for their turn; what comes when these are full is dropped. */
#define QUEUE_MIN 65536ULL
#define QUEUE_MAX (4ULL << 20)

static uint64_t queue_of(uint64_t rate)
{
	const uint64_t n = rate / 5;

	return n < QUEUE_MIN ? QUEUE_MIN : n > QUEUE_MAX ? QUEUE_MAX : n;
}

static void put_bucket(struct nlmsghdr *nlh, uint64_t rate)
{
	const uint64_t burst = netrate_burst(rate);
	struct tc_tbf_qopt q = {
		.rate = { .linklayer = TC_LINKLAYER_ETHERNET,
			  .rate = rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX },
		.limit = (uint32_t)(burst + queue_of(rate)),
	};
	struct nlattr *options = mnl_attr_nest_start(nlh, TCA_OPTIONS);

	mnl_attr_put(nlh, TCA_TBF_PARMS, sizeof(q), &q);
	mnl_attr_put_u32(nlh, TCA_TBF_BURST, (uint32_t)burst);
	if (rate >= UINT32_MAX)
		mnl_attr_put_u64(nlh, TCA_TBF_RATE64, rate);
	mnl_attr_nest_end(nlh, options);
}

static int set_one(const char *name, uint64_t rate, struct err *e)
{
	const unsigned index = if_nametoindex(name);
	struct nl *n = index ? nl_open(NETLINK_ROUTE, e) : NULL;
	struct nlmsghdr *nlh;
	struct tcmsg *m;
	int r;

	if (!index)
		return err_sys(e, "find the interface %s", name);
	if (!n)
		return -1;
	nlh = nl_begin(n, rate ? RTM_NEWQDISC : RTM_DELQDISC,
		       rate ? NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE : NLM_F_ACK,
		       "bound the rate of %s", name);
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->tcm_family = AF_UNSPEC;
	m->tcm_ifindex = (int)index;
	m->tcm_parent = TC_H_ROOT;
	if (rate) {
		mnl_attr_put_strz(nlh, TCA_KIND, "tbf");
		put_bucket(nlh, rate);
	}
	nl_end(n, nlh);
	if (!rate)
		nl_may_fail(n, ENOENT);
	r = nl_send(n, e);
	nl_close(n);
	if (r < 0 && rate && (e->os_errno == ENOENT || e->os_errno == EOPNOTSUPP)) {
		e->code = ERR_UNSUPPORTED;
		err_hint(e, "this kernel lacks it: modprobe sch_tbf; --network egress bounds the "
			    "rate without it");
	}
	return r;
}

int tbf_set(const char *port, int netns_fd, const char *inside, uint64_t rate, struct err *e)
{
	autoclose int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int r;

	if (home < 0)
		return err_sys(e, "open the host's network namespace");
	if (set_one(port, rate, e) < 0)
		return -1;
	if (setns(netns_fd, CLONE_NEWNET) < 0)
		return err_sys(e, "enter the sandbox's network namespace");
	r = set_one(inside, rate, e);
	if (setns(home, CLONE_NEWNET) < 0)
		return err_sys(e, "return from the sandbox's network namespace");
	return r;
}
