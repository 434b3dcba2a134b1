/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP servers of a sandbox: they are in its record, so that they outlive their processes,
 * the sandbox's and berthd's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/service/state.h"

#define SERVERS_MAX 16
#define BYTES_MAX (256u << 10)	/* of all; a record has RECORD_MAX */
#define KEY "mcp"

static json_t *servers_of(const struct record *r)
{
	return json_object_get(json_object_get(r->j, "berth"), KEY);
}

static int check_size(const char *sandbox, const json_t *servers, struct err *e)
{
	autofree char *text = json_dumps(servers, JSON_COMPACT);

	if (!text)
		return err_nomem(e);
	if (json_object_size(servers) > SERVERS_MAX)
		return err_set(e, ERR_LIMIT, "sandbox %s would have more than %d MCP servers", sandbox, SERVERS_MAX);
	return strlen(text) > BYTES_MAX ? err_set(e, ERR_LIMIT, "the MCP servers of sandbox %s take more than %u bytes", sandbox,
						  BYTES_MAX) : 0;
}

struct addition {
	const char *sandbox, *server;
	const json_t *config;
	int only_look;
};

static int add(struct record *r, void *ctx, struct err *e)
{
	const struct addition *a = ctx;
	json_t *servers = servers_of(r) ? json_copy(servers_of(r)) : json_object();

	json_object_set_new(servers, a->server, json_deep_copy(a->config));
	record_set_own(r, KEY, servers);
	return check_size(a->sandbox, servers, e) < 0 ? -1 : !a->only_look;
}

int mcp_remember(struct service *s, const char *sandbox, const char *server, const json_t *config, int only_look, struct err *e)
{
	struct addition a = { sandbox, server, config, only_look };

	return record_change(s, sandbox, add, &a, e);
}

json_t *mcp_servers(struct service *s, const char *sandbox, struct err *e)
{
	autorecord struct record r = { .j = NULL };

	if (record_load(s, NULL, sandbox, 0, &r, e) < 0)
		return NULL;
	return servers_of(&r) ? json_incref(servers_of(&r)) : json_object();
}

void mcp_inherit(struct record *to, const struct record *from)
{
	if (servers_of(from))
		record_set_own(to, KEY, json_incref(servers_of(from)));
}

void mcp_hide(struct record *r)
{
	json_object_del(json_object_get(r->j, "berth"), KEY);
}
