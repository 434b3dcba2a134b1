/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "base/suggest.h"
#include "base/toml.h"
#include "manager/host/config_check.h"
#include "manager/host/policy.h"

/* ---- strings with a grammar ---- */

static int check_path(const char *v, const char *what, struct err *e)
{
	const char *s;

	if (v[0] != '/' || !v[1])
		return err_set(e, ERR_CONFIG, "%s '%.200s' is not an absolute path below /", what, v);
	for (s = v; *s; s += strcspn(s, "/")) {
		s += strspn(s, "/");
		if (!strncmp(s, "..", 2) && (s[2] == '/' || !s[2]))
			return err_set(e, ERR_CONFIG, "%s '%.200s' has a .. in it", what, v);
	}
	return 0;
}

static int check_path_or_none(const char *v, const char *what, struct err *e)
{
	return v[0] ? check_path(v, what, e) : 0;
}

static int check_hostname(const char *v, const char *what, struct err *e)
{
	size_t n = strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");

	if (v[n] || v[0] == '-' || v[0] == '.')
		return err_set(e, ERR_CONFIG, "%s '%.64s' is not a host name; hint: letters, digits, . and -", what, v);
	return 0;
}

static int check_parent(const char *v, const char *what, struct err *e)
{
	if (!path_is_name(v) || strncmp(v, "berth", 5))
		return err_set(e, ERR_CONFIG, "%s '%.64s' is not a name beginning with berth; hint: such as berth or "
			       "berth-test", what, v);
	return 0;
}

int config_check_pull(const char *v, const char *what, struct err *e)
{
	if (strcmp(v, "missing") && strcmp(v, "always") && strcmp(v, "never"))
		return err_set(e, ERR_CONFIG, "%s '%.20s' is not missing, always or never", what, v);
	return 0;
}

/* ---- the table ---- */

#define FIELD(f) offsetof(struct config, f), sizeof(((struct config *)0)->f)
#define DAY_MS UINT64_C(86400000)

