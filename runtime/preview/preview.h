/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preview - berth-preview: the web server in front of servers in sandboxes.  Upholds S61 of
 * SECURITY.md.
 *
 * Theory of operation.  berthd starts it, with listening sockets, and one socket over which it
 * asks.  It reads what browsers send, so it has no file, no right, no id of a user's and no way to
 * make a socket of its own (confine.h, and no call of connect()): every connection to a sandbox is
 * handed over by berthd, which decides by the address and by what came as a token.  One process,
 * one epoll loop, a fixed number of places; nothing in it waits.
 *
 * A connection carries one request after the other; each is asked for anew, and has a connection
 * of its own to the server in the sandbox.  So no byte behind a request's framed body comes to a
 * server that was not asked for.
 *
 * The socket (SOCK_SEQPACKET) carries JSON.  To berth-preview:
 *   {"job":{"secure":0|1,"parent","most","per","wait_ms","listens"}}          first; "secure": it
 *       speaks TLS only, and accepts nobody before it has a certificate that it takes
 *   {"tls":true} with a file of certificates and one of the key, in PEM
 *   {"n","turn","key",...} the answer to a question, with the socket of the sandbox:
 *       "status","title","text": refused; "again":MS: ask again after that; "nothing": nothing listens;
 *       "cookie":SECONDS: the
 *       token of the query is good, and nothing is connected
 * From it:
 *   {"ready":true}, {"n","turn","host","field","query","cookie","ipv6","enter","waited"}: a question,
 *   {"used":[KEY...]}: connections of these have carried bytes
 *   {"error":TEXT}: a certificate that it does not take
 */
#ifndef BERTH_RUNTIME_PREVIEW_PREVIEW_H
#define BERTH_RUNTIME_PREVIEW_PREVIEW_H

#include "base/err.h"

#define PREVIEW_PACKET 8192
#define PREVIEW_LISTEN 4	/* the first of its listening sockets */
#define PREVIEW_LISTENS 4
#define PREVIEW_MOST 2048	/* connections */
#define PREVIEW_USED_MS 5000	/* how often it tells what was used */

/* Takes out of a text what would end it in JSON or be markup in a page. */
void preview_plain(char *text);
/* Serves until berthd has gone; returns before only with an error. */
int preview_run(struct err *e);

#endif
