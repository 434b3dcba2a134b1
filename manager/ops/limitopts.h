/* SPDX-License-Identifier: Apache-2.0 */
/* limitopts - the values of those options of limits that have a grammar of their own. */
#ifndef BERTH_MANAGER_OPS_LIMITOPTS_H
#define BERTH_MANAGER_OPS_LIMITOPTS_H

#include <limits.h>

#include "runtime/kernel/cgroup.h"

/* --cpuset: "0-1,3".  ERR_INVALID. */
int limitopts_cpuset(const char *text, struct cgroup_limits *l, struct err *e);

/* --io-rate: "PATH:KEY=VALUE,...", with read, write (bytes), read-iops and write-iops a second. */
struct limitopts_io {
	char path[PATH_MAX];
	struct cgroup_io_rate rate; /* without its disk, which limitopts_io_find() adds */
};

/* What is not named is unlimited; PATH:unlimited names nothing.  ERR_INVALID. */
int limitopts_io_parse(const char *text, struct limitopts_io *ret, struct err *e);
/* The disk of path; ERR_NOT_FOUND, ERR_UNSUPPORTED where the rate could not be enforced. */
int limitopts_io_find(struct limitopts_io *io, struct err *e);
/* Whether two texts that limitopts_io_parse() takes name the same path, so that the later replaces
 * the earlier. */
int limitopts_io_same(const char *a, const char *b);
/* Puts each text's rate into l.  Weight is checked too: state_dir is where the files of sandboxes
 * are. */
int limitopts_io_settle(const char *const *texts, size_t count, const char *state_dir,
			struct cgroup_limits *l, struct err *e);

#endif
