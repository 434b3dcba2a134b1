/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S41 of SECURITY.md. */
#include "manager/host/tenant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/net/netpolicy.h"
#include "runtime/sandbox/spec.h"

#define T(f) offsetof(struct tenant, f), sizeof(((struct tenant *)0)->f)
#define PIDS_MAX 4096		/* enough for a build; the kernel has 32768 for all on small machines */
#define DISK_SHARE 10		/* a tenth of the file system */
#define WORKSPACE_BYTES_MIN (1u << 20)	/* a project quota of 0 blocks bounds nothing */
#define BYTES_AN_INODE 16384	/* the value of mke2fs.conf(5) */

static int check_tenant_host(const char *v, const char *what, struct err *e)
{
	struct nethost host;

	if (!v[0] || nethost_parse(v, &host, e) == 0)
		return 0;
	e->code = ERR_CONFIG;
	return err_wrap(e, "%s", what);
}

const struct config_key tenant_keys[] = {
	{ "tenant", "memory_limit", CONFIG_SIZE, "0", 0, 1ULL << 60, T(memory_bytes), NULL, NULL,
	  "most memory of a sandbox; 0 is half of the machine's" },
	{ "tenant", "swap_limit", CONFIG_SIZE, "0", 0, 1ULL << 60, T(swap_bytes), NULL, NULL,
	  "most swap of a sandbox; 0 is [sandbox] swap_limit" },
	{ "tenant", "cpu_limit", CONFIG_CPUS, "0", 0, 4096000, T(cpu_milli), NULL, NULL,
	  "most CPUs of a sandbox; 0 is those of the machine" },
	{ "tenant", "pids_limit", CONFIG_COUNT, "0", 0, 4194304, T(pids), NULL, NULL,
	  "most processes and threads of a sandbox; 0 is 4096" },
	{ "tenant", "disk_limit", CONFIG_SIZE, "0", 0, 1ULL << 50, T(disk_bytes), NULL, NULL,
	  "most bytes of a writable layer; 0 is a tenth of the file system of state_dir" },
	{ "tenant", "disk_inodes", CONFIG_COUNT, "0", 0, 1ULL << 31, T(disk_inodes), NULL, NULL,
	  "most files of a writable layer; 0 is one for each 16 KiB of disk_limit" },
	{ "tenant", "tmp_size", CONFIG_SIZE, "0", 0, 1ULL << 50, T(tmp_bytes), NULL, NULL,
	  "most bytes of a /tmp in memory; 0 is memory_limit" },
	{ "tenant", "sandboxes", CONFIG_COUNT, "0", 0, 65534, T(sandboxes), NULL, NULL,
	  "sandboxes of a tenant; 0 is half of [manager] max_sandboxes" },
	{ "tenant", "archives", CONFIG_COUNT, "0", 0, 1000000, T(archives), NULL, NULL,
	  "archived sandboxes of a tenant; 0 is four times sandboxes" },
	{ "tenant", "stored_bytes", CONFIG_SIZE, "0", 0, 1ULL << 50, T(stored_bytes), NULL, NULL,
	  "what a tenant's checkpoints and folders in the storage may take; 0 is 16 times [sandbox] "
	  "disk_limit, at least 4 GiB" },
	{ "tenant", "memory_total", CONFIG_SIZE, "0", 0, 1ULL << 60, T(memory_total), NULL, NULL,
	  "sum of the memory limits of a tenant's sandboxes; 0 is half of [admission] memory, or the machine's memory" },
	{ "tenant", "cpu_total", CONFIG_CPUS, "0", 0, 4096000000, T(cpu_total), NULL, NULL,
	  "sum of the CPU limits of a tenant's sandboxes; 0 is half of [admission] cpus, or sandboxes times cpu_limit" },
	{ "tenant", "disk_total", CONFIG_SIZE, "0", 0, 1ULL << 60, T(disk_total), NULL, NULL,
	  "sum of the disk limits of a tenant's sandboxes; 0 is half of the file system of state_dir, or sandboxes times "
	  "[sandbox] disk_limit if that is more" },
	{ "tenant", "volumes", CONFIG_COUNT, "0", 0, 65534, T(volumes), NULL, NULL,
	  "volumes of a tenant; 0 is a quarter of [volume] max" },
	{ "tenant", "networks", CONFIG_COUNT, "0", 0, 65534, T(networks), NULL, NULL,
	  "networks of a tenant; 0 is a quarter of [network] max_networks" },
	{ "tenant", "zygotes", CONFIG_COUNT, "0", 0, 65534, T(zygotes), NULL, NULL,
	  "zygotes of a tenant; 0 is a sixteenth of sandboxes" },
	{ "tenant", "zygote_forks", CONFIG_COUNT, "0", 0, 65534, T(zygote_forks), NULL, NULL,
	  "forks that these may have together; 0 is half of sandboxes" },
	{ "tenant", "network_hosts", CONFIG_LIST, "", 0, 1023, T(network_hosts), check_tenant_host, NULL,
	  "hosts that members of a tenant's networks may reach, by a proxy; empty means none" },
	{ "tenant", "workspace_bytes", CONFIG_SIZE, "0", 0, 1ULL << 50, T(workspace_bytes), NULL,
	  NULL, "bytes of a tenant's workspaces together; 0 is a tenth of their file system where "
	  "that enforces project quotas" },
	{ "tenant", "connections", CONFIG_COUNT, "0", 0, 65536, T(connections), NULL, NULL,
	  "connections of a tenant to berthd at once; 0 is a quarter of [daemon] max_connections" },
	{ "tenant", "requests", CONFIG_COUNT, "0", 0, 65536, T(requests), NULL, NULL,
	  "requests of a tenant that berthd has under way; 0 is connections" },
	{ "tenant", "streams", CONFIG_COUNT, "0", 0, 65536, T(streams), NULL, NULL,
	  "of these, streams of events, statistics and network logs; 0 is half of requests" },
	{ "tenant", "images", CONFIG_LIST, "*", 0, 1023, T(images), NULL, NULL,
	  "names of images that a tenant sees beside its own, with * and ?; none is a tenant's" },
	{ "tenant", "own_images", CONFIG_COUNT, "0", 0, 1000000, T(own_images), NULL, NULL,
	  "images that are a tenant's own; 0 is sandboxes" },
	{ "tenant", "own_image_bytes", CONFIG_SIZE, "0", 0, 1ULL << 60, T(own_image_bytes), NULL,
	  NULL, "bytes of these, each layer once; 0 is a tenth of the file system of state_dir" },
	{ "tenant", "commit", CONFIG_BOOL, "true", 0, 1, T(may_commit), NULL, NULL,
	  "whether a tenant may make images of its sandboxes" },
	{ "tenant", "import", CONFIG_BOOL, "false", 0, 1, T(may_import), NULL, NULL,
	  "whether a tenant may make images, and sandboxes of checkpoints, of files that it "
	  "sends" },
	{ "tenant", "pull", CONFIG_LIST, "", 0, 1023, T(pull), NULL, NULL,
	  "names of images that a tenant may fetch from a registry, with * and ?; empty means none" },
};
const size_t tenant_key_count = ARRAY_LEN(tenant_keys);

