/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S8 of SECURITY.md. */
#include "runtime/kernel/cgroup_io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"

#ifndef F2FS_SUPER_MAGIC
#define F2FS_SUPER_MAGIC 0xF2F52010
#endif
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

static const char *const v1_files[] = {
	[IO_READ] = "blkio.throttle.read_bps_device",
	[IO_WRITE] = "blkio.throttle.write_bps_device",
	[IO_READ_OPS] = "blkio.throttle.read_iops_device",
	[IO_WRITE_OPS] = "blkio.throttle.write_iops_device",
};
static const char *const v2_keys[] = {
	[IO_READ] = "rbps",
	[IO_WRITE] = "wbps",
	[IO_READ_OPS] = "riops",
	[IO_WRITE_OPS] = "wiops",
};
_Static_assert(ARRAY_LEN(v1_files) == CGROUP_IO_KINDS, "one file a kind");
_Static_assert(ARRAY_LEN(v2_keys) == CGROUP_IO_KINDS, "one key a kind");

uint64_t cgroup_io_bfq_weight(uint64_t weight)
{
	return weight <= 100 ? weight : 100 + (weight - 100) * 900 / 9900;
}

int cgroup_io_put(struct cgroup_limits *l, const struct cgroup_io_rate *rate, struct err *e)
{
	unsigned i;

	for (i = 0; i < l->io_rate_count; i++)
		if (l->io_rates[i].major == rate->major && l->io_rates[i].minor == rate->minor)
			break;
	if (i == CGROUP_IO_RATES_MAX)
		return err_set(e, ERR_LIMIT, "I/O rates for more than %d disks",
			       CGROUP_IO_RATES_MAX);
	l->io_rates[i] = *rate;
	if (i == l->io_rate_count)
		l->io_rate_count++;
	return 0;
}

/* The line of a disk, after its number; NULL without one. */
static const char *io_device_line(const char *text, const struct cgroup_io_rate *rate)
{
	char number[32];
	size_t n = (size_t)snprintf(number, sizeof(number), "%u:%u ", rate->major, rate->minor);

	while (text && strncmp(text, number, n)) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text ? text + n : NULL;
}

void cgroup_io_print(const struct cgroup_io_rate *rate, char ret[CGROUP_IO_TEXT])
{
	int n = snprintf(ret, CGROUP_IO_TEXT, "%u:%u", rate->major, rate->minor);
	size_t i;

	for (i = 0; i < CGROUP_IO_KINDS; i++)
		n += rate->v[i] == CGROUP_UNLIMITED ?
			     snprintf(ret + n, CGROUP_IO_TEXT - (size_t)n, " %s=max", v2_keys[i]) :
			     snprintf(ret + n, CGROUP_IO_TEXT - (size_t)n, " %s=%" PRIu64,
				      v2_keys[i], rate->v[i]);
}

json_t *cgroup_io_json(const struct cgroup_limits *l)
{
	char text[CGROUP_IO_TEXT];
	json_t *a = json_array();
	unsigned i;

	for (i = 0; i < l->io_rate_count; i++) {
		cgroup_io_print(&l->io_rates[i], text);
		json_array_append_new(a, json_string(text));
	}
	return a;
}

int cgroup_io_read(const char *text, struct cgroup_io_rate *ret, struct err *e)
{
	char printed[CGROUP_IO_TEXT], v[CGROUP_IO_KINDS][24];
	size_t i;

	*ret = (struct cgroup_io_rate){0};
	if (sscanf(text, "%u:%u rbps=%23s wbps=%23s riops=%23s wiops=%23s", &ret->major,
		   &ret->minor, v[IO_READ], v[IO_WRITE], v[IO_READ_OPS], v[IO_WRITE_OPS]) == 6)
		for (i = 0; i < CGROUP_IO_KINDS; i++)
			ret->v[i] =
				strcmp(v[i], "max") ? strtoull(v[i], NULL, 10) : CGROUP_UNLIMITED;
	cgroup_io_print(ret, printed);
	return !strcmp(printed, text) ?
		       0 :
		       err_set(e, ERR_INVALID, "'%.80s' is not the rate of a disk", text);
}

/* A disk without a limit may have no line. */
int cgroup_io_max_is(const char *text, const struct cgroup_io_rate *rate)
{
	static const char none[] = "rbps=max wbps=max riops=max wiops=max";
	char printed[CGROUP_IO_TEXT];
	const char *line = io_device_line(text, rate), *want;

	cgroup_io_print(rate, printed);
	want = strchr(printed, ' ') + 1;
	return line ? !strncmp(line, want, strlen(want)) && !(line[strlen(want)] > ' ') :
		      !strcmp(want, none);
}

