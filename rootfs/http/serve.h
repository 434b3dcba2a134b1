/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve - berth-http's work: requests of the distribution protocol, as
 * httpwire.h lists them, many at a time in one thread.
 *
 * It holds credentials and parses headers, but no image document: bodies are
 * handed on unread.
 */
#ifndef BERTH_ROOTFS_HTTP_SERVE_H
#define BERTH_ROOTFS_HTTP_SERVE_H

#include "base/err.h"

/* Serves sock until its other end is closed. before_requests is called after the hello, to give up rights. */
int http_serve(int sock, int (*before_requests)(struct err *e), struct err *e);

#endif
