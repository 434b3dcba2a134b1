/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credential - a user name and password for a registry, and the text that holds them: docker's
 * config.json, {"auths":{"HOST[:PORT]":{"auth":"base64 of USER:PASSWORD"}}}.  Pure; the files are
 * read and written in authfile.c.
 */
#ifndef BERTH_ROOTFS_REGISTRY_CREDENTIAL_H
#define BERTH_ROOTFS_REGISTRY_CREDENTIAL_H

#include <stddef.h>

#include "base/err.h"

#define CREDENTIAL_FILE_MAX (1u << 20)
#define CREDENTIAL_SECRET_MAX 8192	/* bytes of a password or identity token */

struct credential {	/* owns its strings; all are NULL without a credential */
	char *user, *password;
	char *identity_token;
};

void credential_release(struct credential *c);
#define autocredential __attribute__((cleanup(credential_release)))

/*
 * The text of such a file to a credential.  what names it.  1
 * found, 0 not, -1 (ERR_CORRUPT).
 */
int credential_parse(const char *text, size_t n, const char *registry, const char *what, struct credential *ret,
		     struct err *e);
/*
 * The helper such a file names for registry (credHelpers, else credsStore): 1 with
 * its name in ret, 0 none, -1.
 */
int credential_helper(const char *text, size_t n, const char *registry, const char *what, char *ret, size_t size,
		      struct err *e);
/* ERR_CORRUPT unless all of it can be put into a header. */
int credential_check(const struct credential *c, const char *what, struct err *e);

/* Whether s is printable and short enough for a header or a URL. */
int credential_text_ok(const char *s);
/* Whether key, a name in such a file, is that of registry: Docker Hub has several. */
int credential_is_key_of(const char *key, const char *registry);

#endif
