/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command policy in a keeper, where every client comes through.  The file
 * is looked at before each command, so that a rule counts as soon as it is
 * written; while the file is wrong the last rules stay.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "manager/keeper/keeper_state.h"

static int is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static const struct policy *current(struct keeper *k)
{
	const char *path = secure_getenv("BERTH_CONFIG");
	autofree struct config *c = NULL;
	struct policy *fresh;
	struct stat st = { 0 };
	struct err ignored;

	if (stat(path ? path : CONFIG_PATH, &st) < 0)
		st = (struct stat){ 0 };
	if (k->policy && is_same(&st, &k->policy_file))
		return k->policy;
	c = malloc(sizeof(*c));
	if (c && config_load(c, &ignored) == 0)
		fresh = policy_new(c->deny, &ignored);
	else
		fresh = k->policy ? NULL : policy_new(k->registry->config->deny, &ignored);
	if (fresh) {
		policy_free(k->policy);
		k->policy = fresh;
	}
	k->policy_file = st;
	return k->policy;
}

int keeper_policy_argv(struct keeper *k, const char *const *argv, size_t argc, struct err *e)
{
	return policy_check_argv(current(k), argv, argc, e);
}

int keeper_policy_text(struct keeper *k, const char *text, size_t n, struct err *e)
{
	return policy_check_text(current(k), text, n, e);
}
