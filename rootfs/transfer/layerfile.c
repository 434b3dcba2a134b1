/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/layerfile.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "rootfs/layer/confine.h"
#include "rootfs/layer/difftar.h"
#include "rootfs/layer/tarout.h"
#include "rootfs/layer/unpack.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/image.h"
#include "rootfs/store/merge.h"
#include "rootfs/transfer/layerbound.h"

#define IDS 65536u
#define CHUNK (256u << 10)

struct packing {
	const struct layerfile *l;
	int store_fd, has_image;
	uint64_t max_bytes;
	struct image image;
	struct difftar_marks marks;
};

static int pack_writable_layer(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret,
			       struct err *e)
{
	const struct packing *p = ctx;
	autoclose int lower =
		p->has_image ?
			merge_layers(p->store_fd, (const char(*)[DIGEST_HEX_SIZE])p->image.layers,
				     p->image.layer_count, e) :
			-1;
	const int keep[] = { p->l->upper_fd, out_fd, report_fd, lower };
	const struct confine how = { .role = CONFINE_READ,
				     .parent = parent,
				     .root_fd = p->has_image ? lower : p->l->upper_fd,
				     .also_fd = p->has_image ? p->l->upper_fd : -1,
				     .userns_fd = -1,
				     .keep = keep,
				     .keep_count = ARRAY_LEN(keep) - (lower < 0),
				     .memory_bytes = PACKER_MEMORY };
	const struct difftar d = {
		.upper_fd = p->l->upper_fd,
		.lower_fd = lower,
		.marks = &p->marks,
		.id_base = p->l->id_base,
		.id_count = IDS,
		.workdir = p->l->workdir,
		.compression = COMPRESSION_ZSTD,
		.max_bytes = p->max_bytes,
	};

	if ((p->has_image && lower < 0) || confine_child(&how, e) < 0)
		return -1;
	return difftar_write(&d, out_fd, ret, e);
}

static int hash_layer_file(struct layerfile *l, int fd, struct err *e)
{
	autofree unsigned char *chunk = malloc(CHUNK);
	struct hash h __attribute__((cleanup(hash_release))) = { NULL };
	ssize_t n;

	if (!chunk)
		return err_nomem(e);
	if (hash_init(&h, NULL, e) < 0)
		return -1;
	for (l->size = 0; (n = pread(fd, chunk, CHUNK, (off_t)l->size)) > 0; l->size += (size_t)n)
		if (hash_add(&h, chunk, (size_t)n, e) < 0)
			return -1;
	return n < 0 ? err_sys(e, "read the packed layer") : hash_final(&h, l->digest, e);
}

static int write_layer_file(struct packing *p, struct layerfile *l, int out_fd, struct err *e)
{
	struct packer packer = PACKER_INIT;
	struct tarout_stats st = { 0 };
	struct err why = { 0 };

	if (image_load_pin(l->dir_fd, &p->image, &why) == 0) {
		p->has_image = 1;
	} else if (why.code != ERR_NOT_FOUND) {
		*e = why;
		return -1;
	}
	if (layerbound_of(l->upper_fd, &p->max_bytes, e) < 0 ||
	    difftar_scan(l->upper_fd, &p->marks, e) < 0 ||
	    (!p->has_image && difftar_check_renamed(&p->marks, e) < 0))
		return -1;
	if (packer_start(&packer, pack_writable_layer, p, out_fd, e) < 0 || packer_end(&packer, 0, &st, e) < 0)
		return -1;
	l->skipped = st.skipped;
	return hash_layer_file(l, out_fd, e);
}

int layerfile_pack(int store_fd, struct layerfile *l, int out_fd, struct err *e)
{
	struct packing p = { .l = l, .store_fd = store_fd };
	const int result = write_layer_file(&p, l, out_fd, e);

	difftar_release(&p.marks);
	if (p.has_image)
		image_release(&p.image);
	return result;
}

struct feeding {
	int in_fd;
	uint64_t left;
};

/* Feeds exactly the layer's bytes: what follows them is not the layer's. */
static int feed_layer_bytes(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret,
			    struct err *e)
{
	struct feeding *f = ctx;
	autofree char *chunk = malloc(CHUNK);

	(void)report_fd, (void)ret;
	/* otherwise it could wait for ever for a reader or a writer */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		return err_set(e, ERR_INTERNAL, "the process that unpacks has ended");
	if (!chunk)
		return err_nomem(e);
	while (f->left) {
		ssize_t n = read(f->in_fd, chunk, f->left < CHUNK ? (size_t)f->left : CHUNK);

		if (n < 0)
			return err_sys(e, "read the checkpoint's file");
		if (n == 0)
			return err_set(e, ERR_CORRUPT,
				       "the checkpoint's file ends early; hint: copy it again, or "
				       "make it with berth checkpoint export");
		if (io_write_all(out_fd, chunk, (size_t)n) < 0)
			return err_sys(e, "pass the layer on");
		f->left -= (uint64_t)n;
	}
	return 0;
}

int layerfile_unpack(int in_fd, const char *digest, uint64_t size, uint64_t max_bytes, int tree_fd,
		     int beside_fd, struct err *e)
{
	struct feeding f = { in_fd, size };
	struct packer feeder = PACKER_INIT;
	struct tarout_stats unused = { 0 };
	autoclose int src = -1;
	struct unpack u = { .compression = COMPRESSION_ZSTD,
			    .want_digest = digest,
			    .want_size = size,
			    .max_bytes = max_bytes,
			    .tree_fd = tree_fd,
			    .blob_fd = -1,
			    .lower_fds = &beside_fd,
			    .lower_count = 1 };
	int rc;

	if (packer_start_pipe(&feeder, feed_layer_bytes, &f, &src, e) < 0)
		return -1;
	u.src_fd = src;
	rc = unpack_run(&u, e);
	fd_close(&src);
	return packer_end(&feeder, rc, &unused, e);
}
