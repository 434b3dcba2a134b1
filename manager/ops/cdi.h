/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cdi - devices by name, as vendors describe them: the Container Device Interface
 * (github.com/cncf-tags/container-device-interface, SPEC.md 1.0).
 *
 * A specification is a JSON file of one of the directories devices.cdi_dirs: device nodes, mounts
 * and environment variables of a class of devices.  It is the host's, so its files must be root's
 * alone to write.  A device that two directories describe is that of the later one; two files of
 * one directory that do so are an error.
 *
 * Hooks are programs of the host that a runtime would run as root.  berth runs none: a device that
 * wants one is refused, or with devices.cdi_hooks = "skip" made without.
 */
#ifndef BERTH_MANAGER_OPS_CDI_H
#define BERTH_MANAGER_OPS_CDI_H

#include "base/err.h"
#include "manager/host/config.h"

struct cdi;
struct devices;

/* Whether it is VENDOR/CLASS=NAME. */
int cdi_is_name(const char *text);
/* Reads the directories; NULL with e, as for a file that is not a specification. */
struct cdi *cdi_open(const struct config *c, struct err *e);
void cdi_close(struct cdi *x);
/* Adds the edits of the device of that name, and once those for all devices of its file. */
int cdi_add(struct cdi *x, const char *name, struct devices *d, struct err *e);

#endif
