/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_shells - the shell sessions of a sandbox at a checkpoint.
 *
 * checkpoints/kN.NAME.sh is a line "#" and JSON about the session NAME, then the script that brings
 * its shell back; a session that cannot be brought back has the line alone, with "lost", the
 * reason.  checkpoints/shells is the id of the checkpoint whose sessions the next start brings
 * back; an undo writes it.  The sandbox never sees these files; a script is made of what its own
 * shell told (keeper/shellstate.h), so it is hostile text, which only its shells read.
 */
#ifndef BERTH_MANAGER_HOST_CHECKPOINT_SHELLS_H
#define BERTH_MANAGER_HOST_CHECKPOINT_SHELLS_H

#include "base/buf.h"
#include "base/json.h"
#include "manager/host/checkpoint.h"

#define CHECKPOINT_SHELLS CHECKPOINTS_DIR "/shells"

struct checkpoint_shell {
	int is_bash, split, traps, traces;
	unsigned status; /* what $? is */
	char tracing[3]; /* which of x and v are set */
	char lost[96];   /* why it cannot be brought back; "": it can */
};

/* Writes that of session name; script of n bytes. */
int checkpoint_shell_write(int box_fd, const char *id, const char *name,
			   const struct checkpoint_shell *s, const char *script, size_t n,
			   struct err *e);
/* Reads it back; script may be NULL.  ERR_CORRUPT. */
int checkpoint_shell_read(int box_fd, const char *id, const char *name,
			  struct checkpoint_shell *ret, struct buf *script, struct err *e);
/* Calls each with the name of every session that the checkpoint has a file of. */
int checkpoint_shells_each(int box_fd, const char *id, int (*each)(void *ctx, const char *name),
			   void *ctx, struct err *e);
/* The checkpoint whose sessions the next start brings back: 1, or 0.  _begin: an undo to id. */
int checkpoint_shells_due(int box_fd, char ret_id[CHECKPOINT_ID]);
int checkpoint_shells_begin(int dir_fd, const char *id, struct err *e);
void checkpoint_shells_done(int box_fd);

#endif
