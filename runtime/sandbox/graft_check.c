/* SPDX-License-Identifier: Apache-2.0 */
/* What of a zygote may be forked, and what the kernel says of the fork.  Upholds S1 and S48 of
 * SECURITY.md. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/inject.h"
#include "runtime/sandbox/graft.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define TRY_MS 10000 /* until the zygote stops */

const struct graft_ns_kind graft_ns_kinds[] = {
	[GRAFT_USER] = {"user", CLONE_NEWUSER}, [GRAFT_MNT] = {"mnt", CLONE_NEWNS},
	[GRAFT_IPC] = {"ipc", CLONE_NEWIPC},    [GRAFT_UTS] = {"uts", CLONE_NEWUTS},
	[GRAFT_NET] = {"net", CLONE_NEWNET},    [GRAFT_CGROUP] = {"cgroup", CLONE_NEWCGROUP},
	[GRAFT_PID] = {"pid", CLONE_NEWPID},    [GRAFT_TIME] = {"time", CLONE_NEWTIME},
};

_Static_assert(ARRAY_LEN(graft_ns_kinds) == GRAFT_NS_COUNT, "one row for each namespace");

/* Before Linux 6.3 a process that has made a time namespace stays in the old one after execve(2).
 */
int graft_open_namespaces(pid_t pid, struct graft_place *p, struct err *e)
{
	char path[56];
	size_t i;

	for (i = 0; i < GRAFT_NS_COUNT; i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s%s", (int)pid, graft_ns_kinds[i].file,
			 i == GRAFT_TIME ? "_for_children" : "");
		p->ns_fd[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (p->ns_fd[i] < 0 && (i != GRAFT_TIME || errno != ENOENT))
			return err_sys(e, "open %s", path);
	}
	return 0;
}

/* ---- what may be forked ----------------------------------------------------------------- */

int graft_read_proc(pid_t pid, const char *file, struct buf *b, struct err *e)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return io_read_file(AT_FDCWD, path, b, e);
}

static const char *after(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p ? p + strlen(key) : "";
}

/* Nobody else may run in its sandbox: who could would share, or trace, what enters another one. */
int graft_check_alone(const struct graft_stock *s, struct err *e)
{
	char text[4096], *p = text, path[48];
	struct stat st;
	long pid;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
	if (stat(path, &st) < 0)
		return err_sys(e, "look at the zygote's threads");
	if (st.st_nlink != 3)
		return err_set(e, ERR_INVALID,
			       "the preload has %u threads, and a fork has one; hint: let it "
			       "start none, as by -e OPENBLAS_NUM_THREADS=1",
			       (unsigned)st.st_nlink - 2);
	if (cgroup_read(s->cgroup_fd, "cgroup.procs", text, sizeof(text)) < 0)
		return err_sys(e, "look at the zygote's processes");
	while (*p) {
		pid = strtol(p, &p, 10);
		p += strspn(p, "\n");
		if (pid != s->pid && pid != s->init)
			return err_set(e, ERR_INVALID,
				       "the preload has started a process that still runs; hint: "
				       "let it wait for its end");
	}
	return graft_check_maps(s->pid, e);
}

int graft_examine(struct graft_stock *s, uint32_t id_base, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 16);
	const char *p;
	char *end;

	if (graft_check_alone(s, e) < 0 || graft_read_proc(s->pid, "status", &b, e) < 0)
		return -1;
	s->uid = (uint32_t)strtoul(after(b.data, "\nUid:\t"), NULL, 10) - id_base;
	s->gid = (uint32_t)strtoul(after(b.data, "\nGid:\t"), NULL, 10) - id_base;
	s->filters = (unsigned)strtoul(after(b.data, "\nSeccomp_filters:\t"), NULL, 10);
	p = after(b.data, "\nGroups:\t");
	for (s->group_count = 0; *p != '\n' && *p; p = end + strspn(end, " ")) {
		uint32_t gid = (uint32_t)strtoul(p, &end, 10);

		if (end == p)
			break;
		if (s->group_count == GRAFT_GROUPS_MAX)
			return err_set(e, ERR_LIMIT, "the zygote's user has more than %d groups",
				       GRAFT_GROUPS_MAX);
		s->groups[s->group_count++] = gid - id_base;
	}
	return inject_try(s->pid, clock_ms() + TRY_MS, e);
}

