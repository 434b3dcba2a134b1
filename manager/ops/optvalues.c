/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/host/config.h"
#include "manager/ops/optvalues.h"
#include "runtime/kernel/cgroup_io.h"

/* ---- --env and --env-file ---- */

#define ENV_FILE_MAX (1u << 20)

char *envopts_settle(const char *text, struct err *e)
{
	const char *eq = strchr(text, '='), *value = NULL;
	char *both;

	if (!config_is_env_name(text, eq ? (size_t)(eq - text) : strlen(text))) {
		err_set(e, ERR_INVALID, "'%.80s' is not NAME=VALUE", text);
		return NULL;
	}
	/* the operator names a variable of the caller; an image never can (E14) */
	if (!eq && !(value = getenv(text))) {
		err_set(e, ERR_INVALID, "the caller has no variable %.80s; hint: %.80s=VALUE", text, text);
		return NULL;
	}
	if (asprintf(&both, "%s%s%s", text, eq ? "" : "=", eq ? "" : value) < 0) {
		err_nomem(e);
		return NULL;
	}
	return both;
}

/* Reads the operator's own file, which may be a link or a pipe of a shell. */
static int read_operators_file(const char *path, struct buf *b, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat %s", path);
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is neither a file nor a pipe", path);
	return io_read_all(fd, b, path, e);
}

int envopts_lines(const char *path, envopts_line *each, void *ctx, struct err *e)
{
	autobuf struct buf b = BUF_INIT(ENV_FILE_MAX);
	char *line, *next;
	unsigned number = 0;

	if (read_operators_file(path, &b, e) < 0)
		return -1;
	if (b.data && strlen(b.data) != b.len)
		return err_set(e, ERR_INVALID, "%s holds a NUL byte", path);
	for (line = b.data; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		if (!line[0] || line[0] == '#')
			continue;
		if (each(ctx, line, e) < 0)
			return err_wrap(e, "%s:%u", path, number);
	}
	return 0;
}

struct checked {
	envopts_line *each;
	void *ctx;
};

static int check_line(void *ctx, const char *line, struct err *e)
{
	const struct checked *c = ctx;

	if (!strchr(line, '=') || !config_is_env_name(line, strcspn(line, "=")))
		return err_set(e, ERR_INVALID, "'%.80s' is not NAME=VALUE", line);
	return c->each(c->ctx, line, e);
}

int envopts_file(const char *path, envopts_line *each, void *ctx, struct err *e)
{
	struct checked c = { each, ctx };

	return envopts_lines(path, check_line, &c, e);
}

static int append_env_line(void *list, const char *line, struct err *e)
{
	return json_array_append_new(list, json_string(line)) < 0 ? err_set(e, ERR_INVALID, "the value is not valid UTF-8") : 0;
}

int envopts_add(json_t *list, int is_file, const char *value, struct err *e)
{
	autofree char *entry = NULL;

	if (is_file)
		return envopts_file(value, append_env_line, list, e);
	entry = envopts_settle(value, e);
	return entry ? append_env_line(list, entry, e) : -1;
}

/* ---- limits ---- */

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

/* Checks "N" or "N-M", separated by commas. */
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
#define OPS_MAX (UINT32_MAX - 1) /* the highest number of the kernel means no limit */

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

/* Sets "KEY=VALUE", n bytes of it; a key may occur once. */
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

/* Returns where the rates begin: a path may have colons, the rates have none. */
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

/* ---- signals ---- */

#define RT_FIRST 34
#define RT_LAST 64

/*
 * Parses RTMIN+3, RTMAX-1: as glibc and every shell count them, whichever this libc reserves. 1:
 * neither form.
 */
static int realtime_number(const char *name, uint64_t *ret, struct err *e)
{
	const int is_min = !strncasecmp(name, "RTMIN", 5), is_max = !strncasecmp(name, "RTMAX", 5);
	uint64_t n = 0;

	if ((!is_min && !is_max) || (name[5] && name[5] != (is_min ? '+' : '-')))
		return 1;
	if (name[5] && num_u64(name + 6, "signal", 0, RT_LAST - RT_FIRST, &n, e) < 0)
		return -1;
	*ret = is_min ? RT_FIRST + n : RT_LAST - n;
	return 0;
}

int signal_number(const char *word, uint64_t *ret, struct err *e)
{
	const char *name = strncasecmp(word, "SIG", 3) ? word : word + 3;
	int i = realtime_number(name, ret, e);

	if (i <= 0)
		return i;
	if (isdigit((unsigned char)word[0]))
		return num_u64(word, "signal", 1, 64, ret, e);
	for (i = 1; i < NSIG; i++) {
		const char *s = sigabbrev_np(i);

		if (s && !strcasecmp(s, name)) {
			*ret = (uint64_t)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%.20s' is not a signal; hint: TERM, KILL, INT, ... or a number", word);
}
