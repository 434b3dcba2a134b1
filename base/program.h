/* SPDX-License-Identifier: Apache-2.0 */
/* program - other programs of the host: where those of berth are, how one is run to its end, and how one stays as a helper. */
#ifndef BERTH_BASE_PROGRAM_H
#define BERTH_BASE_PROGRAM_H

#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"

/* ---- where a program of ours is ---- */

/*
 * program_open() finds the helper programs of berth.
 *
 * Each is beside this executable (a build tree), or in ../libexec/berth, or for berthd in ../sbin
 * (an installation); PATH is never used.
 */

/* Returns an O_PATH descriptor for execveat(2), or -1 with ERR_NOT_FOUND and a hint. */
int program_open(const char *name, struct err *e);

/* ---- running a program to its end ---- */

/*
 * process_run() - start another program of the host and wait for it, without a shell,
 * without PATH, with a clean environment.
 */

/*
 * Runs path with argv; pass_fd (or -1) is its descriptor 3. stdin and stdout are /dev/null,
 * stderr is ours. *ret_status is the exit status, 128+n for a signal. A missing program is
 * ERR_NOT_FOUND.
 */
int process_run(const char *path, const char *const *argv, int pass_fd, int *ret_status, struct err *e);

/* ---- a helper on a socket ---- */

/*
 * helper - a child program of ours that has the libraries or rights which its caller must not
 * have.
 *
 * It has /dev/null as 0, 1 and 2, HELPER_SOCK to its caller (SOCK_SEQPACKET), the given descriptors
 * above that, no others, and an environment of its own. An answer is one packet: a struct err, then
 * JSON or nothing. Both sides have the same version, because they are installed together.
 */

#define HELPER_SOCK 3
#define HELPER_FDS_MAX 16
#define HELPER_PACKET_MAX 65536

struct helper {
	pid_t pid;	/* 0: none */
	int sock;	/* -1 */
	const char *name;	/* for messages; argv[0], borrowed */
};

/*
 * Starts program (program_open()) with fds[] as 4 and up; -1 stands for /dev/null. h is uninitialised
 * storage.
 */
int helper_start(struct helper *h, int program, char *const *argv, const int *fds, size_t n, struct err *e);
/* Waits for one answer; *ret (or NULL) gets its JSON, a new reference. */
int helper_answer(struct helper *h, int timeout_ms, json_t **ret, struct err *e);
/* Closes the socket, sends signo unless it is 0, and waits until the helper has ended. Idempotent. */
void helper_end(struct helper *h, int signo);

#endif
