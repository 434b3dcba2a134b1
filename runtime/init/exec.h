/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec - start one command inside the sandbox.
 */
#ifndef BERTH_RUNTIME_INIT_EXEC_H
#define BERTH_RUNTIME_INIT_EXEC_H

#include <sys/types.h>

#include "runtime/initproto.h"

/*
 * Runs the command of rq, whose strings start at blob (blob_len bytes, checked
 * here), with std[0..2] as its descriptors 0..2.  Returns its pid once execve
 * succeeded, or -1 with e naming the step.
 */
pid_t exec_start(const struct init_request *rq, const char *blob, const int std[3], struct err *e);

#endif