const struct config_key config_keys[] = {
	{ "sandbox", "image", CONFIG_STRING, "host", 1, 255, FIELD(image), NULL, NULL,
	  "image used where none is named" },
	{ "sandbox", "work_dir", CONFIG_STRING, "/workspace", 2, 4095, FIELD(work_dir), check_path, NULL,
	  "working directory in the sandbox where the image names none; made at create" },
	{ "sandbox", "memory_limit", CONFIG_SIZE, "512m", 512 << 10, 1ULL << 60, FIELD(memory_bytes), NULL, NULL,
	  "memory of a sandbox" },
	{ "sandbox", "swap_limit", CONFIG_SIZE, "0", 0, 1ULL << 60, FIELD(swap_bytes), NULL, NULL,
	  "swap of a sandbox, on top of its memory" },
	{ "sandbox", "cpu_limit", CONFIG_CPUS, "1.0", 10, 4096000, FIELD(cpu_milli), NULL, NULL,
	  "CPUs a sandbox may use at once" },
	{ "sandbox", "pids_limit", CONFIG_COUNT, "512", 2, 4194304, FIELD(pids), NULL, NULL,
	  "processes and threads of a sandbox" },
	{ "sandbox", "disk_limit", CONFIG_SIZE, "256m", 1 << 20, 1ULL << 50, FIELD(disk_bytes), NULL, NULL,
	  "bytes of the writable layer" },
	{ "sandbox", "disk_inodes", CONFIG_COUNT, "65536", 64, 1ULL << 31, FIELD(disk_inodes), NULL, NULL,
	  "files and directories of the writable layer" },
	{ "sandbox", "tmp_size", CONFIG_SIZE, "64m", 4096, 1ULL << 50, FIELD(tmp_bytes), NULL, NULL,
	  "bytes of /tmp" },
	{ "sandbox", "timeout", CONFIG_DURATION, "300s", 0, 366 * DAY_MS, FIELD(timeout_ms), NULL, NULL,
	  "time limit of a command in exec (only if set), sh and code, not of berth run; 0 means none" },
	{ "sandbox", "grace", CONFIG_DURATION, "2s", 0, DAY_MS, FIELD(grace_ms), NULL, NULL,
	  "time between SIGTERM and SIGKILL when a limit ends a command" },
	{ "sandbox", "network_enabled", CONFIG_BOOL, "false", 0, 1, FIELD(network_enabled), NULL, NULL,
	  "whether a sandbox gets a network besides its own loopback" },
	{ "sandbox", "seccomp", CONFIG_STRING, "standard", 1, 63, FIELD(seccomp), NULL, NULL,
	  "seccomp profile: strict, standard, dev, unconfined, or the path of a JSON file" },
	{ "sandbox", "hostname", CONFIG_STRING, "sandbox", 1, 64, FIELD(hostname), check_hostname, NULL,
	  "host name in the sandbox" },
	{ "sandbox", "user", CONFIG_STRING, "", 0, 127, FIELD(user), NULL, NULL,
	  "user or user:group the command runs as where the image names none; empty is root of the sandbox" },
	{ "sandbox", "checkpoint", CONFIG_STRING, "never", 5, 7, FIELD(checkpoint),
	  config_check_checkpoint, NULL, "when checkpoints are made by themselves: never, or command" },
	{ "sandbox", "checkpoint_keep", CONFIG_COUNT, "16", 1, 256, FIELD(checkpoint_keep), NULL, NULL,
	  "checkpoints that a sandbox keeps; the oldest go" },
	{ "manager", "max_sandboxes", CONFIG_COUNT, "100", 1, 65534, FIELD(max_sandboxes), NULL, NULL,
	  "sandboxes that may run at once" },
	{ "manager", "max_stopped", CONFIG_COUNT, "1000", 1, 65534, FIELD(max_stopped), NULL, NULL,
	  "stopped sandboxes beside which another may be made; a stop itself is never refused" },
	{ "manager", "idle_timeout", CONFIG_DURATION, "3600s", 0, 366 * DAY_MS, FIELD(idle_timeout_ms), NULL, NULL,
	  "a sandbox unused for this long is stopped; 0 is never" },
	{ "manager", "idle_action", CONFIG_STRING, "stop", 4, 7, FIELD(idle_action), config_check_idle, NULL,
	  "what then: stop, which keeps its files, or remove" },
	{ "manager", "cleanup_interval", CONFIG_DURATION, "300s", 1000, 366 * DAY_MS, FIELD(cleanup_interval_ms), NULL,
	  NULL, "how often what crashed sandboxes left is looked for" },
	{ "manager", "log_size", CONFIG_SIZE, "2m", 0, 1ULL << 40, FIELD(log_bytes), NULL, NULL,
	  "bytes of output of a sandbox that berth logs remembers; 0 means none" },
	{ "policy", "deny", CONFIG_LIST,
	  "rm -rf /\nmkfs\nmkfs.*\ndd if=/dev/zero\n:(){:|:&};:\nchmod -R 777 /\nchown -R", 0, 4095, FIELD(deny),
	  policy_rule_check, NULL, "commands that exec, sh and code refuse: a guard-rail, not a boundary" },
	{ "paths", "state_dir", CONFIG_STRING, "/var/lib/berth", 2, 255, FIELD(state_dir), check_path, "BERTH_STATE_DIR",
	  "images, records and writable layers" },
	{ "paths", "run_dir", CONFIG_STRING, "/run/berth", 2, 255, FIELD(run_dir), check_path, "BERTH_RUN_DIR",
	  "what lives until the next boot: locks, sockets, ids in use" },
	{ "cgroup", "parent", CONFIG_STRING, "berth", 5, 64, FIELD(cgroup_parent), check_parent, "BERTH_CGROUP_PARENT",
	  "cgroup all sandboxes are below; begins with berth" },
	{ "ids", "base", CONFIG_U32, "1342177280", 65536, 4294836224, FIELD(id_base), NULL, NULL,
	  "first host uid and gid handed to sandboxes; a multiple of 65536" },
	{ "ids", "count", CONFIG_U32, "4096", 1, 65534, FIELD(id_count), NULL, NULL,
	  "ranges of 65536 ids from base on; one per sandbox" },
	{ "devices", "privileged", CONFIG_LIST, "", 0, 1023, FIELD(devices_privileged), check_path,
	  NULL,
	  "devices that --device may name though they may be as good as root on the host" },
	{ "devices", "cdi_dirs", CONFIG_LIST, "/etc/cdi\n/var/run/cdi", 0, 511, FIELD(cdi_dirs),
	  check_path, NULL, "where CDI specifications are; later ones come before earlier ones" },
	{ "devices", "cdi_hooks", CONFIG_STRING, "refuse", 4, 7, FIELD(cdi_hooks),
	  config_check_hooks, NULL,
	  "what becomes of a CDI device that wants hooks run: refuse it, or skip the hooks" },
	{ "volume", "max", CONFIG_COUNT, "256", 0, 65534, FIELD(volume_max), NULL, NULL,
	  "volumes that may exist" },
	{ "volume", "size", CONFIG_SIZE, "1g", 16 << 20, 1ULL << 50, FIELD(volume_bytes), NULL,
	  NULL, "of a volume that is made without a size" },
	{ "network", "bridge", CONFIG_STRING, "berth0", 2, 15, FIELD(bridge),
	  config_check_interface, NULL,
	  "bridge of --network bridge, and table of nftables; made when first asked for" },
	{ "network", "pool", CONFIG_STRING, "10.203.0.0/16", 9, 63, FIELD(network_pool),
	  config_check_range, NULL,
	  "IPv4 addresses of sandboxes with a bridge; the first is the bridge's" },
	{ "network", "pool6", CONFIG_STRING, "fd62:6572:7468::/64", 4, 63, FIELD(network_pool6),
	  config_check_range, NULL,
	  "the same of IPv6" },
	{ "network", "allow", CONFIG_STRING, "", 0, 1023, FIELD(network_allow),
	  config_check_ranges, NULL,
	  "ranges that are not public and that every sandbox with a bridge may reach, separated by commas" },
	{ "network", "forwarding", CONFIG_BOOL, "false", 0, 1, FIELD(network_forwarding), NULL, NULL,
	  "whether berth may switch the host's forwarding on for a bridge" },
	{ "network", "subnets", CONFIG_STRING, "10.204.0.0/14", 9, 63, FIELD(network_subnets),
	  config_check_range, NULL, "IPv4 addresses that berth network create takes a subnet from" },
	{ "network", "max_networks", CONFIG_COUNT, "64", 1, 256, FIELD(network_max), NULL, NULL,
	  "networks that berth network create makes" },
	{ "network", "max_members", CONFIG_COUNT, "250", 1, 1000, FIELD(network_max_members), NULL,
	  NULL, "sandboxes on one of these networks at once" },
	{ "daemon", "socket", CONFIG_STRING, "", 0, 107, FIELD(daemon_socket), check_path_or_none, NULL,
	  "unix socket of berthd, for root only; empty is berthd.sock in run_dir" },
	{ "daemon", "listen", CONFIG_STRING, "", 0, 63, FIELD(daemon_listen), NULL, NULL,
	  "address and port of berthd for clients with a token, such as 127.0.0.1:7423; empty means none" },
	{ "daemon", "token_file", CONFIG_STRING, "", 0, 255, FIELD(daemon_token_file), check_path_or_none, NULL,
	  "file of bearer tokens, of mode 600: lines of NAME TOKEN [admin]" },
	{ "daemon", "allowed_hosts", CONFIG_STRING, "", 0, 255, FIELD(daemon_allowed_hosts), NULL, NULL,
	  "host names that requests over TCP may be for, besides those of loopback; separated by spaces" },
	{ "daemon", "allowed_origins", CONFIG_STRING, "", 0, 255, FIELD(daemon_allowed_origins), NULL, NULL,
	  "origins of web pages whose requests are taken; separated by spaces" },
	{ "daemon", "max_connections", CONFIG_COUNT, "256", 4, 65536, FIELD(daemon_max_connections), NULL, NULL,
	  "connections of berthd at once, per listening socket" },
	{ "admission", "memory", CONFIG_SIZE, "0", 0, 1ULL << 60, FIELD(admit_memory_bytes), NULL, NULL,
	  "sum of the memory limits that may be handed out; 0 is not limited" },
	{ "admission", "cpus", CONFIG_CPUS, "0", 0, 4096000000, FIELD(admit_cpu_milli), NULL, NULL,
	  "sum of the CPU limits that may be handed out; 0 is not limited" },
	{ "admission", "queue", CONFIG_COUNT, "0", 0, 100000, FIELD(queue_length), NULL, NULL,
	  "requests that may wait for room; others are refused at once" },
	{ "admission", "queue_timeout", CONFIG_DURATION, "30s", 0, 3600000, FIELD(queue_timeout_ms), NULL, NULL,
	  "how long one waits" },
	{ "registry", "pull", CONFIG_STRING, "missing", 5, 15, FIELD(registry_pull), config_check_pull, NULL,
	  "when run and create fetch an image: missing, always, never" },
	{ "registry", "mirrors", CONFIG_LIST, "", 0, 1023, FIELD(registry_mirrors), NULL, NULL,
	  "registries asked first, as REGISTRY=MIRROR, such as docker.io=mirror.example:5000/prefix" },
	{ "registry", "insecure", CONFIG_LIST, "", 0, 1023, FIELD(registry_insecure), NULL, NULL,
	  "registries spoken to over plain http, as HOST:PORT" },
	{ "registry", "realms", CONFIG_LIST, "", 0, 1023, FIELD(registry_realms), NULL, NULL,
	  "token servers of another domain that may get a registry's credentials, as REGISTRY=HOST" },
	{ "registry", "ca_file", CONFIG_STRING, "", 0, 255, FIELD(registry_ca_file), check_path_or_none, NULL,
	  "PEM file of further certificate authorities" },
	{ "registry", "parallel", CONFIG_COUNT, "3", 1, 16, FIELD(registry_parallel), NULL, NULL,
	  "layers fetched or sent at once" },
	{ "registry", "upload_chunk", CONFIG_SIZE, "16m", 0, 1ULL << 40, FIELD(registry_upload_chunk), NULL, NULL,
	  "larger layers are sent in parts of this size, so that an upload goes on where it broke; 0 is in one part" },
	{ "registry", "retries", CONFIG_COUNT, "5", 0, 20, FIELD(registry_retries), NULL, NULL,
	  "how often a request that failed in passing is tried again" },
	{ "registry", "stall_timeout", CONFIG_DURATION, "30s", 1000, DAY_MS, FIELD(registry_stall_ms), NULL, NULL,
	  "a connection slower than 1 KiB/s for this long has failed" },
	{ "registry", "deadline", CONFIG_DURATION, "1h", 0, 366 * DAY_MS, FIELD(registry_deadline_ms), NULL, NULL,
	  "time a whole pull or push may take; 0 means none" },
};
const size_t config_key_count = ARRAY_LEN(config_keys);
_Static_assert(ARRAY_LEN(config_keys) <= CONFIG_KEY_MAX, "struct config has a source per key");

