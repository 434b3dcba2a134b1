/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resident - create and start sandboxes that live in a keeper.
 *
 * A sandbox is defined by its spec.json: the options that it was created with, by name, so that
 * a later start (also after a reboot) reads them exactly as the command line was read.
 */
#ifndef BERTH_CLI_LIVE_RESIDENT_H
#define BERTH_CLI_LIVE_RESIDENT_H

#include "cli/live/resident_options.h"
#include "cli/live/sandbox_open.h"
#include "runtime/sandbox/spec.h"


struct resident_whose {
	const char *name;	/* may be "" */
	/* "", or the owning tenant, whose [tenant] limits apply: ERR_LIMIT */
	const char *tenant;
	int no_start;		/* made as one that is stopped, of the status RECORD_CREATED */
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

#endif
