/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure - for how long tasks of a cgroup stood still for want of CPU, memory or I/O
 * (Documentation/accounting/psi.rst).
 *
 * Files cpu.pressure, memory.pressure and io.pressure of a directory of the v2 tree.  A kernel may
 * lack them, or be booted with psi=0.
 */
#ifndef BERTH_RUNTIME_KERNEL_PRESSURE_H
#define BERTH_RUNTIME_KERNEL_PRESSURE_H

#include <stdint.h>

enum pressure_kind { PRESSURE_CPU, PRESSURE_MEMORY, PRESSURE_IO, PRESSURE_COUNT };

/* Shares in hundredths of a per cent, over 10, 60 and 300 s. */
struct pressure_line {
	unsigned avg10, avg60, avg300;
	uint64_t total_us;
};

struct pressure {
	struct pressure_line some;	/* at least one task stood still */
	struct pressure_line full;	/* all did, so nothing was done */
};

/* "cpu", "memory", "io" */
const char *pressure_name(enum pressure_kind kind);
/* 1, or 0 if the kernel does not report it. dirfd: the cgroup. */
int pressure_read(int dirfd, enum pressure_kind kind, struct pressure *ret);
/* Pure: the same of the file's text. */
int pressure_parse(const char *text, struct pressure *ret);

#endif