/* ---- one value ---- */

static void *field(struct config *c, const struct config_key *k)
{
	return (char *)c + k->offset;
}

static int set_string(struct config *c, const struct config_key *k, const char *v, const char *what, struct err *e)
{
	size_t n = strlen(v), i;

	for (i = 0; i < n; i++)
		if ((unsigned char)v[i] < 0x20 || v[i] == 0x7f)
			return err_set(e, ERR_CONFIG, "%s has a control character in it", what);
	if (n < k->min || n > k->max)
		return err_set(e, ERR_CONFIG, "%s has %zu bytes; hint: %" PRIu64 " to %" PRIu64, what, n, k->min, k->max);
	if (k->check && k->check(v, what, e) < 0)
		return -1;
	memcpy(field(c, k), v, n + 1);
	return 0;
}

static int set_number(struct config *c, const struct config_key *k, uint64_t v, const char *what, struct err *e)
{
	if ((v < k->min || v > k->max) && k->type == CONFIG_CPUS)
		return err_set(e, ERR_CONFIG, "%s is out of range; hint: %g to %g", what, (double)k->min / 1000, (double)k->max / 1000);
	if (v < k->min || v > k->max)
		return err_set(e, ERR_CONFIG, "%s is out of range; hint: %" PRIu64 " to %" PRIu64 "%s", what, k->min, k->max,
			       k->type == CONFIG_DURATION ? " ms" : k->type == CONFIG_SIZE ? " bytes" : "");
	if (k->type == CONFIG_U32)
		*(uint32_t *)field(c, k) = (uint32_t)v;
	else if (k->type == CONFIG_BOOL)
		*(int *)field(c, k) = (int)v;
	else
		*(uint64_t *)field(c, k) = v;
	return 0;
}

