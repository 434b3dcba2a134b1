/* SPDX-License-Identifier: Apache-2.0 */
/* HostConfig, without its mounts and its network: rights, restart policy, log, limits, refused members. */
#include <inttypes.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "manager/engine/create.h"
#include "manager/host/config.h"

/* ---- rights, restart policy, log ---- */

static const char *const known[] = {
	"AutoRemove",
	"Binds",
	"BlkioDeviceReadBps",
	"BlkioDeviceReadIOps",
	"BlkioDeviceWriteBps",
	"BlkioDeviceWriteIOps",
	"BlkioWeight",
	"BlkioWeightDevice",
	"CapAdd",
	"CapDrop",
	"CgroupnsMode",
	"ConsoleSize",
	"ContainerIDFile",
	"CpuPeriod",
	"CpuQuota",
	"CpuShares",
	"CpusetCpus",
	"DeviceRequests",
	"Devices",
	"Dns",
	"DnsOptions",
	"DnsSearch",
	"ExtraHosts",
	"GroupAdd",
	"Init",
	"IpcMode",
	"Links",
	"LogConfig",
	"Memory",
	"MemorySwap",
	"Mounts",
	"NanoCpus",
	"NetworkMode",
	"PidMode",
	"PidsLimit",
	"PortBindings",
	"Privileged",
	"ReadonlyRootfs",
	"RestartPolicy",
	"Runtime",
	"SecurityOpt",
	"ShmSize",
	"StorageOpt",
	"Tmpfs",
	"UTSMode",
	"Ulimits",
	"UsernsMode",
	"VolumeDriver",
	"VolumesFrom",
	"MemorySwappiness",
	"MaskedPaths",
	"ReadonlyPaths",
	"Isolation",
	"PublishAllPorts",
	NULL,
};

int engine_host_fold(json_t *host, struct err *e)
{
	/* those without a meaning here, which inspect shows as they were asked */
	static const char *const shown[] = { "Annotations", "Cgroup", "CgroupParent", "CpuCount", "CpuPercent",
					     "CpuRealtimePeriod", "CpuRealtimeRuntime", "CpusetMems", "DeviceCgroupRules",
					     "IOMaximumBandwidth", "IOMaximumIOps", "KernelMemory",
					     "MemoryReservation", "OomKillDisable", "OomScoreAdj", "Sysctls", NULL };

	if (!json_is_object(host))
		return 0;
	return engine_fold(host, known, e) < 0 ? -1 : engine_fold(host, shown, e);
}

