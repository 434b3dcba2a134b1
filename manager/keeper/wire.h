/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire - the packets between a keeper and its clients.
 *
 * They use a SOCK_SEQPACKET unix socket in the sandbox's private run directory, mode 0600; the
 * keeper also asks SO_PEERCRED. One packet is one JSON object of at most WIRE_MAX bytes that starts
 * {"v":1,...}, where a request may have a higher version (protocol.h). Descriptors are sent along:
 * stdin, stdout and stderr of a command towards the keeper, a terminal's master or a memfd with
 * long data in either direction. A packet that is longer, no JSON, or of an unknown version ends
 * the connection.
 */
#ifndef BERTH_MANAGER_KEEPER_WIRE_H
#define BERTH_MANAGER_KEEPER_WIRE_H

#include <stddef.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define WIRE_VERSION 1
#define WIRE_MAX 131072
#define WIRE_FDS_MAX 4
#define WIRE_DATA_MAX (64u << 20)	/* bytes in a memfd that is sent along */

/*
 * Sends a request of any length, with "v", the version that it needs (protocol.h), before its
 * members. A long one is sent in a memfd, the last descriptor. ERR_INVALID if rq is NULL or its
 * text is not UTF-8, ERR_NOT_FOUND with EPIPE or ECONNRESET when the other side has gone.
 */
int wire_request(int sock, const json_t *rq, const int *fds, size_t count, struct err *e);
/*
 * Reports that the keeper has gone: ERR_NOT_FOUND with ESRCH, by which a caller tells it from a
 * thing that is missing in the sandbox. Returns -1.
 */
int wire_ended(struct err *e);
/* Sends an answer, with "v" before its members. ERR_LIMIT if it is too long; else as above. */
int wire_send(int sock, json_t *msg, const int *fds, size_t count, struct err *e);
/*
 * As wire_send(), with rest, n bytes of JSON from the comma to the closing brace, in place of the
 * object's own end.
 */
int wire_send_with(int sock, json_t *msg, const char *rest, size_t n, const int *fds, size_t count, struct err *e);
/*
 * Receives a packet: 1 with *ret_msg (a new reference) and the descriptors; 0 when the other side
 * has closed; -1 with e. wait_ms -1 waits for ever; ERR_TIMEOUT.
 */
int wire_recv(int sock, int wait_ms, json_t **ret_msg, int *fds, size_t max, size_t *ret_count, struct err *e);
/*
 * As wire_recv(), without parsing: buf, of WIRE_MAX + 1 bytes, gets the packet and *ret_len its
 * length; wire_parse() makes a message of it, or closes the descriptors.
 */
int wire_recv_text(int sock, int wait_ms, char *buf, size_t *ret_len, int *fds, size_t max, size_t *ret_count, struct err *e);
int wire_parse(const char *buf, size_t len, json_t **ret_msg, int *fds, size_t *count, struct err *e);
/*
 * Returns the members of a packet of this version as text, from the first to before the closing
 * brace; NULL: the packet must be parsed.
 */
const char *wire_members(const char *buf, size_t len, size_t *ret_len);
/* Makes {"error":{"code","message"}} from e; and the reverse. */
json_t *wire_error(const struct err *e);
/* Returns -1 with e if msg holds an error, else 0. */
int wire_check(const json_t *msg, struct err *e);
/* Make a memfd with n bytes, at offset 0; and read the whole of one. */
int wire_data(const void *p, size_t n, struct err *e);
int wire_data_parts(const struct iovec *part, size_t n, struct err *e);
int wire_read_data(int fd, struct buf *out, struct err *e);

#endif
