/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci spec: a configuration to start from, the same as runc's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/oci/cli.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/oci/json.h"
#include "runtime/oci/state.h"

static struct spec_args {
	const char *bundle;
	int rootless;
} args;

enum { S_BUNDLE, S_ROOTLESS };

static const struct oci_option spec_options[] = {
	[S_BUNDLE] = { "bundle", 'b', "DIR", "write config.json there (default: the working directory)" },
	[S_ROOTLESS] = { "rootless", 0, NULL, "for an ordinary user: a user namespace, no cgroup limits" },
	{ NULL },
};

static const char template[] =
"{\"ociVersion\":\"" OCI_SPEC_VERSION "\",\"process\":{\"terminal\":true,\"user\":{\"uid\":0,\"gid\":0},\"args\":[\"sh\"],"
"\"env\":[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\",\"TERM=xterm\"],\"cwd\":\"/\","
"\"capabilities\":{\"bounding\":[\"CAP_AUDIT_WRITE\",\"CAP_KILL\",\"CAP_NET_BIND_SERVICE\"],"
"\"effective\":[\"CAP_AUDIT_WRITE\",\"CAP_KILL\",\"CAP_NET_BIND_SERVICE\"],"
"\"permitted\":[\"CAP_AUDIT_WRITE\",\"CAP_KILL\",\"CAP_NET_BIND_SERVICE\"]},"
"\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"hard\":1024,\"soft\":1024}],\"noNewPrivileges\":true},"
"\"root\":{\"path\":\"rootfs\",\"readonly\":true},\"hostname\":\"berth\",\"mounts\":["
"{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
"{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"nosuid\",\"strictatime\",\"mode=755\",\"size=65536k\"]},"
"{\"destination\":\"/dev/pts\",\"type\":\"devpts\",\"source\":\"devpts\",\"options\":[\"nosuid\",\"noexec\",\"newinstance\",\"ptmxmode=0666\",\"mode=0620\",\"gid=5\"]},"
"{\"destination\":\"/dev/shm\",\"type\":\"tmpfs\",\"source\":\"shm\",\"options\":[\"nosuid\",\"noexec\",\"nodev\",\"mode=1777\",\"size=65536k\"]},"
"{\"destination\":\"/dev/mqueue\",\"type\":\"mqueue\",\"source\":\"mqueue\",\"options\":[\"nosuid\",\"noexec\",\"nodev\"]},"
"{\"destination\":\"/sys\",\"type\":\"sysfs\",\"source\":\"sysfs\",\"options\":[\"nosuid\",\"noexec\",\"nodev\",\"ro\"]},"
"{\"destination\":\"/sys/fs/cgroup\",\"type\":\"cgroup\",\"source\":\"cgroup\",\"options\":[\"nosuid\",\"noexec\",\"nodev\",\"relatime\",\"ro\"]}],"
"\"linux\":{\"resources\":{\"devices\":[{\"allow\":false,\"access\":\"rwm\"}]},"
"\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"},{\"type\":\"ipc\"},{\"type\":\"uts\"},{\"type\":\"mount\"}],"
"\"maskedPaths\":[\"/proc/acpi\",\"/proc/asound\",\"/proc/kcore\",\"/proc/keys\",\"/proc/latency_stats\",\"/proc/timer_list\",\"/proc/timer_stats\",\"/proc/sched_debug\",\"/sys/firmware\",\"/proc/scsi\"],"
"\"readonlyPaths\":[\"/proc/bus\",\"/proc/fs\",\"/proc/irq\",\"/proc/sys\",\"/proc/sysrq-trigger\"]}}";

static int set_oci_spec_option(void *ctx, size_t index, const char *value, struct err *e)
{
	struct spec_args *a = ctx;

	(void)e;
	if (index == S_BUNDLE)
		a->bundle = value;
	else
		a->rootless = 1;
	return 0;
}

/* A user's own id is root inside; no network of its own, so the host's /sys; no group 5; no limits. */
static void make_rootless(json_t *config)
{
	json_t *part = oci_get(config, "linux"), *list = oci_get(part, "namespaces"), *mounts = oci_get(config, "mounts"), *v;
	size_t i;

	json_array_foreach(list, i, v)
		if (!strcmp(oci_str(v, "type"), "network"))
			json_array_remove(list, i--);
	json_array_append_new(list, json_pack("{s:s}", "type", "user"));
	json_object_set_new(part, "uidMappings", json_pack("[{s:i, s:i, s:i}]", "containerID", 0, "hostID", (int)geteuid(),
							   "size", 1));
	json_object_set_new(part, "gidMappings", json_pack("[{s:i, s:i, s:i}]", "containerID", 0, "hostID", (int)getegid(),
							   "size", 1));
	json_object_del(part, "resources");
	json_array_foreach(mounts, i, v) {
		json_t *options = oci_get(v, "options"), *o;
		size_t j;

		if (!strcmp(oci_str(v, "destination"), "/sys")) {
			json_array_set_new(mounts, i, json_pack("{s:s, s:s, s:s, s:[s,s,s,s,s]}", "destination", "/sys", "type", "none",
								"source", "/sys", "options", "rbind", "nosuid", "noexec", "nodev", "ro"));
			continue;
		}
		json_array_foreach(options, j, o)
			if (!strncmp(json_string_value(o), "gid=", 4))
				json_array_remove(options, j--);
	}
	for (i = 0; i < json_array_size(mounts); i++)
		if (!strcmp(oci_str(json_array_get(mounts, i), "destination"), "/sys/fs/cgroup"))
			json_array_remove(mounts, i--);
}

static int run_oci_spec_verb(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	const struct spec_args *a = ctx;
	autojson json_t *config = json_parse(template, sizeof(template) - 1, 65536, "template", e);
	autofree char *text = NULL;
	autoclose int fd = -1;

	(void)g;
	(void)operands;
	(void)count;
	if (!config)
		return -1;
	if (a->bundle && chdir(a->bundle) < 0)
		return err_sys(e, "enter bundle %s", a->bundle);
	/* on v1 the mount of type cgroup shows the container's own anyway; the same condition as runc's */
	if (cgroup_detect() == CGROUP_V2)
		json_array_append_new(oci_get2(config, "linux", "namespaces"), json_pack("{s:s}", "type", "cgroup"));
	if (a->rootless)
		make_rootless(config);
	text = json_dumps(config, JSON_INDENT(4));
	if (!text)
		return err_nomem(e);
	fd = open("config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0 && errno == EEXIST)
		return err_set(e, ERR_EXISTS, "file config.json exists. Remove it first");
	if (fd < 0 || io_write_all(fd, text, strlen(text)) < 0 || io_write_all(fd, "\n", 1) < 0)
		return err_sys(e, "write config.json");
	return 0;
}

const struct oci_verb oci_verb_spec = {
	.name = "spec", .args = "", .summary = "write a config.json to start from", .options = spec_options, .min = 0, .max = 0,
	.set = set_oci_spec_option, .run = run_oci_spec_verb, .ctx = &args,
};
