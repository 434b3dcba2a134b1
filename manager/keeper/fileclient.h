/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fileclient - runs the file helper in a sandbox, for the file commands and routes.
 *
 * The helper's stderr is one line, which fileclient_end() reads: its counts, or an error that
 * becomes ours. All bytes from the sandbox are hostile.
 */
#ifndef BERTH_MANAGER_KEEPER_FILECLIENT_H
#define BERTH_MANAGER_KEEPER_FILECLIENT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct fileclient {
	int sock;	/* borrowed */
	int err_fd;	/* our end of its stderr */
	int wait_ms;	/* fileclient_end() waits this long for each answer; -1: for ever */
};

struct filecounts {
	uint64_t entries, bytes, skipped;
};

/*
 * Starts the helper with argv (NULL-terminated; the verb first) and these descriptors as stdin and
 * stdout; -1 is /dev/null. user NULL: the sandbox's root. timeout_ms 0: no limit.
 */
int fileclient_start(struct fileclient *f, int sock, const char *const *argv, const char *user, uint64_t timeout_ms,
		     int in_fd, int out_fd, struct err *e);
/* Waits until the helper has ended. */
int fileclient_end(struct fileclient *f, struct filecounts *ret, struct err *e);
/* Combines the helper's verdict and its line on stderr: 0 with the counts, or -1 with its error. */
int fileclient_judge(const json_t *verdict, const char *line_read, struct filecounts *ret, struct err *e);
/* Starts the helper and waits, with stdout read into out (its ceiling holds); out may be NULL. */
int fileclient_run(int sock, const char *const *argv, const char *user, uint64_t timeout_ms, int in_fd, struct buf *out,
		   struct filecounts *ret, struct err *e);

/* One record of the helper's list, stat and snap; strings point into the text that was read. */
struct filerecord {
	unsigned mode, uid, gid;
	unsigned target;	/* of a link: the type (S_IFMT) of what it leads to; 0: nothing is there */
	unsigned long nlink;
	uint64_t size;
	int64_t mtime_sec;
	long mtime_nsec;
	const char *name, *link;
};

/* Takes the next record from *at: 1, 0 at end, -1 malformed. */
int filerecord_next(const char **at, const char *end, struct filerecord *ret, struct err *e);
json_t *filerecord_json(const struct filerecord *r);
/* Prints j, which it consumes, on stdout as one line. */
int fileclient_print(json_t *j, struct err *e);

#endif
