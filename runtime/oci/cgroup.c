/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/getdents.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/cgroup.h"

#define MOUNT "/sys/fs/cgroup"

static int is_fs_magic(const char *path, long magic)
{
	struct statfs st;

	return statfs(path, &st) == 0 && (unsigned long)st.f_type == (unsigned long)magic;
}

/* An absolute path without "."; the hierarchy's mount point is put in front of it. */
static int check_cgroups_path(const char *path, struct err *e)
{
	const char *p = path;

	while (*p) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.')
			return err_set(e, ERR_INVALID, "linux.cgroupsPath: '%.200s' holds \"..\"", path);
		p += n + strspn(p + n, "/");
	}
	return 0;
}

static int add_oci_hierarchy(struct oci_cgroup *c, const char *name, const char *root, const char *own, const char *path,
	       const char *id, struct err *e)
{
	struct oci_cgroup_part *p = &c->part[c->count];
	char dir[PATH_MAX];
	int n;

	if (c->count == OCI_CGROUP_PARTS || strlen(name) >= sizeof(p->name))
		return err_set(e, ERR_UNSUPPORTED, "this host has more than %d cgroup hierarchies", OCI_CGROUP_PARTS);
	if (path && path[0] == '/')
		n = snprintf(dir, sizeof(dir), "%s%s", root, path);
	else
		n = snprintf(dir, sizeof(dir), "%s%s/%s", root, own[1] ? own : "", path && *path ? path : id);
	if ((size_t)n >= sizeof(dir))
		return err_set(e, ERR_INVALID, "linux.cgroupsPath is too long");
	while (n > 1 && dir[n - 1] == '/')
		dir[--n] = '\0';
	if ((size_t)n <= strlen(root))
		return err_set(e, ERR_INVALID, "linux.cgroupsPath: the root cgroup cannot be a container's");
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->join_fd = p->dir_fd = -1;
	p->root_len = p->theirs_len = strlen(root);
	p->dir = strdup(dir);
	if (!p->dir)
		return err_nomem(e);
	c->count++;
	return 0;
}

/* Adds one line of /proc/self/cgroup: "4:memory:/own/path", "0::/". */
static int add_own_cgroup_line(struct oci_cgroup *c, char *line, const char *path, const char *id, struct err *e)
{
	char *names = strchr(line, ':'), *own = names ? strchr(names + 1, ':') : NULL;
	char root[160];

	if (!own)
		return 0;
	*own++ = '\0';
	names++;
	if (!*names) {
		char *slash;

		if (!c->v2)
			return is_fs_magic(MOUNT "/unified", CGROUP2_SUPER_MAGIC) ?
			       add_oci_hierarchy(c, OCI_CGROUP_UNIFIED, MOUNT "/unified", own, path, id, e) : 0;
		/* our own cgroup holds processes, so no controller can be enabled below it: beside it, as runc */
		slash = strrchr(own, '/');
		if (slash)
			slash[slash == own] = '\0';
		return add_oci_hierarchy(c, OCI_CGROUP_UNIFIED, MOUNT, own, path, id, e);
	}
	if (c->v2)
		return 0;
	if (!strncmp(names, "name=", 5))
		names += 5;
	snprintf(root, sizeof(root), MOUNT "/%.100s", names);
	return is_fs_magic(root, CGROUP_SUPER_MAGIC) ? add_oci_hierarchy(c, names, root, own, path, id, e) : 0;
}

int oci_cgroup_plan(struct oci_cgroup *c, const char *path, const char *id, struct err *e)
{
	autobuf struct buf text = BUF_INIT(65536);
	char *line, *save = NULL;

	memset(c, 0, sizeof(*c));
	if (path && check_cgroups_path(path, e) < 0)
		return -1;
	c->v2 = is_fs_magic(MOUNT, CGROUP2_SUPER_MAGIC);
	if (io_read_file(AT_FDCWD, "/proc/self/cgroup", &text, e) < 0)
		return -1;
	for (line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (add_own_cgroup_line(c, line, path, id, e) < 0) {
			oci_cgroup_release(c);
			return -1;
		}
	}
	return 0;
}

