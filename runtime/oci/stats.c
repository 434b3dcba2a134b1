/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/stats.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup.h"

static int dir_of(const struct oci_cgroup *c, const char *controller)
{
	return c->v2 ? oci_cgroup_clone_fd(c) : oci_cgroup_fd(c, controller);
}

/* Reads one number; "max" is all ones, and a missing one is 0. */
static uint64_t read_stats_value(int fd, const char *file)
{
	char text[64];

	if (fd < 0 || cgroup_read(fd, file, text, sizeof(text)) <= 0)
		return 0;
	return isdigit((unsigned char)text[0]) ? strtoull(text, NULL, 10) : UINT64_MAX;
}

static json_t *stats_integer(uint64_t v)
{
	return json_integer(v > INT64_MAX ? INT64_MAX : (json_int_t)v);
}

static json_t *percpu(int fd)
{
	json_t *list = json_array();
	char text[8192], *p = text, *end;

	if (fd < 0 || cgroup_read(fd, "cpuacct.usage_percpu", text, sizeof(text)) <= 0)
		return list;
	for (;;) {
		uint64_t v = strtoull(p, &end, 10);

		if (end == p)
			return list;
		json_array_append_new(list, stats_integer(v));
		p = end;
	}
}

static json_t *cpu(const struct oci_cgroup *c)
{
	int acct = dir_of(c, "cpuacct"), fd = dir_of(c, "cpu");
	uint64_t total, user, kernel;
	char text[2048] = "", acctstat[256] = "";

	if (fd >= 0)
		cgroup_read(fd, "cpu.stat", text, sizeof(text));
	if (c->v2) {
		total = cgroup_stat_value(text, "usage_usec") * 1000;
		user = cgroup_stat_value(text, "user_usec") * 1000;
		kernel = cgroup_stat_value(text, "system_usec") * 1000;
	} else {
		if (acct >= 0)
			cgroup_read(acct, "cpuacct.stat", acctstat, sizeof(acctstat));
		total = read_stats_value(acct, "cpuacct.usage");
		/* in ticks of 1/100 s */
		user = cgroup_stat_value(acctstat, "user") * 10000000;
		kernel = cgroup_stat_value(acctstat, "system") * 10000000;
	}
	return json_pack("{s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o, s:o}}", "usage", "total", stats_integer(total), "percpu",
			 percpu(acct), "kernel", stats_integer(kernel), "user", stats_integer(user), "throttling", "periods",
			 stats_integer(cgroup_stat_value(text, "nr_periods")), "throttledPeriods",
			 stats_integer(cgroup_stat_value(text, "nr_throttled")), "throttledTime",
			 stats_integer(c->v2 ? cgroup_stat_value(text, "throttled_usec") * 1000 : cgroup_stat_value(text, "throttled_time")));
}

static json_t *entry(int fd, const char *limit, const char *usage, const char *max, const char *failcnt)
{
	json_t *j = json_pack("{s:o, s:o, s:o}", "limit", stats_integer(read_stats_value(fd, limit)), "usage", stats_integer(read_stats_value(fd, usage)),
			      "failcnt", stats_integer(failcnt ? read_stats_value(fd, failcnt) : 0));

	if (max)
		json_object_set_new(j, "max", stats_integer(read_stats_value(fd, max)));
	return j;
}

static json_t *memory_stats(const struct oci_cgroup *c)
{
	int fd = dir_of(c, "memory");
	json_t *all = cgroup_memory_stat(fd), *j;
	json_t *cache = json_object_get(all, c->v2 ? "file" : "cache");

	if (c->v2)
		return json_pack("{s:O, s:o, s:o, s:o}", "cache", cache ? cache : json_integer(0), "usage",
				 entry(fd, "memory.max", "memory.current", "memory.peak", NULL), "swap",
				 entry(fd, "memory.swap.max", "memory.swap.current", NULL, NULL), "raw", all);
	j = json_pack("{s:O, s:o, s:o, s:o, s:o, s:o}", "cache", cache ? cache : json_integer(0), "usage",
		      entry(fd, "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.failcnt"),
		      "swap", entry(fd, "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes",
				    "memory.memsw.max_usage_in_bytes", "memory.memsw.failcnt"), "kernel",
		      entry(fd, "memory.kmem.limit_in_bytes", "memory.kmem.usage_in_bytes", "memory.kmem.max_usage_in_bytes",
			    "memory.kmem.failcnt"), "kernelTCP",
		      entry(fd, "memory.kmem.tcp.limit_in_bytes", "memory.kmem.tcp.usage_in_bytes",
			    "memory.kmem.tcp.max_usage_in_bytes", "memory.kmem.tcp.failcnt"), "raw", all);
	return j;
}

/* v1: "8:0 Read 4096" lines; v2: "8:0 rbytes=4096 ..." lines. */
static json_t *block_io_stats(const struct oci_cgroup *c)
{
	int fd = dir_of(c, c->v2 ? "io" : "blkio");
	json_t *list = json_array();
	char text[16384], *line, *save = NULL;

	if (fd >= 0 && cgroup_read(fd, c->v2 ? "io.stat" : "blkio.throttle.io_service_bytes", text, sizeof(text)) > 0) {
		for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			unsigned major, minor;
			unsigned long long n, w;
			char op[32];

			if (!c->v2 && sscanf(line, "%u:%u %31s %llu", &major, &minor, op, &n) == 4) {
				json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:o}", "major", (int)major, "minor", (int)minor,
								      "op", op, "value", stats_integer(n)));
			} else if (c->v2 && sscanf(line, "%u:%u rbytes=%llu wbytes=%llu", &major, &minor, &n, &w) == 4) {
				json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:o}", "major", (int)major, "minor", (int)minor,
								      "op", "Read", "value", stats_integer(n)));
				json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:o}", "major", (int)major, "minor", (int)minor,
								      "op", "Write", "value", stats_integer(w)));
			}
		}
	}
	return json_pack("{s:o}", "ioServiceBytesRecursive", list);
}

json_t *oci_stats(const struct oci_cgroup *c)
{
	int fd = dir_of(c, "pids");
	uint64_t limit = read_stats_value(fd, "pids.max");
	json_t *pids = json_pack("{s:o}", "current", stats_integer(read_stats_value(fd, "pids.current")));

	if (limit != UINT64_MAX)
		json_object_set_new(pids, "limit", stats_integer(limit));
	return json_pack("{s:o, s:o, s:o, s:o, s:{}, s:{}, s:n}", "cpu", cpu(c), "memory", memory_stats(c), "pids", pids, "blkio",
			 block_io_stats(c), "hugetlb", "intel_rdt", "network_interfaces");
}

uint64_t oci_stats_ooms(const struct oci_cgroup *c)
{
	int fd = dir_of(c, "memory");
	char text[512];

	if (fd < 0 || cgroup_read(fd, c->v2 ? "memory.events" : "memory.oom_control", text, sizeof(text)) <= 0)
		return 0;
	return cgroup_stat_value(text, "oom_kill");
}
