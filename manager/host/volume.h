/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume - directories that outlive sandboxes and that several can share.
 *
 * On disk, below state_dir/volumes/ (0700), by key (volume_name.h):
 *   KEY/record.json   what it is; written last
 *   KEY/data/         its files, under a project quota where the file system enforces those
 * (runtime/kernel/quota.h), else KEY/image         a file with an ext4 file system, which is
 * mounted as long as somebody uses it KEY/cloning       locked while the volume stands still to be
 * copied KEY/loop          the number of its loop device; locked
 * while somebody looks for that KEY/seeding       what is in it was copied from an image and is
 * not complete .new              one that is being made; .rm-X: one that is being removed Owners
 * are stored as a sandbox sees them, so that all see the same.
 *
 * volumes/ itself is locked (flock) while one is made or removed; KEY/ is locked, shared, by each
 * process that uses it, and for oneself while it is seeded.  So nothing has to be undone after a
 * crash but .new and .rm-X (volume_gc()). What is in a volume is hostile: nothing here opens any
 * of it.
 */
#ifndef BERTH_MANAGER_HOST_VOLUME_H
#define BERTH_MANAGER_HOST_VOLUME_H

#include "manager/host/registry.h"
#include "manager/host/volume_name.h"

#define VOLUME_FORMAT 1
#define VOLUME_SIZE_MIN (16ULL << 20)
#define VOLUME_SIZE_MAX (1ULL << 50)

struct volume_wish {
	const char *name;
	const char *tenant; /* "": nobody's */
	uint64_t size_bytes; /* 0: [volume] size */
	const json_t *labels; /* or NULL */
	uint64_t tenant_max; /* how many the tenant may have */
	/* unless NULL: puts what is to be in it into its directory, before anybody sees it */
	int (*fill)(void *ctx, int dir_fd, struct err *e);
	void *ctx;
};

/* ERR_EXISTS; ERR_LIMIT at [volume] max; ERR_UNSUPPORTED when the size cannot be enforced here. */
int volume_create(struct registry *r, const struct volume_wish *w, struct err *e);
/*
 * Its record as a new reference, with its disk use in "disk_bytes"; ERR_NOT_FOUND;
 * ERR_UNSUPPORTED if a newer berth wrote it.
 */
json_t *volume_load(struct registry *r, const char *key, struct err *e);
/* How many more [volume] max allows. */
uint64_t volume_room(const struct config *c);
/* Every one that can be read, with its record, which each borrows, until it returns non-zero,
 * which is returned. */
int volume_each(struct registry *r, int (*each)(void *ctx, const char *key, json_t *record),
		void *ctx, struct err *e);
/* ERR_NOT_FOUND; ERR_BUSY, naming the user, if a sandbox uses it, even a stopped one. */
int volume_remove(struct registry *r, const char *key, struct err *e);
/* Begins the name of a volume that a build made, and that goes with the process of LABEL_BUILD. */
#define VOLUME_OF_BUILD "build-"
/* Removes the remains of interrupted creations and removals, and the volumes of builds that were killed. */
int volume_gc(struct registry *r, unsigned *ret_cleared, struct err *e);

/*
 * Makes the volume new_name of tenant, with the size, the labels and the files of its volume name,
 * as they are at one instant: writers wait meanwhile, where they are not shared (fileclone.h).
 * Errors as those of volume_create() and volume_load(); ERR_FULL.
 */
int volume_clone(struct registry *r, const char *name, const char *new_name, const char *tenant,
		 uint64_t tenant_max, struct err *e);
/* Lets a volume go on whose clone was killed; cheap where none was. */
void volume_thaw_left(int dir_fd);

/* A volume in use: locked until it is closed, by every process that has a copy of dir_fd. */
struct volume {
	int dir_fd;
	int root_fd; /* its top: an O_PATH directory, or with is_mount a detached mount */
	int is_mount;
};

#define VOLUME_INIT ((struct volume){ .dir_fd = -1, .root_fd = -1 })

/*
 * Opens the volume for a sandbox. w: how to make it if it is missing. seed, unless NULL, is
 * called if it is empty and no other process uses it, and puts files in it; after an
 * interruption it is called again for the next user, on an empty volume.
 */
typedef int volume_seed(void *ctx, int root_fd, struct err *e);
int volume_open(struct registry *r, const struct volume_wish *w, volume_seed *seed, void *ctx,
		struct volume *ret, struct err *e);
void volume_close(struct volume *v);

/* Below the volumes' directory, for the parts of this module. */
int volume_top(struct registry *r, struct err *e);

#endif
