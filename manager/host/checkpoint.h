/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint - makes and restores checkpoints of a lasting sandbox: copies of its writable layer,
 * each of one instant.
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
 * A checkpoint exists if the list names it. The list is replaced in one step, and the next
 * checkpoint_begin() removes files that it does not name. An undo is decided once "pending" exists;
 * checkpoint_settle() then completes it, however often it is interrupted. The head is the
 * checkpoint that the layer came from.
 *
 * A checkpoint with "owner" belongs to that process alone (procid.h), as berth fork makes it. It is
 * never a head or a parent, displaces no other, and is removed when the process ends at the latest,
 * or with its file.
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
	int dir_fd;  /* locked; -1: the sandbox has no such directory */
	int home_fd; /* the directory of its layer */
	int data_fd; /* the directory of the checkpoints' layers; -1: there is none */
	json_t *doc;
	/* set by checkpoint_begin(): */
	size_t fit; /* how many checkpoints stay beside the new one */
	int shares; /* its file can share blocks with the layer's */
};

#define CHECKPOINTS_NONE                                                                           \
	{                                                                                          \
		.box_fd = -1, .dir_fd = -1, .home_fd = -1, .data_fd = -1                           \
	}

/* Opens the checkpoints of the sandbox with that directory. Changing them requires exclusive. */
int checkpoints_open(int box_fd, int exclusive, struct checkpoints *ret, struct err *e);
void checkpoints_close(struct checkpoints *c);
/* Returns the records, oldest first; borrowed. */
const json_t *checkpoints_list(const struct checkpoints *c);
/* Returns the id of the head, or NULL. */
const char *checkpoints_head(const struct checkpoints *c);
/* Finds the record of an id or a name; borrowed. NULL with ERR_NOT_FOUND. */
json_t *checkpoints_find(const struct checkpoints *c, const char *word, struct err *e);
/*
 * Returns the checkpoint that is `steps` back: 1 is the head, 2 its parent. If nothing has run
 * since an undo, the layer already is the head, and 1 is its parent. unchanged, or NULL: the
 * checkpoint whose layer is found to be still the present one (checkpoints_unchanged()): then 1 is
 * its parent, if it has one. NULL with ERR_NOT_FOUND.
 */
json_t *checkpoints_back(const struct checkpoints *c, unsigned steps, const char *unchanged, struct err *e);
/*
 * Gives the checkpoint that the layer may still be although something has run since the undo to it:
 * returns 1. Between it and the head are only checkpoints that were made before commands.
 */
int checkpoints_unchanged(const struct checkpoints *c, char ret_id[CHECKPOINT_ID]);
/* Checks a name for a checkpoint: it must be no id, and no other checkpoint's. ERR_INVALID, ERR_EXISTS. */
int checkpoints_check_name(const struct checkpoints *c, const char *name, struct err *e);

/* The limits of a sandbox's checkpoints, and of those of all sandboxes. */
struct checkpoint_bounds {
	unsigned keep_from_now_on; /* checkpoints; 0: unchanged */
	unsigned keep;             /* the number if none was ever set */
	uint64_t bytes, host_bytes;
};
struct config;
struct checkpoint_bounds checkpoint_bounds(const struct config *c, unsigned keep_from_now_on);
/*
 * Makes the empty file of a new checkpoint, with its id. Removes what unfinished ones left. The
 * oldest checkpoints that do not fit beside it are removed once it exists; ERR_LIMIT if it does not
 * fit alone. ERR_FULL if there is no room for the copy of the layer. layer_fd: the layer's file.
 */
int checkpoint_begin(struct checkpoints *c, int layer_fd, const struct checkpoint_bounds *bounds,
		     char ret_id[CHECKPOINT_ID], struct err *e);
/*
 * Makes it a checkpoint: members are those of its record besides "id", "parent", "created_ms" and
 * "bytes", and are consumed. Its file must be on disk. Then the oldest are removed while there are
 * more than are kept.
 */
int checkpoint_commit(struct checkpoints *c, const char *id, json_t *members,
		      const struct checkpoint_bounds *bounds, struct err *e);
/* Removes the file of a checkpoint that was only begun. */
void checkpoint_cancel(const struct checkpoints *c, const char *id);
int checkpoint_remove(struct checkpoints *c, const char *id, struct err *e);
/* Fills the new file to_name below to_dir with the layer of the checkpoint, and puts it on disk. */
int checkpoint_copy(const struct checkpoints *c, const char *id, int to_dir, const char *to_name,
		    struct err *e);
/*
 * As checkpoint_copy(), for a checkpoint of this process alone, which need not last: its file is
 * moved there.
 */
int checkpoint_give(const struct checkpoints *c, const char *id, int to_dir, const char *to_name,
		    struct err *e);

