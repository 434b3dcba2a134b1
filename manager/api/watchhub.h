/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watchhub - the watches of directories that are under way, so that a sandbox has no more than its
 * share of them, and those that clients ask again and again for what came (E2B's CreateWatcher).
 *
 * A place is taken before a watch begins.  What is kept in it is its caller's, with an id that
 * cannot be guessed; one request at a time has it.  All of it lasts as long as berthd.
 */
#ifndef BERTH_MANAGER_API_WATCHHUB_H
#define BERTH_MANAGER_API_WATCHHUB_H

#include "base/err.h"
#include "manager/keeper/fileclient.h"

#define WATCHHUB_SANDBOX_MAX 16
#define WATCHHUB_MAX 1024 /* of all sandboxes */
#define WATCHHUB_ID_SIZE 33

struct watchhub;
struct watchhub_place;

struct watchhub *watchhub_new(void);
/* Releases what is kept; no request may be under way. */
void watchhub_free(struct watchhub *h);

/*
 * A place for one more watch in sandbox box of that owner, or NULL with ERR_LIMIT: a sandbox has at
 * most WATCHHUB_SANDBOX_MAX, and an owner half of what the others leave of WATCHHUB_MAX, so that
 * nobody keeps the others out. First releases kept watches
 * for which is_over() is true, because their sandbox has ended.
 */
struct watchhub_place *watchhub_enter(struct watchhub *h, const char *box, const char *owner,
				      int (*is_over)(void *what), struct err *e);
/* Gives the place back, and with it what is kept there. */
void watchhub_leave(struct watchhub *h, struct watchhub_place *p);
/* Stores what in the place: 0 with its id, or -1 with e and the place unchanged. */
int watchhub_keep(struct watchhub *h, struct watchhub_place *p, void *what,
		  void (*release)(void *what), char ret_id[WATCHHUB_ID_SIZE], struct err *e);
/*
 * What sandbox box has by this id; the caller's until watchhub_put() or watchhub_leave().  NULL
 * with ERR_NOT_FOUND, or ERR_BUSY while another request has it.
 */
void *watchhub_take(struct watchhub *h, const char *box, const char *id,
		    struct watchhub_place **ret, struct err *e);
void watchhub_put(struct watchhub *h, struct watchhub_place *p);

/*
 * watchrecord - the records of the file helper's `watch` (runtime/fileop/watch.h).
 *
 * Pure.  What comes from a sandbox is hostile: a record that is malformed or longer than any is
 * refused.  Strings point into the text that was read.
 */

#define WATCHRECORD_MAX 16384 /* bytes of one: two paths and some numbers */

struct watchrecord {
	char what;        /* a letter of watch.h */
	const char *name; /* relative to the directory */
	int has_file;     /* what it is now is in file */
	struct filerecord file;
};

/* Takes the next record from *at: 1; 0 if the rest is not a whole record; -1 with ERR_CORRUPT. */
int watchrecord_next(const char **at, const char *end, int with_files, struct watchrecord *ret,
		     struct err *e);
/* "EVENT_TYPE_CREATE" and its like, of filesystem.proto. */
const char *watchrecord_type(const struct watchrecord *r);

#endif
