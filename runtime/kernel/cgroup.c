/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/cgroup.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/cgroup_backends.h"

int cgroup_read(int dirfd, const char *file, char *buf, unsigned n)
{
	autoclose int fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC);
	ssize_t r;

	if (fd < 0)
		return -1;
	r = read(fd, buf, n - 1);
	if (r < 0)
		return -1;
	buf[r] = '\0';
	return (int)r;
}

int cgroup_read_held(struct cgroup *c, int slot, int dirfd, const char *file, char *buf, unsigned n)
{
	ssize_t r;

	if (!c->holds)
		return cgroup_read(dirfd, file, buf, n);
	if (c->held[slot] < 0)
		c->held[slot] = openat(dirfd, file, O_RDONLY | O_CLOEXEC);
	r = c->held[slot] < 0 ? -1 : pread(c->held[slot], buf, n - 1, 0);
	if (r < 0)
		return -1;
	buf[r] = '\0';
	return (int)r;
}

void cgroup_hold(struct cgroup *c)
{
	c->holds = 1;
}

int cgroup_write(int dirfd, const char *file, const char *text)
{
	autoclose int fd = openat(dirfd, file, O_WRONLY | O_CLOEXEC);
	ssize_t n = (ssize_t)strlen(text), w;

	if (fd < 0)
		return -1;
	do
		w = write(fd, text, (size_t)n);
	while (w < 0 && errno == EINTR);
	if (w >= 0 && w != n) {
		errno = EIO;
		return -1;
	}
	return w < 0 ? -1 : 0;
}

uint64_t cgroup_stat_value(const char *text, const char *key)
{
	size_t n = strlen(key);
	const char *p = text;

	while (p) {
		if (!strncmp(p, key, n) && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
		p = strchr(p, '\n');
		if (p)
			p++;
	}
	return 0;
}

int cgroup_has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *p = list;

	while ((p = strstr(p, word))) {
		if ((p == list || isspace((unsigned char)p[-1])) && (!p[n] || isspace((unsigned char)p[n])))
			return 1;
		p += n;
	}
	return 0;
}

/* The kernel rounds memory limits down to whole pages; nothing else may differ. */
int cgroup_same_limit(const char *file, const char *got, uint64_t value)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t v;
	char *end;

	if (!isdigit((unsigned char)got[0]))
		return 0;
	v = strtoull(got, &end, 10);
	if (*end)
		return 0;
	if (value == CGROUP_UNLIMITED)	/* v1 shows "no limit" as a huge number */
		return v >= INT64_MAX / page * page;
	return v == value || (!strncmp(file, "memory.", 7) && v == value / page * page);
}

/* Upholds S1 and S8 of SECURITY.md. */
int cgroup_set(int dirfd, const char *file, uint64_t value, const char *unlimited, struct err *e)
{
	autoclose int fd = openat(dirfd, file, O_RDWR | O_CLOEXEC);
	char want[32], got[64];
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "open cgroup file %s", file);
	if (value == CGROUP_UNLIMITED)
		snprintf(want, sizeof(want), "%s", unlimited);
	else
		snprintf(want, sizeof(want), "%" PRIu64, value);
	if (write(fd, want, strlen(want)) != (ssize_t)strlen(want))
		return err_sys(e, "write %s to cgroup file %s", want, file);
	n = pread(fd, got, sizeof(got) - 1, 0);
	if (n < 0)
		return err_sys(e, "read back cgroup file %s", file);
	got[n > 0 && got[n - 1] == '\n' ? n - 1 : n] = '\0';
	if (strcmp(got, want) && !cgroup_same_limit(file, got, value))
		return err_set(e, ERR_UNSUPPORTED, "cgroup file %s holds %s after %s was written", file, got, want);
	return 0;
}

#define CPUS_MAX 8192	/* NR_CPUS of x86-64 at most */

struct cpus {
	uint64_t bit[CPUS_MAX / 64];
};

