/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runlang - the languages of POST /run_code: SandboxFusion's, as far as one command line runs or
 * compiles them.  Pure.
 */
#ifndef BERTH_MANAGER_API_RUNLANG_H
#define BERTH_MANAGER_API_RUNLANG_H

#include "base/json.h"

struct runlang {
	const char *name;
	const char *file;		/* the file for the code */
	const char *compile[8];		/* NULL-terminated; empty: none is needed */
	const char *run[8];
};

/* NULL when it is unknown. */
const struct runlang *runlang_find(const char *name);
/* All names: "bash, cpp, ...", for an error. */
const char *runlang_names(void);
/* An array of strings, of such a command. */
json_t *runlang_argv(const char *const *words);

#endif
