/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process - start another program of the host and wait for it, without a shell,
 * without PATH, with a clean environment.
 */
#ifndef BERTH_BASE_PROCESS_H
#define BERTH_BASE_PROCESS_H

#include "base/err.h"

/*
 * Runs path with argv; pass_fd (or -1) is its descriptor 3. stdin and stdout are /dev/null,
 * stderr is ours. *ret_status is the exit status, 128+n for a signal. A missing program is
 * ERR_NOT_FOUND.
 */
int process_run(const char *path, const char *const *argv, int pass_fd, int *ret_status, struct err *e);

#endif