/* ---- what no file sets ---- */

static uint64_t larger_limit(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t machine_memory(void)
{
	struct sysinfo i;

	return sysinfo(&i) == 0 ? (uint64_t)i.totalram * i.mem_unit : 0;
}

static uint64_t machine_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (uint64_t)n * 1000 : 1000;
}

static uint64_t disk_share(const char *dir)
{
	struct statvfs fs;

	/* before the first sandbox state_dir may be missing */
	if (statvfs(dir, &fs) < 0 && statvfs("/", &fs) < 0)
		return 0;
	return (uint64_t)fs.f_blocks * fs.f_frsize / DISK_SHARE;
}

/* A default is never less than the [sandbox] default of a sandbox. */
static void derive_tenant_limits(struct tenant *t, const struct config *c)
{
	if (!t->memory_bytes)
		t->memory_bytes = larger_limit(machine_memory() / 2, c->memory_bytes);
	if (!t->swap_bytes)
		t->swap_bytes = c->swap_bytes;
	if (!t->cpu_milli)
		t->cpu_milli = larger_limit(machine_cpus(), c->cpu_milli);
	if (!t->pids)
		t->pids = larger_limit(PIDS_MAX, c->pids);
	if (!t->disk_bytes)
		t->disk_bytes = larger_limit(disk_share(c->state_dir), c->disk_bytes);
	if (!t->disk_inodes)
		t->disk_inodes = larger_limit(t->disk_bytes / BYTES_AN_INODE, c->disk_inodes);
	if (!t->tmp_bytes)
		t->tmp_bytes = larger_limit(t->memory_bytes, c->tmp_bytes);
	if (!t->sandboxes)
		t->sandboxes = larger_limit(c->max_sandboxes / 2, 1);
	if (!t->own_images)
		t->own_images = t->sandboxes;
	if (!t->own_image_bytes)
		t->own_image_bytes = larger_limit(disk_share(c->state_dir), 1);
	if (!t->stored_bytes)
		t->stored_bytes = 16 * larger_limit(c->disk_bytes, 256u << 20);
	if (!t->archives)
		t->archives = 4 * t->sandboxes;
	if (!t->volumes)
		t->volumes = larger_limit(c->volume_max / 4, 1);
	if (!t->networks)
		t->networks = larger_limit(c->network_max / 4, 1);
	if (!t->zygotes)
		t->zygotes = larger_limit(t->sandboxes / 16, 1);
	if (!t->zygote_forks)
		t->zygote_forks = larger_limit(t->sandboxes / 2, 1);
	if (!t->connections)
		t->connections = larger_limit(c->daemon_max_connections / 4, 1);
	if (!t->requests)
		t->requests = t->connections;
	if (!t->streams)
		t->streams = larger_limit(t->requests / 2, 1);
	if (!t->memory_total)
		t->memory_total = c->admit_memory_bytes ? larger_limit(c->admit_memory_bytes / 2, 1) : larger_limit(machine_memory(), t->memory_bytes);
	if (!t->cpu_total)
		t->cpu_total = c->admit_cpu_milli ? larger_limit(c->admit_cpu_milli / 2, 1) : t->sandboxes * t->cpu_milli;
	if (!t->disk_total)
		t->disk_total = larger_limit(disk_share(c->state_dir) * (DISK_SHARE / 2), t->sandboxes * c->disk_bytes);
}

