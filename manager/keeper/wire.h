/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire - what a keeper and its clients say to each other.
 *
 * A SOCK_SEQPACKET unix socket in the sandbox's private run directory, mode
 * 0600; the keeper also asks SO_PEERCRED.  One packet is one JSON object of at
 * most WIRE_MAX bytes that starts {"v":1,...}, where a request may have a higher
 * version (protocol.h); descriptors ride along:
 * stdin, stdout and stderr of a command towards the keeper, a terminal's master
 * or a memfd with long data in either direction.  A packet that is longer, no
 * JSON, or of an unknown version ends the connection.
 */
#ifndef BERTH_MANAGER_KEEPER_WIRE_H
#define BERTH_MANAGER_KEEPER_WIRE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define WIRE_VERSION 1
#define WIRE_MAX 131072
#define WIRE_FDS_MAX 4
#define WIRE_DATA_MAX (64u << 20)	/* bytes in a memfd that rides along */

/*
 * Sends a request of any length, with "v", the version that it needs (protocol.h), before its
 * members.  A long one goes in a memfd, the last descriptor.  ERR_INVALID when rq is NULL or its
 * text is not UTF-8, ERR_NOT_FOUND with EPIPE or ECONNRESET when the other side has gone.
 */
int wire_request(int sock, const json_t *rq, const int *fds, size_t count, struct err *e);
/* That the keeper has gone: ERR_NOT_FOUND with ESRCH, by which a caller tells it from what is not in the sandbox.  -1. */
int wire_ended(struct err *e);
/* Sends an answer, with "v" before its members.  ERR_LIMIT when it is too long; else as above. */
int wire_send(int sock, json_t *msg, const int *fds, size_t count, struct err *e);
/* The same with rest, n bytes of JSON from the comma to the closing brace, in the place of the object's own end. */
int wire_send_with(int sock, json_t *msg, const char *rest, size_t n, const int *fds, size_t count, struct err *e);
/*
 * 1 with *ret_msg (a new reference) and the descriptors; 0 when the other side
 * has closed; -1 with e.  wait_ms -1 waits for ever; ERR_TIMEOUT.
 */
int wire_recv(int sock, int wait_ms, json_t **ret_msg, int *fds, size_t max, size_t *ret_count, struct err *e);
/*
 * The same without a look into it: buf, of WIRE_MAX + 1 bytes, gets the packet and *ret_len its length; wire_parse() makes a message
 * of it, or closes the descriptors.
 */
int wire_recv_text(int sock, int wait_ms, char *buf, size_t *ret_len, int *fds, size_t max, size_t *ret_count, struct err *e);
int wire_parse(const char *buf, size_t len, json_t **ret_msg, int *fds, size_t *count, struct err *e);
/* The members of a packet of this version in one line, from the first to before the closing brace; NULL: it has to be parsed. */
const char *wire_members(const char *buf, size_t len, size_t *ret_len);
/* {"error":{"code","message"}} of e, and back. */
json_t *wire_error(const struct err *e);
/* -1 with e when msg holds an error, else 0. */
int wire_check(const json_t *msg, struct err *e);
/* Makes a memfd with n bytes, at offset 0; and reads the whole of one. */
int wire_data(const void *p, size_t n, struct err *e);
int wire_read_data(int fd, struct buf *out, struct err *e);

#endif
