/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci update. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/oci/cli.h"
#include "runtime/oci/json.h"
#include "runtime/oci/resources.h"
#include "runtime/oci/state.h"

enum kind { FILE_NAME, BYTES, NUMBER, WORD, REFUSED, NOTHING };

/* Each flag is one member of linux.resources. */
static const struct { const char *object, *key; enum kind kind; } members[] = {
	{ NULL, NULL, FILE_NAME },
	{ "blockIO", "weight", NUMBER },
	{ "cpu", "period", NUMBER },
	{ "cpu", "quota", NUMBER },
	{ "cpu", "burst", NUMBER },
	{ "cpu", "shares", NUMBER },
	{ "cpu", "shares", NUMBER },
	{ "cpu", "idle", NUMBER },
	{ "cpu", "realtimePeriod", NUMBER },
	{ "cpu", "realtimeRuntime", NUMBER },
	{ "cpu", "cpus", WORD },
	{ "cpu", "mems", WORD },
	{ "memory", "limit", BYTES },
	{ "memory", "reservation", BYTES },
	{ "memory", "swap", BYTES },
	{ "memory", "kernel", NOTHING },
	{ "memory", "kernelTCP", BYTES },
	{ "pids", "limit", NUMBER },
	{ NULL, "--l3-cache-schema", REFUSED },
	{ NULL, "--mem-bw-schema", REFUSED },
};

static const struct oci_option update_options[] = {
	{ "resources", 'r', "FILE|-", "linux.resources as JSON, from a file or stdin" },
	{ "blkio-weight", 0, "N", "share of block I/O, 10 to 1000" },
	{ "cpu-period", 0, "US", "CPU period in microseconds" },
	{ "cpu-quota", 0, "US", "CPU time within a period; -1: no limit" },
	{ "cpu-burst", 0, "US", "CPU time that may be saved up" },
	{ "cpu-share", 0, "N", "share of CPU time, 2 to 262144" },
	{ "cpu-shares", 0, "N", "the same" },
	{ "cpu-idle", 0, "0|1", "run only when nothing else does" },
	{ "cpu-rt-period", 0, "US", "realtime period (cgroup v1)" },
	{ "cpu-rt-runtime", 0, "US", "realtime runtime (cgroup v1)" },
	{ "cpuset-cpus", 0, "LIST", "CPUs it may use" },
	{ "cpuset-mems", 0, "LIST", "memory nodes it may use" },
	{ "memory", 0, "BYTES", "memory limit; -1: none" },
	{ "memory-reservation", 0, "BYTES", "memory that it may keep under pressure" },
	{ "memory-swap", 0, "BYTES", "memory and swap together; -1: none" },
	{ "kernel-memory", 0, "BYTES", "accepted; without effect since Linux 5.16" },
	{ "kernel-memory-tcp", 0, "BYTES", "TCP buffer memory (cgroup v1)" },
	{ "pids-limit", 0, "N", "processes; -1: no limit" },
	{ "l3-cache-schema", 0, "TEXT", "refused: no Intel RDT" },
	{ "mem-bw-schema", 0, "TEXT", "refused: no Intel RDT" },
	{ NULL },
};
_Static_assert(ARRAY_LEN(update_options) == ARRAY_LEN(members) + 1, "one member for each option");

static struct update_args {
	json_t *resources;
	const char *file;
} args;

static int number(const char *text, const char *what, int64_t *ret, struct err *e)
{
	uint64_t v;

	if (num_u64(text[0] == '-' ? text + 1 : text, what, 0, INT64_MAX, &v, e) < 0)
		return -1;
	*ret = text[0] == '-' ? -(int64_t)v : (int64_t)v;
	return 0;
}

static int set(void *ctx, size_t i, const char *value, struct err *e)
{
	struct update_args *a = ctx;
	const char *what = update_options[i].name;
	json_t *object;
	uint64_t bytes;
	int64_t n;

	if (members[i].kind == REFUSED)
		return err_set(e, ERR_UNSUPPORTED, "%s: Intel RDT is not supported by this runtime", members[i].key);
	if (members[i].kind == NOTHING)
		return 0;
	if (members[i].kind == FILE_NAME) {
		a->file = value;
		return 0;
	}
	if (!a->resources)
		a->resources = json_object();
	object = oci_get(a->resources, members[i].object);
	if (!object) {
		object = json_object();
		json_object_set_new(a->resources, members[i].object, object);
	}
	if (members[i].kind == WORD) {
		json_object_set_new(object, members[i].key, json_string(value));
		return 0;
	}
	if (members[i].kind == BYTES && value[0] != '-') {
		if (num_size(value, what, 0, INT64_MAX, &bytes, e) < 0)
			return -1;
		n = (int64_t)bytes;
	} else if (number(value, what, &n, e) < 0) {
		return -1;
	}
	json_object_set_new(object, members[i].key, json_integer(n));
	return 0;
}

static json_t *read_resources(const char *file, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OCI_DOCUMENT_MAX);
	json_t *j;

	if (strcmp(file, "-") != 0) {
		j = oci_json_load(AT_FDCWD, file, e);
	} else {
		if (io_read_all(STDIN_FILENO, &b, "stdin", e) < 0)
			return NULL;
		j = oci_json_parse(b.data ? b.data : "", b.len, "stdin", e);
	}
	if (j && oci_schema_check(j, OCI_RESOURCES, "resources", e) < 0) {
		json_decref(j);
		return NULL;
	}
	return j;
}

static int run(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	struct update_args *a = ctx;
	struct oci_state st;
	enum oci_status status;
	int r = -1;

	(void)count;
	if (a->file) {
		json_decref(a->resources);
		a->resources = read_resources(a->file, e);
		if (!a->resources)
			return -1;
	} else if (a->resources && oci_schema_check(a->resources, OCI_RESOURCES, "update", e) < 0) {
		return -1;
	}
	if (oci_root(g, e) < 0 || oci_state_load(&st, g->root_fd, operands[0], e) < 0)
		return -1;
	status = oci_state_status(&st);
	if (status == OCI_STOPPED || status == OCI_CREATING)
		err_set(e, ERR_BUSY, "container '%s' is not running: there is nothing to update", operands[0]);
	else if (oci_cgroup_open(&st.cgroup, e) == 0)
		r = oci_resources_update(&st.cgroup, a->resources, e);
	oci_state_release(&st);
	return r;
}

const struct oci_verb oci_verb_update = {
	.name = "update", .args = "ID", .summary = "change the limits of a container", .options = update_options,
	.min = 1, .max = 1, .set = set, .run = run, .ctx = &args,
};
