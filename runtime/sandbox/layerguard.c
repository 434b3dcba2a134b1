/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S8 of SECURITY.md. */
#include "runtime/sandbox/layerguard.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/loopdev.h"
#include "runtime/sandbox/layerhome.h"
#include "runtime/sandbox/writable.h"

#define LOOPDEV_EXT4 "/sys/fs/ext4"
#define SHARED_BELOW (1ULL << 30)	/* layers share what is left beyond the reserve by their number */
#define COUNTED_BELOW (2 * SHARED_BELOW)	/* with more, a layer gets all but SHARED_BELOW, however many there are */
#define COUNT_GAP_MS 60			/* for each layer that was counted, until they are counted again */
#define NEAR_BELOW (8ULL << 30)		/* looks are frequent */
#define RESERVE_PART 20			/* the reserve is at most this part of the host's disk */

/* Times between looks at a layer that grows, while little is left and otherwise; one that rests is left alone longer and longer. */
enum { NEAR_MS = 200, FAR_MS = 1000, NEAR_MAX_MS = 1000, FAR_MAX_MS = 15000 };

void layerguard_init(struct layerguard *g)
{
	*g = (struct layerguard){ .base_fd = -1, .host_fd = -1, .pool_fd = -1 };
}

static int set_reserved(const char *device, uint64_t clusters)
{
	char path[96], text[32];
	const int n = snprintf(text, sizeof(text), "%" PRIu64, clusters);
	autoclose int fd = -1;

	snprintf(path, sizeof(path), LOOPDEV_EXT4 "/%.20s/reserved_clusters", device);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, (size_t)n) == n ? 0 : -1;
}

/* The state directory, by the path of a directory in it: a layer's is below sandboxes/. */
static int path_of_state(int fd, char *ret, size_t size)
{
	char proc[32], *below;
	const ssize_t n = readlink(path_of_fd(fd, proc), ret, size - 1);

	if (n <= 0)
		return -1;
	ret[n] = '\0';
	below = strstr(ret, "/sandboxes/");
	if (below)
		*below = '\0';
	return 0;
}

/* Whether the file of a loop device is a layer of this host: in its state directory, or in the pool, whose mount has no place. */
static int is_layer(const char *device, const char *state)
{
	const size_t n = strlen(state), end = strlen("/" WRITABLE_FILE);
	char path[96], file[512];
	autoclose int fd = -1;
	ssize_t got;

	snprintf(path, sizeof(path), "/sys/block/%.20s/loop/backing_file", device);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, file, sizeof(file) - 1);
	if (got <= 0)
		return 0;
	file[got - (file[got - 1] == '\n')] = '\0';
	got = (ssize_t)strlen(file);
	return (!strncmp(file, state, n) && file[n] == '/') ||
	       ((size_t)got > end && strchr(file + 1, '/') == file + got - end && !strcmp(file + got - end, "/" WRITABLE_FILE));
}

/* How many layers of this host may be written now, this one included. */
static uint64_t count_layers(int host_fd)
{
	char state[512];
	DIR *dir = path_of_state(host_fd, state, sizeof(state)) < 0 ? NULL : opendir(LOOPDEV_EXT4);
	const struct dirent *d;
	uint64_t n = 0;

	while (dir && (d = readdir(dir)))
		n += !strncmp(d->d_name, "loop", 4) && is_layer(d->d_name, state);
	if (dir)
		closedir(dir);
	return n ? n : 1;
}

/* The bytes beyond the reserve that the file system of fd still has. */
static uint64_t room_of(int fd, uint64_t reserve)
{
	struct statfs fs;
	uint64_t bytes, part;

	if (fstatfs(fd, &fs) < 0)
		return UINT64_MAX;
	bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	part = (uint64_t)fs.f_blocks / RESERVE_PART * (uint64_t)fs.f_bsize;
	reserve = reserve < part ? reserve : part;
	return bytes > reserve ? bytes - reserve : 0;
}

/*
 * What one layer may make the host's disk give it until the next look, where all but SHARED_BELOW is
 * not enough. A share of half of the rest: layers that rest hold on to theirs until they are looked
 * at again. Each supervisor counts the layers, so the more there are, the more seldom it does: all
 * counts of the host together cost what grows with the layers, and not with their square.
 */
static uint64_t share_of(struct layerguard *g, uint64_t room, uint64_t beyond)
{
	const uint64_t now = clock_ms();
	uint64_t share;

	if (room >= COUNTED_BELOW)	/* no share of several is more than beyond */
		return beyond;
	if (now >= g->count_at_ms) {
		g->layers = count_layers(g->host_fd);
		g->count_at_ms = now + g->layers * COUNT_GAP_MS;
	}
	share = g->layers == 1 ? room : room / g->layers / 2;
	return share > beyond ? share : beyond;
}

