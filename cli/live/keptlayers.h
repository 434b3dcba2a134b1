/* SPDX-License-Identifier: Apache-2.0 */
/* keptlayers - the files of a sandbox that does not run, as directories. */
#ifndef BERTH_CLI_LIVE_KEPTLAYERS_H
#define BERTH_CLI_LIVE_KEPTLAYERS_H

#include "manager/host/registry.h"
#include "runtime/sandbox/spec.h"

/*
 * Its writable layer's "upper" and the image's layers, the top one first.  The sandbox cannot start
 * until keptlayers_close(), which accepts what a failed open left.
 */
struct keptlayers {
	int upper_fd, base_fd;
	int layer_fd[SPEC_LAYERS_MAX];
	int count;
	char workdir[4096];
	struct claim claim;
	int claimed;
};

int keptlayers_open(struct registry *r, const char *id, struct keptlayers *ret, struct err *e);
void keptlayers_close(struct registry *r, struct keptlayers *l);

#endif
