/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load - what berth knows of a sandbox, read for a view of it: its files, and its keeper's word.
 */
#ifndef BERTH_MANAGER_ENGINE_LOAD_H
#define BERTH_MANAGER_ENGINE_LOAD_H

#include "manager/engine/name.h"
#include "manager/engine/view.h"
#include "manager/host/registry.h"

/* What engine_view borrows. */
struct engine_loaded {
	struct engine_view v;
	json_t *record, *live, *ping, *asked, *spec, *image, *network, *links, *names;
};

/* How a keeper is asked: a new reference, or NULL; rq stays the caller's. */
struct engine_asker {
	json_t *(*ask)(void *ctx, json_t *rq, struct err *e);
	void *ctx;
};

/*
 * Of the sandbox id, which is only kept or runs; id must outlive ret.  asker NULL: its keeper is
 * not asked.  ERR_NOT_FOUND when it is gone.
 */
int engine_load(struct engine_loaded *ret, struct registry *r, const char *id, int kept,
		const struct engine_asker *asker, struct err *e);
/*
 * Before a container comes on another network: ERR_DENIED in Docker's words where its own network allows none
 * beside it.  ret_alias: the name that the network must learn, where clients call the container by another
 * than berth does, and a host can have it; else "".
 */
int engine_load_joiner(struct registry *r, const char *id, int kept, char ret_alias[ENGINE_NAME], struct err *e);
void engine_loaded_release(struct engine_loaded *l);

/* Gives the record of a zygote, of which id is the id and which runs, the label of its forks. */
void engine_load_label(struct registry *r, const char *id, json_t *record);
/*
 * A new array of engine_summary(), newer ones first.  all: those that do not run, too, as a filter
 * for a state says by itself.  limit 0: no limit.  Zygotes and their forks (engine_is_internal())
 * are among them only when filters asks for a label.
 */
json_t *engine_load_list(struct registry *r, const json_t *filters, int all, long limit,
			 struct err *e);

/*
 * The mounts of each container that HostConfig.VolumesFrom of a body names, {"NAME": [...]}; one that
 * is not there is left out.  NULL with e.
 */
json_t *engine_load_others(struct registry *r, const json_t *body, struct err *e);
/* Whether the container that PidMode or IpcMode of a body names is there: ERR_INVALID in Docker's words. */
int engine_check_modes(struct registry *r, const json_t *body, struct err *e);

#endif
