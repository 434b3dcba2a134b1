/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdio - what the parts of `berth stdio` share: its requests, its connections, its answers.
 *
 * One poll loop (cmd_stdio.c).  A request holds one connection to a keeper while it is under way; connections are
 * kept for the next (request.c).  What makes or starts a sandbox runs as a process of its own (child.c): a keeper is
 * forked there, which must not inherit our descriptors.  exec hands pipes of ours to the command (exec.c):
 * nothing is dropped, and a reader that is slow slows the command down.  Files are the work of the helper in the
 * sandbox (fileop.c).  operations.c is the table of what there is, and of what members each operation takes.
 */
#ifndef BERTH_CLI_STDIO_STDIO_H
#define BERTH_CLI_STDIO_STDIO_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/live/sandbox_open.h"

#define STDIO_REQUESTS_MAX 256
#define STDIO_CONNECTIONS_MAX 512
#define STDIO_SANDBOX_MAX 60	/* connections to one keeper, which serves 64 */
#define STDIO_LINE_MAX (16u << 20)
#define STDIO_OUT_MAX (256u << 20)
#define STDIO_OUT_FULL (1u << 20)	/* from here on nothing more is read until some of it is written */
#define STDIO_CHUNK 65536

struct stdio_conn {
	int fd;			/* -1: a free slot */
	int used;		/* by a request */
	char sandbox[65];
};

enum stdio_kind { FREE, CALL, EXEC, CHILD };

struct stdio_request {
	enum stdio_kind kind;
	json_t *id;
	const char *op;
	int base64;			/* bytes that are not text are answered in base64 */
	int conn;			/* index, or -1 */
	char sandbox[65];
	char command[24], session[65];	/* what cancel ends */
	/* EXEC: this was answered; before it nothing is read from out */
	int started;
	int cancelled;
	int out[2];			/* EXEC, CHILD: our ends */
	char held[2][4];		/* the first bytes of a character that is not whole yet */
	size_t held_len[2];
	int in;				/* EXEC: our end of stdin, or -1 */
	int in_open;			/* more may be sent */
	struct buf input;
	size_t input_done;
	int is_fork;			/* EXEC: in a fork of a zygote (exec.c), sandbox */
	uint64_t until_ms;		/* is_fork: for one that is free */
	int file;			/* EXEC: the helper for files, whose output is the answer's */
	json_t *whole;			/* file: what the keeper is asked when all of the input is there; NULL: it was asked */
	pid_t pid;			/* CHILD */
	struct buf text[2];
};

struct stdio {
	struct sandbox_ref ref;
	struct stdio_conn conns[STDIO_CONNECTIONS_MAX];
	struct stdio_request requests[STDIO_REQUESTS_MAX];
	struct buf in, out;
	size_t in_scanned, out_done;
	int base64;		/* as the request that is being read wants it */
	int out_fd, out_is_socket;
	int forks_wait;		/* a request waits for a fork of a zygote */
	int in_eof, lost;	/* lost: stdout has no reader any more */
};

/* ---- request.c: lines out.  One that cannot be kept sets lost. */

/* Writes what there is without waiting. */
void answer_flush(struct stdio *st);
/* The object answer, which it consumes, with the id (borrowed).  A request of our own has id NULL: nobody is told. */
void answer_send(struct stdio *st, const json_t *id, json_t *answer);
/* To r, in the form that it wants bytes in. */
void answer_to(struct stdio *st, const struct stdio_request *r, json_t *answer);
/* n bytes of members as they came from a keeper, text to text: what most answers are. */
void answer_members(struct stdio *st, const json_t *id, const char *members, size_t n);
void answer_error(struct stdio *st, const json_t *id, const struct err *e);

/* ---- request.c: connections to keepers */