int oci_cgroup_plan_scope(struct oci_cgroup *c, const char *scope, struct err *e)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/container", scope) >= sizeof(path))
		return err_set(e, ERR_INVALID, "linux.cgroupsPath is too long");
	if (oci_cgroup_plan(c, path, "", e) < 0)
		return -1;
	c->part[0].theirs_len += strlen(scope);
	return 0;
}

void oci_cgroup_release(struct oci_cgroup *c)
{
	size_t i;

	for (i = 0; i < c->count; i++) {
		fd_close(&c->part[i].join_fd);
		fd_close(&c->part[i].dir_fd);
		free(c->part[i].dir);
	}
	c->count = 0;
}

/*
 * Gives a new v1 cpuset, which allows nothing, what its parent allows. 0: the parent allows nothing
 * itself.
 */
static int inherit_cpuset(const char *dir)
{
	static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };
	int complete = 1;
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++) {
		char from[PATH_MAX], to[PATH_MAX], all[4096], now[16];
		const char *slash = strrchr(dir, '/');

		snprintf(from, sizeof(from), "%.*s/%s", (int)(slash - dir), dir, files[i]);
		snprintf(to, sizeof(to), "%s/%s", dir, files[i]);
		if (cgroup_read(AT_FDCWD, to, now, sizeof(now)) > 1)
			continue;
		if (cgroup_read(AT_FDCWD, from, all, sizeof(all)) > 1)
			cgroup_write(AT_FDCWD, to, all);
		else
			complete = 0;
	}
	return complete;
}

/* v2: passes every controller of dir on to its children; a limit that then has no file says so itself. */
static void delegate(const char *dir)
{
	char have[512], on[512], line[600] = "", path[PATH_MAX], *word, *save = NULL;
	size_t len = 0;

	snprintf(path, sizeof(path), "%s/cgroup.controllers", dir);
	if (cgroup_read(AT_FDCWD, path, have, sizeof(have)) <= 0)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir);
	if (cgroup_read(AT_FDCWD, path, on, sizeof(on)) < 0)
		return;
	for (word = strtok_r(have, " \n", &save); word; word = strtok_r(NULL, " \n", &save))
		if (!cgroup_has_word(on, word))
			len += (size_t)snprintf(line + len, sizeof(line) - len, "+%s ", word);
	if (!len || !cgroup_write(AT_FDCWD, path, line))
		return;
	/*
	 * a controller that cannot be enabled (cpu with realtime processes, say) must not
	 * prevent the others
	 */
	for (word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
		cgroup_write(AT_FDCWD, path, word);
}

/* mkdir -p, with what each level needs.  1: it was there already. */
static int make_oci_cgroup_dirs(const struct oci_cgroup *c, struct oci_cgroup_part *p, struct err *e)
{
	const int cpuset = !c->v2 && cgroup_has_word(p->name, "cpuset");
	char *slash = p->dir + p->root_len;

	if (c->v2) {
		/*
		 * also in a cgroup of systemd's: hugetlb, rdma and misc are not its controllers,
		 * and it leaves them alone
		 */
		while (slash && slash <= p->dir + p->theirs_len) {
			*slash = '\0';
			delegate(p->dir);
			*slash = '/';
			slash = strchr(slash + 1, '/');
		}
		slash = p->dir + p->theirs_len;
	} else if (mkdir(p->dir, 0755) == 0) {	/* most often only the last is missing */
		/* a parent that another program made with mkdir(1) is empty: then all levels in turn */
		if (!cpuset || inherit_cpuset(p->dir))
			return 0;
	}
	for (;;) {
		char *next = strchr(slash + 1, '/');
		int old = 0;

		if (next)
			*next = '\0';
		if (mkdir(p->dir, 0755) < 0) {
			if (errno != EEXIST)
				return err_sys(e, "make cgroup %s", p->dir);
			old = 1;
		}
		if (cpuset)
			inherit_cpuset(p->dir);
		if (!next)
			return old;
		if (c->v2)
			delegate(p->dir);
		*next = '/';
		slash = next;
	}
}

