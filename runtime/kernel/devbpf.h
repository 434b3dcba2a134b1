/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devbpf - device rules under cgroup v2: BPF programs on cgroups (bpf(2),
 * BPF_PROG_TYPE_CGROUP_DEVICE), and the program that berth attaches to its parent cgroup, which
 * allows the six harmless nodes and pseudo-terminals and nothing else (K12).
 */
#ifndef BERTH_RUNTIME_KERNEL_DEVBPF_H
#define BERTH_RUNTIME_KERNEL_DEVBPF_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/kernel/cgroup.h"

/* Attaches the program to the cgroup directory unless one is attached already; reads it back. */
int devbpf_confine(const char *cgroup_path, struct err *e);

/*
 * For a cgroup right below one that devbpf_confine() has confined: replaces its rules by the
 * same rules with these devices added. ERR_UNSUPPORTED if the parent's rules cannot be replaced,
 * because an older berth attached them.
 */
int devbpf_allow(int cgroup_fd, const char *parent_path, const struct cgroup_device *d,
		 size_t count, struct err *e);

/*
 * Lifts the parent's rules from a cgroup right below one that devbpf_confine() has confined, and
 * that holds no sandbox. Rules that an older berth attached stay.
 */
int devbpf_unconfine(int cgroup_fd, struct err *e);

/*
 * Adds a program of n instructions; name (at most 15 bytes) is what bpftool shows. flags are those
 * of bpf(2): with BPF_F_ALLOW_MULTI all programs attached here and above must agree; with
 * BPF_F_ALLOW_OVERRIDE a program attached to a cgroup below replaces it there.
 */
int devbpf_attach(int cgroup_fd, const struct bpf_insn *insns, size_t n, const char *name,
		  uint32_t flags, struct err *e);
/*
 * Returns the number of attached programs, and the first max ids of them. 0 also if the kernel does
 * not report them.
 */
size_t devbpf_attached(int cgroup_fd, uint32_t *ids, size_t max);
/* bpf(2). */
int devbpf_call(int cmd, union bpf_attr *attr);

#endif
