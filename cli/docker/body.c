/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of docker run and create as the body of POST /containers/create. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/docker/verbs.h"
#include "manager/ops/optvalues.h"

/* ---- the body ---- */

#define DAY_MS 86400000

enum shape { TEXT, LIST, NUMBER, BYTES, ON, MAP };

/* Those that stand in the body as they were given. */
static const struct {
	const char *flag;
	int in_host; /* HostConfig, else the body itself */
	const char *member;
	enum shape shape;
} plain_flags[] = {
	{ "add-host", 1, "ExtraHosts", LIST },
	{ "blkio-weight", 1, "BlkioWeight", NUMBER },
	{ "cap-add", 1, "CapAdd", LIST },
	{ "cap-drop", 1, "CapDrop", LIST },
	{ "cgroupns", 1, "CgroupnsMode", TEXT },
	{ "cpu-period", 1, "CpuPeriod", NUMBER },
	{ "cpu-quota", 1, "CpuQuota", NUMBER },
	{ "cpu-shares", 1, "CpuShares", NUMBER },
	{ "cpuset-cpus", 1, "CpusetCpus", TEXT },
	{ "dns", 1, "Dns", LIST },
	{ "dns-opt", 1, "DnsOptions", LIST },
	{ "dns-option", 1, "DnsOptions", LIST },
	{ "dns-search", 1, "DnsSearch", LIST },
	{ "domainname", 0, "Domainname", TEXT },
	{ "group-add", 1, "GroupAdd", LIST },
	{ "hostname", 0, "Hostname", TEXT },
	{ "mac-address", 0, "MacAddress", TEXT },
	{ "init", 1, "Init", ON },
	{ "link", 1, "Links", LIST },
	{ "ipc", 1, "IpcMode", TEXT },
	{ "memory", 1, "Memory", BYTES },
	{ "memory-reservation", 1, "MemoryReservation", BYTES },
	{ "memory-swap", 1, "MemorySwap", BYTES },
	{ "memory-swappiness", 1, "MemorySwappiness", NUMBER },
	{ "oom-score-adj", 1, "OomScoreAdj", NUMBER },
	{ "pid", 1, "PidMode", TEXT },
	{ "pids-limit", 1, "PidsLimit", NUMBER },
	{ "privileged", 1, "Privileged", ON },
	{ "publish-all", 1, "PublishAllPorts", ON },
	{ "read-only", 1, "ReadonlyRootfs", ON },
	{ "rm", 1, "AutoRemove", ON },
	{ "security-opt", 1, "SecurityOpt", LIST },
	{ "shm-size", 1, "ShmSize", BYTES },
	{ "stop-signal", 0, "StopSignal", TEXT },
	{ "stop-timeout", 0, "StopTimeout", NUMBER },
	{ "storage-opt", 1, "StorageOpt", MAP },
	{ "sysctl", 1, "Sysctls", MAP },
	{ "tty", 0, "Tty", ON },
	{ "user", 0, "User", TEXT },
	{ "userns", 1, "UsernsMode", TEXT },
	{ "uts", 1, "UTSMode", TEXT },
	{ "volumes-from", 1, "VolumesFrom", LIST },
	{ "workdir", 0, "WorkingDir", TEXT },
};

/* ---- plain ones ------------------------------------------------------------------------------ */

static int flag_number(const char *text, const char *flag, json_int_t *ret, struct err *e)
{
	char *end;

	errno = 0;
	*ret = strtoll(text, &end, 10);
	if (!errno && end != text && !*end)
		return 0;
	return err_set(e, ERR_INVALID, "invalid argument \"%.60s\" for \"--%s\" flag: not a number",
		       text, flag);
}

/* "KEY=VALUE" each. */
json_t *door_map(const json_t *list)
{
	json_t *map = json_object();
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *text = json_string_value(one), *eq = strchr(text, '=');
		autofree char *key = strndup(text, eq ? (size_t)(eq - text) : strlen(text));

		json_object_set_new(map, key ? key : "", json_string(eq ? eq + 1 : ""));
	}
	return map;
}