static int add_host_caps(struct engine_create *c, const json_t *host, const char *key,
		    const char *option, struct err *e)
{
	const char *cap;
	json_t *list;
	size_t i;

	if (engine_arr(host, key, &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++) {
		cap = engine_item(list, i, key, e);
		if (!cap || engine_word(c, e, "--%s=%s", option, cap) < 0)
			return -1;
	}
	return 0;
}

static int add_security(struct engine_create *c, const json_t *host, struct err *e)
{
	json_t *list;
	size_t i;

	if (engine_arr(host, "SecurityOpt", &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++) {
		const char *opt = engine_item(list, i, "SecurityOpt", e);

		if (!opt)
			return -1;
		/* no new privileges is what a sandbox has anyway; AppArmor and SELinux are the
		 * host's */
		if (!strncmp(opt, "no-new-privileges", 17) || !strncmp(opt, "label", 5) ||
		    !strncmp(opt, "apparmor", 8))
			continue;
		if (!strcmp(opt, "seccomp=unconfined") || !strcmp(opt, "seccomp:unconfined")) {
			if (engine_rules_need(c->rules, ENGINE_UNCONFINED, "seccomp=unconfined",
					      e) < 0 ||
			    engine_word(c, e, "--seccomp=unconfined") < 0)
				return -1;
		} else if (!strcmp(opt, "seccomp=builtin")) {
			continue;
		} else if (!strncmp(opt, "seccomp", 7)) {
			return err_set(e, ERR_UNSUPPORTED,
				       "a seccomp profile in a request is not taken; hint: "
				       "[sandbox] seccomp in berth.toml names one");
		} else if (engine_warn(c, e,
				       "security option %.80s has no meaning here and was ignored",
				       opt) < 0) {
			return -1;
		}
	}
	return 0;
}

int engine_create_restart(struct engine_create *c, const json_t *host, struct err *e)
{
	const char *name = "";
	json_int_t most = 0;
	json_t *policy;
	int once = 0;

	if (engine_obj(host, "RestartPolicy", &policy, e) < 0 ||
	    engine_str(policy, "Name", &name, e) < 0 ||
	    engine_int(policy, "MaximumRetryCount", &most, e) < 0)
		return -1;
	if (name[0] && strcmp(name, "no") && strcmp(name, "always") && strcmp(name, "unless-stopped") &&
	    strcmp(name, "on-failure"))
		return err_set(e, ERR_INVALID, "invalid restart policy: unknown policy '%.40s'; use one of 'no', 'always', "
			       "'on-failure', or 'unless-stopped'", name);
	if (most && strcmp(name, "on-failure"))
		return err_set(e, ERR_INVALID, "invalid restart policy: maximum retry count can only be used with 'on-failure'");
	if (most < 0)
		return err_set(e, ERR_INVALID, "invalid restart policy: maximum retry count cannot be negative");
	if (!name[0] || !strcmp(name, "no"))
		return 0;
	if (engine_flag(host, "AutoRemove", &once, e) < 0)
		return -1;
	if (once)
		return err_set(e, ERR_INVALID, "can't create 'AutoRemove' container with restart policy");
	if (most > 0 && !strcmp(name, "on-failure"))
		return engine_word(c, e, "--restart=on-failure:%" JSON_INTEGER_FORMAT, most);
	return engine_word(c, e, "--restart=%s", name);
}

/* Options of a driver that Docker knows; berth bounds each log itself. */
static int add_log(struct engine_create *c, const json_t *host, struct err *e)
{
	static const char *const opts[] = { "compress", "env", "env-regex", "labels", "labels-regex", "max-buffer-size",
					    "max-file", "max-size", "mode", "tag" };
	static const char *const elsewhere[] = { "awslogs", "etwlogs", "fluentd", "gcplogs", "gelf", "journald", "splunk", "syslog" };
	const char *type = "", *name;
	json_t *log, *config, *v;
	size_t i;

	if (engine_obj(host, "LogConfig", &log, e) < 0 || engine_str(log, "Type", &type, e) < 0 ||
	    engine_obj(log, "Config", &config, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(elsewhere); i++)
		if (!strcmp(type, elsewhere[i]))
			return err_set(e, ERR_UNSUPPORTED, "the log driver %s is not supported: berth keeps logs itself, as json-file and "
				       "local do", type);
	if (type[0] && strcmp(type, "json-file") && strcmp(type, "local") && strcmp(type, "none"))
		return err_set(e, ERR_INVALID, "error looking up logging plugin %.80s: plugin \"%.80s\" not found", type, type);
	json_object_foreach (config, name, v) {
		for (i = 0; i < ARRAY_LEN(opts) && strcmp(opts[i], name); i++)
			;
		if (i == ARRAY_LEN(opts))
			return err_set(e, ERR_INVALID, "unknown log opt '%.80s' for %s log driver", name,
				       type[0] ? type : "json-file");
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "invalid JSON: the log opt %.80s is not a string", name);
	}
	if (json_object_size(config) && engine_warn(c, e, "log options were not used: berth bounds the log of each container itself") < 0)
		return -1;
	return strcmp(type, "none") ? 0 :
	       engine_warn(c, e, "the log driver none hides the log from docker logs; berth logs shows it");
}

/* Members whose usual value says nothing, and whose other values berth has no use for. */
static int tell_unused(struct engine_create *c, const json_t *host, struct err *e)
{
	static const char *const paths[] = { "MaskedPaths", "ReadonlyPaths" };
	const char *isolation = "", *driver = "";
	json_int_t swappiness = -1;
	json_t *list;
	size_t i;

	if (engine_str(host, "Isolation", &isolation, e) < 0 || engine_str(host, "VolumeDriver", &driver, e) < 0 ||
	    engine_int(host, "MemorySwappiness", &swappiness, e) < 0)
		return -1;
	if (isolation[0] && strcmp(isolation, "default"))
		return err_set(e, ERR_INVALID, "invalid isolation '%.40s' on linux", isolation);
	if (driver[0] && strcmp(driver, "local") &&
	    engine_warn(c, e, "the volume driver %.60s is not there: volumes are local ones", driver) < 0)
		return -1;
	if (swappiness < -1 || swappiness > 100)
		return err_set(e, ERR_INVALID, "Invalid value: %" JSON_INTEGER_FORMAT ", valid memory swappiness range is 0-100",
			       swappiness);
	if (swappiness > 0 && engine_warn(c, e, "HostConfig.MemorySwappiness is not supported here and was ignored") < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(paths); i++)
		if (engine_arr(host, paths[i], &list, e) < 0 ||
		    (list && engine_warn(c, e, "HostConfig.%s was ignored: berth hides the paths of its own list", paths[i]) < 0))
			return -1;
	return 0;
}

/* There is one runtime, which goes by the names of Docker's own. */
static int check_runtime(const json_t *host, struct err *e)
{
	const char *name = "";

	if (engine_str(host, "Runtime", &name, e) < 0)
		return -1;
	return !name[0] || !strcmp(name, "runc") || !strcmp(name, "io.containerd.runc.v2") || !strcmp(name, "berth") ? 0 :
	       err_set(e, ERR_INVALID, "unknown or invalid runtime name: %.80s", name);
}

/* The namespaces that may be the host's or another's with Docker; here each container has its own. */
static const struct {
	const char *key, *what;
	const char *const *words;	/* those of Docker besides "host" and "container:ID" */
	int of_container;		/* Docker knows "container:ID" */
} namespaces[] = {
	{ "PidMode", "PID", (const char *const[]){ NULL }, 1 },
	{ "IpcMode", "IPC", (const char *const[]){ "private", "none", "shareable", NULL }, 1 },
	{ "UTSMode", "UTS", (const char *const[]){ NULL }, 0 },
	{ "UsernsMode", "user", (const char *const[]){ "private", NULL }, 0 },
	{ "CgroupnsMode", "cgroup namespace", (const char *const[]){ "private", NULL }, 0 },
};

static int check_namespace(struct engine_create *c, const json_t *host, size_t i, struct err *e)
{
	const char *mode = "", *const *word = namespaces[i].words;

	if (engine_str(host, namespaces[i].key, &mode, e) < 0)
		return -1;
	if (!strcmp(mode, "host") || (namespaces[i].of_container && !strncmp(mode, "container:", 10) && mode[10]))
		return err_set(e, ERR_DENIED, "%s %.80s is refused: a sandbox has namespaces of its own", namespaces[i].key, mode);
	while (mode[0] && *word && strcmp(*word, mode))
		word++;
	if (mode[0] && !*word)
		return err_set(e, ERR_INVALID, "invalid %s mode: %.80s", namespaces[i].what, mode);
	return !mode[0] || !strcmp(mode, "private") ? 0 :
	       engine_warn(c, e, "%s %s was ignored: a sandbox has namespaces of its own, which no other joins", namespaces[i].key, mode);
}

static int check_namespace_modes(struct engine_create *c, const json_t *host, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(namespaces); i++)
		if (check_namespace(c, host, i, e) < 0)
			return -1;
	return 0;
}

/* {"PathOnHost", "PathInContainer", "CgroupPermissions"} */
static int add_host_device(struct engine_create *c, const json_t *one, struct err *e)
{
	const char *path = "", *target = "", *access = "";
	struct stat st;

	if (engine_str(one, "PathOnHost", &path, e) < 0 ||
	    engine_str(one, "PathInContainer", &target, e) < 0 ||
	    engine_str(one, "CgroupPermissions", &access, e) < 0)
		return -1;
	if (!path[0] || strchr(path, ':') || strchr(target, ':'))
		return err_set(e, ERR_INVALID, "invalid device: '%.200s'", path);
	/* a directory below /dev stands for the devices in it */
	if (stat(path, &st) == 0 && !S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode) &&
	    !(S_ISDIR(st.st_mode) && !strncmp(path, "/dev/", 5)))
		return err_set(e, ERR_INVALID, "error gathering device information while adding custom device \"%.200s\": not a device node",
			       path);
	return engine_word(c, e, "--device=%s:%s:%s", path, target[0] ? target : path,
			   access[0] ? access : "rwm");
}

