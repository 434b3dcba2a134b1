/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of cgroups: each makes one by the runtime's own code, below a parent
 * that no sandbox uses, and removes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup_io.h"
#include "runtime/probe/hostprobe.h"

#define UNLIMITED { .memory_bytes = CGROUP_UNLIMITED, .swap_bytes = CGROUP_UNLIMITED, .cpu_milli = CGROUP_UNLIMITED, \
		    .pids = CGROUP_UNLIMITED }

static int make_probe_cgroup(struct cgroup *c, const struct hostinfo_place *p, const struct cgroup_limits *l, struct host_finding *f)
{
	struct err e;

	if (cgroup_create(c, p->cgroup_parent, "probe", l, &e) == 0)
		return 0;
	host_err(f, &e);
	return -1;
}

static void unmake_probe_cgroup(struct cgroup *c, struct host_finding *f)
{
	struct err e;

	if (cgroup_destroy(c, &e) < 0)
		host_err(f, &e);
	cgroup_release(c);
}

/* Lists the names of v1 hierarchies for people ("9:name=systemd:/" is no controller). */
static void v1_names(char *out, size_t n)
{
	char text[2048], *line, *save = NULL;

	out[0] = '\0';
	if (cgroup_read(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0)
		return;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *names = strchr(line, ':'), *end;
		size_t len = strlen(out);

		end = names ? strchr(++names, ':') : NULL;
		if (!end || end == names || !strncmp(names, "name=", 5))
			continue;
		*end = '\0';
		snprintf(out + len, n - len, " %s", names);
	}
}

void host_probe_cgroup_mode(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	const struct cgroup_limits none = UNLIMITED;
	char list[200] = "";
	struct cgroup c;

	(void)probe;
	switch (cgroup_detect()) {
	case CGROUP_NONE:
		v1_names(list, sizeof(list));
		host_say(f, HOST_MISSING, "%s%s, and no v2 hierarchy at /sys/fs/cgroup or /sys/fs/cgroup/unified",
			 list[0] ? "v1:" : "none", list);
		return;
	case CGROUP_V2:
		if (cgroup_read(AT_FDCWD, "/sys/fs/cgroup/cgroup.controllers", list, sizeof(list)) > 0)
			list[strcspn(list, "\n")] = '\0';
		host_say(f, HOST_OK, "v2 with %s", list);
		break;
	case CGROUP_HYBRID:
		v1_names(list, sizeof(list));
		host_say(f, HOST_OK, "hybrid: v2 for life and death, v1 for limits:%s", list);
		break;
	}
	if (make_probe_cgroup(&c, p, &none, f) == 0)
		unmake_probe_cgroup(&c, f);
}

static uint64_t first_cpu(char cpuset[256])
{
	char list[256];
	size_t n;

	if (cgroup_read(AT_FDCWD, "/sys/devices/system/cpu/online", list, sizeof(list)) < 0)
		return 0;
	n = strspn(list, "0123456789");
	memcpy(cpuset, list, n);
	cpuset[n] = '\0';
	return n;
}

/* Finds the disk of the state directory. */
static int limit_disk(const struct hostinfo_place *p, unsigned long what, struct cgroup_limits *l,
		      struct host_finding *f)
{
	const uint64_t none = CGROUP_UNLIMITED, some = 1 << 20;
	struct cgroup_io_rate rate = {.v = {none, none, none, none}};
	struct err e;

	rate.v[what == HOST_LIMIT_IO_READ ? IO_READ : IO_WRITE] = some;
	if (cgroup_io_disk(p->state_dir, what == HOST_LIMIT_IO_WRITE, &rate.major, &rate.minor,
			   &e) < 0 ||
	    (what == HOST_LIMIT_IO_WEIGHT ? cgroup_io_weighs(rate.major, rate.minor, &e) :
					    cgroup_io_put(l, &rate, &e)) < 0) {
		host_err(f, &e);
		return -1;
	}
	l->io_weight = what == HOST_LIMIT_IO_WEIGHT ? 200 : 0;
	return 0;
}

