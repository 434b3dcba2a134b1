/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostimage - the pseudo-image "host": the host's /usr, read-only, over a small
 * skeleton of our own.
 *
 * The skeleton is a real layer below the state directory, made once and remade
 * when what it was copied from changes.  From /etc it takes a short list of
 * names, and of those only what everybody on the host may read.  Nothing of
 * /home, /root, /var, /run or /opt is in it (S9).
 */
#ifndef BERTH_RUNTIME_SANDBOX_HOSTIMAGE_H
#define BERTH_RUNTIME_SANDBOX_HOSTIMAGE_H

#include "base/err.h"

/* A directory of the skeleton that is empty. */
#define HOSTIMAGE_EMPTY_DIR "srv"

/* The host directories exposed read-only ("/usr", and "/bin", "/lib", ... where they are no links into it); NULL with
 * errno when one cannot be looked at. */
const char *const *hostimage_dirs(void);
/* O_PATH directory fd of the skeleton below state_fd, which is made when needed. */
int hostimage_layer(int state_fd, struct err *e);

#endif
