/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "base/path.h"
#include "manager/host/config.h"
#include "manager/host/policy.h"

/* ---- checks of values ---- */

int config_check_hooks(const char *v, const char *what, struct err *e)
{
	return strcmp(v, "refuse") && strcmp(v, "skip") ?
	       err_set(e, ERR_CONFIG, "%s is '%.20s'; hint: \"refuse\" or \"skip\"", what, v) : 0;
}

int config_check_idle(const char *v, const char *what, struct err *e)
{
	return strcmp(v, "stop") && strcmp(v, "remove") ?
	       err_set(e, ERR_CONFIG, "%s is '%.20s'; hint: \"stop\" or \"remove\"", what, v) : 0;
}

int config_check_checkpoint(const char *v, const char *what, struct err *e)
{
	return strcmp(v, "never") && strcmp(v, "command") ?
	       err_set(e, ERR_CONFIG, "%s is '%.20s'; hint: \"never\" or \"command\"", what, v) : 0;
}

int config_check_interface(const char *v, const char *what, struct err *e)
{
	size_t n = strspn(v, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	if (v[n] || v[0] < 'a' || v[0] > 'z')
		return err_set(e, ERR_CONFIG, "%s '%.20s' is not a name for an interface; "
			       "hint: a-z 0-9 _ -, such as berth0", what, v);
	return 0;
}

int config_check_range(const char *v, const char *what, struct err *e)
{
	struct netcidr c;

	if (netcidr_parse(v, &c, e) < 0)
		return err_wrap(e, "%s", what);
	return 0;
}

int config_check_ranges(const char *v, const char *what, struct err *e)
{
	char text[1024], *word, *save = NULL;

	snprintf(text, sizeof(text), "%s", v);
	for (word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save))
		if (config_check_range(word, what, e) < 0)
			return -1;
	return 0;
}

/* ---- the table ---- */

/* The table of configuration keys, with the checks of those values whose grammar is their own. */

static int check_absolute_path(const char *v, const char *what, struct err *e)
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
	return v[0] ? check_absolute_path(v, what, e) : 0;
}