static int wants_gpu(const json_t *request)
{
	const json_t *set, *one;
	size_t i, j;

	json_array_foreach(json_object_get(request, "Capabilities"), i, set)
		json_array_foreach(set, j, one)
			if (json_is_string(one) && !strcmp(json_string_value(one), "gpu"))
				return 1;
	return 0;
}

/* {"Count", "DeviceIDs", "Capabilities": [["gpu"]]}: a number, all (-1), or some by name. */
static int add_request(struct engine_create *c, const json_t *request, struct err *e)
{
	autojson json_t *text = NULL;
	json_int_t count = 0;
	const char *id;
	json_t *ids;
	size_t i;

	if (engine_int(request, "Count", &count, e) < 0 ||
	    engine_arr(request, "DeviceIDs", &ids, e) < 0)
		return -1;
	if (!wants_gpu(request))
		return err_set(e, ERR_UNSUPPORTED,
			       "could not select device driver: only devices with the capability "
			       "gpu are known here");
	if (!json_array_size(ids))
		return count < 0 ? engine_word(c, e, "--gpus=all")
				 : engine_word(c, e, "--gpus=%" JSON_INTEGER_FORMAT, count);
	for (i = 0; i < json_array_size(ids); i++) {
		json_t *longer;

		id = engine_item(ids, i, "DeviceIDs", e);
		if (!id)
			return -1;
		longer = json_sprintf("%s%s%s", text ? json_string_value(text) : "device=",
				      text ? "," : "", id);
		json_decref(text);
		text = longer;
	}
	return text ? engine_word(c, e, "--gpus=%s", json_string_value(text)) : err_nomem(e);
}

