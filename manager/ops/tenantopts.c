/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/tenantopts.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/nets.h"
#include "manager/host/volume_name.h"
#include "manager/ops/params.h"

static int is_named(const json_t *value)
{
	const char *text = json_string_value(value);
	char name[VOLUME_NAME_MAX + 1];

	return text && volume_of_option("volume", text, name) && path_is_name(name);
}

/* Volumes by name; a path, or what could be one, is the host's. */
static int are_named(const json_t *value)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(value))
		return is_named(value);
	json_array_foreach ((json_t *)(size_t)value, i, one)
		if (!is_named(one))
			return 0;
	return 1;
}

/*
 * None, which takes a right away, or a network of its own by name: what is no mode, and no key.
 * The sandbox's making adds whose it is.
 */
static int may_be_on(const char *network)
{
	struct err ignored;

	return !strcmp(network, "none") ||
	       (path_is_name(network) && nets_check_name(network, &ignored) == 0);
}

/* Upholds S19 of SECURITY.md. */
static int is_allowed(const char *option, const json_t *value)
{
	const struct param *p = param_named(option);

	if (!p)
		return 0;
	if (p->rights & PARAM_BY_TENANT)
		return 1;
	if (!value || !(p->rights & PARAM_BY_TENANT_NAMED))
		return 0;
	return p->opt.id == PARAM_VOLUME ? are_named(value) :
					   json_is_string(value) && may_be_on(json_string_value(value));
}

int tenantopts_check(const char *option, const json_t *value, struct err *e)
{
	return is_allowed(option, value) ?
		       0 :
		       err_set(e, ERR_DENIED, "option %s needs an admin token", option);
}

int tenantopts_check_change(const char *option, struct err *e)
{
	const int life = !strcmp(option, "idle-timeout") || !strncmp(option, "owner-", 6);

	if (is_allowed(option, NULL))
		return 0;
	return err_set(e, ERR_DENIED, "%s needs an admin token",
		       life || !strncmp(option, "io-", 3) ? option : "a rule of the network");
}
