/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devbpf - the device policy under cgroup v2: a BPF program on the parent
 * cgroup (bpf(2), BPF_PROG_TYPE_CGROUP_DEVICE) that lets through the six
 * harmless nodes and pseudo-terminals and nothing else (K12).
 */
#ifndef BERTH_RUNTIME_DEVBPF_H
#define BERTH_RUNTIME_DEVBPF_H

#include "base/err.h"

/* Attaches the program to the cgroup directory unless one is attached already; reads it back. */
int devbpf_confine(const char *cgroup_path, struct err *e);

#endif