/* From text: a default, a variable, or a string where the file may have a number. */
static int set_text(struct config *c, const struct config_key *k, const char *v, const char *what, struct err *e)
{
	uint64_t n;
	int result;

	switch (k->type) {
	case CONFIG_STRING:
		return set_string(c, k, v, what, e);
	case CONFIG_LIST:
		memcpy(field(c, k), v, strlen(v) + 1);	/* only the table's own */
		return 0;
	case CONFIG_SIZE:
		result = num_size(v, what, k->min, k->max, &n, e);
		break;
	case CONFIG_DURATION:
		result = num_duration_ms(v, what, k->max, &n, e);
		break;
	case CONFIG_CPUS:
		result = num_milli(v, what, k->min, k->max, &n, e);
		break;
	case CONFIG_BOOL:
		n = !strcmp(v, "true");
		result = 0;
		break;
	default:
		result = num_u64(v, what, k->min, k->max, &n, e);
		break;
	}
	return result < 0 ? -1 : set_number(c, k, n, what, e);
}

static const char *wanted(enum config_type type)
{
	static const char *const names[] = {
		[CONFIG_STRING] = "a string", [CONFIG_SIZE] = "a size, such as \"512m\" or bytes",
		[CONFIG_DURATION] = "a duration, such as \"5m\" or seconds", [CONFIG_CPUS] = "a number, such as 0.5",
		[CONFIG_COUNT] = "an integer", [CONFIG_U32] = "an integer", [CONFIG_BOOL] = "true or false",
		[CONFIG_LIST] = "an array of strings",
	};

	return names[type];
}

