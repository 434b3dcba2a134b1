/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/cgroup.h"

#define MOUNT "/sys/fs/cgroup"

static int is_type(const char *path, long magic)
{
	struct statfs st;

	return statfs(path, &st) == 0 && (unsigned long)st.f_type == (unsigned long)magic;
}

/* An absolute path without "."; the hierarchy's mount point is put in front of it. */
static int check_path(const char *path, struct err *e)
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

static int add(struct oci_cgroup *c, const char *name, const char *root, const char *own, const char *path,
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

/* One line of /proc/self/cgroup: "4:memory:/own/path", "0::/". */
static int add_line(struct oci_cgroup *c, char *line, const char *path, const char *id, struct err *e)
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
			return is_type(MOUNT "/unified", CGROUP2_SUPER_MAGIC) ?
			       add(c, OCI_CGROUP_UNIFIED, MOUNT "/unified", own, path, id, e) : 0;
		/* our own cgroup holds processes, so no controller can be enabled below it: beside it, as runc */
		slash = strrchr(own, '/');
		if (slash)
			slash[slash == own] = '\0';
		return add(c, OCI_CGROUP_UNIFIED, MOUNT, own, path, id, e);
	}
	if (c->v2)
		return 0;
	if (!strncmp(names, "name=", 5))
		names += 5;
	snprintf(root, sizeof(root), MOUNT "/%.100s", names);
	return is_type(root, CGROUP_SUPER_MAGIC) ? add(c, names, root, own, path, id, e) : 0;
}

int oci_cgroup_plan(struct oci_cgroup *c, const char *path, const char *id, struct err *e)
{
	autobuf struct buf text = BUF_INIT(65536);
	char *line, *save = NULL;

	memset(c, 0, sizeof(*c));
	if (path && check_path(path, e) < 0)
		return -1;
	c->v2 = is_type(MOUNT, CGROUP2_SUPER_MAGIC);
	if (io_read_file(AT_FDCWD, "/proc/self/cgroup", &text, e) < 0)
		return -1;
	for (line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (add_line(c, line, path, id, e) < 0) {
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
 * A new v1 cpuset allows nothing, so it gets what its parent allows. 0: the parent allows
 * nothing itself.
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
static int make_dirs(const struct oci_cgroup *c, struct oci_cgroup_part *p, struct err *e)
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
		/* somebody's mkdir(1) of the one above leaves that empty: then all levels in turn */
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
		int old = make_dirs(c, p, e);

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

/* In runc's words, which its tests look for. */
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