/* ---- the file ---- */

/* A member that is a table is [tenant.NAME], any other a key of all. */
static int apply_tenant_table(struct tenant *t, const json_t *table, const char *shown, struct err *e)
{
	const char *name;
	json_t *v;
	char what[160];
	size_t i;

	if (!table)
		return 0;
	if (!json_is_object(table))
		return err_set(e, ERR_CONFIG, "%.80s is not a table; hint: [%.80s]", shown, shown);
	json_object_foreach((json_t *)(size_t)table, name, v) {
		if (json_is_object(v) && !strcmp(shown, "tenant"))
			continue;
		for (i = 0; i < tenant_key_count && strcmp(tenant_keys[i].name, name); i++)
			;
		if (i == tenant_key_count)
			return err_set(e, ERR_CONFIG, "unknown key %.64s in [%.80s]; hint: berth.toml(5) lists them", name, shown);
		snprintf(what, sizeof(what), "%.80s.%.64s", shown, name);
		if (config_set(t, &tenant_keys[i], v, what, e) < 0)
			return -1;
	}
	return 0;
}

int tenant_parse(const json_t *doc, const struct config *c, const char *name, struct tenant *ret, struct err *e)
{
	const json_t *all = json_object_get(doc, "tenant"), *own = json_object_get(all, name);
	char shown[80];
	size_t i;

	memset(ret, 0, sizeof(*ret));
	for (i = 0; i < tenant_key_count; i++)
		if (config_set_preset(ret, &tenant_keys[i], e) < 0)
			return -1;
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	snprintf(shown, sizeof(shown), "tenant.%.64s", name);
	/* a name that is also a key of all has a table or it has nothing of its own */
	if (apply_tenant_table(ret, all, "tenant", e) < 0 || (json_is_object(own) && apply_tenant_table(ret, own, shown, e) < 0))
		return -1;
	if (ret->workspace_bytes && ret->workspace_bytes < WORKSPACE_BYTES_MIN)
		return err_set(e, ERR_CONFIG, "tenant.workspace_bytes %" PRIu64
			       " is too small; hint: 1m or more", ret->workspace_bytes);
	derive_tenant_limits(ret, c);
	return 0;
}

