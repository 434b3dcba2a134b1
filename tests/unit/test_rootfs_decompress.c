/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded decompression, and the tree as a tar and back. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/io.h"
#include "base/path.h"
#include "rootfs/layer/compression.h"
#include "rootfs/layer/layer.h"
#include "rootfs/layer/tarout.h"
#include "rootfs/store/hash.h"

static int memory(const void *p, size_t n)
{
	int fd = memfd_create("t", 0);

	cr_assert(fd >= 0 && !io_write_all(fd, p, n) && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static size_t gzip(const void *p, size_t n, unsigned char *out, size_t room)
{
	z_stream z = { 0 };

	cr_assert_eq(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (unsigned char *)p;
	z.avail_in = (unsigned)n;
	z.next_out = out;
	z.avail_out = (unsigned)room;
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

static int run(const void *p, size_t n, enum compression want, uint64_t max, struct decompress_result *r, struct err *e)
{
	int fd = memory(p, n), rc;

	memset(e, 0, sizeof(*e));
	rc = decompress_run(fd, -1, want, max, 0, NULL, r, e);
	close(fd);
	return rc;
}

Test(rootfs_decompress, kinds_are_told_by_magic_and_checked)
{
	unsigned char text[5000], out[10000];
	char digest[DIGEST_SIZE];
	struct decompress_result r;
	struct err e;
	size_t n;

	memset(text, 'x', sizeof(text));
	hash_bytes(text, sizeof(text), NULL, digest, NULL);
	n = gzip(text, sizeof(text), out, sizeof(out));
	cr_expect_eq(run(out, n, COMPRESSION_AUTO, 1 << 20, &r, &e), 0, "%s", e.msg);
	cr_expect_eq(r.found, COMPRESSION_GZIP);
	cr_expect_eq(r.in_bytes, n);
	cr_expect_eq(r.out_bytes, sizeof(text));
	cr_expect_str_eq(r.diff_id, digest);
	cr_expect_eq(run(out, n, COMPRESSION_ZSTD, 1 << 20, &r, &e), -1);
	cr_expect_eq(run(out, n, COMPRESSION_NONE, 1 << 20, &r, &e), -1);
	cr_expect_eq(run(out, n - 1, COMPRESSION_GZIP, 1 << 20, &r, &e), -1);
	cr_expect_eq(e.code, ERR_CORRUPT);
	cr_expect_eq(run(out, n, COMPRESSION_GZIP, 4999, &r, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
	n = ZSTD_compress(out, sizeof(out), text, sizeof(text), 3);
	cr_expect_eq(run(out, n, COMPRESSION_ZSTD, 1 << 20, &r, &e), 0, "%s", e.msg);
	cr_expect_str_eq(r.diff_id, digest);
	cr_expect_eq(run(out, n - 1, COMPRESSION_ZSTD, 1 << 20, &r, &e), -1);
	cr_expect_eq(run(text, sizeof(text), COMPRESSION_AUTO, 1 << 20, &r, &e), 0);
	cr_expect_eq(r.found, COMPRESSION_NONE);
	cr_expect_str_eq(r.diff_id, digest);
	cr_expect_eq(run("", 0, COMPRESSION_GZIP, 1, &r, &e), -1);
}

Test(rootfs_decompress, a_bomb_is_stopped_by_its_ratio)
{
	size_t n = 100u << 20;
	unsigned char *zeros = calloc(1, n), *out = malloc(1 << 20);
	struct decompress_result r;
	struct err e;

	n = gzip(zeros, n, out, 1 << 20);
	cr_expect_eq(run(out, n, COMPRESSION_GZIP, 1ull << 40, &r, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
	cr_expect(strstr(e.msg, "bomb"), "%s", e.msg);
	free(zeros);
	free(out);
}

Test(rootfs_hash, chain_ids_are_those_of_the_specification)
{
	char a[DIGEST_SIZE], b[DIGEST_SIZE], chain[DIGEST_SIZE], text[2 * DIGEST_SIZE], want[DIGEST_SIZE];

	hash_bytes("a", 1, NULL, a, NULL);
	hash_bytes("b", 1, NULL, b, NULL);
	cr_assert_eq(hash_chain(NULL, a, chain, NULL), 0);
	cr_expect_str_eq(chain, a);
	cr_assert_eq(hash_chain(a, b, chain, NULL), 0);
	snprintf(text, sizeof(text), "%s %s", a, b);
	hash_bytes(text, strlen(text), NULL, want, NULL);
	cr_expect_str_eq(chain, want);
	/* layers are kept under names of one length */
	hash_bytes("a", 1, "sha512:", a, NULL);
	cr_assert_eq(hash_chain(NULL, a, chain, NULL), 0);
	hash_bytes(a, strlen(a), NULL, want, NULL);
	cr_expect_str_eq(chain, want);
	cr_expect(digest_is_sha256(chain) && digest_is_valid(a) && !digest_is_sha256(a));
}

/* Only our own ids: the test needs no privilege. */
Test(rootfs_layer, a_tree_packed_and_unpacked_is_the_same)
{
	const struct layer_limits limits = { 1 << 30, 1000 };
	char dir[] = "/tmp/berth-layer-XXXXXX", target[16] = { 0 };
	struct tarout_stats packed;
	struct layer_stats st;
	struct err e = { 0 };
	struct stat a, b;
	int top, src, dst, z, tar, notes, fd;
	struct decompress_result r;

	if (geteuid())
		cr_skip_test("owners are set as root only");
	cr_assert(mkdtemp(dir));
	top = open(dir, O_RDONLY | O_DIRECTORY);
	cr_assert(!mkdirat(top, "src", 0755) && !mkdirat(top, "dst", 0755) && !mkdirat(top, "src/d", 02750));
	src = openat(top, "src", O_RDONLY | O_DIRECTORY);
	dst = openat(top, "dst", O_RDONLY | O_DIRECTORY);
	fd = openat(src, "d/file", O_WRONLY | O_CREAT, 0640);
	cr_assert(fd >= 0 && pwrite(fd, "end", 3, 1 << 20) == 3);
	close(fd);
	cr_assert(!linkat(src, "d/file", src, "hard", 0) && !symlinkat("d/file", src, "soft") &&
		  !mkfifoat(src, "fifo", 0600));
	z = memfd_create("z", 0);
	tar = memfd_create("tar", 0);
	notes = memfd_create("notes", 0);
	cr_assert_eq(tarout_write(src, z, &(struct tarout_options){ .compression = COMPRESSION_ZSTD, .one_fs = 1 }, &packed, &e), 0, "%s", e.msg);
	cr_expect_eq(packed.entries, 5);
	cr_expect_eq(packed.skipped, 1);
	lseek(z, 0, SEEK_SET);
	cr_assert_eq(decompress_run(z, tar, COMPRESSION_ZSTD, 1 << 30, 0, NULL, &r, &e), 0, "%s", e.msg);
	cr_expect_lt(r.out_bytes, 20000, "the hole is not in it");
	lseek(tar, 0, SEEK_SET);
	cr_assert_eq(layer_apply(tar, dst, notes, 0, &limits, NULL, &st, &e), 0, "%s", e.msg);
	cr_expect_eq(st.entries, 5);
	cr_assert(!fstatat(src, "d/file", &a, 0) && !fstatat(dst, "hard", &b, 0));
	cr_expect_eq(a.st_size, b.st_size);
	cr_expect_eq(a.st_mode, b.st_mode);
	cr_expect_eq(b.st_nlink, 2);
	cr_expect_lt(b.st_blocks, 100);
	cr_expect_eq(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
	cr_assert(!fstatat(src, "d", &a, 0) && !fstatat(dst, "d", &b, 0));
	cr_expect_eq(a.st_mode, b.st_mode);
	cr_expect_eq(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
	cr_assert(readlinkat(dst, "soft", target, sizeof(target) - 1) > 0);
	cr_expect_str_eq(target, "d/file");
	path_remove_tree(AT_FDCWD, dir, NULL);
}
