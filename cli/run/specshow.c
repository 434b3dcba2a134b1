/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/specshow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "runtime/kernel/caps.h"
#include "runtime/kernel/cgroup_io.h"
#include "runtime/sandbox/attest.h"
#include "runtime/sandbox/hostimage.h"
#include "runtime/sandbox/mountplan.h"

/* ---- as JSON ---- */

json_t *specjson_limit(uint64_t v)
{
	return v == CGROUP_UNLIMITED ? json_string("unlimited") : json_integer((json_int_t)v);
}

json_t *specjson_strings(const char *const *v, size_t n)
{
	json_t *a = json_array();
	size_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(a, json_string(v[i]));
	return a;
}

static json_t *describe_spec_limits(const struct spec *s)
{
	return json_pack(
		"{s:o,s:o,s:o,s:I,s:s,s:I,s:o,s:o,s:I,s:I,s:I,s:I}", "memory_bytes",
		specjson_limit(s->limits.memory_bytes), "swap_bytes",
		specjson_limit(s->limits.swap_bytes), "cpu_milli",
		specjson_limit(s->limits.cpu_milli), "cpu_weight", (json_int_t)s->limits.cpu_weight,
		"cpuset", s->limits.cpuset, "io_weight", (json_int_t)s->limits.io_weight,
		"io_rates", cgroup_io_json(&s->limits), "pids", specjson_limit(s->limits.pids),
		"disk_bytes", (json_int_t)s->disk_bytes, "disk_inodes", (json_int_t)s->disk_inodes,
		"tmp_bytes", (json_int_t)s->tmp_bytes, "shm_bytes", (json_int_t)s->shm_bytes);
}

static json_t *describe_spec_mounts(const struct spec *s)
{
	json_t *a = json_array();
	size_t i;

	for (i = 0; i < s->mount_count; i++) {
		const struct spec_mount *m = &s->mounts[i];
		static const char *const kinds[] = { "bind", "tmpfs", "volume" };
		const char *const source = m->kind == SPEC_VOLUME ? "volume" : "source";
		json_t *one = json_pack("{s:s,s:s,s:b,s:b}", "type", kinds[m->kind], "target",
					m->target, "writable", m->writable, "exec", m->exec);

		if (one && m->kind != SPEC_TMPFS)
			json_object_set_new(one, source, json_string(m->source));
		if (one && m->sub)
			json_object_set_new(one, "sub", json_string(m->sub));
		if (one && m->owner_auto)
			json_object_set_new(one, "owner", json_string("auto"));
		if (one && m->quota_bytes)
			json_object_set_new(one, "quota_bytes",
					    json_integer((json_int_t)m->quota_bytes));
		if (one && m->kind == SPEC_TMPFS)
			json_object_set_new(one, "size_bytes", json_integer((json_int_t)m->size_bytes));
		json_array_append_new(a, one);
	}
	return a;
}

static json_t *env_names(const struct spec *s)
{
	json_t *a = json_array();
	size_t i;

	for (i = 0; i < s->env_count; i++)
		json_array_append_new(a, json_stringn(s->env[i], strcspn(s->env[i], "=")));
	return a;
}

static json_t *describe_spec_network(const struct spec *s)
{
	json_t *j = json_pack("{s:s}", "mode", spec_network_name(s->network)), *name;

	if (j && s->joined.id)
		json_object_set_new(j, "container", json_string(s->joined.id));
	if (j && s->net_policy)
		json_object_set_new(j, "policy", json_loads(s->net_policy, 0, NULL));
	if (j && s->net_relay)
		json_object_set_new(j, "relay", json_loads(s->net_relay, 0, NULL));
	name = json_object_get(json_object_get(json_object_get(j, "policy"), "bridge"), "network");
	if (name)
		json_object_set(j, "network", name);
	return j;
}