static int add_body_plain_flag(const struct door_args *a, size_t i, json_t *to, struct err *e)
{
	const char *flag = plain_flags[i].flag, *text = door_value(a, flag);
	json_int_t n;
	json_t *v = NULL;

	switch (plain_flags[i].shape) {
	case TEXT:
		v = text ? json_string(text) : NULL;
		break;
	case LIST:
		v = door_list(a, flag) ? json_deep_copy(door_list(a, flag)) : NULL;
		/* another spelling of the flag may have been given, too */
		if (v)
			json_array_extend(v, json_object_get(to, plain_flags[i].member));
		break;
	case MAP:
		v = door_list(a, flag) ? door_map(door_list(a, flag)) : NULL;
		break;
	case ON:
		v = door_on(a, flag) ? json_true() : NULL;
		break;
	case NUMBER:
		if (text && flag_number(text, flag, &n, e) < 0)
			return -1;
		v = text ? json_integer(n) : NULL;
		break;
	case BYTES:
		n = text ? door_bytes(text, flag, e) : 0;
		if (n == -1)
			return -1;
		v = text ? json_integer(n == -2 ? -1 : n) : NULL;
		break;
	}
	return v ? json_object_set_new(to, plain_flags[i].member, v) : 0;
}

/* ---- environment and labels ------------------------------------------------------------------ */

static int add_body_env_line(void *list, const char *line, struct err *e)
{
	const char *value;

	while (isspace((unsigned char)*line))
		line++;
	if (strchr(line, '='))
		return json_array_append_new(list, json_string(line)) < 0 ?
			       err_set(e, ERR_INVALID, "a variable is not valid UTF-8") :
			       0;
	/* a name alone takes the caller's variable, if it exists */
	value = getenv(line);
	if (!value)
		return 0;
	return json_array_append_new(list, json_sprintf("%s=%s", line, value)) < 0 ?
		       err_set(e, ERR_INVALID, "the variable %.80s is not valid UTF-8", line) :
		       0;
}

static int each_file(const struct door_args *a, const char *flag, envopts_line *add, json_t *to,
		     struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)door_list(a, flag), i, one)
		if (envopts_lines(json_string_value(one), add, to, e) < 0)
			return -1;
	return 0;
}

int door_env(const struct door_args *a, json_t *list, struct err *e)
{
	const json_t *one;
	size_t i;

	if (each_file(a, "env-file", add_body_env_line, list, e) < 0)
		return -1;
	json_array_foreach ((json_t *)(size_t)door_list(a, "env"), i, one) {
		const char *text = json_string_value(one);

		if (!text[0] || text[0] == '=')
			return err_set(e, ERR_INVALID, "invalid environment variable: %.80s", text);
		if (add_body_env_line(list, text, e) < 0)
			return -1;
	}
	return 0;
}

static int add_body_label_line(void *labels, const char *line, struct err *e)
{
	autojson json_t *one = json_pack("[s]", line), *map = one ? door_map(one) : NULL;

	return map && json_object_update(labels, map) == 0 ?
		       0 :
		       err_set(e, ERR_INVALID, "a label is not valid UTF-8");
}

