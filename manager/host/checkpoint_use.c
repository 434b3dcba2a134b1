/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk use of checkpoints, and its bounds.
 *
 * Blocks that checkpoints share count once, and blocks that they share with the layer count, too:
 * once the layer is written, they are the checkpoint's alone. So the charge of a sandbox grows with
 * each checkpoint, and not in between.
 *
 * The sum of all sandboxes is that of the notes in state_dir/ids/checkpoints, one for each range of
 * ids. Each change writes the whole note, so the next change corrects a note that a crash left
 * wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/host/checkpoint.h"
#include "manager/host/registry.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/sandbox/writable.h"

#define NOTES "../../ids/checkpoints"
#define RANGES (UINT32_MAX / SPEC_IDS)

struct checkpoint_bounds checkpoint_bounds(const struct config *c, unsigned keep_from_now_on)
{
	return (struct checkpoint_bounds){ keep_from_now_on, (unsigned)c->checkpoint_keep,
					   c->checkpoint_bytes, c->host_checkpoint_bytes };
}

/* ---- blocks --------------------------------------------------------------------- */

static int add_checkpoint_extents(struct extents *x, const struct checkpoints *c, size_t i, struct err *e)
{
	const json_t *record = json_array_get(checkpoints_list(c), i);
	const char *id = json_string_value(json_object_get(record, "id"));
	char file[CHECKPOINT_ID + 8];
	autoclose int fd = -1;

	snprintf(file, sizeof(file), "%.*s.img", CHECKPOINT_ID, id ? id : "");
	fd = openat(c->data_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open checkpoint %s", file);
	return extents_add(x, fd, e);
}

static int add_all_checkpoint_extents(struct extents *x, const struct checkpoints *c, struct err *e)
{
	const size_t n = json_array_size(checkpoints_list(c));
	size_t i;

	for (i = 0; i < n; i++)
		if (add_checkpoint_extents(x, c, i, e) < 0)
			return -1;
	return 0;
}

int checkpoints_use(const struct checkpoints *c, struct checkpoint_use *ret, struct err *e)
{
	autoclose int layer_fd =
		openat(c->home_fd, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct extents all = EXTENTS_INIT, layer = EXTENTS_INIT;
	const size_t n = json_array_size(checkpoints_list(c));
	int result = add_all_checkpoint_extents(&all, c, e);

	if (result == 0)
		ret->bytes = ret->held = extents_bytes(&all);
	if (result == 0 && n && layer_fd >= 0) {
		result = extents_add(&layer, layer_fd, e);
		if (result == 0)
			result = extents_add(&all, layer_fd, e);
		ret->held = extents_bytes(&all) - extents_bytes(&layer);
	}
	extents_release(&all);
	extents_release(&layer);
	return result;
}

struct sums {
	int kept_fd;
	struct checkpoint_use use;
	uint64_t count;
};

static int sum_one(void *ctx, const char *id)
{
	struct sums *s = ctx;
	autoclose int box = openat(s->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct checkpoints c = CHECKPOINTS_NONE;
	struct checkpoint_use use = { 0, 0 };
	struct err ignored;

	/* a checkpoint that is removed meanwhile, or that a newer berth wrote, counts as none */
	if (box < 0 || !path_has(box, CHECKPOINTS_DIR) ||
	    checkpoints_open(box, 0, &c, &ignored) < 0)
		return 0;
	if (checkpoints_use(&c, &use, &ignored) == 0) {
		s->use.bytes += use.bytes;
		s->use.held += use.held;
		s->count += json_array_size(checkpoints_list(&c));
	}
	checkpoints_close(&c);
	return 0;
}

int checkpoints_use_all(int kept_fd, struct checkpoint_use *ret, uint64_t *ret_count, struct err *e)
{
	struct sums s = { .kept_fd = kept_fd };

	if (registry_each(kept_fd, sum_one, &s, e) < 0)
		return -1;
	*ret = s.use;
	*ret_count = s.count;
	return 0;
}

/* ---- the sum of the host ---------------------------------------------------------- */

/* The number of the sandbox's range; -1: it has none. */
static int64_t range_of(int box_fd)
{
	autobuf struct buf b = BUF_INIT(32);
	struct err ignored;
	uint64_t base;

	if (io_read_file(box_fd, "range", &b, &ignored) < 0 || buf_add(&b, "", 1, &ignored) < 0 ||
	    num_u64(b.data, "range", SPEC_IDS, UINT32_MAX, &base, &ignored) < 0)
		return -1;
	return (int64_t)(base / SPEC_IDS);
}

/* Locked until it is closed. */
static int lock_checkpoint_notes(int box_fd, struct err *e)
{
	autoclose int fd = openat(box_fd, NOTES, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, "open the notes of the disk use of checkpoints");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the notes of the disk use of checkpoints");
	return take_fd(&fd);
}

static int sum_of_others(int notes, int64_t own, uint64_t *ret, struct err *e)
{
	uint64_t piece[1024], sum = 0;
	off_t at = lseek(notes, 0, SEEK_DATA);
	ssize_t n = 0;
	size_t i;

	for (at = at < 0 ? 0 : at & ~(off_t)7; at < (off_t)(RANGES * 8); at += n & ~7) {
		n = pread(notes, piece, sizeof(piece), at);
		if (n < 8)
			break;
		for (i = 0; i < (size_t)n / 8; i++)
			if ((int64_t)(at / 8) + (int64_t)i != own && piece[i] < UINT64_MAX / RANGES)
				sum += piece[i];
	}
	if (n < 0)
		return err_sys(e, "read the notes of the disk use of checkpoints");
	*ret = sum;
	return 0;
}

static void write_note(int notes, int64_t own, uint64_t bytes)
{
	if (own >= 0)
		(void)!pwrite(notes, &bytes, sizeof(bytes), own * 8);
}

void checkpoints_note_use(const struct checkpoints *c)
{
	struct extents all = EXTENTS_INIT;
	struct err ignored;
	autoclose int notes = -1;

	if (add_all_checkpoint_extents(&all, c, &ignored) == 0)
		notes = lock_checkpoint_notes(c->box_fd, &ignored);
	if (notes >= 0)
		write_note(notes, range_of(c->box_fd), extents_bytes(&all));
	extents_release(&all);
}

void checkpoint_forget(int box_fd)
{
	struct err ignored;
	autoclose int notes = -1;

	if (!path_has(box_fd, CHECKPOINTS_DIR))
		return;
	notes = lock_checkpoint_notes(box_fd, &ignored);
	if (notes >= 0)
		write_note(notes, range_of(box_fd), 0);
}

/* ---- the bounds --------------------------------------------------------------------- */

static int too_large(uint64_t bytes, const struct checkpoint_bounds *bounds, uint64_t others,
		     struct err *e)
{
	const unsigned long long mib = (bytes + (1u << 20) - 1) >> 20;

	if (bytes > bounds->bytes)
		return err_set(e, ERR_LIMIT,
			       "a checkpoint takes %llu MiB, and those of a sandbox may take "
			       "%llu MiB; hint: [sandbox] checkpoint_size in berth.toml",
			       mib, (unsigned long long)bounds->bytes >> 20);
	return err_set(e, ERR_LIMIT,
		       "a checkpoint takes %llu MiB, those of other sandboxes take %llu MiB, and "
		       "all together may take %llu MiB; hint: berth checkpoint rm removes some, "
		       "or [manager] checkpoints_size in berth.toml",
		       mib, (unsigned long long)others >> 20,
		       (unsigned long long)bounds->host_bytes >> 20);
}

int checkpoints_fit(const struct checkpoints *c, int layer_fd,
		    const struct checkpoint_bounds *bounds, size_t most, size_t *ret_fit,
		    struct err *e)
{
	const size_t n = json_array_size(checkpoints_list(c));
	const int64_t own = range_of(c->box_fd);
	autoclose int notes = lock_checkpoint_notes(c->box_fd, e);
	struct extents x = EXTENTS_INIT;
	uint64_t others, room, bytes, taken = 0;
	size_t fit = 0;
	int result;

	if (notes < 0 || sum_of_others(notes, own, &others, e) < 0)
		return -1;
	room = others < bounds->host_bytes ? bounds->host_bytes - others : 0;
	if (room > bounds->bytes)
		room = bounds->bytes;
	result = extents_add(&x, layer_fd, e);
	bytes = taken = extents_bytes(&x);
	if (result == 0 && bytes > room)
		result = too_large(bytes, bounds, others, e);
	/* the youngest first */
	while (result == 0 && fit < n && fit < most) {
		result = add_checkpoint_extents(&x, c, n - fit - 1, e);
		bytes = extents_bytes(&x);
		if (result < 0 || bytes > room)
			break;
		taken = bytes;
		fit++;
	}
	extents_release(&x);
	if (result < 0)
		return -1;
	write_note(notes, own, taken);
	*ret_fit = fit;
	return 0;
}
