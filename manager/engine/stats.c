/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/stats.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/id.h"

#define NS_OF_MS 1000000

static json_int_t number(const json_t *said, const char *key)
{
	return json_integer_value(json_object_get(said, key));
}

static json_t *time_text(const struct timespec *t)
{
	char text[40];
	struct tm tm;

	gmtime_r(&t->tv_sec, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	return json_sprintf("%s.%09ldZ", text, t->tv_nsec);
}

static json_t *cpu_of(const struct engine_sample *s)
{
	const json_int_t used = s && s->said ? number(s->said, "cpu_ms") * NS_OF_MS : 0;

	if (!s || !s->said)
		return json_pack("{s:{s:i,s:i,s:i},s:{s:i,s:i,s:i}}", "cpu_usage", "total_usage", 0,
				 "usage_in_kernelmode", 0, "usage_in_usermode", 0,
				 "throttling_data", "periods", 0, "throttled_periods", 0,
				 "throttled_time", 0);
	return json_pack("{s:{s:I,s:i,s:I},s:I,s:i,s:{s:i,s:i,s:i}}", "cpu_usage", "total_usage",
			 used, "usage_in_kernelmode", 0, "usage_in_usermode", used,
			 "system_cpu_usage", (json_int_t)s->host_cpu_ns, "online_cpus",
			 (int)s->cpus, "throttling_data", "periods", 0, "throttled_periods", 0,
			 "throttled_time", 0);
}

static json_t *io_of(const json_t *said)
{
	if (!said)
		return json_null();
	return json_pack("[{s:i,s:i,s:s,s:I},{s:i,s:i,s:s,s:I}]", "major", 0, "minor", 0, "op",
			 "read", "value", number(said, "read_bytes"), "major", 0, "minor", 0, "op",
			 "write", "value", number(said, "write_bytes"));
}

static json_t *networks_of(const json_t *said)
{
	const json_t *net = json_object_get(said, "network");

	if (!json_object_get(net, "bytes_in"))
		return NULL;
	return json_pack("{s:{s:I,s:i,s:i,s:i,s:I,s:i,s:i,s:i}}", "eth0", "rx_bytes",
			 number(net, "bytes_in"), "rx_packets", 0, "rx_errors", 0, "rx_dropped", 0,
			 "tx_bytes", number(net, "bytes_out"), "tx_packets", 0, "tx_errors", 0,
			 "tx_dropped", 0);
}

json_t *engine_stats(const char *id, const char *name, const struct engine_sample *before,
		     const struct engine_sample *now)
{
	static const struct timespec never;
	const json_t *said = now->said;
	char whole[ENGINE_ID];
	json_t *doc, *networks;

	engine_id(id, whole);
	doc = json_pack("{s:o,s:o,s:s,s:o,s:i,s:{},s:o,s:o}", "read", time_text(&now->at),
			"preread", time_text(before ? &before->at : &never), "id", whole, "name",
			json_sprintf("/%s", name), "num_procs", 0, "storage_stats", "cpu_stats",
			cpu_of(now), "precpu_stats", cpu_of(before));
	json_object_set_new(doc, "blkio_stats",
			    json_pack("{s:o}", "io_service_bytes_recursive", io_of(said)));
	if (!said) {
		json_object_set_new(doc, "pids_stats", json_object());
		json_object_set_new(doc, "memory_stats", json_object());
		return doc;
	}
	json_object_set_new(doc, "pids_stats",
			    json_pack("{s:I,s:I}", "current", number(said, "pids"), "limit",
				      number(said, "pids_limit")));
	json_object_set_new(doc, "memory_stats",
			    json_pack("{s:I,s:I,s:{},s:I}", "usage", number(said, "memory_bytes"),
				      "max_usage", number(said, "peak_memory_bytes"), "stats",
				      "limit", number(said, "memory_limit_bytes")));
	networks = networks_of(said);
	if (networks)
		json_object_set_new(doc, "networks", networks);
	return doc;
}

json_t *engine_changes(const json_t *diff)
{
	json_t *all = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(diff, "changes"), i, one) {
		const char *what = json_string_value(json_object_get(one, "change"));
		const json_t *path = json_object_get(one, "path");

		if (what && json_is_string(path))
			json_array_append_new(all, json_pack("{s:O,s:i}", "Path", path, "Kind",
							     !strcmp(what, "added")	? 1
							     : !strcmp(what, "deleted") ? 2
											: 0));
	}
	return all;
}