static int wrong_type(const struct config_key *k, const char *what, struct err *e)
{
	return err_set(e, ERR_CONFIG, "%s has the wrong type; hint: %s", what, wanted(k->type));
}

static int set_list(struct config *c, const struct config_key *k, const json_t *v, const char *what, struct err *e)
{
	char *out = field(c, k);
	size_t len = 0, i, n;
	const json_t *item;

	out[0] = '\0';
	json_array_foreach(v, i, item) {
		const char *s = json_string_value(item), *p;

		if (!s)
			return wrong_type(k, what, e);
		n = strlen(s);
		for (p = s; *p; p++)
			if ((unsigned char)*p < 0x20 || *p == 0x7f)
				return err_set(e, ERR_CONFIG, "%s has a control character in it", what);
		if (len + n + 1 > k->max)
			return err_set(e, ERR_CONFIG, "%s has more than %" PRIu64 " bytes", what, k->max);
		if (k->check && k->check(s, what, e) < 0)
			return -1;
		if (len)
			out[len++] = '\n';
		memcpy(out + len, s, n + 1);
		len += n;
	}
	return 0;
}

static int set_json(struct config *c, const struct config_key *k, const json_t *v, const char *what, struct err *e)
{
	int is_number = json_is_integer(v) && k->type != CONFIG_STRING && k->type != CONFIG_BOOL && k->type != CONFIG_LIST;
	uint64_t scale = k->type == CONFIG_DURATION || k->type == CONFIG_CPUS ? 1000 : 1, n;
	double milli;

	if (json_is_string(v) && (k->type == CONFIG_STRING || k->type == CONFIG_SIZE || k->type == CONFIG_DURATION))
		return set_text(c, k, json_string_value(v), what, e);
	if (is_number) {
		if (json_integer_value(v) < 0 || __builtin_mul_overflow((uint64_t)json_integer_value(v), scale, &n))
			n = UINT64_MAX;
		return set_number(c, k, n, what, e);
	}
	if (json_is_real(v) && k->type == CONFIG_CPUS) {
		milli = json_real_value(v) * 1000;
		if (!(milli >= 0 && milli <= (double)k->max))
			return set_number(c, k, UINT64_MAX, what, e);
		n = (uint64_t)(milli + 0.5);
		if (milli - (double)n > 1e-6 || (double)n - milli > 1e-6)
			return err_set(e, ERR_CONFIG, "%s has more than three decimals", what);
		return set_number(c, k, n, what, e);
	}
	if (json_is_array(v) && k->type == CONFIG_LIST)
		return set_list(c, k, v, what, e);
	if (json_is_boolean(v) && k->type == CONFIG_BOOL)
		return set_number(c, k, json_is_true(v), what, e);
	return wrong_type(k, what, e);
}

/* ---- the file ---- */

static const struct config_key *find_key(const char *section, const char *name)
{
	size_t i;

	for (i = 0; i < config_key_count; i++)
		if ((!section || !strcmp(config_keys[i].section, section)) && !strcmp(config_keys[i].name, name))
			return &config_keys[i];
	return NULL;
}

