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
 * The names that stand in the text as they are: behind FROM, and in --from=; without a variable in
 * them, each once, at most BUILDBASE_MAX.  A new array of strings, or NULL with e.
 */
json_t *buildbase_named(const char *text, struct err *e);
/* Whether the image of this name, NAME[:TAG], may be meant: its repository stands in the text. */
int buildbase_may_be(const char *text, const char *name);

#endif