static int occupied(const struct oci_cgroup_part *p, struct err *e)
{
	return err_set(e, ERR_BUSY, "container's cgroup is not empty: %s has processes in it", p->dir);
}

int oci_cgroup_check_vacant(const struct oci_cgroup *c, struct err *e)
{
	char path[PATH_MAX], some[64];
	size_t i;

	for (i = 0; i < c->count; i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", c->part[i].dir);
		if (cgroup_read(AT_FDCWD, path, some, sizeof(some)) > 0)
			return occupied(&c->part[i], e);
	}
	return 0;
}

/* A cgroup that was left frozen would stop every process that enters it. */
static int check_thawed(const struct oci_cgroup_part *p, struct err *e)
{
	char state[16];

	if ((cgroup_read(p->dir_fd, "freezer.state", state, sizeof(state)) > 0 && strncmp(state, "THAWED", 6) != 0) ||
	    (cgroup_read(p->dir_fd, "cgroup.freeze", state, sizeof(state)) > 0 && state[0] == '1'))
		return err_hint((err_set(e, ERR_BUSY, "container's cgroup unexpectedly frozen: %s", p->dir), e),
				"thaw it (freezer.state, cgroup.freeze), or remove it");
	return 0;
}

int oci_cgroup_create(struct oci_cgroup *c, struct err *e)
{
	size_t i;

	for (i = 0; i < c->count; i++) {
		struct oci_cgroup_part *p = &c->part[i];
		char some[64];
		int old = make_oci_cgroup_dirs(c, p, e);

		if (old < 0)
			return -1;
		p->dir_fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (p->dir_fd < 0)
			return err_sys(e, "open cgroup %s", p->dir);
		if (cgroup_read(p->dir_fd, "cgroup.procs", some, sizeof(some)) > 0)
			return occupied(p, e);
		if (old && check_thawed(p, e) < 0)
			return -1;
		if (!strcmp(p->name, OCI_CGROUP_UNIFIED))
			continue;
		/* a thread that moves itself through `tasks` takes no global lock (cgroup.h) */
		p->join_fd = openat(p->dir_fd, "tasks", O_WRONLY | O_CLOEXEC);
		if (p->join_fd < 0)
			return err_sys(e, "open %s/tasks", p->dir);
	}
	return 0;
}

void oci_cgroup_unmake(const struct oci_cgroup *c)
{
	size_t i;

	for (i = 0; i < c->count; i++)
		if (c->part[i].dir_fd >= 0)
			rmdir(c->part[i].dir);
}

int oci_cgroup_open(struct oci_cgroup *c, struct err *e)
{
	size_t i;

	for (i = 0; i < c->count; i++) {
		struct oci_cgroup_part *p = &c->part[i];

		if (p->dir_fd >= 0)
			continue;
		p->dir_fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (p->dir_fd < 0 && errno != ENOENT)
			return err_sys(e, "open cgroup %s", p->dir);
	}
	return 0;
}

json_t *oci_cgroup_to_json(const struct oci_cgroup *c)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; list && i < c->count; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:i}", "name", c->part[i].name, "dir", c->part[i].dir,
						      "root", (int)c->part[i].root_len));
	return json_pack("{s:b, s:o}", "v2", c->v2, "parts", list);
}

