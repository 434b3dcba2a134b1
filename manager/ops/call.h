/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call - a command of berth as a document, and the process that carries it out.
 *
 * {"command":"fork","options":{"json":true,"count":2,"memory":"1g"},"operands":["ID@k1"]}.
 * Options have the long names of the command line and values of JSON.  `berth op` reads the document
 * from a descriptor: no word of it shows in a list of processes, and none is too long.  What makes or
 * starts a sandbox forks a keeper, so a program with threads, or with descriptors of its clients,
 * must not do it in its own process.
 *
 * The functions that build a call take NULL for one that could not be built; call_start() reports it.
 */
#ifndef BERTH_MANAGER_OPS_CALL_H
#define BERTH_MANAGER_OPS_CALL_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/json.h"

#define CALL_FD 3	/* where `berth op` reads the document */
#define CALL_MAX (64u << 20)	/* bytes of a document */

/* A call of command with operands up to a NULL, whose answer is JSON: a new reference, or NULL. */
json_t *call_of(const char *command, ...) __attribute__((sentinel));
/*
 * Sets an option; consumes value.  NULL, false and null leave it out.  A list of a sandbox's options,
 * such as env, gets the value or values beside those that it has; any other value is replaced.
 */
void call_set(json_t *call, const char *option, json_t *value);
/* The same for a text; NULL leaves it out. */
void call_text(json_t *call, const char *option, const char *value);
/* A flag. */
void call_flag(json_t *call, const char *option);
/* Sets each option of an object, or of NULL. */
void call_options(json_t *call, const json_t *options);
/* One operand more. */
void call_operand(json_t *call, const char *text);
/* The strings of an array, or of NULL, as further operands. */
void call_operands(json_t *call, const json_t *texts);
/*
 * Words of a command line, an array of strings: "--name", "--name=value", and after "--" operands.
 * An option that comes again is a list.
 */
void call_words(json_t *call, const json_t *words);
/* The operand SANDBOX@CHECKPOINT, or SANDBOX when checkpoint is NULL. */
void call_sandbox(json_t *call, const char *sandbox, const char *checkpoint);

/* The process of a call; its outputs have to be read, or it waits. */
struct called {
	pid_t pid;
	int out, err;
};

#define CALLED_NONE { .pid = -1, .out = -1, .err = -1 }

/*
 * Starts program (a path of berth) with the call, which it consumes.  in_fd is its stdin; -1: it has
 * none.  environment: NULL is ours.  Our ends of its outputs do not block.
 */
int call_start(const char *program, char *const *environment, json_t *call, int in_fd, struct called *ret,
	       struct err *e);
/* Called every CALL_LOOK_MS while a call runs: -1 with e ends the wait, and the process. */
typedef int call_look_fn(void *ctx, struct err *e);
#define CALL_LOOK_MS 200
/*
 * Reads its outputs to their end and waits for it: stdout goes to out (NULL: nowhere).  look may be
 * NULL.  Its own error, when it failed.
 */
int call_finish(struct called *c, call_look_fn *look, void *ctx, struct buf *out, struct err *e);
/* Ends it with SIGTERM, and reaps it. */
void call_abort(struct called *c);

#endif
