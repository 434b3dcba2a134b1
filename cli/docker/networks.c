/* SPDX-License-Identifier: Apache-2.0 */
/* docker network. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/accept.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/host/nets.h"

#define SHORT_ID 12

static const char *const builtin[] = { "bridge", "host", "none" };

/* ---- networks -------------------------------------------------------------------------------- */

struct naming {
	const char *want; /* a name, an id, or the start of one */
	char name[65];
	json_t *names; /* of all; or NULL */
};

static int take_name(void *ctx, const char *name)
{
	struct naming *n = ctx;
	char id[ENGINE_ID];

	if (strchr(name, '@')) /* a tenant's, which the socket does not show either */
		return 0;
	if (n->names)
		return json_array_append_new(n->names, json_string(name));
	engine_network_id(name, id);
	if (strcmp(name, n->want) &&
	    (strlen(n->want) < SHORT_ID || strncmp(id, n->want, strlen(n->want))))
		return 0;
	snprintf(n->name, sizeof(n->name), "%s", name);
	return 1;
}

/* 1: one of those that are always there; 0: one of ours; -1: ERR_NOT_FOUND. */
static int find_network(struct sandbox_ref *s, const char *want, char ret[65], struct err *e)
{
	char mapped[ENGINE_NAME];
	struct naming n = { .want = engine_name_map(want, mapped) < 0 ? want : mapped };
	size_t i;

	for (i = 0; i < ARRAY_LEN(builtin) && !n.name[0]; i++)
		take_name(&n, builtin[i]);
	if (n.name[0]) {
		memcpy(ret, n.name, sizeof(n.name));
		return 1;
	}
	if (s->registry.run_fd < 0 && sandbox_ref_registry(s, e) < 0)
		return -1;
	if (nets_each(&s->config, take_name, &n, e) < 0)
		return -1;
	memcpy(ret, n.name, sizeof(n.name));
	return n.name[0] ? 0 : err_set(e, ERR_NOT_FOUND, "network %.100s not found", want);
}

static json_t *load_network(const char *name, struct err *e)
{
	const char *argv[] = { "berth", "network", "inspect", "--json", "--", name, NULL };
	autojson json_t *record = door_call(argv, e);

	return record ? engine_network(record) : NULL;
}

json_t *door_network_document(struct sandbox_ref *s, const char *want, struct err *e)
{
	char name[65];
	int always = find_network(s, want, name, e);

	if (always < 0)
		return NULL;
	return always ? engine_network_builtin(name) : load_network(name, e);
}

static int add_network(const struct door_args *a, json_t *rows, const json_t *filters, json_t *doc)
{
	autojson json_t *owned __attribute__((unused)) = doc;
	const json_t *labels = json_object_get(doc, "Labels");
	const int whole = door_on(a, "no-trunc");

	if (!engine_object_matches(filters, doc))
		return 0;
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
	autojson json_t *filters = door_filters(a, e), *rows = json_array();
	struct naming n = { .names = json_array() };
	autojson json_t *names = n.names;
	struct sandbox_ref s;
	const json_t *name;
	int r = -1;
	size_t i;

	sandbox_ref_init(&s);
	if (filters && engine_accept(ENGINE_NETWORKS, filters, e) == 0 &&
	    sandbox_ref_registry(&s, e) == 0)
		r = nets_each(&s.config, take_name, &n, e);
	sandbox_ref_close(&s);
	for (i = 0; i < ARRAY_LEN(builtin) && r >= 0; i++)
		r = add_network(a, rows, filters, engine_network_builtin(builtin[i]));
	json_array_foreach (names, i, name) {
		struct err why;
		json_t *doc = r < 0 ? NULL : load_network(json_string_value(name), &why);

		/* one that went just now is not in the list */
		if (doc)
			r = add_network(a, rows, filters, doc);
	}
	if (r < 0)
		return -1;
	return door_on(a, "quiet") ? 0 : door_rows(door_value(a, "format"), rows, heads, 4, e);
}

