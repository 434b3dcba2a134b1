/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a living sandbox: its counters so far, and changes of its policy. The keeper
 * holds the present policy; berth-net enforces it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/host/netmembers.h"
#include "manager/host/nets.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/net/netpolicy.h"

static json_t *policy_now(struct keeper *k, struct err *e)
{
	const char *text = k->spec->net_egress ? k->spec->net_egress : k->spec->net_policy;

	if (!k->net_policy)
		k->net_policy = json_parse(text, strlen(text), NETPOLICY_JSON_MAX, "network policy",
					   e);
	return k->net_policy;
}

/* The policy with the changes of a request: a new reference, checked. */
static json_t *changed(struct keeper *k, const json_t *rq, struct err *e)
{
	autofree struct netpolicy *check = calloc(1, sizeof(*check));
	json_t *old = policy_now(k, e), *fresh = old ? json_deep_copy(old) : NULL;
	int r = fresh && check ? 0 : err_nomem(e);

	if (r == 0)
		r = netmerge(fresh, rq, e);
	if (r == 0) {
		r = netpolicy_load(check, fresh, e);
		netpolicy_release(check);
	}
	if (r == 0)
		return fresh;
	json_decref(fresh);
	return NULL;
}

int keeper_netns(const struct keeper *k, struct err *e)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", k->sandbox.pid);
	/* not reaped: no other process can have the pid */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the sandbox's network namespace") : fd;
}

/* The rate bounds one interface, and a proxy beside it would not hear of the change. */
static int check_network_rate(const struct keeper *k, const json_t *rq, struct err *e)
{
	if (!request_has_max_rate(rq))
		return 0;
	if (k->spec->net_egress)
		return err_set(e, ERR_UNSUPPORTED, "the network of sandbox %s has rules, and a "
			       "rate there is set when the sandbox is made", k->spec->id);
	if (json_array_size(k->joined) && request_max_rate(rq, 0))
		return err_set(e, ERR_UNSUPPORTED, "sandbox %s is on several networks, and a rate "
			       "bounds one only", k->spec->id);
	if (k->spec->caps & (1ULL << CAP_NET_ADMIN) && k->spec->network == NETWORK_BRIDGE)
		return err_set(e, ERR_UNSUPPORTED, "sandbox %s has CAP_NET_ADMIN, and could remove "
			       "a rate", k->spec->id);
	return 0;
}

/* Sets a whole new policy: k->net_policy takes its reference. */
static int put_network_policy(struct keeper *k, json_t *fresh, uint64_t *ret_cut, struct err *e)
{
	autofree char *text = fresh ? json_dumps(fresh, JSON_COMPACT) : NULL;
	autoclose int netns = keeper_netns(k, e);

	if (!text || netns < 0 ||
	    nethelper_update(sandbox_meter(&k->sandbox), k->spec, text, netns, ret_cut, e) < 0) {
		json_decref(fresh);
		return -1;
	}
	json_decref(k->net_policy);
	k->net_policy = fresh;
	return 0;
}

int keeper_network_update(struct keeper *k, const json_t *rq, uint64_t *ret_cut, struct err *e)
{
	json_t *fresh;

	*ret_cut = 0;
	if (!netmerge_wanted(rq))
		return 0;
	if (k->spec->network == NETWORK_JOINED)
		return err_set(e, ERR_INVALID, "sandbox %s has the network of sandbox %s, and with "
			       "it its rules; hint: berth update %s changes them",
			       k->spec->id, k->spec->joined.id, k->spec->joined.id);
	if (!spec_needs_nethelper(k->spec))
		return err_set(e, ERR_INVALID, "sandbox %s has the network mode %s, which has no rules; hint: berth fork --network "
			       "egress --allow-host NAME %s makes one with its files", k->spec->id, spec_network_name(k->spec->network), k->spec->id);
	if (k->spec->net_egress && json_object_get(rq, "allow_net"))
		return err_set(e, ERR_INVALID, "the network of sandbox %s says which ranges it may "
			       "reach; hint: berth network update --allow-net", k->spec->id);
	if (k->spec->network == NETWORK_BRIDGE && !k->spec->net_egress && (json_object_get(rq, "allow_host") || json_object_get(rq, "deny_host")))
		return err_set(e, ERR_INVALID, "rules by name take --network egress; hint: --allow-net and --deny-net work with a bridge");
	if (check_network_rate(k, rq, e) < 0)
		return -1;
	fresh = changed(k, rq, e);
	return fresh ? put_network_policy(k, fresh, ret_cut, e) : -1;
}

