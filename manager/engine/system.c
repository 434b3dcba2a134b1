/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/system.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/engine/load.h"
#include "manager/host/journal.h"
#include "manager/host/registry.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"

json_t *engine_version(void)
{
	struct utsname u = { 0 };

	uname(&u);
	return json_pack(
		"{s:{s:s},s:[{s:s,s:s,s:{s:s,s:s,s:s,s:s,s:s}}],s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}",
		"Platform", "Name", "berth " BERTH_VERSION, "Components", "Name", "Engine",
		"Version", ENGINE_SAID_VERSION, "Details", "ApiVersion", ENGINE_API,
		"MinAPIVersion", ENGINE_API_MIN, "Os", "linux", "Arch", "amd64", "KernelVersion",
		u.release, "Version", ENGINE_SAID_VERSION, "ApiVersion", ENGINE_API,
		"MinAPIVersion", ENGINE_API_MIN, "Os", "linux", "Arch", "amd64", "KernelVersion",
		u.release, "GitCommit", "berth", "GoVersion", "none");
}

static int is_on(const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	char c = '0';

	return fd >= 0 && read(fd, &c, 1) == 1 && c == '1';
}

struct counts {
	struct registry *r;
	int running, stopped;
};

static int count(void *ctx, const char *id, int kept, json_t *record)
{
	struct counts *c = ctx;

	if (!kept)
		engine_load_label(c->r, id, record);
	if (!engine_is_internal(record, !kept))
		*(kept ? &c->stopped : &c->running) += 1;
	return 0;
}

static int is_v2(void)
{
	struct statfs s;

	return !statfs("/sys/fs/cgroup", &s) && s.f_type == 0x63677270;
}

static json_t *describe(const struct config *c, const struct counts *n)
{
	struct utsname u = { 0 };
	struct sysinfo m = { 0 };

	uname(&u);
	sysinfo(&m);
	return json_pack(
		"{s:s,s:i,s:i,s:i,s:i,s:i,s:s,s:[],s:{s:[s],s:[s,s,s],s:n,s:[s]},s:b,s:b,s:b,s:b,s:"
		"s,s:s,s:s,s:s,s:s,s:i,s:I,"
		"s:s,s:s,s:s,s:{s:{s:s}},s:s,s:{s:s},s:[s,s],s:b,s:n}",
		"ID", "berth", "Containers", n->running + n->stopped, "ContainersRunning",
		n->running, "ContainersPaused", 0, "ContainersStopped", n->stopped, "Images", 0,
		"Driver", "overlay2", "DriverStatus", "Plugins", "Volume", "local", "Network",
		"bridge", "none", "null", "Authorization", "Log", "json-file", "MemoryLimit", 1,
		"SwapLimit", 1, "CpuCfsQuota", 1, "PidsLimit", 1, "CgroupDriver", "cgroupfs",
		"CgroupVersion", is_v2() ? "2" : "1", "KernelVersion", u.release, "OperatingSystem",
		"berth " BERTH_VERSION " on Linux", "OSType", "linux", "NCPU",
		(int)sysconf(_SC_NPROCESSORS_ONLN), "MemTotal", (json_int_t)m.totalram * m.mem_unit,
		"Architecture", u.machine, "DockerRootDir", c->state_dir, "Name", u.nodename,
		"Runtimes", "runc", "path", "berth", "DefaultRuntime", "runc", "Swarm",
		"LocalNodeState", "inactive", "SecurityOptions", "name=seccomp,profile=builtin",
		"name=no-new-privileges", "LiveRestoreEnabled", 1, "Warnings");
}

/* Every member that Docker's has: clients and templates name them. */
static void set_rest(json_t *j, json_int_t images)
{
	static const char *const yes[] = { "CpuCfsPeriod", "CPUShares", "CPUSet" },
			  *const no[] = { "Debug", "ExperimentalBuild", "KernelMemory", "KernelMemoryTCP", "OomKillDisable" },
			  *const texts[] = { "HttpProxy", "HttpsProxy", "NoProxy", "Isolation", "OSVersion", "ProductLicense" },
			  *const none[] = { "GenericResources" };
	struct timespec now;
	char time[JOURNAL_TIME];
	size_t i;

	for (i = 0; i < ARRAY_LEN(yes); i++)
		json_object_set_new(j, yes[i], json_true());
	for (i = 0; i < ARRAY_LEN(no); i++)
		json_object_set_new(j, no[i], json_false());
	for (i = 0; i < ARRAY_LEN(texts); i++)
		json_object_set_new(j, texts[i], json_string(""));
	for (i = 0; i < ARRAY_LEN(none); i++)
		json_object_set_new(j, none[i], json_null());
	clock_gettime(CLOCK_REALTIME, &now);
	journal_time(&now, time);
	json_object_set_new(j, "SystemTime", json_string(time));
	json_object_set_new(j, "Images", json_integer(images));
	json_object_set_new(j, "Labels", json_array());
	json_object_set_new(j, "NFd", json_integer(0));
	json_object_set_new(j, "NGoroutines", json_integer(0));
	json_object_set_new(j, "NEventsListener", json_integer(0));
	json_object_set_new(j, "IPv4Forwarding", json_boolean(is_on("/proc/sys/net/ipv4/ip_forward")));
	json_object_set_new(j, "BridgeNfIptables", json_boolean(is_on("/proc/sys/net/bridge/bridge-nf-call-iptables")));
	json_object_set_new(j, "BridgeNfIp6tables", json_boolean(is_on("/proc/sys/net/bridge/bridge-nf-call-ip6tables")));
	json_object_set_new(j, "RegistryConfig",
			    json_pack("{s:[s],s:{},s:[]}", "InsecureRegistryCIDRs", "127.0.0.0/8", "IndexConfigs", "Mirrors"));
	json_object_set_new(j, "InitBinary", json_string("berth-init"));
	json_object_set_new(j, "ContainerdCommit", json_pack("{s:s,s:s}", "ID", "", "Expected", ""));
	json_object_set_new(j, "RuncCommit", json_pack("{s:s,s:s}", "ID", "", "Expected", ""));
	json_object_set_new(j, "InitCommit", json_pack("{s:s,s:s}", "ID", "", "Expected", ""));
	json_object_set_new(json_object_get(j, "Runtimes"), "io.containerd.runc.v2", json_pack("{s:s}", "path", "berth"));
}

/* The images of the store, each once whatever its names. */
static json_int_t count_images(const struct config *c)
{
	char path[sizeof(c->state_dir) + 16];
	struct err ignored;
	autoclose int store = -1;
	autojson json_t *list = NULL, *seen = json_object();
	const json_t *one;
	size_t i;

	snprintf(path, sizeof(path), "%s/store", c->state_dir);
	store = store_open(path, &ignored);
	list = store < 0 ? NULL : catalog_list(store, 0, &ignored);
	json_array_foreach (list, i, one) {
		const char *digest = json_string_value(json_object_get(one, "digest"));

		if (digest)
			json_object_set_new(seen, digest, json_true());
	}
	return (json_int_t)json_object_size(seen);
}

json_t *engine_info(struct registry *r, struct err *e)
{
	struct counts n = { .r = r };
	json_t *j;

	if (registry_list(r, 1, count, &n, e) < 0)
		return NULL;
	j = describe(r->config, &n);
	json_object_set_new(j, "ServerVersion", json_string(ENGINE_SAID_VERSION));
	json_object_set_new(j, "IndexServerAddress", json_string("https://index.docker.io/v1/"));
	json_object_set_new(j, "LoggingDriver", json_string("json-file"));
	set_rest(j, count_images(r->config));
	return j;
}
