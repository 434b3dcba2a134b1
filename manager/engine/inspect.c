/* SPDX-License-Identifier: Apache-2.0 */
/* GET /containers/{id}/json. */
#include <string.h>

#include "base/mem.h"
#include "manager/engine/id.h"
#include "manager/engine/view.h"
#include "manager/ops/params.h"

#define SHM_BYTES (64 << 20) /* of /dev/shm, as berth create has it, too */

static json_t *copy_or(const json_t *v, json_t *otherwise)
{
	if (!v)
		return otherwise;
	json_decref(otherwise);
	return json_deep_copy(v);
}

/* The command, as a program and its arguments. */
static void set_path(json_t *doc, const struct engine_view *v)
{
	const json_t *argv = json_object_get(v->record, "command");
	json_t *args = json_array();
	size_t i;

	for (i = 1; i < json_array_size(argv); i++)
		json_array_append(args, json_array_get(argv, i));
	json_object_set_new(doc, "Path", copy_or(json_array_get(argv, 0), json_string("")));
	json_object_set_new(doc, "Args", args);
}

static json_t *health_of(const struct engine_view *v)
{
	const char *status = engine_health(v);
	const json_t *detail = json_object_get(v->ping, "health_detail"), *one;
	json_t *log = json_array();
	size_t i;

	if (!status) {
		json_decref(log);
		return NULL;
	}
	json_array_foreach(json_object_get(detail, "log"), i, one)
		json_array_append_new(log, json_pack("{s:O*,s:O*,s:O*,s:O*}", "Start",
						     json_object_get(one, "start"), "End",
						     json_object_get(one, "end"), "ExitCode",
						     json_object_get(one, "exit_code"), "Output",
						     json_object_get(one, "output")));
	return json_pack("{s:s,s:O?,s:o}", "Status", status, "FailingStreak",
			 json_object_get(detail, "failing_streak"), "Log", log);
}

static json_t *time_of(const json_t *record, const char *key)
{
	const json_t *t = json_object_get(record, key);

	return json_is_string(t) ? json_deep_copy(t) : json_string(ENGINE_NEVER);
}

static json_t *state_of(const struct engine_view *v)
{
	const enum engine_state s = engine_state(v);
	const char *started = engine_started(v);
	const char *cause =
		json_string_value(json_object_get(json_object_get(v->record, "verdict"), "cause"));
	const json_t *pid = json_object_get(v->live, "init_pid"),
		     *why = json_object_get(v->record, "start_error");
	json_t *state = json_pack(
		"{s:s,s:b,s:b,s:b,s:b,s:b,s:I,s:i,s:o,s:o,s:o}", "Status", engine_state_name(s),
		"Running", v->runs || s == ENGINE_RESTARTING, "Paused", s == ENGINE_PAUSED,
		"Restarting", s == ENGINE_RESTARTING, "OOMKilled",
		!v->runs && cause && !strcmp(cause, "oom"), "Dead", 0, "Pid",
		v->runs ? json_integer_value(pid) : (json_int_t)0, "ExitCode", engine_exit_code(v),
		"Error", copy_or(v->runs ? NULL : why, json_string("")), "StartedAt",
		json_string(started[0] ? started : ENGINE_NEVER), "FinishedAt",
		time_of(v->record, "finished"));
	json_t *health = v->runs ? health_of(v) : NULL;

	if (health)
		json_object_set_new(state, "Health", health);
	return state;
}

/* The image's environment with the container's on top, as Docker merges them. */
static json_t *env_of(const struct engine_view *v)
{
	const json_t *own = engine_asked(v, "Env"), *base = json_object_get(v->image, "env"), *one,
		     *two;
	json_t *all = json_array();
	size_t i, k;

	json_array_foreach((json_t *)(size_t)own, i, one)
		json_array_append(all, (json_t *)(size_t)one);
	json_array_foreach((json_t *)(size_t)base, i, one) {
		const char *text = json_string_value(one);
		size_t n = text ? strcspn(text, "=") + 1 : 0;
		int hidden = 0;

		json_array_foreach((json_t *)(size_t)own, k, two) {
			const char *mine = json_string_value(two);

			hidden |= text && mine && !strncmp(mine, text, n);
		}
		if (!hidden)
			json_array_append(all, (json_t *)(size_t)one);
	}
	return all;
}

static json_t *text_or(const json_t *v, const json_t *second)
{
	if (json_is_string(v) && json_string_length(v))
		return json_deep_copy(v);
	return json_is_string(second) ? json_deep_copy(second) : json_string("");
}

