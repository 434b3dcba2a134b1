/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user - "who runs this command" in the sandbox's own terms.
 *
 * Reads the sandbox's /etc/passwd and /etc/group, which are hostile bytes: only
 * regular files up to 1 MiB, opened without blocking (E12); ids outside
 * 0..65535 and malformed strings are errors, never 0 (E13).
 */
#ifndef BERTH_RUNTIME_INIT_USER_H
#define BERTH_RUNTIME_INIT_USER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define USER_GROUPS_MAX 64
#define USER_ID_MAX 65535u

struct user {
	uint32_t uid, gid;
	gid_t groups[USER_GROUPS_MAX];	/* supplementary; those that were named when a group was given */
	int group_count;
	char home[1024];		/* "" when passwd names none */
	char name[64];			/* "" when passwd names none */
};

/*
 * s: "", "UID", "NAME", each with ":GID" or ":GROUP", and then ",GROUP" for each further
 * supplementary one.  "" is uid 0.  "NAME|OTHER" is NAME where passwd has it, and else OTHER.
 * A name needs the files; a number does not (they then only give home and
 * groups, and are ignored when unusable).
 */
int user_lookup(const char *s, struct user *ret, struct err *e);
/* The same on given texts instead of the files; either may be NULL. For tests and fuzzing. */
int user_lookup_in(const char *s, const char *passwd, const char *group, struct user *ret, struct err *e);

#endif
