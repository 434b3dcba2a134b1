/* SPDX-License-Identifier: Apache-2.0 */
/*
 * authfile - the files with the passwords for registries.
 *
 * Ours is auth.json in the state directory, mode 0600, in the form of docker's config.json
 * (credential.h).  Docker's own file is read after it, and never written; a credential helper that
 * it names is run (credhelper.h).
 */
#ifndef BERTH_ROOTFS_REGISTRY_AUTHFILE_H
#define BERTH_ROOTFS_REGISTRY_AUTHFILE_H

#include <stdint.h>

#include "base/err.h"
#include "rootfs/registry/credential.h"

#define AUTHFILE_NAME "auth.json"

/*
 * Looks registry ("docker.io", "HOST[:PORT]") up in auth.json of state_dir, then in
 * docker_config (a path, or NULL): by the credential helper that is named there, else in the
 * file itself. A missing file is no error. ERR_DENIED if others may read our file, or if
 * docker's file names a helper and others may write it. helper_ms: the time limit of a helper. 1
 * found, 0 not, -1.
 */
int authfile_find(const char *state_dir, const char *docker_config, const char *registry, uint64_t helper_ms,
		    struct credential *ret, struct err *e);
/* Stores, or with user NULL removes.  *ret_had: 1 when there was one (may be NULL). */
int authfile_store(const char *state_dir, const char *registry, const char *user, const char *password, int *ret_had,
		     struct err *e);

#endif
