/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter - one that runs its preload, until it waits for code. */
#ifndef BERTH_CLI_ZYGOTE_INTERPRETER_H
#define BERTH_CLI_ZYGOTE_INTERPRETER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/sandbox/launch.h"

struct preload {
	uint64_t ms;       /* it may take */
	int out_fd;        /* its stdout and stderr; -1: none */
	int ready_fd;      /* on which the agent sends a byte when it is done, or -1 */
	int end_fd;        /* hung up when nobody waits for the interpreter any more, or -1 */
	char ready[33];    /* what the agent writes when it is done, without ready_fd */
	char output[8192]; /* the last of what it wrote */
	size_t output_len;
};

/*
 * Starts the interpreter as command 1 of sandbox, and sets out_fd.  *ret_in is our end of its
 * stdin; NULL: it reads the end of a file.
 */
int preload_start(struct preload *p, struct sandbox *sandbox, const struct job *job, int *ret_in,
		  struct err *e);
/*
 * The interpreter is command 1 of sandbox.  0 when it waits.  ERR_INVALID when it ended instead,
 * ERR_TIMEOUT, ERR_BUSY for end_fd, the error of its start.
 */
int preload_await(struct preload *p, struct sandbox *sandbox, struct err *e);

#endif
