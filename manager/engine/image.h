/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - images of berth's store as Docker's documents show them, and files of a container.
 *
 * The id of an image is its digest, as in Docker's own containerd store.  Pure.
 */
#ifndef BERTH_MANAGER_ENGINE_IMAGE_H
#define BERTH_MANAGER_ENGINE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/engine/berth.h"
#include "manager/engine/view.h"

/*
 * New references.  list: of catalog_list(), an item a name; those of one image become one item.
 * filters: of engine_filters().  NULL with e for a filter that Docker does not have.
 */
json_t *engine_image_list(const json_t *list, const json_t *filters, struct err *e);
/* record: of catalog_inspect(); names: the image's, from a list. */
json_t *engine_image_inspect(const json_t *record, const json_t *list);
/* steps: of berth image history. */
json_t *engine_image_history(const json_t *steps, const char *id);
/* "repo" and "tag" of a query in one name, "x" and "" being "x:latest"; -1 when it is too long. */
int engine_image_ref(const char *repo, const char *tag, char *ret, size_t n);
/* Whether label, label! or until of a prune spare an item of catalog_list(). */
int engine_image_kept_by(const json_t *filters, const json_t *item);
/* "NAME:latest" of a name without a tag. */
/* The length of a name without its tag and its digest. */
int engine_image_repo(const char *name);
const char *engine_image_tagged(const char *name, char *room, size_t n);
/* Adds "CMD [...]", "ENV A=b" to words, as an option of berth commit and berth image import; ERR_INVALID in Docker's words. */
int engine_image_change(json_t *words, const char *change, struct err *e);
/* An import as a client asks for it: POST /images/create with fromSrc, docker import.  NULL or "": not asked. */
struct engine_import {
	const char *source; /* "-" is the archive on stdin, which is all that is taken */
	const char *repo, *tag, *message, *platform;
	const json_t *changes; /* strings; NULL: none */
};
/* The call of berth image load for the archive on stdin: a new reference, or NULL with e. */
json_t *engine_load_call(struct err *e);
/* Adds the names that docker save takes by this one: of a repository without a tag all that it has. */
int engine_save_names(int store_fd, const char *name, json_t *ret, struct err *e);
/* What Docker says of an image that it has loaded, "Loaded image: NAME": a new string. */
json_t *engine_load_line(const json_t *image);
/* The call of berth image import for it: a new reference, or NULL with e in Docker's words. */
json_t *engine_import_call(const struct engine_import *i, struct err *e);
/*
 * An image that no client names has a name in berth's store all the same, without which it would be
 * removed.  The door shows it to nobody.
 */
int engine_image_new_name(char *ret, size_t n, struct err *e);
int engine_image_is_unnamed(const char *name);
/* Whether the image of the list has no other name. */
int engine_image_is_dangling(const json_t *list, const char *digest);
/*
 * Before the name goes to another image (of this digest; NULL: one that is not made yet): the image that has it stays
 * under a name that no client sees, Docker's <none>, if it has no other.
 */
int engine_image_keep(const struct engine_berth *b, int store_fd, const char *name, const char *digest, struct err *e);
int engine_image_tag(const struct engine_berth *b, int store_fd, const char *name, const char *ref, struct err *e);
/*
 * Whether a client may remove the image by this name, or by its id: ERR_BUSY in Docker's words where one of containers
 * (engine_load_list()) has it, or where the id has names in several repositories. force overrules all but a container
 * that runs, whose image does not go by its id.
 */
int engine_image_removable(int store_fd, const json_t *containers, const char *name, const char *digest, int force, struct err *e);

/* Go's os.FileMode of a mode of stat(2). */
uint32_t engine_go_mode(unsigned mode);

/* platform - what a client names a platform by, as containerd reads it: "linux", "amd64", "linux/arm/v7".  Pure. */

#define ENGINE_PLATFORM 120 /* bytes with the NUL */

/* "OS/ARCH[/VARIANT]" in small letters; "" for NULL and "".  ERR_INVALID in Docker's words. */
int engine_platform(const char *text, char ret[ENGINE_PLATFORM], struct err *e);
/* And it is linux, which an image must be that is made here. */
int engine_platform_local(const char *text, char ret[ENGINE_PLATFORM], struct err *e);

/* imageprune - docker image prune, by berth's own verbs. */

/*
 * Removes what the filters of a prune want: {"removed": [NAME], "deleted": [DIGEST], "bytes": N}, a
 * new reference; deleted are the images that lost their last name.
 *
 * dangling=true (the default) removes images without a name that no container uses,
 * dangling=false all that none uses; label, label! and until choose among them.
 */
json_t *engine_image_prune(int store_fd, const json_t *filters, const struct engine_berth *b,
			   struct err *e);

/*
 * commit - what an image made of a container inherits: Docker gives it the container's own
 * environment, labels, command, directory and user, over those of its image.  Pure.
 */

/*
 * The options of berth commit for that: a new array of texts, in front of changes, an array of
 * such options that count more.  config: of the request's body, whose members count more than the
 * container's; or NULL.
 */
json_t *engine_commit_words(const struct engine_view *v, const json_t *config,
			    const json_t *changes, struct err *e);

#endif