static int add_host_devices(struct engine_create *c, const json_t *host, struct err *e)
{
	json_t *devices, *requests, *one;
	size_t i;

	if (engine_arr(host, "Devices", &devices, e) < 0 ||
	    engine_arr(host, "DeviceRequests", &requests, e) < 0)
		return -1;
	if ((json_array_size(devices) || json_array_size(requests)) &&
	    engine_rules_need(c->rules, ENGINE_DEVICES, "a device of the host", e) < 0)
		return -1;
	json_array_foreach(devices, i, one)
		if (add_host_device(c, one, e) < 0)
			return -1;
	json_array_foreach(requests, i, one)
		if (add_request(c, one, e) < 0)
			return -1;
	return 0;
}

static int add_privileged(struct engine_create *c, const json_t *host, struct err *e)
{
	int on = 0;

	if (engine_flag(host, "Privileged", &on, e) < 0 || !on)
		return on ? -1 : 0;
	if (engine_rules_need(c->rules, ENGINE_PRIVILEGED, "a privileged container", e) < 0)
		return -1;
	return engine_word(c, e, "--cap-add=ALL") < 0
		       ? -1
		       : engine_warn(c, e,
				     "privileged means every capability of the container's own "
				     "user namespace here, "
				     "and no device of the host");
}

