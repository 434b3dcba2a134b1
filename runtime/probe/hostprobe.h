/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostprobe - the probes that make up hostinfo, for hostinfo.c and its parts only.
 *
 * A probe runs in a child that dies with its parent and by SIGALRM when it takes too long. The
 * finding is in memory shared with the parent; it starts as HOST_MISSING, so a probe that dies
 * reports a missing facility.
 */
#ifndef BERTH_RUNTIME_PROBE_HOSTPROBE_H
#define BERTH_RUNTIME_PROBE_HOSTPROBE_H

#include <stdint.h>
#include <sys/types.h>

#include "runtime/probe/hostinfo.h"

struct host_probe {
	const char *what;
	int needed;
	void (*run)(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
	uint64_t arg;			/* the probe's own: a flag, a number */
	const char *effect;		/* what berth does without the facility, or with less of it */
	int anyone;			/* can be tried without being root */
};

/* Sets state and detail. */
void host_say(struct host_finding *f, enum host_state s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Sets HOST_MISSING with the error's message. */
void host_err(struct host_finding *f, const struct err *e);
/* Sets HOST_MISSING with "doing: strerror(errno)". */
void host_errno(struct host_finding *f, const char *doing);

/* A process in new namespaces that waits until it is released. */
struct host_inner {
	pid_t pid;
	int go_fd;		/* closing it releases the process */
	int userns_fd;		/* -1 when flags had no CLONE_NEWUSER */
};

/*
 * Starts fn(f) in new namespaces (clone3(2) flags). With CLONE_NEWUSER its ids are mapped as a
 * sandbox's are. -1 with f set. host_inner_end() releases it, waits for it and closes everything.
 */
int host_inner_start(struct host_inner *in, const struct hostinfo_place *p, uint64_t flags,
		     void (*fn)(struct host_finding *f), struct host_finding *f);
void host_inner_end(struct host_inner *in);

/*
 * Opens state_dir or its nearest existing parent, whose name goes to path: an O_PATH descriptor. -1
 * with errno.
 */
int host_state_dir(const struct hostinfo_place *p, char *path, size_t n);

/* hostprobe_kernel.c */
void host_probe_root(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_kernel(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_container(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_caps(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_namespace(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_max_userns(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_calls(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_pidfd(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_memfd(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_seccomp(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_landlock(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
/* Puts the caller under both filters of the profile "standard". */
int host_load_standard(struct err *e);
void host_probe_lsm(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
/* hostprobe_cgroup.c; arg of the limits: enum host_limit */
enum host_limit { HOST_LIMIT_MEMORY, HOST_LIMIT_CPU, HOST_LIMIT_PIDS, HOST_LIMIT_CPUSET,
		  HOST_LIMIT_IO_WEIGHT, HOST_LIMIT_IO_READ, HOST_LIMIT_IO_WRITE };
void host_probe_cgroup_mode(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_cgroup_limit(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_cgroup_swap(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_cgroup_io(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_cgroup_devices(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_cgroup_clone(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_cgroup_kill(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_cgroup_freeze(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
/* hostprobe_mount.c; arg of idmap: 0 the state directory, 1 tmpfs */
void host_probe_state_dir(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_overlay(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_idmap(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_mount_in_userns(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_devpts(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_loop(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_quota(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
/* hostprobe_kernel.c: zygotes */
void host_probe_zygote(const struct hostinfo_place *p, const struct host_probe *probe,
		       struct host_finding *f);
/* hostprobe_kernel.c: networks */
void host_probe_egress(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_bridge(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);
void host_probe_forwarding(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f);

#endif