/* The rules of its network, as the network's record has them now. */
static int reload_rules(struct keeper *k, uint64_t *ret_cut, struct err *e)
{
	const json_t *now;
	json_t *old = policy_now(k, e), *fresh;
	const json_t *group = json_object_get(old, "group");
	const char *name = json_string_value(json_object_get(group, "network"));
	autojson json_t *record = name ? nets_load(k->registry->config, name, e) : NULL;

	if (!record)
		return -1;
	now = json_object_get(record, NETS_EGRESS);
	if (!now || json_equal(now, group))
		return 0;
	fresh = json_deep_copy(old);
	if (!fresh || json_object_set_new(fresh, "group", json_deep_copy(now)) < 0) {
		json_decref(fresh);
		return err_nomem(e);
	}
	return put_network_policy(k, fresh, ret_cut, e);
}

/*
 * Reads the rules again: they may have changed between the reading of the options and the first
 * moment at which we can be reached.
 */
int keeper_network_rules_begin(struct keeper *k, struct err *e)
{
	uint64_t cut;

	return k->spec->net_egress ? reload_rules(k, &cut, e) : 0;
}

int keeper_op_network_rules(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	uint64_t cut = 0;

	if (k->spec->net_egress && reload_rules(k, &cut, e) < 0)
		return -1;
	keeper_answer(k, rq->client, json_pack("{s:I}", "cut", (json_int_t)cut), NULL, 0);
	return 0;
}

static uint64_t budget(struct keeper *k, const char *key)
{
	struct err ignored;

	return spec_needs_nethelper(k->spec) ? (uint64_t)json_integer_value(json_object_get(policy_now(k, &ignored), key)) : 0;
}

uint64_t keeper_network_rate(struct keeper *k)
{
	return budget(k, "max_rate");
}

/* The budgets and the used parts, including earlier runs. */
static json_t *describe_network_use(struct keeper *k)
{
	json_t *j = nethelper_describe(&k->sandbox.net, k->spec), *b;
	uint64_t bytes = budget(k, "max_bytes"), connections = budget(k, "max_connections");
	const uint64_t rate = budget(k, "max_rate");
	struct netcounters c;
	struct err ignored;

	if (j) {
		keeper_join_describe(k, j);
		nethelper_describe_relay(&k->sandbox.relay, j);
	}
	if (!j || nethelper_count(sandbox_meter(&k->sandbox), k->spec, &c, &ignored) <= 0)
		return j;
	b = json_pack("{s:I}", "bytes_used", (json_int_t)nethelper_used(&c, k->spec));
	if (bytes)
		json_object_set_new(b, "bytes", json_integer((json_int_t)bytes));
	if (connections)
		json_object_set_new(b, "connections", json_integer((json_int_t)connections));
	if (spec_is_proxied(k->spec))
		json_object_set_new(b, "connections_used", json_integer((json_int_t)(k->spec->net_used_connections + c.allowed)));
	json_object_set_new(j, "budget", b);
	if (rate)
		json_object_set_new(j, "rate", json_pack("{s:I,s:I}", "bytes_per_second",
				    (json_int_t)rate, "burst_bytes",
				    (json_int_t)netrate_burst(rate)));
	if (k->spec->net_egress)
		json_object_set_new(j, "egress", nethelper_describe(&k->sandbox.proxy, k->spec));
	return j;
}

static void network_describe(struct keeper *k, json_t *answer)
{
	json_t *j = describe_network_use(k);

	if (j)
		json_object_set_new(answer, "network", j);
}

/* ---- counters, events, verdicts ------------------------------------------------------- */

static void emit_network_event(void *ctx, const char *event, json_t *members)
{
	keeper_event(ctx, event, members);
}