static int unknown_section(const char *section, struct err *e)
{
	const struct config_key *elsewhere = find_key(NULL, section);
	struct suggest s = SUGGEST_INIT(section);
	size_t i;

	if (elsewhere)
		return err_set(e, ERR_CONFIG, "key %s stands outside its section; hint: put it under [%s]", section,
			       elsewhere->section);
	for (i = 0; i < config_key_count; i++)
		suggest_offer(&s, config_keys[i].section);
	err_set(e, ERR_CONFIG, "unknown section [%.64s]", section);
	return s.best ? err_hint(e, "did you mean [%s]?", s.best) :
			err_hint(e, "berth config show lists sections and keys");
}

static int unknown_key(const char *section, const char *name, struct err *e)
{
	const struct config_key *elsewhere = find_key(NULL, name);
	struct suggest s = SUGGEST_INIT(name);
	size_t i;

	err_set(e, ERR_CONFIG, "unknown key %.64s in [%s]", name, section);
	/* "memory" for memory_limit is the nearer mistake */
	for (i = 0; i < config_key_count; i++)
		if (!strcmp(config_keys[i].section, section) && !strncmp(config_keys[i].name, name, strlen(name)))
			return err_hint(e, "did you mean %s?", config_keys[i].name);
	if (elsewhere)
		return err_hint(e, "it belongs under [%s]", elsewhere->section);
	for (i = 0; i < config_key_count; i++)
		if (!strcmp(config_keys[i].section, section))
			suggest_offer(&s, config_keys[i].name);
	return s.best ? err_hint(e, "did you mean %s?", s.best) :
			err_hint(e, "berth config show lists sections and keys");
}

/* What berthd reads by itself, and berthd --check-config checks. */
static int is_service_section(const char *section)
{
	static const char *const names[] = { "docker", "pool", "session", "storage", "store",
					     "tenant" };
	size_t i = 0;

	while (i < ARRAY_LEN(names) && strcmp(names[i], section))
		i++;
	return i < ARRAY_LEN(names);
}

static int apply_section(struct config *c, const char *section, json_t *table, struct err *e)
{
	const char *name;
	json_t *v;
	size_t i;

	for (i = 0; i < config_key_count && strcmp(config_keys[i].section, section); i++)
		;
	if (i == config_key_count)
		return is_service_section(section) ? 0 : unknown_section(section, e);
	if (!json_is_object(table))
		return err_set(e, ERR_CONFIG, "%s is not a table; hint: [%s]", section, section);
	json_object_foreach(table, name, v) {
		const struct config_key *k = find_key(section, name);
		char what[80];

		if (!k)
			return unknown_key(section, name, e);
		snprintf(what, sizeof(what), "%s.%s", section, name);
		if (set_json(c, k, v, what, e) < 0)
			return -1;
		c->source[k - config_keys] = CONFIG_FROM_FILE;
	}
	return 0;
}

/* Checks that involve several keys. */
static int check_whole(const struct config *c, struct err *e)
{
	if (c->id_base % 65536)
		return err_set(e, ERR_CONFIG, "ids.base %" PRIu32 " is not a multiple of 65536", c->id_base);
	/* uid 4294967295 means "no change" to the kernel: the last range is never handed out */
	if ((uint64_t)c->id_base + (uint64_t)c->id_count * 65536 > UINT64_C(4294901760))
		return err_set(e, ERR_CONFIG, "ids.base and ids.count reach past id 4294901760");
	return 0;
}

static int config_text(struct config *c, const char *text, size_t n, const char *what, struct err *e)
{
	autojson json_t *doc = toml_parse(text, n, what, e);
	const char *section;
	json_t *table;

	if (!doc) {
		e->code = e->code == ERR_NOMEM ? ERR_NOMEM : ERR_CONFIG;
		return -1;
	}
	json_object_foreach(doc, section, table)
		if (apply_section(c, section, table, e) < 0)
			goto bad;
	if (check_whole(c, e) == 0)
		return 0;
bad:
	e->code = ERR_CONFIG;
	return err_wrap(e, "%.200s", what);
}

/*
 * This file decides which directories root uses and removes, so no other user may be able to
 * write it.
 */
static int read_file(int fd, const char *path, struct buf *b, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_code_sys(e, ERR_CONFIG, "stat %.200s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CONFIG, "%.200s is not a regular file", path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(e, ERR_CONFIG, "%.200s belongs to user %u; hint: chown root %.100s", path,
			       (unsigned)st.st_uid, path);
	if (st.st_mode & 022)
		return err_set(e, ERR_CONFIG, "%.200s may be written by others; hint: chmod go-w %.100s", path, path);
	if (io_read_all(fd, b, path, e) < 0) {
		e->code = ERR_CONFIG;
		return -1;
	}
	return 0;
}

