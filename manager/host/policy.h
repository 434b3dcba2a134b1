/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - the deny rules of [policy] in berth.toml, matched on parsed words.
 *
 * A guard-rail against accidents, not a boundary: who wants to get around a
 * rule can, and what a program does once it runs is not looked at.
 *
 * A rule is one command line.  Of a command its name (without directories),
 * the set of its options (in any order and spelling: -rf, -r -f, --recursive
 * --force) and the order of its operands count; words of the rule are globs,
 * paths are compared after cleaning.  A rule with an operator of the shell in it
 * (; | & ( ) is a sequence of words and operators that a text must contain; a
 * lone * in it stands for any words.  Texts are taken apart as a shell would:
 * quotes, command lists, substitutions, here-documents for a shell, sh -c, eval,
 * and programs that run another (sudo, env, xargs, find -exec ...).
 *
 * Pure.  Bounded in depth and work; what is beyond passes.
 */
#ifndef BERTH_MANAGER_HOST_POLICY_H
#define BERTH_MANAGER_HOST_POLICY_H

#include <stddef.h>

#include "base/err.h"

#define POLICY_RULES_MAX 64
#define POLICY_RULE_MAX 255	/* bytes of one rule */

struct policy;

/* 0, or -1 with ERR_CONFIG when rule is empty, too long, or names no command. */
int policy_rule_check(const char *rule, const char *what, struct err *e);
/* Rules in their order, separated by newlines; the caller frees it.  NULL with e (ERR_CONFIG, ERR_NOMEM). */
struct policy *policy_new(const char *rules, struct err *e);
void policy_free(struct policy *p);

/*
 * 0 when no rule matches, -1 with ERR_POLICY that names the first that does.
 * A NULL policy has no rules.  argv needs no NULL at its end.
 */
int policy_check_argv(const struct policy *p, const char *const *argv, size_t argc, struct err *e);
int policy_check_text(const struct policy *p, const char *text, size_t n, struct err *e);

/* ---- words of two command lines that say the same ---- */

/*
 * Which words of two command lines say the same.
 *
 * Pure.  The rules of policy.c compare commands by it, so that a name with its directory, a path
 * with detours and an option in another spelling are no way around a rule.
 */

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