static int check_config_hostname(const char *v, const char *what, struct err *e)
{
	size_t n = strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");

	if (v[n] || v[0] == '-' || v[0] == '.')
		return err_set(e, ERR_CONFIG, "%s '%.64s' is not a host name; hint: letters, digits, . _ and -", what, v);
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

#define FIELD(f) offsetof(struct config, f), sizeof(((struct config *)0)->f)
#define DAY_MS UINT64_C(86400000)

const struct config_key config_keys[] = {
	{ "sandbox", "image", CONFIG_STRING, "host", 1, 255, FIELD(image), NULL, NULL,
	  "image used where none is named" },
	{ "sandbox", "work_dir", CONFIG_STRING, "/workspace", 2, 4095, FIELD(work_dir), check_absolute_path, NULL,
	  "working directory in the sandbox where the image names none; made at create" },
	{ "sandbox", "memory_limit", CONFIG_SIZE, "512m", 512 << 10, 1ULL << 60, FIELD(memory_bytes), NULL, NULL,
	  "memory of a sandbox" },
	{ "sandbox", "swap_limit", CONFIG_SIZE, "0", 0, 1ULL << 60, FIELD(swap_bytes), NULL, NULL,
	  "swap of a sandbox, on top of its memory" },
	{ "sandbox", "cpu_limit", CONFIG_CPUS, "1.0", CPU_MILLI_MIN, 4096000, FIELD(cpu_milli), NULL, NULL,
	  "CPUs a sandbox may use at once" },
	{ "sandbox", "pids_limit", CONFIG_COUNT, "512", 2, 4194304, FIELD(pids), NULL, NULL,
	  "processes and threads of a sandbox" },
	{ "sandbox", "disk_limit", CONFIG_SIZE, "256m", 1 << 20, 1ULL << 50, FIELD(disk_bytes), NULL, NULL,
	  "bytes of the writable layer" },
	{ "sandbox", "disk_inodes", CONFIG_COUNT, "65536", 64, 1ULL << 31, FIELD(disk_inodes), NULL, NULL,
	  "files and directories of the writable layer" },
	{ "sandbox", "tmp_size", CONFIG_SIZE, "0", 0, 1ULL << 50, FIELD(tmp_bytes), NULL, NULL,
	  "bytes of a /tmp in memory; 0 has /tmp on the writable layer" },
	{ "sandbox", "timeout", CONFIG_DURATION, "300s", 0, 366 * DAY_MS, FIELD(timeout_ms), NULL, NULL,
	  "time limit of a command in exec (only if set), sh and code, not of berth run; 0 means none" },
	{ "sandbox", "max_silent_time", CONFIG_DURATION, "0", 0, 366 * DAY_MS, FIELD(max_silent_ms),
	  NULL, NULL,
	  "time without output after which a command in exec, sh and code is ended; 0 means none" },
	{ "sandbox", "grace", CONFIG_DURATION, "2s", 0, DAY_MS, FIELD(grace_ms), NULL, NULL,
	  "time between SIGTERM and SIGKILL when a limit ends a command" },
	{ "sandbox", "network_enabled", CONFIG_BOOL, "false", 0, 1, FIELD(network_enabled), NULL, NULL,
	  "whether a sandbox gets a network besides its own loopback" },
	{ "sandbox", "seccomp", CONFIG_STRING, "standard", 1, 63, FIELD(seccomp), NULL, NULL,
	  "seccomp profile: strict, standard, dev, unconfined, or the path of a JSON file" },
	{ "sandbox", "hostname", CONFIG_STRING, "sandbox", 1, 64, FIELD(hostname), check_config_hostname, NULL,
	  "host name in the sandbox" },
	{ "sandbox", "user", CONFIG_STRING, "", 0, 127, FIELD(user), NULL, NULL,
	  "user or user:group the command runs as where the image names none; empty is root of the sandbox" },
	{ "sandbox", "checkpoint", CONFIG_STRING, "never", 5, 7, FIELD(checkpoint),
	  config_check_checkpoint, NULL, "when checkpoints are made by themselves: never, or command" },
	{ "sandbox", "checkpoint_keep", CONFIG_COUNT, "16", 1, 256, FIELD(checkpoint_keep), NULL, NULL,
	  "checkpoints that a sandbox keeps; the oldest go" },
	{ "sandbox", "checkpoint_size", CONFIG_SIZE, "8g", 1 << 20, 1ULL << 50,
	  FIELD(checkpoint_bytes), NULL, NULL,
	  "bytes of all checkpoints of a sandbox; the oldest go" },
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
	{ "manager", "checkpoints_size", CONFIG_SIZE, "64g", 1 << 20, 1ULL << 50,
	  FIELD(host_checkpoint_bytes), NULL, NULL,
	  "bytes of the checkpoints of all sandboxes; another one is refused" },
	{ "policy", "deny", CONFIG_LIST,
	  "rm -rf /\nmkfs\nmkfs.*\ndd if=/dev/zero\n:(){:|:&};:\nchmod -R 777 /\n"
	  "chown -R /\nchown -R /bin\nchown -R /boot\nchown -R /dev\nchown -R /etc\nchown -R /lib\n"
	  "chown -R /proc\nchown -R /sbin\nchown -R /sys\nchown -R /usr\nchown -R /var", 0, 4095, FIELD(deny),
	  policy_rule_check, NULL, "commands that exec, sh and code refuse: a guard-rail, not a boundary" },
	{ "paths", "state_dir", CONFIG_STRING, "/var/lib/berth", 2, 255, FIELD(state_dir), check_absolute_path, "BERTH_STATE_DIR",
	  "images, records and writable layers" },
	{ "paths", "run_dir", CONFIG_STRING, "/run/berth", 2, 255, FIELD(run_dir), check_absolute_path, "BERTH_RUN_DIR",
	  "what lives until the next boot: locks, sockets, ids in use" },
	{ "paths", "ids_dir", CONFIG_STRING, "/var/lib/berth-ids", 2, 255, FIELD(ids_dir), check_absolute_path, "BERTH_IDS_DIR",
	  "which host ids are in use; one for all state directories of the host" },
	{ "cgroup", "parent", CONFIG_STRING, "berth", 5, 64, FIELD(cgroup_parent), check_parent, "BERTH_CGROUP_PARENT",
	  "cgroup all sandboxes are below; begins with berth" },
	/*
	 * above the ids that systemd, useradd, SSSD and OpenShift assign, up to systemd's ids for
	 * foreign images
	 */
	{ "ids", "base", CONFIG_U32, "2000224256", 65536, 4294836224, FIELD(id_base), NULL, NULL,
	  "first host uid and gid handed to sandboxes; a multiple of 65536" },
	{ "ids", "count", CONFIG_U32, "2245", 1, 65534, FIELD(id_count), NULL, NULL,
	  "ranges of 65536 ids from base on; one per sandbox" },
	{ "devices", "privileged", CONFIG_LIST, "", 0, 1023, FIELD(devices_privileged), check_absolute_path,
	  NULL,
	  "devices that --device may name though they may be as good as root on the host" },
	{ "devices", "cdi_dirs", CONFIG_LIST, "/etc/cdi\n/var/run/cdi", 0, 511, FIELD(cdi_dirs),
	  check_absolute_path, NULL, "where CDI specifications are; later ones come before earlier ones" },
	{ "devices", "cdi_hooks", CONFIG_STRING, "refuse", 4, 7, FIELD(cdi_hooks),
	  config_check_hooks, NULL,
	  "what becomes of a CDI device that wants hooks run: refuse it, or skip the hooks" },
	{ "build", "disk", CONFIG_SIZE, "10g", 64 << 20, 1ULL << 50, FIELD(build_disk_bytes), NULL,
	  NULL, "most that a build may write, its base images included" },
	{ "build", "cache", CONFIG_SIZE, "8g", 0, 1ULL << 50, FIELD(build_cache_bytes), NULL,
	  NULL, "most that base images and steps keep on the disk after a build, for later builds; 0 keeps none" },
	{ "build", "memory_max", CONFIG_SIZE, "2g", 64 << 20, 1ULL << 50, FIELD(build_memory_bytes), NULL,
	  NULL, "memory of a build, its RUN steps included" },
	{ "build", "time_limit", CONFIG_DURATION, "1h", 1000, 366 * DAY_MS, FIELD(build_timeout_ms),
	  NULL, NULL, "a build that takes longer is ended" },
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
	{ "ui", "enabled", CONFIG_BOOL, "false", 0, 1, FIELD(ui_enabled), NULL, NULL,
	  "whether berthd serves its page at /ui" },
	{ "ui", "session_time", CONFIG_DURATION, "28800s", 1000, 30 * DAY_MS, FIELD(ui_session_ms), NULL, NULL,
	  "how long somebody stays signed in to the page" },
	{ "ui", "link_time", CONFIG_DURATION, "120s", 1000, 3600000, FIELD(ui_link_ms), NULL, NULL,
	  "how long a link of berth ui may be used, once" },
	{ "admission", "memory", CONFIG_SIZE, "0", 0, 1ULL << 60, FIELD(admit_memory_bytes), NULL, NULL,
	  "sum of the memory limits that may be handed out; 0 is not limited" },
	{ "admission", "cpus", CONFIG_CPUS, "0", 0, 4096000000, FIELD(admit_cpu_milli), NULL, NULL,
	  "sum of the CPU limits that may be handed out; 0 is not limited" },
	{ "admission", "disk_overcommit", CONFIG_CPUS, "100", 0, 1000000000, FIELD(disk_overcommit_milli), NULL, NULL,
	  "what layers may still write, in times what the file system of state_dir has free; 0 is not limited" },
	{ "admission", "disk_reserve", CONFIG_SIZE, "256m", 0, 1ULL << 50, FIELD(disk_reserve_bytes), NULL, NULL,
	  "what layers leave free of the host's disk, at most a twentieth of it; 0 lets them fill it" },
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
