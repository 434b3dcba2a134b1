/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resident - create and start sandboxes that live in a keeper.
 *
 * A sandbox is defined by its spec.json: the options that it was created with, by name, so that
 * a later start (also after a reboot) reads them exactly as the command line was read.
 */
#ifndef BERTH_CLI_LIVE_RESIDENT_H
#define BERTH_CLI_LIVE_RESIDENT_H

#include "base/json.h"
#include "cli/live/sandbox_open.h"
#include "manager/ops/runopts.h"
#include "manager/zygote/client.h"
#include "runtime/sandbox/spec.h"

struct resident_whose {
	const char *name;	/* may be "" */
	/* "", or the owning tenant, whose [tenant] limits apply: ERR_LIMIT */
	const char *tenant;
	const char *fork_of;	/* the id of the sandbox whose files it begins with; or NULL */
	int no_start;		/* made as one that is stopped, of the status RECORD_CREATED */
	const json_t *asked;	/* REGISTRY_ASKED, which becomes durable with the record; or NULL */
	unsigned awaited;	/* clients that the end of its main command waits for */
	/* unless NULL: puts what it is to begin with into its directory, before it starts */
	int (*fill)(void *ctx, const struct claim *c, struct err *e);
	void *ctx;
};

/* spec: {"version":1,"image":REF,"options":[[NAME,VALUE],...],"created":...}. */
int resident_create(struct registry *r, const struct resident_whose *whose, json_t *spec,
		    char ret_id[65], struct err *e);

/*
 * ERR_LIMIT where so many of it would exceed [admission] or the bounds of the tenant; nothing is
 * made or kept.
 */
int resident_check_room(struct registry *r, const char *tenant, const json_t *spec, unsigned count,
			struct err *e);

/*
 * The effective options of a lasting sandbox, in the form of specjson_describe(): those of its
 * next start, and those of a running one unless berth.toml changed. A new reference; NULL with
 * ERR_NOT_FOUND for one that berth run kept.
 */
json_t *resident_describe(struct registry *r, const char *id, struct err *e);

/*
 * Whether a spec.json of a lasting sandbox says of its life what fits together: its health check,
 * as "health" of an update of its keeper has it ({}: none), and the grace of its owner.
 */
json_t *resident_check_life(struct registry *r, const char *id, const json_t *spec,
			    uint64_t *ret_owner_grace_ms, struct err *e);

/*
 * registry_reclaim() of a stopped sandbox, for a start or for work on its files; waits for a
 * command that works on them, or starts it, at this moment. ERR_EXISTS: it runs. ERR_BUSY.
 */
int resident_claim(struct registry *r, const char *id, const struct promise *p, struct claim *ret,
		   struct err *e);

/* ---- its options ---- */

/* resident_options - reads the options in the spec.json of a sandbox that lives. */

#define SPEC_FILE "spec.json"

/* Reads the options of spec, which must outlive o.  ERR_CORRUPT for one that this berth does not know. */
int resident_apply(struct runopts *o, const json_t *spec, struct err *e);

/* Whether a spec.json is that of a sandbox with a main command. */
int resident_is_service(const json_t *spec);

/* TIME of --idle-timeout and --ttl. */
int resident_time(const char *name, const char *value, uint64_t *ret_ms, struct err *e);

/* Whether a sandbox of that spec can be held to its budget: ERR_INVALID, ERR_UNSUPPORTED. */
int resident_check_budget(const struct livebudget *b, const struct spec *s, struct err *e);

/* Whether lines, each NAME or NAME=VALUE, are options that create takes, of which it is not given the name: ERR_CONFIG. */
int resident_check_options(const struct config *c, const char *lines, const char *what, struct err *e);
/*
 * Checks the part of a configuration that only making a sandbox can show to be wrong: the
 * seccomp profile. ERR_CONFIG.
 */
int resident_check_config(const struct config *c, struct err *e);

/* The limits of time: each command's own, or none that would not hold: ERR_INVALID. */
int resident_settle_time(struct runopts *o, struct err *e);

/* ---- made of a zygote ---- */

/*
 * resident_zygote - sandboxes that live and are made of a zygote.
 *
 * The spec.json of one has the member "zygote": the id and the name of it.  At each start the
 * sandbox takes a place in that zygote (manager/zygote/client.h), whose ids it has as long as it
 * runs; the mount of its layer shows them for those of its files (writable.c).
 */

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
struct promise resident_zygote_promise(const json_t *spec, const struct spec *s);
/* The layer of one that is not to run gets the ids of s. */
int resident_zygote_files(const json_t *spec, int disk_fd, const struct spec *s, struct err *e);

#endif
