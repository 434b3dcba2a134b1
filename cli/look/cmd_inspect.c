/* SPDX-License-Identifier: Apache-2.0 */
/* berth inspect, port: what is known of one sandbox. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/resident.h"
#include "cli/live/sandbox_open.h"
#include "cli/live/sandbox_status.h"
#include "cli/look/format.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/pings.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "runtime/sandbox/attest.h"
#include "runtime/sandbox/writable.h"

/* ---- inspect ---- */

/* berth inspect: a sandbox's record, and with --attest the kernel's report about it. */

enum { INSPECT_ATTEST = 1, INSPECT_JSON, INSPECT_FORMAT };

static const struct opt inspect_opts[] = {
	{ "attest", 0, OPT_FLAG, NULL, "add what the kernel reports: namespaces, capabilities, filters, mounts, limits",
	  INSPECT_ATTEST },
	FORMAT_OPTION(INSPECT_FORMAT, 'f'),
	{ "json", 0, OPT_FLAG, NULL, "one line instead of indented", INSPECT_JSON },
};

struct inspect_options {
	int attest, json, runs;
	struct template *format;
	const char *id;
	json_t *found;
};

static int set_inspect_option(void *ctx, int id, const char *value, struct err *e)
{
	struct inspect_options *o = ctx;

	if (id == INSPECT_FORMAT) {
		template_free(o->format);
		o->format = format_parse(value, e);
		return o->format ? 0 : -1;
	}
	*(id == INSPECT_ATTEST ? &o->attest : &o->json) = 1;
	return 0;
}

static int match_inspected_record(void *ctx, const char *id, int kept, json_t *record)
{
	struct inspect_options *o = ctx;

	if (o->found || strcmp(id, o->id))
		return 0;
	o->found = json_deep_copy(record);
	if (o->found && kept)
		record_settle_kept(o->found);
	o->runs = !kept;
	return 0;
}

/* The recorded pid counts only while that process is in the sandbox's own cgroup (E21, L06). */
static int check_pid(const struct cgroup *cg, int pid, struct err *e)
{
	char procs[16384], want[32], *p;

	snprintf(want, sizeof(want), "%d", pid);
	if (pid > 1 && cg->v2_fd >= 0 && (cgroup_read(cg->v2_fd, "cgroup.procs", procs, sizeof(procs)) > 0 ||
					  cgroup_read(cg->v2_fd, "init/cgroup.procs", procs, sizeof(procs)) > 0))
		for (p = strtok(procs, "\n"); p; p = strtok(NULL, "\n"))
			if (!strcmp(p, want))
				return 0;
	return err_set(e, ERR_NOT_FOUND, "the sandbox is not running: process %d is not in its cgroup", pid);
}

static int attest(const struct config *c, struct inspect_options *o, struct err *e)
{
	int pid = (int)json_integer_value(json_object_get(o->found, "init_pid"));
	struct cgroup cg;
	json_t *report = NULL;

	if (cgroup_open(&cg, c->cgroup_parent, o->id, e) < 0)
		return -1;
	if (check_pid(&cg, pid, e) == 0)
		report = attest_report(pid, &cg, e);
	cgroup_release(&cg);
	return report ? json_object_set_new(o->found, "attest", report) : -1;
}

/* The options that it was made with; for a berth run its record has them. */
static int describe_inspected(struct registry *r, struct inspect_options *o, struct err *e)
{
	autojson json_t *described = NULL;
	struct err why = { 0 };

	if (json_object_get(o->found, "limits"))
		return 0;
	/* of a newer format, which an older berth could misread */
	if (registry_check_spec_format(r, o->id, e) < 0)
		return -1;
	described = resident_describe(r, o->id, &why);
	/*
	 * a changed berth.toml or a missing file made an option invalid: the rest can still be
	 * shown
	 */
	if (!described && why.code != ERR_NOT_FOUND)
		log_note("berth inspect", "%s", why.msg);
	return described && json_object_update(o->found, described) < 0 ? err_nomem(e) : 0;
}

