/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redisconn - the connections to one Redis server, shared by threads.
 *
 * A call takes a connection that no other uses, makes it when it is lost, and waits when all are
 * taken. Of the scripts only the hashes are sent; a server that forgot them gets them again.
 * For ledger_redis.c.
 */
#ifndef BERTH_MANAGER_LEDGER_REDISCONN_H
#define BERTH_MANAGER_LEDGER_REDISCONN_H

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdint.h>

#include "base/err.h"

#define REDISCONN_MAX 8
#define REDISCONN_SCRIPTS 2

struct redisconn {
	char host[256], path[256], user[128], password[256];
	int port;
	uint64_t db, retry_ms;
	const char *const *scripts; /* borrowed; REDISCONN_SCRIPTS at most */
	int script_count;
	char sha[REDISCONN_SCRIPTS][41];
	pthread_mutex_t lock;
	pthread_cond_t freed;
	redisContext *c[REDISCONN_MAX];
	int used[REDISCONN_MAX];
};

/* For redisconn_close(); the caller fills in the members up to retry_ms before redisconn_open(). */
void redisconn_init(struct redisconn *s, const char *const *scripts, int count);
/*
 * Before there is a second thread: the first connection, and the hashes of all scripts. ERR_NET
 * when the server cannot be reached or does not take a script.
 */
int redisconn_open(struct redisconn *s, struct err *e);
void redisconn_close(struct redisconn *s);
/*
 * Sends until there is an answer or retry_ms have passed, so a request may be sent twice. script:
 * its number, whose hash becomes argv[1], or -1. The caller frees the answer; NULL with ERR_NET.
 */
redisReply *redisconn_call(struct redisconn *s, int script, int argc, const char **argv,
			   const size_t *len, struct err *e);
/* On a connection of its own, as while Redis is away those of the others wait in their tries. */
int redisconn_ping(struct redisconn *s, struct err *e);

#endif
