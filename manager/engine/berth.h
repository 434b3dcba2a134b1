/* SPDX-License-Identifier: Apache-2.0 */
/* berth - how a door of Docker's has calls of berth carried out: in a child, or in a child of berthd. */
#ifndef BERTH_MANAGER_ENGINE_BERTH_H
#define BERTH_MANAGER_ENGINE_BERTH_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/config.h"

struct engine_berth {
	/*
	 * Carries out a call (manager/ops/call.h), which it consumes: its answer, a new reference, {}
	 * where it says nothing; NULL with berth's error.  finish: it goes on though the client leaves.
	 */
	json_t *(*ask)(void *ctx, json_t *call, int finish, struct err *e);
	void *ctx;
	const struct config *config;	/* the state directory, where networks are looked up */
	unsigned allow;			/* bits of enum engine_allow */
};

/* A call that only looks, and one that changes something. */
static inline json_t *engine_look(const struct engine_berth *b, json_t *call, struct err *e)
{
	return b->ask(b->ctx, call, 0, e);
}

static inline json_t *engine_do(const struct engine_berth *b, json_t *call, struct err *e)
{
	return b->ask(b->ctx, call, 1, e);
}

#endif
