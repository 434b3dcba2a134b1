/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ref - the names of images, read strictly: [DOMAIN[:PORT]/]PATH[:TAG][@sha256:HEX].
 *
 * The grammar is the distribution specification's, bounded so that a name fits
 * a file name.  "docker.io/library/x", "library/x" and "x" are one name, kept
 * as "x".  Pure.
 */
#ifndef BERTH_ROOTFS_STORE_REF_H
#define BERTH_ROOTFS_STORE_REF_H

#include "base/err.h"
#include "rootfs/store/digest.h"

#define REF_NAME_MAX 220	/* bytes of REPO:TAG */
#define REF_TAG_MAX 128

struct ref {
	char repo[REF_NAME_MAX + 1];	/* "debian", "ghcr.io/a/b" */
	char tag[REF_TAG_MAX + 1];	/* "" when none was given */
	char digest[DIGEST_SIZE];	/* "" when none was given */
};

/* ERR_INVALID with the reason when s is no reference. */
int ref_parse(const char *s, struct ref *ret, struct err *e);
/* "REPO:TAG", the tag defaulting to "latest". */
void ref_name(const struct ref *r, char ret[REF_NAME_MAX + 1]);
/* The record's file name, "REPO:TAG.json" with every '/' as '%'. */
void ref_filename(const struct ref *r, char ret[REF_NAME_MAX + 8]);
/* 1 when the name is not for images of the store ("host" is made by the runtime). */
int ref_is_reserved(const struct ref *r);
/*
 * Makes a name out of any text, such as a file's: lower case, other bytes as
 * '-', known archive suffixes cut off.  -1 when nothing is left.
 */
int ref_from_filename(const char *path, char ret[REF_NAME_MAX + 1]);

#endif
