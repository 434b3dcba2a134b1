/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resident_zygote - sandboxes that live and are made of a zygote.
 *
 * The spec.json of one has the member "zygote": the id and the name of it.  At each start the
 * sandbox takes a place in that zygote (manager/zygote/home.h), whose ids it has as long as it
 * runs; the mount of its layer shows them for those of its files (writable_ids.c).
 */
#ifndef BERTH_CLI_LIVE_RESIDENT_ZYGOTE_H
#define BERTH_CLI_LIVE_RESIDENT_ZYGOTE_H

#include "base/json.h"
#include "manager/zygote/home.h"

/*
 * For a sandbox of the zygote ref: the image, the options and the rest of its spec.json, but for
 * "options" of its own, which follow those.  NULL: ERR_NOT_FOUND, ERR_INVALID.
 */
json_t *resident_zygote_spec(struct registry *r, const char *ref, const json_t *own,
			     struct err *e);
/*
 * Takes a place for the sandbox of that spec.json, whose directory is disk_fd, and puts it into s,
 * which refers to ret: 1; 0: the sandbox is of no zygote.
 */
int resident_zygote_open(struct registry *r, const json_t *spec, int disk_fd,
			 struct zygote_home *ret, struct spec *s, struct err *e);
/* The layer of one that is not to run gets the ids of s. */
int resident_zygote_files(const json_t *spec, int disk_fd, const struct spec *s, struct err *e);

#endif
