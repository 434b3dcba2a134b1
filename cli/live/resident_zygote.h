/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resident_zygote - sandboxes that live and are made of a zygote.
 *
 * The spec.json of one has the member "zygote": the id and the name of it.  At each start the
 * sandbox takes a place in that zygote (manager/zygote/client.h), whose ids it has as long as it
 * runs; the mount of its layer shows them for those of its files (writable.c).
 */
#ifndef BERTH_CLI_LIVE_RESIDENT_ZYGOTE_H
#define BERTH_CLI_LIVE_RESIDENT_ZYGOTE_H

#include "base/json.h"
#include "manager/zygote/client.h"

/* Whether a sandbox of a zygote may have this option: the rest is as the zygote was made. */
int resident_zygote_allows(int id);
/* -1: ERR_USAGE for the option of that name. */
int resident_zygote_refuse(const char *option, struct err *e);
/*
 * For a sandbox of the zygote ref: the image, the options and the rest of its spec.json, and
 * options of its own, which follow those; own may be NULL.  NULL: ERR_NOT_FOUND, ERR_INVALID.
 */
json_t *resident_zygote_spec(struct registry *r, const char *ref, const json_t *own,
			     struct err *e);
/*
 * Takes a place for the sandbox of that spec.json, whose directory is disk_fd, and puts it into s,
 * which refers to ret: 1; 0: the sandbox is of no zygote.
 */
int resident_zygote_open(struct registry *r, const json_t *spec, int disk_fd,
			 struct zygote_home *ret, struct spec *s, struct err *e);
/* What is promised to it beyond what its zygote has promised (registry_claim_range()). */
struct promise resident_zygote_promise(const json_t *spec, const struct cgroup_limits *l);
/* The layer of one that is not to run gets the ids of s. */
int resident_zygote_files(const json_t *spec, int disk_fd, const struct spec *s, struct err *e);

#endif