/* label is what errors and `config show` call it. */
static int load_path(struct config *c, const char *path, const char *label, int may_be_absent, struct err *e)
{
	autobuf struct buf b = BUF_INIT(CONFIG_MAX_BYTES);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		if (may_be_absent && errno == ENOENT)
			return 0;
		return err_code_sys(e, ERR_CONFIG, "open %.200s", label);
	}
	if (read_file(fd, label, &b, e) < 0 || config_text(c, b.data ? b.data : "", b.len, label, e) < 0)
		return -1;
	snprintf(c->file, sizeof(c->file), "%s", label);
	return 0;
}

static _Thread_local const char *read_from, *read_label;

void config_read_from(const char *path, const char *label)
{
	read_from = path;
	read_label = label;
}

const char *config_source(int *ret_may_be_absent)
{
	const char *named = secure_getenv("BERTH_CONFIG");

	*ret_may_be_absent = !read_from && !named;
	return read_from ? read_from : named ? named : CONFIG_PATH;
}

int config_copy(const char *source, int may_be_absent, int dirfd, const char *name, struct err *e)
{
	autobuf struct buf b = BUF_INIT(CONFIG_MAX_BYTES);
	autoclose int fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && !(may_be_absent && errno == ENOENT))
		return err_code_sys(e, ERR_CONFIG, "open %.200s", source);
	if (fd >= 0 && read_file(fd, source, &b, e) < 0)
		return -1;
	return io_replace_file(dirfd, name, b.data ? b.data : "", b.len, 0600, 0, e);
}

static int apply_env(struct config *c, struct err *e)
{
	size_t i;

	for (i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];
		const char *v = k->env ? secure_getenv(k->env) : NULL;
		char what[64];

		if (!v)
			continue;
		snprintf(what, sizeof(what), "$%s", k->env);
		if (set_text(c, k, v, what, e) < 0) {
			e->code = ERR_CONFIG;
			return -1;
		}
		c->source[i] = CONFIG_FROM_ENV;
	}
	return 0;
}

/* ---- outwards ---- */

int config_set(void *base, const struct config_key *k, const json_t *v, const char *what, struct err *e)
{
	return set_json(base, k, v, what, e);
}

int config_set_preset(void *base, const struct config_key *k, struct err *e)
{
	return set_text(base, k, k->preset, k->name, e);
}

json_t *config_document(struct err *e)
{
	autobuf struct buf b = BUF_INIT(CONFIG_MAX_BYTES);
	int may_be_absent;
	const char *path = config_source(&may_be_absent), *label = read_label ? read_label : path;
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	json_t *doc;

	if (fd < 0 && errno == ENOENT && may_be_absent)
		return json_object();
	if (fd < 0)
		err_code_sys(e, ERR_CONFIG, "open %.200s", label);
	if (fd < 0 || read_file(fd, label, &b, e) < 0)
		return NULL;
	doc = toml_parse(b.data ? b.data : "", b.len, label, e);
	if (!doc)
		e->code = ERR_CONFIG;
	return doc;
}

void config_defaults(struct config *ret)
{
	struct err e;
	size_t i;

	memset(ret, 0, sizeof(*ret));
	for (i = 0; i < config_key_count; i++)
		if (set_text(ret, &config_keys[i], config_keys[i].preset, config_keys[i].name, &e) < 0)
			abort();	/* the table contradicts itself; a unit test loads it */
}

int config_load(struct config *ret, struct err *e)
{
	int may_be_absent;
	const char *path = config_source(&may_be_absent);

	config_defaults(ret);
	if (load_path(ret, path, read_label ? read_label : path, may_be_absent, e) < 0)
		return -1;
	return apply_env(ret, e);
}

int config_load_file(const char *path, struct config *ret, struct err *e)
{
	config_defaults(ret);
	return load_path(ret, path, path, 0, e);
}

int config_parse(const char *text, size_t n, const char *what, struct config *ret, struct err *e)
{
	config_defaults(ret);
	return config_text(ret, text, n, what, e);
}

int config_is_set(const struct config *c, const char *section, const char *name)
{
	size_t i;

	for (i = 0; i < config_key_count; i++)
		if (!strcmp(config_keys[i].section, section) && !strcmp(config_keys[i].name, name))
			return c->source[i] != CONFIG_FROM_DEFAULT;
	return 0;
}