static json_t *flag_of(const struct engine_view *v, const char *key)
{
	return json_boolean(json_is_true(engine_asked(v, key)));
}

/* As engine_create_read() had it: the id, unless it is that of another container. */
static json_t *hostname_of(const struct engine_view *v)
{
	const json_t *asked = engine_asked(v, "Hostname");

	if (json_string_length(asked))
		return json_deep_copy(asked);
	return json_string(
		v->asked && !json_object_get(json_object_get(v->record, "network"), "container") ?
			v->id :
			"");
}

json_t *engine_config(const struct engine_view *v)
{
	const json_t *entry = engine_asked(v, "Entrypoint"), *cmd = engine_asked(v, "Cmd"),
		     *own = v->asked ? NULL : json_object_get(v->record, "command");
	json_t *c = json_pack(
		"{s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "Hostname",
		hostname_of(v), "Domainname", "", "User",
		text_or(engine_asked(v, "User"), json_object_get(v->image, "user")), "AttachStdin",
		flag_of(v, "AttachStdin"), "AttachStdout", flag_of(v, "AttachStdout"),
		"AttachStderr", flag_of(v, "AttachStderr"), "Tty", json_boolean(engine_is_tty(v)),
		"OpenStdin", json_boolean(json_is_true(json_object_get(v->record, "stdin_open"))),
		"StdinOnce", flag_of(v, "StdinOnce"), "Env", env_of(v));
	const json_t *image_cmd = entry ? NULL : json_object_get(v->image, "cmd");

	json_object_set_new(c, "Cmd",
			    copy_or(cmd && json_array_size(cmd) ? cmd
				    : own			? own
								: image_cmd,
				    json_null()));
	json_object_set_new(c, "Entrypoint",
			    copy_or(entry ? entry
				    : json_array_size(json_object_get(v->image, "entrypoint"))
					    ? json_object_get(v->image, "entrypoint")
					    : NULL,
				    json_null()));
	json_object_set_new(c, "Image", json_string(engine_image_name(v)));
	json_object_set_new(c, "Volumes",
			    copy_or(json_object_size(engine_asked(v, "Volumes")) ?
					    engine_asked(v, "Volumes") :
					    NULL,
				    json_null()));
	json_object_set_new(
		c, "WorkingDir",
		text_or(engine_asked(v, "WorkingDir"), json_object_get(v->image, "workdir")));
	json_object_set_new(c, "OnBuild", json_null());
	json_object_set_new(c, "Labels", engine_labels(v->record));
	if (json_object_size(engine_asked(v, "ExposedPorts")))
		json_object_set_new(c, "ExposedPorts",
				    json_deep_copy(engine_asked(v, "ExposedPorts")));
	if (engine_asked(v, "Healthcheck"))
		json_object_set_new(c, "Healthcheck",
				    json_deep_copy(engine_asked(v, "Healthcheck")));
	if (engine_asked(v, "StopTimeout"))
		json_object_set_new(c, "StopTimeout",
				    json_deep_copy(engine_asked(v, "StopTimeout")));
	json_object_set_new(c, "StopSignal",
			    text_or(json_object_get(v->record, "stop_signal"), NULL));
	return c;
}

/* Every member that Docker's has: templates of clients name those that a client left out. */
static void set_absent(json_t *host)
{
	static const char *const numbers[] = { "Memory",
					       "MemorySwap",
					       "MemoryReservation",
					       "NanoCpus",
					       "CpuShares",
					       "CpuPeriod",
					       "CpuQuota",
					       "CpuRealtimePeriod",
					       "CpuRealtimeRuntime",
					       "BlkioWeight",
					       "OomScoreAdj",
					       "CpuCount",
					       "CpuPercent",
					       "IOMaximumIOps",
					       "IOMaximumBandwidth" },
			  *const texts[] = { "ContainerIDFile", "VolumeDriver", "Cgroup",
					     "PidMode",		"UTSMode",	"UsernsMode",
					     "CgroupParent",	"CpusetCpus",	"CpusetMems" },
			  *const nulls[] = { "VolumesFrom",	    "Dns",
					     "DnsOptions",	    "DnsSearch",
					     "ExtraHosts",	    "GroupAdd",
					     "Links",		    "SecurityOpt",
					     "BlkioWeightDevice",   "BlkioDeviceReadBps",
					     "BlkioDeviceWriteBps", "BlkioDeviceReadIOps",
					     "BlkioDeviceWriteIOps", "Devices",
					     "DeviceCgroupRules",   "DeviceRequests",
					     "MemorySwappiness",    "OomKillDisable",
					     "PidsLimit",	    "Ulimits" },
			  *const flags[] = { "PublishAllPorts", "ReadonlyRootfs" };
	autojson json_t *all = json_object();
	size_t i;

	for (i = 0; i < ARRAY_LEN(numbers); i++)
		json_object_set_new(all, numbers[i], json_integer(0));
	for (i = 0; i < ARRAY_LEN(texts); i++)
		json_object_set_new(all, texts[i], json_string(""));
	for (i = 0; i < ARRAY_LEN(nulls); i++)
		json_object_set_new(all, nulls[i], json_null());
	for (i = 0; i < ARRAY_LEN(flags); i++)
		json_object_set_new(all, flags[i], json_false());
	json_object_set_new(all, "ConsoleSize", json_pack("[i,i]", 0, 0));
	json_object_update_missing(host, all);
}

