/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint - the checkpoints of a lasting sandbox: copies of its writable layer, each of one
 * instant.
 *
 * On disk, below the sandbox's directory:
 *   checkpoints/            flock'ed by each process that reads (shared) or changes it
 *   checkpoints/list.json   {"version", "next", "head", "keep", "list": [{"id", "parent", ...}]}
 *   checkpoints/kN.img      the layer of checkpoint kN; it and undo-kN.img are with the layer,
 *                           which may be elsewhere (layerhome.h)
 *   checkpoints/kN.NAME.sh  of the shell of session NAME then
 *   checkpoints/shells      the id of the checkpoint whose shells the next start brings back
 *   checkpoints/undo-kN.img a copy of that of kN which is to become the sandbox's layer
 *   checkpoints/pending     it is to: the id of its checkpoint
 *   checkpoints/restored    the layer is that checkpoint's, and nothing has run since
 *   checkpoints/looked      the layer was that checkpoint's, and what has run since may only have looked
 *   checkpoints/frozen      the loop device of a layer that a checkpoint lets stand still
 * and state_dir/ids/checkpoints, with what the checkpoints of each range of ids take: 8 bytes each.
 *
 * A checkpoint exists when the list names it; the list is replaced in one step, and what it does
 * not name is removed by the next checkpoint_begin().  An undo is decided when "pending" is there;
 * checkpoint_settle() then completes it, as often as it takes.  The head is the checkpoint that
 * the layer came from.
 *
 * One with "owner" is of that process alone (procid.h), as berth fork makes it: it is no head and
 * no parent, takes no other's place, and goes with the process at the latest, or with its file.
 */
#ifndef BERTH_MANAGER_HOST_CHECKPOINT_H
#define BERTH_MANAGER_HOST_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define CHECKPOINTS_DIR "checkpoints"
#define CHECKPOINT_KEEP_MAX 256u
#define CHECKPOINT_ID 16 /* room for an id */
#define CHECKPOINT_UNDO "undo-"

struct checkpoints {
	int box_fd; /* the sandbox's directory, borrowed */
	int dir_fd;  /* locked; -1: it has none */
	int home_fd; /* where its layer is */
	int data_fd; /* where the layers of checkpoints are; -1: it has none */
	json_t *doc;
	/* of one that was begun: */
	size_t fit; /* how many of them stay beside it */
	int shares; /* its file can share blocks with the layer's */
};

#define CHECKPOINTS_NONE                                                                           \
	{                                                                                          \
		.box_fd = -1, .dir_fd = -1, .home_fd = -1, .data_fd = -1                           \
	}

/* The checkpoints of the sandbox with that directory.  To change them takes exclusive. */
int checkpoints_open(int box_fd, int exclusive, struct checkpoints *ret, struct err *e);
void checkpoints_close(struct checkpoints *c);
/* The records, oldest first; borrowed. */
const json_t *checkpoints_list(const struct checkpoints *c);
/* The id of the head, or NULL. */
const char *checkpoints_head(const struct checkpoints *c);
/* That of an id or a name; borrowed.  NULL with ERR_NOT_FOUND. */
json_t *checkpoints_find(const struct checkpoints *c, const char *word, struct err *e);
/*
 * The one that steps lead back to: 1 is the head, 2 its parent.  Where nothing has run since an
 * undo, the head is what the layer already is, and 1 is its parent.  unchanged, or NULL: the
 * checkpoint whose layer the present one is found to be still (checkpoints_unchanged()): 1 is its
 * parent, if it has one.  NULL with ERR_NOT_FOUND.
 */
json_t *checkpoints_back(const struct checkpoints *c, unsigned steps, const char *unchanged, struct err *e);
/*
 * The checkpoint that the layer may still be although something has run since the undo to it: 1.
 * Between it and the head are only checkpoints that were made before commands.
 */
int checkpoints_unchanged(const struct checkpoints *c, char ret_id[CHECKPOINT_ID]);
/* A name of a checkpoint: one that is no id and no other's.  ERR_INVALID, ERR_EXISTS. */
int checkpoints_check_name(const struct checkpoints *c, const char *name, struct err *e);

/* What a sandbox, and all of them together, may have. */
struct checkpoint_bounds {
	unsigned keep_from_now_on; /* checkpoints; 0: nothing is said */
	unsigned keep;             /* where nothing was ever said */
	uint64_t bytes, host_bytes;
};
struct config;
struct checkpoint_bounds checkpoint_bounds(const struct config *c, unsigned keep_from_now_on);
/*
 * The empty file of a new checkpoint, with its id.  Removes what unfinished ones left.  The oldest
 * that do not fit beside it are to go when it is there; ERR_LIMIT when it does not fit alone.
 * ERR_FULL where the copy of the layer would find no room.  layer_fd: the layer's file.
 */
