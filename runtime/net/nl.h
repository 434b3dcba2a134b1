/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nl - sends netlink requests in batches, each answered; errors have the kernel's own words.
 *
 * Several messages go in one datagram; the kernel works through them in order and acknowledges
 * each. The purpose of each is remembered until then, so that the error can name it
 * (NETLINK_EXT_ACK, Linux 4.12).
 */
#ifndef BERTH_RUNTIME_NET_NL_H
#define BERTH_RUNTIME_NET_NL_H

#include <libmnl/libmnl.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/netaddr.h"

#define NL_BUFFER 131072
#define NL_MESSAGES 512
#define NL_WHAT 80

struct nl {
	struct mnl_socket *sock;
	char *buf;
	size_t len;
	unsigned seq, first;
	struct nl_note {
		char what[NL_WHAT];
		int may_fail;	/* -errno that counts as success; 0: none */
		int acked;	/* an answer is requested; always, except within the frame of an nftables
				 * batch */
	} notes[NL_MESSAGES];
};

/* Opens a socket; bus: NETLINK_ROUTE or NETLINK_NETFILTER, in the caller's network namespace. */
struct nl *nl_open(int bus, struct err *e);
void nl_close(struct nl *n);
/*
 * Starts a message at the end of the batch; fill it with mnl_attr_put*() and
 * end it with nl_end().  NULL when the batch is full.
 */
struct nlmsghdr *nl_begin(struct nl *n, uint16_t type, uint16_t flags, const char *what_fmt, ...)
	__attribute__((format(printf, 4, 5)));
void nl_end(struct nl *n, const struct nlmsghdr *nlh);
/* Allows the last message to fail with this errno. */
void nl_may_fail(struct nl *n, int os_errno);
/* Sends the batch and waits for all answers. The first failure is the error; os_errno is the kernel's. */
int nl_send(struct nl *n, struct err *e);
/* Sends one request whose answer is data: cb is called for each message. Uses no batch. */
int nl_query(struct nl *n, struct nlmsghdr *nlh, mnl_cb_t cb, void *ctx, const char *what, struct err *e);

/* ---- where a packet would go ---- */

/* route - asks where the kernel would send a packet to an address (rtnetlink(7), RTM_GETROUTE). */

struct mnl_socket;

struct mnl_socket *route_open(struct err *e);
/*
 * Returns NULL if the packet leaves this host, else its kind: "the host's own", "broadcast". If the
 * kernel cannot be asked, the target is not allowed.
 */
const char *route_special(struct mnl_socket *nl, const struct netaddr *a);

#endif