static int no_throttle(struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED,
		       "the kernel bounds no rate of block I/O here, so --io-rate cannot be "
		       "enforced; hint: the io "
		       "controller of cgroup v2 (or blkio of v1) and CONFIG_BLK_DEV_THROTTLING");
}

static int set_max(int fd, const struct cgroup_io_rate *rate, struct err *e)
{
	char want[CGROUP_IO_TEXT], got[4096];

	cgroup_io_print(rate, want);
	if (cgroup_write(fd, "io.max", want) < 0)
		return err_sys(e, "write %s to io.max", want);
	if (cgroup_read(fd, "io.max", got, sizeof(got)) < 0 || !cgroup_io_max_is(got, rate))
		return err_set(e, ERR_UNSUPPORTED, "io.max does not hold %s after it was written",
			       want);
	return 0;
}

/* "default 100" is the first line. */
static int set_default(int fd, const char *file, uint64_t weight, struct err *e)
{
	char want[40], got[4096];

	snprintf(want, sizeof(want), "default %" PRIu64, weight);
	if (cgroup_write(fd, file, want) < 0)
		return err_sys(e, "write %s to %s", want, file);
	if (cgroup_read(fd, file, got, sizeof(got)) < 0)
		return err_sys(e, "read back cgroup file %s", file);
	got[strcspn(got, "\n")] = '\0';
	return !strcmp(got, want) ?
		       0 :
		       err_set(e, ERR_UNSUPPORTED,
			       "cgroup file %s holds %.40s after %s was written", file, got, want);
}

/* Each scheduler has its own file; the file of the other one has no effect. */
static int set_weight(int fd, uint64_t weight, struct err *e)
{
	const int cost = !faccessat(fd, "io.weight", F_OK, 0),
		  bfq = !faccessat(fd, "io.bfq.weight", F_OK, 0);

	if (!cost && !bfq)
		return err_set(e, ERR_UNSUPPORTED,
			       "the kernel shares no disk by weight here, so --io-weight cannot be "
			       "enforced; "
			       "hint: the io controller of cgroup v2, with BFQ or the cost model");
	if (cost && set_default(fd, "io.weight", weight, e) < 0)
		return -1;
	return bfq ? set_default(fd, "io.bfq.weight", cgroup_io_bfq_weight(weight), e) : 0;
}

int cgroup_io_limit_v2(int fd, const struct cgroup_limits *l, struct err *e)
{
	unsigned i;

	if (l->io_rate_count && faccessat(fd, "io.max", F_OK, 0) < 0)
		return no_throttle(e);
	for (i = 0; i < l->io_rate_count; i++)
		if (set_max(fd, &l->io_rates[i], e) < 0)
			return -1;
	return l->io_weight ? set_weight(fd, l->io_weight, e) : 0;
}

/* Sets a rate; 0 removes it. */
static int set_throttle(int fd, const char *file, const struct cgroup_io_rate *rate, uint64_t v,
			struct err *e)
{
	char want[80], got[4096];
	const char *line;

	if (v == CGROUP_UNLIMITED)
		v = 0;
	snprintf(want, sizeof(want), "%u:%u %" PRIu64, rate->major, rate->minor, v);
	if (cgroup_write(fd, file, want) < 0)
		return errno == ENOENT ? no_throttle(e) : err_sys(e, "write %s to %s", want, file);
	if (cgroup_read(fd, file, got, sizeof(got)) < 0)
		return err_sys(e, "read back cgroup file %s", file);
	line = io_device_line(got, rate);
	if ((line ? strtoull(line, NULL, 10) : 0) != v)
		return err_set(e, ERR_UNSUPPORTED,
			       "cgroup file %s does not hold %s after it was written", file, want);
	return 0;
}

int cgroup_io_limit_v1(int fd, const struct cgroup_limits *l, struct err *e)
{
	unsigned i;
	size_t k;

	if (!l->io_rate_count && !l->io_weight)
		return 0;
	if (fd < 0)
		return no_throttle(e);
	for (i = 0; i < l->io_rate_count; i++) {
		const struct cgroup_io_rate *r = &l->io_rates[i];

		if (r->v[IO_WRITE] != CGROUP_UNLIMITED || r->v[IO_WRITE_OPS] != CGROUP_UNLIMITED)
			return err_set(e, ERR_UNSUPPORTED,
				       "cgroup v1 charges what is written through the page cache "
				       "to nobody, so a rate of "
				       "writing cannot be enforced; hint: read and read-iops "
				       "alone, or a host with cgroup v2 alone");
		for (k = 0; k < CGROUP_IO_KINDS; k++)
			if (set_throttle(fd, v1_files[k], r, r->v[k], e) < 0)
				return -1;
	}
	if (!l->io_weight)
		return 0;
	if (faccessat(fd, "blkio.bfq.weight", F_OK, 0) < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "the kernel shares no disk by weight here, so --io-weight cannot be "
			       "enforced; "
			       "hint: a kernel with CONFIG_BFQ_GROUP_IOSCHED");
	return cgroup_set(fd, "blkio.bfq.weight", cgroup_io_bfq_weight(l->io_weight), "100", e);
}

