/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layerguard - ends the writes to a layer before the host's disk is full (S8).
 *
 * A layer is a sparse file: a write(2) inside is done when the page cache has it, and the host's
 * disk is asked for room only when the kernel writes it out. With no room left there, what was
 * written is lost after the writer was told of success. So the supervisor of each layer limits what
 * its file system may still hand out to what the host can take, by a number that ext4 has for it
 * (/sys/fs/ext4/DEVICE/reserved_clusters): a write that exceeds it gets ENOSPC at once, and statfs(2)
 * inside says what is left. Nothing is set aside, so a disk with room costs two statfs(2) a look.
 *
 * A part of the host's disk, the reserve, is never handed out: metadata of layers, records and
 * journals need it, and what was handed out between two looks. While more than 1 GiB is left beyond
 * it, each layer may have all but that; then each gets its share among the layers of the host. Other
 * writers of the host are not bounded: what they take between two looks, at most 200 ms while the
 * disk is nearly full, can still cost a layer what it has not synced.
 */
#ifndef BERTH_RUNTIME_SANDBOX_LAYERGUARD_H
#define BERTH_RUNTIME_SANDBOX_LAYERGUARD_H

#include <stdint.h>

struct layerguard {
	int base_fd;		/* borrowed: the layer's file system; -1: it needs no guard */
	int host_fd;		/* borrowed: a directory of the file system with the layer's file */
	int pool_fd;		/* the layer's directory in the pool; -1: it is in none */
	uint64_t reserve;	/* bytes of the host that no layer gets; at most a twentieth of its disk */
	uint64_t at_ms, gap_ms;	/* the next look, and how long after the last */
	uint64_t used;		/* blocks of the layer at the last look */
	uint64_t layers, count_at_ms;	/* layers of the host when they were counted, and when they are again */
	uint64_t before;	/* reserved_clusters before the first limit */
	int limited;		/* a limit is set */
	char device[24];	/* "loopN"; "": not looked up yet */
};

/* No layer is guarded. */
void layerguard_init(struct layerguard *g);
/* Guards a layer that was just mounted, and looks at once. reserve 0: no guard. */
void layerguard_begin(struct layerguard *g, int base_fd, int host_fd, uint64_t reserve);
/* Looks at the disk now, and sets or takes away the limit; a command is about to write. */
void layerguard_look(struct layerguard *g);
/* Looks if that is due. Returns 1 if it was. */
int layerguard_check(struct layerguard *g, uint64_t now);
/* When the next look is due, on the monotonic clock; 0: never. */
uint64_t layerguard_next(const struct layerguard *g);
void layerguard_end(struct layerguard *g);

#endif
