/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/forwarding.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/net/nl.h"

#define RECORD "forwarding"
#define RECORD_MAX 4096

/*
 * The switches, in the order in which they are switched on. A host that forwards believes routers
 * only if accept_ra is 2.
 */
static const struct { const char *path, *off, *on; int six; } switches[] = {
	{ "/proc/sys/net/ipv4/ip_forward", "0", "1", 0 },
	{ "/proc/sys/net/ipv6/conf/all/accept_ra", "1", "2", 1 },
	{ "/proc/sys/net/ipv6/conf/default/accept_ra", "1", "2", 1 },
	{ "/proc/sys/net/ipv6/conf/all/forwarding", "0", "1", 1 },
};

#define FORWARD6 (ARRAY_LEN(switches) - 1)

static int has_value(size_t i, const char *value)
{
	autobuf struct buf b = BUF_INIT(32);
	struct err ignored;

	return io_read_file(AT_FDCWD, switches[i].path, &b, &ignored) == 0 && b.data && !strncmp(b.data, value, 1);
}

/* Names what a record is valid for: this boot, and our network namespace. */
static int here(char out[80], struct err *e)
{
	autobuf struct buf boot = BUF_INIT(64);
	struct stat st;

	if (io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", &boot, e) < 0)
		return -1;
	if (stat("/proc/self/ns/net", &st) < 0)
		return err_sys(e, "look at the network namespace");
	snprintf(out, 80, "%.36s %llu", boot.data ? boot.data : "", (unsigned long long)st.st_ino);
	return 0;
}

/*
 * The paths that berth has switched on here: an array, empty without any. *ret_last is the
 * highest interface number at that time, INT_MAX if the record lacks it.
 */
static json_t *recorded(struct pool *p, const char *place, int *ret_last, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	autoclose int fd = openat(p->dir_fd, RECORD, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	autojson json_t *j = NULL;
	const char *of;
	json_t *list, *last;

	*ret_last = INT_MAX;
	if (fd < 0 && errno == ENOENT)
		return json_array();
	if (fd < 0 || io_read_all(fd, &b, RECORD, e) < 0) {
		if (fd < 0)
			err_sys(e, "open the record of forwarding");
		return NULL;
	}
	j = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, "the record of forwarding", e);
	if (!j)
		return NULL;
	of = json_string_value(json_object_get(j, "place"));
	list = json_object_get(j, "on");
	last = json_object_get(j, "last");
	if (json_integer_value(last) > 0 && json_integer_value(last) < INT_MAX)
		*ret_last = (int)json_integer_value(last);
	/* an earlier boot wrote it: the kernel has forgotten the switches */
	return of && !strcmp(of, place) && json_is_array(list) ? json_incref(list) : json_array();
}

static int is_recorded(const json_t *list, size_t i)
{
	const char *path;
	json_t *v;
	size_t k;

	json_array_foreach(list, k, v)
		if ((path = json_string_value(v)) && !strcmp(path, switches[i].path))
			return 1;
	return 0;
}

static int record_forwarding(struct pool *p, const char *place, json_t *list, int last, struct err *e)
{
	autojson json_t *j = json_pack("{s:s,s:O,s:i}", "place", place, "on", list, "last", last);
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	return text ? io_replace_file(p->dir_fd, RECORD, text, strlen(text), 0600, 0, e) : err_nomem(e);
}

/* ---- other interfaces ---- */

struct links {
	int bridge;	/* a bridge exists */
	int last;	/* the highest number that an interface has */
};

static int look_at_link(const struct nlmsghdr *nlh, void *ctx)
{
	const struct ifinfomsg *m = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *a, *b;
	struct links *l = ctx;

	if (m->ifi_index > l->last)
		l->last = m->ifi_index;
	mnl_attr_for_each(a, nlh, sizeof(*m)) {
		if (mnl_attr_get_type(a) != IFLA_LINKINFO)
			continue;
		mnl_attr_for_each_nested(b, a)
			if (mnl_attr_get_type(b) == IFLA_INFO_KIND &&
			    !strcmp(mnl_attr_get_str(b), "bridge"))
				l->bridge = 1;
	}
	return MNL_CB_OK;
}

static int look_for_host_links(struct links *l, struct err *e)
{
	char buf[MNL_NLMSG_HDRLEN + 64];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct nl *n = nl_open(NETLINK_ROUTE, e);
	struct ifinfomsg *m;
	int r;

	if (!n)
		return -1;
	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
	m->ifi_family = AF_UNSPEC;
	r = nl_query(n, nlh, look_at_link, l, "list the interfaces", e);
	nl_close(n);
	return r;
}

/* Switches on those of a family that are off; all are recorded before the first is switched on. */
static int switch_on(struct pool *p, int six, struct err *e)
{
	autojson json_t *list = NULL;
	struct links links = { 0 };
	char place[80];
	size_t i;
	int last;

	if (here(place, e) < 0 || !(list = recorded(p, place, &last, e)) || look_for_host_links(&links, e) < 0)
		return -1;
	if (!json_array_size(list))
		last = links.last;
	for (i = 0; i < ARRAY_LEN(switches); i++)
		if (switches[i].six == six && has_value(i, switches[i].off) && !is_recorded(list, i))
			json_array_append_new(list, json_string(switches[i].path));
	if (record_forwarding(p, place, list, last, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(switches); i++)
		if (switches[i].six == six && has_value(i, switches[i].off) &&
		    io_write_file(AT_FDCWD, switches[i].path, switches[i].on, e) < 0)
			return err_wrap(e, "switch forwarding on");
	return 0;
}

int forwarding_need6(struct pool *p, int may, int with6, int *ret_route6, struct err *e)
{
	if (with6 && may && has_value(FORWARD6, "0") && switch_on(p, 1, e) < 0)
		return -1;
	*ret_route6 = with6 && has_value(FORWARD6, "1");
	return 0;
}

int forwarding_stands(void)
{
	return !has_value(0, "0");
}

int forwarding_need(struct pool *p, int may, int with6, int *ret_route6, struct err *e)
{
	if (!forwarding_stands()) {
		if (!may)
			return err_set(e, ERR_UNSUPPORTED, "this host does not forward IPv4 (net.ipv4.ip_forward is 0), and berth may not "
				       "switch it on; hint: sysctl net.ipv4.ip_forward=1, or [network] forwarding = true in berth.toml, or "
				       "--network egress, which needs none");
		if (switch_on(p, 0, e) < 0)
			return -1;
	}
	return forwarding_need6(p, may, with6, ret_route6, e);
}

/* ---- and off ---- */

int forwarding_restore(struct pool *p, struct err *e)
{
	autojson json_t *list = NULL;
	struct links links = { 0 };
	char place[80];
	size_t i = ARRAY_LEN(switches);
	int last;

	if (!path_has(p->dir_fd, RECORD))
		return 0;
	if (here(place, e) < 0 || !(list = recorded(p, place, &last, e)) || look_for_host_links(&links, e) < 0)
		return -1;
	/*
	 * Another bridge, or a newer interface such as a VPN, found forwarding on, and may rely on
	 * it. Once it is gone, the next collection looks again.
	 */
	if (json_array_size(list) && (links.bridge || links.last > last))
		return 0;
	/* a switch that another program changed since was changed on purpose */
	while (i--)
		if (is_recorded(list, i) && has_value(i, switches[i].on) &&
		    io_write_file(AT_FDCWD, switches[i].path, switches[i].off, e) < 0)
			return err_wrap(e, "switch forwarding off again");
	if (unlinkat(p->dir_fd, RECORD, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove the record of forwarding");
	return 0;
}
