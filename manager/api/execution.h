/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execution - a command in a sandbox whose descriptors are pipes of ours.
 *
 * No output is lost on the way, and a slow reader slows the command down. The command ends with
 * the connection to the keeper, so with execution_free().
 */
#ifndef BERTH_MANAGER_API_EXECUTION_H
#define BERTH_MANAGER_API_EXECUTION_H

#include "manager/api/api.h"
#include "manager/keeper/ring.h"

struct execution {
	struct box box;
	struct api *api;	/* the request may be gone before this is */
	int in, out[2];
	struct buf input;
	size_t input_done;
	json_t *verdict, *attest;	/* attest: asked for, and told when it starts */
	char command[24];
	int started;
	int temporary;		/* we made the sandbox, and it ends with the request */
	int keep;		/* it is only stopped then */
	int tty;
	int is_fork;		/* of the zygote box.id; box.sock leads to the fork's supervisor */
	int stays_open;		/* stdin: others send to it until they close it */
	struct {
		char bytes[4];
		size_t n;
	} held[2];	/* the start of a character, until the rest comes */
};

/* Zeroed, and with nothing open; the sandbox is opened in x->box by the caller. */
struct execution *execution_new(struct http_request *rq, struct err *e);
/* Ends the command, and the sandbox when that is temporary.  NULL is let through. */
void execution_free(void *x);
/* Stops the sandbox of b by force and, unless keep, removes it, as far as it can. */
void execution_remove_box(struct box *b, int keep);
/*
 * Sends ask (OP_exec, borrowed) with pipes, and waits until the command has started, so that one
 * that cannot be executed is an error.
 */
int execution_launch(struct execution *x, json_t *ask, struct err *e);
/*
 * Sends the code of the request to a fork of the zygote x->box.id, which was found, and waits
 * until one has taken it: ERR_BUSY after ZYGOTE_WAIT_MS. x->command is the run's name here.
 */
int execution_launch_code(struct execution *x, struct err *e);
/*
 * The next bytes: 1 with them in buf, of stdout (0) or stderr (1); 0 at the end with x->verdict; -1.
 */
int execution_next(struct execution *x, char *buf, size_t max, int *ret_which, size_t *ret_n,
		   struct err *e);
/* All of them to the end, head and tail of each stream: 0 with x->verdict, or -1. */
int execution_collect(struct execution *x, struct ring ring[2], struct err *e);


/* ---- the reply to the request, of a command that has started ---- */

/* A whole one, of which "max_output_bytes" of each stream are kept; x stays the caller's. */
int execution_reply(struct execution *x, struct err *e);
/* Events as they come; x is handed over, also when it fails. */
int execution_stream(struct execution *x, struct err *e);
/* The event "started". */
json_t *execution_started(const struct execution *x);

#endif