/* Reads a list that the kernel wrote, or that was checked. */
static void read_cpus(const char *p, struct cpus *ret)
{
	memset(ret, 0, sizeof(*ret));
	while (isdigit((unsigned char)*p)) {
		unsigned long first = strtoul(p, (char **)(size_t)&p, 10), last = first;

		if (*p == '-')
			last = strtoul(p + 1, (char **)(size_t)&p, 10);
		for (; first <= last && first < CPUS_MAX; first++)
			ret->bit[first / 64] |= 1ULL << first % 64;
		p += *p == ',';
	}
}

static int has_cpus(const struct cpus *all, const struct cpus *some)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(all->bit); i++)
		if (some->bit[i] & ~all->bit[i])
			return 0;
	return 1;
}

int cgroup_set_cpus(int dirfd, const char *list, const char *effective, struct err *e)
{
	struct cpus want, has;
	char may[512], got[512];

	if (cgroup_read(dirfd, effective, may, sizeof(may)) < 0)
		return err_sys(e, "read cgroup file %s", effective);
	may[strcspn(may, "\n")] = '\0';
	read_cpus(list, &want);
	read_cpus(may, &has);
	if (!has_cpus(&has, &want))
		return err_set(e, ERR_INVALID, "CPUs %s are not all there for this cgroup; hint: of %s", list, may);
	if (cgroup_write(dirfd, "cpuset.cpus", list) < 0)
		return err_code_sys(e, errno == EINVAL ? ERR_INVALID : ERR_SYS, "restrict the sandbox to CPUs %s", list);
	if (cgroup_read(dirfd, effective, got, sizeof(got)) < 0)
		return err_sys(e, "read back cgroup file %s", effective);
	read_cpus(got, &has);
	if (!has_cpus(&want, &has))
		return err_set(e, ERR_UNSUPPORTED, "cgroup file %s holds %s after %s was written", effective, got, list);
	return 0;
}

enum cgroup_mode cgroup_detect(void)
{
	struct statfs st;

	if (statfs("/sys/fs/cgroup", &st) < 0)
		return CGROUP_NONE;
	if (st.f_type == CGROUP2_SUPER_MAGIC)
		return CGROUP_V2;
	if (!statfs("/sys/fs/cgroup/unified", &st) && st.f_type == CGROUP2_SUPER_MAGIC)
		return CGROUP_HYBRID;
	return CGROUP_NONE;
}

static void clear_cgroup(struct cgroup *c, const struct cgroup_ops *ops, const char *parent, const char *name)
{
	int i;

	memset(c, 0, sizeof(*c));
	c->v2_fd = c->oom_fd = c->oom_control_fd = -1;
	for (i = 0; i < CGROUP_HELD_MAX; i++)
		c->held[i] = -1;
	for (i = 0; i < CGROUP_V1_COUNT; i++)
		c->v1_fd[i] = -1;
	for (i = 0; i < CGROUP_JOIN_MAX; i++)
		c->join_fd[i] = -1;
	c->ops = ops;
	snprintf(c->parent, sizeof(c->parent), "%s", parent);
	snprintf(c->name, sizeof(c->name), "%s", name);
}

static int prepare_cgroup(struct cgroup *c, const char *parent, const char *name, struct err *e)
{
	const enum cgroup_mode mode = cgroup_detect();

	clear_cgroup(c, mode == CGROUP_NONE ? NULL : mode == CGROUP_V2 ? &cgroup_ops_v2 : &cgroup_ops_hybrid, parent, name);
	if (mode == CGROUP_NONE)
		return err_set(e, ERR_UNSUPPORTED, "no cgroup v2 hierarchy at /sys/fs/cgroup or /sys/fs/cgroup/unified; "
			       "hint: mount one (mount -t cgroup2 cgroup2 /sys/fs/cgroup); `berth doctor` says more");
	return 0;
}

/*
 * Undoes a failed create. A cgroup that cannot be removed now stays open: its removal is tried
 * again, and gc knows the name.
 */
static int undo_cgroup_create(struct cgroup *c, const struct err *e)
{
	struct err ignored;

	if (e->code == ERR_EXISTS || c->ops->remove(c, &ignored) == 0)
		cgroup_release(c);
	return -1;
}