int tenant_load(struct tenant *ret, const struct config *c, const char *name, struct err *e)
{
	autojson json_t *doc = config_document(e);

	if (!doc)
		return -1;
	if (tenant_parse(doc, c, name, ret, e) == 0)
		return 0;
	e->code = ERR_CONFIG;
	return c->file[0] ? err_wrap(e, "%.200s", c->file) : -1;
}

int tenant_check_sections(const json_t *doc, const struct config *c, struct err *e)
{
	json_t *all = json_object_get(doc, "tenant"), *v;
	struct tenant t;
	const char *name;

	if (tenant_parse(doc, c, "", &t, e) < 0)
		return -1;
	json_object_foreach(all, name, v) {
		if (!json_is_object(v))
			continue;
		if (!path_is_name(name))
			return err_set(e, ERR_CONFIG, "[tenant.%.64s] is not a name of a-z 0-9 _ . -", name);
		if (tenant_parse(doc, c, name, &t, e) < 0)
			return -1;
	}
	return 0;
}

const json_t *tenant_source(const json_t *doc, const char *name, const char *key)
{
	const json_t *all = json_object_get(doc, "tenant"), *own = json_object_get(json_object_get(all, name), key);

	return own ? own : json_object_get(all, key);
}

int tenant_any_workspace_bytes(const json_t *doc)
{
	json_t *all = json_object_get(doc, "tenant"), *v;
	const char *name;

	if (json_object_get(all, "workspace_bytes"))
		return 1;
	json_object_foreach(all, name, v)
		if (json_object_get(v, "workspace_bytes"))
			return 1;
	return 0;
}

/* ---- what is asked for ---- */

static int too_much(const struct tenant *t, const char *what, const char *asked, const char *most, const char *key, struct err *e)
{
	return err_set(e, ERR_LIMIT, "%s %s is more than tenant %s may have, which is %s; hint: ask for less, or [tenant] %s in berth.toml",
		       what, asked, t->name, most, key);
}

static int check_tenant_count(const struct tenant *t, const char *what, const char *unit, uint64_t asked, uint64_t most, const char *key,
		       struct err *e)
{
	char a[40] = "unlimited", m[40];

	if (asked <= most)
		return 0;
	if (asked != CGROUP_UNLIMITED)
		snprintf(a, sizeof(a), "%" PRIu64 "%s", asked, unit);
	snprintf(m, sizeof(m), "%" PRIu64 "%s", most, unit);
	return too_much(t, what, a, m, key, e);
}

int tenant_check_memory(const struct tenant *t, uint64_t bytes, struct err *e)
{
	return check_tenant_count(t, "memory", " bytes", bytes, t->memory_bytes, "memory_limit", e);
}

