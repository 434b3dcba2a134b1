/* SPDX-License-Identifier: Apache-2.0 */
/* berth network ls, inspect, log: the networks of sandboxes, and their use. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "cli/look/networks.h"
#include "manager/host/nets.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/protocol.h"
#include "runtime/sandbox/nethelper.h"

#define LOG_MAX (4u << 20)
#define FOLLOW_MS 200

enum { OPT_JSON = 1, OPT_FOLLOW, OPT_DENIED, OPT_NAMED, OPT_TENANT, OPT_QUIET };

static const struct opt inspect_options[] = {
	NETWORKS_TENANT(OPT_TENANT),
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

static const struct opt ls_options[] = {
	{ "named", 0, OPT_FLAG, NULL, "the networks that berth network create made", OPT_NAMED },
	{ "tenant", 0, OPT_VALUE, "NAME", "with --named: those of this tenant of berthd",
	  OPT_TENANT },
	{ "quiet", 'q', OPT_FLAG, NULL, "only the ids of the sandboxes; with --named the names of the networks", OPT_QUIET },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

static const struct opt log_options[] = {
	{ "follow", 'f', OPT_FLAG, NULL, "go on until the sandbox ends", OPT_FOLLOW },
	{ "denied", 0, OPT_FLAG, NULL, "only what was denied, cut or failed", OPT_DENIED },
	{ "json", 0, OPT_FLAG, NULL, "one JSON object a line, errors too", OPT_JSON },
};

struct network {
	struct sandbox_ref s;
	int json, follow, denied, named, quiet;
	const char *tenant;	/* NULL: the operator */
	json_t *list;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct network *n = ctx;

	if (id == OPT_TENANT)
		return networks_set_tenant(&n->tenant, value, e);
	*(id == OPT_JSON ? &n->json : id == OPT_FOLLOW ? &n->follow : id == OPT_NAMED ? &n->named :
	  id == OPT_QUIET ? &n->quiet : &n->denied) = 1;
	return 0;
}

/* ---- ls ------------------------------------------------------------------------------ */

/* The keeper's answer about it; NULL if it has none (berth run) or does not run. */
static json_t *ask(struct network *n, const char *id)
{
	struct err ignored;
	autoclose int sock = keeper_connect(&n->s.registry, id, &ignored);
	autojson json_t *rq = protocol_request(OP_network), *answer = NULL;
	json_t *found = NULL;

	if (sock >= 0)
		answer = keeper_call(sock, rq, NULL, 0, NULL, &ignored);
	if (answer && json_get_obj(answer, "network", &found, "answer", &ignored) == 1)
		return json_incref(found);
	return NULL;
}

static int note(void *ctx, const char *id, int kept, json_t *record)
{
	struct network *n = ctx;
	json_t *net = kept ? NULL : ask(n, id), *row;

	if (!net)
		net = json_incref(record_network(record));
	if (!net)
		net = json_pack("{s:s}", "mode", "unknown");
	row = json_pack("{s:s,s:O?,s:s,s:o}", "id", id, "name", json_object_get(record, "name"), "status",
			kept ? "stopped" : "running", "network", net);
	return json_array_append_new(n->list, row);
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s && s[0] ? s : "-";
}

static void number(const json_t *j, const char *key, char out[24])
{
	const json_t *v = json_object_get(j, key);

	if (v)
		snprintf(out, 24, "%lld", (long long)json_integer_value(v));
	else
		snprintf(out, 24, "-");
}

static void print_row(const json_t *row)
{
	const json_t *net = json_object_get(row, "network");
	char denied[24], in[24], out[24];

	number(net, "denied", denied);
	number(net, "bytes_in", in);
	number(net, "bytes_out", out);
	printf("%-12s  %-16.16s  %-8s  %-9s  %-15s  %8s  %12s  %12s\n", text_of(row, "id"), text_of(row, "name"),
	       text_of(row, "status"), text_of(net, "mode"), text_of(net, "address"), denied, in, out);
}

/* Of sandboxes; those of networks with a name are networks_print()'s. */
static void print_table(const json_t *list)
{
	const json_t *row;
	size_t i;

	printf("%-12s  %-16s  %-8s  %-9s  %-15s  %8s  %12s  %12s\n", "ID", "NAME", "STATUS", "MODE", "ADDRESS", "DENIED", "BYTES IN",
	       "BYTES OUT");
	json_array_foreach(list, i, row)
		print_row(row);
}

