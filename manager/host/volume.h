/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume - directories that outlive sandboxes and that several can share.
 *
 * On disk, below state_dir/volumes/ (0700), by key:
 *   KEY/record.json   what it is; written last
 *   KEY/data/         its files, under a project quota where the file system enforces those
 * (runtime/kernel/quota.h), else KEY/image         a file with an ext4 file system, which is
 * mounted as long as somebody uses it KEY/cloning       locked while the volume stands still to be
 * copied KEY/loop          the number of its loop device; locked
 * while somebody looks for that KEY/seeding       what is in it was copied from an image and is
 * not complete .new              one that is being made; .rm-X: one that is being removed Owners
 * are stored as a sandbox sees them, so that all see the same.
 *
 * volumes/ itself is locked (flock) while a volume is made or removed; KEY/ is locked, shared, by
 * each process that uses it, and exclusively while it is seeded. So a crash leaves nothing to undo
 * but .new and .rm-X (volume_gc()). The content of a volume is hostile: nothing here opens any of
 * it.
 */
#ifndef BERTH_MANAGER_HOST_VOLUME_H
#define BERTH_MANAGER_HOST_VOLUME_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"
#include "runtime/sandbox/spec.h"

#define VOLUME_FORMAT 1
#define VOLUME_SIZE_MIN (16ULL << 20)
#define VOLUME_SIZE_MAX (1ULL << 50)

struct volume_wish {
	const char *name;
	const char *tenant; /* "": nobody's */
	uint64_t size_bytes; /* 0: [volume] size */
	const json_t *labels; /* or NULL */
	uint64_t tenant_max; /* how many volumes the tenant may have */
	/* puts the first content into its directory before other processes see it; may be NULL */
	int (*fill)(void *ctx, int dir_fd, struct err *e);
	void *ctx;
};

/*
 * Makes the volume. ERR_EXISTS; ERR_LIMIT at [volume] max; ERR_UNSUPPORTED if the size cannot be
 * enforced here.
 */
int volume_create(struct registry *r, const struct volume_wish *w, struct err *e);
/*
 * Returns the record as a new reference, with the disk use in "disk_bytes"; ERR_NOT_FOUND;
 * ERR_UNSUPPORTED if a newer berth wrote it.
 */
json_t *volume_load(struct registry *r, const char *key, struct err *e);
/* Returns how many more volumes [volume] max allows. */
uint64_t volume_room(const struct config *c);
/* Calls each for every volume that can be read, but for those of buildcache.h, with its record, which
 * is borrowed, until it returns non-zero, and returns that. */
int volume_each(struct registry *r, int (*each)(void *ctx, const char *key, json_t *record),
		void *ctx, struct err *e);
/* Removes the volume. ERR_NOT_FOUND; ERR_BUSY, naming the user, if a sandbox uses it, even a stopped one. */
int volume_remove(struct registry *r, const char *key, struct err *e);
/*
 * Prefix of the name of a volume that a build made, and that is removed when the process of
 * LABEL_BUILD ends.
 */
#define VOLUME_OF_BUILD "build-"
/* Removes the remains of interrupted creations and removals, and the volumes of builds that were killed. */
int volume_gc(struct registry *r, unsigned *ret_cleared, struct err *e);

/*
 * Makes the volume new_name of tenant, with the size, the labels and the files of its volume name,
 * as they are at one instant. If the files cannot share blocks (fileclone.h), writers wait during
 * the copy. Errors as of volume_create() and volume_load(); ERR_FULL.
 */
int volume_clone(struct registry *r, const char *name, const char *new_name, const char *tenant,
		 uint64_t tenant_max, struct err *e);
/* Thaws a volume whose clone was killed; cheap if there was none. */
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

/* Opens the volumes' directory, for the parts of this module. */
int volume_top(struct registry *r, struct err *e);

/* ---- names ---- */

/*
 * Names of volumes, and the options of a sandbox that use them.
 *
 * A name has the form of a sandbox's. A tenant's volumes have names of their own: on disk such a
 * volume is NAME@TENANT, the key by which volume.h knows it; on the command line it is NAME. Pure.
 */

#define VOLUME_NAME_MAX 64
#define VOLUME_KEY_MAX (2 * VOLUME_NAME_MAX + 2)

/*
 * Makes the key of tenant's volume name; tenant "": a volume without an owner. ERR_INVALID if name
 * is malformed.
 */
int volume_key(const char *name, const char *tenant, char ret[VOLUME_KEY_MAX], struct err *e);
/* Tells whether text has the form of a key. */
int volume_is_key(const char *text);
/*
 * Tells whether an option of a sandbox, such as "volume" with the value "data:/x" or "mount" with
 * "type=volume,src=data,dst=/x", uses a named volume; ret then gets its name, which was not
 * checked.
 */
int volume_of_option(const char *option, const char *value, char ret[VOLUME_NAME_MAX + 1]);

/* ---- the first content ---- */

/*
 * Fills a new volume with a copy of the image's directory at its mount point.
 *
 * The image is hostile. Its path is resolved with the image as root, and a separate process
 * copies. That process may read that directory, write the volume and open nothing else; it has
 * six capabilities and dies with us. Names, owners, modes, times, links (copied, not followed)
 * and FIFOs are kept; device nodes are left out. The volume's limit applies.
 */

/*
 * Copies target in s's layers to the empty directory root_fd; does nothing if there is no such
 * directory. ERR_FULL.
 */
int volume_seed_from(const struct spec *s, const char *target, const char *scratch, int root_fd,
		     struct err *e);

/* ---- who uses which volumes ---- */

/* The users of volumes: sandboxes that run, and stopped ones that would use the volumes again. */

/* Returns {KEY: [{"id", "name", "status"}, ...]} of all volumes that have users: a new reference. */
json_t *volume_users(struct registry *r, struct err *e);
/* Checks that no sandbox has the volume: ERR_BUSY, naming one. */
int volume_users_check(struct registry *r, const char *key, struct err *e);

/* ---- volumes made for one sandbox ---- */

/*
 * Volumes without a name that were made for one sandbox (docker run -v /PATH, VOLUME of an image).
 *
 * A file beside the sandbox's record lists them. They are removed with a sandbox that removes
 * itself, and with any other only if its removal asks for it; a volume that a second sandbox has by
 * then stays.
 */

#define VOLUME_OWN_MAX 16 /* most volumes of one sandbox */

/* Saves names, an array of at most VOLUME_OWN_MAX. passing: as registry_save_passing(). */
int volume_own_save(struct registry *r, const char *id, const json_t *names, int passing,
		    struct err *e);
/* Returns a new array, or NULL if there are none. */
json_t *volume_own_load(struct registry *r, const char *id);
/* Removes the volumes of names (or NULL) that no other sandbox has, once the sandbox is gone. */
void volume_own_remove(struct registry *r, const json_t *names);

#endif
