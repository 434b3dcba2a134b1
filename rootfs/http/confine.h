/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine - reduces the rights of the process that speaks with the network.
 *
 * Afterwards it runs as nobody, without capabilities or a way to gain any. It sees /etc, /usr
 * and /lib read-only (name resolution, CA certificates) and nothing else. It cannot start a
 * program, make a namespace, trace, or listen. It keeps the descriptors that it was sent, and
 * outgoing connections.
 */
#ifndef BERTH_ROOTFS_HTTP_CONFINE_H
#define BERTH_ROOTFS_HTTP_CONFINE_H

#include "base/err.h"

/*
 * Call it as early as possible: it sets bounds, makes /dev/null stdio, and allows no core dump and
 * no debugger.
 */
int http_confine_begin(int keep_fd, struct err *e);
/* Gives up the remaining rights; call it in a process with one thread. */
int http_confine_end(struct err *e);

#endif
