/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/system.h"

#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/engine/load.h"
#include "manager/host/list.h"

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
		"Runtimes", "berth", "path", "berth", "DefaultRuntime", "berth", "Swarm",
		"LocalNodeState", "inactive", "SecurityOptions", "name=seccomp,profile=builtin",
		"name=no-new-privileges", "LiveRestoreEnabled", 1, "Warnings");
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
	return j;
}
