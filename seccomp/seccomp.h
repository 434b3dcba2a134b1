/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp - which system calls a sandbox may make.
 *
 * A profile is two classic BPF programs, loaded a first, then b; the kernel
 * runs both and takes the stricter answer.  a denies by argument and lets
 * everything else pass; b is an allow-list by number that never looks at
 * arguments.  They are two because one libseccomp filter that holds "deny
 * ioctl(TIOCSTI)" and "allow ioctl" silently drops the denial.
 *
 * The built-in profiles come from the table in seccomp/policy.c, compiled when
 * berth is built (seccomp/gen.c); no capability changes them.  Loading is the
 * caller's: no_new_privs, capabilities dropped, then a, then b, then exec.
 */
#ifndef BERTH_SECCOMP_SECCOMP_H
#define BERTH_SECCOMP_SECCOMP_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

struct seccomp_filter {
	const struct sock_filter *insns;
	unsigned short len;	/* instructions; 0: no filter, everything passes */
};

struct seccomp_profile {
	const char *name;
	struct seccomp_filter a, b;	/* load a first, then b */
};

/*
 * "strict", "standard", "dev", and berth's own "init", "nosetid", "keeper" and "builder"; NULL when the name is unknown.
 * Static storage.
 */
const struct seccomp_profile *seccomp_builtin(const char *name);
/* As seccomp_builtin(), for the names that a user may choose only. */
static inline const struct seccomp_profile *seccomp_named(const char *name)
{
	static const char own[][8] = { "init", "nosetid", "keeper", "builder" };
	size_t i;

	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!strcmp(name, own[i]))
			return NULL;
	return seccomp_builtin(name);
}

/*
 * Reads an OCI linux.seccomp object, or a Docker or Podman profile (archMap,
 * includes, excludes), and compiles it for the native architecture into
 * ret->b; ret->a is borrowed from the built-in "standard".  caps is the set of
 * capabilities the process will hold, bit N for capability N.
 *
 * Names that no kernel known here has on this architecture are skipped, as by
 * Docker.  Refused, with the JSON path: malformed text (ERR_CORRUPT); unknown
 * actions, operators, capabilities, architectures, flags, misspelt keys in a
 * rule, args that another entry overrides (ERR_INVALID); SCMP_ACT_NOTIFY,
 * listenerPath and other things berth cannot apply (ERR_UNSUPPORTED).
 *
 * Of two entries for one call without args the stricter applies. As in runc, when the default
 * action is an errno, a system call newer than the newest the profile names gets ENOSYS, so that
 * libc falls back.
 */
int seccomp_from_json(const char *text, size_t n, uint64_t caps, struct seccomp_profile *ret,
		      struct err *e);
/* Only for profiles from seccomp_from_json(); NULL and zeroed are fine. */
void seccomp_profile_release(struct seccomp_profile *p);

/* One row of the policy as text, for documents, --dry-run and tests.  Static storage. */
struct seccomp_rule_info {
	const char *syscall;	/* "*" for the two rows about numbers outside the table */
	const char *condition;	/* "" when there is none; rows of one call are tried in order */
	const char *action;	/* "allow", "kill" or the errno's name */
	const char *reason;
};
/* Writes at most max rows and returns how many the profile has; 0 for an unknown profile. */
size_t seccomp_rules(const char *profile, struct seccomp_rule_info *out, size_t max);

/*
 * Returns the profile's answer: a SECCOMP_RET_* value, the stricter of a and b by the kernel's own
 * order (seccomp(2)). arch is AUDIT_ARCH_*. The answer is SECCOMP_RET_KILL_PROCESS for a program
 * that the kernel would not load.
 */
uint32_t seccomp_simulate(const struct seccomp_profile *p, uint32_t arch, int nr,
			  const uint64_t args[6]);

#endif
