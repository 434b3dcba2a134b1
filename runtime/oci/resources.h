/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_resources - writes linux.resources (config-linux.md) to a container's cgroup.
 *
 * On v1 each value goes to its own file; on v2 it is converted as runc and crun
 * do (shares to weight, blkio weight to io weight), and `unified` is written as
 * it stands.  A limit without a file to hold it is ERR_UNSUPPORTED and names the
 * controller: never ignored.
 */
#ifndef BERTH_RUNTIME_OCI_RESOURCES_H
#define BERTH_RUNTIME_OCI_RESOURCES_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "runtime/oci/cgroup.h"

/* Writes resources, which has passed oci_schema_check(); NULL: nothing to do. c is open. */
int oci_resources_apply(const struct oci_cgroup *c, const json_t *resources, struct err *e);
/*
 * As oci_resources_apply(), with the device rules, for a running container: either all of it
 * applies, or the old values stay.
 */
int oci_resources_update(struct oci_cgroup *c, const json_t *resources, struct err *e);
/*
 * Sets the device rules alone: on v1 in order to devices.allow and devices.deny, on v2 by a BPF
 * program that replaces the last one. The default devices (config-linux.md, "Default Devices") may
 * always be used.
 */
int oci_devices_allow(const struct oci_cgroup *c, const json_t *rules, struct err *e);

/* ---- taking an update back ---- */

/*
 * oci_undo - restores what cgroup files held before an update wrote to them.
 *
 * A list of limits is written one file at a time, and the kernel may refuse the third. The files
 * are then written back, the last one first: every state on the way back existed on the way there,
 * so the kernel accepts it again.
 */

struct oci_undo_entry {
	int dir_fd;	/* borrowed */
	char *file, *text;
};

struct oci_undo {
	struct oci_undo_entry *list;
	size_t count;
};

/*
 * Call it before text is written to dir_fd/file: keeps the old value, to restore it. In a file with
 * a line for each device or interface, that is the line of the device or interface in text. A file
 * that cannot be read is left out.
 */
int oci_undo_note(struct oci_undo *u, int dir_fd, const char *file, const char *text, struct err *e);
/* Forgets the last entry: its file was not written. */
void oci_undo_drop(struct oci_undo *u);
/*
 * Restores all entries, and continues after one that the kernel refuses; then returns the first
 * such error.
 */
int oci_undo_restore(const struct oci_undo *u, struct err *e);
void oci_undo_release(struct oci_undo *u);

#endif
