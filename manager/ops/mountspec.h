/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mountspec - reads --mount, --volume and --tmpfs, strictly.
 *
 * Each appends one mount to the spec.  Strings made here are returned through
 * *ret_owned, for the caller to free when the spec is done.  Host sources are
 * made absolute; whether they exist is checked when they are opened.
 */
#ifndef BERTH_MANAGER_OPS_MOUNTSPEC_H
#define BERTH_MANAGER_OPS_MOUNTSPEC_H

#include "runtime/sandbox/spec.h"

int mountspec_mount(struct spec *s, const char *text, char **ret_owned, struct err *e);
/* Tells whether the source of --volume, n bytes, is a path; otherwise it is the name of a volume. */
int mountspec_is_path(const char *source, size_t n);
int mountspec_volume(struct spec *s, const char *text, char **ret_owned, struct err *e);
/*
 * Sets the ids for owner=auto, once s has its user: that user's ids. ERR_INVALID: a user name,
 * whose number is unknown.
 */
int mountspec_owner(struct spec *s, struct err *e);
int mountspec_tmpfs(struct spec *s, const char *text, char **ret_owned, struct err *e);

#endif
