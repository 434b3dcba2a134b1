/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credential - user names and passwords for registries, on disk.
 *
 * Ours is auth.json in the state directory, mode 0600, in the form of docker's
 * config.json: {"auths":{"HOST[:PORT]":{"auth":"base64 of USER:PASSWORD"}}}.
 * Docker's own file is read after it, never written; its credential helpers
 * are programs and are not run.
 */
#ifndef BERTH_ROOTFS_REGISTRY_CREDENTIAL_H
#define BERTH_ROOTFS_REGISTRY_CREDENTIAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CREDENTIAL_FILE "auth.json"
#define CREDENTIAL_FILE_MAX (1u << 20)
#define CREDENTIAL_SECRET_MAX 8192	/* bytes of a password or identity token */

struct credential {	/* owns its strings; all are NULL without a credential */
	char *user, *password;
	char *identity_token;
};

void credential_release(struct credential *c);
#define autocredential __attribute__((cleanup(credential_release)))

/*
 * Looks registry ("docker.io", "HOST[:PORT]") up in auth.json of state_dir, then in
 * docker_config (a path, or NULL): by the credential helper that is named there, else in the
 * file itself. A missing file is no error. ERR_DENIED if others may read our file, or if
 * docker's file names a helper and others may write it. helper_ms: the time limit of a helper. 1
 * found, 0 not, -1.
 */
int credential_find(const char *state_dir, const char *docker_config, const char *registry, uint64_t helper_ms,
		    struct credential *ret, struct err *e);
/* Stores, or with user NULL removes.  *ret_had: 1 when there was one (may be NULL). */
int credential_store(const char *state_dir, const char *registry, const char *user, const char *password, int *ret_had,
		     struct err *e);
/*
 * The text of such a file to a credential: the pure part.  what names it.  1
 * found, 0 not, -1 (ERR_CORRUPT).
 */
int credential_parse(const char *text, size_t n, const char *registry, const char *what, struct credential *ret,
		     struct err *e);
/*
 * The helper such a file names for registry (credHelpers, else credsStore): 1 with
 * its name in ret, 0 none, -1.  The pure part, too.
 */
int credential_helper(const char *text, size_t n, const char *registry, const char *what, char *ret, size_t size,
		      struct err *e);
/* ERR_CORRUPT unless all of it can be put into a header. */
int credential_check(const struct credential *c, const char *what, struct err *e);

#endif