static void save_network_counters(struct keeper *k, const struct netcounters *c)
{
	autojson json_t *j = json_pack("{s:I,s:I}", "bytes", (json_int_t)nethelper_used(c, k->spec), "connections",
				       (json_int_t)(k->spec->net_used_connections + c->allowed));
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	struct err ignored;
	autoclose int dir = text ? registry_keep_dir(k->registry, k->claim.id, &ignored) : -1;

	/* not synced: that could take seconds, and a host that crashes loses more than this */
	if (dir >= 0 && io_replace_file(dir, NETWORK_USED_FILE, text, strlen(text), 0600, 0, &ignored) == 0)
		k->net_saved_bytes = nethelper_used(c, k->spec);
}

static int has_budget(struct keeper *k)
{
	/* on a bridge they are the connections open at once, of which earlier runs have used up none */
	return budget(k, "max_bytes") || (spec_is_proxied(k->spec) && budget(k, "max_connections"));
}

static int look_at_network(struct keeper *k, struct netcounters *ret)
{
	const struct nethelper *h = sandbox_meter(&k->sandbox);
	struct err ignored;

	k->net_looked_ms = clock_ms();
	if (nethelper_count(h, k->spec, ret, &ignored) <= 0)
		return 0;
	netevents_counters(&k->net_events, ret, h->bridge, emit_network_event, k);
	if (has_budget(k) && nethelper_used(ret, k->spec) != k->net_saved_bytes)
		save_network_counters(k, ret);
	return 1;
}

void keeper_network_begin(struct keeper *k, struct verdict_facts *f)
{
	struct err ignored;

	if (sandbox_meter(&k->sandbox)->bridge)
		nethelper_count(&k->sandbox.net, k->spec, &f->network, &ignored);
}

void keeper_network_end(struct keeper *k, struct verdict_facts *f)
{
	struct netcounters c;
	struct err ignored;

	if (nethelper_count(sandbox_meter(&k->sandbox), k->spec, &c, &ignored) > 0)
		f->network_exhausted = c.exhausted || c.over > f->network.over;
}

void keeper_network_notice(struct keeper *k)
{
	struct nethelper *h = sandbox_meter(&k->sandbox);
	struct netcounters c;

	if (k->spec->network == NETWORK_JOINED) {
		keeper_share_lost(k);
		return;
	}
	if (netevents_notices(&k->net_events, h->notice_fd, clock_ms(), emit_network_event, k) < 0) {
		fd_close(&h->notice_fd);
		k->budget.look_ms = 0;
		keeper_event(k, "network-failed", json_pack("{s:s}", "reason", "its proxy ended, and nothing passes any more"));
	}
	look_at_network(k, &c);
}

#define LOOK_MS 1000		/* interval while something runs */
#define LOOK_IDLE_MS 10000

static uint64_t network_next(struct keeper *k)
{
	const struct nethelper *h = sandbox_meter(&k->sandbox);
	uint64_t now = clock_ms();

	if (!h->bridge && !(h->counters && has_budget(k)))
		return 0;
	return k->net_looked_ms + (now - k->busy_ms < LOOK_IDLE_MS ? LOOK_MS : LOOK_IDLE_MS);
}

static void network_check(struct keeper *k, uint64_t now)
{
	struct netcounters c;
	uint64_t at = network_next(k);

	if (at && now >= at)
		look_at_network(k, &c);
}

void keeper_network_last(struct keeper *k)
{
	struct netcounters c;
	const int fd = sandbox_meter(&k->sandbox)->notice_fd;

	if (fd >= 0 && k->spec->network != NETWORK_JOINED)
		netevents_notices(&k->net_events, fd, clock_ms(), emit_network_event, k);
	look_at_network(k, &c);
}

void keeper_network_save(struct keeper *k)
{
	if (spec_needs_nethelper(k->spec))
		save_network_counters(k, &sandbox_meter(&k->sandbox)->last);
}

/* ---- requests -------------------------------------------------------------------------- */

int keeper_op_network(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	json_t *j = describe_network_use(k), *policy = NULL;

	if (spec_needs_nethelper(k->spec) && !(policy = policy_now(k, e))) {
		json_decref(j);
		return -1;
	}
	if (policy)
		json_object_set(j, "policy", policy);
	keeper_answer(k, rq->client, json_pack("{s:o}", "network", j), NULL, 0);
	return 0;
}

