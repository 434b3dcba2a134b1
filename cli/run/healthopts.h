/* SPDX-License-Identifier: Apache-2.0 */
/*
 * healthopts - the options that say how a lasting sandbox is checked.
 *
 * HEALTHOPTS_TABLE rows feed a command's struct opt table; healthopts_set()
 * handles their ids.  A service has the check of its image (HEALTHCHECK of a
 * Dockerfile) where no option names another.
 */
#ifndef BERTH_CLI_RUN_HEALTHOPTS_H
#define BERTH_CLI_RUN_HEALTHOPTS_H

#include "cli/command.h"
#include "manager/keeper/health.h"
#include "rootfs/store/image.h"

enum healthopts_id {
	HEALTHOPT_CMD = 300, HEALTHOPT_EXEC, HEALTHOPT_INTERVAL, HEALTHOPT_TIMEOUT,
	HEALTHOPT_RETRIES, HEALTHOPT_START_PERIOD, HEALTHOPT_START_INTERVAL, HEALTHOPT_NONE,
	HEALTHOPT_END
};

#define HEALTHOPTS_TABLE \
	{ "health-cmd", 0, OPT_VALUE, "TEXT", \
	  "check its health: text for the image's /bin/sh -c, which succeeds when it is well", \
	  HEALTHOPT_CMD }, \
	{ "health-exec", 0, OPT_VALUE, "JSON", \
	  "the same without a shell, such as [\"curl\",\"-fs\",\"localhost\"]", HEALTHOPT_EXEC }, \
	{ "health-interval", 0, OPT_VALUE, "TIME", "between two checks (default: 30s)", \
	  HEALTHOPT_INTERVAL }, \
	{ "health-timeout", 0, OPT_VALUE, "TIME", \
	  "a check that takes longer is killed and has failed (default: 30s)", \
	  HEALTHOPT_TIMEOUT }, \
	{ "health-retries", 0, OPT_VALUE, "N", \
	  "failures in a row that make it unhealthy (default: 3)", HEALTHOPT_RETRIES }, \
	{ "health-start-period", 0, OPT_VALUE, "TIME", \
	  "in which failures do not count (default: 0)", HEALTHOPT_START_PERIOD }, \
	{ "health-start-interval", 0, OPT_VALUE, "TIME", \
	  "between two checks within the start period (default: 5s)", HEALTHOPT_START_INTERVAL }, \
	{ "no-health", 0, OPT_FLAG, NULL, "no check, not the image's either", HEALTHOPT_NONE }, \
	{ "no-healthcheck", 0, OPT_FLAG, NULL, "the same as --no-health", HEALTHOPT_NONE }

struct healthopts {
	struct health_spec spec;	/* owns argv */
	unsigned given;			/* bit per option since HEALTHOPT_CMD */
};

#define HEALTHOPTS_INIT { HEALTH_SPEC_INIT, 0 }

/* 1 if id is not one of its options. */
int healthopts_set(struct healthopts *h, int id, const char *value, struct err *e);
/*
 * After the last option: ERR_INVALID when options contradict each other, or only
 * say when to run a check that none of them names, and the image's cannot be meant.
 */
int healthopts_finish(struct healthopts *h, int may_be_the_images, struct err *e);
/*
 * Of a service, after healthopts_finish(): the check of im (NULL: no image) where none was
 * asked for, with the times and retries of the options before those of the image, which are
 * brought within the bounds of the options.
 */
int healthopts_take_image(struct healthopts *h, const struct image *im, struct err *e);
void healthopts_release(struct healthopts *h);

#endif