int checkpoint_begin(struct checkpoints *c, int layer_fd, const struct checkpoint_bounds *bounds,
		     char ret_id[CHECKPOINT_ID], struct err *e);
/*
 * Makes it one: members are those of its record besides "id", "parent", "created_ms" and "bytes",
 * and are consumed.  Its file is on disk.  Then the oldest go while there are more than are kept.
 */
int checkpoint_commit(struct checkpoints *c, const char *id, json_t *members,
		      const struct checkpoint_bounds *bounds, struct err *e);
/* Removes the file of one that was begun. */
void checkpoint_cancel(const struct checkpoints *c, const char *id);
int checkpoint_remove(struct checkpoints *c, const char *id, struct err *e);
/* Fills the new file to_name below to_dir with the layer of the checkpoint, on disk. */
int checkpoint_copy(const struct checkpoints *c, const char *id, int to_dir, const char *to_name,
		    struct err *e);
/* The same of one that is of this process alone, which need not last: its file is moved there. */
int checkpoint_give(const struct checkpoints *c, const char *id, int to_dir, const char *to_name,
		    struct err *e);

/*
 * A detached mount of the layer of that checkpoint, which nobody writes to, with the ids that the
 * sandbox has.  It lasts when the checkpoint is removed.  ret_id, unless NULL: the id that word is.
 */
int checkpoint_mount(int box_fd, const char *word, char ret_id[CHECKPOINT_ID], struct err *e);

/* Makes undo-kN.img, which takes as long as a copy does; the sandbox may run meanwhile. */
int checkpoint_prepare(struct checkpoints *c, const char *id, struct err *e);
/* Decides the undo, for one who has claimed the sandbox, and completes it. */
int checkpoint_undo(struct checkpoints *c, const char *id, struct err *e);
/* Completes an undo that was decided.  For one who has claimed the sandbox; cheap where nothing is.
 */
int checkpoint_settle(int box_fd, struct err *e);

/* The id in "restored": 1, or 0 when there is none. */
int checkpoint_restored(int box_fd, char ret_id[CHECKPOINT_ID]);
/* The id in "looked": 1, or 0 when there is none. */
int checkpoint_looked(int box_fd, char ret_id[CHECKPOINT_ID]);
/* Something runs: the layer may no longer be that of the checkpoint. */
void checkpoint_touched(int box_fd);
/* The head is another one: neither note holds any longer. */
void checkpoint_moved_on(int box_fd);

/* Notes that the layer mounted at mnt_fd is about to stand still; and that it goes on. */
int checkpoint_note_frozen(int dir_fd, int mnt_fd, struct err *e);
void checkpoint_note_thawed(int dir_fd);
/* Whether the layer of sandbox id below kept_fd stands still for one now. */
int checkpoint_copies(int kept_fd, const char *id);
/* Lets the layer of a sandbox go on whose keeper and whose checkpoint were both killed. */
void checkpoint_thaw_left(int box_fd);

/* ---- what they take (checkpoint_use.c) ---- */

struct checkpoint_use {
	uint64_t bytes; /* all of them, blocks that they share once */
	uint64_t held;  /* the part that the layer does not have: what their removal frees */
};
int checkpoints_use(const struct checkpoints *c, struct checkpoint_use *ret, struct err *e);
/* Of all sandboxes below kept_fd that can be read: the sums, and how many checkpoints there are. */
int checkpoints_use_all(int kept_fd, struct checkpoint_use *ret, uint64_t *ret_count,
			struct err *e);
/* How many of them, at most MOST, fit beside one more of the layer; takes the room for all. */
int checkpoints_fit(const struct checkpoints *c, int layer_fd,
		    const struct checkpoint_bounds *bounds, size_t most, size_t *ret_fit,
		    struct err *e);
/* Writes down what they take now. */
void checkpoints_note_use(const struct checkpoints *c);
/* Its sandbox is about to be removed. */
void checkpoint_forget(int box_fd);

/* ---- the shell sessions at a checkpoint ---- */

/*
 * The shell sessions of a sandbox at a checkpoint.
 *
 * checkpoints/kN.NAME.sh is a line "#" and JSON about the session NAME, then the script that brings
 * its shell back; a session that cannot be brought back has the line alone, with "lost", the
 * reason.  checkpoints/shells is the id of the checkpoint whose sessions the next start brings
 * back; an undo writes it.  The sandbox never sees these files; a script is made of what its own
 * shell told (keeper/shellstate.h), so it is hostile text, which only its shells read.
 */

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
