/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `berth checkpoint export` and `import` that read and write a layer:
 *   pack-layer UPPER_FD DIR_FD ID_BASE WORKDIR OUT_FD   prints {"digest", "size", "skipped"}
 *   unpack-layer IN_FD DIGEST SIZE MAX MNT_FD           into "upper" of that detached mount
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/image/imagecmd.h"
#include "rootfs/transfer/layerfile.h"
#include "runtime/kernel/newmount.h"

static int take_fd_of(const char *text, int *ret, struct err *e)
{
	uint64_t v;

	if (num_u64(text, "descriptor", 0, 1023, &v, e) < 0)
		return -1;
	*ret = (int)v;
	return 0;
}

static int run_pack(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	struct layerfile l = { .workdir = a->operands[3] };
	autojson json_t *told = NULL;
	uint64_t base;
	int out;

	if (take_fd_of(a->operands[0], &l.upper_fd, e) < 0 ||
	    take_fd_of(a->operands[1], &l.dir_fd, e) < 0 ||
	    num_u64(a->operands[2], "ID_BASE", 65536, UINT32_MAX - 65536, &base, e) < 0 ||
	    take_fd_of(a->operands[4], &out, e) < 0)
		return -1;
	l.id_base = (uint32_t)base;
	if (layerfile_pack(store_fd, &l, out, e) < 0)
		return -1;
	told = json_pack("{s:s,s:I,s:I}", "digest", l.digest, "size", (json_int_t)l.size, "skipped",
			 (json_int_t)l.skipped);
	imagecmd_print_json(told);
	return 0;
}

/* Only what is mounted in a namespace can be mounted again, with other ids, for the writer. */
static int attach(int mnt, struct err *e)
{
	autoclose int place = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make a mount namespace");
	place = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return place < 0 ? err_sys(e, "open a place for the layer") :
			   newmount_attach(mnt, place, "the layer", e);
}

static int run_unpack(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autoclose int tree = -1;
	uint64_t size, max;
	int in, mnt;

	(void)store_fd;
	if (take_fd_of(a->operands[0], &in, e) < 0 ||
	    num_u64(a->operands[2], "SIZE", 0, INT64_MAX, &size, e) < 0 ||
	    num_u64(a->operands[3], "MAX", 1, INT64_MAX, &max, e) < 0 ||
	    take_fd_of(a->operands[4], &mnt, e) < 0 || attach(mnt, e) < 0)
		return -1;
	tree = openat(mnt, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (tree < 0)
		return err_sys(e, "open the layer");
	return layerfile_unpack(in, a->operands[1], size, max, tree, mnt, e);
}

const struct imagecmd imagecmd_pack_layer = {
	.name = "pack-layer",
	.args = "UPPER_FD DIR_FD ID_BASE WORKDIR OUT_FD",
	.summary = "internal: the part of berth checkpoint export that reads the layer",
	.options = IMG(JSON),
	.min = 5,
	.max = 5,
	.run = run_pack,
	.hidden = 1,
};

const struct imagecmd imagecmd_unpack_layer = {
	.name = "unpack-layer",
	.args = "IN_FD DIGEST SIZE MAX MNT_FD",
	.summary = "internal: the part of berth checkpoint import that writes the layer",
	.options = IMG(JSON),
	.min = 5,
	.max = 5,
	.run = run_unpack,
	.no_store = 1,
	.hidden = 1,
};