static int add_host_flag(struct engine_create *c, const json_t *host, const char *key,
		    const char *option, struct err *e)
{
	int on = 0;

	if (engine_flag(host, key, &on, e) < 0)
		return -1;
	return on ? engine_word(c, e, "--%s", option) : 0;
}

static int check_annotations(const json_t *host, struct err *e)
{
	json_t *all, *v;
	const char *key;

	if (engine_obj(host, "Annotations", &all, e) < 0)
		return -1;
	json_object_foreach (all, key, v)
		if (!key[0])
			return err_set(e, ERR_INVALID, "invalid Annotations: the empty string is not permitted as an annotation key");
	return 0;
}

int engine_create_host(struct engine_create *c, const json_t *host, struct err *e)
{
	if (check_annotations(host, e) < 0)
		return -1;
	if (engine_note_unknown(c, host, known, "HostConfig.", e) < 0 ||
	    add_privileged(c, host, e) < 0 || add_host_caps(c, host, "CapDrop", "cap-drop", e) < 0 ||
	    add_host_caps(c, host, "CapAdd", "cap-add", e) < 0 || add_security(c, host, e) < 0 ||
	    engine_create_restart(c, host, e) < 0 || check_namespace_modes(c, host, e) < 0 ||
	    add_host_devices(c, host, e) < 0 || add_log(c, host, e) < 0 || check_runtime(host, e) < 0 || tell_unused(c, host, e) < 0 ||
	    add_host_flag(c, host, "ReadonlyRootfs", "read-only", e) < 0 ||
	    add_host_flag(c, host, "AutoRemove", "auto-remove", e) < 0)
		return -1;
	return engine_create_limits(c, host, e);
}

/* ---- limits ---- */

/*
 * The limits of HostConfig. A limit that Docker's client leaves out is that of [sandbox] in
 * berth.toml, not none: a container gets no more of the host than the operator gives each
 * sandbox.
 */

long long engine_cpu_weight(long long shares)
{
	return 1 + (shares - 2) * 9999 / (ENGINE_SHARES_MAX - 2);
}

long long engine_cpu_milli(long long quota, long long period)
{
	return quota * 1000 / (period > 0 ? period : ENGINE_CPU_PERIOD);
}

#define RESERVED_MIN (6 << 20)

static int add_memory(struct engine_create *c, const json_t *host, struct err *e)
{
	json_int_t memory = 0, swap = 0, reserved = 0;

	if (engine_int(host, "Memory", &memory, e) < 0 || engine_int(host, "MemorySwap", &swap, e) < 0 ||
	    engine_int(host, "MemoryReservation", &reserved, e) < 0)
		return -1;
	/* berth reserves nothing, which is told; what no engine could hold is refused */
	if (reserved > 0 && reserved < RESERVED_MIN)
		return err_set(e, ERR_INVALID, "Minimum memory reservation allowed is 6MB");
	if (memory > 0 && reserved > memory)
		return err_set(e, ERR_INVALID, "Minimum memory limit can not be less than memory reservation limit, see usage");
	if (memory < 0 || swap < -1)
		return err_set(e, ERR_INVALID, "Memory and MemorySwap are numbers of bytes");
	if (memory && engine_word(c, e, "--memory=%" JSON_INTEGER_FORMAT, memory) < 0)
		return -1;
	if (swap == -1)
		return engine_word(c, e, "--swap=unlimited");
	/* Docker's is the sum of both */
	if (swap && swap < memory)
		return err_set(
			e, ERR_INVALID,
			"Minimum memoryswap limit should be larger than memory limit, see usage");
	return swap ? engine_word(c, e, "--swap=%" JSON_INTEGER_FORMAT, swap - memory) : 0;
}

