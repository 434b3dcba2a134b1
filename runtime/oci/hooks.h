/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_hooks - runs the configuration's programs at points of the lifecycle (config.md,
 * "POSIX-platform Hooks"): in order, the container's state on their stdin, killed at their timeout.
 */
#ifndef BERTH_RUNTIME_OCI_HOOKS_H
#define BERTH_RUNTIME_OCI_HOOKS_H

#include <jansson.h>

#include "base/err.h"

struct oci_hooks {
	const json_t *config;	/* the whole configuration */
	const char *cwd;	/* the bundle, or the root; NULL: unchanged */
	char **env;	/* for a hook without its own; NULL: ours */
	const int *fds;	/* stdout and stderr of oci_hooks_output(); NULL: opened as they are needed */
};

/*
 * Opens the files that the annotations name, for hooks that run where these are not visible; -1 for
 * a missing file.
 */
int oci_hooks_output(const json_t *config, int fds[2], struct err *e);
/* Returns 1 if the configuration has hooks of that name. */
int oci_hooks_any(const json_t *config, const char *name);
/*
 * Runs the hooks of name with state (which is borrowed) on stdin. The first failure ends the run,
 * unless keep_going, with which each failure is logged as a warning. Their output goes to our
 * stderr, or to the files that the annotations run.oci.hooks.stdout and .stderr name.
 */
int oci_hooks_run(const struct oci_hooks *h, const char *name, const json_t *state, int keep_going, struct err *e);

#endif
