/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of HostConfig. A limit that Docker's client leaves out is that of [sandbox] in
 * berth.toml, not none: a container gets no more of the host than the operator gives each
 * sandbox.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "manager/engine/create.h"

#define SHARES_MAX 262144

static int add_memory(struct engine_create *c, const json_t *host, struct err *e)
{
	json_int_t memory = 0, swap = 0;

	if (engine_int(host, "Memory", &memory, e) < 0 ||
	    engine_int(host, "MemorySwap", &swap, e) < 0)
		return -1;
	if (memory < 0 || swap < -1)
		return err_set(e, ERR_INVALID, "Memory and MemorySwap are numbers of bytes");
	if (memory && engine_word(c, e, "--memory=%" JSON_INTEGER_FORMAT, memory) < 0)
		return -1;
	if (swap == -1)
		return engine_word(c, e, "--swap=unlimited");
	/* Docker's is the sum of both */
	if (swap && swap < memory)
		return err_set(
			e, ERR_INVALID,
			"Minimum memoryswap limit should be larger than memory limit, see usage");
	return swap ? engine_word(c, e, "--swap=%" JSON_INTEGER_FORMAT, swap - memory) : 0;
}

static int add_cpus(struct engine_create *c, const json_t *host, struct err *e)
{
	json_int_t nano = 0, quota = 0, period = 0, shares = 0, milli;
	const char *set = "";

	if (engine_int(host, "NanoCpus", &nano, e) < 0 ||
	    engine_int(host, "CpuQuota", &quota, e) < 0 ||
	    engine_int(host, "CpuPeriod", &period, e) < 0 ||
	    engine_int(host, "CpuShares", &shares, e) < 0 ||
	    engine_str(host, "CpusetCpus", &set, e) < 0)
		return -1;
	if (nano < 0 || nano > INT64_C(4096000000000) || period < 0 ||
	    quota > INT64_C(1000000000000) || shares < 0)
		return err_set(e, ERR_INVALID,
			       "NanoCpus, CpuQuota, CpuPeriod or CpuShares is out of range");
	milli = nano ? nano / 1000000 : quota > 0 ? quota * 1000 / (period ? period : 100000) : 0;
	if ((nano || quota > 0) && milli < 10)
		milli = 10;
	if (milli && engine_word(c, e, "--cpus=%" JSON_INTEGER_FORMAT ".%03d", milli / 1000,
				 (int)(milli % 1000)) < 0)
		return -1;
	/* as runc counts shares of cgroup v1 in weights of v2 */
	if (shares >= 2 && engine_word(c, e, "--cpu-weight=%" JSON_INTEGER_FORMAT,
				       1 + ((shares < SHARES_MAX ? shares : SHARES_MAX) - 2) *
						       9999 / (SHARES_MAX - 2)) < 0)
		return -1;
	return set[0] ? engine_word(c, e, "--cpuset=%s", set) : 0;
}

static int add_pids(struct engine_create *c, const json_t *host, struct err *e)
{
	json_int_t pids = 0;

	if (engine_int(host, "PidsLimit", &pids, e) < 0)
		return -1;
	if (pids > 0 && pids < 2)
		pids = 2;
	return pids > 0	  ? engine_word(c, e, "--pids=%" JSON_INTEGER_FORMAT, pids)
	       : pids < 0 ? engine_word(c, e, "--pids=unlimited")
			  : 0;
}

static const struct {
	const char *name;
	int resource;
} limits[] = {
	{ "core", RLIMIT_CORE },
	{ "cpu", RLIMIT_CPU },
	{ "data", RLIMIT_DATA },
	{ "fsize", RLIMIT_FSIZE },
	{ "memlock", RLIMIT_MEMLOCK },
	{ "nofile", RLIMIT_NOFILE },
	{ "nproc", RLIMIT_NPROC },
	{ "rss", RLIMIT_RSS },
	{ "stack", RLIMIT_STACK },
	{ "as", RLIMIT_AS },
	{ "sigpending", RLIMIT_SIGPENDING },
	{ "msgqueue", RLIMIT_MSGQUEUE },
	{ "nice", RLIMIT_NICE },
	{ "rtprio", RLIMIT_RTPRIO },
	{ "locks", RLIMIT_LOCKS },
};

/* The host's own maximum; UINT64_MAX means no limit. */
static uint64_t most_of(const char *name)
{
	struct rlimit r;
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++)
		if (!strcmp(limits[i].name, name) && getrlimit(limits[i].resource, &r) == 0 &&
		    r.rlim_max != RLIM_INFINITY)
			return (uint64_t)r.rlim_max;
	return UINT64_MAX;
}

static int add_ulimit(struct engine_create *c, const json_t *one, struct err *e)
{
	json_int_t soft = 0, hard = 0;
	const char *name = "";
	uint64_t most, s, h;

	if (engine_str(one, "Name", &name, e) < 0 || engine_int(one, "Soft", &soft, e) < 0 ||
	    engine_int(one, "Hard", &hard, e) < 0)
		return -1;
	most = most_of(name);
	h = hard < 0 ? UINT64_MAX : (uint64_t)hard;
	s = soft < 0 ? UINT64_MAX : (uint64_t)soft;
	if (s > h)
		return err_set(e, ERR_INVALID,
			       "ulimit soft limit must be less than or equal to hard limit: "
			       "%" JSON_INTEGER_FORMAT " > %" JSON_INTEGER_FORMAT,
			       soft, hard);
	if ((h > most || s > most) &&
	    engine_warn(c, e,
			"ulimit %.20s was lowered to %" PRIu64 ", the most this host may give",
			name, most) < 0)
		return -1;
	h = h < most ? h : most;
	s = s < h ? s : h;
	if (h == UINT64_MAX && s == UINT64_MAX)
		return engine_word(c, e, "--ulimit=%s=unlimited", name);
	return h == UINT64_MAX ? engine_word(c, e, "--ulimit=%s=%" PRIu64 ":unlimited", name, s)
			       : engine_word(c, e, "--ulimit=%s=%" PRIu64 ":%" PRIu64, name, s, h);
}

