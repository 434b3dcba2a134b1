/* SPDX-License-Identifier: Apache-2.0 */
/* life - how a sandbox lives that outlasts its maker: how long, for whom, how checked, as what service. */
#ifndef BERTH_MANAGER_OPS_LIFE_H
#define BERTH_MANAGER_OPS_LIFE_H

#include "manager/host/procid.h"
#include "manager/keeper/health.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/livebudget.h"

#define OWNER_GRACE_MS 10000

/* Its main command, and how that begins and ends. */
struct serviceopts {
	int is_service;
	struct keeper_service service;	/* its strings are borrowed */
	char **words;			/* the command line's; the strings are borrowed */
	size_t word_count;
};

struct life {
	uint64_t idle_timeout_ms, ttl_ms;
	int auto_remove;
	char owner[PROCID_SIZE];	/* "": none */
	uint64_t owner_grace_ms;
	struct livebudget budget;
	struct health_spec health;	/* owns argv */
	int no_health;
	struct serviceopts service;
};

#define LIFE_INIT { .owner_grace_ms = OWNER_GRACE_MS, .health = HEALTH_SPEC_INIT, \
		    .service = { .service = { .stop_timeout_ms = 10000 } } }

#endif