const struct keeper_part keeper_part_network = { .next = network_next, .check = network_check, .describe = network_describe };

/* ---- networks that it joined ---- */

/*
 * The networks that a living sandbox joined besides the one it was made with: an interface each,
 * made and taken back by runs of berth-net.  They are in its record before the answer, so that the
 * next start joins them, too.
 */

static json_t *joined(const struct keeper *k, const char *network, size_t *ret_index)
{
	json_t *row;
	size_t i;

	json_array_foreach(k->joined, i, row)
		if (!strcmp(json_string_value(json_object_get(row, "network")), network)) {
			*ret_index = i;
			return row;
		}
	return NULL;
}

/* The lowest number of an interface that is free; eth0 is the first network's. */
static unsigned free_interface(const struct keeper *k)
{
	unsigned n = 1;
	json_t *row;
	size_t i;

	for (i = 0; i < json_array_size(k->joined); i++) {
		row = json_array_get(k->joined, i);
		if ((unsigned)json_integer_value(json_object_get(row, "interface")) == n) {
			n++;
			i = (size_t)-1;
		}
	}
	return n;
}

static int join_live_network(struct keeper *k, const char *network, const json_t *end, struct err *e)
{
	autojson json_t *policy = netjoin_policy(k->registry->config, network, end, e);
	autojson json_t *told = NULL, *record = NULL;
	const char *name = NULL;
	const unsigned interface = free_interface(k);
	autoclose int netns = policy ? keeper_netns(k, e) : -1;
	struct err ignored;

	if (netns < 0)
		return -1;
	if (keeper_network_rate(k))
		return err_set(e, ERR_UNSUPPORTED, "sandbox %s has a --network-rate, which bounds "
			       "one network; hint: berth update --network-rate unlimited %s",
			       k->spec->id, k->spec->id);
	/* it may have been renamed since this run began */
	record = record_load_kept(k->registry, k->claim.id, &ignored);
	name = record_name(record ? record : k->record);
	if (nethelper_join(&k->sandbox.net, k->spec, name, netns, interface, policy,
			   &told, e) < 0)
		return -1;
	if (!k->joined)
		k->joined = json_array();
	return json_array_append_new(k->joined, json_pack("{s:s,s:i,s:O,s:O}", "network", network,
							  "interface", (int)interface, "policy",
							  policy, "told", told)) < 0 ?
	       err_nomem(e) : 0;
}

static int part_from_network(struct keeper *k, const char *network, struct err *e)
{
	size_t i;
	json_t *row = joined(k, network, &i);
	int r;

	if (!row)
		return 0;
	r = nethelper_part(&k->sandbox.net, k->spec, json_object_get(row, "policy"), e);
	json_array_remove(k->joined, i);
	return r;
}

int keeper_join_begin(struct keeper *k, struct err *e)
{
	json_t *row;
	size_t i;

	json_array_foreach(record_networks(k->record), i, row)
		if (join_live_network(k, json_string_value(json_object_get(row, "network")), row, e) < 0)
			return -1;
	return 0;
}

void keeper_join_end(struct keeper *k)
{
	struct err ignored;

	/* gc finds what fails here, because its record is in the network's directory */
	while (json_array_size(k->joined))
		part_from_network(k, json_string_value(json_object_get(json_array_get(k->joined, 0), "network")),
		     &ignored);
	json_decref(k->joined);
	k->joined = NULL;
}

void keeper_join_describe(const struct keeper *k, json_t *network)
{
	json_t *list = json_array(), *row;
	size_t i;

	json_array_foreach(k->joined, i, row) {
		json_t *one = json_deep_copy(json_object_get(row, "told"));

		json_object_set(one, "interface", json_object_get(row, "interface"));
		json_object_set(one, "pool", json_object_get(json_object_get(json_object_get(row, "policy"), "bridge"), "pool"));
		json_object_set(one, "gateway", json_object_get(json_object_get(json_object_get(row, "policy"), "bridge"), "gateway"));
		json_array_append_new(list, one);
	}
	if (json_array_size(list))
		json_object_set(network, "networks", list);
	json_decref(list);
}