static int add_ulimits(struct engine_create *c, const json_t *host, struct err *e)
{
	json_t *list;
	size_t i;

	if (engine_arr(host, "Ulimits", &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++)
		if (add_ulimit(c, json_array_get(list, i), e) < 0)
			return -1;
	return 0;
}

static int add_sizes(struct engine_create *c, const json_t *host, struct err *e)
{
	const char *size = "";
	json_int_t shm = 0;
	json_t *storage;

	if (engine_int(host, "ShmSize", &shm, e) < 0 ||
	    engine_obj(host, "StorageOpt", &storage, e) < 0 ||
	    engine_str(storage, "size", &size, e) < 0)
		return -1;
	if (shm < 0)
		return err_set(e, ERR_INVALID, "SHM size can not be less than 0");
	if (shm &&
	    engine_word(c, e, "--shm-size=%" JSON_INTEGER_FORMAT, shm < 4096 ? 4096 : shm) < 0)
		return -1;
	return size[0] ? engine_word(c, e, "--disk=%s", size) : 0;
}

#define DEVICES_MAX 16

static const struct {
	const char *member, *key;
} rates[] = {
	{ "BlkioDeviceReadBps", "read" },
	{ "BlkioDeviceWriteBps", "write" },
	{ "BlkioDeviceReadIOps", "read-iops" },
	{ "BlkioDeviceWriteIOps", "write-iops" },
};

static int add_rate(json_t *disks, const json_t *one, const char *key, struct err *e)
{
	const char *path = "", *before;
	json_int_t rate = 0;
	json_t *text;

	if (engine_str(one, "Path", &path, e) < 0 || engine_int(one, "Rate", &rate, e) < 0)
		return -1;
	if (path[0] != '/' || rate < 0)
		return err_set(e, ERR_INVALID, "a rate of block I/O has a Path and a Rate");
	if (!rate)
		return 0;
	before = json_string_value(json_object_get(disks, path));
	text = json_sprintf("%s%s%s=%" JSON_INTEGER_FORMAT, before ? before : "",
			    before ? "," : "", key, rate);
	if (json_object_set_new(disks, path, text) < 0)
		return err_nomem(e);
	return json_object_size(disks) <= DEVICES_MAX ?
		       0 :
		       err_set(e, ERR_INVALID, "rates of more than %d devices", DEVICES_MAX);
}

/* Each disk is named once, with all its rates. */
static int add_rates(struct engine_create *c, const json_t *host, struct err *e)
{
	autojson json_t *disks = json_object();
	const char *path;
	json_t *list, *text;
	size_t i, k;

	for (k = 0; k < ARRAY_LEN(rates); k++) {
		if (engine_arr(host, rates[k].member, &list, e) < 0)
			return -1;
		for (i = 0; i < json_array_size(list); i++)
			if (add_rate(disks, json_array_get(list, i), rates[k].key, e) < 0)
				return -1;
	}
	json_object_foreach (disks, path, text)
		if (engine_word(c, e, "--io-rate=%s:%s", path, json_string_value(text)) < 0)
			return -1;
	return 0;
}

static int add_block_io(struct engine_create *c, const json_t *host, struct err *e)
{
	json_int_t weight = 0;
	json_t *each;

	if (engine_int(host, "BlkioWeight", &weight, e) < 0 ||
	    engine_arr(host, "BlkioWeightDevice", &each, e) < 0)
		return -1;
	if (weight && (weight < 10 || weight > 1000))
		return err_set(e, ERR_INVALID,
			       "Range of blkio weight is from 10 to 1000");
	if (json_array_size(each))
		return err_set(e, ERR_UNSUPPORTED,
			       "a weight of block I/O for one device is not supported; hint: "
			       "--blkio-weight is of every device");
	/* as runc counts the weights of cgroup v1 in those of v2 */
	if (weight && engine_word(c, e, "--io-weight=%" JSON_INTEGER_FORMAT,
				  1 + (weight - 10) * 9999 / 990) < 0)
		return -1;
	return add_rates(c, host, e);
}

int engine_create_limits(struct engine_create *c, const json_t *host, struct err *e)
{
	return add_block_io(c, host, e) < 0 || add_memory(c, host, e) < 0 ||
			       add_cpus(c, host, e) < 0 || add_pids(c, host, e) < 0 ||
			       add_ulimits(c, host, e) < 0 || add_sizes(c, host, e) < 0
		       ? -1
		       : 0;
}

int engine_is_live(const char *word)
{
	static const char *const options[] = { "--memory=", "--cpus=", "--pids=", "--restart=",
					       "--io-weight=" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(options); i++)
		if (!strncmp(word, options[i], strlen(options[i])))
			return 1;
	return 0;
}
