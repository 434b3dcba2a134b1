/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/netaddr.h"
#include "base/path.h"
#include "manager/host/netmembers.h"
#include "manager/host/nets.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "runtime/sandbox/nethelper.h"

/* ---- the networks that a sandbox is on ---- */

#define SPEC_FILE "spec.json"

#define ALIASES_MAX 16
#define ALIAS_MAX 63

json_t *netjoin_policy(const struct config *c, const char *network, const json_t *end,
		       struct err *e)
{
	json_t *place = nets_place(c, network, e), *j;

	if (!place)
		return NULL;
	/* two halves, because a range of all addresses has no end that a set could hold */
	j = json_pack("{s:o,s:O*,s:O*,s:[s,s,s,s]}", "bridge", place, "aliases", json_object_get(end, "aliases"),
		      "addresses", json_object_get(end, "addresses"), "deny_net", "0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1");
	if (!j)
		err_nomem(e);
	return j;
}

static json_t *find_joined(const json_t *record, const char *network, size_t *ret_index)
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

	return find_joined(record, network, &i) != NULL;
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

		if (find_joined(record, network, &i))
			return json_array_remove(list, i);
		if (first && !strcmp(first, network))
			return err_set(e, ERR_UNSUPPORTED, "the sandbox was made on network %.64s, which is its way out, and does not "
				       "leave it; hint: berth create --network NAME makes one on another", network);
		return err_set(e, ERR_NOT_FOUND, "the sandbox did not join network %.64s; hint: "
						 "berth network inspect %.64s lists the sandboxes "
						 "that did; a sandbox stays on the network it was "
						 "made with",
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

/* Changes its options, from which the next start makes the record, to name the network. */
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

/* ---- the members of a network, and its end ---- */

#define RECORD_MAX (2u << 20)

struct members {
	struct registry *r;
	const char *name;
	json_t *list;
};

static int is_nameless(const char *network)
{
	return !strcmp(network, NETJOIN_BRIDGE);
}

/* A sandbox that was made on the bridge without a name, or on none, may have joined later. */
static int is_member(const char *network, const json_t *record)
{
	const json_t *its = record_network(record);
	const char *on = json_string_value(json_object_get(its, "network")), *mode = json_string_value(json_object_get(its, "mode"));

	if (is_nameless(network))
		return !on && mode && !strcmp(mode, NETJOIN_BRIDGE) && !json_object_get(its, "container");
	return (on && !strcmp(on, network)) || netjoin_is_on(record, network);
}

static void add_member_addresses(const struct members *m, const char *id, json_t *row)
{
	static const char *const keys[] = { "address", "address6" };
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	autojson json_t *j = NULL;
	struct err ignored;
	uint8_t mac[6];
	json_t *chosen;
	char path[200];
	size_t i;

	if (is_nameless(m->name))
		snprintf(path, sizeof(path), "network/%s.json", id);
	else
		snprintf(path, sizeof(path), NETS_DIR "/%s/members/%s.json", m->name, id);
	if (io_read_file(m->r->state_fd, path, &b, &ignored) < 0)
		return;
	j = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, "record", &ignored);
	for (i = 0; j && i < ARRAY_LEN(keys); i++)
		if (json_object_get(j, keys[i]))
			json_object_set(row, keys[i], json_object_get(j, keys[i]));
	json_array_foreach (json_object_get(json_object_get(j, "policy"), "addresses"), i, chosen)
		if (json_is_string(chosen) && netaddr_mac(json_string_value(chosen), mac) == 0)
			json_object_set(row, "mac", chosen);
}

static int note_member(void *ctx, const char *id, int kept, json_t *record)
{
	const struct members *m = ctx;
	json_t *row;

	if (!is_member(m->name, record))
		return 0;
	row = json_pack("{s:s,s:O?,s:s}", "id", id, "name", json_object_get(record, "name"),
			"status",
			kept ? "stopped" : "running");
	if (row && !kept)
		add_member_addresses(m, id, row);
	return json_array_append_new(m->list, row);
}

