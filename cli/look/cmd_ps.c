/* SPDX-License-Identifier: Apache-2.0 */
/* berth ps: list sandboxes. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_status.h"
#include "cli/look/format.h"
#include "cli/look/table.h"
#include "manager/host/filter.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"

enum { OPT_ALL = 1, OPT_JSON, OPT_QUIET, OPT_FILTER, OPT_FORMAT };

static const struct opt options[] = {
	{ "all", 'a', OPT_FLAG, NULL, "also those that do not run", OPT_ALL },
	{ "quiet", 'q', OPT_FLAG, NULL, "ids only", OPT_QUIET },
	{ "filter", 'f', OPT_LIST, "KEY=VALUE", FILTER_HELP, OPT_FILTER },
	FORMAT_OPTION(OPT_FORMAT, 0),
	{ "json", 0, OPT_FLAG, NULL, "print a JSON array", OPT_JSON },
};

struct ps_options {
	int all, json, quiet;
	struct filter filter;
	struct template *format;
	json_t *list;
	struct err *e;
};

static int set_ps_option(void *ctx, int id, const char *value, struct err *e)
{
	struct ps_options *o = ctx;

	if (id == OPT_FILTER)
		return filter_add(&o->filter, value, e);
	if (id == OPT_FORMAT) {
		template_free(o->format);
		o->format = format_parse(value, e);
		return o->format ? 0 : -1;
	}
	*(id == OPT_ALL ? &o->all : id == OPT_JSON ? &o->json : &o->quiet) = 1;
	return 0;
}

static int add_ps_record(void *ctx, const char *id, int kept, json_t *record)
{
	struct ps_options *o = ctx;

	(void)id;
	if (kept)
		record_settle_kept(record);
	return json_array_append(o->list, record) == 0 ? 0 : err_nomem(o->e);
}

/* "up 5m" would say nothing, so this shows its activity, or how long it has been idle. */
static void activity(const json_t *record, char *out, size_t n)
{
	const json_t *idle = json_object_get(record, "idle_ms");
	const char *busy = json_string_value(json_object_get(record, "busy"));
	const json_t *verdict = json_object_get(record, "verdict");
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	const char *signal = json_string_value(json_object_get(verdict, "signal_name"));
	long long s = (long long)json_integer_value(idle) / 1000;

	if (busy)
		log_clean(out, n, busy, 0);
	else if (cause && signal && !strcmp(cause, "signal"))
		snprintf(out, n, "signal %d (%.12s)", (int)json_integer_value(json_object_get(verdict, "signal")),
			 signal + (strncmp(signal, "SIG", 3) ? 0 : 3));
	else if (cause)
		snprintf(out, n, "%.12s %d", cause,
			 (int)json_integer_value(json_object_get(verdict, "exit_status")));
	else if (!idle)
		snprintf(out, n, "-");
	else if (s < 120)
		snprintf(out, n, "idle %llds", s);
	else
		snprintf(out, n, s < 7200 ? "idle %lldm" : "idle %lldh", s / (s < 7200 ? 60 : 3600));
}

static const char *ps_field(const json_t *record, const char *key, char *out, size_t n)
{
	const char *s = json_string_value(json_object_get(record, key));

	log_clean(out, n, s ? s : "", 0);
	return out;
}

/* "running", or "running (healthy)" */
static const char *ps_status_field(const json_t *record, char *out, size_t n)
{
	char health[32];
	size_t len;

	ps_field(record, "status", out, n);
	len = strlen(out);
	ps_field(record, "health", health, sizeof(health));
	if (health[0])
		snprintf(out + len, n - len, " (%s)", health);
	return out;
}

/* What made it: E2B's clients, those of MCP, ...; "" for berth's own commands and routes. */
static void face(const json_t *record, char *out, size_t n)
{
	const json_t *labels = json_object_get(record, "labels");
	const char *of = json_string_value(json_object_get(labels, LABEL_FACE));

	if (!of)
		of = json_object_get(labels, LABEL_MANAGED) ? "manager" : "";
	log_clean(out, n, of, 0);
}

/* The name of the sandbox of that id, if it is in the list too; else the id. */
static const char *name_in_list(const json_t *all, const char *id)
{
	const json_t *one;
	size_t i;

	json_array_foreach (all, i, one)
		if (!strcmp(record_id(one), id) && record_name(one)[0])
			return record_name(one);
	return id;
}

/* What it is: a sandbox, a service, a zygote, or a fork and whose. */
static void ps_kind_field(const json_t *all, const json_t *record, char *out, size_t n)
{
	const char *zygote = json_string_value(json_object_get(record_labels(record), LABEL_ZYGOTE));
	const char *from = zygote ? zygote : record_fork_of(record);

	if (from[0])
		snprintf(out, n, "fork of %.64s", name_in_list(all, from));
	else
		snprintf(out, n, "%s", record_zygote(record) ? "zygote" : record_service(record) ? "service" : "sandbox");
}

/* "none", "bridge", the names of networks ("a,b"), or "-" where the record does not say. */
static void ps_network_field(const json_t *all, const json_t *record, char *out, size_t n)
{
	const json_t *network = record_network(record), *networks = record_networks(record), *one;
	const char *name = json_string_value(json_object_get(network, "network")), *mode = json_string_value(json_object_get(network, "mode"));
	const char *joins = json_string_value(json_object_get(network, "container"));
	size_t i, len;

	snprintf(out, n, "%s%s", joins ? "container:" : "", joins ? name_in_list(all, joins) : name ? name : mode ? mode : "-");
	json_array_foreach (networks, i, one) {
		name = json_string_value(json_object_get(one, "network"));
		len = strlen(out);
		if (name)
			snprintf(out + len, n - len, ",%s", name);
	}
}

