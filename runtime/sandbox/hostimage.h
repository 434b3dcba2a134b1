/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostimage - the pseudo-image "host": the host's /usr, read-only, over a small skeleton made by
 * berth.
 *
 * The skeleton is a real layer below the state directory, made once and remade when its sources
 * change. From /etc it takes a short list of names, and only files that every user of the host
 * may read. It has nothing from /home, /root, /var, /run or /opt (S9).
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
