/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of docker run and create as the body of POST /containers/create. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/docker/verbs.h"
#include "manager/ops/optvalues.h"

#define DAY_MS 86400000

enum shape { TEXT, LIST, NUMBER, BYTES, ON, MAP };

/* Those that stand in the body as they were given. */
static const struct {
	const char *flag;
	int in_host; /* HostConfig, else the body itself */
	const char *member;
	enum shape shape;
} plain[] = {
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
	{ "group-add", 1, "GroupAdd", LIST },
	{ "hostname", 0, "Hostname", TEXT },
	{ "init", 1, "Init", ON },
	{ "ipc", 1, "IpcMode", TEXT },
	{ "memory", 1, "Memory", BYTES },
	{ "memory-swap", 1, "MemorySwap", BYTES },
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

static int number_of(const char *text, const char *flag, json_int_t *ret, struct err *e)
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

static int add_plain(const struct door_args *a, size_t i, json_t *to, struct err *e)
{
	const char *flag = plain[i].flag, *text = door_value(a, flag);
	json_int_t n;
	json_t *v = NULL;

	switch (plain[i].shape) {
	case TEXT:
		v = text ? json_string(text) : NULL;
		break;
	case LIST:
		v = door_list(a, flag) ? json_deep_copy(door_list(a, flag)) : NULL;
		break;
	case MAP:
		v = door_list(a, flag) ? door_map(door_list(a, flag)) : NULL;
		break;
	case ON:
		v = door_on(a, flag) ? json_true() : NULL;
		break;
	case NUMBER:
		if (text && number_of(text, flag, &n, e) < 0)
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
	return v ? json_object_set_new(to, plain[i].member, v) : 0;
}

/* ---- environment and labels ------------------------------------------------------------------ */

static int add_line(void *list, const char *line, struct err *e)
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

	if (each_file(a, "env-file", add_line, list, e) < 0)
		return -1;
	json_array_foreach ((json_t *)(size_t)door_list(a, "env"), i, one) {
		const char *text = json_string_value(one);

		if (!text[0] || text[0] == '=')
			return err_set(e, ERR_INVALID, "invalid environment variable: %.80s", text);
		if (add_line(list, text, e) < 0)
			return -1;
	}
	return 0;
}

static int add_label(void *labels, const char *line, struct err *e)
{
	autojson json_t *one = json_pack("[s]", line), *map = one ? door_map(one) : NULL;

	return map && json_object_update(labels, map) == 0 ?
		       0 :
		       err_set(e, ERR_INVALID, "a label is not valid UTF-8");
}

static int add_labels(const struct door_args *a, json_t *body, struct err *e)
{
	autojson json_t *own = door_map(door_list(a, "label"));
	json_t *labels = json_object();

	json_object_set_new(body, "Labels", labels);
	return each_file(a, "label-file", add_label, labels, e) < 0 ?
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
	if (eq && number_of(number, "ulimit", &soft, e) == 0 &&
	    number_of(colon ? colon + 1 : number, "ulimit", &hard, e) == 0)
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

static int add_mounts(const struct door_args *a, json_t *host, struct err *e)
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
	return add_items(a, "volume", host, "Binds", door_bind, e) < 0 ||
			       add_items(a, "mount", host, "Mounts", door_mount, e) < 0 ?
		       -1 :
		       0;
}

static int add_ports(const struct door_args *a, json_t *body, json_t *host, struct err *e)
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
static int add_network(const struct door_args *a, json_t *body, json_t *host, struct err *e)
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
	if (colon && number_of(colon + 1, "restart", &most, e) < 0)
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

static int add_duration(const struct door_args *a, const char *flag, json_t *health,
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

static int add_health(const struct door_args *a, json_t *body, struct err *e)
{
	const char *cmd = door_value(a, "health-cmd"), *retries = door_value(a, "health-retries");
	json_t *health = json_object();
	json_int_t n = 0;

	json_object_set_new(body, "Healthcheck", health);
	if (door_on(a, "no-healthcheck"))
		return json_object_set_new(health, "Test", json_pack("[s]", "NONE"));
	if (cmd)
		json_object_set_new(health, "Test", json_pack("[s,s]", "CMD-SHELL", cmd));
	if (add_duration(a, "health-interval", health, "Interval", e) < 0 ||
	    add_duration(a, "health-timeout", health, "Timeout", e) < 0 ||
	    add_duration(a, "health-start-period", health, "StartPeriod", e) < 0 ||
	    add_duration(a, "health-start-interval", health, "StartInterval", e) < 0 ||
	    (retries && number_of(retries, "health-retries", &n, e) < 0))
		return -1;
	if (retries)
		json_object_set_new(health, "Retries", json_integer(n));
	if (!json_object_size(health))
		json_object_del(body, "Healthcheck");
	return 0;
}

static int add_cpus(const struct door_args *a, json_t *host, struct err *e)
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

static int add_command(const struct door_args *a, json_t *body, struct err *e)
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

static int fill(const struct door_args *a, json_t *body, json_t *host, struct err *e)
{
	json_t *env = json_array();
	size_t i;

	json_object_set_new(body, "Env", env);
	for (i = 0; i < ARRAY_LEN(plain); i++)
		if (add_plain(a, i, plain[i].in_host ? host : body, e) < 0)
			return -1;
	if (door_on(a, "interactive")) {
		json_object_set_new(body, "OpenStdin", json_true());
		json_object_set_new(body, "StdinOnce", json_boolean(!door_on(a, "detach")));
	}
	return door_env(a, env, e) < 0 || add_labels(a, body, e) < 0 ||
			       add_items(a, "ulimit", host, "Ulimits", ulimit_of, e) < 0 ||
			       add_items(a, "device", host, "Devices", door_device, e) < 0 ||
			       add_device_rates(a, host, e) < 0 ||
			       add_mounts(a, host, e) < 0 || add_ports(a, body, host, e) < 0 ||
			       add_network(a, body, host, e) < 0 || add_restart(a, host, e) < 0 ||
			       add_health(a, body, e) < 0 || add_cpus(a, host, e) < 0 ||
			       add_command(a, body, e) < 0 ?
		       -1 :
		       0;
}

json_t *door_body(const struct door_args *a, struct err *e)
{
	json_t *body = json_object(), *host = json_object();
	const char *restart = door_value(a, "restart");

	json_object_set_new(body, "HostConfig", host);
	if (fill(a, body, host, e) == 0) {
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

	for (i = 0; i < ARRAY_LEN(plain) && r == 0; i++)
		if (plain[i].in_host)
			r = add_plain(a, i, host, e);
	if (r == 0 && add_restart(a, host, e) == 0 && add_cpus(a, host, e) == 0)
		return host;
	json_decref(host);
	return NULL;
}
