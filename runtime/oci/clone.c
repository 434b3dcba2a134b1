/* SPDX-License-Identifier: Apache-2.0 */
/* The clone of a container's process into its namespaces, new ones and those that it joins. */
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

static long sys_clone3(struct clone_args *a)
{
	return syscall(SYS_clone3, a, sizeof(*a));
}

/* New namespaces at once; the cgroup one only after the cgroups are joined, time only affects children. */
static pid_t clone_process(struct oci_container *c, uint64_t extra, struct err *e)
{
	struct clone_args a = { .flags = extra, .exit_signal = extra & CLONE_PARENT ? 0 : SIGCHLD };
	const int cgroup = oci_cgroup_clone_fd(&c->state->cgroup);
	int n;
	long pid;

	for (n = 0; n < OCI_NS_COUNT; n++)
		if (c->new_ns >> n & 1 && n != NS_CGROUP && n != NS_TIME)
			a.flags |= (uint64_t)oci_ns_types[n].flag;
	if (cgroup >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)cgroup;
	}
	pid = sys_clone3(&a);
	/* a filter that wants to see the flags forbids clone3; no cgroup is there to be born in then (step.h) */
	if (pid < 0 && errno == ENOSYS && cgroup < 0)
		pid = syscall(SYS_clone, (unsigned long)(a.flags | a.exit_signal), 0, 0, 0, 0);
	/* before Linux 5.7, or where something between forbids it */
	if (pid < 0 && cgroup >= 0 && (errno == EINVAL || errno == E2BIG || errno == EACCES || errno == EOPNOTSUPP)) {
		a.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
		a.cgroup = 0;
		c->enter_v2 = 1;
		pid = sys_clone3(&a);
	}
	return pid < 0 ? err_sys(e, "clone into new namespaces") : (pid_t)pid;
}

static int set_time_offsets(const struct oci_container *c, struct err *e)
{
	json_t *map = oci_get(c->linux_part, "timeOffsets"), *v;
	char text[256];
	const char *clock;
	int n = 0;

	if (unshare(CLONE_NEWTIME) < 0)
		return err_sys(e, "make a time namespace");
	json_object_foreach(map, clock, v) {
		if (strcmp(clock, "monotonic") != 0 && strcmp(clock, "boottime") != 0)
			return err_set(e, ERR_INVALID, "linux.timeOffsets: '%.32s' is not monotonic or boottime", clock);
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s %lld %llu\n", clock,
			      (long long)oci_i64(v, "secs", 0), (unsigned long long)oci_u64(v, "nanosecs", 0));
	}
	return n ? io_write_file(c->proc_fd, "self/timens_offsets", text, e) : 0;
}

static int needs_joiner(const struct oci_container *c)
{
	int n;

	for (n = 0; n < OCI_NS_COUNT; n++)
		if (c->ns_fd[n] >= 0)
			return 1;
	return c->new_ns >> NS_TIME & 1;
}

/*
 * A user namespace to join: namespaces that it owns can be joined only from within, those of the
 * host only from outside, so both are tried.
 */
static int join_all(const struct oci_container *c, struct err *e)
{
	/* the mount namespace last: paths change with it */
	static const enum oci_ns order[] = { NS_NET, NS_IPC, NS_UTS, NS_PID, NS_CGROUP, NS_TIME, NS_MOUNT };
	uint32_t left = 0;
	size_t i;
	int round;

	for (i = 0; i < ARRAY_LEN(order); i++)
		if (c->ns_fd[order[i]] >= 0)
			left |= 1u << order[i];
	for (round = 0; round < 2; round++) {
		for (i = 0; i < ARRAY_LEN(order); i++) {
			const enum oci_ns n = order[i];

			if (!(left >> n & 1) || (round == 0 && n == NS_MOUNT && c->ns_fd[NS_USER] >= 0))
				continue;
			if (setns(c->ns_fd[n], oci_ns_types[n].flag) == 0)
				left &= ~(1u << n);
			else if (round == 1 || c->ns_fd[NS_USER] < 0)
				return err_sys(e, "join the %s namespace", oci_ns_types[n].word);
		}
		if (round == 0 && c->ns_fd[NS_USER] >= 0 && setns(c->ns_fd[NS_USER], CLONE_NEWUSER) < 0)
			return err_sys(e, "join the user namespace");
	}
	return 0;
}

struct joined {
	pid_t pid;
	int enter_v2;
	struct err err;
};

static void joiner(struct oci_container *c, struct joined *out, int runtime_sock)
{
	pid_t pid = -1;

	if (join_all(c, &out->err) == 0 && (!(c->new_ns >> NS_TIME & 1) || set_time_offsets(c, &out->err) == 0))
		pid = clone_process(c, CLONE_PARENT, &out->err);
	if (pid == 0) {
		close(runtime_sock);
		oci_init(c);
	}
	out->enter_v2 = c->enter_v2;
	out->pid = pid;
	_exit(pid < 0);
}

static pid_t clone_by_joiner(struct oci_container *c, int runtime_sock, struct err *e)
{
	struct joined *out = mmap(NULL, sizeof(*out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid, helper;

	if (out == MAP_FAILED)
		return err_nomem(e);
	out->pid = -1;
	err_set(&out->err, ERR_INTERNAL, "the process that joins namespaces died");
	helper = fork();
	if (helper < 0)
		return err_sys(e, "fork");
	if (helper == 0)
		joiner(c, out, runtime_sock);
	while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
		;
	pid = out->pid;
	if (pid < 0)
		*e = out->err;
	munmap(out, sizeof(*out));
	return pid;
}

pid_t oci_clone(struct oci_container *c, int runtime_sock, struct err *e)
{
	pid_t pid;

	if (needs_joiner(c))
		return clone_by_joiner(c, runtime_sock, e);
	pid = clone_process(c, 0, e);
	if (pid == 0) {
		close(runtime_sock);
		oci_init(c);
	}
	return pid;
}
