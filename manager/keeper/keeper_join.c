/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The networks that a living sandbox joined besides the one it was made with: an interface each,
 * made and taken back by runs of berth-net.  They are in its record before the answer, so that the
 * next start joins them, too.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/netjoin.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_state.h"

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

static int join(struct keeper *k, const char *network, const json_t *end, struct err *e)
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

static int part(struct keeper *k, const char *network, struct err *e)
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
		if (join(k, json_string_value(json_object_get(row, "network")), row, e) < 0)
			return -1;
	return 0;
}

void keeper_join_end(struct keeper *k)
{
	struct err ignored;

	/* what fails is found by gc, as its record is in the network's directory */
	while (json_array_size(k->joined))
		part(k, json_string_value(json_object_get(json_array_get(k->joined, 0), "network")),
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

/* In both records; end NULL: the network is left. */
static int record(struct keeper *k, const char *network, const json_t *end, struct err *e)
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
	if (netjoin_check(k->record, network, end, e) < 0 || join(k, network, end, e) < 0)
		return -1;
	if (record(k, network, end, e) < 0) {
		part(k, network, &ignored);
		return -1;
	}
	keeper_event(k, "network-join", json_pack("{s:s}", "network", network));
	keeper_answer(k, rq->client, json_object(), NULL, 0);
	return 0;
}

int keeper_op_network_leave(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const char *network = request_name(rq->json, "");

	/* first the record: the kernel's objects can be found without it */
	if (record(k, network, NULL, e) < 0 || part(k, network, e) < 0)
		return -1;
	keeper_event(k, "network-leave", json_pack("{s:s}", "network", network));
	keeper_answer(k, rq->client, json_object(), NULL, 0);
	return 0;
}