/* ---- what the kernel says of the fork (S1) ------------------------------------------------------
 */

static int check_number(const char *status, const char *key, int base, uint64_t want, struct err *e)
{
	uint64_t got = strtoull(after(status, key), NULL, base);

	return got == want ? 0 :
			     err_set(e, ERR_INTERNAL,
				     "the kernel reports %.*s %llx of the fork, not %llx",
				     (int)strcspn(key + 1, ":"), key + 1, (unsigned long long)got,
				     (unsigned long long)want);
}

static int check_namespaces(const struct graft_place *p, pid_t pid, struct err *e)
{
	char path[48];
	struct stat a, b;
	size_t i;

	for (i = 0; i < GRAFT_NS_COUNT; i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, graft_ns_kinds[i].file);
		if (p->ns_fd[i] < 0)
			continue;
		if (stat(path, &a) < 0 || fstat(p->ns_fd[i], &b) < 0)
			return err_sys(e, "look at %s", path);
		if (a.st_ino != b.st_ino)
			return err_set(e, ERR_INTERNAL,
				       "the fork is not in the %s namespace of its sandbox",
				       graft_ns_kinds[i].file);
	}
	return 0;
}

/* Whether the line of a /proc/PID/cgroup names the cgroup leaf. */
static int is_leaf(const char *line, const char *leaf)
{
	const size_t n = strcspn(line, "\n"), of_leaf = leaf ? strlen(leaf) : 0;

	return leaf && n > of_leaf && line[n - of_leaf - 1] == '/' &&
	       !strncmp(line + n - of_leaf, leaf, of_leaf);
}

/* Of each hierarchy that of its sandbox's init, or the leaf; in the v2 tree it must be the leaf. */
static int check_cgroups(const struct graft_place *p, pid_t pid, struct err *e)
{
	autobuf struct buf a = BUF_INIT(1 << 16), b = BUF_INIT(1 << 16);
	const char *of_fork, *of_init;
	int right;

	if (graft_read_proc(pid, "cgroup", &a, e) < 0 ||
	    graft_read_proc(p->init, "cgroup", &b, e) < 0)
		return -1;
	of_fork = a.data ? a.data : "";
	of_init = b.data ? b.data : "";
	right = *of_fork && *of_init;
	while (right && *of_fork && *of_init) {
		const char *fork_end = strchrnul(of_fork, '\n');
		const char *init_end = strchrnul(of_init, '\n');
		const size_t n = (size_t)(fork_end - of_fork), m = (size_t)(init_end - of_init);

		right = is_leaf(of_fork, p->leaf) ||
			(n == m && !strncmp(of_fork, of_init, n) &&
			 (!p->leaf || strncmp(of_fork, "0::", 3)));
		right = right && !strncmp(of_fork, of_init, strcspn(of_fork, "/"));
		of_fork = fork_end + (*fork_end == '\n');
		of_init = init_end + (*init_end == '\n');
	}
	return right && !*of_fork && !*of_init ?
		       0 :
		       err_set(e, ERR_INTERNAL, "the fork is not in the cgroups of its sandbox");
}

int graft_verify(const struct graft_stock *s, const struct graft_place *p, pid_t pid, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 16);
	const uint64_t caps = s->uid ? 0 : s->caps;

	if (graft_read_proc(pid, "status", &b, e) < 0 ||
	    check_number(b.data, "\nCapBnd:\t", 16, s->caps, e) < 0 ||
	    check_number(b.data, "\nCapPrm:\t", 16, caps, e) < 0 ||
	    check_number(b.data, "\nCapEff:\t", 16, caps, e) < 0 ||
	    check_number(b.data, "\nCapInh:\t", 16, 0, e) < 0 ||
	    check_number(b.data, "\nCapAmb:\t", 16, 0, e) < 0 ||
	    check_number(b.data, "\nNoNewPrivs:\t", 10, 1, e) < 0 ||
	    check_number(b.data, "\nSeccomp:\t", 10, 2, e) < 0 ||
	    check_number(b.data, "\nSeccomp_filters:\t", 10, s->filters, e) < 0 ||
	    check_number(b.data, "\nThreads:\t", 10, 1, e) < 0)
		return -1;
	return check_namespaces(p, pid, e) < 0 ? -1 : check_cgroups(p, pid, e);
}