void conn_drop(struct stdio *st, int i);
/* The index of a connection to the sandbox that ref names, now in use; -1. */
int conn_take(struct stdio *st, const char *ref, struct err *e);
/* The index of fd, which it takes over, as a connection that serves one request. */
int conn_add(struct stdio *st, int fd, struct err *e);
/* Sends rq over r's connection. */
int conn_send(struct stdio *st, const struct stdio_request *r, json_t *rq, const int *fds, size_t count, struct err *e);

/* ---- request.c */

struct stdio_request *request_new(struct stdio *st, enum stdio_kind kind, json_t *id, struct err *e);
/* keep: its connection is between two requests and may serve the next. */
void request_end(struct stdio *st, struct stdio_request *r, int keep);
/* Answers e, then ends it. */
void request_fail(struct stdio *st, struct stdio_request *r, const struct err *e, int keep);
/* Takes a connection to the sandbox that rq names. */
int request_open(struct stdio *st, struct stdio_request *r, json_t *rq, struct err *e);
/* The one whose id is rq's "request"; ERR_NOT_FOUND. */
struct stdio_request *request_find(struct stdio *st, const json_t *rq, struct err *e);
/* Sends rq, which it consumes, on a connection of its own; the keeper's answer is the answer to id. */
int request_call(struct stdio *st, json_t *id, const char *sandbox, json_t *rq, const int *fds, size_t count, struct err *e);

/* ---- exec.c: the pipes of a command or child */

int pipes_make(int *ret_ours, int *ret_theirs, int we_read, struct err *e);
/* Writes what input there is without waiting, and closes stdin at its end. */
void pipes_input(struct stdio_request *r);
/* Takes what one of its outputs has now, to the reader or to text; 0 when there is nothing more now. */
int pipes_output(struct stdio *st, struct stdio_request *r, int which);
/* All that the outputs have now, and the bytes held back for want of the rest of their character. */
void pipes_drain(struct stdio *st, struct stdio_request *r);

/* ---- exec.c */

int exec_start(struct stdio *st, struct stdio_request *r, json_t *rq, struct err *e);
/* Ends all that r's command has started; the keeper's answer is the answer to id. */
int exec_kill(struct stdio *st, json_t *id, const struct stdio_request *r, struct err *e);
/* Reads the next packet of r's keeper. */
void exec_answer(struct stdio *st, struct stdio_request *r);

/* ---- exec.c: code in a fork */

int forkrun_start(struct stdio *st, json_t *id, const json_t *rq, struct err *e);
/* Reads the next packet of the fork's supervisor. */
void forkrun_answer(struct stdio *st, struct stdio_request *r);
/* Ends those that have waited for a fork long enough; how many ms the next has left, -1: none. */
int forkrun_tick(struct stdio *st);
/* Kills the fork; its verdict follows. */
void forkrun_cancel(struct stdio *st, struct stdio_request *r);

/* ---- fileop.c */

int fileop_start(struct stdio *st, json_t *id, json_t *rq, const char *op, struct err *e);
/* The helper has ended: sends its result. */
/* Adds to what a write writes, and starts it at the end. */
int fileop_more(struct stdio *st, struct stdio_request *r, const struct buf *data, int eof, struct err *e);
void fileop_end(struct stdio *st, struct stdio_request *r, const json_t *verdict);

/* ---- child.c */
/*
 * How the members of an operation become a call.  A member is the option of its name, with hyphens;
 * "options" are further options, "args" further operands; "timeout_ms" is the option timeout.
 */
struct stdio_call {
	const char *command;	/* NULL: "args" are a command line of the client's own */
	const char *operands;	/* the members that are operands, in order; "sandbox@" takes the checkpoint along */
	const char *rename;	/* a member whose option has another name: "file=output"; or NULL */
};

int child_start(struct stdio *st, json_t *id, const json_t *rq, const char *op, const struct stdio_call *as, struct err *e);
/* Both its outputs are closed: answers them. */
void child_end(struct stdio *st, struct stdio_request *r);

/* ---- operations.c */

/* Begins what the request rq asks for; id and rq are borrowed. */
int operations_begin(struct stdio *st, json_t *id, json_t *rq, struct err *e);

#endif