json_t *specjson_describe(const struct spec *s)
{
	return json_pack("{s:o,s:{s:I,s:I,s:I,s:I},s:o,s:o,s:o,s:s,s:s,s:s,s:b,s:b,s:b,s:s}", "limits", describe_spec_limits(s),
			 "timeouts", "timeout_ms", (json_int_t)s->timeout_ms, "grace_ms", (json_int_t)s->grace_ms,
			 "max_silent_ms", (json_int_t)s->max_silent_ms,
			 "cpu_time_ms", (json_int_t)s->cpu_time_ms, "mounts", describe_spec_mounts(s), "network", describe_spec_network(s), "env", env_names(s),
			 "user", s->user ? s->user : "", "workdir", s->workdir ? s->workdir : "",
			 "hostname", s->hostname ? s->hostname : "", "read_only", s->read_only,
			 "no_tmpfs", s->no_tmpfs, "cgroup_files", s->cgroup_files,
			 "seccomp", s->seccomp_name ? s->seccomp_name : "");
}

void specjson_asked(json_t *described, const struct runopts *o)
{
	/* disks have numbers only while it runs: berth stats shows those */
	if (described && o->io_rates.count)
		json_object_set_new(json_object_get(described, "limits"), "io_rates",
				    specjson_strings(o->io_rates.v, o->io_rates.count));
	if (described && o->device_names.count)
		json_object_set_new(described, "devices",
				    specjson_strings(o->device_names.v, o->device_names.count));
}

/* ---- the plan ---- */

#define OUTPUT_MAX (4u << 20)
#define RULES_MAX 1024

static json_t *json_caps(uint64_t caps)
{
	json_t *a = json_array();
	unsigned i;

	for (i = 0; i <= CAPS_LAST; i++)
		if (caps & 1ULL << i)
			json_array_append_new(a, json_string(caps_name(i)));
	return a;
}

static json_t *json_mounts(const struct mountplan *p)
{
	json_t *a = json_array();
	size_t i;

	for (i = 0; i < p->count; i++) {
		const struct mount_op *op = &p->ops[i];
		json_t *m = json_object();
		char attr[64];

		mountplan_attr_text(op->attr, attr, sizeof(attr));
		json_object_set_new(m, "kind", json_string(mountplan_kind_name(op->kind)));
		json_object_set_new(m, "target", json_string(op->target));
		json_object_set_new(m, "options", json_string(attr));
		if (op->source)
			json_object_set_new(m, "source", json_string(op->source));
		if (op->idmap)
			json_object_set_new(m, "idmapped", json_true());
		if (op->size_bytes) {
			json_object_set_new(m, "size_bytes", json_integer((json_int_t)op->size_bytes));
			json_object_set_new(m, "inodes", json_integer((json_int_t)op->inodes));
		}
		json_array_append_new(a, m);
	}
	return a;
}

static json_t *json_rlimits(const struct rlimits *r)
{
	json_t *o = json_object();
	unsigned i;

	for (i = 0; i < RLIMITS_COUNT; i++)
		if (r->set & 1u << i)
			json_object_set_new(o, rlimits_name(i),
					    json_pack("[o,o]", specjson_limit(r->v[i].soft), specjson_limit(r->v[i].hard)));
	return o;
}

static json_t *json_seccomp(const struct spec *s)
{
	json_t *o = json_object();

	json_object_set_new(o, "profile", json_string(s->seccomp_name));
	if (!s->unconfined_seccomp)
		json_object_set_new(o, "filters", json_pack("[i,i]", (int)s->seccomp->a.len, (int)s->seccomp->b.len));
	return o;
}

static void access_text(unsigned access, char ret[4])
{
	snprintf(ret, 4, "%s%s%s", access & DEVICE_READ ? "r" : "",
		 access & DEVICE_WRITE ? "w" : "", access & DEVICE_MKNOD ? "m" : "");
}

static json_t *json_devices(const struct spec *s)
{
	json_t *a = json_array();
	char access[4];
	size_t i;

	for (i = 0; i < s->device_count; i++) {
		const struct spec_device *d = &s->devices[i];

		access_text(d->access, access);
		json_array_append_new(a, json_pack("{s:s,s:s,s:s,s:i,s:i,s:s}", "source", d->source,
						   "target", d->target, "type",
						   S_ISBLK(d->mode) ? "b" : "c", "major",
						   (int)major(d->rdev), "minor",
						   (int)minor(d->rdev), "access", access));
	}
	return a;
}

