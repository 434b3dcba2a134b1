/* SPDX-License-Identifier: Apache-2.0 */
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
#ifndef BERTH_ROOTFS_REGISTRY_CREDHELPER_H
#define BERTH_ROOTFS_REGISTRY_CREDHELPER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "rootfs/registry/credential.h"

#define CREDHELPER_NAME_MAX 64
#define CREDHELPER_ANSWER_MAX (4u * CREDENTIAL_SECRET_MAX)

/* Asks the helper for server ("HOST[:PORT]", or Docker Hub's URL).  1 found, 0 it knows none, -1. */
int credhelper_get(const char *name, const char *server, uint64_t deadline_ms, struct credential *ret, struct err *e);
/*
 * Turns the output of a helper into a credential; pure. The user name "<token>" means that the
 * secret is an identity token. -1: ERR_CORRUPT.
 */
int credhelper_parse(const char *text, size_t n, const char *name, struct credential *ret, struct err *e);

#endif
