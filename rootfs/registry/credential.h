/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credential - a user name and password for a registry, and the text that holds them: docker's
 * config.json, {"auths":{"HOST[:PORT]":{"auth":"base64 of USER:PASSWORD"}}}.  Pure; the files are
 * read and written by authfile_*(), below.
 */
#ifndef BERTH_ROOTFS_REGISTRY_CREDENTIAL_H
#define BERTH_ROOTFS_REGISTRY_CREDENTIAL_H

#include <stddef.h>
#include <stdint.h>

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
 * Reads the credential for registry from the text of such a file; what names the file in errors. 1
 * found, 0 not, -1 (ERR_CORRUPT).
 */
int credential_parse(const char *text, size_t n, const char *registry, const char *what, struct credential *ret,
		     struct err *e);
/*
 * Reads the helper that such a file names for registry (credHelpers, else credsStore): 1 with its
 * name in ret, 0 none, -1.
 */
int credential_helper(const char *text, size_t n, const char *registry, const char *what, char *ret, size_t size,
		      struct err *e);
/* Checks that every part of the credential can be put into a header: ERR_CORRUPT if not. */
int credential_check(const struct credential *c, const char *what, struct err *e);

/* Tells whether s is printable and short enough for a header or a URL. */
int credential_text_ok(const char *s);
/* Tells whether key, a name in such a file, stands for registry: Docker Hub has several. */
int credential_is_key_of(const char *key, const char *registry);

/* ---- credential helpers ---- */

/*
 * credhelper - passwords from docker's credential helpers (docker-credential-NAME get;
 * github.com/docker/docker-credential-helpers).
 *
 * A helper is the operator's program. It runs with the rights of berth-image's caller, because
 * it opens that user's keychain. So neither an image nor a registry can choose a helper: its
 * name comes from a configuration that only its owner can write, is a plain word, and is looked
 * up in the system's directories only, never in PATH. It gets the registry's name on stdin,
 * /dev/null as stderr, a clean environment, and a deadline; its output is bounded and read
 * strictly.
 */

#define CREDHELPER_NAME_MAX 64
#define CREDHELPER_ANSWER_MAX (4u * CREDENTIAL_SECRET_MAX)

/* Asks the helper for server ("HOST[:PORT]", or Docker Hub's URL). 1 found, 0 the helper knows none, -1. */
int credhelper_get(const char *name, const char *server, uint64_t deadline_ms, struct credential *ret, struct err *e);
/*
 * Turns the output of a helper into a credential; pure. The user name "<token>" means that the
 * secret is an identity token. -1: ERR_CORRUPT.
 */
int credhelper_parse(const char *text, size_t n, const char *name, struct credential *ret, struct err *e);

/* ---- the files ---- */

/*
 * authfile - the files with the passwords for registries.
 *
 * Ours is auth.json in the state directory, mode 0600, in the form of docker's config.json
 * (above).  Docker's own file is read after it, and never written; a credential helper that
 * it names is run.
 */

#define AUTHFILE_NAME "auth.json"

/*
 * Looks up registry ("docker.io", "HOST[:PORT]") in auth.json of state_dir, then in docker_config
 * (a path, or NULL): by the credential helper that is named there, else in the file itself. A
 * missing file is no error. ERR_DENIED if others may read our file, or if docker's file names a
 * helper and others may write it. helper_ms: the time limit of a helper. 1 found, 0 not, -1.
 */
int authfile_find(const char *state_dir, const char *docker_config, const char *registry, uint64_t helper_ms,
		    struct credential *ret, struct err *e);
/* Stores the credential, or with user NULL removes it. *ret_had: 1 if there was one before (may be NULL). */
int authfile_store(const char *state_dir, const char *registry, const char *user, const char *password, int *ret_had,
		     struct err *e);

#endif
