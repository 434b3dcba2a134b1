/* SPDX-License-Identifier: Apache-2.0 */
/* The export of an image as the tar of its files. */
#include <unistd.h>

#include "base/mem.h"
#include "rootfs/layer/confine.h"
#include "rootfs/layer/packer.h"
#include "rootfs/store/image.h"
#include "rootfs/store/merge.h"
#include "rootfs/transfer/export.h"

struct files {
	int store_fd;
	const struct image *image;
	enum compression compression;
};

static int pack_files(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret,
		      struct err *e)
{
	const struct files *f = ctx;
	const struct tarout_options how = { .compression = f->compression, .keep_fifos = 1 };
	autoclose int root =
		merge_layers(f->store_fd, (const char (*)[DIGEST_HEX_SIZE])f->image->layers,
			     f->image->layer_count, e);
	const int keep[] = { root, out_fd, report_fd };
	const struct confine c = { CONFINE_READ, parent, root, -1, -1, keep, ARRAY_LEN(keep),
				   PACKER_MEMORY };

	if (root < 0 || confine_child(&c, e) < 0)
		return -1;
	return tarout_write(root, out_fd, &how, ret, e);
}

json_t *export_rootfs(int store_fd, const struct export_options *o, enum compression compression,
		      int out_fd, struct err *e)
{
	struct image im = { 0 };
	struct files f = { store_fd, &im, compression };
	struct packer packer = PACKER_INIT;
	struct tarout_stats st = { 0 };
	autoclose int hold = -1;
	json_t *ret = NULL;
	int rc = image_load(store_fd, o->refs[0], &im, e);

	if (!rc) {
		hold = image_hold(store_fd, &im, e);
		rc = hold < 0 ? -1 : packer_start(&packer, pack_files, &f, out_fd, e);
	}
	if (packer.pid > 0)
		rc = packer_end(&packer, rc, &st, e);
	if (!rc) {
		ret = json_pack("[{s:s, s:s, s:I}]", "name", im.name, "digest", im.digest,
				"entries", (json_int_t)st.entries);
		if (!ret)
			err_nomem(e);
	}
	image_release(&im);
	return ret;
}
