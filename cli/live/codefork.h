/* SPDX-License-Identifier: Apache-2.0 */
/* codefork - a sandbox of a zygote for one piece of code. */
#ifndef BERTH_CLI_LIVE_CODEFORK_H
#define BERTH_CLI_LIVE_CODEFORK_H

#include "cli/live/sandbox_open.h"

/*
 * Makes it, and connects s to its keeper.  It ends with this process, however that ends, and is
 * removed then.
 */
int codefork_begin(struct sandbox_ref *s, const char *zygote, struct err *e);
/* Removes it now. */
void codefork_end(struct sandbox_ref *s);

#endif
