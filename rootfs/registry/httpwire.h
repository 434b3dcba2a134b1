/* SPDX-License-Identifier: Apache-2.0 */
/*
 * httpwire - what berth-image and berth-http say to each other.
 *
 * A SOCK_SEQPACKET pair; each packet is one JSON object and at most one
 * descriptor.  berth-image sends requests with descriptors; berth-http answers
 * with events and never with a descriptor.  berth-http reads what the network
 * sends, so berth-image takes its packets for hostile.
 *
 * To berth-http, first of all:
 *   {"op":"hello","retries":N,"stall_ms":N,"upload_chunk":N,"user_agent":S,
 *    "credentials":[{"origin","user","password"} | {"origin","identity_token"}],
 *    "realms":["HOST=REALMHOST"]}  with the CA file as descriptor, if there is one
 * then, each with an id that its events repeat:
 *   {"op":"ping","endpoints":[E]}
 *   {"op":"manifest","endpoints":[E...],"ref":S,"max":N}            + where the bytes go
 *   {"op":"blob","endpoints":[E...],"digest":S,"size":N}           + where the bytes go
 *   {"op":"push-blob","endpoints":[E],"digest":S,"size":N,"from":S} + the bytes
 *   {"op":"have-blob","endpoints":[E],"digest":S,"from":S}
 *   {"op":"push-manifest","endpoints":[E],"ref":S,"type":S,"size":N} + the bytes
 * with E = {"base":"https://HOST:PORT","repo":S}.
 * From berth-http:
 *   {"event":"progress","id":N,"bytes":N}
 *   {"event":"retry","id":N,"delay_ms":N,"why":S}
 *   {"event":"done","id":N,"endpoint":N,"bytes":N,"type":S,"digest":S,"existed":B,"mounted":B}
 *   {"event":"failed","id":N,"endpoint":N,"code":S,"message":S}
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
 * One packet.  1 with *ret_j a new reference and, unless ret_fd is NULL, *ret_fd
 * a descriptor or -1; 0 when the peer is gone; -1 (ERR_BUSY: nothing there).  A
 * descriptor that was not asked for is never received.
 */
int httpwire_recv(int sock, json_t **ret_j, int *ret_fd, struct err *e);

#endif
