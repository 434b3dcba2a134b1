/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxyconn - shared by the two halves of a connection through the proxy: its ends and its bytes
 * (proxyconn.c), its request (proxyask.c).
 */
#ifndef BERTH_RUNTIME_NET_PROXYCONN_H
#define BERTH_RUNTIME_NET_PROXYCONN_H

#include "runtime/net/proxy.h"

/* Writes the one line of a connection to the log; a second call does nothing. */
void conn_note(struct conn *c, const char *verdict, const char *reason);
void conn_die(struct conn *c);
/* Waits for what its state wants. */
/* Puts bytes on their way to the client. */
void conn_say(struct conn *c, const char *p, size_t n);
void conn_socks_say(struct conn *c, unsigned char code);
void conn_http_say(struct conn *c, const char *status, const char *why, const char *remedy);
/* Refused by the policy; could not be done; a budget is used up: told to the client, counted, logged. */
void conn_deny(struct conn *c, const char *why, const char *remedy);
void conn_fail(struct conn *c, unsigned char socks, const char *status, const char *why);
/*
 * The command that would allow it: berth update for a sandbox that lives, another berth run
 * otherwise.
 */
void conn_remedy(const struct conn *c, const char *options, char *out, size_t n);
void conn_exhausted(struct conn *c, const char *why);
/* Sends its remaining answer, then ends it. */
void conn_ending(struct conn *c);
/* 1 when no byte is left in the budget: then everything ends. */
int conn_over_budget(struct conn *c);

/* The bytes from the client so far. */
void proxyask_read(struct conn *c);
/* The next of the addresses that may be gone to. */
void proxyask_try_next(struct conn *c);
/*
 * proxyconn.c. For a tunnel: the client has sent more bytes, which are in out already; the
 * server has sent these. Any of these functions may end the connection.
 */
void proxypeek_begin(struct conn *c);
void proxypeek_client(struct conn *c, size_t more);
void proxypeek_server(struct conn *c, const char *p, size_t n);

/* Connects the client to t, without a request from it. */
void proxyask_forward(struct conn *c, const struct nettarget *t);
/* The server's socket is connected, or failed to. */
void proxyask_connected(struct conn *c);

#endif
