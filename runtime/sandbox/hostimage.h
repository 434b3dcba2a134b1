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

/* An empty directory of the skeleton. */
#define HOSTIMAGE_EMPTY_DIR "srv"

/* Returns the host directories exposed read-only ("/usr", and "/bin", "/lib", ... if they are no
 * links into it); NULL with errno if one cannot be looked at. */
const char *const *hostimage_dirs(void);
/* Opens the directory of the skeleton below state_fd, which is made if missing: an O_PATH descriptor. */
int hostimage_layer(int state_fd, struct err *e);

#endif
