/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/tenantopts.h"

#include <string.h>

#include "base/mem.h"

/* Upholds S19 of SECURITY.md. */
int tenantopts_are(const char *option, const json_t *value)
{
	static const char *const all[] = {
		"memory", "swap", "cpus", "pids", "disk", "disk-inodes", "tmp-size", "env", "user",
		"workdir", "hostname", "timeout", "grace", "ulimit", "label", "read-only", "ttl", "auto-remove",
		"service", "entrypoint", "init-command", "stop-signal", "stop-timeout", "restart",
		"health-cmd", "health-exec", "health-interval", "health-timeout", "health-retries",
		"health-start-period", "health-start-interval", "no-health", "no-healthcheck",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(all); i++)
		if (!strcmp(all[i], option))
			return 1;
	/* which takes a right away, and so needs none */
	return !strcmp(option, "network") && json_is_string(value) &&
	       !strcmp(json_string_value(value), "none");
}

int tenantopts_check_change(const char *option, struct err *e)
{
	const int life = !strcmp(option, "idle-timeout") || !strncmp(option, "owner-", 6);

	if (tenantopts_are(option, NULL))
		return 0;
	return err_set(e, ERR_DENIED, "%s needs an admin token",
		       life || !strncmp(option, "io-", 3) ? option : "a rule of the network");
}