/* "0-2,7", as the kernel writes it. */
static int is_cpu_list(const char *text)
{
	while (isdigit((unsigned char)*text)) {
		text += strspn(text, "0123456789");
		if (*text == '-') {
			text++;
			if (!isdigit((unsigned char)*text))
				return 0;
			text += strspn(text, "0123456789");
		}
		if (!*text)
			return 1;
		if (*text++ != ',')
			return 0;
	}
	return 0;
}

/* What is wrong is told, also of those that berth does not set. */
static int check_numbers(const json_t *host, struct err *e)
{
	static const char *const sets[][2] = { { "CpusetCpus", "cpus" }, { "CpusetMems", "mems" } };
	json_int_t adj = 0;
	const char *set;
	size_t i;

	for (i = 0; i < ARRAY_LEN(sets); i++) {
		set = "";
		if (engine_str(host, sets[i][0], &set, e) < 0)
			return -1;
		if (set[0] && !is_cpu_list(set))
			return err_set(e, ERR_INVALID, "Invalid value %.80s for cpuset %s", set, sets[i][1]);
	}
	if (engine_int(host, "OomScoreAdj", &adj, e) < 0)
		return -1;
	return adj < -1000 || adj > 1000 ?
		       err_set(e, ERR_INVALID, "Invalid value %" JSON_INTEGER_FORMAT ", range for oom score adj is [-1000, 1000]", adj) : 0;
}

static int add_limit_of_cpus(struct engine_create *c, const json_t *host, struct err *e)
{
	json_int_t nano = 0, quota = 0, period = 0, shares = 0, milli;
	const char *set = "";

	if (check_numbers(host, e) < 0 || engine_int(host, "NanoCpus", &nano, e) < 0 ||
	    engine_int(host, "CpuQuota", &quota, e) < 0 ||
	    engine_int(host, "CpuPeriod", &period, e) < 0 ||
	    engine_int(host, "CpuShares", &shares, e) < 0 ||
	    engine_str(host, "CpusetCpus", &set, e) < 0)
		return -1;
	if (period && (period < 1000 || period > 1000000))
		return err_set(e, ERR_INVALID, "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)");
	if (quota > 0 && quota < 1000)
		return err_set(e, ERR_INVALID, "CPU cfs quota can not be less than 1ms (i.e. 1000)");
	if (nano < 0 || nano > INT64_C(4096000000000) || quota > INT64_C(1000000000000))
		return err_set(e, ERR_INVALID, "NanoCpus or CpuQuota is out of range");
	if (shares < 0)
		return err_set(e, ERR_INVALID, "cpu-shares: invalid argument: %" JSON_INTEGER_FORMAT, shares);
	milli = nano ? nano / 1000000 : quota > 0 ? engine_cpu_milli(quota, period) : 0;
	if ((nano || quota > 0) && milli < CPU_MILLI_MIN) {
		milli = CPU_MILLI_MIN;
		if (engine_warn(c, e, "the limit of CPU is 0.01, the least that berth gives") < 0)
			return -1;
	}
	if (milli && engine_word(c, e, "--cpus=%" JSON_INTEGER_FORMAT ".%03d", milli / 1000,
				 (int)(milli % 1000)) < 0)
		return -1;
	if (shares == 1)
		return err_set(e, ERR_INVALID, "The minimum allowed cpu-shares is 2");
	if (shares > ENGINE_SHARES_MAX)
		return err_set(e, ERR_INVALID, "The maximum allowed cpu-shares is %d", ENGINE_SHARES_MAX);
	if (shares >= 2 && engine_word(c, e, "--cpu-weight=%lld", engine_cpu_weight(shares)) < 0)
		return -1;
	return set[0] ? engine_word(c, e, "--cpuset=%s", set) : 0;
}

