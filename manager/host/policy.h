/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - matches the deny rules of [policy] in berth.toml on parsed words.
 *
 * The rules guard against accidents and are no boundary: anyone who wants to get around a rule can,
 * and the actions of a running program are not looked at.
 *
 * A rule is one command line. A command matches by its name (without directories), the set of its
 * options (in any order and spelling: -rf, -r -f, --recursive --force) and the order of its
 * operands; words of the rule are globs, and paths are compared after cleaning. A rule with an
 * operator of the shell in it (; | & ( ) is a sequence of words and operators that a text must
 * contain; a lone * in it stands for any words. Texts are taken apart as a shell would: quotes,
 * command lists, substitutions, here-documents for a shell, sh -c, eval, and programs that run
 * another (sudo, env, xargs, find -exec ...).
 *
 * Pure. Bounded in depth and work; text beyond the bounds passes.
 */
#ifndef BERTH_MANAGER_HOST_POLICY_H
#define BERTH_MANAGER_HOST_POLICY_H

#include <stddef.h>

#include "base/err.h"

#define POLICY_RULES_MAX 64
#define POLICY_RULE_MAX 255	/* bytes of one rule */

struct policy;

/* Checks a rule: 0, or -1 with ERR_CONFIG if it is empty, too long, or names no command. */
int policy_rule_check(const char *rule, const char *what, struct err *e);
/*
 * Parses rules, separated by newlines, in their order; the caller frees the result. NULL with e
 * (ERR_CONFIG, ERR_NOMEM).
 */
struct policy *policy_new(const char *rules, struct err *e);
void policy_free(struct policy *p);

/*
 * Checks a command: 0 if no rule matches, -1 with ERR_POLICY that names the first match. A NULL
 * policy has no rules. argv needs no NULL at its end.
 */
int policy_check_argv(const struct policy *p, const char *const *argv, size_t argc, struct err *e);
int policy_check_text(const struct policy *p, const char *text, size_t n, struct err *e);

/* ---- words of two command lines that say the same ---- */

/*
 * cmdwords - compares words of two command lines by meaning.
 *
 * Pure. The rules of policy.c compare commands by it, so that a name with its directory, a path
 * with detours and an option in another spelling are no way around a rule.
 */

/* Returns the name of a program without its directories; points into s. */
const char *cmdwords_base(const char *s);
/*
 * Writes an operand in the form that all its spellings share, cut to size bytes: paths without
 * detours, also behind a "=", and modes without leading zeros.
 */
void cmdwords_clean(const char *s, char *out, size_t size);
/* Tells whether s is an option; *ended is set by "--", and after that none is. */
int cmdwords_is_option(const char *s, int *ended);
/*
 * Tells whether the command w of n words has each of the options, a word such as "-rf" or
 * "--force". Long options may be shortened, as getopt_long(3) allows.
 */
int cmdwords_has(const char *const *w, size_t n, const char *options);

#endif
