/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imageuse - from the IMAGE word of a command line to layers of a spec.
 *
 * "host", a path (starting with / or .), or an image of the store.
 */
#ifndef BERTH_CLI_RUN_IMAGEUSE_H
#define BERTH_CLI_RUN_IMAGEUSE_H

#include "manager/host/registry.h"
#include "manager/host/tenant.h"
#include "rootfs/store/image.h"
#include "runtime/sandbox/spec.h"

enum imageuse_pull { IMAGEUSE_NEVER, IMAGEUSE_MISSING, IMAGEUSE_ALWAYS };

struct imageuse {
	struct image image;
	int has_image;		/* image is from the store */
	int store_fd;
	int hold_fd;		/* keeps it from gc */
	enum imageuse_pull pull;	/* may it be fetched from a registry? */
	int quiet;		/* without progress */
};

#define IMAGEUSE_INIT ((struct imageuse){ .store_fd = -1, .hold_fd = -1 })

int imageuse_open(struct imageuse *u, const struct registry *r, const char *ref, struct spec *s, struct err *e);
/* For a sandbox that is made elsewhere: the image is there afterwards, if policy says so. */
int imageuse_ensure(const struct registry *r, const char *ref, enum imageuse_pull policy, int quiet, struct err *e);
/* "missing", "always", "never"; ERR_INVALID otherwise. */
int imageuse_policy(const char *word, enum imageuse_pull *ret, struct err *e);
/*
 * For a lasting sandbox whose directory is dir_fd: the image that it was made from, even if the
 * name means another image by now, or none.
 */
int imageuse_open_pinned(struct imageuse *u, const struct registry *r, int dir_fd, const char *ref, struct spec *s,
			 struct err *e);
/*
 * "image" of a spec.json, a tenant's word for an image of its own, becomes the name that the image
 * has for all; any other stays.  -1 without memory.
 */
int imageuse_own(const struct registry *r, const struct tenant *t, json_t *spec);
/* Whether t sees the opened image, which its word for it is: else it is reported as missing. */
int imageuse_check_seen(const struct imageuse *u, const struct tenant *t, const struct config *c,
			const char *word, struct err *e);
/* Keeps the image for the lasting sandbox whose directory is dir_fd. */
int imageuse_pin(const struct imageuse *u, int dir_fd, struct err *e);
/* Also closes the spec's layers. */
void imageuse_close(struct imageuse *u, struct spec *s);

#endif