int oci_cgroup_from_json(struct oci_cgroup *c, const json_t *j, struct err *e)
{
	json_t *list = json_object_get(j, "parts"), *v;
	size_t i;

	memset(c, 0, sizeof(*c));
	c->v2 = json_is_true(json_object_get(j, "v2"));
	json_array_foreach(list, i, v) {
		struct oci_cgroup_part *p = &c->part[c->count];
		const char *name = json_string_value(json_object_get(v, "name"));
		const char *dir = json_string_value(json_object_get(v, "dir"));

		if (i == OCI_CGROUP_PARTS || !name || !dir || strlen(name) >= sizeof(p->name) || strlen(dir) >= PATH_MAX) {
			oci_cgroup_release(c);
			return err_set(e, ERR_CORRUPT, "the container's state: cgroups are damaged");
		}
		snprintf(p->name, sizeof(p->name), "%s", name);
		p->join_fd = p->dir_fd = -1;
		p->root_len = p->theirs_len = (size_t)json_integer_value(json_object_get(v, "root"));
		p->dir = strdup(dir);
		if (!p->dir)
			return err_nomem(e);
		c->count++;
	}
	return 0;
}

/* A word of a comma-separated list. */
static int names_it(const char *list, const char *controller)
{
	size_t n = strlen(controller);

	while (*list) {
		size_t m = strcspn(list, ",");

		if (m == n && !memcmp(list, controller, n))
			return 1;
		list += m + (list[m] == ',');
	}
	return 0;
}

int oci_cgroup_fd(const struct oci_cgroup *c, const char *controller)
{
	size_t i;

	for (i = 0; i < c->count; i++)
		if (names_it(c->part[i].name, controller))
			return c->part[i].dir_fd;
	return -1;
}

int oci_cgroup_clone_fd(const struct oci_cgroup *c)
{
	return oci_cgroup_fd(c, OCI_CGROUP_UNIFIED);
}

int oci_cgroup_join(const struct oci_cgroup *c, struct err *e)
{
	size_t i;

	for (i = 0; i < c->count; i++)
		if (c->part[i].join_fd >= 0 && write(c->part[i].join_fd, "0", 1) != 1)
			return err_sys(e, "join cgroup %s", c->part[i].dir);
	return 0;
}

/* Reports the failure in runc's words, which its tests look for. */
static int cannot_add(const struct oci_cgroup_part *p, const char *sub, struct err *e)
{
	const int saved = errno;
	const char *below = sub ? sub : "", *slash = *below ? "/" : "";

	err_errno(e, saved, "adding pid %d to cgroups %s%s%s/cgroup.procs", (int)getpid(), p->dir, slash, below);
	if (saved == ENOENT)
		err_set(e, ERR_NOT_FOUND, "adding pid %d to cgroups %s%s%s/cgroup.procs: no such file or directory", (int)getpid(),
			p->dir, slash, below);
	return -1;
}

int oci_cgroup_enter(const struct oci_cgroup *c, const char *sub, struct err *e)
{
	char path[PATH_MAX];
	size_t i, missing = 0;

	for (i = 0; i < c->count; i++) {
		const struct oci_cgroup_part *p = &c->part[i];

		if (p->dir_fd < 0)
			continue;
		snprintf(path, sizeof(path), "%s%scgroup.procs", sub ? sub : "", sub && *sub ? "/" : "");
		if (cgroup_write(p->dir_fd, path, "0") == 0)
			continue;
		/* `exec --cgroup` may name one that only the v2 tree, or only a controller, has */
		if (errno == ENOENT && sub && *sub && !c->v2) {
			missing++;
			continue;
		}
		return cannot_add(p, sub, e);
	}
	if (missing && missing == c->count) {
		errno = ENOENT;
		return cannot_add(&c->part[0], sub, e);
	}
	return 0;
}

/* ---- every cgroup at and below one ---- */

#define NAMES_MAX (256u << 20)	/* far less than the cgroups of these names take of the kernel */

struct level {
	dev_t dev;
	ino_t ino;
	size_t names;	/* offset of its own names */
};

struct walk {
	struct level *levels;
	size_t depth, room;	/* depth of them are in use */
	/*
	 * names of cgroups still to walk; the last is the current one, except on the newest
	 * level
	 */
	struct buf names;
	int fd;
};

/*
 * Reads all names at once, before any cgroup is removed: a position to return to would be a hash of
 * the name, and names with one hash are easily made.
 */
