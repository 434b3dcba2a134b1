/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devbpf - device rules under cgroup v2: BPF programs on cgroups (bpf(2),
 * BPF_PROG_TYPE_CGROUP_DEVICE), and the one that berth puts on its parent cgroup,
 * which lets through the six harmless nodes and pseudo-terminals and nothing else (K12).
 */
#ifndef BERTH_RUNTIME_KERNEL_DEVBPF_H
#define BERTH_RUNTIME_KERNEL_DEVBPF_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Attaches the program to the cgroup directory unless one is attached already; reads it back. */
int devbpf_confine(const char *cgroup_path, struct err *e);

/* Adds a program of n instructions; name (at most 15 bytes) is what bpftool shows.  All that are attached must agree. */
int devbpf_attach(int cgroup_fd, const struct bpf_insn *insns, size_t n, const char *name, struct err *e);
/* How many are attached; the first max ids of them.  0 also where the kernel does not tell. */
size_t devbpf_attached(int cgroup_fd, uint32_t *ids, size_t max);
/* bpf(2). */
int devbpf_call(int cmd, union bpf_attr *attr);

#endif
