/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buildcache - volumes in which builds keep base images and steps for later builds.
 *
 * They are an owner's: steps of one tenant never serve another (S50).  A build has one to itself
 * while it runs, so builds at one time use several.  No list of volumes shows them.  Their content
 * is hostile; beside it, out of reach of a build, KEY/builder is locked while a build uses the
 * volume and is not empty until that build has ended in order, and KEY/kept.json has the digests of
 * the base images that were laid down in it, and of the last images that were built in it, and the
 * marks of the last builds that used it: builds at one time find their own steps by these.
 */
#ifndef BERTH_MANAGER_HOST_BUILDCACHE_H
#define BERTH_MANAGER_HOST_BUILDCACHE_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"
#include "manager/host/volume.h"

#define BUILDCACHE_SLOTS 4		       /* builds of one owner that find steps at one time */
#define BUILDCACHE_MADE 16
#define BUILDCACHE_MARKS 32
#define BUILDCACHE_UNUSED_MS (7 * 86400000ULL) /* one that no build used for so long is removed */

struct buildcache {
	char name[40], key[VOLUME_KEY_MAX];
	struct volume volume;
	int lock_fd;
	int was_cut; /* the build before it did not end in order */
	json_t *bases, *made; /* arrays of digests; made: the newest last */
	json_t *marks;	      /* of builds that used it, the newest last */
};

#define BUILDCACHE_INIT ((struct buildcache){ .volume = VOLUME_INIT, .lock_fd = -1 })

/*
 * Takes one that no build uses, made where it is missing, with room for [build] disk beside what it
 * keeps: 1; 0 where all are in use or [build] cache is 0.  marks are strings that tell this build from
 * others: the one that has most of them goes first.  Files of it that are no steps are gone.
 */
int buildcache_take(struct registry *r, const char *tenant, const json_t *marks, struct buildcache *ret, struct err *e);
/*
 * Ends the use of it.  It is removed when it holds more than [build] cache, of bytes or of files, or
 * when what is no step cannot be removed from it.  in_order: no process was killed.
 */
void buildcache_give(struct registry *r, struct buildcache *c, int in_order);
/*
 * Removes those that no build uses now, nor has used for unused_ms, and from the others what a killed
 * build left beside steps; ret_bytes, the removed ones' use of the disk, may be NULL.
 */
int buildcache_prune(struct registry *r, uint64_t unused_ms, unsigned *ret_count, uint64_t *ret_bytes, struct err *e);
/* Returns how many bytes of the disk they use. */
uint64_t buildcache_bytes(struct registry *r);

#endif
