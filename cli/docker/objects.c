/* SPDX-License-Identifier: Apache-2.0 */
/* docker network and docker volume. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "cli/docker/verbs.h"
#include "manager/engine/filters.h"
#include "manager/engine/objects.h"

/* ---- networks ---- */

#define SHORT_ID 12

/* ---- networks -------------------------------------------------------------------------------- */

/* How operations on networks are carried out here: the registry of s is opened.  -1: it cannot be. */
static int asker_of(struct sandbox_ref *s, struct engine_berth *ret, struct err *e)
{
	*ret = door_berth(&s->config);
	return s->registry.run_fd < 0 ? sandbox_ref_registry(s, e) : 0;
}

json_t *door_network_document(struct sandbox_ref *s, const char *want, struct err *e)
{
	struct engine_berth b;

	return asker_of(s, &b, e) < 0 ? NULL : engine_network_look(&b, want, e);
}

static int add_network_row(const struct door_args *a, json_t *rows, const json_t *doc)
{
	const json_t *labels = json_object_get(doc, "Labels");
	const int whole = door_on(a, "no-trunc");

	if (door_on(a, "quiet"))
		return printf("%.*s\n", whole ? 64 : SHORT_ID, door_text(doc, "Id")) < 0;
	return json_array_append_new(
		rows, json_pack("{s:s,s:s,s:o,s:b,s:o,s:s,s:s,s:O}", "CreatedAt",
				door_text(doc, "Created"), "Driver", door_text(doc, "Driver"), "ID",
				json_sprintf("%.*s", whole ? 64 : SHORT_ID, door_text(doc, "Id")),
				"Internal", json_is_true(json_object_get(doc, "Internal")),
				"Labels", door_labels_text(labels), "Name", door_text(doc, "Name"),
				"Scope", "local", "Label", labels));
}

static int list_networks(const struct door_args *a, struct err *e)
{
	static const struct door_column heads[] = {
		{ "ID", "NETWORK ID" },        { "Name", "NAME" },
		{ "Driver", "DRIVER" },        { "Scope", "SCOPE" },
		{ "Internal", "INTERNAL" },    { "Labels", "LABELS" },
		{ "CreatedAt", "CREATED AT" }, { NULL, NULL },
	};
	autojson json_t *filters = door_filters(a, e), *rows = json_array(), *all = NULL;
	struct engine_berth b;
	struct sandbox_ref s;
	const json_t *doc;
	size_t i;

	sandbox_ref_init(&s);
	if (filters && engine_accept(ENGINE_NETWORKS, filters, e) == 0 && asker_of(&s, &b, e) == 0)
		all = engine_network_list(&b, filters, e);
	sandbox_ref_close(&s);
	if (!all)
		return -1;
	json_array_foreach (all, i, doc)
		if (add_network_row(a, rows, doc) < 0)
			return err_nomem(e);
	return door_on(a, "quiet") ? 0 : door_rows(door_value(a, "format"), rows, heads, 4, e);
}

/* The pool whose subnet has the address or range text, of which other options tell; e when none has. */
static json_t *pool_having(json_t *pools, const char *option, const char *text, struct err *e)
{
	const size_t n = strcspn(text, "/");
	char first[NETADDR_TEXT];
	struct netcidr net;
	struct netaddr a;
	json_t *one;
	size_t i;

	snprintf(first, sizeof(first), "%.*s", n < sizeof(first) ? (int)n : 0, text);
	json_array_foreach (pools, i, one)
		if (netaddr_parse(first, &a) == 0 &&
		    netcidr_parse(json_string_value(json_object_get(one, "Subnet")), &net, e) == 0 && netcidr_holds(&net, &a))
			return one;
	err_set(e, ERR_INVALID, "no matching subnet for %s %.80s", option, text);
	return NULL;
}

/* Each of an option's values, in the pool that it belongs to. */
static int add_to_pools(json_t *pools, const json_t *values, const char *option, const char *key, struct err *e)
{
	const json_t *value;
	size_t i;

	json_array_foreach ((json_t *)(size_t)values, i, value) {
		json_t *pool = pool_having(pools, option, json_string_value(value), e);

		if (!pool)
			return -1;
		if (json_object_get(pool, key))
			return err_set(e, ERR_INVALID, "cannot configure multiple %ss (%.80s) on the same subnet", option,
				       json_string_value(value));
		json_object_set(pool, key, (json_t *)(size_t)value);
	}
	return 0;
}