static int add_body_labels(const struct door_args *a, json_t *body, struct err *e)
{
	autojson json_t *own = door_map(door_list(a, "label"));
	json_t *labels = json_object();

	json_object_set_new(body, "Labels", labels);
	return each_file(a, "label-file", add_body_label_line, labels, e) < 0 ?
		       -1 :
		       json_object_update(labels, own);
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* One list of several flags, an item each. */
static int add_items(const struct door_args *a, const char *flag, json_t *host, const char *member,
		     json_t *(*item)(const char *, struct err *), struct err *e)
{
	const json_t *one;
	json_t *list = json_array(), *v;
	size_t i;

	json_object_set_new(host, member, list);
	json_array_foreach ((json_t *)(size_t)door_list(a, flag), i, one) {
		v = item(json_string_value(one), e);
		if (!v)
			return -1;
		json_array_append_new(list, v);
	}
	return 0;
}

static json_t *ulimit_of(const char *text, struct err *e)
{
	const char *eq = strchr(text, '='), *colon = eq ? strchr(eq, ':') : NULL;
	json_int_t soft, hard;
	char number[40];
	json_t *j = NULL;

	snprintf(number, sizeof(number), "%.*s", eq ? (int)strcspn(eq + 1, ":") : 0,
		 eq ? eq + 1 : "");
	if (eq && flag_number(number, "ulimit", &soft, e) == 0 &&
	    flag_number(colon ? colon + 1 : number, "ulimit", &hard, e) == 0)
		j = json_pack("{s:s#,s:I,s:I}", "Name", text, (int)(eq - text), "Soft", soft,
			      "Hard", hard);
	if (!j)
		err_set(e, ERR_INVALID,
			"invalid argument \"%.80s\" for \"--ulimit\" flag: invalid "
			"ulimit argument: %.80s",
			text, text);
	return j;
}

static int add_device_rates(const struct door_args *a, json_t *host, struct err *e)
{
	static const struct {
		const char *flag, *member;
		json_t *(*item)(const char *text, struct err *e);
	} rates[] = {
		{ "device-read-bps", "BlkioDeviceReadBps", door_rate_bytes },
		{ "device-write-bps", "BlkioDeviceWriteBps", door_rate_bytes },
		{ "device-read-iops", "BlkioDeviceReadIOps", door_rate_operations },
		{ "device-write-iops", "BlkioDeviceWriteIOps", door_rate_operations },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rates); i++)
		if (door_list(a, rates[i].flag) &&
		    add_items(a, rates[i].flag, host, rates[i].member, rates[i].item, e) < 0)
			return -1;
	return 0;
}

/* A volume that was given twice is one. */
static void drop_twins(json_t *list)
{
	size_t i, k;

	for (i = 0; i < json_array_size(list); i++)
		for (k = json_array_size(list) - 1; k > i; k--)
			if (json_equal(json_array_get(list, i), json_array_get(list, k)))
				json_array_remove(list, k);
}

static int add_body_mounts(const struct door_args *a, json_t *host, struct err *e)
{
	json_t *tmpfs = json_object();
	const json_t *one;
	size_t i;

	json_object_set_new(host, "Tmpfs", tmpfs);
	json_array_foreach ((json_t *)(size_t)door_list(a, "tmpfs"), i, one) {
		const char *text = json_string_value(one), *colon = strchr(text, ':');
		autofree char *target = strndup(text, colon ? (size_t)(colon - text) : 4096);

		json_object_set_new(tmpfs, target ? target : "",
				    json_string(colon ? colon + 1 : ""));
	}
	if (add_items(a, "volume", host, "Binds", door_bind, e) < 0)
		return -1;
	drop_twins(json_object_get(host, "Binds"));
	return add_items(a, "mount", host, "Mounts", door_mount, e);
}

/* The driver and its options, which the engine judges. */
static void add_body_log(const struct door_args *a, json_t *host)
{
	const char *driver = door_value(a, "log-driver");

	if (driver || door_list(a, "log-opt"))
		json_object_set_new(host, "LogConfig", json_pack("{s:s,s:o}", "Type", driver ? driver : "", "Config",
								 door_map(door_list(a, "log-opt"))));
}

static int add_body_ports(const struct door_args *a, json_t *body, json_t *host, struct err *e)
{
	json_t *bindings = json_object(), *exposed = json_object();
	const json_t *one;
	size_t i;

	e->code = ERR_NONE;
	json_object_set_new(host, "PortBindings", bindings);
	json_object_set_new(body, "ExposedPorts", exposed);
	json_array_foreach ((json_t *)(size_t)door_list(a, "publish"), i, one)
		if (door_publish(bindings, exposed, json_string_value(one), e) < 0)
			return err_wrap(e, "invalid argument \"%.80s\" for \"--publish\" flag",
					json_string_value(one));
	json_array_foreach ((json_t *)(size_t)door_list(a, "expose"), i, one)
		if (door_expose(exposed, json_string_value(one), e) < 0)
			return -1;
	return 0;
}

