/* SPDX-License-Identifier: Apache-2.0 */
/*
 * e2b_accounts - the users and groups of a sandbox, for E2B's answers: where a user's home is, and
 * the names of a file's owner and group.
 *
 * The text of /etc/passwd and /etc/group is the sandbox's and hostile.  It decides only what is
 * said and where a relative path begins: init reads the same files when it starts a command or the
 * file helper, and that reading decides the rights.
 */
#ifndef BERTH_MANAGER_API_E2B_ACCOUNTS_H
#define BERTH_MANAGER_API_E2B_ACCOUNTS_H

#include "base/buf.h"
#include "base/err.h"

struct accounts {
	struct buf passwd, group; /* "" if the sandbox has none */
	int has_passwd, has_group;
};

/* Reads nothing yet. */
void accounts_init(struct accounts *a);
void accounts_release(struct accounts *a);
/* The home of a user as init chooses it: NAME, UID or NAME|OTHER.  sock is the keeper's. */
int accounts_home(struct accounts *a, int sock, const char *user, char ret[1024], struct err *e);
/* Reads both files, before another operation begins on sock. */
void accounts_read(struct accounts *a, int sock);
/* The name of a user or a group after that, or its number if it has no name. */
void accounts_owner(const struct accounts *a, unsigned uid, char ret[65]);
void accounts_group(const struct accounts *a, unsigned gid, char ret[65]);

/* The same of given texts; pure.  1, or 0 if no line fits. */
int accounts_find(const char *passwd, const char *name, size_t n, char ret_home[1024]);
int accounts_name(const char *text, unsigned id, char ret[65]);

#endif
