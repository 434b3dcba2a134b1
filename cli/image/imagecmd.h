/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imagecmd - the commands of berth-image: declarations that their files share.
 *
 * One table of options (imagecmd.c) feeds parsing, help and the check of the manual; each
 * command names the options that it takes. berth-image.c has the table of commands and the
 * program.
 */
#ifndef BERTH_CLI_IMAGE_IMAGECMD_H
#define BERTH_CLI_IMAGE_IMAGECMD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/host/tenant.h"
#include "rootfs/transfer/making.h"

/* A new option: a name here, a row in imagecmd.c, its bit in the commands that take it. */
enum imagecmd_opt {
	IMG_STORE, IMG_JSON, IMG_QUIET, IMG_PLATFORM, IMG_SIZE, IMG_FORCE, IMG_REPAIR,
	IMG_INSECURE, IMG_ALL, IMG_USERNAME, IMG_PASSWORD_STDIN,
	IMG_FORMAT, IMG_OUTPUT, IMG_INPUT, IMG_OLDER, IMG_DRY_RUN,
	IMG_PACKAGES, IMG_SUITE, IMG_MIRROR, IMG_VARIANT, IMG_COMPRESSION, IMG_TENANT, IMG_CHANGE, IMG_MESSAGE, IMG_BASE, IMG_UNNAMED, IMG_NO_EVENT,
	IMG_OPT_COUNT
};
_Static_assert(IMG_OPT_COUNT <= 64, "a command's options are bits of one word");
#define IMG(name) (1ULL << IMG_##name)

struct imagecmd_args {
	struct {
		enum imagecmd_opt id;
		const char *value;	/* "" for a flag */
	} *given;			/* in the order of the command line */
	size_t given_count;
	char **operands;		/* ends with NULL */
	int operand_count;
	int help;
};

struct imagecmd {
	const char *name, *args, *summary, *detail;	/* detail may be NULL */
	uint64_t options;		/* IMG() bits; --store and --help are every command's */
	int min, max;			/* operands; max -1: any number */
	/* store_fd -1 with no_store */
	int (*run)(int store_fd, const struct imagecmd_args *a, struct err *e);
	int no_store;			/* runs without the store */
	int hidden;			/* an internal verb: in no list */
	int top;			/* a command of berth itself: "berth pull", not "berth image pull" */
};

extern const struct imagecmd imagecmd_import, imagecmd_ls, imagecmd_inspect, imagecmd_rm, imagecmd_gc, imagecmd_fsck;
extern const struct imagecmd imagecmd_pull, imagecmd_push, imagecmd_copy, imagecmd_login, imagecmd_logout, imagecmd_ensure;
extern const struct imagecmd imagecmd_export, imagecmd_save, imagecmd_load, imagecmd_commit, imagecmd_bootstrap;
extern const struct imagecmd imagecmd_pack_layer, imagecmd_unpack_layer;
extern const struct imagecmd imagecmd_tag, imagecmd_history, imagecmd_pin, imagecmd_unpin, imagecmd_prune, imagecmd_df;

/* The last value given for an option ("" for a flag), NULL when it was not. */
const char *imagecmd_value(const struct imagecmd_args *a, enum imagecmd_opt id);
int imagecmd_flag(const struct imagecmd_args *a, enum imagecmd_opt id);
/* What people type before its name: "berth" or "berth image". */
const char *imagecmd_program(const struct imagecmd *c);

/* Adds an option as if it had been given. */
int imagecmd_add(struct imagecmd_args *a, enum imagecmd_opt id, const char *value, struct err *e);
/*
 * Parses argv[1..] for c.  ERR_USAGE with the remedy; *a is released by
 * imagecmd_release().
 */
int imagecmd_parse(const struct imagecmd *c, int argc, char **argv, struct imagecmd_args *a, struct err *e);
void imagecmd_release(struct imagecmd_args *a);
/* The "Options:" part of a command's help. */
void imagecmd_print_options(const struct imagecmd *c);

/*
 * Writes an event about an image into this host's journal: event of ref, a name or a digest.  Of a tenant's
 * images, and of a store that --store named, it tells nothing.  Best effort.
 */
void imagecmd_tell(int store_fd, const struct imagecmd_args *a, const char *event, const char *ref);
/* The same of each "name" (or, where by_digest, once of each "digest") in a list of what an operation did. */
void imagecmd_tell_all(int store_fd, const struct imagecmd_args *a, const char *event, const json_t *done, int by_digest);
/* Tells that an image of this digest lost so many names, and whether it is gone with them. */
void imagecmd_tell_gone(int store_fd, const struct imagecmd_args *a, const char *digest, const json_t *labels, size_t names);
/* berth image import, whose events are called event. */
int imagecmd_import_as(int store_fd, const struct imagecmd_args *a, const char *event, struct err *e);

/* ---- --tenant ---- */

struct imagecmd_tenant {
	struct config config;
	struct tenant tenant;
	struct image_maker maker;
};
/*
 * What --tenant says, for o.maker and the like; *ret is NULL without it.  may: the key of [tenant]
 * that must allow it, or NULL.  ERR_DENIED.  The caller frees *ret.
 */
int imagecmd_tenant(const struct imagecmd_args *a, const char *may, struct imagecmd_tenant **ret,
		    struct err *e);

/* ---- output ---- */

/* The table of image ls, of records as catalog_list() gives them. */
void imagecmd_print_list(const json_t *list, int with_size);
/* "1.5 MiB" */
void imagecmd_bytes(uint64_t n, char out[24]);
/* "1 layer", "2 layers"; thing has at most 10 bytes.  Returns out. */
const char *imagecmd_count(uint64_t n, const char *thing, char out[40]);
void imagecmd_print_json(const json_t *j);
uint64_t imagecmd_u64(const json_t *j, const char *key);
/* Text of a record, safe for a terminal. */
const char *imagecmd_text(const json_t *j, const char *key, char *out, size_t n);
/* Progress of an unpacking, for struct import_options: one line on stderr, rewritten. */
void imagecmd_progress(void *ctx, size_t layer, size_t layers, uint64_t bytes, uint64_t total_bytes, uint64_t entries);
/* 1 when progress is wanted: stderr is a terminal, neither --quiet nor --json. */
int imagecmd_is_live(const struct imagecmd_args *a);
void imagecmd_clear_line(void);

#endif