/* Records it in both records; end NULL: the network was left. */
static int record_joined_network(struct keeper *k, const char *network, const json_t *end, struct err *e)
{
	if (netjoin_record(k->registry, k->claim.id, network, end, e) < 0 ||
	    netjoin_edit(k->record, network, end, e) < 0)
		return -1;
	return record_save_run(&k->claim, k->record, e);
}

int keeper_op_network_join(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const char *network = request_name(rq->json, "");
	autojson json_t *end = json_pack("{s:O*,s:O*}", "aliases", json_object_get(rq->json, "aliases"), "addresses",
					 json_object_get(rq->json, "addresses"));
	struct err ignored;

	if (!end)
		return err_nomem(e);
	if (netjoin_check(k->record, network, end, e) < 0 || join_live_network(k, network, end, e) < 0)
		return -1;
	if (record_joined_network(k, network, end, e) < 0) {
		part_from_network(k, network, &ignored);
		return -1;
	}
	keeper_event(k, "network-join", json_pack("{s:s}", "network", network));
	keeper_answer(k, rq->client, json_object(), NULL, 0);
	return 0;
}

int keeper_op_network_leave(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const char *network = request_name(rq->json, "");

	/* the record first: the kernel's objects can be found without it */
	if (record_joined_network(k, network, NULL, e) < 0 || part_from_network(k, network, e) < 0)
		return -1;
	keeper_event(k, "network-leave", json_pack("{s:s}", "network", network));
	keeper_answer(k, rq->client, json_object(), NULL, 0);
	return 0;
}

/* ---- its network for another sandbox ---- */

/*
 * "network-share": hands the network namespace of the sandbox to one that joins it (netclient.h),
 * and what the files of its network say.  Of one that has joined another's it is that one's.
 */

static int check_network_share(const struct keeper *k, struct err *e)
{
	if (k->spec->network == NETWORK_HOST)
		return err_set(e, ERR_INVALID,
			       "it uses the host's network and has none to join; hint: --network host");
	/* at its end this sandbox would be frozen, and the other one run on */
	if (k->life.budget.v[LIVEBUDGET_NET])
		return err_set(e, ERR_INVALID,
			       "its traffic has a budget, which no other sandbox can use up; hint: "
			       "--network-bytes in place of net in --budget");
	if (k->spec->network == NETWORK_JOINED && k->sandbox.net.notice_fd < 0)
		return err_set(e, ERR_INVALID,
			       "sandbox %s, whose network it had joined, has ended; hint: berth "
			       "restart both sandboxes, the other one first",
			       k->spec->joined.id);
	return 0;
}

