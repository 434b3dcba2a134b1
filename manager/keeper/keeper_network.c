/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a living sandbox: its counters so far, and changes of its policy. The keeper
 * holds the present policy; berth-net enforces it.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/host/netmerge.h"
#include "manager/host/nets.h"
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
static int check_rate(const struct keeper *k, const json_t *rq, struct err *e)
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

/* A new policy, whole: k->net_policy takes its reference. */
static int put_policy(struct keeper *k, json_t *fresh, uint64_t *ret_cut, struct err *e)
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
	if (check_rate(k, rq, e) < 0)
		return -1;
	fresh = changed(k, rq, e);
	return fresh ? put_policy(k, fresh, ret_cut, e) : -1;
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
	return put_policy(k, fresh, ret_cut, e);
}

/* They may have changed between the reading of the options and the first moment we can be told. */
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
static json_t *describe(struct keeper *k)
{
	json_t *j = nethelper_describe(&k->sandbox.net, k->spec), *b;
	uint64_t bytes = budget(k, "max_bytes"), connections = budget(k, "max_connections");
	const uint64_t rate = budget(k, "max_rate");
	struct netcounters c;
	struct err ignored;

	if (j)
		keeper_join_describe(k, j);
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
	json_t *j = describe(k);

	if (j)
		json_object_set_new(answer, "network", j);
}

/* ---- counters, events, verdicts ------------------------------------------------------- */

static void emit(void *ctx, const char *event, json_t *members)
{
	keeper_event(ctx, event, members);
}

static void save(struct keeper *k, const struct netcounters *c)
{
	autojson json_t *j = json_pack("{s:I,s:I}", "bytes", (json_int_t)nethelper_used(c, k->spec), "connections",
				       (json_int_t)(k->spec->net_used_connections + c->allowed));
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	struct err ignored;
	autoclose int dir = text ? registry_keep_dir(k->registry, k->claim.id, &ignored) : -1;

	/* not to the disk: that could take seconds, and a host that crashes loses more than this */
	if (dir >= 0 && io_replace_file(dir, NETWORK_USED_FILE, text, strlen(text), 0600, 0, &ignored) == 0)
		k->net_saved_bytes = nethelper_used(c, k->spec);
}

static int has_budget(struct keeper *k)
{
	/* of a bridge they are those open at once, which no earlier run has used up */
	return budget(k, "max_bytes") || (spec_is_proxied(k->spec) && budget(k, "max_connections"));
}

static int look(struct keeper *k, struct netcounters *ret)
{
	const struct nethelper *h = sandbox_meter(&k->sandbox);
	struct err ignored;

	k->net_looked_ms = clock_ms();
	if (nethelper_count(h, k->spec, ret, &ignored) <= 0)
		return 0;
	netevents_counters(&k->net_events, ret, h->bridge, emit, k);
	if (has_budget(k) && nethelper_used(ret, k->spec) != k->net_saved_bytes)
		save(k, ret);
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
	if (netevents_notices(&k->net_events, h->notice_fd, clock_ms(), emit, k) < 0) {
		fd_close(&h->notice_fd);
		k->budget.look_ms = 0;
		keeper_event(k, "network-failed", json_pack("{s:s}", "reason", "its proxy ended, and nothing passes any more"));
	}
	look(k, &c);
}

#define LOOK_MS 1000		/* while something runs */
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
		look(k, &c);
}

void keeper_network_last(struct keeper *k)
{
	struct netcounters c;
	const int fd = sandbox_meter(&k->sandbox)->notice_fd;

	if (fd >= 0 && k->spec->network != NETWORK_JOINED)
		netevents_notices(&k->net_events, fd, clock_ms(), emit, k);
	look(k, &c);
}

void keeper_network_save(struct keeper *k)
{
	if (spec_needs_nethelper(k->spec))
		save(k, &sandbox_meter(&k->sandbox)->last);
}

/* ---- requests -------------------------------------------------------------------------- */

int keeper_op_network(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	json_t *j = describe(k), *policy = NULL;

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