/* What holds where the client left it open; a sandbox that berth made had no client. */
static void set_presets(json_t *host, int is_clients)
{
	static const char *const modes[] = { "CgroupnsMode", "IpcMode" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(modes); i++)
		if (!json_string_length(json_object_get(host, modes[i])))
			json_object_set_new(host, modes[i], json_string("private"));
	if (!is_clients)
		json_object_set_new(host, "ShmSize", json_integer(0));
	else if (json_integer_value(json_object_get(host, "ShmSize")) <= 0)
		json_object_set_new(host, "ShmSize", json_integer(SHM_BYTES));
}

/* CPUs as Docker has them: billionths, or where the client gave a quota, that. */
static void show_cpus(json_t *h, const char *member, uint64_t milli)
{
	const json_int_t quota = json_integer_value(json_object_get(h, "CpuQuota"));
	const json_int_t period = json_integer_value(json_object_get(h, "CpuPeriod"));

	if (quota > 0 && milli != UINT64_MAX)
		json_object_set_new(h, "CpuQuota", json_integer((json_int_t)milli * (period ? period : 100000) / 1000));
	else
		json_object_set_new(h, member, json_integer(milli == UINT64_MAX ? 0 : (json_int_t)milli * 1000000));
}

/* "on-failure:5" as {"Name","MaximumRetryCount"}. */
static void show_restart(json_t *h, const char *policy)
{
	const char *colon = strchr(policy, ':');

	json_object_set_new(h, "RestartPolicy",
			    json_pack("{s:s%,s:i}", "Name", policy, colon ? (size_t)(colon - policy) : strlen(policy),
				      "MaximumRetryCount", colon ? atoi(colon + 1) : 0));
}

/* What the sandbox has now, in the place of what was asked when it was made: berth update, too, changes it. */
static void show_present(json_t *h, const json_t *spec)
{
	const json_t *pair;
	struct err ignored;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *text = json_string_value(json_array_get(pair, 1));
		const struct param *p = name && text ? param_named(name) : NULL;
		uint64_t v;

		if (p && p->opt.id == PARAM_RESTART)
			show_restart(h, text);
		if (!p || !p->docker)
			continue;
		if (p->type == PARAM_TEXT)
			json_object_set_new(h, p->docker, json_string(text));
		else if (param_parse(p, text, &v, &ignored) < 0)
			continue;
		else if (p->opt.id == PARAM_CPUS)
			show_cpus(h, p->docker, v);
		else	/* Docker's 0 is none; of processes it is -1 */
			json_object_set_new(h, p->docker, json_integer(v != UINT64_MAX ? (json_int_t)v :
								       p->opt.id == PARAM_PIDS ? -1 : 0));
	}
}

/* With the driver of its presets where the client left it open. */
static void show_log(json_t *h, const json_t *preset)
{
	json_t *log = json_object_get(h, "LogConfig");

	if (!json_is_object(log)) {
		json_object_set_new(h, "LogConfig", json_deep_copy(preset));
		return;
	}
	if (!json_string_length(json_object_get(log, "Type")))
		json_object_set(log, "Type", json_object_get(preset, "Type"));
	if (!json_is_object(json_object_get(log, "Config")))
		json_object_set_new(log, "Config", json_object());
}

