/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmdwords - which words of two command lines say the same.
 *
 * Pure.  The rules of policy.c compare commands by it, so that a name with its directory, a path
 * with detours and an option in another spelling are no way around a rule.
 */
#ifndef BERTH_MANAGER_HOST_CMDWORDS_H
#define BERTH_MANAGER_HOST_CMDWORDS_H

#include <stddef.h>

/* The name of a program without its directories; points into s. */
const char *cmdwords_base(const char *s);
/*
 * An operand as all its spellings have it, cut to size bytes: paths without detours, those behind
 * a = too, and modes without leading zeros.
 */
void cmdwords_clean(const char *s, char *out, size_t size);
/* Whether s is an option; *ended is set behind "--", and then none is. */
int cmdwords_is_option(const char *s, int *ended);
/*
 * Whether the command w of n words has each of the options, a word such as "-rf" or "--force".
 * Long options may be cut short, as getopt_long(3) allows.
 */
int cmdwords_has(const char *const *w, size_t n, const char *options);

#endif