static int make_network(const struct door_args *a, struct err *e)
{
	const char *argv[DOOR_WORDS_MAX + 8] = { "berth", "network", "create", "--json" },
					  *driver = door_value(a, "driver"), *called = a->words[0];
	autojson json_t *made = NULL;
	autofree char *label = NULL;
	char id[ENGINE_ID], name[ENGINE_NAME];
	size_t n = door_label_words(a, argv, 4), i;
	const json_t *one;

	if (engine_name_map(called, name) < 0)
		return err_set(e, ERR_INVALID, "invalid network name: %.80s", called);
	if (strcmp(called, name) && !(argv[n++] = label = door_called_word(called)))
		return err_nomem(e);

	if (driver && driver[0] && strcmp(driver, "bridge"))
		return err_set(e, ERR_NOT_FOUND,
			       "could not find plugin %.60s in v1 plugin "
			       "registry: plugin not found",
			       driver);
	if (door_on(a, "internal"))
		argv[n++] = "--internal";
	json_array_foreach ((json_t *)(size_t)door_list(a, "subnet"), i, one) {
		if (i == 2)
			return err_set(e, ERR_INVALID, "more than two subnets");
		argv[n++] = "--subnet";
		argv[n++] = json_string_value(one);
	}
	argv[n++] = "--";
	argv[n++] = name;
	made = door_call(argv, e);
	if (!made && e->code == ERR_EXISTS)
		return err_set(e, ERR_EXISTS, "network with name %.255s already exists", called);
	if (!made)
		return -1;
	engine_network_id(name, id);
	return printf("%s\n", id) < 0;
}

static int remove_network(struct sandbox_ref *s, const char *want, int force, struct err *e)
{
	char name[65];
	int always = find_network(s, want, name, e);

	if (always < 0)
		return force && e->code == ERR_NOT_FOUND ? 0 : -1;
	if (always)
		return err_set(e, ERR_DENIED, "%s is a pre-defined network and cannot be removed",
			       name);
	return door_remove_object("network", name, 0, e);
}

/* One that gets a member meanwhile is not removed. */
static void prune_one(const char *name, const json_t *filters, int *told)
{
	struct err why;
	autojson json_t *doc = load_network(name, &why);

	if (doc && engine_object_matches(filters, doc) &&
	    !json_object_size(json_object_get(doc, "Containers")) &&
	    door_remove_object("network", door_text(doc, "Name"), 0, &why) == 0)
		printf("%s%s\n", (*told)++ ? "" : "Deleted Networks:\n", door_text(doc, "Name"));
}

int door_prune_networks(const json_t *filters, double *freed, struct err *e)
{
	struct naming n = { .names = json_array() };
	autojson json_t *names = n.names;
	struct sandbox_ref s;
	const json_t *name;
	int told = 0, r;
	size_t i;

	(void)freed;
	sandbox_ref_init(&s);
	r = sandbox_ref_registry(&s, e);
	if (r == 0)
		r = nets_each(&s.config, take_name, &n, e);
	sandbox_ref_close(&s);
	json_array_foreach (names, i, name)
		if (r >= 0)
			prune_one(json_string_value(name), filters, &told);
	return r < 0 || (told && printf("\n") < 0) ? -1 : 0;
}

/* A container on one more network, or off it. */
static int move(const struct door_args *a, const char *verb, struct err *e)
{
	const char *argv[DOOR_WORDS_MAX] = { "berth", "network", verb, "--json" };
	autojson json_t *said = NULL;
	struct sandbox_ref s;
	char name[65], small[15][ENGINE_NAME], its[ENGINE_NAME];
	const json_t *one;
	size_t n = 4, i;
	int r;

	json_array_foreach ((json_t *)(size_t)door_list(a, "alias"), i, one)
		if (i < ARRAY_LEN(small) && engine_name_alias(json_string_value(one), small[i])) {
			argv[n++] = "--alias";
			argv[n++] = small[i];
		}
	sandbox_ref_init(&s);
	r = find_network(&s, a->words[0], name, e);
	if (r > 0)
		r = engine_network_moves(verb, name, e);
	if (r == 0)
		r = door_find(&s, a->words[1], e);
	if (r == 0 && !strcmp(verb, "connect") &&
	    engine_load_alias(&s.registry, s.id, s.kept, its)) {
		argv[n++] = "--alias";
		argv[n++] = its;
	}
	argv[n++] = "--";
	argv[n++] = name;
	argv[n++] = s.id;
	if (r == 0 && !(said = door_call(argv, e)))
		engine_network_said(verb, a->words[1], a->words[0], e);
	sandbox_ref_close(&s);
	return said ? 0 : -1;
}

static int join(const struct door_args *a, struct err *e)
{
	return move(a, "connect", e);
}

static int leave(const struct door_args *a, struct err *e)
{
	return move(a, "disconnect", e);
}

/* ---- the verbs ---------------------------------------------------------------------------- */

static const struct door_row verbs[] = {
	{ "network ls", 0, 0, list_networks },     { "network create", 1, 1, make_network },
	{ "network connect", 2, 2, join },         { "network disconnect", 2, 2, leave },
};

static int verb_main(const struct command *self, int argc, char **argv)
{
	return door_dispatch(verbs, self, argc, argv);
}

static int rm_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	int i, status = 0;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	for (i = 0; i < a.count; i++) {
		struct sandbox_ref s;
		struct err e;

		sandbox_ref_init(&s);
		if (remove_network(&s, a.words[i], door_on(&a, "force"), &e) < 0)
			status = door_error(&e);
		else
			printf("%s\n", a.words[i]);
		sandbox_ref_close(&s);
	}
	door_release(&a);
	return status;
}

