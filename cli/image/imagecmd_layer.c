/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of berth commit, checkpoint export and checkpoint import that read or write a layer.
 * Commit: NAME UPPER_FD DIR_FD ID_BASE WORKDIR CHANGES.
 * berth opens the sandbox and hands its directories over as descriptors.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/image/imagecmd.h"
#include "manager/host/registry.h"
#include "rootfs/transfer/commit.h"
#include "rootfs/transfer/layerfile.h"
#include "runtime/kernel/newmount.h"

/* ---- commit ---- */

#define CHANGES_MAX (1u << 20)

static void show_commit_note(void *ctx, const char *text)
{
	const struct imagecmd_args *a = ctx;

	if (imagecmd_flag(a, IMG_JSON) || imagecmd_flag(a, IMG_QUIET))
		return;
	if (isatty(STDERR_FILENO))
		imagecmd_clear_line();
	log_note("berth commit", "note: %s", text);
}

static int take_commit_numbers(const struct imagecmd_args *a, struct commit_options *o, struct err *e)
{
	uint64_t upper, dir, base;

	if (num_u64(a->operands[1], "UPPER_FD", 3, 1023, &upper, e) < 0 || num_u64(a->operands[2], "DIR_FD", 3, 1023, &dir, e) < 0 ||
	    num_u64(a->operands[3], "ID_BASE", 65536, UINT32_MAX - 65536, &base, e) < 0)
		return -1;
	o->upper_fd = (int)upper;
	o->dir_fd = (int)dir;
	o->id_base = (uint32_t)base;
	return 0;
}

static void print_result(const struct imagecmd_args *a, const json_t *done)
{
	char name[256], digest[DIGEST_SIZE + 8], size[24];

	if (imagecmd_flag(a, IMG_JSON)) {
		imagecmd_print_json(done);
		return;
	}
	imagecmd_text(done, "digest", digest, sizeof(digest));
	if (imagecmd_flag(a, IMG_QUIET)) {
		puts(digest);
		return;
	}
	imagecmd_bytes(imagecmd_u64(done, "size"), size);
	printf("%s  %s  %s  %s\n", imagecmd_text(done, "name", name, sizeof(name)), digest,
	       imagecmd_count(imagecmd_u64(done, "layers"), "layer", (char[40]){ "" }), size);
}

/* The tenant that owns the sandbox. */
static json_t *load_commit_owner(int dir_fd, struct err *e)
{
	autobuf struct buf b = BUF_INIT(4096);

	return io_read_file(dir_fd, REGISTRY_OWNER, &b, e) < 0 ? NULL :
	       json_parse(b.data ? b.data : "", b.len, 4096, REGISTRY_OWNER, e);
}

static int run_commit(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *changes = json_parse(a->operands[5], strlen(a->operands[5]), CHANGES_MAX, "changes", e);
	autojson json_t *done = NULL;
	autojson json_t *owner = NULL;
	autofree struct imagecmd_tenant *t = NULL;
	const char *compression = "gzip";
	const int live = imagecmd_is_live(a);
	struct commit_options o = {
		.name = a->operands[0], .workdir = a->operands[4], .changes = changes,
		.shown = { .progress = live ? imagecmd_progress : NULL, .note = show_commit_note, .ctx = (void *)a },
	};

	if (!changes || take_commit_numbers(a, &o, e) < 0 || (path_has(o.dir_fd, REGISTRY_OWNER) && !(owner = load_commit_owner(o.dir_fd, e))))
		return -1;
	o.owner = json_string_value(json_object_get(owner, "name"));
	o.on_host = json_object_get(changes, "base") != NULL;
	if (json_get_str(changes, "author", &o.author, "changes", e) < 0 ||
	    json_get_str(changes, "message", &o.message, "changes", e) < 0 ||
	    json_get_str(changes, "compression", &compression, "changes", e) < 0)
		return -1;
	if (imagecmd_tenant(a, "commit", &t, e) < 0)
		return -1;
	o.shown.maker = t ? &t->maker : NULL;
	o.compression = !strcmp(compression, "zstd") ? COMPRESSION_ZSTD : COMPRESSION_GZIP;
	done = commit_run(store_fd, &o, e);
	if (live)
		imagecmd_clear_line();
	if (!done)
		return -1;
	print_result(a, done);
	return 0;
}

const struct imagecmd imagecmd_commit = {
	.name = "commit-layer",
	.args = "NAME UPPER_FD DIR_FD ID_BASE WORKDIR CHANGES",
	.summary = "internal: the store's part of berth commit",
	.options = IMG(TENANT) | IMG(QUIET) | IMG(JSON),
	.min = 6,
	.max = 6,
	.run = run_commit,
	.hidden = 1,
};

/* ---- layers of checkpoints ---- */

/*
 * The parts of `berth checkpoint export` and `import` that read and write a layer:
 *   pack-layer UPPER_FD DIR_FD ID_BASE WORKDIR OUT_FD   prints {"digest", "size", "skipped"}
 *   unpack-layer IN_FD DIGEST SIZE MAX MNT_FD           into "upper" of that detached mount
 */

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
static int attach_layer_mount(int mnt, struct err *e)
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
	    take_fd_of(a->operands[4], &mnt, e) < 0 || attach_layer_mount(mnt, e) < 0)
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