static int print_each(const json_t *list, const char *key, struct err *e)
{
	const json_t *row;
	size_t i;

	json_array_foreach(list, i, row)
		puts(text_of(row, key));
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int list(struct network *n, struct err *e)
{
	if (n->tenant && !n->named)
		return err_set(e, ERR_USAGE, "--tenant goes with --named");
	if (sandbox_ref_registry(&n->s, e) < 0)
		return -1;
	n->list = n->named ? networks_list(&n->s.registry, n->tenant ? n->tenant : "", e) :
			     json_array();
	if (!n->list)
		return -1;
	if (n->named && n->quiet && !n->json)
		return print_each(n->list, "name", e);
	if (n->named && !n->json) {
		networks_print(n->list);
		return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
	}
	if (!n->named && registry_list(&n->s.registry, 1, note, n, e) < 0)
		return -1;
	if (n->json)
		return command_print_json(n->list, JSON_COMPACT, e);
	if (n->quiet)
		return print_each(n->list, "id", e);
	print_table(n->list);
	return 0;
}

static int ls_main(const struct command *self, int argc, char **argv)
{
	struct network n = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&n.s);
	r = command_options(self, argc, argv, set_option, &n, &rest, &help, &e);
	if (r == 0 && !help)
		r = rest < argc ? err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]) : list(&n, &e);
	json_decref(n.list);
	sandbox_ref_close(&n.s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

/* ---- inspect ---------------------------------------------------------------------------- */

struct picker {
	const char *id;
	json_t *found;
};

static int pick(void *ctx, const char *id, int kept, json_t *record)
{
	struct picker *p = ctx;

	(void)kept;
	if (!p->found && !strcmp(id, p->id))
		p->found = json_incref(record_network(record));
	return 0;
}

/* It does not run: the used part of its budgets is that of its stop. */
static void add_used(struct network *n, json_t *net)
{
	struct err ignored;
	json_t *used = n->s.kept ? registry_load(&n->s.registry, n->s.id, NETWORK_USED_FILE, &ignored) : NULL, *connections;

	if (!used)
		return;
	json_object_set_new(net, "budget", json_pack("{s:O*}", "bytes_used", json_object_get(used, "bytes")));
	connections = json_object_get(used, "connections");
	if (connections && !strcmp(text_of(net, "mode"), "egress"))
		json_object_set(json_object_get(net, "budget"), "connections_used", connections);
	json_decref(used);
}

static int inspect(struct network *n, const char *ref, struct err *e)
{
	autojson json_t *net = NULL;
	struct picker p = { NULL, NULL };
	char key[NETS_NAME_MAX + 1];

	if (sandbox_ref_registry(&n->s, e) < 0)
		return -1;
	if (n->tenant && nets_key(ref, n->tenant, key, e) < 0)
		return -1;
	net = networks_find(&n->s.registry, n->tenant ? key : ref, e);
	if (!net && n->tenant)
		return -1;
	if (net)
		return command_print_json(net, n->json ? JSON_COMPACT : JSON_INDENT(2), e);
	if ((e->code != ERR_NOT_FOUND && e->code != ERR_INVALID) ||
	    sandbox_ref_find(&n->s, ref, e) < 0)
		return -1;
	net = n->s.kept ? NULL : ask(n, n->s.id);
	if (!net) {
		p.id = n->s.id;
		if (registry_list(&n->s.registry, 1, pick, &p, e) < 0)
			return -1;
		net = p.found ? p.found : json_object();
		add_used(n, net);
	}
	json_object_set_new(net, "id", json_string(n->s.id));
	return command_print_json(net, n->json ? JSON_COMPACT : JSON_INDENT(2), e);
}

static int inspect_main(const struct command *self, int argc, char **argv)
{
	struct network n = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&n.s);
	r = command_options(self, argc, argv, set_option, &n, &rest, &help, &e);
	if (r == 0 && !help)
		r = rest + 1 != argc ? err_set(&e, ERR_USAGE, "one network or sandbox is wanted; "
							      "hint: berth network inspect NAME") :
				       inspect(&n, argv[rest], &e);
	sandbox_ref_close(&n.s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

/* ---- log ------------------------------------------------------------------------------------ */

static void print_entry(const struct network *n, const char *line, size_t len)
{
	struct err ignored;
	autojson json_t *j = json_parse(line, len, LOG_MAX, "network log", &ignored);
	const char *verdict = j ? text_of(j, "verdict") : "";
	char target[300], clean[600];

	if (!j || (n->denied && (!strcmp(verdict, "allow") || !strcmp(verdict, "policy"))))
		return;
	if (n->json) {
		printf("%.*s\n", (int)len, line);
		return;
	}
	snprintf(target, sizeof(target), "%.253s:%lld", text_of(j, "host"), (long long)json_integer_value(json_object_get(j, "port")));
	log_clean(clean, sizeof(clean), text_of(j, json_object_get(j, "reason") ? "reason" : "rule"), 0);
	printf("%s  %-6s  %-7s  %-40s  out %lld in %lld  %s\n", text_of(j, "time"), verdict, text_of(j, "protocol"), target,
	       (long long)json_integer_value(json_object_get(j, "bytes_out")),
	       (long long)json_integer_value(json_object_get(j, "bytes_in")), clean);
}

/* The directory of the log: of a lasting sandbox below state_dir, else below run_dir. */
static int log_dir(const struct network *n)
{
	int fd = openat(n->s.registry.kept_fd, n->s.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 ? fd : openat(n->s.registry.sandboxes_fd, n->s.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Both halves as one text in the order of time: the half whose first line is older comes first. */
static int read_log(int dir, struct buf *out, struct err *e)
{
	autobuf struct buf a = BUF_INIT(LOG_MAX), b = BUF_INIT(LOG_MAX);
	struct buf *first = &a, *second = &b;

	if (io_read_file(dir, NETHELPER_LOG_NAME, &a, e) < 0)
		return -1;
	if (io_read_file(dir, NETHELPER_LOG_OLD_NAME, &b, e) < 0)
		return -1;
	/* lines begin with {"time":"..." */
	if (b.len && (!a.len || strncmp(a.data, b.data, a.len < 40 || b.len < 40 ? 0 : 40) > 0))
		first = &b, second = &a;
	return buf_add(out, first->data ? first->data : "", first->len, e) < 0 ? -1 :
	       buf_add(out, second->data ? second->data : "", second->len, e);
}

/* Prints what follows the line that was printed last. */
static int print_news(const struct network *n, int dir, char last[512], struct err *e)
{
	autobuf struct buf b = BUF_INIT(2 * LOG_MAX);
	const char *p, *end, *eol;

	if (read_log(dir, &b, e) < 0)
		return -1;
	p = b.data ? b.data : "";
	end = p + b.len;
	if (last[0]) {
		const char *seen = memmem(p, b.len, last, strlen(last));

		if (seen && (seen = memchr(seen, '\n', (size_t)(end - seen))))
			p = seen + 1;
	}
	for (; (eol = memchr(p, '\n', (size_t)(end - p))); p = eol + 1) {
		print_entry(n, p, (size_t)(eol - p));
		snprintf(last, 512, "%.*s", eol - p < 511 ? (int)(eol - p) : 511, p);
	}
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int show_log(struct network *n, const char *ref, struct err *e)
{
	autoclose int dir = -1, alive = -1;
	autojson json_t *net = NULL;
	char last[512] = "";
	int r;

	if (sandbox_ref_registry(&n->s, e) < 0)
		return -1;
	net = networks_find(&n->s.registry, ref, e);
	if (net) {
		dir = networks_dir(&n->s.registry, ref, e);
	} else {
		if (sandbox_ref_find(&n->s, ref, e) < 0)
			return -1;
		dir = log_dir(n);
	}
	if (net && dir >= 0 && !json_object_get(net, "egress"))
		return err_set(e, ERR_NOT_FOUND, "network %s has no log, as it has no rules; hint: "
						 "berth network create --allow-host NAME makes one "
						 "with rules", ref);
	if (net && dir >= 0 && !path_has(dir, NETHELPER_LOG_NAME))
		return 0;	/* nobody was on it yet */
	if (dir < 0 || !path_has(dir, NETHELPER_LOG_NAME))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s has no log of its network; hint: --network egress writes one", n->s.id);
	r = print_news(n, dir, last, e);
	while (r == 0 && n->follow) {
		alive = net ? networks_dir(&n->s.registry, ref, e) :
			      openat(n->s.registry.sandboxes_fd, n->s.id, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (alive < 0)
			break;
		fd_close(&alive);
		poll(NULL, 0, FOLLOW_MS);
		r = print_news(n, dir, last, e);
		if (r < 0 && e->code == ERR_NOT_FOUND)
			return 0;	/* berth run has ended */
	}
	return r;
}

static int log_main(const struct command *self, int argc, char **argv)
{
	struct network n = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&n.s);
	r = command_options(self, argc, argv, set_option, &n, &rest, &help, &e);
	if (r == 0 && !help)
		r = rest + 1 != argc ? err_set(&e, ERR_USAGE, "one sandbox or network is wanted; hint: berth network log ID") :
				       show_log(&n, argv[rest], &e);
	sandbox_ref_close(&n.s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

const struct command cmd_network_ls = {
	.name = "network ls",
	.summary = "list the networks of sandboxes: mode, address, denied requests, bytes",
	.opts = ls_options,
	.opt_count = ARRAY_LEN(ls_options),
	.run = ls_main,
	.print = print_table,
};

const struct command cmd_network_inspect = {
	.name = "network inspect",
	.args = "NETWORK|SANDBOX",
	.summary = "show a network's members, or a sandbox's rules, counters and address",
	.opts = inspect_options,
	.opt_count = ARRAY_LEN(inspect_options),
	.complete = COMPLETE_SANDBOX,
	.run = inspect_main,
};

const struct command cmd_network_log = {
	.name = "network log",
	.args = "NETWORK|SANDBOX",
	.summary = "show what passed the proxy of a sandbox, or those of a network with rules",
	.opts = log_options,
	.opt_count = ARRAY_LEN(log_options),
	.complete = COMPLETE_SANDBOX,
	.run = log_main,
};