/* --network-alias is of the first network, as docker has it. */
static int add_body_network(const struct door_args *a, json_t *body, json_t *host, struct err *e)
{
	const json_t *nets = door_list(a, "network"), *aliases = door_list(a, "network-alias"), *one;
	json_t *ends = json_object();
	size_t i;

	nets = nets ? nets : door_list(a, "net");
	aliases = aliases ? aliases : door_list(a, "net-alias");
	json_array_foreach ((json_t *)(size_t)nets, i, one) {
		const char *name = json_string_value(one);
		json_t *end = json_object();

		if (strchr(name, '='))
			err_set(e, ERR_UNSUPPORTED, "--network takes a name and no options");
		else if (json_object_get(ends, name))
			err_set(e, ERR_INVALID, "network \"%.100s\" is specified multiple times",
				name);
		else {
			if (!i)
				json_object_set_new(host, "NetworkMode", json_string(name));
			if (!i && aliases)
				json_object_set(end, "Aliases", (json_t *)(size_t)aliases);
			json_object_set_new(ends, name, end);
			continue;
		}
		json_decref(end);
		json_decref(ends);
		return -1;
	}
	if (door_value(a, "ip") || door_value(a, "ip6")) {
		if (!nets)
			json_object_set_new(ends, "bridge", json_object());
		json_object_set_new(json_object_get(ends, nets ? json_string_value(json_array_get(nets, 0)) : "bridge"), "IPAMConfig",
				    json_pack("{s:s*,s:s*}", "IPv4Address", door_value(a, "ip"), "IPv6Address", door_value(a, "ip6")));
	}
	if (aliases || json_object_size(ends) > 1 || door_value(a, "ip") || door_value(a, "ip6"))
		json_object_set_new(body, "NetworkingConfig",
				    json_pack("{s:O}", "EndpointsConfig", ends));
	json_decref(ends);
	return 0;
}

static int add_restart(const struct door_args *a, json_t *host, struct err *e)
{
	const char *text = door_value(a, "restart"), *colon = text ? strchr(text, ':') : NULL;
	json_int_t most = 0;

	if (!text)
		return 0;
	if (colon && flag_number(colon + 1, "restart", &most, e) < 0)
		return -1;
	if (most && strncmp(text, "on-failure:", 11))
		return err_set(e, ERR_INVALID,
			       "maximum retry count cannot be used with restart "
			       "policy '%.*s'",
			       (int)(colon - text), text);
	json_object_set_new(
		host, "RestartPolicy",
		json_pack("{s:o,s:I}", "Name",
			  colon ? json_stringn(text, (size_t)(colon - text)) : json_string(text),
			  "MaximumRetryCount", most));
	return 0;
}

static int add_body_duration(const struct door_args *a, const char *flag, json_t *health,
			const char *member, struct err *e)
{
	const char *text = door_value(a, flag);
	uint64_t ms;

	if (!text)
		return 0;
	if (num_duration_ms(text, flag, DAY_MS, &ms, e) < 0)
		return -1;
	return json_object_set_new(health, member, json_integer((json_int_t)ms * 1000000));
}

static int add_body_health(const struct door_args *a, json_t *body, struct err *e)
{
	const char *cmd = door_value(a, "health-cmd"), *retries = door_value(a, "health-retries");
	json_t *health = json_object();
	json_int_t n = 0;

	json_object_set_new(body, "Healthcheck", health);
	if (door_on(a, "no-healthcheck"))
		return json_object_set_new(health, "Test", json_pack("[s]", "NONE"));
	if (cmd)
		json_object_set_new(health, "Test", json_pack("[s,s]", "CMD-SHELL", cmd));
	if (add_body_duration(a, "health-interval", health, "Interval", e) < 0 ||
	    add_body_duration(a, "health-timeout", health, "Timeout", e) < 0 ||
	    add_body_duration(a, "health-start-period", health, "StartPeriod", e) < 0 ||
	    add_body_duration(a, "health-start-interval", health, "StartInterval", e) < 0 ||
	    (retries && flag_number(retries, "health-retries", &n, e) < 0))
		return -1;
	if (retries)
		json_object_set_new(health, "Retries", json_integer(n));
	if (!json_object_size(health))
		json_object_del(body, "Healthcheck");
	return 0;
}

