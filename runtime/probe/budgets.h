/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budgets - lists the resources that the kernel has once for the whole host, and the share that one
 * sandbox may take.
 *
 * One table names every file below /proc/sys/{fs,kernel,net,user}: as a limit with a bound for
 * each sandbox, as a limit that no sandbox reaches, or as irrelevant.
 * tests/attack/test_budgets.py fails on a kernel with a file that the table does not name. Pure
 * but for budgets_knob(). Upholds S24 of SECURITY.md.
 */
#ifndef BERTH_RUNTIME_PROBE_BUDGETS_H
#define BERTH_RUNTIME_PROBE_BUDGETS_H

#include <stddef.h>
#include <stdint.h>

#define BUDGET_UNLIMITED UINT64_MAX
/* The joint use of some sandboxes: one sandbox with the defaults, or all of a tenant. */
struct budget_limits {
	uint64_t sandboxes;
	uint64_t memory_bytes, pids, disk_bytes;
	uint64_t files;		/* the hard limit of open files of one process */
	uint64_t flows;		/* connections followed, on a bridge */
	uint64_t filter_bytes;	/* compiled code of the sandboxes' own seccomp filters (filterwatch.h) */
};

enum budget_kind {
	BUDGET_BOUNDED,		/* shared, and bounded for each sandbox */
	/* bounded likewise, but all sandboxes of a tenant may take more than the host has */
	BUDGET_OVERCOMMITTED,
	BUDGET_OPEN,		/* shared, and bounded by nothing but the host */
	BUDGET_UNREACHABLE,	/* shared, but out of reach of a sandbox */
	BUDGET_IRRELEVANT,	/* each sandbox has its own, or the file is not a limit */
};

struct budget {
	const char *name;
	enum budget_kind kind;
	const char *knobs;	/* patterns below /proc/sys, separated by spaces; the first is the host's
				 * limit; "": none */
	/* most that sandboxes with l take, in the unit of the first knob; NULL: not a number */
	uint64_t (*takes)(const struct budget_limits *l);
	const char *counted;	/* who or what counts it */
	const char *why;	/* what bounds it, or why it does not matter */
	const char *test;	/* the test that attacks it; "": none */
};

extern const struct budget budgets[];
extern const size_t budget_count;

const char *budget_kind_name(enum budget_kind k);
/*
 * Returns the bytes of compiled code of its own filters that a sandbox of this host may have
 * (filterwatch.h).
 */
uint64_t budgets_filter_bytes(void);
/* Returns the first number of the first knob; 0: the knob is missing, or not a number. */
uint64_t budgets_knob(const struct budget *b);
/* Returns takes in hundredths of a percent of host; BUDGET_UNLIMITED if host is 0. */
uint64_t budgets_share(uint64_t takes, uint64_t host);

#endif