int cgroup_begin(struct cgroup *c, const char *parent, const char *name, const struct cgroup_limits *l, struct err *e)
{
	if (prepare_cgroup(c, parent, name, e) < 0)
		return -1;
	return c->ops->create(c, l, e) < 0 ? undo_cgroup_create(c, e) : 0;
}

int cgroup_complete(struct cgroup *c, const struct cgroup_limits *l, struct err *e)
{
	return c->ops->complete ? c->ops->complete(c, l, e) : 0;
}

int cgroup_create(struct cgroup *c, const char *parent, const char *name,
		  const struct cgroup_limits *l, struct err *e)
{
	if (cgroup_begin(c, parent, name, l, e) < 0)
		return -1;
	return cgroup_complete(c, l, e) < 0 ? undo_cgroup_create(c, e) : 0;
}

/*
 * Gives owner write permission on cgroup.procs of the target and of the common ancestor, which
 * clone3 requires.
 */
static int let_in(const struct cgroup *c, const struct cgroup *of, uint32_t owner, struct err *e)
{
	if (fchownat(c->v2_fd, "cgroup.procs", owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchownat(of->v2_fd, "cgroup.procs", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "let the sandbox's init into cgroup %s", c->name);
	return 0;
}

int cgroup_create_leaf(struct cgroup *c, const struct cgroup *of, const char *name,
		       const struct cgroup_limits *l, uint32_t owner, struct err *e)
{
	static const struct cgroup_limits none = {
		.memory_bytes = CGROUP_UNLIMITED, .swap_bytes = CGROUP_UNLIMITED, .cpu_milli = CGROUP_UNLIMITED,
		.pids = CGROUP_UNLIMITED, .oom_group = 1,
	};
	char full[sizeof(c->name)];
	struct err ignored;

	if ((size_t)snprintf(full, sizeof(full), "%s/%s", of->name, name) >= sizeof(full))
		return err_set(e, ERR_INTERNAL, "cgroup name %s is too long", name);
	clear_cgroup(c, of->ops, of->parent, full);
	if (c->ops->create_leaf(c, l ? l : &none, e) == 0 && let_in(c, of, owner, e) == 0)
		return 0;
	c->ops->remove(c, &ignored);
	cgroup_release(c);
	return -1;
}

int cgroup_open(struct cgroup *c, const char *parent, const char *name, struct err *e)
{
	if (prepare_cgroup(c, parent, name, e) < 0)
		return -1;
	return c->ops->open(c, e);
}

void cgroup_release(struct cgroup *c)
{
	int i;

	if (!c->ops)
		return;
	fd_close(&c->v2_fd);
	fd_close(&c->oom_fd);
	fd_close(&c->oom_control_fd);
	for (i = 0; i < CGROUP_HELD_MAX; i++)
		fd_close(&c->held[i]);
	for (i = 0; i < CGROUP_V1_COUNT; i++)
		fd_close(&c->v1_fd[i]);
	for (i = 0; i < CGROUP_JOIN_MAX; i++)
		fd_close(&c->join_fd[i]);
	c->ops = NULL;
}

void cgroup_remove_parent(const char *parent)
{
	/* rmdir refuses a cgroup in use; a hierarchy that does not exist needs no cleaning */
	static const char *const roots[] = { "", "/unified", "/memory", "/cpu", "/pids", "/blkio", "/devices", "/cpuset" };
	char path[160];
	size_t i;

	cgroup_remove_keepers(parent);
	for (i = 0; i < ARRAY_LEN(roots); i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", roots[i], parent);
		rmdir(path);
	}
	snprintf(path, sizeof(path), "/sys/fs/cgroup/devices/%s" CGROUP_DEV_SUFFIX, parent);
	rmdir(path);
}

int cgroup_usage(struct cgroup *c, struct cgroup_usage *ret, struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	return c->ops->usage(c, 0, ret, e);
}

int cgroup_usage_now(struct cgroup *c, struct cgroup_usage *ret, struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	return c->ops->usage(c, 1, ret, e);
}

json_t *cgroup_memory_stat(int dir_fd)
{
	char text[8192], *line, *save = NULL;
	json_t *all = json_object();
	size_t n = 0;

	if (dir_fd < 0 || cgroup_read(dir_fd, "memory.stat", text, sizeof(text)) <= 0)
		return all;
	for (line = strtok_r(text, "\n", &save); line && n < CGROUP_MEMORY_STAT; line = strtok_r(NULL, "\n", &save)) {
		char *space = strchr(line, ' ');
		unsigned long long v;

		if (!space)
			continue;
		*space++ = '\0';
		v = strtoull(space, NULL, 10);
		n += json_object_set_new(all, line, json_integer(v < INT64_MAX ? (json_int_t)v : INT64_MAX)) == 0;
	}
	return all;
}

json_t *cgroup_memory_stat_of(const struct cgroup *c)
{
	return cgroup_memory_stat(c->ops == &cgroup_ops_v2 ? c->v2_fd : c->v1_fd[V1_MEMORY]);
}

int cgroup_join_self(const int *join_fd, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (write(join_fd[i], "0", 1) != 1)
			return -1;
	return 0;
}

size_t cgroup_joins(const struct cgroup *c, int ret_fd[CGROUP_JOIN_MAX])
{
	size_t n = 0;
	int i;

	for (i = 0; i < CGROUP_JOIN_MAX; i++)
		if (c->join_fd[i] >= 0)
			ret_fd[n++] = c->join_fd[i];
	return n;
}

/*
 * Kills each process, for kernels before 5.14: nothing can fork while frozen, and SIGKILL ends
 * frozen tasks.
 */
static int kill_each(struct cgroup *c, struct err *e)
{
	static const int rounds = 50;
	int i;

	for (i = 0; i < rounds; i++) {
		char pids[65536], *p = pids;
		int n = cgroup_read(c->v2_fd, "cgroup.procs", pids, sizeof(pids));

		if (n < 0)
			return err_sys(e, "read cgroup.procs");
		if (n == 0)
			return 0;
		if (i == 0)
			cgroup_write(c->v2_fd, "cgroup.freeze", "1");
		while (*p) {
			long pid = strtol(p, &p, 10);

			if (pid > 0)
				kill((pid_t)pid, SIGKILL);
			while (*p == '\n')
				p++;
		}
	}
	return 0;
}

/* Upholds S7 of SECURITY.md. */
int cgroup_kill(struct cgroup *c, struct err *e)
{
	if (c->v2_fd < 0)
		return 0;
	if (!cgroup_write(c->v2_fd, "cgroup.kill", "1") || errno == ENODEV)
		return 0;
	if (errno == ENOENT)
		return kill_each(c, e);
	return err_sys(e, "write to cgroup.kill");
}

int cgroup_freeze(struct cgroup *c, int on, struct err *e)
{
	if (cgroup_write(c->v2_fd, "cgroup.freeze", on ? "1" : "0") < 0)
		return err_sys(e, "write to cgroup.freeze");
	return 0;
}

unsigned cgroup_more_ms(uint64_t *files)
{
	uint64_t before = *files;
	char text[64];

	if (cgroup_read(AT_FDCWD, "/proc/sys/fs/file-nr", text, sizeof(text)) <= 0)
		return 0;
	*files = strtoull(text, NULL, 10);
	/* 50 us a file is an estimate: the worst cost of a close was not measured */
	if (!before)
		return *files < 2000000 ? 1000 + (unsigned)(*files / 20) : 100000;
	return *files < before ? 1000 : 0;
}

int cgroup_wait_empty(struct cgroup *c, unsigned timeout_ms, struct err *e)
{
	autoclose int fd = -1;
	uint64_t began = clock_ms(), end = began + timeout_ms, files = 0;

	if (c->v2_fd < 0)
		return 0;
	fd = openat(c->v2_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : err_sys(e, "open cgroup.events");
	for (;;) {
		char text[256];
		struct pollfd p = { .fd = fd, .events = POLLPRI };
		uint64_t now;
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

		if (n < 0)
			return errno == ENODEV ? 0 : err_sys(e, "read cgroup.events");
		text[n] = '\0';
		if (!cgroup_stat_value(text, "populated"))
			return 0;
		now = clock_ms();
		if (now >= end)
			end = now + (timeout_ms < CGROUP_END_MS ? 0 : cgroup_more_ms(&files));
		if (now >= end)
			return err_set(e, ERR_TIMEOUT, "processes of cgroup %s/%s outlived SIGKILL by %llu ms",
				       c->parent, c->name, (unsigned long long)(now - began));
		/* the kernel notifies of a cgroup file at most every 10 ms: look more often than it tells */
		if (poll(&p, 1, 1) < 0 && errno != EINTR)
			return err_sys(e, "wait for cgroup.events");
	}
}

/* Tells whether no process is in it or below; 0 if the kernel does not say. */
static int cgroup_is_empty(const struct cgroup *c)
{
	char text[256];

	return c->v2_fd < 0 || (cgroup_read(c->v2_fd, "cgroup.events", text, sizeof(text)) > 0 &&
				cgroup_has_word(text, "populated") && !cgroup_stat_value(text, "populated"));
}

int cgroup_destroy_within(struct cgroup *c, unsigned ms, struct err *e)
{
	if (!c->ops)
		return 0;
	if (!cgroup_is_empty(c) && (cgroup_kill(c, e) < 0 || cgroup_wait_empty(c, ms, e) < 0))
		return -1;
	return c->ops->remove(c, e);
}

int cgroup_destroy(struct cgroup *c, struct err *e)
{
	return cgroup_destroy_within(c, CGROUP_END_MS, e);
}

/* ---- directories of the trees ---- */

int cgroup_dir(const char *root, const char *parent, const char *name, int make, struct err *e)
{
	char path[256];
	int fd, tries;

	snprintf(path, sizeof(path), "%s/%s/%s", root, parent, name);
	/* the parent may be missing, and gc may remove an empty one at any time */
	for (tries = 0; make && mkdir(path, 0755) < 0; tries++) {
		char above[256];

		if (errno != ENOENT || tries == 8)
			return err_code_sys(e, errno == EEXIST ? ERR_EXISTS : ERR_SYS, "make cgroup %s", path);
		snprintf(above, sizeof(above), "%s/%s", root, parent);
		if (mkdir(above, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make cgroup %s", above);
	}
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open cgroup %s", path);
		if (make)
			rmdir(path);
	}
	return fd;
}

/*
 * Removes the cgroups below. Our own nest at most two deep; the sandbox cannot have made any (its
 * view is read-only).
 */
static int remove_cgroups_below(const char *path, int depth, struct err *e)
{
	struct dirent *d;
	DIR *dir;

	if (!rmdir(path) || errno == ENOENT)
		return 0;
	if ((errno != EBUSY && errno != ENOTEMPTY) || depth == 0)
		return err_code_sys(e, errno == EBUSY ? ERR_BUSY : ERR_SYS, "remove cgroup %s", path);
	dir = opendir(path);
	if (!dir)
		return err_sys(e, "open cgroup %s", path);
	while ((d = readdir(dir))) {
		char sub[512];

		if (d->d_type != DT_DIR || d->d_name[0] == '.')
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, d->d_name);
		if (remove_cgroups_below(sub, depth - 1, e) < 0) {
			closedir(dir);
			return -1;
		}
	}
	closedir(dir);
	if (rmdir(path) < 0 && errno != ENOENT)
		return err_code_sys(e, errno == EBUSY ? ERR_BUSY : ERR_SYS, "remove cgroup %s", path);
	return 0;
}

int cgroup_rmdir(const char *root, const char *parent, const char *name, struct err *e)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s/%s", root, parent, name);
	return remove_cgroups_below(path, 3, e);
}

void cgroup_each_process(int dirfd, void (*each)(void *ctx, pid_t pid), void *ctx)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	autoclose int fd = openat(dirfd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	struct err ignored;
	char *p, *end;

	if (fd < 0 || io_read_all(fd, &b, "cgroup.procs", &ignored) < 0 || !b.len)
		return;
	for (p = b.data; *p; p = *end ? end + 1 : end) {
		long pid = strtol(p, &end, 10);

		if (end == p)
			break;
		/* a process of another pid namespace is 0 */
		if (pid > 0)
			each(ctx, (pid_t)pid);
	}
}

/* ---- whether a frozen cgroup stands still ---- */

/*
 * Tells whether a frozen cgroup stands still.
 *
 * "frozen 1" of a cgroup that has processes and cgroups below it means that its own processes are
 * frozen, or all that are below it, and not both (cgroup_update_frozen() and
 * cgroup_propagate_frozen() in kernel/cgroup/freezer.c, Linux 6.18). On hybrid hosts the cgroup of
 * a sandbox has both, so each cgroup below it is asked, too.
 */

/* A cgroup that still moves. */
struct moving {
	int dir;    /* where to look */
	int events; /* its cgroup.events; -1: no such cgroup was found */
};

/* Tells whether the cgroup dir is frozen, or gone; else its events are in m. */
static int is_still(struct moving *m, int dir)
{
	autoclose int events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
	char text[128];
	const ssize_t n = events < 0 ? -1 : pread(events, text, sizeof(text) - 1, 0);

	if (n < 0)
		return 1;
	text[n] = '\0';
	if (cgroup_stat_value(text, "frozen"))
		return 1;
	m->events = take_fd(&events);
	return 0;
}

static int find_moving_below(struct moving *m, int dir);

static int find_moving_at(void *ctx, const char *name)
{
	struct moving *m = ctx;
	autoclose int dir = openat(m->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return dir >= 0 && find_moving_below(m, dir);
}

/* Returns 1 if it found a cgroup that moves. */
static int find_moving_below(struct moving *m, int dir)
{
	const int above = m->dir;
	int failed = 0, found;

	if (!is_still(m, dir))
		return 1;
	m->dir = dir;
	found = path_each_entry(dir, find_moving_at, m, &failed);
	m->dir = above;
	return found || (failed && errno != ENOENT && errno != ENODEV);
}

int cgroup_wait_still(int v2_fd, unsigned timeout_ms)
{
	const uint64_t end = clock_ms() + timeout_ms;

	for (;;) {
		struct moving m = { -1, -1 };
		autoclose int top = openat(v2_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		const int moves = top < 0 || find_moving_below(&m, top);
		autoclose int events = m.events;
		struct pollfd p = { .fd = events, .events = POLLPRI };
		const uint64_t now = clock_ms();

		if (!moves)
			return 1;
		if (events < 0 || now >= end)
			return 0;
		poll(&p, 1, (int)(end - now));
	}
}

/* ---- pressure ---- */

static const char *const names[] = { "cpu", "memory", "io" };
_Static_assert(ARRAY_LEN(names) == PRESSURE_COUNT, "each kind has a name");

const char *pressure_name(enum pressure_kind kind)
{
	return names[kind];
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" */
static int parse_line(const char *line, const char *word, struct pressure_line *ret)
{
	unsigned whole[3], part[3];
	const size_t n = strlen(word);
	uint64_t total;

	if (strncmp(line, word, n) || line[n] != ' ')
		return 0;
	if (sscanf(line + n, " avg10=%u.%2u avg60=%u.%2u avg300=%u.%2u total=%" SCNu64, &whole[0],
		   &part[0], &whole[1], &part[1], &whole[2], &part[2], &total) != 7)
		return 0;
	*ret = (struct pressure_line){ whole[0] * 100 + part[0], whole[1] * 100 + part[1],
				       whole[2] * 100 + part[2], total };
	return 1;
}

int pressure_parse(const char *text, struct pressure *ret)
{
	const char *second = strchr(text, '\n');
	struct pressure p = { { 0 }, { 0 } };

	if (!parse_line(text, "some", &p.some))
		return 0;
	/* before Linux 5.13 there was no "full" line for the CPU */
	if (second && second[1] && !parse_line(second + 1, "full", &p.full))
		return 0;
	*ret = p;
	return 1;
}

int pressure_read(int dirfd, enum pressure_kind kind, struct pressure *ret)
{
	char file[32], text[512];

	snprintf(file, sizeof(file), "%s.pressure", names[kind]);
	return cgroup_read(dirfd, file, text, sizeof(text)) > 0 && pressure_parse(text, ret);
}