static int add_body_cpus(const struct door_args *a, json_t *host, struct err *e)
{
	const char *text = door_value(a, "cpus"), *gpus = door_value(a, "gpus");
	uint64_t milli;
	json_t *one;

	if (text && num_milli(text, "cpus", 1, 4096000, &milli, e) < 0)
		return -1;
	if (text)
		json_object_set_new(host, "NanoCpus", json_integer((json_int_t)milli * 1000000));
	one = gpus ? door_gpus(gpus, e) : NULL;
	if (gpus && !one)
		return -1;
	if (one)
		json_object_set_new(host, "DeviceRequests", json_pack("[o]", one));
	return 0;
}

static int add_body_command(const struct door_args *a, json_t *body, struct err *e)
{
	const char *entry = door_value(a, "entrypoint");
	json_t *cmd = json_array();
	int i;

	json_object_set_new(body, "Image", json_string(a->words[0]));
	json_object_set_new(body, "Cmd", cmd);
	for (i = 1; i < a->count; i++)
		if (json_array_append_new(cmd, json_string(a->words[i])) < 0)
			return err_set(e, ERR_INVALID, "the command is not valid UTF-8");
	if (i == 1)
		json_object_del(body, "Cmd");
	if (entry)
		json_object_set_new(body, "Entrypoint", json_pack("[s]", entry));
	return 0;
}

static int fill_create_body(const struct door_args *a, json_t *body, json_t *host, struct err *e)
{
	/* lists that Docker's client sends empty too, which templates of inspect see */
	static const char *const lists[] = { "Dns", "DnsOptions", "DnsSearch" };
	json_t *env = json_array();
	size_t i;

	json_object_set_new(body, "Env", env);
	for (i = 0; i < ARRAY_LEN(lists); i++)
		json_object_set_new(host, lists[i], json_array());
	for (i = 0; i < ARRAY_LEN(plain_flags); i++)
		if (add_body_plain_flag(a, i, plain_flags[i].in_host ? host : body, e) < 0)
			return -1;
	if (door_on(a, "interactive")) {
		json_object_set_new(body, "OpenStdin", json_true());
		json_object_set_new(body, "StdinOnce", json_boolean(!door_on(a, "detach")));
	}
	add_body_log(a, host);
	return door_env(a, env, e) < 0 || add_body_labels(a, body, e) < 0 ||
			       add_items(a, "ulimit", host, "Ulimits", ulimit_of, e) < 0 ||
			       add_items(a, "device", host, "Devices", door_device, e) < 0 ||
			       add_device_rates(a, host, e) < 0 ||
			       add_body_mounts(a, host, e) < 0 || add_body_ports(a, body, host, e) < 0 ||
			       add_body_network(a, body, host, e) < 0 || add_restart(a, host, e) < 0 ||
			       add_body_health(a, body, e) < 0 || add_body_cpus(a, host, e) < 0 ||
			       add_body_command(a, body, e) < 0 ?
		       -1 :
		       0;
}

json_t *door_body(const struct door_args *a, struct err *e)
{
	json_t *body = json_object(), *host = json_object();
	const char *restart = door_value(a, "restart");

	json_object_set_new(body, "HostConfig", host);
	if (fill_create_body(a, body, host, e) == 0) {
		if (!door_on(a, "rm") || !restart || !restart[0] || !strcmp(restart, "no"))
			return body;
		err_set(e, ERR_INVALID,
			"conflicting options: cannot specify both --restart and "
			"--rm");
	}
	json_decref(body);
	return NULL;
}

