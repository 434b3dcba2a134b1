/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/netjoin.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/nets.h"
#include "manager/host/record.h"

#define SPEC_FILE "spec.json"

#define ALIASES_MAX 16
#define ALIAS_MAX 63

json_t *netjoin_policy(const struct config *c, const char *network, const json_t *end,
		       struct err *e)
{
	json_t *place = nets_place(c, network, e), *j;

	if (!place)
		return NULL;
	/* two halves, as a range of all addresses has no end that a set could hold */
	j = json_pack("{s:o,s:O*,s:O*,s:[s,s,s,s]}", "bridge", place, "aliases", json_object_get(end, "aliases"),
		      "addresses", json_object_get(end, "addresses"), "deny_net", "0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1");
	if (!j)
		err_nomem(e);
	return j;
}

static json_t *find(const json_t *record, const char *network, size_t *ret_index)
{
	json_t *row;
	size_t i;

	json_array_foreach(record_networks(record), i, row)
		if (!strcmp(json_string_value(json_object_get(row, "network")), network)) {
			*ret_index = i;
			return row;
		}
	return NULL;
}

int netjoin_is_on(const json_t *record, const char *network)
{
	size_t i;

	return find(record, network, &i) != NULL;
}

static int check_aliases(const json_t *aliases, struct err *e)
{
	json_t *v;
	size_t i;

	if (json_array_size(aliases) > ALIASES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d names on a network; hint: fewer of "
					     "--alias", ALIASES_MAX);
	json_array_foreach(aliases, i, v) {
		const char *s = json_string_value(v);

		if (!s || !path_is_name(s) || strlen(s) > ALIAS_MAX)
			return err_set(e, ERR_INVALID, "'%.80s' is not a name for a sandbox on a "
						       "network; hint: up to 63 of a-z 0-9 _ . -",
				       s ? s : "");
	}
	return 0;
}

int netjoin_check(const json_t *record, const char *network, const json_t *end, struct err *e)
{
	const json_t *its = record_network(record);
	const char *mode = json_string_value(json_object_get(its, "mode"));
	const char *first = json_string_value(json_object_get(its, "network"));

	if (!first && (!mode || strcmp(mode, "bridge")))
		return err_set(e, ERR_INVALID, "the sandbox was made without a bridge, and joins "
					       "no network; hint: berth create --network NAME");
	if (record_budget_net_bytes(record))
		return err_set(e, ERR_INVALID, "a budget of net counts the first network alone, so "
			       "the sandbox joins no other; hint: berth create without net in --budget");
	if ((first && !strcmp(first, network)) || netjoin_is_on(record, network))
		return err_set(e, ERR_EXISTS, "the sandbox is on network %s already", network);
	if (json_array_size(record_networks(record)) >= NETJOIN_MAX)
		return err_set(e, ERR_LIMIT, "a sandbox is on %d networks at most; hint: berth "
					     "network disconnect", NETJOIN_MAX + 1);
	return check_aliases(json_object_get(end, "aliases"), e);
}

int netjoin_edit(json_t *record, const char *network, const json_t *end, struct err *e)
{
	json_t *list = record_networks(record);
	size_t i;

	if (!end) {
		const char *first = json_string_value(json_object_get(record_network(record), "network"));

		if (find(record, network, &i))
			return json_array_remove(list, i);
		if (first && !strcmp(first, network))
			return err_set(e, ERR_UNSUPPORTED, "the sandbox was made on network %.64s, which is its way out, and does not "
				       "leave it; hint: berth create --network NAME makes one on another", network);
		return err_set(e, ERR_NOT_FOUND, "the sandbox did not join network %.64s; hint: "
						 "berth network inspect %.64s lists who did; it "
						 "stays on the one it was made with",
			       network, network);
	}
	if (netjoin_check(record, network, end, e) < 0)
		return -1;
	if (!list) {
		list = json_array();
		record_set_networks(record, list);
	}
	return json_array_append_new(list, json_pack("{s:s,s:O?,s:O*}", "network", network, "aliases",
						     json_object_get(end, "aliases"), "addresses",
						     json_object_get(end, "addresses"))) < 0 ? err_nomem(e) : 0;
}

/* The pair of an option that it was made with, of several the last; NULL without it. */
static json_t *option_of(const json_t *options, const char *name)
{
	size_t i;

	for (i = json_array_size(options); i-- > 0;) {
		json_t *pair = json_array_get(options, i);
		const char *its = json_string_value(json_array_get(pair, 0));

		if (its && !strcmp(its, name))
			return pair;
	}
	return NULL;
}

/* Its options, from which the next start makes the record, name the network. */
static int change_options(json_t *options, const char *network, const json_t *end,
			  const json_t *known, struct err *e)
{
	json_t *pair = option_of(options, "network"), *v;
	const char *was = json_string_value(json_array_get(pair, 1));
	size_t i;

	if (!was || strcmp(was, NETJOIN_BRIDGE))
		return err_set(e, ERR_INVALID, "the sandbox is not on the bridge without a name; "
					       "hint: berth network inspect lists its networks");
	if (json_is_true(json_object_get(known, "internal")) && option_of(options, "publish"))
		return err_set(e, ERR_INVALID, "the sandbox publishes ports, and network %s is "
			       "internal; hint: berth network create without --internal", network);
	json_array_set_new(pair, 1, json_string(network));
	json_array_foreach(json_object_get(end, "aliases"), i, v)
		json_array_append_new(options, json_pack("[s,O]", "alias", v));
	json_array_foreach(json_object_get(end, "addresses"), i, v)
		json_array_append_new(options, json_pack("[s,O]", "ip", v));
	return 0;
}

int netjoin_leave_bridge(struct registry *r, const char *id, struct err *e)
{
	autoclose int dir = nets_open(r->config, e), lock = -1;
	autojson json_t *known = NULL, *record = NULL, *spec = NULL, *row = NULL;
	const char *network;

	if (dir < 0 || (lock = nets_lock(dir, e)) < 0 || !(record = record_load_kept(r, id, e)))
		return -1;
	row = json_incref(json_array_get(record_networks(record), 0));
	network = json_string_value(json_object_get(row, "network"));
	if (!network)
		return err_set(e, ERR_INVALID, "the sandbox is on no network besides the bridge "
					       "without a name; hint: berth network connect");
	if (!(known = nets_load(r->config, network, e)) ||
	    !(spec = registry_load(r, id, SPEC_FILE, e)) ||
	    change_options(json_object_get(spec, "options"), network, row, known, e) < 0 ||
	    registry_save(r, id, SPEC_FILE, spec, e) < 0)
		return -1;
	json_array_remove(record_networks(record), 0);
	record_set_network(record, json_pack("{s:s,s:s}", "mode", "bridge", "network", network));
	return record_save_kept(r, id, record, e);
}

int netjoin_record(struct registry *r, const char *id, const char *network, const json_t *end,
		   struct err *e)
{
	autoclose int dir = nets_open(r->config, e), lock = -1;
	autojson json_t *known = NULL, *record = NULL;

	/* under the lock of networks: the removal of a network counts its members under it */
	if (dir < 0 || (lock = nets_lock(dir, e)) < 0 ||
	    (end && !(known = nets_load(r->config, network, e))) ||
	    !(record = record_load_kept(r, id, e)))
		return -1;
	return netjoin_edit(record, network, end, e) < 0 ? -1 :
								record_save_kept(r, id, record, e);
}
