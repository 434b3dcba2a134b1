/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxindex - what berthd remembers of the sandboxes for GET /v1/sandboxes, so that a sandbox in
 * which nothing changes costs it no read of a record and no question.
 *
 * The list (boxlist.c) decides what is still so, and forgets what no list showed for a minute.
 */
#ifndef BERTH_MANAGER_API_BOXINDEX_H
#define BERTH_MANAGER_API_BOXINDEX_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "base/json.h"

#define BOXINDEX_BUCKETS 1024

/* The file of a record; the times tell of a rewrite in place. */
struct boxindex_stamp {
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
};

struct boxindex_entry {
	struct boxindex_entry *next;
	char id[65];
	int kept;
	int asked;			/* of its keeper: the note counts, and the members from it on */
	struct boxindex_stamp stamp;
	uint32_t standing, since[2];	/* of the note when the keeper answered */
	uint64_t at_ms, used_ms;
	uint64_t since_ms;		/* when it began to stand still */
	json_int_t uptime_ms;		/* at at_ms */
	size_t len;
	char text[];			/* an object without its last brace; if asked, without idle_ms and uptime_ms */
};

struct boxindex {
	pthread_mutex_t lock;
	struct boxindex_entry *buckets[BOXINDEX_BUCKETS];
};

struct boxindex *boxindex_new(struct err *e);
void boxindex_free(struct boxindex *x);
/* The place of the entry of id, which may be empty; call it with the lock held. */
struct boxindex_entry **boxindex_place(struct boxindex *x, const char *id);
/* Frees the entries that were last used age_ms before now. */
void boxindex_drop_unused(struct boxindex *x, uint64_t now, uint64_t age_ms);

#endif