json_t *door_update_body(const struct door_args *a, struct err *e)
{
	json_t *host = json_object();
	size_t i;
	int r = 0;

	for (i = 0; i < ARRAY_LEN(plain_flags) && r == 0; i++)
		if (plain_flags[i].in_host)
			r = add_body_plain_flag(a, i, host, e);
	if (r == 0 && add_restart(a, host, e) == 0 && add_body_cpus(a, host, e) == 0)
		return host;
	json_decref(host);
	return NULL;
}

/* ---- values of flags ---- */

/* What docker's client makes of --publish, --expose, --mount, --volume, --gpus and sizes.  Pure. */

#define SIZE_MOST (1ULL << 60)
#define RANGE_MOST 4096 /* ports of one --publish */

int64_t door_bytes(const char *text, const char *flag, struct err *e)
{
	uint64_t v;
	char plain[40];
	size_t n = strlen(text);

	if (!strcmp(text, "-1"))
		return -2;
	/* "512MB", "512mb", "512MiB", "512b" */
	if (n && n < sizeof(plain) && (text[n - 1] == 'b' || text[n - 1] == 'B')) {
		n -= n > 2 && tolower((unsigned char)text[n - 2]) == 'i' ? 2 : 1;
		snprintf(plain, sizeof(plain), "%.*s", (int)n, text);
		text = plain;
	}
	if (num_size(text, flag, 0, SIZE_MOST, &v, e) < 0)
		return -1;
	return (int64_t)v;
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* "80", "80-90": 1 with both; 0 for "".  least: 0 where that means any. */
static int parse_publish_range(const char *s, size_t n, uint64_t least, uint64_t ret[2], struct err *e)
{
	char text[40];
	char *dash;

	snprintf(text, sizeof(text), "%.*s", (int)(n < 39 ? n : 39), s);
	if (!n)
		return 0;
	dash = strchr(text, '-');
	if (dash)
		*dash++ = '\0';
	if (num_u64(text, "port", dash ? 1 : least, 65535, &ret[0], e) < 0 ||
	    num_u64(dash ? dash : text, "port", dash ? 1 : least, 65535, &ret[1], e) < 0)
		return -1;
	if (ret[1] < ret[0] || ret[1] - ret[0] >= RANGE_MOST)
		return err_set(e, ERR_INVALID, "invalid port range: %s", text);
	return 1;
}

static void add_binding(json_t *bindings, json_t *exposed, const char *what, const char *ip,
			const char *port)
{
	json_t *list = json_object_get(bindings, what);

	json_object_set_new(exposed, what, json_object());
	if (!list) {
		list = json_array();
		json_object_set_new(bindings, what, list);
	}
	json_array_append_new(list, json_pack("{s:s,s:s}", "HostIp", ip, "HostPort", port));
}

struct ports {
	char ip[64];
	uint64_t outside[2], inside[2];
	int chosen; /* the host's were named */
	const char *protocol;
};

static int add_port_bindings(json_t *bindings, json_t *exposed, const struct ports *p, const char *text,
		     struct err *e)
{
	const uint64_t n = p->inside[1] - p->inside[0];
	uint64_t i;

	if (p->chosen && n && p->outside[1] - p->outside[0] != n)
		return err_set(e, ERR_INVALID,
			       "invalid publish opts format: %.100s: the ranges differ", text);
	for (i = 0; i <= n; i++) {
		char what[40], port[20] = "";

		snprintf(what, sizeof(what), "%d/%.10s", (int)(p->inside[0] + i), p->protocol);
		/* of several for one, the server takes a free one */
		if (p->chosen && !n && p->outside[1] > p->outside[0])
			snprintf(port, sizeof(port), "%d-%d", (int)p->outside[0], (int)p->outside[1]);
		else if (p->chosen)
			snprintf(port, sizeof(port), "%d", (int)(p->outside[0] + i));
		add_binding(bindings, exposed, what, p->ip, port);
	}
	return 0;
}

/* [IP:][HOST[-END]:]INSIDE[-END][/PROTOCOL] */
int door_publish(json_t *bindings, json_t *exposed, const char *text, struct err *e)
{
	const size_t n = strcspn(text, "/");
	struct ports p = { .protocol = text[n] ? text + n + 1 : "tcp" };
	const char *inside = text + n, *outside, *end;

	while (inside > text && inside[-1] != ':')
		inside--;
	if (parse_publish_range(inside, (size_t)(text + n - inside), 1, p.inside, e) < 1)
		return e->code ? -1 :
				 err_set(e, ERR_INVALID, "No port specified: %.100s<empty>", text);
	if (inside > text) {
		end = inside - 1;
		for (outside = end; outside > text && outside[-1] != ':'; outside--)
			;
		p.chosen = parse_publish_range(outside, (size_t)(end - outside), 0, p.outside, e);
		if (p.chosen < 0)
			return -1;
		if (outside > text)
			snprintf(p.ip, sizeof(p.ip), "%.*s",
				 (int)(outside - 1 - text - (*text == '[' ? 2 : 0)),
				 text + (*text == '['));
	}
	return add_port_bindings(bindings, exposed, &p, text, e);
}

int door_expose(json_t *exposed, const char *text, struct err *e)
{
	const size_t n = strcspn(text, "/");
	uint64_t range[2], port;
	char what[40];

	if (parse_publish_range(text, n, 1, range, e) < 1)
		return err_set(e, ERR_INVALID, "invalid range format for --expose: %.80s", text);
	for (port = range[0]; port <= range[1]; port++) {
		snprintf(what, sizeof(what), "%d/%.10s", (int)port, text[n] ? text + n + 1 : "tcp");
		json_object_set_new(exposed, what, json_object());
	}
	return 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static char *absolute(const char *path)
{
	char here[PATH_MAX], *both;

	if (path[0] == '/' || !getcwd(here, sizeof(here)))
		return strdup(path);
	return asprintf(&both, "%s/%s", here, path) < 0 ? NULL : both;
}

/* A source that begins with a dot is a path, from where we are. */
json_t *door_bind(const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');
	autofree char *source = NULL, *real = NULL;
	json_t *j;

	if (!text[0] || colon == text) {
		err_set(e, ERR_INVALID, text[0] ? "invalid spec: %.200s: empty section between colons" : "invalid empty volume spec", text);
		return NULL;
	}
	if (text[0] != '.' || !colon) {
		j = json_string(text);
	} else {
		source = strndup(text, (size_t)(colon - text));
		real = source ? absolute(source) : NULL;
		j = real ? json_sprintf("%s%s", real, colon) : NULL;
	}
	if (!j)
		err_set(e, ERR_INVALID, "the value of --volume is not UTF-8");
	return j;
}

static int yes(const char *value)
{
	return !value[0] || !strcmp(value, "true") || !strcmp(value, "1");
}

static int is_mount_key(const char *key, const char *a, const char *b)
{
	return !strcmp(key, a) || (b && !strcmp(key, b));
}

static int set_mount(json_t *m, const char *key, const char *value, struct err *e)
{
	static const char *const ignored[] = { "bind-propagation", "consistency",
					       "volume-nocopy",    "bind-nonrecursive",
					       "bind-recursive",   "tmpfs-mode",
					       "volume-driver" };
	autofree char *path = NULL;
	int64_t bytes;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ignored); i++)
		if (!strcmp(key, ignored[i]))
			return 0;
	if (is_mount_key(key, "type", NULL))
		return json_object_set_new(m, "Type", json_string(value));
	if (is_mount_key(key, "source", "src")) {
		path = value[0] == '.' ? absolute(value) : strdup(value);
		return json_object_set_new(m, "Source", json_string(path ? path : ""));
	}
	if (is_mount_key(key, "target", "dst") || is_mount_key(key, "destination", NULL))
		return json_object_set_new(m, "Target", json_string(value));
	if (is_mount_key(key, "readonly", "ro"))
		return json_object_set_new(m, "ReadOnly", json_boolean(yes(value)));
	if (is_mount_key(key, "tmpfs-size", NULL)) {
		bytes = door_bytes(value, "tmpfs-size", e);
		return bytes < 0 ? -1 :
				   json_object_set_new(
					   m, "TmpfsOptions",
					   json_pack("{s:I}", "SizeBytes", (json_int_t)bytes));
	}
	return err_set(e, ERR_INVALID, "unexpected key '%.40s' in '%.40s=%.80s'", key, key, value);
}