static int add_aux_addresses(json_t *pools, const json_t *values, struct err *e)
{
	const json_t *value;
	size_t i;

	json_array_foreach ((json_t *)(size_t)values, i, value) {
		const char *text = json_string_value(value), *eq = strchr(text, '=');
		json_t *pool = eq ? pool_having(pools, "aux-address", eq + 1, e) : NULL, *aux;

		if (!eq)
			return err_set(e, ERR_INVALID, "invalid argument \"%.80s\" for \"--aux-address\" flag: NAME=ADDRESS is wanted",
				       text);
		if (!pool)
			return -1;
		if (!(aux = json_object_get(pool, "AuxiliaryAddresses")))
			json_object_set_new(pool, "AuxiliaryAddresses", aux = json_object());
		json_object_setn_new_nocheck(aux, text, (size_t)(eq - text), json_string(eq + 1));
	}
	return 0;
}

/* --subnet, --gateway, --ip-range and --aux-address, as items of IPAM.Config. */
static json_t *pools_of(const struct door_args *a, struct err *e)
{
	autojson json_t *pools = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)door_list(a, "subnet"), i, one)
		json_array_append_new(pools, json_pack("{s:O}", "Subnet", one));
	if (add_to_pools(pools, door_list(a, "gateway"), "gateway", "Gateway", e) < 0 ||
	    add_to_pools(pools, door_list(a, "ip-range"), "ip-range", "IPRange", e) < 0 ||
	    add_aux_addresses(pools, door_list(a, "aux-address"), e) < 0)
		return NULL;
	return json_incref(pools);
}

static int make_docker_network(const struct door_args *a, struct err *e)
{
	autojson json_t *pools = pools_of(a, e);
	autojson json_t *body = json_pack("{s:s,s:s*,s:b,s:b,s:o,s:o,s:{s:s*,s:O*}}", "Name", a->words[0], "Driver",
					  door_value(a, "driver"), "Internal", door_on(a, "internal"), "EnableIPv6",
					  door_on(a, "ipv6"), "Labels", door_map(door_list(a, "label")), "Options",
					  door_map(door_list(a, "opt")), "IPAM", "Driver", door_value(a, "ipam-driver"), "Config", pools);
	autobuf struct buf warning = BUF_INIT(ENGINE_WARNING_MAX);
	struct engine_berth b;
	struct sandbox_ref s;
	char id[ENGINE_ID];
	int r = !pools ? -1 : body ? 0 : err_nomem(e);

	sandbox_ref_init(&s);
	if (r == 0)
		r = asker_of(&s, &b, e);
	if (r == 0)
		r = engine_network_create(&b, body, id, &warning, e);
	sandbox_ref_close(&s);
	if (r == 0 && warning.len)
		fprintf(stderr, "WARNING: %s\n", warning.data);
	return r < 0 ? -1 : printf("%s\n", id) < 0;
}

int door_prune_networks(json_t *filters, double *freed, struct err *e)
{
	autojson json_t *said = NULL;
	struct engine_berth b;
	struct sandbox_ref s;

	(void)freed;
	sandbox_ref_init(&s);
	if (asker_of(&s, &b, e) == 0)
		said = engine_network_prune(&b, filters, e);
	sandbox_ref_close(&s);
	return said ? door_told_gone("Deleted Networks:", json_object_get(said, "NetworksDeleted")) : -1;
}

/* A container on one more network, or off it. */
static int move_on_docker_network(const struct door_args *a, int connects, struct err *e)
{
	const json_t *aliases = door_list(a, "alias");
	autojson json_t *endpoint = json_pack("{s:O*,s:{s:s*,s:s*}}", "Aliases", aliases, "IPAMConfig", "IPv4Address",
					      door_value(a, "ip"), "IPv6Address", door_value(a, "ip6"));
	char name[ENGINE_NAME], alias[ENGINE_NAME] = "";
	struct engine_berth b;
	struct sandbox_ref s;
	int r;

	sandbox_ref_init(&s);
	r = asker_of(&s, &b, e);
	if (r == 0)
		r = engine_network_open(&b, a->words[0], connects, endpoint, name, e);
	if (r == 0)
		r = door_find(&s, a->words[1], e);
	if (r == 0) {
		const struct engine_move m = { a->words[0], a->words[1], s.id, alias, endpoint, s.kept };

		if (connects)
			r = engine_load_joiner(&s.registry, s.id, s.kept, alias, e);
		r = r < 0 ? -1 : engine_network_move(&b, name, connects, &m, e);
	}
	sandbox_ref_close(&s);
	return r;
}