static int print_plan_json(const struct spec *s, const char *image, const struct mountplan *p, struct err *e)
{
	autojson json_t *j = json_object();
	autofree char *text = NULL;

	json_object_set_new(j, "image", json_string(image));
	json_object_set_new(j, "command", specjson_strings(s->argv, s->argc));
	json_object_set_new(j, "env", specjson_strings(s->env, s->env_count));
	json_object_set_new(j, "user", json_string(s->user));
	json_object_set_new(j, "workdir", json_string(s->workdir));
	json_object_set_new(j, "hostname", json_string(s->hostname));
	json_object_set_new(j, "network", json_string(spec_network_name(s->network)));
	if (s->net_policy)
		json_object_set_new(j, "network_policy", json_loads(s->net_policy, 0, NULL));
	if (s->net_relay)
		json_object_set_new(j, "network_relay", json_loads(s->net_relay, 0, NULL));
	json_object_set_new(j, "memory_bytes", specjson_limit(s->limits.memory_bytes));
	json_object_set_new(j, "swap_bytes", specjson_limit(s->limits.swap_bytes));
	json_object_set_new(j, "cpu_milli", specjson_limit(s->limits.cpu_milli));
	json_object_set_new(j, "pids", specjson_limit(s->limits.pids));
	json_object_set_new(j, "io_weight", json_integer((json_int_t)s->limits.io_weight));
	json_object_set_new(j, "io_rates", cgroup_io_json(&s->limits));
	json_object_set_new(j, "timeout_ms", json_integer((json_int_t)s->timeout_ms));
	if (s->max_silent_ms)
		json_object_set_new(j, "max_silent_ms",
				    json_integer((json_int_t)s->max_silent_ms));
	json_object_set_new(j, "cpu_time_ms", json_integer((json_int_t)s->cpu_time_ms));
	json_object_set_new(j, "capabilities", json_caps(s->caps));
	json_object_set_new(j, "rlimits", json_rlimits(&s->rlimits));
	json_object_set_new(j, "seccomp", json_seccomp(s));
	json_object_set_new(j, "mounts", json_mounts(p));
	if (s->device_count)
		json_object_set_new(j, "devices", json_devices(s));
	text = json_dumps(j, JSON_COMPACT);
	if (!text)
		return err_set(e, ERR_INVALID, "the command is not valid UTF-8");
	return puts(text) < 0 || fflush(stdout) ? err_sys(e, "write the plan") : 0;
}

static int add_plan_limit(struct buf *b, const char *name, uint64_t v, const char *unit, struct err *e)
{
	if (v == CGROUP_UNLIMITED)
		return buf_addf(b, e, "  %-10s unlimited\n", name);
	return buf_addf(b, e, "  %-10s %" PRIu64 "%s\n", name, v, unit);
}

static int add_plan_filters(struct buf *b, const struct spec *s, struct err *e)
{
	struct seccomp_rule_info rules[RULES_MAX];
	size_t n, i;

	if (s->unconfined_seccomp)
		return buf_adds(b, "seccomp: unconfined\n", e);
	if (buf_addf(b, e, "seccomp: profile %s, filters of %u and %u instructions; refused:\n", s->seccomp_name,
		     s->seccomp->a.len, s->seccomp->b.len) < 0)
		return -1;
	n = seccomp_rules(s->seccomp->name ? s->seccomp->name : "", rules, RULES_MAX);
	for (i = 0; i < n && i < RULES_MAX; i++)
		if (buf_addf(b, e, "  %-24s %-40s %-14s %s\n", rules[i].syscall, rules[i].condition, rules[i].action,
			     rules[i].reason) < 0)
			return -1;
	return 0;
}

static int add_plan_devices(struct buf *b, const struct spec *s, struct err *e)
{
	char access[4];
	size_t i;

	if (s->device_count && buf_adds(b, "devices:\n", e) < 0)
		return -1;
	for (i = 0; i < s->device_count; i++) {
		const struct spec_device *d = &s->devices[i];

		access_text(d->access, access);
		if (buf_addf(b, e, "  %s  %c %u:%u %s  from %s\n", d->target,
			     S_ISBLK(d->mode) ? 'b' : 'c', major(d->rdev), minor(d->rdev), access,
			     d->source) < 0)
			return -1;
	}
	return 0;
}

