/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP servers of a sandbox: they are in its record, so that they outlive their processes,
 * the sandbox's and berthd's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/service/state.h"

/* ---- the servers in a record ---- */

#define SERVERS_MAX 16
#define BYTES_MAX (256u << 10)	/* bytes of all servers; a record has RECORD_MAX */
#define KEY "mcp"

static json_t *servers_of(const struct record *r)
{
	return json_object_get(json_object_get(r->j, "berth"), KEY);
}

static int check_mcp_servers_size(const char *sandbox, const json_t *servers, struct err *e)
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

static int add_mcp_servers(struct record *r, void *ctx, struct err *e)
{
	const struct addition *a = ctx;
	json_t *servers = servers_of(r) ? json_copy(servers_of(r)) : json_object();

	json_object_set_new(servers, a->server, json_deep_copy(a->config));
	record_set_own(r, KEY, servers);
	return check_mcp_servers_size(a->sandbox, servers, e) < 0 ? -1 : !a->only_look;
}

int mcp_remember(struct service *s, const char *sandbox, const char *server, const json_t *config, int only_look, struct err *e)
{
	struct addition a = { sandbox, server, config, only_look };

	return record_change(s, sandbox, add_mcp_servers, &a, e);
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

/* ---- the program of one ---- */

/*
 * The program that is started for an MCP server: its own command, or for a server with a URL
 * mcphttp.py, which speaks HTTP to it from within the sandbox. So a tenant's URL reaches only
 * what the sandbox may reach, and never, through berthd, the host's loopback, its metadata
 * service or its networks.
 */

#define URL_MAX 2048
#define HEADERS_MAX 64

extern const char mcphttp_py[];

static int check_url(const char *url, struct err *e)
{
	const char *host = !strncmp(url, "https://", 8) ? url + 8 : !strncmp(url, "http://", 7) ? url + 7 : NULL;
	const char *p;

	for (p = url; *p; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
			return err_set(e, ERR_INVALID, "\"url\" of an MCP server contains a blank, a control "
							  "character or a non-ASCII character");
	if (!host || !*host || strchr("/?#", *host) || p - url > URL_MAX)
		return err_set(e, ERR_INVALID, "\"url\" of an MCP server is not a URL; hint: https://HOST[:PORT]/PATH");
	/* a user name or password would appear in error messages */
	return memchr(host, '@', strcspn(host, "/?#")) ? err_set(e, ERR_INVALID, "\"url\" of an MCP server has a user in it; hint: \"headers\"") : 0;
}

static int check_header(const char *name, const json_t *value, struct err *e)
{
	const char *v = json_string_value(value);
	const char *p;
	int good = v && strlen(v) == json_string_length(value) && name[0];

	for (p = name; good && *p; p++)
		good = (unsigned char)*p > 0x20 && (unsigned char)*p < 0x7f && !strchr("()<>@,;:\\\"/[]?={}", *p);
	for (p = v; good && *p; p++)
		good = (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f;
	return good ? 0 : err_set(e, ERR_INVALID, "header '%.80s' of an MCP server is not a header of HTTP", name);
}

static int check_headers(json_t *headers, struct err *e)
{
	const char *name;
	json_t *v;

	if (json_object_size(headers) > HEADERS_MAX)
		return err_set(e, ERR_INVALID, "an MCP server has more than %d headers", HEADERS_MAX);
	json_object_foreach(headers, name, v)
		if (check_header(name, v, e) < 0)
			return -1;
	return 0;
}

/* The transport by mcphttp.py's name for it; NULL: streamable HTTP, or "sse", the one before it, where the server has no other. */
static int get_type(const json_t *config, const char **ret, struct err *e)
{
	static const char *const names[] = { "http", "streamable_http", "streamable-http", "streamableHttp", "sse" };
	const char *type = NULL;
	size_t i;

	if (json_get_str(config, "type", &type, "the server's configuration", e) < 0 ||
	    (!type && json_get_str(config, "transport", &type, "the server's configuration", e) < 0))
		return e->code = ERR_INVALID, -1;
	for (i = 0; type && i < ARRAY_LEN(names) && strcmp(type, names[i]); i++)
		;
	if (type && i == ARRAY_LEN(names))
		return err_set(e, ERR_UNSUPPORTED, "MCP servers with \"url\" speak streamable HTTP or sse, and not '%.40s'; hint: \"type\": "
			       "\"http\" or \"sse\"", type);
	*ret = !type || !strcmp(type, "sse") ? type : "http";
	return 0;
}

static json_t *url_argv(const json_t *config, const char *url, json_t *env, struct err *e)
{
	autojson json_t *told = NULL;
	autofree char *text = NULL;
	const char *type = NULL;
	json_t *headers = NULL;

	if (json_get_obj(config, "headers", &headers, "the server's configuration", e) < 0) {
		e->code = ERR_INVALID;
		return NULL;
	}
	if (get_type(config, &type, e) < 0 || check_url(url, e) < 0 || check_headers(headers, e) < 0)
		return NULL;
	/* not among the arguments, which every process of the sandbox may read */
	told = json_pack("{s:s,s:s*,s:O*}", "url", url, "type", type, "headers", headers);
	text = told ? json_dumps(told, JSON_COMPACT) : NULL;
	if (!text || json_array_append_new(env, json_sprintf("BERTH_MCP=%s", text)) < 0) {
		err_nomem(e);
		return NULL;
	}
	return json_pack("[s,s,s,s]", "python3", "-u", "-c", mcphttp_py);
}

json_t *mcp_argv(const json_t *config, json_t *env, struct err *e)
{
	const char *command = NULL, *url = NULL;
	json_t *args = NULL, *argv, *a;
	size_t i;

	if (json_get_str(config, "command", &command, "the server's configuration", e) < 0 ||
	    json_get_str(config, "url", &url, "the server's configuration", e) < 0 ||
	    json_get_arr(config, "args", &args, "the server's configuration", e) < 0) {
		e->code = ERR_INVALID;	/* the asker's */
		return NULL;
	}
	if (!command == !url) {
		err_set(e, ERR_INVALID, "an MCP server needs \"command\", or \"url\", and has %s", url ? "both" : "neither");
		return NULL;
	}
	if (url)
		return url_argv(config, url, env, e);
	argv = json_array();
	json_array_append_new(argv, json_string(command));
	json_array_foreach(args, i, a) {
		if (!json_is_string(a)) {
			err_set(e, ERR_INVALID, "\"args\" of an MCP server holds something else than strings");
			json_decref(argv);
			return NULL;
		}
		json_array_append(argv, a);
	}
	return argv;
}
