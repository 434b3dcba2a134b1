/* SPDX-License-Identifier: Apache-2.0 */
/* follow - the client's side of detached commands: their output as it comes, a terminal to come back to. */
#ifndef BERTH_CLI_LIVE_FOLLOW_H
#define BERTH_CLI_LIVE_FOLLOW_H

#include "base/json.h"
#include "cli/live/sandbox_open.h"

struct follow {
	int sock;		/* to the keeper, borrowed */
	const char *command;	/* "c3" */
	const char *stream;	/* stdout, stderr, both */
	uint64_t from[2];	/* the next bytes wanted of each stream */
	int to[2];		/* where they go */
	int hold;		/* the command waits for us, and loses nothing */
	int json;		/* as JSON objects, one a line, on stdout */
	int asked;		/* the request for the next output was sent */
};

/* Asks for the next output, if that was not done; follow_take() reads the answer. */
int follow_ask(struct follow *f, struct err *e);
/*
 * Writes the output, having asked for the next if the command waits for us, so that the keeper
 * works meanwhile. 1 with the verdict (a new reference) at the end, else 0.
 */
int follow_take(struct follow *f, json_t **ret_verdict, struct err *e);
/* The exit status of a verdict. */
int follow_status(const json_t *verdict);

/*
 * A person's terminal joined to the one of a detached command, until its end
 * (1, with the verdict) or the detach keys (0).  from is the first byte of its
 * output to show.
 */
int follow_terminal(struct sandbox_ref *s, const char *command, uint64_t from, const char *detach_keys, json_t **ret_verdict,
		    struct err *e);

/* Whether our stdin is the command's, and whether its end is that of the command's, too. */
enum follow_stdin { FOLLOW_NO_STDIN, FOLLOW_STDIN, FOLLOW_STDIN_ENDS };

/*
 * The same without a terminal: both streams, our stdin as in says, and the signals that we get.
 * hold: as in struct follow.  1 at its end.
 */
int follow_joined(struct sandbox_ref *s, const char *command, const uint64_t from[2],
		  enum follow_stdin in, int hold, json_t **ret_verdict, struct err *e);

#define SHELL_SHOWN_AGAIN 16384	/* bytes of its last output when one comes back to a shell, as berth attach does */

#endif