static int add_plan_io(struct buf *b, const struct cgroup_limits *l, struct err *e)
{
	char text[CGROUP_IO_TEXT];
	unsigned i;

	if (l->io_weight && buf_addf(b, e, "  io weight: %" PRIu64 "\n", l->io_weight) < 0)
		return -1;
	for (i = 0; i < l->io_rate_count; i++) {
		cgroup_io_print(&l->io_rates[i], text);
		if (buf_addf(b, e, "  io of disk %s\n", text) < 0)
			return -1;
	}
	return 0;
}

static int print_plan_text(const struct spec *s, const char *image, const struct mountplan *p, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OUTPUT_MAX);
	unsigned i;
	size_t k;

	if (buf_addf(&b, e, "image: %s\ncommand:", image) < 0)
		return -1;
	for (k = 0; k < s->argc; k++)
		if (buf_addf(&b, e, " %s", s->argv[k]) < 0)
			return -1;
	if (buf_addf(&b, e, "\nuser: %s\nworkdir: %s\nhostname: %s\nnetwork: %s\n",
		     s->user[0] ? s->user : "root", s->workdir, s->hostname,
		     s->network == NETWORK_NONE ? "none (loopback only)" :
						  spec_network_name(s->network)) < 0 ||
	    (s->net_policy && buf_addf(&b, e, "network policy: %s\n", s->net_policy) < 0) ||
	    (s->net_relay && buf_addf(&b, e, "network relay: %s\n", s->net_relay) < 0) ||
	    buf_adds(&b, "limits:\n", e) < 0 ||
	    add_plan_limit(&b, "memory", s->limits.memory_bytes, " bytes", e) < 0 ||
	    add_plan_limit(&b, "swap", s->limits.swap_bytes, " bytes", e) < 0 ||
	    add_plan_limit(&b, "cpus", s->limits.cpu_milli, "/1000", e) < 0 ||
	    add_plan_limit(&b, "pids", s->limits.pids, "", e) < 0 || add_plan_io(&b, &s->limits, e) < 0 ||
	    buf_adds(&b, "mounts:\n", e) < 0 || mountplan_print(p, &b, e) < 0 ||
	    add_plan_devices(&b, s, e) < 0 || buf_adds(&b, "capabilities:", e) < 0)
		return -1;
	for (i = 0; i <= CAPS_LAST; i++)
		if (s->caps & 1ULL << i && buf_addf(&b, e, " %s", caps_name(i)) < 0)
			return -1;
	if (buf_adds(&b, "\nresource limits:", e) < 0)
		return -1;
	for (i = 0; i < RLIMITS_COUNT; i++)
		if (s->rlimits.set & 1u << i && buf_addf(&b, e, " %s=%" PRIu64 ":%" PRIu64, rlimits_name(i),
							 s->rlimits.v[i].soft, s->rlimits.v[i].hard) < 0)
			return -1;
	if (buf_adds(&b, "\n", e) < 0 || add_plan_filters(&b, s, e) < 0)
		return -1;
	return io_write_all(STDOUT_FILENO, b.data, b.len) < 0 ? err_sys(e, "write the plan") : 0;
}

int plan_print(const struct spec *s, const char *image, int as_json, struct err *e)
{
	static struct mountplan p;

	if (spec_check(s, e) < 0 || mountplan_build(&p, s, s->host_image ? hostimage_dirs() : NULL, e) < 0)
		return -1;
	return as_json ? print_plan_json(s, image, &p, e) : print_plan_text(s, image, &p, e);
}

/* ---- the attestation ---- */

int attestation_print(struct sandbox *sb, struct err *e)
{
	autojson json_t *j = NULL;
	autofree char *text = NULL;

	if (attest_ready(sb, e) < 0)
		return -1;
	j = attest_report(sb->pid, &sb->cgroup, e);
	text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
	if (!text)
		return j ? err_nomem(e) : -1;
	if (io_write_all(STDERR_FILENO, text, strlen(text)) < 0 ||
	    io_write_all(STDERR_FILENO, "\n", 1) < 0)
		return err_sys(e, "write the attestation");
	return 0;
}