static int add_limit_of_pids(struct engine_create *c, const json_t *host, struct err *e)
{
	json_int_t pids = 0;

	if (engine_int(host, "PidsLimit", &pids, e) < 0)
		return -1;
	if (pids > 0 && pids < 2)
		pids = 2;
	return pids > 0	  ? engine_word(c, e, "--pids=%" JSON_INTEGER_FORMAT, pids)
	       : pids < 0 ? engine_word(c, e, "--pids=unlimited")
			  : 0;
}

static const struct {
	const char *name;
	int resource;
} limits[] = {
	{ "core", RLIMIT_CORE },
	{ "cpu", RLIMIT_CPU },
	{ "data", RLIMIT_DATA },
	{ "fsize", RLIMIT_FSIZE },
	{ "memlock", RLIMIT_MEMLOCK },
	{ "nofile", RLIMIT_NOFILE },
	{ "nproc", RLIMIT_NPROC },
	{ "rss", RLIMIT_RSS },
	{ "stack", RLIMIT_STACK },
	{ "as", RLIMIT_AS },
	{ "sigpending", RLIMIT_SIGPENDING },
	{ "msgqueue", RLIMIT_MSGQUEUE },
	{ "nice", RLIMIT_NICE },
	{ "rtprio", RLIMIT_RTPRIO },
	{ "locks", RLIMIT_LOCKS },
};

/* The host's own maximum; UINT64_MAX means no limit. */
static uint64_t most_of(const char *name)
{
	struct rlimit r;
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++)
		if (!strcmp(limits[i].name, name) && getrlimit(limits[i].resource, &r) == 0 &&
		    r.rlim_max != RLIM_INFINITY)
			return (uint64_t)r.rlim_max;
	return UINT64_MAX;
}

static int add_ulimit(struct engine_create *c, const json_t *one, struct err *e)
{
	json_int_t soft = 0, hard = 0;
	const char *name = "";
	uint64_t most, s, h;

	if (engine_str(one, "Name", &name, e) < 0 || engine_int(one, "Soft", &soft, e) < 0 ||
	    engine_int(one, "Hard", &hard, e) < 0)
		return -1;
	most = most_of(name);
	h = hard < 0 ? UINT64_MAX : (uint64_t)hard;
	s = soft < 0 ? UINT64_MAX : (uint64_t)soft;
	if (s > h)
		return err_set(e, ERR_INVALID,
			       "ulimit soft limit must be less than or equal to hard limit: "
			       "%" JSON_INTEGER_FORMAT " > %" JSON_INTEGER_FORMAT,
			       soft, hard);
	if ((h > most || s > most) &&
	    engine_warn(c, e,
			"ulimit %.20s was lowered to %" PRIu64 ", the most this host may give",
			name, most) < 0)
		return -1;
	h = h < most ? h : most;
	s = s < h ? s : h;
	if (h == UINT64_MAX && s == UINT64_MAX)
		return engine_word(c, e, "--ulimit=%s=unlimited", name);
	return h == UINT64_MAX ? engine_word(c, e, "--ulimit=%s=%" PRIu64 ":unlimited", name, s)
			       : engine_word(c, e, "--ulimit=%s=%" PRIu64 ":%" PRIu64, name, s, h);
}

