/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices - the host's devices for a sandbox, with the mounts and variables that belong to them.
 *
 * A device that can be as good as root on the host is refused, unless the configuration names its
 * path in devices.privileged. Such devices cannot be listed, so the harmless drivers are listed
 * instead: see devices_is_harmless().
 */
#ifndef BERTH_MANAGER_OPS_DEVICES_H
#define BERTH_MANAGER_OPS_DEVICES_H

#include "base/err.h"
#include "manager/host/config.h"
#include "runtime/sandbox/spec.h"

struct devices {
	struct spec_device at[CGROUP_DEVICES_MAX];
	struct cgroup_device may[CGROUP_DEVICES_MAX];
	size_t count, may_count;
	struct spec_mount mounts[SPEC_MOUNTS_MAX];	/* from CDI, with their strings */
	size_t mount_count;
	const char **env;	/* from CDI; NAME=VALUE */
	size_t env_count;
	char **owned;		/* all strings above */
	size_t owned_count;
};

/* Frees d, which calloc(3) allocated; d may be NULL. */
void devices_free(struct devices *d);
/* One node, as requested; strings are borrowed. */
struct device_node {
	const char *path;	/* on the host */
	const char *target;	/* below /dev */
	unsigned access;
	int64_t mode, uid, gid;	/* -1: as usual */
};

/* Adds the node; copies its strings. */
int devices_add_node(struct devices *d, const struct config *c, const struct device_node *n,
		     struct err *e);
/* Returns a copy that lives as long as d. */
char *devices_keep(struct devices *d, const char *s, struct err *e);
/* Checks that a node may be made at target: below /dev, and not one of berth's own. ERR_INVALID. */
int devices_check_target(const char *target, struct err *e);
/* Parses "rwm" or a part of it: a set of enum cgroup_access. ERR_INVALID. */
int devices_access(const char *text, unsigned *ret, struct err *e);

/*
 * Tells whether the kernel's driver of that name (a line of /proc/devices, or of /proc/misc with
 * is_misc) has only devices that give no power over the host. Pure, for tests.
 */
int devices_is_harmless(const char *driver, int is_misc);

/* ---- --device and --gpus ---- */

/*
 * --device and --gpus.
 *
 * A value that begins with / is the path of a node, any other the name of a device in a CDI
 * specification. The text is checked when the option is read, and resolved on this host at each
 * start, because numbers of devices change.
 */

/* Checks PATH[:TARGET][:rwm], or VENDOR/CLASS=NAME. ERR_INVALID. */
int deviceopts_check(const char *value, struct err *e);
/* Parses all, a number of GPUs, or device=NAME,...: calls each with VENDOR/CLASS=NAME. ERR_INVALID. */
int deviceopts_gpus(const char *value, int (*each)(void *ctx, const char *device, struct err *e),
		    void *ctx, struct err *e);
/*
 * Resolves the values on this host now. ERR_NOT_FOUND, ERR_DENIED for a device that is as good
 * as root, ERR_UNSUPPORTED for requests of a specification that berth does not support.
 */
int deviceopts_resolve(struct devices *d, const struct config *c, const char *const *values,
		       size_t n, struct err *e);

/* ---- devices by name, as vendors describe them ---- */

/*
 * Devices by name, from vendors' descriptions: the Container Device Interface
 * (github.com/cncf-tags/container-device-interface, SPEC.md 1.0).
 *
 * A specification is a JSON file of one of the directories devices.cdi_dirs: device nodes, mounts
 * and environment variables of a class of devices. It belongs to the host, so only root may be able
 * to write its files. If two directories describe a device, the later one counts; if two files of
 * one directory do, it is an error.
 *
 * Hooks are programs of the host that a runtime would run as root. berth runs none: a device with a
 * hook is refused, or with devices.cdi_hooks = "skip" made without it.
 */

struct cdi;
struct devices;

/* Tells whether text has the form VENDOR/CLASS=NAME. */
int cdi_is_name(const char *text);
/* Reads the directories; NULL with e, for example for a file that is no specification. */
struct cdi *cdi_open(const struct config *c, struct err *e);
void cdi_close(struct cdi *x);
/* Adds the edits for the device of that name, and once those for all devices of its file. */
int cdi_add(struct cdi *x, const char *name, struct devices *d, struct err *e);

#endif
