/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - berth-ssh: the server's side of one SSH connection.  Upholds S62 of SECURITY.md.
 *
 * Theory of operation.  berth ssh-proxy and berthd start a process for each connection, with its
 * socket and one over which it asks.  It reads what the client sends, so it has no file, no right
 * and no way to make a socket (runtime/net/confine.h): commands, files and ports of the sandbox are
 * pipes, terminals and sockets that its starter hands over, who asks the sandbox's keeper for them.
 * It holds the private host key.  One poll loop; only a question waits for its answer.
 *
 * Memory: libssh keeps at most its window of a channel, and as much again is kept here while a
 * reader in the sandbox is slow; a client that sends more than its window is cut off, and
 * RLIMIT_AS is above all.
 *
 * The socket (SOCK_SEQPACKET) carries JSON.  To berth-ssh:
 *   {"job":{"parent","login","key"}}	first; "login": clients prove who they are; the key in PEM
 *   {"n":N,...}		the answer to a question, with its descriptors; "error": why it is refused
 *   {"ended":ID,"status","signal","note"}	a command has ended
 *   {"over":true}		so has the sandbox, of which ports lead to the client
 * From it:
 *   {"ready":true}, or {"failed":TEXT} before its end
 *   {"n","ask":"login","user","password"}
 *   {"n","ask":"exec","id","user","env","command","tty"}: three pipes, or a terminal; no "command": a shell
 *   {"n","ask":"sftp","id","user"}: three pipes
 *   {"n","ask":"port","port","ipv6"}: a socket that connects
 *   {"n","ask":"listen","port"}: a socket that listens
 *   {"signal":N,"id"}, {"close":ID}: no answer
 */
#ifndef BERTH_RUNTIME_SSH_SERVER_H
#define BERTH_RUNTIME_SSH_SERVER_H

#include "base/err.h"

#define SSH_PACKET 196608	/* bytes of a packet: below what a socket takes at once */
#define SSH_CONN (HELPER_SOCK + 1)	/* the connection */
#define SSH_CHANNELS 64	/* of a connection */
#define SSH_SESSIONS 16		/* of these with a command, and kept for those */
#define SSH_LISTENS 16		/* ports that lead to the client */
#define SSH_LOGIN_MS 30000	/* from the first byte to the client's login */
#define SSH_LOGIN_TRIES 3
#define SSH_USER_MAX 160	/* bytes of a user's name */
#define SSH_ENV_MAX 64		/* variables, */
#define SSH_ENV_BYTES 32768	/* and their bytes */

/* Serves until the client or its starter has gone; returns before only with an error. */
int server_run(struct err *e);
/* Writes a new private host key (Ed25519, PEM) and its public part ("TYPE BASE64\n") to two descriptors. */
int server_make_key(int private_fd, int public_fd, struct err *e);

#endif
