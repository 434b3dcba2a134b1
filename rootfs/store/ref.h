/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ref - the names of images, read strictly: [DOMAIN[:PORT]/]PATH[:TAG][@sha256:HEX].
 *
 * The grammar is the distribution specification's, bounded so that a name fits
 * a file name.  "docker.io/library/x", "library/x" and "x" are one name, kept
 * as "x".  Pure.
 *
 * The images of a tenant of berthd have names of their own: REPO:TAG@TENANT. Only the operator and
 * berthd write such a name (ref_parse_owned()); in text from elsewhere, such as an archive or a
 * request, it is malformed.
 */
#ifndef BERTH_ROOTFS_STORE_REF_H
#define BERTH_ROOTFS_STORE_REF_H

#include "base/err.h"
#include "rootfs/store/digest.h"

#define REF_NAME_MAX 220	/* bytes of REPO:TAG */
#define REF_TAG_MAX 128
#define REF_TENANT_MAX 64

struct ref {
	char repo[REF_NAME_MAX + 1];	/* e.g. "debian", "ghcr.io/a/b" */
	char tag[REF_TAG_MAX + 1];	/* "" when none was given */
	char digest[DIGEST_SIZE];	/* "" when none was given */
	char tenant[REF_TENANT_MAX + 1];	/* "" without an owner */
};

/* Parses s; ERR_INVALID with the reason if it is not a reference. */
int ref_parse(const char *s, struct ref *ret, struct err *e);
/* As ref_parse(), but also accepts a tenant's name: NAME[:TAG]@TENANT. */
int ref_parse_owned(const char *s, struct ref *ret, struct err *e);
/* Gives the name to a tenant, "" for nobody; ERR_INVALID if it has a digest or becomes too long. */
int ref_set_tenant(struct ref *r, const char *tenant, struct err *e);
/* Formats "REPO:TAG" or "REPO:TAG@TENANT"; the tag defaults to "latest". */
void ref_name(const struct ref *r, char ret[REF_NAME_MAX + 1]);
/* Formats the record's file name: ref_name() and ".json", with every '/' as '%'. */
void ref_filename(const struct ref *r, char ret[REF_NAME_MAX + 8]);
/* Returns 1 if the name is reserved: the store has no image "host", because the runtime makes it. */
int ref_is_reserved(const struct ref *r);
/*
 * Makes a name from any text, such as a file's name: lower case, other bytes as '-', known archive
 * suffixes cut off. -1 if nothing is left.
 */
int ref_from_filename(const char *path, char ret[REF_NAME_MAX + 1]);

#endif
