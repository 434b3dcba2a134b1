/* SPDX-License-Identifier: Apache-2.0 */
/* berth system df: what takes the disk. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/image/imagecmd.h"
#include "manager/host/checkpoint.h"
#include "manager/host/layerpool.h"
#include "rootfs/store/diskuse.h"

/* Part of what "sandboxes" has, where blocks that checkpoints share count in each. */
static int add_checkpoints(json_t *d, int store_fd, struct err *e)
{
	autoclose int kept =
		openat(store_fd, "../sandboxes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct checkpoint_use use = { 0, 0 };
	uint64_t count = 0;

	if (kept >= 0 && checkpoints_use_all(kept, &use, &count, e) < 0)
		return -1;
	return json_object_set_new(d, "checkpoints",
				   json_pack("{s:I,s:I,s:i,s:I}", "count", (json_int_t)count,
					     "bytes", (json_int_t)use.held, "reclaimable_bytes", 0,
					     "charged_bytes", (json_int_t)use.bytes)) < 0 ?
		       err_nomem(e) :
		       0;
}

/* The pool's file is part of the total; what is in it is shown apart. */
static int add_pool(json_t *d, int store_fd, struct err *e)
{
	autoclose int state = openat(store_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err why = { 0 };
	json_t *pool = state < 0 ? NULL : layerpool_describe(state, &why);
	uint64_t total;

	if (!pool && why.code != ERR_NOT_FOUND && state >= 0) {
		*e = why;
		return -1;
	}
	total = imagecmd_u64(d, "total_bytes") + imagecmd_u64(pool, "size_bytes");
	json_object_set_new(d, "total_bytes", json_integer((json_int_t)total));
	return json_object_set_new(d, "pool", pool ? pool : json_null()) < 0 ? err_nomem(e) : 0;
}

static void show_pool(const json_t *pool)
{
	char size[24], used[24], left[24];

	imagecmd_bytes(imagecmd_u64(pool, "size_bytes"), size);
	imagecmd_bytes(imagecmd_u64(pool, "used_bytes"), used);
	imagecmd_bytes(imagecmd_u64(pool, "free_bytes"), left);
	printf("pool of %s: %s used by the layers of %" PRIu64 " sandboxes, %s free\n", size, used,
	       imagecmd_u64(pool, "sandboxes"), left);
}

static void show(const json_t *d)
{
	static const struct {
		const char *key, *what;
	} rows[] = {
		{ "blobs", "blobs (compressed layers, documents)" },
		{ "layers", "unpacked layers" },
		{ "sandboxes", "sandboxes (writable layers)" },
		{ "checkpoints", "  checkpoints alone" },
		{ "volumes", "volumes" },
		{ "host", "host image" },
		{ "other", "other" },
	};
	char bytes[24], back[24];
	size_t i;

	printf("%-38s  %6s  %10s  %s\n", "WHAT", "COUNT", "SIZE", "RECLAIMABLE");
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const json_t *p = json_object_get(d, rows[i].key);

		imagecmd_bytes(imagecmd_u64(p, "bytes"), bytes);
		imagecmd_bytes(imagecmd_u64(p, "reclaimable_bytes"), back);
		printf("%-38s  %6" PRIu64 "  %10s  %11s\n", rows[i].what, imagecmd_u64(p, "count"),
		       bytes, back);
	}
	imagecmd_bytes(imagecmd_u64(d, "total_bytes"), bytes);
	imagecmd_bytes(imagecmd_u64(json_object_get(d, "layers"), "shared_bytes"), back);
	printf("%-38s  %6" PRIu64 "  %10s\n", "all, for so many names of images",
	       imagecmd_u64(json_object_get(d, "images"), "count"), bytes);
	printf("layers that more than one image has: %s\n", back);
	if (json_is_object(json_object_get(d, "pool")))
		show_pool(json_object_get(d, "pool"));
}

static int run_df(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *d = diskuse(store_fd, e);

	if (!d || add_checkpoints(d, store_fd, e) < 0 || add_pool(d, store_fd, e) < 0)
		return -1;
	if (imagecmd_flag(a, IMG_JSON))
		imagecmd_print_json(d);
	else
		show(d);
	return 0;
}

const struct imagecmd imagecmd_df = {
	.name = "df",
	.args = "",
	.summary = "disk use of images and sandboxes (berth system df)",
	.options = IMG(JSON),
	.run = run_df,
};
