/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mountplan - decides what to mount, in which order.
 *
 * Pure: reads a struct spec, touches nothing.  Parents precede children; a
 * later entry for the same target replaces the earlier one.  The plan borrows
 * strings from the spec, which must outlive it.  mounts.c executes it, and
 * --dry-run prints it.
 *
 * Each operation belongs to one of two sides. Host side (mounts_prepare): the supervisor makes a
 * detached mount from operator-chosen sources and hands its descriptor over. Sandbox side
 * (mounts_enter): the child, after pivot_root, attaches those and makes what must belong to its own
 * namespaces.
 */
#ifndef BERTH_RUNTIME_SANDBOX_MOUNTPLAN_H
#define BERTH_RUNTIME_SANDBOX_MOUNTPLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "runtime/sandbox/spec.h"

enum mount_kind {
	MOUNT_ROOT,	/* host side: overlay of the layers and the writable layer */
	MOUNT_HOSTDIR,	/* host side: read-only overlay of one host directory (image "host") */
	MOUNT_DEV,	/* host side: tmpfs with our device nodes */
	MOUNT_SYS,	/* host side: tmpfs with the few files that programs read */
	MOUNT_TMPFS,	/* host side: sized tmpfs */
	MOUNT_CONTROL,	/* host side: tmpfs of the host's root, which the sandbox can only read */
	MOUNT_BIND,	/* host side: clone of an operator's path, or a volume, idmapped */
	MOUNT_V1,	/* host side: its own cgroup of one hierarchy of version 1, once that is made */
	MOUNT_PROC,	/* sandbox side from here on */
	MOUNT_DEVPTS,
	MOUNT_MQUEUE,
	MOUNT_CGROUP,
	MOUNT_RDONLY,	/* bind the target on itself, read-only */
	MOUNT_MASK,	/* cover the target by an empty file or directory; skipped when absent */
	MOUNT_BOOT,	/* cover the target by a boot id of this start; skipped when absent */
	MOUNT_SEAL,	/* make the mount at the target read-only, after it was filled */
	MOUNT_KIND_COUNT
};

struct mount_op {
	enum mount_kind kind;
	const char *target;	/* absolute in the sandbox */
	const char *source;	/* absolute on the host, or NULL */
	uint64_t attr;		/* MOUNT_ATTR_* (mount_setattr(2)) */
	uint64_t size_bytes, inodes;
	unsigned hierarchy;	/* MOUNT_V1: enum cgroup_v1 */
	uint32_t mode;		/* MOUNT_TMPFS: mode of its root; MOUNT_MASK: S_IFDIR for a directory, as
				 * far as known */
	int idmap;		/* the sandbox's ids are the ids on disk */
	const struct spec_mount *owner;	/* has the ids to which the source's owner is mapped, or NULL */
	int source_fd;		/* a descriptor of source, or -1 */
	int is_volume;		/* source_fd belongs to a volume */
	int no_links;		/* source must lead through no link */
	int source_is_mount;	/* source_fd is a detached mount */
	int fd;			/* the detached mount, once prepared; else -1 */
};

#define MOUNTPLAN_MAX 192
#define MOUNTPLAN_CONTROL "/run/.berth"

struct mountplan {
	struct mount_op ops[MOUNTPLAN_MAX];
	size_t count;
	int spare[SPEC_LAYERS_MAX + 16];	/* detached mounts that became layers: the child unmounts
						 * them */
	size_t spare_count;
	char net_file[2][320];	/* sources of /etc/resolv.conf and /etc/hosts, with --network bridge */
};

/*
 * Makes the plan. host_dirs: the directories that image "host" exposes, NULL-terminated, absolute
 * (e.g. "/usr").
 */
int mountplan_build(struct mountplan *p, const struct spec *s, const char *const *host_dirs, struct err *e);
/* A part of it: checks that every mount of s is at a place that it may take. ERR_INVALID. */
int mountplan_check_targets(const struct spec *s, struct err *e);
int mountplan_is_host_side(enum mount_kind kind);
const char *mountplan_kind_name(enum mount_kind kind);
/* Prints one line per operation. */
int mountplan_print(const struct mountplan *p, struct buf *out, struct err *e);
/* Formats MOUNT_ATTR_* bits as "ro,nosuid,nodev". */
void mountplan_attr_text(uint64_t attr, char *buf, size_t n);

#endif
