/* SPDX-License-Identifier: Apache-2.0 */
/*
 * envopts - the options --env NAME[=VALUE] and --env-file, read alike by every command that has them.
 *
 * NAME alone is the caller's variable, which must exist.  What comes out is always NAME=VALUE with a name that
 * config_is_env_name() takes.
 */
#ifndef BERTH_MANAGER_OPS_ENVOPTS_H
#define BERTH_MANAGER_OPS_ENVOPTS_H

#include "base/err.h"
#include "base/json.h"

/* What --env text says, to be freed; NULL with ERR_INVALID. */
char *envopts_settle(const char *text, struct err *e);
typedef int envopts_line(void *ctx, const char *line, struct err *e);

/*
 * Calls each for every line of an operator's file, in order, but for empty ones and those that
 * begin with #; -1 ends it.  ERR_NOT_FOUND, ERR_INVALID with file and line.
 */
int envopts_lines(const char *path, envopts_line *each, void *ctx, struct err *e);
/* The same for --env-file, with lines NAME=VALUE. */
int envopts_file(const char *path, envopts_line *each, void *ctx, struct err *e);
/* Adds what --env value, or --env-file value, says to an array of strings. */
int envopts_add(json_t *list, int is_file, const char *value, struct err *e);

#endif
