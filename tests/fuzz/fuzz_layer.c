/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer, compressed or not, applied to a directory without the confinement
 * that surrounds it otherwise.  Beside the directory lies another that must
 * stay empty; in the tree there must be no device but whiteouts.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "rootfs/layer/compression.h"
#include "rootfs/layer/layer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int look(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)path;
	(void)flag;
	(void)f;
	if (S_ISBLK(st->st_mode) || S_ISSOCK(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev))
		abort();
	return 0;
}

static int memory(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		abort();
	return fd;
}

static void apply(int tar, int top, const char *dir)
{
	const struct layer_limits limits = { 8 << 20, 300 };
	char path[80];
	struct layer_stats st;
	struct err e;
	int notes = memory("notes"), root;

	if (mkdirat(top, "tree", 0755) < 0 || mkdirat(top, "out", 0755) < 0)
		abort();
	root = openat(top, "tree", O_RDONLY | O_DIRECTORY);
	if (root < 0)
		abort();
	lseek(tar, 0, SEEK_SET);
	layer_apply(tar, root, notes, 1, &limits, NULL, &st, &e);
	snprintf(path, sizeof(path), "%s/tree", dir);
	nftw(path, look, 16, FTW_PHYS);
	/* not empty: something was written outside */
	if (unlinkat(top, "out", AT_REMOVEDIR) < 0 || path_remove_tree(top, "tree", &e) < 0)
		abort();
	close(root);
	close(notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[] = "/tmp/berth-fuzz-XXXXXX";
	struct decompress_result r;
	struct err e;
	int in = memory("in"), tar = memory("tar"), top;

	umask(0);
	if (io_write_all(in, data, size) < 0 || !mkdtemp(dir))
		abort();
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lseek(in, 0, SEEK_SET);
	/* what could be unpacked before an error counts too */
	decompress_run(in, tar, COMPRESSION_AUTO, 8 << 20, 0, NULL, &r, &e);
	apply(tar, top, dir);
	close(top);
	close(in);
	close(tar);
	if (rmdir(dir) < 0)
		abort();
	return 0;
}
