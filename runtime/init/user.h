/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user - looks up the user of a command in the sandbox's own files.
 *
 * Reads the sandbox's /etc/passwd and /etc/group, which are hostile bytes: only regular files up to
 * 1 MiB, opened without blocking (E12); ids outside 0..65535 and malformed strings are errors,
 * never 0 (E13).
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
	gid_t groups[USER_GROUPS_MAX];	/* supplementary groups; only the named ones if s names a group */
	int group_count;
	char home[1024];		/* "" if passwd has none */
	char name[64];			/* "" if passwd has none */
};

/*
 * Looks up s: "", "UID", "NAME", each with ":GID" or ":GROUP", and then ",GROUP" for each further
 * supplementary group. "" is uid 0. "NAME|OTHER" is NAME if passwd has it, else OTHER. A name needs
 * the files; a number does not (the files then only give home and groups, and are ignored if
 * unusable).
 */
int user_lookup(const char *s, struct user *ret, struct err *e);
/* As user_lookup(), with texts instead of the files; either may be NULL. For tests and fuzzing. */
int user_lookup_in(const char *s, const char *passwd, const char *group, struct user *ret, struct err *e);

#endif
