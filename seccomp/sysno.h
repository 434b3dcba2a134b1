/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysno - system call names to numbers.
 *
 * It asks libseccomp's table first, then a short table of calls newer than the libseccomp of Debian
 * 12.
 */
#ifndef BERTH_SECCOMP_SYSNO_H
#define BERTH_SECCOMP_SYSNO_H

#include <linux/audit.h>
#include <stdint.h>

#if defined(__x86_64__)
#define SYSNO_ARCH_NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SYSNO_ARCH_NATIVE AUDIT_ARCH_AARCH64
#else
#error "berth has no seccomp policy for this architecture"
#endif

/* Every number resolved is below this. */
#define SYSNO_MAX 1024

/* The number of name on arch (AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64), or -1 when it has none. */
int sysno_resolve(uint32_t arch, const char *name);

#endif