static int join_docker_network(const struct door_args *a, struct err *e)
{
	return move_on_docker_network(a, 1, e);
}

static int leave_docker_network(const struct door_args *a, struct err *e)
{
	return move_on_docker_network(a, 0, e);
}

/* ---- the verbs ---------------------------------------------------------------------------- */

static const struct door_row network_verbs[] = {
	{ "network ls", 0, 0, list_networks },     { "network create", 1, 1, make_docker_network },
	{ "network connect", 2, 2, join_docker_network },         { "network disconnect", 2, 2, leave_docker_network },
};

static int docker_network_main(const struct command *self, int argc, char **argv)
{
	return door_dispatch(network_verbs, self, argc, argv);
}

static int network_rm_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	int i, status = 0;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	for (i = 0; i < a.count; i++) {
		struct engine_berth b;
		struct sandbox_ref s;
		struct err e;

		sandbox_ref_init(&s);
		if ((asker_of(&s, &b, &e) < 0 || engine_network_remove(&b, a.words[i], &e) < 0) &&
		    !(e.code == ERR_NOT_FOUND && door_on(&a, "force")))
			status = door_error(&e);
		else
			printf("%s\n", a.words[i]);
		sandbox_ref_close(&s);
	}
	door_release(&a);
	return status;
}

static const struct opt network_ls_options[] = {
	{ "filter", 'f', OPT_LIST, "filter", "Provide filter values (e.g. \"label=<key>\")",
	  DOOR_TAKEN },
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Do not truncate the output", DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Only display IDs or names", DOOR_TAKEN },
};
static const struct opt network_rm_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "One that does not exist is no error", DOOR_TAKEN },
};
#define CHOOSES "berth chooses the link-local addresses"
static const struct opt network_options[] = {
	{ "attachable", 0, OPT_FLAG, NULL, "Enable manual container attachment", DOOR_IGNORED },
	{ "aux-address", 0, OPT_LIST, "map", "Auxiliary IPv4 or IPv6 addresses", DOOR_TAKEN },
	{ "config-from", 0, OPT_VALUE, "string", "The network from which to copy the configuration",
	  DOOR_REFUSED, COMPLETE_NONE, "networks have no configuration apart from themselves" },
	{ "config-only", 0, OPT_FLAG, NULL, "Create a configuration only network", DOOR_REFUSED,
	  COMPLETE_NONE, "networks have no configuration apart from themselves" },
	{ "driver", 'd', OPT_VALUE, "string", "Driver to manage the Network: bridge", DOOR_TAKEN },
	{ "gateway", 0, OPT_LIST, "strings", "IPv4 or IPv6 Gateway for the master subnet",
	  DOOR_TAKEN },
	{ "ingress", 0, OPT_FLAG, NULL, "Create swarm routing-mesh network", DOOR_REFUSED,
	  COMPLETE_NONE, "there is no swarm" },
	{ "internal", 0, OPT_FLAG, NULL, "Restrict external access to the network", DOOR_TAKEN },
	{ "ip-range", 0, OPT_LIST, "strings", "Allocate container ip from a sub-range", DOOR_TAKEN },
	{ "ipam-driver", 0, OPT_VALUE, "string", "IP Address Management Driver: default",
	  DOOR_TAKEN },
	{ "ipam-opt", 0, OPT_LIST, "map", "Set IPAM driver specific options", DOOR_IGNORED },
	{ "ipv4", 0, OPT_FLAG, NULL, "Enable IPv4 networking: it always is", DOOR_IGNORED },
	{ "ipv6", 0, OPT_FLAG, NULL, "Enable IPv6 networking, as a --subnet of IPv6 does", DOOR_TAKEN },
	{ "label", 0, OPT_LIST, "list", "Set metadata on a network", DOOR_TAKEN },
	{ "opt", 'o', OPT_LIST, "map", "Set driver specific options", DOOR_TAKEN },
	{ "scope", 0, OPT_VALUE, "string", "Control the network's scope: local", DOOR_IGNORED },
	{ "subnet", 0, OPT_LIST, "strings", "Subnet in CIDR format", DOOR_TAKEN },
};
static const struct opt connect_options[] = {
	{ "alias", 0, OPT_LIST, "strings", "Add network-scoped alias for the container",
	  DOOR_TAKEN },
	{ "driver-opt", 0, OPT_LIST, "strings", "Driver options for the network", DOOR_IGNORED },
	{ "gw-priority", 0, OPT_VALUE, "int", "The highest one is the default gateway",
	  DOOR_IGNORED },
	{ "ip", 0, OPT_VALUE, "string", "IPv4 address", DOOR_TAKEN },
	{ "ip6", 0, OPT_VALUE, "string", "IPv6 address", DOOR_TAKEN },
	{ "link", 0, OPT_LIST, "list", "Add link to another container", DOOR_REFUSED, COMPLETE_NONE,
	  "containers of one network find each other by name" },
	{ "link-local-ip", 0, OPT_LIST, "strings", "Link-local address for the container",
	  DOOR_REFUSED, COMPLETE_NONE, CHOOSES },
};
static const struct opt disconnect_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "Force the container to disconnect", DOOR_IGNORED },
};