/* "8080->80", "0.0.0.0:53->53/udp": an address of the loopback is left out, the second family too. */
static void ps_ports_field(const json_t *record, char *out, size_t n)
{
	const json_t *ports = json_object_get(record_network(record), "ports"), *one;
	size_t i, len = 0;

	out[0] = '\0';
	json_array_foreach (ports, i, one) {
		const char *address = json_string_value(json_object_get(one, "address")), *protocol = json_string_value(json_object_get(one, "protocol"));
		const int at_home = address && !strcmp(address, "127.0.0.1");

		if (!address || !protocol || !strcmp(address, "::1"))
			continue;
		len += (size_t)snprintf(out + len, n - len, "%s%s%s%s%s%" JSON_INTEGER_FORMAT "->%" JSON_INTEGER_FORMAT "%s%s",
					len ? "," : "", strchr(address, ':') ? "[" : "", at_home ? "" : address,
					strchr(address, ':') ? "]" : "", at_home ? "" : ":", json_integer_value(json_object_get(one, "host_port")),
					json_integer_value(json_object_get(one, "port")), strcmp(protocol, "tcp") ? "/" : "",
					strcmp(protocol, "tcp") ? protocol : "");
		if (len >= n)	/* cut: inspect and port have them all */
			return;
	}
}

/* What a narrow terminal leaves out, the highest first: a pipe has all. */
static const struct table_column ps_columns[] = {
	{ "ID", 0, 0 }, { "NAME", 0, 0 }, { "IMAGE", 5, 0 }, { "STATUS", 0, 0 }, { "CREATED", 7, 0 }, { "ACTIVITY", 3, 0 }, { "KIND", 1, 0 },
	{ "NETWORK", 4, 0 }, { "PORTS", 2, 0 }, { "FACE", 8, 0 }, { "COMMAND", 6, 0 },
};

static int add_ps_row(struct table *t, const json_t *all, const json_t *record, struct err *e)
{
	char status[64], created[48], command[160] = "", doing[48], kind[96], network[128], ports[128], made_by[16];
	const json_t *argv = json_object_get(record, "command");
	const char *word;
	size_t i;

	for (i = 0; i < json_array_size(argv) && strlen(command) < 60; i++) {
		word = json_string_value(json_array_get(argv, i));
		snprintf(command + strlen(command), sizeof(command) - strlen(command), "%s%.64s", i ? " " : "", word ? word : "");
	}
	command[60] = '\0';
	ps_field(record, "created", created, sizeof(created));
	if (strchr(created, '.')) /* the table has whole seconds */
		snprintf(strchr(created, '.'), 2, "Z");
	activity(record, doing, sizeof(doing));
	face(record, made_by, sizeof(made_by));
	ps_kind_field(all, record, kind, sizeof(kind));
	ps_network_field(all, record, network, sizeof(network));
	ps_ports_field(record, ports, sizeof(ports));
	return table_add(t, (const char *const[]){ record_id(record), record_name(record), record_image(record),
						   ps_status_field(record, status, sizeof(status)), created, doing, kind, network, ports,
						   made_by, command }, e);
}

static void print_ids(const json_t *all)
{
	char id[80];
	const json_t *one;
	size_t i;

	json_array_foreach (all, i, one)
		puts(ps_field(one, "id", id, sizeof(id)));
}

static void print_ps_table(const json_t *all)
{
	struct table t = { .columns = ps_columns, .column_count = ARRAY_LEN(ps_columns) };
	struct err e;
	const json_t *one;
	size_t i;

	json_array_foreach (all, i, one)
		if (add_ps_row(&t, all, one, &e) < 0) {
			log_note("berth ps", "%s", e.msg);
			break;
		}
	table_print(&t, table_terminal_width(), SIZE_MAX, "\n");
	table_free(&t);
}

static int list_ps_records(const struct config *c, struct ps_options *o, struct err *e)
{
	autojson json_t *all = json_array();
	struct registry r;
	size_t i;
	int result;

	if (!all)
		return err_nomem(e);
	o->list = all;
	o->e = e;
	if (registry_open(&r, c, e) < 0)
		return -1;
	/* the remains of a crash are not a sandbox to list */
	result = registry_sweep_list(&r, o->all, add_ps_record, o, e);
	/* only the keeper knows that a sandbox is paused */
	if (result == 0 && (!o->quiet || filter_has(&o->filter, "status") ||
			    filter_has(&o->filter, "health")))
		sandbox_status_ask_all(&r, all);
	for (i = json_array_size(all); i-- > 0;)
		if (!filter_matches(&o->filter, json_array_get(all, i)))
			json_array_remove(all, i);
	registry_close(&r);
	if (result < 0)
		return -1;
	for (i = 0; o->format && i < json_array_size(all); i++)
		if (format_print(o->format, json_array_get(all, i), e) < 0)
			return -1;
	if (o->format)
		return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
	if (o->json)
		return command_print_json(all, JSON_COMPACT, e);
	(o->quiet ? print_ids : print_ps_table)(all);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int run_sandbox_ps(const struct command *self, int argc, char **argv)
{
	struct ps_options o = { .filter = { .keys = filter_sandbox_keys } };
	struct config c;
	struct err e = { 0 };
	int rest, help = 0, result;

	if (config_load(&c, &e) < 0 || command_options(self, argc, argv, set_ps_option, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.json);
	if (help)
		return 0;
	if (rest < argc) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]);
		return command_fail(self, &e, o.json);
	}
	result = list_ps_records(&c, &o, &e);
	template_free(o.format);
	return result < 0 ? command_fail(self, &e, o.json) : 0;
}

const struct command cmd_ps = {
	.name = "ps",
	.args = "",
	.summary = "list sandboxes",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = run_sandbox_ps,
	.print = print_ps_table,
};
