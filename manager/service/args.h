/* SPDX-License-Identifier: Apache-2.0 */
/* args - the command line of a berth program that a request asks for. */
#ifndef BERTH_MANAGER_SERVICE_ARGS_H
#define BERTH_MANAGER_SERVICE_ARGS_H

#include "base/err.h"
#include "base/json.h"

#define ARGS_MAX 512

struct args {
	char *v[ARGS_MAX]; /* ends with a NULL while it is zeroed at birth */
	size_t n;
};

void args_release(struct args *a);
int args_add(struct args *a, const char *text, struct err *e);
/* Those of an array of strings, or of NULL. */
int args_strings(struct args *a, const json_t *list, struct err *e);
/* Several, to a NULL. */
int args_words(struct args *a, const char *const *words, struct err *e);
/* "--name=value", "--name" for true, nothing for false. */
int args_option(struct args *a, const char *name, const json_t *v, struct err *e);
/*
 * The members of an object that came from a client, an array one by one.  Only
 * letters, digits and dashes make a name, and "json", "name" and "help" are not the client's.
 */
int args_options(struct args *a, json_t *options, struct err *e);

#endif
