/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxyconn - the functions by which the two halves of a connection through the proxy use each
 * other: its ends and its bytes (proxyconn.c), and its request (proxyask.c).
 */
#ifndef BERTH_RUNTIME_NET_PROXYCONN_H
#define BERTH_RUNTIME_NET_PROXYCONN_H

#include "runtime/net/proxy.h"

/* Writes the one line of a connection to the log; a second call does nothing. */
void conn_note(struct conn *c, const char *verdict, const char *reason);
void conn_die(struct conn *c);
/* Waits for what its state wants. */
/* Queues bytes for the client. */
void conn_say(struct conn *c, const char *p, size_t n);
void conn_socks_say(struct conn *c, unsigned char code);
void conn_http_say(struct conn *c, const char *status, const char *why, const char *remedy);
/*
 * End a request that the policy refuses, that failed, or for which a budget is used up: the client
 * is told, and the end counted and logged.
 */
void conn_deny(struct conn *c, const char *why, const char *remedy);
void conn_fail(struct conn *c, unsigned char socks, const char *status, const char *why);
/*
 * Gives the command that would allow it: berth update for a sandbox that stays, another berth run
 * otherwise.
 */
void conn_remedy(const struct conn *c, const char *options, char *out, size_t n);
void conn_exhausted(struct conn *c, const char *why);
/* Sends the remaining answer, then ends the connection. */
void conn_ending(struct conn *c);
/* Returns 1 if the budget has no byte left: then everything ends. */
int conn_over_budget(struct conn *c);

/* Reads the bytes that the client has sent so far. */
void proxyask_read(struct conn *c);
/* Tries the next of the allowed addresses. */
void proxyask_try_next(struct conn *c);
/*
 * Look at a tunnel's TLS (proxyconn.c): the client has sent more bytes, which are in out already;
 * the server has sent these. Any of these functions may end the connection.
 */
void proxypeek_begin(struct conn *c);
void proxypeek_client(struct conn *c, size_t more);
void proxypeek_server(struct conn *c, const char *p, size_t n);

/* Connects the client to t, without a request from it. */
void proxyask_forward(struct conn *c, const struct nettarget *t);
/* Called when the server's socket is connected, or failed to connect. */
void proxyask_connected(struct conn *c);

#endif