json_t *netend_members(struct registry *r, const char *name, struct err *e)
{
	struct members m = { r, name, json_array() };

	if (m.list && registry_list(r, 1, note_member, &m, e) == 0)
		return m.list;
	if (!m.list)
		err_nomem(e);
	json_decref(m.list);
	return NULL;
}

static int bury_network(int dir, const char *name, struct err *e)
{
	char hidden[80];

	snprintf(hidden, sizeof(hidden), ".%s", name);
	if (path_remove_tree(dir, hidden, e) < 0)
		return -1;
	if (renameat(dir, name, dir, hidden) < 0 && errno != ENOENT)
		return err_sys(e, "remove the network %s", name);
	return path_remove_tree(dir, hidden, e);
}

static int close_network(struct registry *r, const char *name, struct err *e)
{
	autojson json_t *place = nets_place(r->config, name, e);
	autojson json_t *policy = place ? json_pack("{s:O}", "bridge", place) : NULL;
	autofree char *text = policy ? json_dumps(policy, JSON_COMPACT) : NULL;

	char extra[sizeof(r->config->run_dir) + 40];

	if (!text)
		return place ? err_nomem(e) : -1;
	snprintf(extra, sizeof(extra), ",\"sandboxes\":\"%s/sandboxes\"", r->config->run_dir);
	return nethelper_bridge("bridge-remove", "", extra, text, NULL, e);
}

int netend_remove(struct registry *r, const char *name, struct err *e)
{
	autoclose int dir = nets_open(r->config, e), lock = -1;
	autojson json_t *record = NULL, *members = NULL;
	size_t n;

	if (dir < 0 || (lock = nets_lock(dir, e)) < 0 || !(record =
							   nets_load(r->config, name, e)) ||
	    !(members = netend_members(r, name, e)))
		return -1;
	n = json_array_size(members);
	if (n)
		return err_set(e, ERR_BUSY, "network %s has %zu member%s, living or stopped; hint: "
					    "berth "
			       "network inspect %s names them", name, n, n == 1 ? "" : "s", name);
	if (close_network(r, name, e) < 0)
		return -1;
	return bury_network(dir, name, e);
}

struct clearing {
	struct registry *r;
	int dir;
	struct err *e;
};

static int clear_hidden(void *ctx, const char *name)
{
	const struct clearing *x = ctx;

	return path_remove_tree(x->dir, name, x->e);
}

/* Closed, and not gone: its removal was cut short. */
static int clear_closed(void *ctx, const char *name)
{
	const struct clearing *x = ctx;
	char path[120];

	snprintf(path, sizeof(path), "%s/members/closed", name);
	if (!path_has(x->dir, path))
		return 0;
	return close_network(x->r, name, x->e) < 0 ? -1 : bury_network(x->dir, name, x->e);
}

int netend_clear(struct registry *r, struct err *e)
{
	struct clearing x = { r, -1, e };
	autoclose int dir = -1, lock = -1;

	if (!path_has(r->state_fd, NETS_DIR))
		return 0;
	dir = x.dir = nets_open(r->config, e);
	if (dir < 0 || (lock = nets_lock(dir, e)) < 0 || nets_each_in(dir, 1, clear_hidden, &x,
								      e) != 0)
		return -1;
	return nets_each_in(dir, 0, clear_closed, &x, e);
}

/* ---- what dead supervisors left ---- */

#define NETWORK_DIR "network"

/* A policy that says where, and nothing else; name NULL: the bridge without one. */
static char *left_bridge_policy(const struct registry *r, const char *name, struct err *e)
{
	autojson json_t *bridge = name ? nets_place(r->config, name, e) : nets_bridge(r->config);
	autojson json_t *policy = bridge ? json_pack("{s:O}", "bridge", bridge) : NULL;
	char *text = policy ? json_dumps(policy, JSON_COMPACT) : NULL;

	if (!text && (bridge || !name))
		err_nomem(e);
	return text;
}

