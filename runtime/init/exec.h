/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec - start one command inside the sandbox.
 */
#ifndef BERTH_RUNTIME_INIT_EXEC_H
#define BERTH_RUNTIME_INIT_EXEC_H

#include <sys/types.h>

#include "runtime/sandbox/initproto.h"

/* The descriptors that came with a request; -1 if missing. */
struct exec_fds {
	int std[3];
	int shell[2];
	int program;
	int blob;
	int cgroup;
	int tasks[INIT_FDS_MAX];
	uint32_t task_count;
};

/*
 * Runs the command of rq, whose blob (blob_len bytes) is checked here. Returns its pid once
 * execve has succeeded, or -1 with e naming the step.
 */
pid_t exec_start(const struct init_request *rq, const char *blob, const struct exec_fds *fds, struct err *e);

#endif