int tenant_check_cpus(const struct tenant *t, uint64_t milli, struct err *e)
{
	char a[40] = "unlimited", m[40];

	if (milli <= t->cpu_milli)
		return 0;
	if (milli != CGROUP_UNLIMITED)
		snprintf(a, sizeof(a), "%g", (double)milli / 1000);
	snprintf(m, sizeof(m), "%g", (double)t->cpu_milli / 1000);
	return too_much(t, "cpus", a, m, "cpu_limit", e);
}

int tenant_check_pids(const struct tenant *t, uint64_t pids, struct err *e)
{
	return check_tenant_count(t, "pids", "", pids, t->pids, "pids_limit", e);
}

int tenant_check_spec(const struct tenant *t, const struct spec *s, struct err *e)
{
	if (tenant_check_memory(t, s->limits.memory_bytes, e) < 0 ||
	    check_tenant_count(t, "swap", " bytes", s->limits.swap_bytes, t->swap_bytes, "swap_limit", e) < 0 ||
	    tenant_check_cpus(t, s->limits.cpu_milli, e) < 0 || tenant_check_pids(t, s->limits.pids, e) < 0 ||
	    check_tenant_count(t, "disk", " bytes", s->disk_bytes, t->disk_bytes, "disk_limit", e) < 0 ||
	    check_tenant_count(t, "disk-inodes", "", s->disk_inodes, t->disk_inodes, "disk_inodes", e) < 0 ||
	    check_tenant_count(t, "tmp-size", " bytes", s->tmp_bytes, t->tmp_bytes, "tmp_size", e) < 0)
		return -1;
	return 0;
}

static int cap_tenant_option(json_t *options, const char *name, uint64_t preset, uint64_t most, int is_milli, struct err *e)
{
	char text[40];

	if (preset <= most)
		return 0;
	if (is_milli)
		snprintf(text, sizeof(text), "%" PRIu64 ".%03u", most / 1000, (unsigned)(most % 1000));
	else
		snprintf(text, sizeof(text), "%" PRIu64, most);
	return json_array_insert_new(options, 0, json_pack("[s,s]", name, text)) < 0 ? err_nomem(e) : 0;
}

int tenant_cap_defaults(const struct tenant *t, const struct config *c, json_t *options, struct err *e)
{
	if (cap_tenant_option(options, "memory", c->memory_bytes, t->memory_bytes, 0, e) < 0 ||
	    cap_tenant_option(options, "swap", c->swap_bytes, t->swap_bytes, 0, e) < 0 ||
	    cap_tenant_option(options, "cpus", c->cpu_milli, t->cpu_milli, 1, e) < 0 ||
	    cap_tenant_option(options, "pids", c->pids, t->pids, 0, e) < 0 ||
	    cap_tenant_option(options, "disk", c->disk_bytes, t->disk_bytes, 0, e) < 0 ||
	    cap_tenant_option(options, "disk-inodes", c->disk_inodes, t->disk_inodes, 0, e) < 0 ||
	    cap_tenant_option(options, "tmp-size", c->tmp_bytes, t->tmp_bytes, 0, e) < 0)
		return -1;
	return 0;
}

struct image_view tenant_view(const struct tenant *t, const struct config *c)
{
	return (struct image_view){ t->name, t->images, c->image };
}

int tenant_sees_image(const struct tenant *t, const struct config *c, const json_t *record)
{
	const struct image_view v = tenant_view(t, c);

	return image_view_sees(&v, record);
}

struct promise tenant_promise(const struct tenant *t, uint64_t memory_bytes, uint64_t cpu_milli, uint64_t disk_bytes)
{
	struct promise p = { .memory_bytes = memory_bytes, .cpu_milli = cpu_milli, .disk_bytes = disk_bytes, .max_sandboxes = t->sandboxes,
			     .max_memory_bytes = t->memory_total, .max_cpu_milli = t->cpu_total,
			     .max_disk_bytes = t->disk_total };

	memcpy(p.tenant, t->name, sizeof(p.tenant));
	return p;
}
