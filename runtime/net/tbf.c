/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S20 of SECURITY.md. */
#include "runtime/net/tbf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/net/netrate.h"
#include "runtime/net/nl.h"

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