/* A sandbox that lasts keeps what it has used of its budget, however its keeper ended. */
static int save_used(struct registry *r, const char *id, const json_t *told, struct err *e)
{
	autojson json_t *j = NULL;
	uint64_t bytes = 0;
	int got = json_get_u64(told, "used_bytes", &bytes, "answer of the network helper", e);

	if (got < 1 || !path_has(r->kept_fd, id))
		return got < 0 ? -1 : 0;
	j = json_pack("{s:I}", "bytes", (json_int_t)bytes);
	return j ? registry_save(r, id, NETWORK_USED_FILE, j, e) : err_nomem(e);
}

struct bridge_clearing {
	struct registry *r;
	const char *id;
	unsigned cleared;
	struct err *e;
};

static int leave_left_bridge(struct bridge_clearing *x, const char *name)
{
	autofree char *policy = NULL;
	autojson json_t *told = NULL;

	policy = left_bridge_policy(x->r, name, x->e);
	if (!policy || nethelper_bridge("bridge-down", x->id, "", policy, &told, x->e) < 0)
		return -1;
	return save_used(x->r, x->id, told, x->e);
}

static int leave_if_member(void *ctx, const char *name)
{
	struct bridge_clearing *x = ctx;
	char path[200];

	snprintf(path, sizeof(path), NETS_DIR "/%s/members/%s.json", name, x->id);
	return path_has(x->r->state_fd, path) ? leave_left_bridge(x, name) : 0;
}

int netclear_one(struct registry *r, const char *id, struct err *e)
{
	struct bridge_clearing x = { .r = r, .id = id, .e = e };
	char path[100];

	snprintf(path, sizeof(path), NETWORK_DIR "/%s.json", id);
	if (path_has(r->state_fd, path) && leave_left_bridge(&x, NULL) < 0)
		return -1;
	return nets_each(r->config, leave_if_member, &x, e);
}

struct renaming {
	struct registry *r;
	const char *id, *name;
	struct err *e;
};

static int rename_if_member(void *ctx, const char *network)
{
	const struct renaming *x = ctx;
	autofree char *policy = NULL;
	char path[200], extra[100];

	snprintf(path, sizeof(path), NETS_DIR "/%s/members/%s.json", network, x->id);
	if (!path_has(x->r->state_fd, path))
		return 0;
	policy = left_bridge_policy(x->r, network, x->e);
	snprintf(extra, sizeof(extra), ",\"name\":\"%s\"", x->name);
	return policy ? nethelper_bridge("bridge-rename", x->id, extra, policy, NULL, x->e) : -1;
}

int netclear_rename(struct registry *r, const char *id, const char *name, struct err *e)
{
	struct renaming x = { r, id, name, e };

	return nets_each(r->config, rename_if_member, &x, e);
}

static int clear_all(struct bridge_clearing *x, const char *name)
{
	char extra[sizeof(x->r->config->run_dir) + 40];
	autofree char *policy = NULL;
	autojson json_t *told = NULL;
	uint64_t n = 0;

	policy = left_bridge_policy(x->r, name, x->e);
	snprintf(extra, sizeof(extra), ",\"sandboxes\":\"%s/sandboxes\"", x->r->config->run_dir);
	if (!policy || nethelper_bridge("bridge-gc", "", extra, policy, &told, x->e) < 0 ||
	    json_get_u64(told, "cleared", &n, "answer of the network helper", x->e) < 0)
		return -1;
	x->cleared += (unsigned)n;
	return 0;
}

static int clear_network(void *ctx, const char *name)
{
	struct bridge_clearing *x = ctx;
	char path[100];

	snprintf(path, sizeof(path), NETS_DIR "/%s/members", name);
	return path_has(x->r->state_fd, path) ? clear_all(x, name) : 0;
}

int netclear_all(struct registry *r, unsigned *ret_cleared, struct err *e)
{
	struct bridge_clearing x = { .r = r, .e = e };
	int result = nets_each(r->config, clear_network, &x, e);

	if (result == 0 && path_has(r->state_fd, NETWORK_DIR))
		result = clear_all(&x, NULL);
	*ret_cleared = x.cleared;
	return result;
}