/* Which ports of the host were free is known to its keeper alone. */
static void add_inspected_ports(struct registry *r, struct inspect_options *o)
{
	json_t *network = json_object_get(o->found, "network"), *ports;
	struct err ignored;

	if (!o->runs || (!json_object_get(network, "relay") && !json_object_get(json_object_get(network, "policy"), "publish")))
		return;
	ports = ports_of(r, o->id, &ignored);
	if (ports)
		json_object_set_new(network, "ports", ports);
}

/* Lost writes of the layer: what the kernel counts while it is mounted, and what that remembers. */
static void add_inspected_disk(struct registry *r, struct inspect_options *o)
{
	autojson json_t *rq = o->runs ? protocol_request(OP_stats) : NULL, *answer = NULL;
	autoclose int at = o->runs ? keeper_connect(r, o->id, &(struct err){ 0 }) : registry_kept_dir(r, o->id);
	struct err ignored;

	if (at < 0)
		return;
	if (o->runs)
		answer = keeper_call(at, rq, NULL, 0, NULL, &ignored);
	if (!o->runs)
		json_object_set_new(o->found, "disk_errors", json_integer((json_int_t)writable_errors_noted(at)));
	else if (json_object_get(answer, "disk_errors"))
		json_object_set(o->found, "disk_errors", json_object_get(answer, "disk_errors"));
}

static int print_inspected(struct inspect_options *o, struct err *e)
{
	if (!o->format)
		return command_print_json(o->found, o->json ? JSON_COMPACT : JSON_INDENT(2), e);
	if (format_print(o->format, o->found, e) < 0)
		return -1;
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int inspect_sandbox(const struct config *c, struct inspect_options *o, const char *ref, struct err *e)
{
	struct registry r;
	struct err ignored;
	char id[65];
	int kept, result;

	if (registry_open(&r, c, e) < 0)
		return -1;
	result = registry_find(&r, ref, id, &kept, e);
	o->id = id;
	/* a sandbox whose keeper was killed does not run */
	if (result == 0 && !kept)
		registry_clear_dead(&r, id, PINGS_MS, 0, &ignored);
	if (result == 0)
		result = registry_list_one(&r, id, match_inspected_record, o, e);
	if (result == 0 && o->found && o->runs)
		sandbox_status_ask(&r, o->found);
	if (result == 0 && o->found && !o->runs)
		sandbox_status_restart(&r, o->found);
	if (result == 0 && !o->found)
		result = err_set(e, ERR_NOT_FOUND, "sandbox %s is gone", id);
	/* of a newer format: the substitute only has the reason */
	if (result == 0 && json_object_get(o->found, "error"))
		result = record_check_format(&r, id, e);
	if (result == 0)
		result = describe_inspected(&r, o, e);
	if (result == 0)
		add_inspected_ports(&r, o);
	if (result == 0)
		add_inspected_disk(&r, o);
	registry_close(&r);
	if (result == 0 && o->attest)
		result = attest(c, o, e);
	if (result == 0)
		result = print_inspected(o, e);
	json_decref(o->found);
	template_free(o->format);
	return result;
}

static int sandbox_inspect_main(const struct command *self, int argc, char **argv)
{
	struct inspect_options o = { 0 };
	struct config c;
	struct err e = { 0 };
	int rest, help = 0;

	if (config_load(&c, &e) < 0 || command_options(self, argc, argv, set_inspect_option, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.json);
	if (help)
		return 0;
	if (rest + 1 != argc) {
		err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth inspect ID, ids are listed by berth ps -a");
		return command_fail(self, &e, o.json);
	}
	return inspect_sandbox(&c, &o, argv[rest], &e) < 0 ? command_fail(self, &e, o.json) : 0;
}

const struct command cmd_inspect = {
	.name = "inspect",
	.args = "SANDBOX",
	.summary = "show a sandbox's record",
	.opts = inspect_opts,
	.opt_count = ARRAY_LEN(inspect_opts),
	.complete = COMPLETE_SANDBOX,
	.run = sandbox_inspect_main,
};

/* ---- port ---- */

/* berth port: which ports of the host lead to a sandbox. */

enum { PORT_JSON = 1 };

static const struct opt port_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print a JSON array, errors as JSON too", PORT_JSON },
};

/* "80", "53/udp" */
struct wanted {
	uint64_t port;		/* 0: every one */
	const char *protocol;
};

static int set_port_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

static int parse_wanted_port(const char *text, struct wanted *ret, struct err *e)
{
	char number[8] = "";
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);

	ret->protocol = slash ? slash + 1 : "tcp";
	if (strcmp(ret->protocol, "tcp") && strcmp(ret->protocol, "udp"))
		return err_set(e, ERR_INVALID, "'%.40s' is not a port; hint: such as 80 or 53/udp",
			       text);
	snprintf(number, sizeof(number), "%.*s", n < sizeof(number) ? (int)n : 0, text);
	return num_u64(number, "port of the sandbox", 1, UINT16_MAX, &ret->port, e);
}