#define VERB(sym, verb, words, text, table, what, main)                                            \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = words,                                                                     \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = ARRAY_LEN(table),                                                     \
		.complete = what,                                                                  \
		.run = main,                                                                       \
	}

VERB(network_ls, "network ls", "[OPTIONS]", "List networks", network_ls_options, COMPLETE_NONE, docker_network_main);
VERB(network_create, "network create", "[OPTIONS] NETWORK", "Create a network", network_options,
	COMPLETE_NONE, docker_network_main);
VERB(network_rm, "network rm", "[OPTIONS] NETWORK [NETWORK...]", "Remove one or more networks",
	network_rm_options, COMPLETE_NONE, network_rm_main);
VERB(network_connect, "network connect", "[OPTIONS] NETWORK CONTAINER",
	"Connect a container to a network", connect_options, COMPLETE_NONE, docker_network_main);
VERB(network_disconnect, "network disconnect", "[OPTIONS] NETWORK CONTAINER",
	"Disconnect a container from a network", disconnect_options, COMPLETE_NONE, docker_network_main);

/* ---- volumes ---- */

/* docker volume, and what docker network shares with it. */

/* ---- shared with networks ---- */

json_t *door_labels_text(const json_t *labels)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	struct err ignored;
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(size_t)labels, key, v)
		buf_addf(&b, &ignored, "%s%s=%s", b.len ? "," : "", key, json_string_value(v));
	return json_string(b.data ? b.data : "");
}

int door_told_gone(const char *head, const json_t *names)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)names, i, one)
		printf("%s%s%s\n", i ? "" : head, i ? "" : "\n", json_string_value(one));
	return json_array_size(names) && printf("\n") < 0 ? -1 : 0;
}

/* ---- volumes --------------------------------------------------------------------------------- */

json_t *door_volume_document(struct sandbox_ref *s, const char *name, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);

	(void)s;
	return engine_volume_find(&b, name, e);
}

static int list_volumes(const struct door_args *a, struct err *e)
{
	static const struct door_column heads[] = {
		{ "Driver", "DRIVER" },         { "Name", "VOLUME NAME" }, { "Scope", "SCOPE" },
		{ "Mountpoint", "MOUNTPOINT" }, { "Labels", "LABELS" },    { NULL, NULL },
	};
	autojson json_t *filters = door_filters(a, e), *all = NULL, *rows = json_array();
	const struct engine_berth b = door_berth(NULL);
	const json_t *v;
	size_t i;

	all = filters && engine_accept(ENGINE_VOLUMES, filters, e) == 0 ? engine_volume_list(&b, filters, e) : NULL;
	if (!all)
		return -1;
	json_array_foreach (all, i, v) {
		const json_t *labels = json_object_get(v, "Labels");

		if (door_on(a, "quiet"))
			printf("%s\n", door_text(v, "Name"));
		json_array_append_new(
			rows, json_pack("{s:s,s:o,s:s,s:s,s:s,s:O}", "Driver",
					door_text(v, "Driver"), "Labels", door_labels_text(labels),
					"Mountpoint", door_text(v, "Mountpoint"), "Name",
					door_text(v, "Name"), "Scope", "local", "Label", labels));
	}
	return door_on(a, "quiet") ? 0 : door_rows(door_value(a, "format"), rows, heads, 2, e);
}