/* type=bind,source=/a,target=/b,readonly; a field in double quotes may have commas */
json_t *door_mount(const char *text, struct err *e)
{
	json_t *m = json_pack("{s:s}", "Type", "volume");
	autofree char *copy = strdup(text);
	char *p = copy, *next, *value;

	for (; p && *p; p = next) {
		const int quoted = *p == '"';

		p += quoted;
		next = p + strcspn(p, quoted ? "\"" : ",");
		if (*next)
			*next++ = '\0';
		next += quoted && *next == ',';
		value = strchr(p, '=');
		if (value)
			*value++ = '\0';
		if (set_mount(m, p, value ? value : "", e) < 0) {
			err_wrap(e, "invalid argument \"%.200s\" for \"--mount\" flag", text);
			json_decref(m);
			return NULL;
		}
	}
	if (json_string_length(json_object_get(m, "Target")))
		return m;
	json_decref(m);
	err_set(e, ERR_INVALID,
		"invalid argument \"%.200s\" for \"--mount\" flag: target is "
		"required",
		text);
	return NULL;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* "all", "2", "device=0,1", "\"device=0,1\"", "count=2" */
json_t *door_gpus(const char *text, struct err *e)
{
	char plain[200], *at, *next;
	json_t *ids = json_array();
	uint64_t count = 0;
	int all = 0;

	snprintf(plain, sizeof(plain), "%s", text + (*text == '"'));
	plain[strcspn(plain, "\"")] = '\0';
	if (!strncmp(plain, "device=", 7)) {
		for (at = strtok_r(plain + 7, ",", &next); at; at = strtok_r(NULL, ",", &next))
			json_array_append_new(ids, json_string(at));
	} else {
		at = !strncmp(plain, "count=", 6) ? plain + 6 : plain;
		all = !strcmp(at, "all");
		if (!all && num_u64(at, "gpus", 1, 1024, &count, e) < 0) {
			json_decref(ids);
			return NULL;
		}
	}
	return json_pack("{s:s,s:i,s:o,s:[[s]],s:{}}", "Driver", "", "Count", all ? -1 : (int)count,
			 "DeviceIDs", ids, "Capabilities", "gpu", "Options");
}

/* ---- devices and their rates ----------------------------------------------------------------- */

json_t *door_device(const char *text, struct err *e)
{
	autofree char *copy = strdup(text);
	char *target = copy ? strchr(copy, ':') : NULL, *may = NULL;

	if (!copy) {
		err_nomem(e);
		return NULL;
	}
	if (target)
		*target++ = '\0';
	may = target ? strchr(target, ':') : NULL;
	if (may)
		*may++ = '\0';
	return json_pack("{s:s,s:s,s:s}", "PathOnHost", copy, "PathInContainer",
			 target && target[0] ? target : copy, "CgroupPermissions",
			 may ? may : "rwm");
}

static json_t *rate_of(const char *text, int64_t rate, struct err *e)
{
	const char *colon = strchr(text, ':');

	if (!strncmp(text, "/dev/", 5) && colon && rate > 0)
		return json_pack("{s:s#,s:I}", "Path", text, (int)(colon - text), "Rate",
				 (json_int_t)rate);
	err_set(e, ERR_INVALID,
		"'%.100s' is not a rate for a device; the correct format is "
		"<device-path>:<number>, such as /dev/sda:1mb of bytes or /dev/sda:1000 of "
		"operations a second",
		text);
	return NULL;
}

json_t *door_rate_bytes(const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');

	return rate_of(text, colon ? door_bytes(colon + 1, "device-bps", e) : 0, e);
}

json_t *door_rate_operations(const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');
	uint64_t n = 0;

	if (colon && num_u64(colon + 1, "rate", 1, UINT32_MAX - 1, &n, e) < 0)
		n = 0;
	return rate_of(text, (int64_t)n, e);
}
