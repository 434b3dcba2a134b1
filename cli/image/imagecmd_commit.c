/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of `berth commit` that works on the store: NAME UPPER_FD DIR_FD ID_BASE WORKDIR CHANGES.
 * berth opens the sandbox and hands its directories over as descriptors.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/image/imagecmd.h"
#include "manager/host/registry.h"
#include "rootfs/transfer/commit.h"

#define CHANGES_MAX (1u << 20)

static void show_note(void *ctx, const char *text)
{
	const struct imagecmd_args *a = ctx;

	if (imagecmd_flag(a, IMG_JSON) || imagecmd_flag(a, IMG_QUIET))
		return;
	if (isatty(STDERR_FILENO))
		imagecmd_clear_line();
	log_note("berth commit", "note: %s", text);
}

static int take_numbers(const struct imagecmd_args *a, struct commit_options *o, struct err *e)
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
static json_t *load_owner(int dir_fd, struct err *e)
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
		.shown = { .progress = live ? imagecmd_progress : NULL, .note = show_note, .ctx = (void *)a },
	};

	if (!changes || take_numbers(a, &o, e) < 0 || (path_has(o.dir_fd, REGISTRY_OWNER) && !(owner = load_owner(o.dir_fd, e))))
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
