/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buildbase - which images the text of a Dockerfile may begin from.
 *
 * Pure, and no parser: buildah alone knows what an instruction means.  This only says which names
 * to lay ready; one too many costs time, one too few is an error of buildah's that names it.
 */
#ifndef BERTH_CLI_IMAGE_BUILDBASE_H
#define BERTH_CLI_IMAGE_BUILDBASE_H

#include "base/err.h"
#include "base/json.h"

#define BUILDBASE_MAX 32

/*
 * The names of images behind FROM, in --from= and in from= of --mount, each once, at most
 * BUILDBASE_MAX.  Variables have the values that the NAME=VALUE of args give them, else the
 * defaults of ARG; a name with another variable is left out.  A new array of strings, or NULL with e.
 */
json_t *buildbase_named(const char *text, const json_t *args, struct err *e);
/* The name with registry and tag, as buildah calls it. */
void buildbase_whole(const char *name, char *ret, size_t size);

#endif
