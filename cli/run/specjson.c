/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/specjson.h"

#include <string.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup_io.h"

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

static json_t *limits(const struct spec *s)
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

static json_t *mounts(const struct spec *s)
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

static json_t *network(const struct spec *s)
{
	json_t *j = json_pack("{s:s}", "mode", spec_network_name(s->network)), *name;

	if (j && s->joined.id)
		json_object_set_new(j, "container", json_string(s->joined.id));
	if (j && s->net_policy)
		json_object_set_new(j, "policy", json_loads(s->net_policy, 0, NULL));
	name = json_object_get(json_object_get(json_object_get(j, "policy"), "bridge"), "network");
	if (name)
		json_object_set(j, "network", name);
	return j;
}

json_t *specjson_describe(const struct spec *s)
{
	return json_pack("{s:o,s:{s:I,s:I,s:I,s:I},s:o,s:o,s:o,s:s,s:s,s:s,s:b,s:b,s:s}", "limits", limits(s),
			 "timeouts", "timeout_ms", (json_int_t)s->timeout_ms, "grace_ms", (json_int_t)s->grace_ms,
			 "max_silent_ms", (json_int_t)s->max_silent_ms,
			 "cpu_time_ms", (json_int_t)s->cpu_time_ms, "mounts", mounts(s), "network", network(s), "env", env_names(s),
			 "user", s->user ? s->user : "", "workdir", s->workdir ? s->workdir : "",
			 "hostname", s->hostname ? s->hostname : "", "read_only", s->read_only,
			 "no_tmpfs", s->no_tmpfs,
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
