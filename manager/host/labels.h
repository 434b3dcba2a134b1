/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels - words that a user attaches to a sandbox, a volume or a network, to find it again.
 *
 * A set of labels is a JSON object of strings, as records have it.  It is bounded: LABELS_MAX
 * labels of LABELS_BYTES_MAX bytes in all, keys and values.  Pure.
 */
#ifndef BERTH_MANAGER_HOST_LABELS_H
#define BERTH_MANAGER_HOST_LABELS_H

#include "base/err.h"
#include "base/json.h"

#define LABELS_MAX 128
#define LABEL_KEY_MAX 256
#define LABEL_VALUE_MAX 4096
#define LABELS_BYTES_MAX 32768
#define LABELS_EVENT_BYTES_MAX                                                                     \
	2048 /* an event has labels up to this size: a few sandboxes must not fill the journal */

/* Marks sandboxes that berthd's sessions and pools made: berth prune leaves them. */
#define LABEL_MANAGED "berth.managed-by"
/* The protocol by which it was made: docker, e2b, mcp, run_code. */
#define LABEL_FACE "berth.face"
/* Label with the zygote's id, on forks and on sandboxes that hold a place for one. */
#define LABEL_ZYGOTE "berth.zygote"
/*
 * The Idempotency-Key that it was asked for with, and the body, as hashes (manager/api/once.h).  No fork or
 * checkpoint takes it over.
 */
#define LABEL_REQUEST "berth.request"
/* Tells whether text, KEY=VALUE or NULL, is that label. */
int label_is_request(const char *text);
/* The process of the build that a volume is for (procid.h). */
#define LABEL_BUILD "berth.build"
/* On volumes that keep the steps of builds (buildcache.h). */
#define LABEL_BUILD_CACHE "berth.build-cache"

/*
 * Prefix of the host's own keys: berth decides by them (which face made a sandbox, whose zygote it
 * is), so no user, image, checkpoint or client of Docker may set one. Upholds S52 of SECURITY.md.
 */
#define LABELS_OWN "berth."
/* Tells whether text, KEY or KEY=VALUE, has such a key. */
int labels_are_own(const char *text);
/* Refuses text with such a key: ERR_DENIED. */
int labels_refuse_own(const char *text, struct err *e);
/* As labels_refuse_own(), for each of an array of texts; NULL: none. */
int labels_refuse_own_list(const json_t *texts, struct err *e);

/*
 * Adds text, KEY=VALUE or KEY, to *labels, which the first call makes; a later value of a key
 * replaces the earlier one. ERR_INVALID if text is not a label, ERR_LIMIT if it does not fit.
 */
int labels_add(json_t **labels, const char *text, struct err *e);
/*
 * Returns a new object: own, and the image's labels for which own has no value. Labels of an image
 * beyond the bounds are left out, because its user cannot change it, and so are the host's own
 * keys. Both may be NULL.
 */
json_t *labels_with_image(const json_t *own, const json_t *image);
/*
 * Returns the labels for an event: a new object, or NULL if there are none, or more than
 * LABELS_EVENT_BYTES_MAX.
 */
json_t *labels_for_event(const json_t *labels);

#endif