/*
 * Returns a detached, read-only mount of the checkpoint's layer, with the ids that the sandbox has.
 * The mount stays usable when the checkpoint is removed. ret_id, unless NULL, gets the id that word
 * stands for.
 */
int checkpoint_mount(int box_fd, const char *word, char ret_id[CHECKPOINT_ID], struct err *e);

/* Makes undo-kN.img, which takes as long as a copy; the sandbox may run meanwhile. */
int checkpoint_prepare(struct checkpoints *c, const char *id, struct err *e);
/* Decides the undo and completes it; the caller has claimed the sandbox. */
int checkpoint_undo(struct checkpoints *c, const char *id, struct err *e);
/* Completes an undo that was decided; the caller has claimed the sandbox. Cheap if there is none. */
int checkpoint_settle(int box_fd, struct err *e);

/* Reads the id in "restored": 1, or 0 if the file is missing. */
int checkpoint_restored(int box_fd, char ret_id[CHECKPOINT_ID]);
/* Reads the id in "looked": 1, or 0 if the file is missing. */
int checkpoint_looked(int box_fd, char ret_id[CHECKPOINT_ID]);
/* Notes that something runs: the layer may no longer be that of the checkpoint. */
void checkpoint_touched(int box_fd);
/* Notes that the head is another checkpoint: neither note holds any longer. */
void checkpoint_moved_on(int box_fd);

/* Notes that the layer mounted at mnt_fd is about to be frozen; and removes the note. */
int checkpoint_note_frozen(int dir_fd, int mnt_fd, struct err *e);
void checkpoint_note_thawed(int dir_fd);
/* Tells whether the layer of sandbox id below kept_fd is frozen for a checkpoint now. */
int checkpoint_copies(int kept_fd, const char *id);
/* Thaws the layer of a sandbox whose keeper and whose checkpoint were both killed. */
void checkpoint_thaw_left(int box_fd);

/* ---- what they take (checkpoint_use.c) ---- */

struct checkpoint_use {
	uint64_t bytes; /* bytes of all of them; blocks that they share count once */
	uint64_t held;  /* the part that the layer does not have: their removal frees it */
};
int checkpoints_use(const struct checkpoints *c, struct checkpoint_use *ret, struct err *e);
/* Sums up the use of all sandboxes below kept_fd that can be read, and counts the checkpoints. */
int checkpoints_use_all(int kept_fd, struct checkpoint_use *ret, uint64_t *ret_count,
			struct err *e);
/* Returns how many of them, at most MOST, fit beside one more of the layer; reserves the room for all. */
int checkpoints_fit(const struct checkpoints *c, int layer_fd,
		    const struct checkpoint_bounds *bounds, size_t most, size_t *ret_fit,
		    struct err *e);
/* Records how much they use now. */
void checkpoints_note_use(const struct checkpoints *c);
/* Forgets the use of a sandbox that is about to be removed. */
void checkpoint_forget(int box_fd);

/* ---- the shell sessions at a checkpoint ---- */

/*
 * The shell sessions of a sandbox at a checkpoint.
 *
 * checkpoints/kN.NAME.sh has a line with "#" and JSON about the session NAME, then the script that
 * restores its shell; for a session that cannot be restored it has the line alone, with the reason
 * in "lost". checkpoints/shells is the id of the checkpoint whose sessions the next start restores;
 * an undo writes it. The sandbox never sees these files. A script is made from the output of its
 * own shell (keeper/shellstate.h), so it is hostile text, which only its shells read.
 */

#define CHECKPOINT_SHELLS CHECKPOINTS_DIR "/shells"

struct checkpoint_shell {
	int is_bash, split, traps, traces;
	unsigned status; /* what $? is */
	char tracing[3]; /* x and v, as far as they are set */
	char lost[96];   /* why it cannot be restored; "": it can */
};

/* Writes the file of session name, with a script of n bytes. */
int checkpoint_shell_write(int box_fd, const char *id, const char *name,
			   const struct checkpoint_shell *s, const char *script, size_t n,
			   struct err *e);
/* Reads the file; script may be NULL. ERR_CORRUPT. */
int checkpoint_shell_read(int box_fd, const char *id, const char *name,
			  struct checkpoint_shell *ret, struct buf *script, struct err *e);
/* Calls each with the name of every session of which the checkpoint has a file. */
int checkpoint_shells_each(int box_fd, const char *id, int (*each)(void *ctx, const char *name),
			   void *ctx, struct err *e);
/* Gives the checkpoint whose sessions the next start restores: 1, or 0. _begin: begins an undo to id. */
int checkpoint_shells_due(int box_fd, char ret_id[CHECKPOINT_ID]);
int checkpoint_shells_begin(int dir_fd, const char *id, struct err *e);
void checkpoint_shells_done(int box_fd);

#endif
