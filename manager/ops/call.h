/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call - builds a command of berth as a document, and runs the process that carries it out.
 *
 * {"command":"fork","options":{"json":true,"count":2,"memory":"1g"},"operands":["ID@k1"]}. Options
 * have the long names of the command line and values of JSON. `berth op` reads the document from a
 * descriptor: no word of it shows in a list of processes, and none is too long. Making or starting
 * a sandbox forks a keeper, so a program with threads, or with descriptors of its clients, must not
 * do it in its own process.
 *
 * The functions that build a call take NULL for one that could not be built; call_start() reports it.
 */
#ifndef BERTH_MANAGER_OPS_CALL_H
#define BERTH_MANAGER_OPS_CALL_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/json.h"

#define CALL_FD 3	/* the descriptor from which `berth op` reads the document */
#define CALL_MAX (64u << 20)	/* most bytes of a document */

/* Makes a call of command with operands up to a NULL, whose answer is JSON: a new reference, or NULL. */
json_t *call_of(const char *command, ...) __attribute__((sentinel));
/*
 * Sets an option; consumes value. NULL, false and null leave it out. A list option of a sandbox,
 * such as env, gets the value or values in addition to those that it has; any other value is
 * replaced.
 */
void call_set(json_t *call, const char *option, json_t *value);
/* As call_set(), for a text; NULL leaves it out. */
void call_text(json_t *call, const char *option, const char *value);
/* A flag. */
void call_flag(json_t *call, const char *option);
/* Sets each option of an object, or of NULL. */
void call_options(json_t *call, const json_t *options);
/* Adds one operand. */
void call_operand(json_t *call, const char *text);
/* Adds the strings of an array, or of NULL, as operands. */
void call_operands(json_t *call, const json_t *texts);
/*
 * Adds words of a command line, an array of strings: "--name", "--name=value", and after "--"
 * operands. An option that is repeated becomes a list.
 */
void call_words(json_t *call, const json_t *words);
/* Adds the operand SANDBOX@CHECKPOINT, or SANDBOX if checkpoint is NULL. */
void call_sandbox(json_t *call, const char *sandbox, const char *checkpoint);

/* The process of a call. Its outputs must be read, or it blocks. */
struct called {
	pid_t pid;
	int out, err;
};

#define CALLED_NONE { .pid = -1, .out = -1, .err = -1 }

/*
 * Starts program (a path of berth) with the call, which it consumes. in_fd is its stdin; -1: none.
 * environment: NULL is ours. Our ends of its outputs do not block.
 */
int call_start(const char *program, char *const *environment, json_t *call, int in_fd, struct called *ret,
	       struct err *e);
/* Called every CALL_LOOK_MS while a call runs: -1 with e ends the wait, and the process. */
typedef int call_look_fn(void *ctx, struct err *e);
#define CALL_LOOK_MS 200
/*
 * Reads its outputs to their end and waits for it: stdout goes to out (NULL: nowhere). look may be
 * NULL. The error is its own, if it failed.
 */
int call_finish(struct called *c, call_look_fn *look, void *ctx, struct buf *out, struct err *e);
/* Ends the process with SIGTERM, and reaps it. */
void call_abort(struct called *c);

#endif