/* Opens the process whose end is the network's end. */
static int open_end(const struct keeper *k, struct err *e)
{
	const int fd = k->spec->network == NETWORK_JOINED ?
			       fcntl(k->sandbox.net.notice_fd, F_DUPFD_CLOEXEC, 3) :
			       fcntl(k->sandbox.pidfd, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? err_sys(e, "open the sandbox's init") : fd;
}

int keeper_op_network_share(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const struct spec *s = k->spec;
	autoclose int netns = -1, init = -1;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", k->sandbox.pid);
	if (check_network_share(k, e) < 0 || (init = open_end(k, e)) < 0)
		return -1;
	/* not reaped: no other process can have the pid */
	netns = open(path, O_RDONLY | O_CLOEXEC);
	if (netns < 0)
		return err_sys(e, "open the sandbox's network namespace");
	keeper_answer(k, rq->client,
		      json_pack("{s:s,s:b,s:s,s:s*,s:s*}", "mode",
				spec_network_name(spec_network_inside(s)), "proxied",
				spec_is_proxied(s), "hostname", s->hostname, "hosts", s->hosts, "dir", s->net_dir),
		      (int[]){ netns, init }, 2);
	return 0;
}

void keeper_share_lost(struct keeper *k)
{
	fd_close(&k->sandbox.net.notice_fd);
	keeper_event(k, "network-lost", json_pack("{s:s}", "container", k->spec->joined.id));
}

/* ---- a connection to one of its ports ---- */

/*
 * "port": hands over a socket that connects to a port of the sandbox's own loopback.  Upholds S57
 * of SECURITY.md.
 *
 * A socket belongs to the network namespace in which it was made (network_namespaces(7)), so the
 * keeper is in the sandbox's for that one call, as it is when it joins a network.  No process of
 * berth's stays there, and there is no descriptor that the sandbox could get.  connect(2) does not
 * wait: the client waits for the socket to become writable, and reads SO_ERROR.  Without a "port"
 * the answer only says that there can be such sockets.
 */

#define PORT_SYN_RETRIES 4	/* a server that takes no connection is given up after 31 s */

static int check_own_netns(const struct keeper *k, int home, int netns, struct err *e)
{
	struct stat a, b;

	if (fstat(home, &a) < 0 || fstat(netns, &b) < 0)
		return err_sys(e, "look at the sandbox's network namespace");
	/* what the spec says must not decide where the host's own loopback is at stake */
	if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return err_set(e, ERR_INVALID, "sandbox %s has the host's network, so its ports are ports of the host; "
			       "hint: connect to 127.0.0.1 itself", k->spec->id);
	return 0;
}

static int make_socket_in(const struct keeper *k, int family, struct err *e)
{
	autoclose int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), netns = keeper_netns(k, e), fd = -1;
	int failed = 0;

	if (netns < 0)
		return -1;
	if (home < 0)
		return err_sys(e, "open the host's network namespace");
	if (check_own_netns(k, home, netns, e) < 0)
		return -1;
	if (setns(netns, CLONE_NEWNET) < 0)
		return err_sys(e, "enter the sandbox's network namespace");
	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		failed = err_sys(e, "make a socket in the sandbox's network namespace");
	if (setns(home, CLONE_NEWNET) < 0)
		return err_sys(e, "return from the sandbox's network namespace");
	return failed ? -1 : take_fd(&fd);
}

int keeper_op_port(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const uint64_t port = request_port(rq->json, 0);
	const int with6 = request_ipv6(rq->json), retries = PORT_SYN_RETRIES;
	const struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port),
					 .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	autoclose int fd = -1;
	int r;

	if (request_has_port(rq->json) && (port < 1 || port > UINT16_MAX))
		return err_set(e, ERR_INVALID, "\"port\" is not a number from 1 to 65535");
	fd = make_socket_in(k, with6 ? AF_INET6 : AF_INET, e);
	if (fd < 0)
		return -1;
	/* a server that is used is not idle */
	keeper_busy(k);
	if (!port) {
		keeper_answer(k, rq->client, json_object(), NULL, 0);
		return 0;
	}
	if (setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &retries, sizeof(retries)) < 0)
		return err_sys(e, "bound the time of a connection");
	r = with6 ? connect(fd, (const struct sockaddr *)&a6, sizeof(a6)) :
		    connect(fd, (const struct sockaddr *)&a4, sizeof(a4));
	if (r < 0 && errno != EINPROGRESS)
		return err_code_sys(e, ERR_NOT_FOUND, "connect to port %d in sandbox %s", (int)port, k->spec->id);
	keeper_answer(k, rq->client, json_object(), &fd, 1);
	return 0;
}

#define LISTEN_WAITING 64	/* connections that its client has not accepted */

/*
 * "listen": hands over a socket that listens at a port of the sandbox's own loopback, 0 for a free
 * one: what connects there comes to the client.  The sandbox gets no descriptor, and the port is
 * free again when the client closes the socket.
 */
int keeper_op_listen(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const uint64_t port = request_port(rq->json, 0);
	const struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int one = 1;
	autoclose int fd = -1;

	if (port > UINT16_MAX)
		return err_set(e, ERR_INVALID, "\"port\" is not a number from 0 to 65535");
	fd = make_socket_in(k, AF_INET, e);
	if (fd < 0)
		return -1;
	keeper_busy(k);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, LISTEN_WAITING) < 0)
		return err_code_sys(e, errno == EADDRINUSE ? ERR_EXISTS : ERR_SYS, "listen on port %d in sandbox %s", (int)port, k->spec->id);
	keeper_answer(k, rq->client, json_object(), &fd, 1);
	return 0;
}
