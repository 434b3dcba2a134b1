/* SPDX-License-Identifier: Apache-2.0 */
/* importopts - the options of an import, and the callbacks that report on it. */
#ifndef BERTH_ROOTFS_TRANSFER_IMPORTOPTS_H
#define BERTH_ROOTFS_TRANSFER_IMPORTOPTS_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/layer/layer.h"

struct image_maker;

struct import_options {
	const char *source;	/* path, PATH:REF for one image of a layout, or "-" */
	const char *name;	/* NULL: the name that the source declares */
	const char *unnamed;	/* of an image that the source gives none; further ones get ".1", ".2"; or NULL */
	const char *platform;	/* "OS/ARCH[/VARIANT]"; NULL: this machine's */
	/* progress: about ten times a second; layer counts from 1; total_bytes 0 when unknown */
	void (*progress)(void *ctx, size_t layer, size_t layers, uint64_t bytes, uint64_t total_bytes,
			 uint64_t entries);
	/* gets a note for the operator; may be NULL */
	void (*note)(void *ctx, const char *text);
	void *ctx;
	/* for a root file system that another program makes; all may be 0 */
	int stream_fd;		/* its tar comes from here instead of source; 0: unused */
	const json_t *config;	/* the "config" of the image instead of a /bin/sh in it */
	const char *created, *created_by;
	const json_t *changes;	/* for a root file system: array of instructions (change.h), or NULL */
	const char *message;	/* for a root file system: a comment for its history, or NULL */
	/* images of the store, a list of names: docker-save content may leave out their layers; or NULL */
	const json_t *bases;
	const struct image_maker *maker;	/* the tenant that makes the image; NULL: the operator */
	/* called when everything was read; -1: make no image */
	int (*confirm)(void *ctx, struct err *e);
	void *confirm_ctx;
};

#endif
