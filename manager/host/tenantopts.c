/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/tenantopts.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/nets.h"
#include "manager/host/volume_name.h"

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
	static const char *const all[] = {
		"memory",
		"swap",
		"cpus",
		"pids",
		"disk",
		"disk-inodes",
		"tmp-size",
		"env",
		"user",
		"workdir",
		"hostname",
		"timeout",
		"grace",
		"max-silent-time",
		"alias",
		"ulimit",
		"label",
		"read-only",
		"ttl",
		"auto-remove",
		"service",
		"entrypoint",
		"init-command",
		"stop-signal",
		"stop-timeout",
		"restart",
		"health-cmd",
		"health-exec",
		"health-interval",
		"health-timeout",
		"health-retries",
		"health-start-period",
		"health-start-interval",
		"no-health",
		"no-healthcheck",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(all); i++)
		if (!strcmp(all[i], option))
			return 1;
	if (value && !strcmp(option, "volume"))
		return are_named(value);
	return value && !strcmp(option, "network") && json_is_string(value) &&
	       may_be_on(json_string_value(value));
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