static int make_docker_volume(const struct door_args *a, struct err *e)
{
	const char *called = a->count ? a->words[0] : door_value(a, "name");
	const struct engine_berth b = door_berth(NULL);
	autojson json_t *body = json_pack("{s:s*,s:s*,s:o,s:o}", "Name", called, "Driver", door_value(a, "driver"),
					  "Labels", door_map(door_list(a, "label")), "DriverOpts",
					  door_map(door_list(a, "opt")));
	autojson json_t *doc = body ? engine_volume_create(&b, body, e) : NULL;

	if (!body)
		return err_nomem(e);
	return doc ? printf("%s\n", door_text(doc, "Name")) < 0 : -1;
}

int door_prune_volumes(json_t *filters, double *freed, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);
	autojson json_t *said = engine_volume_prune(&b, filters, e);

	*freed += json_number_value(json_object_get(said, "SpaceReclaimed"));
	return said ? door_told_gone("Deleted Volumes:", json_object_get(said, "VolumesDeleted")) : -1;
}

int door_prune_builds(json_t *filters, double *freed, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);
	autojson json_t *said = engine_build_prune(&b, e);

	(void)filters;
	*freed += json_number_value(json_object_get(said, "SpaceReclaimed"));
	return said ? 0 : -1;
}

/* ---- the verbs ---------------------------------------------------------------------------- */

static const struct door_row volume_verbs[] = {
	{ "volume ls", 0, 0, list_volumes },
	{ "volume create", 0, 1, make_docker_volume },
};

static int docker_volume_main(const struct command *self, int argc, char **argv)
{
	return door_dispatch(volume_verbs, self, argc, argv);
}

static int volume_rm_main(const struct command *self, int argc, char **argv)
{
	const struct engine_berth b = door_berth(NULL);
	struct door_args a;
	int i, status = 0;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	for (i = 0; i < a.count; i++) {
		struct err e;

		if (engine_volume_remove(&b, a.words[i], door_on(&a, "force"), &e) < 0)
			status = door_error(&e);
		else
			printf("%s\n", a.words[i]);
	}
	door_release(&a);
	return status;
}

static const struct opt volume_ls_options[] = {
	{ "filter", 'f', OPT_LIST, "filter", "Provide filter values (e.g. \"label=<key>\")",
	  DOOR_TAKEN },
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Do not truncate the output", DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Only display IDs or names", DOOR_TAKEN },
};
static const struct opt volume_rm_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "One that does not exist is no error", DOOR_TAKEN },
};
static const struct opt volume_options[] = {
	{ "driver", 'd', OPT_VALUE, "string", "Specify volume driver name: local", DOOR_TAKEN },
	{ "label", 0, OPT_LIST, "list", "Set metadata for a volume", DOOR_TAKEN },
	{ "name", 0, OPT_VALUE, "string", "Specify volume name", DOOR_TAKEN },
	{ "opt", 'o', OPT_LIST, "map", "Set driver specific options: size=SIZE", DOOR_TAKEN },
};

VERB(volume_ls, "volume ls", "[OPTIONS]", "List volumes", volume_ls_options, COMPLETE_NONE, docker_volume_main);
VERB(volume_create, "volume create", "[OPTIONS] [VOLUME]", "Create a volume", volume_options,
	COMPLETE_NONE, docker_volume_main);
VERB(volume_rm, "volume rm", "[OPTIONS] VOLUME [VOLUME...]", "Remove one or more volumes",
	volume_rm_options, COMPLETE_VOLUME, volume_rm_main);
