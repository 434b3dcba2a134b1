/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a living sandbox: what it did so far, and a policy that changes
 * at once.  The keeper holds the policy as it is now; berth-net enforces it.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/keeper_state.h"
#include "runtime/netpolicy.h"

/* In each pair the one takes back what the other said. */
static const struct { const char *key, *opposite; } lists[] = {
	{ "allow_host", "deny_host" }, { "deny_host", "allow_host" }, { "allow_net", "deny_net" }, { "deny_net", "allow_net" },
};

static const char *const budgets[] = { "max_bytes", "max_connections" };

static json_t *policy_now(struct keeper *k, struct err *e)
{
	if (!k->net_policy)
		k->net_policy = json_parse(k->spec->net_policy, strlen(k->spec->net_policy), NETPOLICY_JSON_MAX, "network policy", e);
	return k->net_policy;
}

static void remove_value(json_t *list, const json_t *value)
{
	size_t i;

	for (i = json_array_size(list); i-- > 0;)
		if (json_equal(json_array_get(list, i), value))
			json_array_remove(list, i);
}

static int merge_list(json_t *policy, const char *key, const char *opposite, const json_t *rq, struct err *e)
{
	json_t *more = NULL, *list, *value;
	size_t i;

	if (json_get_arr(rq, key, &more, "request", e) < 0)
		return -1;
	if (!more)
		return 0;
	if (!json_object_get(policy, key))
		json_object_set_new(policy, key, json_array());
	list = json_object_get(policy, key);
	json_array_foreach(more, i, value) {
		remove_value(json_object_get(policy, opposite), value);
		remove_value(list, value);
		if (json_array_append(list, value) < 0)
			return err_nomem(e);
	}
	return 0;
}

/* The policy with the changes of a request: a new reference, checked. */
static json_t *changed(struct keeper *k, const json_t *rq, struct err *e)
{
	autofree struct netpolicy *check = calloc(1, sizeof(*check));
	json_t *old = policy_now(k, e), *fresh = old ? json_deep_copy(old) : NULL, *v;
	int r = fresh && check ? 0 : err_nomem(e);
	size_t i;

	for (i = 0; r == 0 && i < ARRAY_LEN(lists); i++)
		r = merge_list(fresh, lists[i].key, lists[i].opposite, rq, e);
	for (i = 0; r == 0 && i < ARRAY_LEN(budgets); i++)
		if ((v = json_object_get(rq, budgets[i])))
			r = json_object_set(fresh, budgets[i], v);
	if (r == 0) {
		r = netpolicy_load(check, fresh, e);
		netpolicy_release(check);
	}
	if (r == 0)
		return fresh;
	json_decref(fresh);
	return NULL;
}

static int asks_for_network(const json_t *rq)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(lists); i++)
		if (json_object_get(rq, lists[i].key))
			return 1;
	for (i = 0; i < ARRAY_LEN(budgets); i++)
		if (json_object_get(rq, budgets[i]))
			return 1;
	return 0;
}

int keeper_network_update(struct keeper *k, const json_t *rq, uint64_t *ret_cut, struct err *e)
{
	autofree char *text = NULL;
	json_t *fresh;

	*ret_cut = 0;
	if (!asks_for_network(rq))
		return 0;
	if (!spec_needs_nethelper(k->spec))
		return err_set(e, ERR_INVALID, "sandbox %s has the network mode %s, which has no rules; hint: create it with "
			       "--network egress or bridge", k->spec->id, spec_network_name(k->spec->network));
	if (k->spec->network == NETWORK_BRIDGE && (json_object_get(rq, "allow_host") || json_object_get(rq, "deny_host") ||
						   json_object_get(rq, "max_connections")))
		return err_set(e, ERR_INVALID, "rules by name and connection budgets take --network egress; hint: --allow-net and "
			       "--deny-net work with a bridge");
	fresh = changed(k, rq, e);
	text = fresh ? json_dumps(fresh, JSON_COMPACT) : NULL;
	if (!text || nethelper_update(&k->sandbox.net, k->spec, text, ret_cut, e) < 0) {
		json_decref(fresh);
		return -1;
	}
	json_decref(k->net_policy);
	k->net_policy = fresh;
	return 0;
}

void keeper_network_describe(struct keeper *k, json_t *answer)
{
	json_t *j = nethelper_describe(&k->sandbox.net, k->spec);

	if (j)
		json_object_set_new(answer, "network", j);
}

int keeper_network_op(struct keeper *k, int client, const char *op, const json_t *rq, struct err *e)
{
	json_t *j, *policy = NULL;

	(void)rq;
	if (strcmp(op, "network"))
		return 1;
	j = nethelper_describe(&k->sandbox.net, k->spec);
	if (spec_needs_nethelper(k->spec) && !(policy = policy_now(k, e))) {
		json_decref(j);
		return -1;
	}
	if (policy)
		json_object_set(j, "policy", policy);
	keeper_answer(k, client, json_pack("{s:o}", "network", j), NULL, 0);
	return 0;
}
