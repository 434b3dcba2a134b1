/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sshdesk - what one SSH connection may ask of its sandbox (runtime/ssh/server.h).  Upholds S62 of
 * SECURITY.md.
 *
 * berth-ssh reads what the client sends, so its questions are as hostile as the client: each is
 * about this one sandbox, and becomes a request to its keeper as berth exec, berth file and berth
 * forward send it.  A command has a connection to the keeper of its own, so that what the client
 * leaves ends when that closes.
 */
#ifndef BERTH_MANAGER_KEEPER_SSHDESK_H
#define BERTH_MANAGER_KEEPER_SSHDESK_H

#include <poll.h>

#include "base/program.h"
#include "manager/host/registry.h"

#define SSHDESK_SESSIONS 16	/* as berth-ssh has them */
#define SSHDESK_POLLS (2 + SSHDESK_SESSIONS)

/* Who decides which sandbox a client with this name and password has, and how long. */
struct sshdesk_login {
	/* 0 with its id, or -1 */
	int (*check)(void *ctx, const char *user, const char *password, char ret_id[65], struct err *e);
	/* whether the connection must end: asked about twice a second while a keeper does not answer */
	int (*is_over)(void *ctx);
	void *ctx;
};

struct sshdesk {
	struct registry *registry;
	char id[65];			/* "": the client has not logged in */
	struct sshdesk_login login;
	const char *user;	/* borrowed: runs the commands, "" as in berth exec; NULL: whom the client names */
	struct helper helper;	/* berth-ssh */
	int listen_sock;	/* to the keeper, once a port leads to the client: it closes with the sandbox; or -1 */
	struct sshdesk_session {
		int sock;	/* to the keeper; -1: a free place */
		unsigned id;
		int told;	/* of its end */
		int err_fd;	/* what the file helper says; -1 */
	} session[SSHDESK_SESSIONS];
};

#define SSHDESK_USER "berth"	/* as a client's name: whom berth exec would take */

/*
 * Makes the host key of this state directory if there is none, and gives the path of the known_hosts file that
 * has its public part under the name "berth" (SSHDESK_HOST).
 */
#define SSHDESK_HOST "berth"
int sshdesk_key(struct registry *r, char *ret_known_hosts, size_t size, struct err *e);
/*
 * Starts berth-ssh on the connection conn_fd of a client that has the rights of berth exec, for the running
 * sandbox id; with login, id is "", and the client must prove more.  d is uninitialised storage.
 */
int sshdesk_open(struct sshdesk *d, struct registry *r, const char *id, int conn_fd, const struct sshdesk_login *login, struct err *e);
/* Fills SSHDESK_POLLS entries. */
void sshdesk_polls(const struct sshdesk *d, struct pollfd *p);
/* Serves what poll(2) found: 0; 1: the connection has ended; -1: berth-ssh failed. */
int sshdesk_serve(struct sshdesk *d, const struct pollfd *p, struct err *e);
/* Ends berth-ssh, and with it all that its client began.  Idempotent. */
void sshdesk_close(struct sshdesk *d);

#endif