void host_probe_cgroup_limit(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	struct cgroup_limits l = UNLIMITED;
	struct cgroup c;

	switch (probe->arg) {
	case HOST_LIMIT_MEMORY:
		l.memory_bytes = 64 << 20;
		break;
	case HOST_LIMIT_CPU:
		l.cpu_milli = 500;
		break;
	case HOST_LIMIT_PIDS:
		l.pids = 64;
		break;
	case HOST_LIMIT_IO_WEIGHT:
	case HOST_LIMIT_IO_READ:
	case HOST_LIMIT_IO_WRITE:
		if (limit_disk(p, probe->arg, &l, f) < 0)
			return;
		break;
	default:
		if (!first_cpu(l.cpuset)) {
			host_say(f, HOST_MISSING, "the CPUs online cannot be read");
			return;
		}
		break;
	}
	if (make_probe_cgroup(&c, p, &l, f) < 0)
		return;
	host_say(f, HOST_OK, "a limit was set and read back (%s)", c.ops->name);
	unmake_probe_cgroup(&c, f);
}

void host_probe_cgroup_swap(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	const struct cgroup_limits none = UNLIMITED;
	char swaps[512] = "";
	struct cgroup c;
	int accounted, has_swap;

	(void)probe;
	cgroup_read(AT_FDCWD, "/proc/swaps", swaps, sizeof(swaps));
	has_swap = !!strchr(swaps, '/');
	if (make_probe_cgroup(&c, p, &none, f) < 0)
		return;
	accounted = !faccessat(c.v2_fd, "memory.swap.max", F_OK, 0) ||
		    (c.v1_fd[V1_MEMORY] >= 0 && !faccessat(c.v1_fd[V1_MEMORY], "memory.memsw.limit_in_bytes", F_OK, 0));
	if (accounted)
		host_say(f, HOST_OK, "swap counts%s", has_swap ? "" : "; the host has none");
	else
		host_say(f, has_swap ? HOST_MISSING : HOST_LIMITED, "swap is not counted, and the host has %s",
			 has_swap ? "some" : "none");
	unmake_probe_cgroup(&c, f);
}

void host_probe_cgroup_io(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	const struct cgroup_limits none = UNLIMITED;
	struct cgroup c;
	int found;

	(void)probe;
	if (make_probe_cgroup(&c, p, &none, f) < 0)
		return;
	found = !faccessat(c.v2_fd, "io.stat", F_OK, 0) ||
		(c.v1_fd[V1_BLKIO] >= 0 &&
		 !faccessat(c.v1_fd[V1_BLKIO], "blkio.throttle.io_service_bytes_recursive", F_OK, 0));
	if (found)
		host_say(f, HOST_OK, "bytes read and written are counted");
	else
		host_say(f, HOST_MISSING, "no io or blkio controller");
	unmake_probe_cgroup(&c, f);
}

/* A process that joins as a sandbox's does tries a node outside the policy: 0 refused, 1 opened, else unknown. */
static int opens_refused(struct cgroup *c)
{
	int node = 0, status;
	pid_t pid = fork();

	if (pid == 0) {
		int join[CGROUP_JOIN_MAX];

		if (cgroup_join_self(join, cgroup_joins(c, join)) < 0)
			_exit(2);
		if (c->v1_fd[V1_DEVICES] < 0) {
			char procs[32];

			snprintf(procs, sizeof(procs), "%d", (int)getpid());
			if (cgroup_write(c->v2_fd, "cgroup.procs", procs) < 0)
				_exit(2);
		}
		node = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		_exit(node >= 0 ? 1 : errno == EPERM ? 0 : 3);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

void host_probe_cgroup_devices(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	const struct cgroup_limits none = UNLIMITED;
	struct cgroup c;
	int hybrid = cgroup_detect() == CGROUP_HYBRID, got;

	(void)probe;
	if (make_probe_cgroup(&c, p, &none, f) < 0)
		return;
	if (hybrid && c.v1_fd[V1_DEVICES] < 0) {
		host_say(f, HOST_MISSING, "the devices controller is not mounted");
		unmake_probe_cgroup(&c, f);
		return;
	}
	got = opens_refused(&c);
	if (got == 0)
		host_say(f, HOST_OK, "the policy is set and refuses /dev/kmsg (%s)", hybrid ? "v1" : "BPF");
	else if (got == 1)
		host_say(f, HOST_MISSING, "the policy is set but does not refuse /dev/kmsg");
	else
		host_say(f, HOST_OK, "the policy is set (%s); no node to try it on", hybrid ? "v1" : "BPF");
	unmake_probe_cgroup(&c, f);
}

/* A process that waits for ever in the cgroup c, born there; its pidfd.  -1 with f. */
static int born_in(const struct cgroup *c, pid_t *ret_pid, struct host_finding *f)
{
	int fd = -1;
	struct clone_args a = {
		.flags = CLONE_PIDFD | CLONE_INTO_CGROUP, .pidfd = (uint64_t)(uintptr_t)&fd, .exit_signal = SIGCHLD,
		.cgroup = (uint64_t)c->v2_fd,
	};
	pid_t me = getpid(), pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));

	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != me)
			_exit(1);	/* nothing else would end it */
		for (;;)
			pause();
	}
	if (pid < 0) {
		host_errno(f, "clone3 with CLONE_INTO_CGROUP");
		return -1;
	}
	*ret_pid = pid;
	return fd;
}