static int add_ulimits(struct engine_create *c, const json_t *host, struct err *e)
{
	json_t *list;
	size_t i;

	if (engine_arr(host, "Ulimits", &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++)
		if (add_ulimit(c, json_array_get(list, i), e) < 0)
			return -1;
	return 0;
}

static int add_limits_of_sizes(struct engine_create *c, const json_t *host, struct err *e)
{
	const char *size = "";
	json_int_t shm = 0;
	json_t *storage;

	if (engine_int(host, "ShmSize", &shm, e) < 0 ||
	    engine_obj(host, "StorageOpt", &storage, e) < 0 ||
	    engine_str(storage, "size", &size, e) < 0)
		return -1;
	if (shm < 0)
		return err_set(e, ERR_INVALID, "SHM size can not be less than 0");
	if (shm &&
	    engine_word(c, e, "--shm-size=%" JSON_INTEGER_FORMAT, shm < 4096 ? 4096 : shm) < 0)
		return -1;
	return size[0] ? engine_word(c, e, "--disk=%s", size) : 0;
}

#define DEVICES_MAX 16

static const struct {
	const char *member, *key;
} rates[] = {
	{ "BlkioDeviceReadBps", "read" },
	{ "BlkioDeviceWriteBps", "write" },
	{ "BlkioDeviceReadIOps", "read-iops" },
	{ "BlkioDeviceWriteIOps", "write-iops" },
};

static int add_rate(json_t *disks, const json_t *one, const char *key, struct err *e)
{
	const char *path = "", *before;
	json_int_t rate = 0;
	json_t *text;

	if (engine_str(one, "Path", &path, e) < 0 || engine_int(one, "Rate", &rate, e) < 0)
		return -1;
	if (path[0] != '/' || rate < 0)
		return err_set(e, ERR_INVALID, "a rate of block I/O has a Path and a Rate");
	if (!rate)
		return 0;
	before = json_string_value(json_object_get(disks, path));
	text = json_sprintf("%s%s%s=%" JSON_INTEGER_FORMAT, before ? before : "",
			    before ? "," : "", key, rate);
	if (json_object_set_new(disks, path, text) < 0)
		return err_nomem(e);
	return json_object_size(disks) <= DEVICES_MAX ?
		       0 :
		       err_set(e, ERR_INVALID, "rates of more than %d devices", DEVICES_MAX);
}

/* Each disk is named once, with all its rates. */
static int add_rates(struct engine_create *c, const json_t *host, struct err *e)
{
	autojson json_t *disks = json_object();
	const char *path;
	json_t *list, *text;
	size_t i, k;

	for (k = 0; k < ARRAY_LEN(rates); k++) {
		if (engine_arr(host, rates[k].member, &list, e) < 0)
			return -1;
		for (i = 0; i < json_array_size(list); i++)
			if (add_rate(disks, json_array_get(list, i), rates[k].key, e) < 0)
				return -1;
	}
	json_object_foreach (disks, path, text)
		if (engine_word(c, e, "--io-rate=%s:%s", path, json_string_value(text)) < 0)
			return -1;
	return 0;
}

static int add_block_io(struct engine_create *c, const json_t *host, struct err *e)
{
	json_int_t weight = 0;
	json_t *each;

	if (engine_int(host, "BlkioWeight", &weight, e) < 0 ||
	    engine_arr(host, "BlkioWeightDevice", &each, e) < 0)
		return -1;
	if (weight && (weight < 10 || weight > 1000))
		return err_set(e, ERR_INVALID,
			       "Range of blkio weight is from 10 to 1000");
	if (json_array_size(each))
		return err_set(e, ERR_UNSUPPORTED,
			       "a weight of block I/O for one device is not supported; hint: "
			       "--blkio-weight is of every device");
	/* as runc counts the weights of cgroup v1 in those of v2 */
	if (weight && engine_word(c, e, "--io-weight=%" JSON_INTEGER_FORMAT,
				  1 + (weight - 10) * 9999 / 990) < 0)
		return -1;
	return add_rates(c, host, e);
}

int engine_create_limits(struct engine_create *c, const json_t *host, struct err *e)
{
	return add_block_io(c, host, e) < 0 || add_memory(c, host, e) < 0 ||
			       add_limit_of_cpus(c, host, e) < 0 || add_limit_of_pids(c, host, e) < 0 ||
			       add_ulimits(c, host, e) < 0 || add_limits_of_sizes(c, host, e) < 0
		       ? -1
		       : 0;
}

int engine_is_live(const char *word)
{
	static const char *const options[] = { "--memory=", "--cpus=", "--pids=", "--restart=",
					       "--io-weight=" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(options); i++)
		if (!strncmp(word, options[i], strlen(options[i])))
			return 1;
	return 0;
}
