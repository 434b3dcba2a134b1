/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netpolicy - the targets that a sandbox may reach: names, ports, address ranges, budgets.
 *
 * Pure. cli/ makes it from the options, and passes it as JSON to berth-net
 * (cli/programs/berth-net.c), where the same code that checked the options reads it.
 *
 * A request passes if a name rule allows it, no deny rule matches, and its address is public, or
 * named by a rule or an allowed range. A deny always wins.
 */
#ifndef BERTH_RUNTIME_NET_NETPOLICY_H
#define BERTH_RUNTIME_NET_NETPOLICY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/netaddr.h"

/* ---- the rate ---- */

/*
 * netrate - a bound on the bytes a second that a sandbox sends, and on those that it receives.
 *
 * Pure: the token bucket.  The proxy of an egress sandbox has one for each direction; on a bridge the
 * kernel has them (link.h).
 */

#define NETRATE_MIN 1024
#define NETRATE_MAX (1ULL << 40)

/* Returns how many bytes may pass at once: a twentieth of a second's, from 16 KiB to 4 MiB. */
uint64_t netrate_burst(uint64_t rate);
/* A bucket; all zero is a full bucket. */
struct netrate {
	uint64_t lacking;	/* thousandths of a byte missing until the bucket is full */
	uint64_t at_ms;		/* time for which lacking is true */
};

/* Returns how many of want bytes may pass now; a few are held back until they are worth a system call. */
size_t netrate_room(struct netrate *r, uint64_t rate, uint64_t now_ms, size_t want);
/* Takes n bytes that have passed. */
void netrate_spend(struct netrate *r, uint64_t rate, size_t n);
/* Returns the milliseconds until netrate_room() is more than 0. */
uint64_t netrate_wait_ms(const struct netrate *r, uint64_t rate);

/* ---- the share of the host's connections ---- */

/*
 * netshare - bounds the part of the host's connection table that one sandbox on a bridge may take.
 *
 * The kernel tracks each flow of every process of the host in one table (nf_conntrack_max entries,
 * 262,144 on most hosts). When the table is full, the host's own packets are dropped.
 */

#define NETSHARE_MAX 4096

/*
 * Returns the default limit of a sandbox's open connections: NETSHARE_MAX, or a sixteenth of the
 * table if that is less. Before the kernel's module is loaded there is no table: then the size that
 * the kernel would choose by the host's memory.
 */
uint64_t netshare_connections(void);

/* ---- the policy ---- */
#define NETPOLICY_HOSTS 1024
#define NETPOLICY_NETS 256
#define NETPOLICY_DNS 8
#define NETPOLICY_PUBLISH 64
#define NETHOST_NAME 254	/* with the NUL */
#define NETPOLICY_JSON_MAX (1u << 20)

enum nethost_kind { NETHOST_EXACT, NETHOST_SUFFIX, NETHOST_ANY, NETHOST_ADDRESS };

/* "example.com", "*.example.com:443", "*", "192.0.2.1:8080", "[2001:db8::1]:22", "host:8000-8100", "host:*" */
struct nethost {
	enum nethost_kind kind;
	char name[NETHOST_NAME];	/* lower case, no dot at the end; for a suffix: without "*." */
	struct netaddr addr;
	uint16_t from, to;		/* 0: no port was given, so 80 and 443 */
	char text[NETHOST_NAME + 32];	/* the text as given */
};

/* "[[IP:]HOST[-LAST]:]SANDBOX[/udp]" */
struct netpublish {
	struct netaddr addr;	/* family 0: the loopback of both families; netaddr_is_any(): every address of its family */
	uint16_t host_port, port;
	int any_port;		/* host_port is 0 until forward.h chooses it */
	uint16_t first, last;	/* with any_port: the ports to choose from; 0: all */
	int udp;
	char text[96];
};

struct netserver {
	struct netaddr addr;
	uint16_t port;
};

struct netpolicy {
	struct nethost *allow, *deny;
	size_t allow_count, deny_count;
	struct netcidr allow_net[NETPOLICY_NETS], deny_net[NETPOLICY_NETS];
	size_t allow_net_count, deny_net_count;
	struct netserver dns[NETPOLICY_DNS];
	size_t dns_count;
	struct netpublish publish[NETPOLICY_PUBLISH];
	size_t publish_count;
	json_t *hosts;		/* [NAME, ADDRESS] of --add-host, or NULL */
	uint64_t max_bytes, max_connections;	/* 0: none */
	uint64_t max_rate;	/* bytes a second in each direction (netpolicy.h); 0: none */
	/*
	 * The policy of the network that the sandbox is on, or NULL. With it, this policy can only
	 * take away: its names narrow, its denials hold, its allowed ranges count for nothing.
	 */
	struct netpolicy *group;
	char network[65];		/* for a network's policy: the network's name */
};

/* The target that a client names: a name in canonical form, or an address. */
struct nettarget {
	char name[NETHOST_NAME];
	struct netaddr addr;	/* family 0: the target is a name */
	uint16_t port;
};

int nethost_parse(const char *s, struct nethost *ret, struct err *e);
int netpublish_parse(const char *s, struct netpublish *ret, struct err *e);
/* Parses "1.2.3.4", "1.2.3.4:5353", "[::1]:53". */
int netserver_parse(const char *s, struct netserver *ret, struct err *e);
/*
 * Parses the host of a request as a client spelled it (brackets around IPv6 allowed). Text that
 * looks like a name but that some resolvers read as a number ("127.1", "0x7f000001") is refused.
 * ERR_INVALID.
 */
int nettarget_parse(const char *host, uint64_t port, struct nettarget *ret, struct err *e);

/* Reads a policy's JSON form; release it also after an error. */
int netpolicy_load(struct netpolicy *p, const json_t *j, struct err *e);
void netpolicy_release(struct netpolicy *p);
/*
 * Tells whether a bridge is of use on a host that forwards nothing: for the members of a network,
 * and for ports of the host's loopback, which a process leads in (forward.h). Ports of other
 * addresses need the kernel.
 */
int netpolicy_is_local(const struct netpolicy *p, int peers);

/*
 * Judges by name and port: returns the rule that allows, or NULL with *ret_denied the deny rule
 * that matched (NULL: no rule did).
 */
const struct nethost *netpolicy_host(const struct netpolicy *p, const struct nettarget *t, const struct nethost **ret_denied);
/* Tells whether the network's own rules refuse the target. */
int netpolicy_group_refuses(const struct netpolicy *p, const struct nettarget *t);
/* Judges by address: NULL if it may be connected to, else why not ("private", "denied range"). */
const char *netpolicy_address(const struct netpolicy *p, const struct nethost *by, const struct netaddr *a);
/* Tells whether a is in an allowed range, or named by the rule. */
int netpolicy_explicit(const struct netpolicy *p, const struct nethost *by, const struct netaddr *a);

#endif