static int read_cgroup_names(struct walk *w, struct err *e)
{
	_Alignas(struct getdents) char list[4096];
	long n, at;

	while ((n = getdents_read(w->fd, list, sizeof(list))) > 0)
		for (at = 0; at < n;) {
			const struct getdents *d = getdents_next(list, &at);

			if (d->type == DT_DIR && !getdents_dots(d->name) && buf_add(&w->names, d->name, strlen(d->name) + 1, e) < 0)
				return -1;
		}
	return n < 0 && errno != ENOENT ? err_sys(e, "read a cgroup directory") : 0;
}

/* fd is the walk's from here on. */
static int enter_walked_cgroup(struct walk *w, int fd, const struct oci_cgroup_walk *how, struct err *e)
{
	struct stat st;

	fd_close(&w->fd);
	w->fd = fd;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat a cgroup");
	if (w->depth == w->room) {
		size_t room = w->room ? w->room * 2 : 16;
		struct level *more = reallocarray(w->levels, room, sizeof(*more));

		if (!more)
			return err_nomem(e);
		w->levels = more;
		w->room = room;
	}
	w->levels[w->depth++] = (struct level){ st.st_dev, st.st_ino, w->names.len };
	if (how->enter && how->enter(how->ctx, fd, e) < 0)
		return -1;
	return read_cgroup_names(w, e);
}

static const char *last_name(const struct walk *w)
{
	const char *p = w->names.data + w->names.len - 1;

	while (p > w->names.data && p[-1])
		p--;
	return p;
}

static void drop_name(struct walk *w)
{
	w->names.len = (size_t)(last_name(w) - w->names.data);
}

/* Out of one with nothing left to walk. */
static int leave_walked_cgroup(struct walk *w, const struct oci_cgroup_walk *how, struct err *e)
{
	const struct level *above = &w->levels[--w->depth - 1];
	int up = path_open_above(w->fd, 0, above->dev, above->ino);

	if (up < 0)
		return errno == ESTALE ? err_set(e, ERR_BUSY, "a cgroup is not where it was") : err_sys(e, "go back from a cgroup");
	fd_close(&w->fd);
	w->fd = up;
	if (how->leave && how->leave(how->ctx, up, last_name(w), e) < 0)
		return -1;
	drop_name(w);
	return 0;
}

