/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper - a child program of ours that has the libraries or rights which its caller must not
 * have.
 *
 * It has /dev/null as 0, 1 and 2, HELPER_SOCK to its caller (SOCK_SEQPACKET), the given
 * descriptors above that, no others, and an environment of its own. An answer is one packet:
 * struct err, then JSON or nothing. Both sides have the same version, because they are installed
 * together.
 */
#ifndef BERTH_BASE_HELPER_H
#define BERTH_BASE_HELPER_H

#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"

#define HELPER_SOCK 3
#define HELPER_FDS_MAX 16
#define HELPER_PACKET_MAX 65536

struct helper {
	pid_t pid;	/* 0: none */
	int sock;	/* -1 */
	const char *name;	/* for messages; argv[0], borrowed */
};

/*
 * Starts program (program.h) with fds[] as 4 and up; -1 stands for /dev/null. h is uninitialised
 * storage.
 */
int helper_start(struct helper *h, int program, char *const *argv, const int *fds, size_t n, struct err *e);
/* Waits for one answer; *ret (or NULL) gets its JSON, a new reference. */
int helper_answer(struct helper *h, int timeout_ms, json_t **ret, struct err *e);
/* Closes the socket, sends signo unless it is 0, and waits for the end. Idempotent. */
void helper_end(struct helper *h, int signo);

#endif
