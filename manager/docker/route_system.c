/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on the engine as a whole: _ping, version, info. */
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/host/list.h"

#define SAID_VERSION "25.0.0" /* of the Docker whose API this is: clients compare it */

static int ping(struct http_request *rq, struct err *e)
{
	char *ok = strdup("OK");

	if (!ok)
		return err_nomem(e);
	return http_reply_data(rq, 200, "text/plain; charset=utf-8", ok, 2, e);
}

static int version(struct http_request *rq, struct err *e)
{
	struct utsname u = { 0 };
	json_t *j;

	uname(&u);
	j = json_pack(
		"{s:{s:s},s:[{s:s,s:s,s:{s:s,s:s,s:s,s:s,s:s}}],s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}",
		"Platform", "Name", "berth " BERTH_VERSION, "Components", "Name", "Engine",
		"Version", SAID_VERSION, "Details", "ApiVersion", DOCKER_API, "MinAPIVersion",
		DOCKER_API_MIN, "Os", "linux", "Arch", "amd64", "KernelVersion", u.release,
		"Version", SAID_VERSION, "ApiVersion", DOCKER_API, "MinAPIVersion", DOCKER_API_MIN,
		"Os", "linux", "Arch", "amd64", "KernelVersion", u.release, "GitCommit", "berth",
		"GoVersion", "none");
	return http_reply_json(rq, 200, j, e);
}

struct counts {
	int running, stopped;
};

static int count(void *ctx, const char *id, int kept, json_t *record)
{
	struct counts *c = ctx;

	(void)id;
	(void)record;
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

static int info(struct http_request *rq, struct err *e)
{
	struct counts n = { 0 };
	json_t *j = NULL;
	struct box b;
	int r = box_open(&b, rq, e);

	if (r == 0)
		r = registry_list(&b.registry, 1, count, &n, e);
	if (r == 0) {
		j = describe(&b.config, &n);
		json_object_set_new(j, "ServerVersion", json_string(SAID_VERSION));
		json_object_set_new(j, "IndexServerAddress",
				    json_string("https://index.docker.io/v1/"));
		json_object_set_new(j, "LoggingDriver", json_string("json-file"));
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 200, j, e);
}

const struct http_route docker_system_routes[] = {
	{ "GET", "/_ping", ping, "is it there", HTTP_NONE, HTTP_QUIET },
	{ "HEAD", "/_ping", ping, "is it there", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/version", version, "what it is", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/info", info, "the engine and its host", HTTP_NONE, HTTP_QUIET },
	{ NULL },
};
