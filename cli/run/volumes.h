/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volumes - the named volumes of one sandbox: opened, and made where they are missing, before it
 * is launched.
 *
 * They stay locked until volumes_close() in every process that has a copy of the descriptors: a
 * keeper keeps them as long as it lives.
 */
#ifndef BERTH_CLI_RUN_VOLUMES_H
#define BERTH_CLI_RUN_VOLUMES_H

#include "manager/host/volume.h"
#include "runtime/sandbox/spec.h"

struct volumes {
	struct volume v[SPEC_MOUNTS_MAX];
	int sub_fd[SPEC_MOUNTS_MAX];	/* of a mount with sub=; else -1 */
	size_t count;
};

/*
 * Sets the quotas of the directories of s that have a quota=, and opens its volumes, filled from
 * the image's layers if they are empty; s borrows the descriptors. tenant: the owner of the
 * sandbox, or "". scratch: see newmount_overlay_attached().
 */
int volumes_open(struct volumes *u, struct registry *r, struct spec *s, const char *tenant,
		 const char *scratch, struct err *e);
void volumes_close(struct volumes *u);

#endif