/* As requested, and as it is now. */
json_t *engine_host_config(const struct engine_view *v)
{
	const json_t *asked = engine_asked(v, "HostConfig");
	json_t *h = asked ? json_deep_copy(asked) : json_object();
	const char *policy = json_string_value(json_object_get(v->record, "restart"));
	json_t *made = json_pack("{s:o,s:{s:s,s:i},s:{s:s,s:{}},s:b,s:o,s:o,s:o,s:o,s:b,s:s}",
				 "NetworkMode", engine_network_mode_json(v), "RestartPolicy",
				 "Name", policy ? policy : "no", "MaximumRetryCount", 0,
				 "LogConfig", "Type", "json-file", "Config", "AutoRemove", 0,
				 "Binds", json_null(), "PortBindings", json_object(), "CapAdd",
				 json_null(), "CapDrop", json_null(), "Privileged", 0, "Isolation",
				 "");

	json_object_update_missing(h, made);
	show_log(h, json_object_get(made, "LogConfig"));
	if (!json_string_length(json_object_get(h, "Runtime")))
		json_object_set_new(h, "Runtime", json_string("runc"));
	/* as the daemon keeps it: by id */
	if (json_object_get(json_object_get(v->record, "network"), "container"))
		json_object_set(h, "NetworkMode", json_object_get(made, "NetworkMode"));
	if (!json_string_length(json_object_get(json_object_get(h, "RestartPolicy"), "Name")))
		json_object_set(h, "RestartPolicy", json_object_get(made, "RestartPolicy"));
	json_decref(made);
	set_absent(h);
	set_presets(h, v->asked != NULL);
	show_present(h, v->spec);
	return h;
}

/* Docker's members that berth lacks. */
static void set_rest(json_t *doc, const struct engine_view *v)
{
	static const char *const none[] = { "ResolvConfPath", "HostnamePath", "HostsPath",
					    "LogPath",	      "MountLabel",   "ProcessLabel",
					    "AppArmorProfile" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(none); i++)
		json_object_set_new(doc, none[i], json_string(""));
	json_object_set_new(doc, "RestartCount",
			    copy_or(json_object_get(v->record, "restarts"), json_integer(0)));
	json_object_set_new(doc, "Driver", json_string("overlay2"));
	json_object_set_new(doc, "Platform", json_string("linux"));
	json_object_set_new(doc, "ExecIDs", json_null());
	json_object_set_new(doc, "GraphDriver", json_pack("{s:s,s:n}", "Name", "overlay2", "Data"));
}

/* Consumes ports and nets.  At its top it has the address on the bridge without a name. */
static json_t *network_settings(const char *sandbox, json_t *ports, json_t *nets)
{
	static const char *const texts[] = { "Bridge",	    "SandboxKey",
					     "EndpointID",  "Gateway",
					     "IPv6Gateway", "GlobalIPv6Address",
					     "MacAddress",  "LinkLocalIPv6Address" },
			  *const numbers[] = { "GlobalIPv6PrefixLen", "IPPrefixLen",
					       "LinkLocalIPv6PrefixLen" };
	static const char *const copied[] = { "Gateway", "MacAddress", "EndpointID", "IPPrefixLen" };
	const json_t *bridge = json_object_get(nets, "bridge"), *address = json_object_get(bridge, "IPAddress");
	json_t *s = json_pack("{s:s,s:o,s:b,s:o,s:o,s:n,s:n}", "SandboxID", sandbox, "IPAddress",
			      copy_or(address, json_string("")), "HairpinMode", 0, "Ports", ports,
			      "Networks", nets, "SecondaryIPAddresses", "SecondaryIPv6Addresses");
	size_t i;

	for (i = 0; i < ARRAY_LEN(texts); i++)
		json_object_set_new(s, texts[i], json_string(""));
	for (i = 0; i < ARRAY_LEN(numbers); i++)
		json_object_set_new(s, numbers[i], json_integer(0));
	for (i = 0; bridge && i < ARRAY_LEN(copied); i++)
		json_object_set(s, copied[i], json_object_get(bridge, copied[i]));
	return s;
}

json_t *engine_inspect(const struct engine_view *v)
{
	const json_t *digest = json_object_get(v->image, "digest");
	char id[ENGINE_ID];
	json_t *doc, *ports, *nets;

	engine_id(v->id, id);
	ports = engine_ports(v);
	nets = engine_networks(v);
	doc = json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "Id", id, "Created",
			time_of(v->record, "created"), "State", state_of(v), "Image",
			copy_or(digest, json_string(engine_image_name(v))), "Name",
			json_sprintf("/%s", engine_name(v)), "HostConfig", engine_host_config(v),
			"Mounts", engine_mounts(v), "Config", engine_config(v));
	set_path(doc, v);
	set_rest(doc, v);
	json_object_set_new(doc, "NetworkSettings",
			    network_settings(v->runs ? id : "", ports, nets));
	return doc;
}