static int step_cgroup_walk(struct walk *w, const struct oci_cgroup_walk *how, struct err *e)
{
	int fd;

	if (clock_ms() >= how->end)
		return err_set(e, ERR_TIMEOUT, "the container's cgroups are too many, or grow");
	if (w->names.len == w->levels[w->depth - 1].names)
		return leave_walked_cgroup(w, how, e);
	fd = openat(w->fd, last_name(w), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return enter_walked_cgroup(w, fd, how, e);
	if (errno != ENOENT && errno != ENODEV)
		return err_sys(e, "open a cgroup");
	drop_name(w);
	return 0;
}

int oci_cgroup_walk(int fd, const struct oci_cgroup_walk *how, struct err *e)
{
	struct walk w = { .names = BUF_INIT(NAMES_MAX), .fd = -1 };
	int top = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (top < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : err_sys(e, "open a cgroup");
	r = enter_walked_cgroup(&w, top, how, e);
	while (r == 0 && (w.depth > 1 || w.names.len))
		r = step_cgroup_walk(&w, how, e);
	fd_close(&w.fd);
	buf_release(&w.names);
	free(w.levels);
	return r;
}

/* ---- the cgroup of a living container ---- */

/* The cgroup of a living container: its processes, signals, freezing, removal. */

#define CLEAR_MS 10000	/* the longest time of a removal, with the end of its processes */
#define WALK_MS 10000	/* the longest time of a list of the processes */

/* ---- what lives in it ------------------------------------------------------ */

struct pid_list {
	pid_t *pid;
	size_t count, cap;
};

static int add_oci_cgroup_pids(void *ctx, int dirfd, struct err *e)
{
	struct pid_list *l = ctx;
	autobuf struct buf text = BUF_INIT(16u << 20);
	autoclose int fd = openat(dirfd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	char *p;

	if (fd < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : err_sys(e, "open cgroup.procs");
	if (io_read_all(fd, &text, "cgroup.procs", e) < 0)
		return e->os_errno == ENODEV || e->os_errno == EOPNOTSUPP ? 0 : -1;
	for (p = text.data; p && *p;) {
		long pid = strtol(p, &p, 10);

		p += strspn(p, "\n");
		if (pid <= 0)
			continue;
		if (l->count == l->cap) {
			size_t cap = l->cap ? l->cap * 2 : 64;
			pid_t *more = reallocarray(l->pid, cap, sizeof(*more));

			if (!more)
				return err_nomem(e);
			l->pid = more;
			l->cap = cap;
		}
		l->pid[l->count++] = (pid_t)pid;
	}
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

/* Returns one hierarchy, which is enough because each process is in all of them. */
static int census_fd(const struct oci_cgroup *c)
{
	static const char *const order[] = { OCI_CGROUP_UNIFIED, "pids", "memory", "freezer", "systemd" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(order); i++) {
		int fd = oci_cgroup_fd(c, order[i]);

		if (fd >= 0)
			return fd;
	}
	return c->count ? c->part[0].dir_fd : -1;
}

/* Lists the pids. On failure too l has the pids found until then, and is the caller's. */
static int list_pids(const struct oci_cgroup *c, struct pid_list *l, uint64_t end, struct err *e)
{
	const struct oci_cgroup_walk w = { .enter = add_oci_cgroup_pids, .ctx = l, .end = end };
	int fd = census_fd(c);
	int r = fd < 0 ? 0 : oci_cgroup_walk(fd, &w, e);

	if (l->count)
		qsort(l->pid, l->count, sizeof(*l->pid), by_number);
	return r < 0 ? err_wrap(e, "list the container's processes") : 0;
}

int oci_cgroup_pids(const struct oci_cgroup *c, pid_t **ret, size_t *ret_count, struct err *e)
{
	struct pid_list l = { 0 };

	if (list_pids(c, &l, clock_ms() + WALK_MS, e) < 0) {
		free(l.pid);
		return -1;
	}
	*ret = l.pid;
	*ret_count = l.count;
	return 0;
}

static int signal_until(const struct oci_cgroup *c, int sig, uint64_t end, struct err *e)
{
	const int v2 = oci_cgroup_clone_fd(c);
	struct pid_list l = { 0 };
	size_t i;
	int r;

	if (sig == SIGKILL && v2 >= 0 && !cgroup_write(v2, "cgroup.kill", "1"))
		return 0;
	/* a container that makes cgroups faster than they are listed still gets the signal */
	r = list_pids(c, &l, end, e);
	for (i = 0; i < l.count; i++)
		if (kill(l.pid[i], sig) < 0 && errno != ESRCH) {
			r = err_sys(e, "send signal %d to process %d", sig, (int)l.pid[i]);
			break;
		}
	free(l.pid);
	return r;
}

int oci_cgroup_signal(const struct oci_cgroup *c, int sig, struct err *e)
{
	return signal_until(c, sig, clock_ms() + WALK_MS, e);
}

static int freeze_v1(int fd, int on, struct err *e)
{
	const char *want = on ? "FROZEN" : "THAWED";
	const uint64_t end = clock_ms() + 10000;
	char state[32];

	for (;;) {
		if (cgroup_write(fd, "freezer.state", want) < 0)
			return err_sys(e, "write %s to freezer.state", want);
		if (cgroup_read(fd, "freezer.state", state, sizeof(state)) < 0)
			return err_sys(e, "read freezer.state");
		if (!strncmp(state, want, strlen(want)))
			return 0;
		if (clock_ms() >= end) {
			/* otherwise a half-frozen container would stay so */
			cgroup_write(fd, "freezer.state", "THAWED");
			return err_set(e, ERR_TIMEOUT, "the container's processes did not freeze");
		}
		poll(NULL, 0, 1);
	}
}

int oci_cgroup_freeze(const struct oci_cgroup *c, int on, struct err *e)
{
	const uint64_t end = clock_ms() + 10000;
	int fd = oci_cgroup_fd(c, "freezer");
	char text[256];

	if (fd >= 0 && !c->v2)
		return freeze_v1(fd, on, e);
	fd = oci_cgroup_clone_fd(c);
	if (fd < 0)
		return err_set(e, ERR_UNSUPPORTED, "the container has no cgroup that can be frozen");
	if (cgroup_write(fd, "cgroup.freeze", on ? "1" : "0") < 0)
		return err_sys(e, "write to cgroup.freeze");
	while (on && cgroup_read(fd, "cgroup.events", text, sizeof(text)) > 0 && !cgroup_stat_value(text, "frozen")) {
		if (clock_ms() >= end) {
			cgroup_write(fd, "cgroup.freeze", "0");
			return err_set(e, ERR_TIMEOUT, "the container's processes did not freeze");
		}
		poll(NULL, 0, 1);
	}
	return 0;
}

int oci_cgroup_frozen(const struct oci_cgroup *c)
{
	int fd = oci_cgroup_fd(c, "freezer");
	char text[64];

	if (fd >= 0 && !c->v2)
		return cgroup_read(fd, "freezer.state", text, sizeof(text)) > 0 && strncmp(text, "THAWED", 6) != 0;
	fd = oci_cgroup_clone_fd(c);
	return fd >= 0 && cgroup_read(fd, "cgroup.freeze", text, sizeof(text)) > 0 && text[0] == '1';
}

/* ---- removal ------------------------------------------------------------- */

/* A cgroup with processes stays, and so do all above it; the others are removed. */
static int remove_oci_cgroup_child(void *ctx, int above, const char *name, struct err *e)
{
	(void)ctx;
	if (unlinkat(above, name, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != EBUSY)
		return err_sys(e, "remove cgroup %s", name);
	return 0;
}

/*
 * rmdir of the whole subtree: a container may have made cgroups of its own, at any depth. 1: it
 * has processes.
 */
static int remove_tree(const char *path, uint64_t end, struct err *e)
{
	const struct oci_cgroup_walk w = { .leave = remove_oci_cgroup_child, .end = end };
	autoclose int fd = -1;

	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	if (errno != EBUSY)
		return err_sys(e, "remove cgroup %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open cgroup %s", path);
	if (oci_cgroup_walk(fd, &w, e) < 0) {
		err_wrap(e, "remove cgroup %s", path);
		return e->code == ERR_TIMEOUT ? err_hint(e, "delete it again: what is gone is gone") : -1;
	}
	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	return errno == EBUSY ? 1 : err_sys(e, "remove cgroup %s", path);
}

/* Ends the processes; thaws them first, because a frozen process does not die. */
static int end_oci_cgroup(const struct oci_cgroup *c, uint64_t end, struct err *e)
{
	struct pid_list l = { 0 };
	struct err ignored;

	list_pids(c, &l, end, &ignored);
	free(l.pid);
	if (!l.count)
		return 0;
	if (oci_cgroup_frozen(c) && oci_cgroup_freeze(c, 0, e) < 0)
		return -1;
	return signal_until(c, SIGKILL, end, e);
}

int oci_cgroup_destroy(struct oci_cgroup *c, struct err *e)
{
	const uint64_t end = clock_ms() + CLEAR_MS;
	size_t i;

	for (i = 0; i < c->count; i++) {
		struct oci_cgroup_part *p = &c->part[i];
		int r;

		while ((r = remove_tree(p->dir, end, e)) != 0) {
			if (r < 0)
				return -1;
			if (clock_ms() >= end)
				return err_errno(e, EBUSY, "remove cgroup %s", p->dir);
			if (oci_cgroup_open(c, e) < 0 || end_oci_cgroup(c, end, e) < 0)
				return -1;
			poll(NULL, 0, 1);
		}
		fd_close(&p->dir_fd);
	}
	return 0;
}