/* Runs body on a cgroup with a process in it. */
static void with_process(const struct hostinfo_place *p, struct host_finding *f,
			 void (*body)(struct cgroup *c, pid_t pid, int pidfd, struct host_finding *f))
{
	const struct cgroup_limits none = UNLIMITED;
	struct cgroup c;
	pid_t pid = -1;
	int fd;

	if (make_probe_cgroup(&c, p, &none, f) < 0)
		return;
	fd = born_in(&c, &pid, f);
	if (fd >= 0) {
		body(&c, pid, fd, f);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(fd);
	}
	unmake_probe_cgroup(&c, f);
}

static void is_inside(struct cgroup *c, pid_t pid, int pidfd, struct host_finding *f)
{
	char procs[64] = "", want[16];

	(void)pidfd;
	snprintf(want, sizeof(want), "%d\n", (int)pid);
	if (cgroup_read(c->v2_fd, "cgroup.procs", procs, sizeof(procs)) < 0)
		host_errno(f, "read cgroup.procs");
	else if (strcmp(procs, want))
		host_say(f, HOST_MISSING, "a process born in a cgroup is not in it");
	else
		host_say(f, HOST_OK, "a process is born in its cgroup");
}

static void dies(struct cgroup *c, pid_t pid, int pidfd, struct host_finding *f)
{
	struct pollfd pfd = { .fd = pidfd, .events = POLLIN };

	(void)pid;
	if (cgroup_write(c->v2_fd, "cgroup.kill", "1") < 0)
		host_errno(f, "write to cgroup.kill");
	else if (poll(&pfd, 1, 3000) != 1)
		host_say(f, HOST_MISSING, "a process outlived cgroup.kill");
	else
		host_say(f, HOST_OK, "ends all processes of a cgroup at once");
}

static void freezes(struct cgroup *c, pid_t pid, int pidfd, struct host_finding *f)
{
	char text[256];
	struct err e;
	int i;

	(void)pid, (void)pidfd;
	if (cgroup_freeze(c, 1, &e) < 0) {
		host_err(f, &e);
		return;
	}
	host_say(f, HOST_MISSING, "the process did not freeze within 1 s");
	for (i = 0; i < 1000; i++) {
		if (cgroup_read(c->v2_fd, "cgroup.events", text, sizeof(text)) > 0 && cgroup_stat_value(text, "frozen")) {
			host_say(f, HOST_OK, "freezes and thaws");
			break;
		}
		poll(NULL, 0, 1);
	}
	if (cgroup_freeze(c, 0, &e) < 0)
		host_err(f, &e);
}

void host_probe_cgroup_clone(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	(void)probe;
	with_process(p, f, is_inside);
}

void host_probe_cgroup_kill(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	(void)probe;
	with_process(p, f, dies);
}

void host_probe_cgroup_freeze(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	(void)probe;
	with_process(p, f, freezes);
}
