/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job - one command to run in a sandbox.
 *
 * Strings are borrowed.  leaf, when given, is the cgroup the command is born in
 * (below the sandbox's own); without it the command shares the sandbox's.
 */
#ifndef BERTH_RUNTIME_SANDBOX_JOB_H
#define BERTH_RUNTIME_SANDBOX_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/rlimits.h"

struct job {
	const char *const *argv;
	size_t argc;
	const char *const *env;
	size_t env_count;
	const char *user;	/* "" is root */
	const char *workdir;	/* absolute in the sandbox, or "~" or "~/PATH": in the user's home */
	struct rlimits rlimits;
	uint32_t flags;		/* enum init_exec_flags: INIT_TTY, INIT_LAST, INIT_MAKE_CWD */
	int script_fd, status_fd;	/* with INIT_SHELL: the shell's descriptors 8 and 9 */
	int program_fd;		/* with INIT_EXEC_FD: the program to execute instead of argv[0] */
	const struct cgroup *leaf;
};

#endif
