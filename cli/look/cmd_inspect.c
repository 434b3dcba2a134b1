/* SPDX-License-Identifier: Apache-2.0 */
/* berth inspect: a sandbox's record, and with --attest the kernel's report about it. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/resident.h"
#include "cli/live/sandbox_status.h"
#include "cli/look/format.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/pings.h"
#include "runtime/sandbox/attest.h"

enum { OPT_ATTEST = 1, OPT_JSON, OPT_FORMAT };

static const struct opt options[] = {
	{ "attest", 0, OPT_FLAG, NULL, "add what the kernel reports: namespaces, capabilities, filters, mounts, limits",
	  OPT_ATTEST },
	FORMAT_OPTION(OPT_FORMAT, 'f'),
	{ "json", 0, OPT_FLAG, NULL, "one line instead of indented", OPT_JSON },
};

struct inspect_options {
	int attest, json, runs;
	struct template *format;
	const char *id;
	json_t *found;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct inspect_options *o = ctx;

	if (id == OPT_FORMAT) {
		template_free(o->format);
		o->format = format_parse(value, e);
		return o->format ? 0 : -1;
	}
	*(id == OPT_ATTEST ? &o->attest : &o->json) = 1;
	return 0;
}

static int match(void *ctx, const char *id, int kept, json_t *record)
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
static int describe(struct registry *r, struct inspect_options *o, struct err *e)
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
static void add_ports(struct registry *r, struct inspect_options *o)
{
	json_t *network = json_object_get(o->found, "network"), *ports;
	struct err ignored;

	if (!o->runs || !json_object_get(json_object_get(network, "policy"), "publish"))
		return;
	ports = ports_of(r, o->id, &ignored);
	if (ports)
		json_object_set_new(network, "ports", ports);
}

static int print(struct inspect_options *o, struct err *e)
{
	if (!o->format)
		return command_print_json(o->found, o->json ? JSON_COMPACT : JSON_INDENT(2), e);
	if (format_print(o->format, o->found, e) < 0)
		return -1;
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int inspect(const struct config *c, struct inspect_options *o, const char *ref, struct err *e)
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
		result = registry_list_one(&r, id, match, o, e);
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
		result = describe(&r, o, e);
	if (result == 0)
		add_ports(&r, o);
	registry_close(&r);
	if (result == 0 && o->attest)
		result = attest(c, o, e);
	if (result == 0)
		result = print(o, e);
	json_decref(o->found);
	template_free(o->format);
	return result;
}

static int inspect_main(const struct command *self, int argc, char **argv)
{
	struct inspect_options o = { 0 };
	struct config c;
	struct err e = { 0 };
	int rest, help = 0;

	if (config_load(&c, &e) < 0 || command_options(self, argc, argv, set_option, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.json);
	if (help)
		return 0;
	if (rest + 1 != argc) {
		err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth inspect ID, ids are listed by berth ps -a");
		return command_fail(self, &e, o.json);
	}
	return inspect(&c, &o, argv[rest], &e) < 0 ? command_fail(self, &e, o.json) : 0;
}

const struct command cmd_inspect = {
	.name = "inspect",
	.args = "SANDBOX",
	.summary = "show a sandbox's record",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = inspect_main,
};
