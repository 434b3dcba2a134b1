/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S19 of SECURITY.md. */
#include "cli/live/resident_network.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/nets.h"
#include "runtime/sandbox/nethelper.h"

/* Options are pairs; of several the last counts. */
static json_t *network_option(const json_t *spec)
{
	json_t *list = json_object_get(spec, "options");
	size_t i;

	for (i = json_array_size(list); i-- > 0;) {
		json_t *pair = json_array_get(list, i);
		const char *name = json_string_value(json_array_get(pair, 0));

		if (name && !strcmp(name, "network"))
			return pair;
	}
	return NULL;
}

/* A tenant's network by its key: no other can be meant, now or at a later start. */
static int pin_name(struct runopts *o, const char *tenant, json_t *spec, struct err *e)
{
	const size_t n = strcspn(o->net.name, "@");
	json_t *pair = network_option(spec);
	char key[NETS_NAME_MAX + 1];

	/* as a copy of a sandbox of its own has it */
	if (o->net.name[n] && !strcmp(o->net.name + n + 1, tenant))
		return 0;
	if (nets_key(o->net.name, tenant, key, e) < 0)
		return -1;
	memcpy(o->net.name, key, sizeof(key));
	return !pair ? err_set(e, ERR_INTERNAL, "a network that no option names") :
	       json_array_set_new(pair, 1, json_string(key)) < 0 ? err_nomem(e) : 0;
}

int resident_network_pin(struct registry *r, struct runopts *o, const char *tenant, json_t *spec,
			 struct err *e)
{
	json_t *pair = o->net.joins[0] ? network_option(spec) : NULL;
	char id[65], text[sizeof(NETOPTS_CONTAINER) + sizeof(id)];

	if (tenant[0] && o->net.name[0])
		return pin_name(o, tenant, spec, e);
	if (!pair)
		return 0;
	if (netguest_find(r, o->net.joins, tenant, id, e) < 0)
		return -1;
	snprintf(text, sizeof(text), NETOPTS_CONTAINER "%s", id);
	memcpy(o->net.joins, id, sizeof(id));
	return json_array_set_new(pair, 1, json_string(text)) < 0 ? err_nomem(e) : 0;
}

int resident_network_open(struct registry *r, struct runopts *o, const char *tenant,
			  struct netguest *ret, struct err *e)
{
	return o->net.joins[0] ? netguest_open(r, o->net.joins, tenant, ret, &o->spec, e) : 0;
}

/* The part of the network's budgets that earlier runs used. */
static int load_used(struct registry *r, struct spec *s, struct err *e)
{
	autojson json_t *used = registry_load(r, s->id, NETWORK_USED_FILE, e);

	if (!used)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (json_get_u64(used, "bytes", &s->net_used_bytes, NETWORK_USED_FILE, e) < 0 ||
	    json_get_u64(used, "connections", &s->net_used_connections, NETWORK_USED_FILE, e) < 0)
		return err_wrap(e, "sandbox %s", s->id);
	return 0;
}

int resident_network_settle(struct registry *r, struct spec *s, const char *scratch,
			    struct err *e)
{
	if (s->network != NETWORK_JOINED)	/* it has the files of the other */
		s->net_dir = scratch;
	return spec_needs_nethelper(s) ? load_used(r, s, e) : 0;
}