/* File systems that tell the kernel which cgroup's page they write (SB_I_CGROUPWB). */
static int charges_writes(const char *path)
{
	struct statfs st;

	return statfs(path, &st) == 0 &&
	       (st.f_type == EXT4_SUPER_MAGIC || st.f_type == (long)XFS_SUPER_MAGIC ||
		st.f_type == (long)BTRFS_SUPER_MAGIC || st.f_type == (long)F2FS_SUPER_MAGIC);
}

/* Finds the disk of a partition, whose directory in sysfs is in that of its disk. */
static int whole_disk(unsigned *maj, unsigned *min, struct err *e)
{
	char path[100], number[32];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", *maj, *min);
	if (access(path, F_OK) < 0)
		return 0;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", *maj, *min);
	if (cgroup_read(AT_FDCWD, path, number, sizeof(number)) < 0 ||
	    sscanf(number, "%u:%u", maj, min) != 2)
		return err_sys(e, "read %s", path);
	return 0;
}

int cgroup_io_disk(const char *path, int writes, unsigned *ret_major, unsigned *ret_minor,
		   struct err *e)
{
	char sys[100];
	struct stat st;
	dev_t dev;

	if (stat(path, &st) < 0)
		return err_code_sys(e,
				    errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_SYS,
				    "--io-rate of %.200s", path);
	if (S_ISCHR(st.st_mode))
		return err_set(
			e, ERR_INVALID,
			"%.200s is not a block device; hint: a disk such as /dev/vda, or a path on it",
			path);
	dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	if (writes && !S_ISBLK(st.st_mode) && !charges_writes(path))
		return err_set(e, ERR_UNSUPPORTED,
			       "the file system of %.200s does not tell the kernel which cgroup "
			       "its writes belong to, so a rate of "
			       "writing cannot be enforced; hint: ext4, xfs or btrfs",
			       path);
	*ret_major = major(dev);
	*ret_minor = minor(dev);
	snprintf(sys, sizeof(sys), "/sys/dev/block/%u:%u", *ret_major, *ret_minor);
	if (access(sys, F_OK) < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "%.200s is on no disk whose rate the kernel could bound; hint: a "
			       "disk such as /dev/vda, or "
			       "a path on it",
			       path);
	return whole_disk(ret_major, ret_minor, e);
}

/* "8:0 enable=1 ctrl=auto ...": the cost model is switched on for each disk. */
static int has_cost(unsigned maj, unsigned min)
{
	const struct cgroup_io_rate disk = {.major = maj, .minor = min};
	char text[4096];
	const char *line;

	if (cgroup_read(AT_FDCWD, "/sys/fs/cgroup/io.cost.qos", text, sizeof(text)) < 0)
		return 0;
	line = io_device_line(text, &disk);
	return line && !strncmp(line, "enable=1", 8);
}

int cgroup_io_weighs(unsigned maj, unsigned min, struct err *e)
{
	char path[100], text[256] = "";

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/scheduler", maj, min);
	if ((cgroup_read(AT_FDCWD, path, text, sizeof(text)) >= 0 && strstr(text, "[bfq]")) ||
	    has_cost(maj, min))
		return 0;
	text[strcspn(text, "\n")] = '\0';
	return err_set(e, ERR_UNSUPPORTED,
		       "the scheduler of disk %u:%u shares it by no weight (%.80s), so --io-weight "
		       "cannot be enforced; "
		       "hint: echo bfq > %s",
		       maj, min, text[0] ? text : "it has none", path);
}

int cgroup_io_counts(struct err *e)
{
	char have[256];

	if (cgroup_detect() != CGROUP_V2)
		return err_set(e, ERR_UNSUPPORTED,
			       "cgroup v1 charges what is written through the page cache to "
			       "nobody, so a budget of io cannot be enforced; "
			       "hint: a host with cgroup v2 alone");
	if (cgroup_read(AT_FDCWD, "/sys/fs/cgroup/cgroup.controllers", have, sizeof(have)) < 0 ||
	    !cgroup_has_word(have, "io"))
		return err_set(e, ERR_UNSUPPORTED,
			       "this host's cgroups have no io controller, so a budget of io "
			       "cannot be enforced; hint: a kernel with CONFIG_BLK_CGROUP");
	return 0;
}