/* Those that are wanted: a new reference. */
static json_t *choose_wanted_ports(const json_t *all, const struct wanted *w)
{
	json_t *list = json_array(), *one;
	size_t i;

	json_array_foreach(all, i, one)
		if (!w->port ||
		    ((uint64_t)json_integer_value(json_object_get(one, "port")) == w->port &&
		     !strcmp(json_string_value(json_object_get(one, "protocol")), w->protocol)))
			json_array_append(list, one);
	return list;
}

static void print_published_port(const json_t *one, int alone)
{
	const char *address = json_string_value(json_object_get(one, "address"));

	if (!alone)
		printf("%d/%s -> ", (int)json_integer_value(json_object_get(one, "port")),
		       json_string_value(json_object_get(one, "protocol")));
	printf(strchr(address, ':') ? "[%s]:%d\n" : "%s:%d\n", address,
	       (int)json_integer_value(json_object_get(one, "host_port")));
}

static int show_published_ports(const char *ref, const struct wanted *w, int json, struct err *e)
{
	autojson json_t *all = NULL, *list = NULL;
	struct sandbox_ref s;
	json_t *one;
	size_t i;

	sandbox_ref_init(&s);
	if (sandbox_ref_connect(&s, ref, 0, e) == 0)
		all = ports_of(&s.registry, s.id, e);
	sandbox_ref_close(&s);
	if (!all)
		return -1;
	list = choose_wanted_ports(all, w);
	if (w->port && !json_array_size(list))
		return err_set(e, ERR_NOT_FOUND, "sandbox %.64s publishes no port %llu/%s; hint: "
						 "berth port %.64s lists them",
			       ref, (unsigned long long)w->port, w->protocol, ref);
	if (json)
		return command_print_json(list, JSON_COMPACT, e);
	json_array_foreach(list, i, one)
		print_published_port(one, w->port != 0);
	return 0;
}

static int port_main(const struct command *self, int argc, char **argv)
{
	struct wanted w = { 0, "tcp" };
	int rest, help = 0, json = 0, r;
	struct err e = { 0 };

	r = command_options(self, argc, argv, set_port_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox is wanted, and perhaps one of its ports; "
					   "hint: berth port ID 80");
	if (r == 0 && rest + 2 == argc)
		r = parse_wanted_port(argv[rest + 1], &w, &e);
	if (r == 0)
		r = show_published_ports(argv[rest], &w, json, &e);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_port = {
	.name = "port",
	.args = "SANDBOX [PORT[/udp]]",
	.summary = "list the ports of the host that lead to a sandbox",
	.opts = port_options,
	.opt_count = ARRAY_LEN(port_options),
	.complete = COMPLETE_SANDBOX,
	.run = port_main,
};
