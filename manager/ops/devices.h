/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices - the host's devices for a sandbox, and what comes with them.
 *
 * A device that can be as good as root on the host is refused, unless the configuration names
 * its path in devices.privileged. Such devices cannot be listed, so the harmless drivers are:
 * see devices_is_harmless().
 */
#ifndef BERTH_MANAGER_OPS_DEVICES_H
#define BERTH_MANAGER_OPS_DEVICES_H

#include "manager/host/config.h"
#include "runtime/sandbox/spec.h"

struct devices {
	struct spec_device at[CGROUP_DEVICES_MAX];
	struct cgroup_device may[CGROUP_DEVICES_MAX];
	size_t count, may_count;
	struct spec_mount mounts[SPEC_MOUNTS_MAX];	/* of CDI, with their strings */
	size_t mount_count;
	const char **env;	/* of CDI; NAME=VALUE */
	size_t env_count;
	char **owned;		/* every string above */
	size_t owned_count;
};

/* Of the heap, made by calloc(3); d may be NULL. */
void devices_free(struct devices *d);
/* One node, as asked for; strings are borrowed. */
struct device_node {
	const char *path;	/* on the host */
	const char *target;	/* below /dev */
	unsigned access;
	int64_t mode, uid, gid;	/* -1: as usual */
};

/* Adds it; copies its strings. */
int devices_add_node(struct devices *d, const struct config *c, const struct device_node *n,
		     struct err *e);
/* A copy that lives as long as d. */
char *devices_keep(struct devices *d, const char *s, struct err *e);
/* Whether a node may be made at target: below /dev, and not berth's own.  ERR_INVALID. */
int devices_check_target(const char *target, struct err *e);
/* "rwm" or a part of it: a set of enum cgroup_access.  ERR_INVALID. */
int devices_access(const char *text, unsigned *ret, struct err *e);

/*
 * Pure, for tests: whether the kernel's driver of that name (a line of /proc/devices, or of
 * /proc/misc with is_misc) has devices that give no power over the host.
 */
int devices_is_harmless(const char *driver, int is_misc);

#endif
