/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execs - the execs that clients of this berthd made: their commands, and their states.
 *
 * Docker makes an exec before it starts it, so this small description is kept in memory; the
 * command itself is the keeper's, and lives on without it. At most EXECS_MAX of EXECS_BYTES_MAX
 * together are kept: a new one replaces the oldest that are over or were never started (S54).
 */
#ifndef BERTH_MANAGER_DOCKER_EXECS_H
#define BERTH_MANAGER_DOCKER_EXECS_H

#include "base/err.h"
#include "base/json.h"

#define EXECS_MAX 4096
#define EXECS_BYTES_MAX (16u << 20)
#define EXEC_ID 65

enum exec_state { EXEC_NEW, EXEC_STARTS, EXEC_RUNS, EXEC_ENDED };

/* A copy of one; release gives back its body. */
struct exec {
	char id[EXEC_ID], box[EXEC_ID], command[24];
	enum exec_state state;
	int exit_code;
	json_t *body;
};

struct execs;

struct execs *execs_new(void);
void execs_free(struct execs *x);
/* Copies body.  ERR_LIMIT while all of them run. */
int execs_add(struct execs *x, const char *box, const json_t *body, char ret_id[EXEC_ID],
	      struct err *e);
/* 1 found, and then release it. */
int execs_get(struct execs *x, const char *id, struct exec *ret);
/* The id of the exec that runs, or ran, as this command of the box: 1, or 0 without one. */
int execs_of_command(struct execs *x, const char *box, const char *command, char ret_id[EXEC_ID]);
void exec_release(struct exec *e);
/* Changes it from new to starting: 1; 0: it is not new; -1: there is none. */
int execs_begin(struct execs *x, const char *id);
void execs_started(struct execs *x, const char *id, const char *command);
void execs_ended(struct execs *x, const char *id, int exit_code);

#endif
