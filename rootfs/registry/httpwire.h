/* SPDX-License-Identifier: Apache-2.0 */
/*
 * httpwire - the messages between berth-image and berth-http.
 */
#ifndef BERTH_ROOTFS_REGISTRY_HTTPWIRE_H
#define BERTH_ROOTFS_REGISTRY_HTTPWIRE_H

#include "base/err.h"
#include "base/json.h"

#define HTTPWIRE_MAX (96u << 10)	/* bytes of a packet */
#define HTTPWIRE_FD 3			/* berth-http's end of the pair */

/* Sends j, with fd unless it is -1.  A full socket (only when it is non-blocking) is ERR_BUSY. */
int httpwire_send(int sock, const json_t *j, int fd, struct err *e);
/*
 * Receives one packet. 1 with *ret_j a new reference and, unless ret_fd is NULL, *ret_fd a
 * descriptor or -1; 0 when the peer is gone; -1 (ERR_BUSY: no packet yet). A descriptor that was
 * not asked for is never received.
 */
int httpwire_recv(int sock, json_t **ret_j, int *ret_fd, struct err *e);

#endif