static void unlimit(struct layerguard *g)
{
	if (g->limited && set_reserved(g->device, g->before) == 0)
		g->limited = 0;
}

/*
 * The blocks that were written inside, but are not on the host's disk yet: those without a place in
 * the layer, and those on their way from there to its file. A file that had more than the layer has
 * now hides the latter.
 */
static uint64_t waiting_blocks(const struct layerguard *g, const struct statfs *fs)
{
	const uint64_t homeless = loopdev_ext4_number(g->device, "delayed_allocation_blocks"), used = (uint64_t)fs->f_blocks - (uint64_t)fs->f_bfree;
	struct stat st;
	uint64_t stored;

	if (fstatat(g->pool_fd < 0 ? g->host_fd : g->pool_fd, WRITABLE_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return homeless;
	stored = (uint64_t)st.st_blocks * 512 / (uint64_t)fs->f_bsize;
	return used > stored && used - stored > homeless ? used - stored : homeless;
}

/* fs: the layer's own; share: what it may still make the host give. */
static void limit(struct layerguard *g, const struct statfs *fs, uint64_t share)
{
	const uint64_t size = (uint64_t)fs->f_bsize;
	uint64_t waiting, window;

	if (!g->device[0] && loopdev_name(g->base_fd, g->device, sizeof(g->device)) < 0) {
		g->base_fd = -1;	/* a directory of the host's file system, which refuses by itself */
		return;
	}
	waiting = waiting_blocks(g, fs);
	window = share / size > waiting ? share / size - waiting : 0;
	if (window >= (uint64_t)fs->f_bfree) {
		unlimit(g);
		return;
	}
	if (!g->limited)
		g->before = loopdev_ext4_number(g->device, "reserved_clusters");
	if (set_reserved(g->device, (uint64_t)fs->f_bfree - window) == 0)
		g->limited = 1;
}

/* A layer whose blocks changed since the last look is looked at soon. */
static void set_pace(struct layerguard *g, const struct statfs *fs, int near)
{
	const uint64_t used = (uint64_t)fs->f_blocks - (uint64_t)fs->f_bfree;
	const uint64_t least = near ? NEAR_MS : FAR_MS, most = near ? NEAR_MAX_MS : FAR_MAX_MS;

	g->gap_ms = used != g->used || !g->gap_ms ? least : g->gap_ms * 2;
	g->gap_ms = g->gap_ms > most ? most : g->gap_ms;
	g->used = used;
	g->at_ms = clock_ms() + g->gap_ms;
}

static void look_at_disk(struct layerguard *g)
{
	uint64_t room, pool, beyond;
	struct statfs fs;

	if (g->base_fd < 0 || fstatfs(g->base_fd, &fs) < 0 || fs.f_type != EXT4_SUPER_MAGIC)
		return;
	room = room_of(g->host_fd, g->reserve);
	pool = g->pool_fd < 0 ? UINT64_MAX : room_of(g->pool_fd, g->reserve);
	room = room < pool ? room : pool;
	beyond = room > SHARED_BELOW ? room - SHARED_BELOW : 0;
	set_pace(g, &fs, room < NEAR_BELOW);
	/* with a few MiB for the metadata of what is written */
	if (beyond >= (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize + (uint64_t)fs.f_blocks / 16 * (uint64_t)fs.f_bsize)
		unlimit(g);
	else
		limit(g, &fs, share_of(g, room, beyond));
}

void layerguard_look(struct layerguard *g)
{
	g->gap_ms = 0;
	look_at_disk(g);
}

int layerguard_check(struct layerguard *g, uint64_t now)
{
	const int due = layerguard_next(g) && now >= g->at_ms;

	if (due)
		look_at_disk(g);
	return due;
}

void layerguard_begin(struct layerguard *g, int base_fd, int host_fd, uint64_t reserve)
{
	struct err ignored;

	layerguard_init(g);
	if (!reserve || base_fd < 0 || host_fd < 0)
		return;
	g->base_fd = base_fd;
	g->host_fd = host_fd;
	g->reserve = reserve;
	if (layerhome_is_pool(host_fd))
		g->pool_fd = layerhome_open(host_fd, &ignored);
	layerguard_look(g);
}

uint64_t layerguard_next(const struct layerguard *g)
{
	return g->base_fd < 0 ? 0 : g->at_ms;
}

void layerguard_end(struct layerguard *g)
{
	fd_close(&g->pool_fd);
	g->base_fd = g->host_fd = -1;
}
