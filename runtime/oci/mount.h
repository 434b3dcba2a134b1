/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_mount - one entry of `mounts` (config.md, "Mounts"): its options as words
 * to flags, and the mount itself as a detached one (newmount.h), so that its
 * place in the root is only touched once it is complete.
 */
#ifndef BERTH_RUNTIME_OCI_MOUNT_H
#define BERTH_RUNTIME_OCI_MOUNT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define OCI_MOUNT_WORDS 64
#define OCI_PROPAGATIONS 4
/*
 * Attributes of a device that is a mount, because none can be made in a user namespace: a file, and
 * never a program.
 */
#define OCI_DEVICE_ATTR (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

struct oci_mount {
	const json_t *doc;	/* borrowed */
	const char *destination, *type, *source;	/* source may be NULL */
	int bind, recursive;	/* bind, rbind */
	int copy_up;		/* tmpcopyup: the directory's content is copied into the tmpfs */
	int idmap;		/* 1: idmap this mount; 2: those below too */
	const char *idmap_spec;	/* crun's "uids=0-1-10#...;gids=...", or NULL */
	int source_nofollow, target_nofollow, copy_symlink;
	int remount;		/* changes options of the mount at the destination only; then neither bind
				 * nor a new file system */
	uint64_t set, clear;	/* MOUNT_ATTR_* for this mount */
	uint64_t below_set, below_clear;	/* for it and all mounts below (rro, rnosuid, ...) */
	unsigned long propagation[OCI_PROPAGATIONS];	/* MS_SHARED ..., with MS_REC, in order; 0 ends */
	const char *word[OCI_MOUNT_WORDS];	/* options of the file system itself */
	size_t words;
	char mode[16];		/* "mode=..." of the directory it covers */
	int late;		/* read-only is set or cleared once everything in it is made; fd is kept
				 * until then */
	int map_fd;		/* idmap: the user namespace with its mappings, opened before; else -1 */
	int fd;			/* the mount, detached (remount: the existing one); else -1 */
};

/*
 * Splits options that one string joins with commas, as mount(2) takes them, in v, an element of
 * mounts.
 */
int oci_mount_split(json_t *v, struct err *e);
/* Reads v, an element of mounts.  ERR_INVALID for contradictions. */
int oci_mount_read(struct oci_mount *m, const json_t *v, struct err *e);
/*
 * Copies the mount of the source, or of source_fd (the opened source; -1: none), with attributes
 * and propagation. dflt: MS_* for a mount that names no propagation, or 0.
 */
int oci_mount_bind(struct oci_mount *m, int source_fd, unsigned long dflt, int userns_fd,
		   struct err *e);
/* Sets the propagation that its options name, once it is attached: a detached mount is never shared. */
int oci_mount_spread(const struct oci_mount *m, struct err *e);
/*
 * Implements remount: sets the options of the mount whose root target_fd is (read-only later), and
 * never those of the file system, which may be the host's. m->fd becomes that mount.
 */
int oci_mount_again(struct oci_mount *m, int target_fd, struct err *e);
/* Sets the options that come late. */
int oci_mount_late(const struct oci_mount *m, struct err *e);
/* Makes a new file system with its options. */
int oci_mount_new(struct oci_mount *m, struct err *e);
/*
 * Copies the content of the directory from_fd into to_fd: files, directories, links, with modes
 * and owners.
 */
int oci_copy_tree(int from_fd, int to_fd, struct err *e);

/* Lists the option words that berth handles itself, for `features`; NULL at the end. */
const char *oci_mount_option_name(size_t i);

#endif