static const struct opt ls_options[] = {
	{ "filter", 'f', OPT_LIST, "filter", "Provide filter values (e.g. \"label=<key>\")",
	  DOOR_TAKEN },
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Do not truncate the output", DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Only display IDs or names", DOOR_TAKEN },
};
static const struct opt rm_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "One that does not exist is no error", DOOR_TAKEN },
};
#define CHOOSES "berth chooses the addresses in a subnet"
static const struct opt network_options[] = {
	{ "attachable", 0, OPT_FLAG, NULL, "Enable manual container attachment", DOOR_IGNORED },
	{ "aux-address", 0, OPT_LIST, "map", "Auxiliary IPv4 or IPv6 addresses", DOOR_REFUSED,
	  COMPLETE_NONE, CHOOSES },
	{ "config-from", 0, OPT_VALUE, "string", "The network from which to copy the configuration",
	  DOOR_REFUSED, COMPLETE_NONE, "networks have no configuration apart from themselves" },
	{ "config-only", 0, OPT_FLAG, NULL, "Create a configuration only network", DOOR_REFUSED,
	  COMPLETE_NONE, "networks have no configuration apart from themselves" },
	{ "driver", 'd', OPT_VALUE, "string", "Driver to manage the Network: bridge", DOOR_TAKEN },
	{ "gateway", 0, OPT_LIST, "strings", "IPv4 or IPv6 Gateway for the master subnet",
	  DOOR_REFUSED, COMPLETE_NONE, CHOOSES },
	{ "ingress", 0, OPT_FLAG, NULL, "Create swarm routing-mesh network", DOOR_REFUSED,
	  COMPLETE_NONE, "there is no swarm" },
	{ "internal", 0, OPT_FLAG, NULL, "Restrict external access to the network", DOOR_TAKEN },
	{ "ip-range", 0, OPT_LIST, "strings", "Allocate container ip from a sub-range",
	  DOOR_REFUSED, COMPLETE_NONE, CHOOSES },
	{ "ipam-driver", 0, OPT_VALUE, "string", "IP Address Management Driver: default",
	  DOOR_IGNORED },
	{ "ipam-opt", 0, OPT_LIST, "map", "Set IPAM driver specific options", DOOR_IGNORED },
	{ "ipv4", 0, OPT_FLAG, NULL, "Enable IPv4 networking: it always is", DOOR_IGNORED },
	{ "ipv6", 0, OPT_FLAG, NULL, "Enable IPv6 networking: a --subnet of IPv6 does",
	  DOOR_IGNORED },
	{ "label", 0, OPT_LIST, "list", "Set metadata on a network", DOOR_TAKEN },
	{ "opt", 'o', OPT_LIST, "map", "Set driver specific options", DOOR_IGNORED },
	{ "scope", 0, OPT_VALUE, "string", "Control the network's scope: local", DOOR_IGNORED },
	{ "subnet", 0, OPT_LIST, "strings", "Subnet in CIDR format", DOOR_TAKEN },
};
static const struct opt connect_options[] = {
	{ "alias", 0, OPT_LIST, "strings", "Add network-scoped alias for the container",
	  DOOR_TAKEN },
	{ "driver-opt", 0, OPT_LIST, "strings", "Driver options for the network", DOOR_IGNORED },
	{ "gw-priority", 0, OPT_VALUE, "int", "The highest one is the default gateway",
	  DOOR_IGNORED },
	{ "ip", 0, OPT_VALUE, "string", "IPv4 address", DOOR_REFUSED, COMPLETE_NONE, CHOOSES },
	{ "ip6", 0, OPT_VALUE, "string", "IPv6 address", DOOR_REFUSED, COMPLETE_NONE, CHOOSES },
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

VERB(network_ls, "network ls", "[OPTIONS]", "List networks", ls_options, COMPLETE_NONE, verb_main);
VERB(network_create, "network create", "[OPTIONS] NETWORK", "Create a network", network_options,
	COMPLETE_NONE, verb_main);
VERB(network_rm, "network rm", "[OPTIONS] NETWORK [NETWORK...]", "Remove one or more networks",
	rm_options, COMPLETE_NONE, rm_main);
VERB(network_connect, "network connect", "[OPTIONS] NETWORK CONTAINER",
	"Connect a container to a network", connect_options, COMPLETE_NONE, verb_main);
VERB(network_disconnect, "network disconnect", "[OPTIONS] NETWORK CONTAINER",
	"Disconnect a container from a network", disconnect_options, COMPLETE_NONE, verb_main);
