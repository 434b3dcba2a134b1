/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linux.netDevices (runtime-spec 1.3): moves an interface of the host into the container's
 * network namespace, under another name if given. It is down while it moves, and up with its
 * former global addresses afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

#define ADDRESSES_MAX 32

struct request {
	struct nlmsghdr h;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg addr;
	} u;
	char attrs[256];
};

struct address {
	unsigned char family, prefix;
	unsigned char bytes[16];
};

static void add_netdev_attr(struct request *r, unsigned short type, const void *p, size_t n)
{
	struct rtattr *a = (struct rtattr *)(void *)((char *)r + NLMSG_ALIGN(r->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(n);
	memcpy(RTA_DATA(a), p, n);
	r->h.nlmsg_len = NLMSG_ALIGN(r->h.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

/* Sends r and reads the acknowledgement: 0, or a negative errno. */
static int ask_netdev(int sock, struct request *r)
{
	char reply[4096];
	struct nlmsghdr *h = (struct nlmsghdr *)(void *)reply;
	ssize_t n;

	r->h.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(sock, r, r->h.nlmsg_len, 0) < 0 || (n = recv(sock, reply, sizeof(reply), 0)) < 0)
		return -errno;
	if ((size_t)n < sizeof(*h) + sizeof(int) || h->nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return ((struct nlmsgerr *)NLMSG_DATA(h))->error;
}

static struct request link_request(int index)
{
	struct request r = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(r.u.link)), .nlmsg_type = RTM_NEWLINK } };

	r.u.link.ifi_family = AF_UNSPEC;
	r.u.link.ifi_index = index;
	return r;
}

/* The permanent global addresses: they do not move with the interface. */
static size_t addresses(int sock, int index, struct address *out)
{
	struct request r = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(r.u.addr)), .nlmsg_type = RTM_GETADDR,
				    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };
	size_t count = 0;
	char reply[32768];

	if (send(sock, &r, r.h.nlmsg_len, 0) < 0)
		return 0;
	for (;;) {
		ssize_t n = recv(sock, reply, sizeof(reply), 0);
		struct nlmsghdr *h = (struct nlmsghdr *)(void *)reply;

		if (n <= 0)
			return count;
		for (; NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n)) {
			struct ifaddrmsg *m = NLMSG_DATA(h);
			struct rtattr *a = IFA_RTA(m);
			int left = (int)IFA_PAYLOAD(h);
			const void *local = NULL, *address = NULL;

			if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
				return count;
			for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
				if (a->rta_type == IFA_LOCAL)
					local = RTA_DATA(a);
				else if (a->rta_type == IFA_ADDRESS)
					address = RTA_DATA(a);
			}
			local = local ? local : address;
			if ((int)m->ifa_index != index || m->ifa_scope != RT_SCOPE_UNIVERSE || !(m->ifa_flags & IFA_F_PERMANENT) ||
			    !local || count == ADDRESSES_MAX)
				continue;
			out[count].family = m->ifa_family;
			out[count].prefix = m->ifa_prefixlen;
			memcpy(out[count++].bytes, local, m->ifa_family == AF_INET ? 4 : 16);
		}
	}
}

static int up_with_addresses(int sock, const char *name, const struct address *a, size_t n)
{
	const int index = (int)if_nametoindex(name);
	struct request r = link_request(index);
	size_t i;
	int err;

	for (i = 0; i < n; i++) {
		struct request q = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(q.u.addr)), .nlmsg_type = RTM_NEWADDR,
					    .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL } };

		q.u.addr.ifa_family = a[i].family;
		q.u.addr.ifa_prefixlen = a[i].prefix;
		q.u.addr.ifa_index = (unsigned)index;
		add_netdev_attr(&q, IFA_LOCAL, a[i].bytes, a[i].family == AF_INET ? 4 : 16);
		add_netdev_attr(&q, IFA_ADDRESS, a[i].bytes, a[i].family == AF_INET ? 4 : 16);
		err = ask_netdev(sock, &q);
		if (err)
			return err;
	}
	r.u.link.ifi_flags = r.u.link.ifi_change = IFF_UP;
	return ask_netdev(sock, &r);
}

/* Does the rest in a fork, because our own namespace must not change. */
static int finish_inside(const char *netns, const char *name, const struct address *a, size_t n)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int ns = open(netns, O_RDONLY | O_CLOEXEC), sock, err;

		if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
			_exit(errno);
		sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		err = sock < 0 ? -errno : up_with_addresses(sock, name, a, n);
		_exit(-err & 0xff);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

static int move_one(const struct oci_container *c, int sock, const char *from, const char *to, struct err *e)
{
	const int index = (int)if_nametoindex(from);
	struct address list[ADDRESSES_MAX];
	struct request r = link_request(index);
	uint32_t pid = (uint32_t)c->state->pid;
	char netns[48];
	size_t n;
	int err;

	if (!index)
		return err_sys(e, "linux.netDevices: interface %.32s", from);
	if (!to || !*to)
		to = from;
	if (strlen(to) >= IFNAMSIZ || strchr(to, '/') || strchr(to, ' '))
		return err_set(e, ERR_INVALID, "linux.netDevices: '%.32s' is not an interface's name", to);
	n = addresses(sock, index, list);
	r.u.link.ifi_change = IFF_UP;
	add_netdev_attr(&r, IFLA_NET_NS_PID, &pid, sizeof(pid));
	if (strcmp(from, to) != 0)
		add_netdev_attr(&r, IFLA_IFNAME, to, strlen(to) + 1);
	err = ask_netdev(sock, &r);
	if (err)
		return err_errno(e, -err, "linux.netDevices: move %.32s into the container", from);
	snprintf(netns, sizeof(netns), "/proc/%d/ns/net", (int)c->state->pid);
	err = finish_inside(netns, to, list, n);
	return err ? err_errno(e, -err, "linux.netDevices: bring %.32s up in the container", to) : 0;
}

int oci_netdevs_move(const struct oci_container *c, struct err *e)
{
	json_t *map = oci_get(c->linux_part, "netDevices"), *v;
	autoclose int sock = -1;
	const char *name;

	if (!json_object_size(map))
		return 0;
	sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (sock < 0)
		return err_sys(e, "make a netlink socket");
	json_object_foreach(map, name, v)
		if (move_one(c, sock, name, oci_str(v, "name"), e) < 0)
			return -1;
	return 0;
}
