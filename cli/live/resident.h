/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resident - create and start sandboxes that live in a keeper.
 *
 * What a sandbox is stands in its spec.json as the options it was created with,
 * by name, so that a later start (after a reboot, too) reads them exactly as the
 * command line was read.
 */
#ifndef BERTH_CLI_LIVE_RESIDENT_H
#define BERTH_CLI_LIVE_RESIDENT_H

#include "cli/command.h"
#include "cli/live/sandbox_open.h"
#include "cli/run/runopts.h"
#include "runtime/sandbox/spec.h"

/* Besides those of run: what only a sandbox that lives has. */
enum resident_id { RESIDENT_IDLE_TIMEOUT = RUNOPT_FIRST_OWN, RESIDENT_TTL, RESIDENT_AUTO_REMOVE, RESIDENT_FIRST_OWN };

#define RESIDENT_TABLE \
	RUNOPTS_TABLE, \
	{ "idle-timeout", 0, OPT_VALUE, "TIME", "stop it when nothing has happened in it for so long; 0 is never (default: 3600s)", \
	  RESIDENT_IDLE_TIMEOUT }, \
	{ "ttl", 0, OPT_VALUE, "TIME", "remove it so long after it was made, whatever it does; 0 is never (default: 0)", RESIDENT_TTL }, \
	{ "auto-remove", 0, OPT_FLAG, NULL, "remove it once it stops, for whatever reason", RESIDENT_AUTO_REMOVE }

/* TIME of --idle-timeout and --ttl. */
int resident_time(const char *name, const char *value, uint64_t *ret_ms, struct err *e);

/* The options that make a sandbox, shared by create and the reading of spec.json. */
extern const struct opt resident_options[];
extern const size_t resident_option_count;

/* Whether lines, each NAME or NAME=VALUE, are options that create takes, of which it is not given the name: ERR_CONFIG. */
int resident_check_options(const struct config *c, const char *lines, const char *what, struct err *e);
/* What a configuration says of sandboxes and only their making can tell to be wrong: the seccomp profile.  ERR_CONFIG. */
int resident_check_config(const struct config *c, struct err *e);

/*
 * spec: {"version":1,"image":REF,"options":[[NAME,VALUE],...],"created":...}. name may be "".  tenant: "" or whose it is, and
 * then [tenant] holds: ERR_LIMIT.
 */
int resident_create(struct registry *r, const char *name, const char *tenant, json_t *spec, char ret_id[65], struct err *e);

/*
 * What the options of a lasting sandbox come to, as specjson_describe() has it: what its next start will have, and one that runs
 * has, but for changes of berth.toml.  A new reference; NULL with ERR_NOT_FOUND for one that berth run kept.
 */
json_t *resident_describe(struct registry *r, const char *id, struct err *e);

/*
 * What a stopped sandbox consists of: its writable layer's "upper" and the
 * image's layers, the top one first, as directories.  The sandbox cannot start
 * until resident_close_layers(), which accepts what a failed open left.
 */
struct resident_layers {
	int upper_fd, base_fd;
	int layer_fd[SPEC_LAYERS_MAX];
	int count;
	char workdir[4096];
	struct claim claim;
	int claimed;
};

int resident_open_layers(struct registry *r, const char *id, struct resident_layers *ret, struct err *e);
void resident_close_layers(struct registry *r, struct resident_layers *l);

#endif
