/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/limitopts.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/kernel/cgroup_io.h"

/* Reads a CPU's number and moves *p behind it; the kernel has no more than 8192. */
static int cpu_number(const char **p, unsigned long *ret)
{
	char *end;

	if (**p < '0' || **p > '9')
		return -1;
	*ret = strtoul(*p, &end, 10);
	*p = end;
	return *ret < 8192 ? 0 : -1;
}

/* "N" or "N-M", separated by commas. */
static int is_cpu_list(const char *p)
{
	unsigned long first, last;

	for (;; p++) {
		if (cpu_number(&p, &first) < 0)
			return 0;
		if (*p == '-') {
			p++;
			if (cpu_number(&p, &last) < 0 || last < first)
				return 0;
		}
		if (*p != ',')
			return !*p;
	}
}

int limitopts_cpuset(const char *text, struct cgroup_limits *l, struct err *e)
{
	size_t n = strlen(text);

	if (n >= sizeof(l->cpuset) || !is_cpu_list(text))
		return err_set(e, ERR_INVALID, "'%.80s' is not a list of CPUs; hint: such as 0-1,3",
			       text);
	memcpy(l->cpuset, text, n + 1);
	return 0;
}

#define BYTES_MIN 1024           /* at a lower rate no program would ever end */
#define OPS_MAX (UINT32_MAX - 1) /* the kernel's number, whose highest is none */

static const char *const keys[] = {
	[IO_READ] = "read",
	[IO_WRITE] = "write",
	[IO_READ_OPS] = "read-iops",
	[IO_WRITE_OPS] = "write-iops",
};
_Static_assert(ARRAY_LEN(keys) == CGROUP_IO_KINDS, "one key a kind");

static int bad_rate(const char *text, struct err *e)
{
	return err_set(e, ERR_INVALID,
		       "'%.80s' is not a rate of I/O; hint: such as "
		       "/dev/vda:read=10m,write=5m,read-iops=100,write-iops=50, or "
		       "/dev/vda:unlimited",
		       text);
}

/* "KEY=VALUE", n bytes of it; a key is named once. */
static int set_rate(const char *word, size_t n, const char *text, struct cgroup_io_rate *rate,
		    struct err *e)
{
	char one[64], *value;
	size_t k;

	if (n >= sizeof(one))
		return bad_rate(text, e);
	memcpy(one, word, n);
	one[n] = '\0';
	value = strchr(one, '=');
	if (!value)
		return bad_rate(text, e);
	*value++ = '\0';
	for (k = 0; k < ARRAY_LEN(keys) && strcmp(one, keys[k]); k++)
		;
	if (k == ARRAY_LEN(keys) || rate->v[k] != CGROUP_UNLIMITED)
		return bad_rate(text, e);
	return k == IO_READ || k == IO_WRITE ?
		       num_size(value, "io-rate", BYTES_MIN, 1ULL << 50, &rate->v[k], e) :
		       num_u64(value, "io-rate", 1, OPS_MAX, &rate->v[k], e);
}

/* Where the rates begin: a path may have colons, they have none. */
static size_t path_length(const char *text)
{
	const char *colon = strrchr(text, ':');

	return colon ? (size_t)(colon - text) : 0;
}

int limitopts_io_parse(const char *text, struct limitopts_io *ret, struct err *e)
{
	const size_t n = path_length(text);
	const char *p = text + n + 1;
	size_t k;

	if (!n || n >= sizeof(ret->path) || text[0] != '/')
		return bad_rate(text, e);
	memcpy(ret->path, text, n);
	ret->path[n] = '\0';
	ret->rate = (struct cgroup_io_rate){0};
	for (k = 0; k < CGROUP_IO_KINDS; k++)
		ret->rate.v[k] = CGROUP_UNLIMITED;
	if (!strcmp(p, "unlimited"))
		return 0;
	for (;; p++) {
		size_t len = strcspn(p, ",");

		if (set_rate(p, len, text, &ret->rate, e) < 0)
			return -1;
		p += len;
		if (!*p)
			return 0;
	}
}

int limitopts_io_find(struct limitopts_io *io, struct err *e)
{
	const int writes = io->rate.v[IO_WRITE] != CGROUP_UNLIMITED ||
			   io->rate.v[IO_WRITE_OPS] != CGROUP_UNLIMITED;

	return cgroup_io_disk(io->path, writes, &io->rate.major, &io->rate.minor, e);
}

int limitopts_io_same(const char *a, const char *b)
{
	const size_t n = path_length(a);

	return n == path_length(b) && !strncmp(a, b, n);
}

int limitopts_io_settle(const char *const *texts, size_t count, const char *state_dir,
			struct cgroup_limits *l, struct err *e)
{
	struct limitopts_io io;
	unsigned maj, min;
	size_t i;

	for (i = 0; i < count; i++)
		if (limitopts_io_parse(texts[i], &io, e) < 0 || limitopts_io_find(&io, e) < 0 ||
		    cgroup_io_put(l, &io.rate, e) < 0)
			return -1;
	if (!l->io_weight)
		return 0;
	return cgroup_io_disk(state_dir, 0, &maj, &min, e) < 0 ? -1 : cgroup_io_weighs(maj, min, e);
}
