/* SPDX-License-Identifier: Apache-2.0 */
/* layerbox - a lasting sandbox whose layer and checkpoints a command works on. */
#ifndef BERTH_CLI_TIME_LAYERBOX_H
#define BERTH_CLI_TIME_LAYERBOX_H

#include "cli/live/sandbox_open.h"
#include "manager/host/checkpoint.h"

struct layerbox {
	struct sandbox_ref s;
	int dir_fd;         /* its directory */
	struct claim claim; /* of one that does not run */
	int claimed;
	char memory[64];    /* layerbox_see_memory(): "/run, /dev/shm" */
};

void layerbox_init(struct layerbox *b);
void layerbox_close(struct layerbox *b);
/* Finds it.  ERR_UNSUPPORTED for one that ends with its command. */
int layerbox_find(struct layerbox *b, const char *ref, struct err *e);
/*
 * Waits for another command that works on its files.  Nobody starts it until layerbox_close() or
 * layerbox_release().
 */
int layerbox_claim(struct layerbox *b, struct err *e);
void layerbox_release(struct layerbox *b);
/* A checkpoint of one that does not run; members (consumed) as checkpoint_commit() has them. */
int layerbox_checkpoint(struct layerbox *b, const char *name, json_t *members, unsigned keep,
			char ret_id[CHECKPOINT_ID], struct err *e);
/*
 * A checkpoint of now, of one that runs or not, which belongs to this process: it goes with
 * layerbox_drop(), or when the process has ended.
 */
int layerbox_now(struct layerbox *b, char ret_id[CHECKPOINT_ID], struct err *e);
/* The same in two halves, of one that runs: its keeper makes it in between. */
int layerbox_now_ask(struct layerbox *b, struct err *e);
int layerbox_now_take(struct layerbox *b, char ret_id[CHECKPOINT_ID], struct err *e);
void layerbox_drop(struct layerbox *b, const char *id);
/* Whether an option of a spec.json, ["volume", "..."], mounts something that is not in the layer. */
int layerbox_is_mount(const json_t *option);
/* "berth COMMAND: volumes and mounts of the host WHAT" on stderr, where the sandbox has any. */
void layerbox_note_mounts(struct layerbox *b, const char *command, const char *what);
/* Notes which of its directories in memory have content, while it runs: no checkpoint has that. */
void layerbox_see_memory(struct layerbox *b);
/* "berth COMMAND: what is in memory WHAT: /run" on stderr, where that was seen. */
void layerbox_note_memory(const struct layerbox *b, const char *command, const char *what);
/*
 * The "upper" of the layer of a checkpoint (an id or a name), read-only, in a mount of its own that
 * goes with the descriptor.  What is in it is hostile; but nothing changes any more.
 */
int layerbox_view(struct layerbox *b, const char *word, struct err *e);
/*
 * Whether the layer is still that of the checkpoint it was copied from: 1, 0 or -1.  It compares
 * the inodes and the times of their last change, which nobody can set, and reads no content.  A
 * layer that a start touched more than berth's own files counts as changed.
 */
int layerbox_is_still(struct layerbox *b, const char *word, struct err *e);

#endif
