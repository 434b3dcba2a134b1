/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optvalues - values of options that have a grammar of their own.
 *
 * The options --env NAME[=VALUE] and --env-file, read alike by every command that has them.
 *
 * NAME alone is the caller's variable, which must exist. The result is always NAME=VALUE with a
 * name that config_is_env_name() accepts.
 */
#ifndef BERTH_MANAGER_OPS_OPTVALUES_H
#define BERTH_MANAGER_OPS_OPTVALUES_H

#include <limits.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "runtime/kernel/cgroup.h"

/* ---- --env and --env-file ---- */

/* Returns the variable that --env text sets; the caller frees it. NULL with ERR_INVALID. */
char *envopts_settle(const char *text, struct err *e);
typedef int envopts_line(void *ctx, const char *line, struct err *e);

/*
 * Calls each for every line of an operator's file, in order, except empty lines and those that
 * begin with #; -1 ends it. ERR_NOT_FOUND, ERR_INVALID with file and line.
 */
int envopts_lines(const char *path, envopts_line *each, void *ctx, struct err *e);
/* As envopts_lines(), for --env-file, with lines NAME=VALUE. */
int envopts_file(const char *path, envopts_line *each, void *ctx, struct err *e);
/* Adds the variables that --env value, or --env-file value, sets to an array of strings. */
int envopts_add(json_t *list, int is_file, const char *value, struct err *e);

/* ---- limits ---- */

/* Values of the options of limits that have a grammar of their own. */

/* Parses --cpuset: "0-1,3". ERR_INVALID. */
int limitopts_cpuset(const char *text, struct cgroup_limits *l, struct err *e);

/* A value of --io-rate: "PATH:KEY=VALUE,...", with read, write (bytes), read-iops and write-iops a second. */
struct limitopts_io {
	char path[PATH_MAX];
	struct cgroup_io_rate rate; /* without its disk, which limitopts_io_find() adds */
};

/* Parses such a value. A rate that is not named is unlimited; PATH:unlimited names none. ERR_INVALID. */
int limitopts_io_parse(const char *text, struct limitopts_io *ret, struct err *e);
/* Finds the disk of path; ERR_NOT_FOUND, ERR_UNSUPPORTED if the rate could not be enforced. */
int limitopts_io_find(struct limitopts_io *io, struct err *e);
/* Tells whether two texts that limitopts_io_parse() accepts name the same path, so that the later
 * replaces the earlier. */
int limitopts_io_same(const char *a, const char *b);
/* Puts each text's rate into l. The weight is checked too: state_dir is where the files of sandboxes are. */
int limitopts_io_settle(const char *const *texts, size_t count, const char *state_dir,
			struct cgroup_limits *l, struct err *e);

/* ---- signals ---- */

/* The names and numbers of signals, as options and requests spell them. */

/*
 * Gives the number of a signal by its name, with or without SIG, or by its digits; -1 and
 * ERR_INVALID for any other word.
 */
int signal_number(const char *word, uint64_t *ret, struct err *e);

#endif
