/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlimits - per-process resource limits by name (getrlimit(2)).
 */
#ifndef BERTH_RUNTIME_KERNEL_RLIMITS_H
#define BERTH_RUNTIME_KERNEL_RLIMITS_H

#include <stdint.h>

#include "base/err.h"

#define RLIMITS_COUNT 16	/* RLIM_NLIMITS */
#define RLIMITS_INFINITY UINT64_MAX

struct rlimits {
	uint32_t set;	/* bit N: set limit N */
	struct { uint64_t soft, hard; } v[RLIMITS_COUNT];
};

/* Gives the defaults of a sandbox: NOFILE, CORE = 1 (K17), MEMLOCK, MSGQUEUE, SIGPENDING, RTPRIO, NICE. */
void rlimits_default(struct rlimits *r);
/*
 * Parses "nofile=1024:4096", "core=0", "stack=unlimited"; bytes, seconds or counts as setrlimit(2)
 * takes them.
 */
int rlimits_parse(struct rlimits *r, const char *text, struct err *e);
/*
 * Lowers default limits to the caller's own hard limits, as only CAP_SYS_RESOURCE
 * may raise them; a limit in asked (a bit mask) that cannot be reached is
 * ERR_UNSUPPORTED.
 */
int rlimits_fit(struct rlimits *r, uint32_t asked, struct err *e);
const char *rlimits_name(unsigned i);

#endif
