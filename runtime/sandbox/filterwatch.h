/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filterwatch - limits the seccomp filters that a sandbox loads for itself.
 *
 * No cgroup accounts for the compiled code of a filter: it counts against
 * net.core.bpf_jit_limit, which the whole host shares. So init's filter hands each load of a
 * further filter to the supervisor (SECCOMP_RET_USER_NOTIF). The supervisor counts it and lets
 * the call continue, or answers ENOMEM, as the kernel does for too many filters of one task. It
 * reads nothing of the call's memory: each load counts as the largest possible one.
 *
 * A load is given back when its process has ended and no other process holds the filter. The
 * kernel does not report that, so when the budget is used up we look at the living processes. A
 * process has at most the filters that its threads loaded since it began (`loader`) and those
 * that it inherited (Seccomp_filters of /proc/PID/status). Between two looks `used` only grows,
 * and a look lowers it only to what the living processes can have, so `used` is never too small.
 * Upholds S24 of SECURITY.md.
 */
#ifndef BERTH_RUNTIME_SANDBOX_FILTERWATCH_H
#define BERTH_RUNTIME_SANDBOX_FILTERWATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "runtime/sandbox/spec.h"

/* Bytes of one filter's compiled code: 4,096 instructions of at most 27 bytes (x86-64, bpf_jit_harden). */
#define FILTERWATCH_LOAD_BYTES (128u << 10)
/* Most bytes that a task can have: MAX_INSNS_PER_PATH of kernel/seccomp.c, 32,768; 410 KB were measured. */
#define FILTERWATCH_TASK_BYTES (512u << 10)

struct filterwatch_loader {
	pid_t pid;		/* a process of the sandbox, in our pid namespace */
	unsigned loads;		/* loads by its threads */
	unsigned leader_loads;	/* loads by its first thread */
};

struct filterwatch {
	int fd;			/* the listener; -1: none (yet) */
	int awaited;		/* the next packet of the sandbox's child is the listener */
	uint64_t secret;	/* the secret with which berth's own filters pass (seccomp/watch.h) */
	unsigned ours;		/* filters that each command has from us */
	unsigned max, used;	/* loads */
	uint64_t look_after_ms;	/* when the next look is allowed */
	struct filterwatch_loader *loader;	/* an array of max, allocated at the first load */
	unsigned loaders;
};

/* Returns how many loads one sandbox may have if the host's limit is this many bytes; 0: unknown. */
unsigned filterwatch_max(uint64_t jit_limit);
/* Returns net.core.bpf_jit_limit, 0 if this network namespace does not show it. */
uint64_t filterwatch_jit_limit(void);
/* Makes empty storage that filterwatch_close() accepts. */
void filterwatch_init(struct filterwatch *w);
/* Makes the secret before the child is cloned, unless the spec wants no filters. */
int filterwatch_prepare(struct filterwatch *w, const struct spec *s, struct err *e);
/* Loads init's filter in the child, after no_new_privs, and sends the listener through sock. */
int filterwatch_enter(const struct filterwatch *w, const struct spec *s, int sock, struct err *e);
/* Call it when the listener is readable or hung up; cgroup_fd is the sandbox's on v2. Never blocks. */
void filterwatch_serve(struct filterwatch *w, int cgroup_fd);
void filterwatch_close(struct filterwatch *w);

/* Marks the child's packet with the listener. */
#define FILTERWATCH_TAG 0x66696c74u

#endif
