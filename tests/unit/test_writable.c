/* SPDX-License-Identifier: Apache-2.0 */
/* A writable layer that leaves the host: a directory becomes a file with all in it, and gets the ids of another range. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/newmount.h"
#include "runtime/sandbox/writable.h"

#define FROM 1342177280u
#define TO (FROM + 5 * 65536u)

static void file(int dir, const char *name, uid_t uid, gid_t gid, mode_t mode)
{
	autoclose int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	cr_assert(write(fd, "x", 1) == 1 && !fchown(fd, uid, gid) && !fchmod(fd, mode), "%s", name);
}

static void put_attr(int dir, const char *name, const char *attr, const void *v, size_t n)
{
	char path[300];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	cr_assert(!lsetxattr(path, attr, v, n, 0), "%s of %s: %m", attr, name);
}

static void has_attr(int dir, const char *name, const char *attr, const void *v, size_t n)
{
	char path[300], got[300] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	cr_expect_eq(lgetxattr(path, attr, got, sizeof(got)), (ssize_t)n, "%s of %s: %m", attr, name);
	cr_expect(!memcmp(got, v, n), "%s of %s", attr, name);
}

static void is(int dir, const char *name, uid_t uid, gid_t gid, mode_t mode, nlink_t links)
{
	struct stat st;

	cr_assert(!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), "%s: %m", name);
	cr_expect(st.st_uid == uid && st.st_gid == gid && st.st_mode == mode && st.st_nlink == links, "%s: %u:%u %o %u", name,
		  st.st_uid, st.st_gid, st.st_mode, (unsigned)st.st_nlink);
}

/* linux/capability.h: revision 3 with the effective bit, cap_net_bind_service, and the root it is of. */
static void caps_of(unsigned char v[24], uint32_t root)
{
	memset(v, 0, 24);
	v[0] = 1;
	v[3] = 3;
	v[5] = 4;
	memcpy(v + 20, &root, 4);
}

/* user::rw- user:ID:r-- group::r-- mask::r-- other::--- */
static void acl_of(unsigned char v[44], uint32_t id)
{
	static const struct { uint16_t tag, rights; } e[] = { { 1, 6 }, { 2, 4 }, { 4, 4 }, { 16, 4 }, { 32, 0 } };
	uint32_t version = 2, none = UINT32_MAX;
	size_t i;

	memcpy(v, &version, 4);
	for (i = 0; i < 5; i++) {
		memcpy(v + 4 + 8 * i, &e[i], 4);
		memcpy(v + 8 + 8 * i, e[i].tag == 2 ? &id : &none, 4);
	}
}

static void fill(int top)
{
	unsigned char caps[24], acl[44];
	autoclose int dir = -1, upper = -1;

	cr_assert(!mkdirat(top, WRITABLE_DIR, 0700) && !mkdirat(top, WRITABLE_DIR "/work", 0700) &&
		  !mkdirat(top, WRITABLE_DIR "/upper", 0755));
	dir = openat(top, WRITABLE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	upper = openat(dir, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(!fchown(upper, FROM, FROM));
	file(upper, "plain", FROM + 1000, FROM + 65535, 0640);
	file(upper, "set", FROM, FROM + 5, 06755);
	file(upper, "caps", FROM + 1, FROM + 1, 0755);
	file(upper, "acl", FROM + 2, FROM + 2, 0640);
	file(upper, "host", 0, 0, 0600);
	cr_assert(!linkat(upper, "plain", upper, "second", 0));
	cr_assert(!symlinkat("nowhere", upper, "link") && !fchownat(upper, "link", FROM + 3, FROM + 4, AT_SYMLINK_NOFOLLOW));
	cr_assert(!mknodat(upper, "gone", S_IFCHR, makedev(0, 0)));	/* a whiteout */
	cr_assert(!mkdirat(upper, "opaque", 0750) && !fchownat(upper, "opaque", FROM + 6, FROM + 7, 0));
	put_attr(upper, "opaque", "trusted.overlay.opaque", "y", 1);
	caps_of(caps, FROM);
	put_attr(upper, "caps", "security.capability", caps, sizeof(caps));
	acl_of(acl, FROM + 1234);
	put_attr(upper, "acl", "system.posix_acl_access", acl, sizeof(acl));
}

static void check(int top, uint32_t base)
{
	unsigned char caps[24], acl[44];
	struct err e = { 0 };
	autoclose int mnt = writable_open(top, &e), upper = -1;
	struct stat st;

	cr_assert(mnt >= 0, "%s", e.msg);
	upper = openat(mnt, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is(mnt, "upper", base, base, S_IFDIR | 0755, 3);
	is(mnt, "work", 0, 0, S_IFDIR | 0700, 2);
	is(upper, "plain", base + 1000, base + 65535, S_IFREG | 0640, 2);
	is(upper, "second", base + 1000, base + 65535, S_IFREG | 0640, 2);
	is(upper, "set", base, base + 5, S_IFREG | 06755, 1);
	is(upper, "caps", base + 1, base + 1, S_IFREG | 0755, 1);
	is(upper, "acl", base + 2, base + 2, S_IFREG | 0640, 1);
	is(upper, "host", 0, 0, S_IFREG | 0600, 1);
	is(upper, "link", base + 3, base + 4, S_IFLNK | 0777, 1);
	is(upper, "opaque", base + 6, base + 7, S_IFDIR | 0750, 2);
	cr_assert(!fstatat(upper, "gone", &st, AT_SYMLINK_NOFOLLOW) && S_ISCHR(st.st_mode) && !st.st_rdev);
	has_attr(upper, "opaque", "trusted.overlay.opaque", "y", 1);
	caps_of(caps, base);
	has_attr(upper, "caps", "security.capability", caps, sizeof(caps));
	acl_of(acl, base + 1234);
	has_attr(upper, "acl", "system.posix_acl_access", acl, sizeof(acl));
}

/* A tmpfs on no path of the host, gone with this process. */
static int place(void)
{
	static const struct newmount_opt size[] = { { "size", "64m" }, { "nr_inodes", "80000" } };
	struct err e = { 0 };
	autoclose int mnt = -1;

	if (geteuid() || access("/dev/loop-control", R_OK))
		cr_skip("needs root and loop devices");
	mnt = newmount_fs("tmpfs", size, ARRAY_LEN(size), 0, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	return openat(mnt, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

#define DEEP 5000

static void one_dir(int dir, const char *name)
{
	cr_assert(!mkdirat(dir, name, 0700) && !fchownat(dir, name, FROM + 1, FROM + 2, 0), "%s: %m", name);
}

/* With a second directory and a file on each hundredth level, which are only found when the way back is. */
static void dig(int dir)
{
	autoclose int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int i;

	for (i = 0; i < DEEP; i++) {
		int next;

		one_dir(fd, "d");
		if (i % 100 == 0) {
			one_dir(fd, "a");
			one_dir(fd, "z");
			file(fd, "f", FROM + 1, FROM + 2, 0600);
		}
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cr_assert(next >= 0, "%d: %m", i);
		close(fd);
		fd = next;
	}
}

static void check_deep(int dir, uint32_t base)
{
	autoclose int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int i;

	for (i = 0; i < DEEP; i++) {
		int next;

		is(fd, "d", base + 1, base + 2, S_IFDIR | 0700, i == DEEP - 1 ? 2 : (i + 1) % 100 ? 3 : 5);
		if (i % 100 == 0) {
			is(fd, "a", base + 1, base + 2, S_IFDIR | 0700, 2);
			is(fd, "z", base + 1, base + 2, S_IFDIR | 0700, 2);
			is(fd, "f", base + 1, base + 2, S_IFREG | 0600, 1);
		}
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cr_assert(next >= 0, "%d: %m", i);
		close(fd);
		fd = next;
	}
}

static void *do_shift(void *p)
{
	struct err e = { 0 };

	cr_expect_eq(writable_shift(*(int *)p, FROM, TO, &e), 0, "%s", e.msg);
	return NULL;
}

/* As a thread of berthd, whose stack is 1 MiB, and smaller still; with few descriptors. */
static void in_a_small_thread(void *(*what)(void *), void *p)
{
	const struct rlimit few = { 32, 32 };
	pthread_attr_t attr;
	pthread_t t;

	cr_assert(!setrlimit(RLIMIT_NOFILE, &few));
	cr_assert(!pthread_attr_init(&attr) && !pthread_attr_setstacksize(&attr, 256 << 10));
	cr_assert(!pthread_create(&t, &attr, what, p) && !pthread_join(t, NULL));
}

Test(writable, a_layer_5000_levels_deep_gets_other_ids, .timeout = 120)
{
	static const struct spec s = { .disk_bytes = 60 << 20, .disk_inodes = 8000 };
	struct err e = { 0 };
	autoclose int top = place(), mnt = writable_file(&s, top, WRITABLE_FILE, -1, &e);

	cr_assert(mnt >= 0, "%s", e.msg);
	dig(mnt);
	fd_close(&mnt);
	in_a_small_thread(do_shift, &top);
	mnt = writable_open(top, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	check_deep(mnt, TO);
}

/* The directory of a layer, in *ret. */
static void make_layer(int top, int *ret)
{
	cr_assert(!mkdirat(top, WRITABLE_DIR, 0700));
	*ret = openat(top, WRITABLE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(*ret >= 0);
}

static void *do_to_file(void *p)
{
	struct err e = { 0 };

	cr_expect_eq(writable_to_file(*(int *)p, &e), 0, "%s", e.msg);
	return NULL;
}

Test(writable, a_layer_5000_levels_deep_becomes_a_file, .timeout = 120)
{
	struct err e = { 0 };
	autoclose int top = place(), mnt = -1;

	make_layer(top, &mnt);
	dig(mnt);
	fd_close(&mnt);
	in_a_small_thread(do_to_file, &top);
	cr_assert(faccessat(top, WRITABLE_DIR, F_OK, 0) < 0);
	mnt = writable_open(top, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	check_deep(mnt, FROM);
}

/* Where the data of a file is, in MiB. */
static void data_is_at(int dir, const char *name, off_t at, off_t size)
{
	autoclose int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char c = 0;
	struct stat st;

	cr_assert(fd >= 0 && !fstat(fd, &st), "%s: %m", name);
	cr_expect(st.st_size == size && st.st_blocks * 512 <= 1 << 20, "%s: %jd, %jd blocks", name, (intmax_t)st.st_size,
		  (intmax_t)st.st_blocks);
	cr_expect_eq(lseek(fd, 0, SEEK_DATA) / 4096, at / 4096, "%s", name);
	cr_expect(pread(fd, &c, 1, at) == 1 && c == 'x', "%s: %d", name, c);
}

static void sparse(int dir, const char *name, off_t at, off_t size)
{
	autoclose int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	cr_assert(fd >= 0 && pwrite(fd, "x", 1, at) == 1 && !ftruncate(fd, size), "%s: %m", name);
}

#define NAME_255 "\xff\x01\n\t%s `id` \xc3\xa9" \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" \
	"01234567890123456789012345678901234567890"
_Static_assert(sizeof(NAME_255) == 256, "as long as a name can be");

static const struct timespec old[] = { { 1000000001, 123456789 }, { 86400, 987654321 } };

static void fill_odd(int dir, const char *link)
{
	unsigned char acl[44];

	sparse(dir, "sparse", 700 << 20, (off_t)1 << 40);
	sparse(dir, "end", 5 << 20, (5 << 20) + 1);
	sparse(dir, NAME_255, 0, 1);
	cr_assert(!fchmodat(dir, "end", 01600, 0));
	cr_assert(!mknodat(dir, "fifo", S_IFIFO | 0640, 0) && !fchownat(dir, "fifo", FROM + 9, FROM + 8, 0));
	cr_assert(!mknodat(dir, "socket", S_IFSOCK | 0755, 0) && !linkat(dir, "socket", dir, "socket2", 0));
	cr_assert(!mknodat(dir, "gone", S_IFCHR, makedev(0, 0)) && !linkat(dir, "gone", dir, "gone2", 0));	/* as overlayfs has them */
	cr_assert(!symlinkat(link, dir, "link") && !linkat(dir, "link", dir, "link2", 0) && !symlinkat("/", dir, "root"));
	put_attr(dir, "link", "trusted.overlay.origin", "o", 1);
	put_attr(dir, "end", "user.note", "a\0b", 3);
	put_attr(dir, "end", "user.empty", "", 0);
	cr_assert(!mkdirat(dir, "dir", 0700) && !mkdirat(dir, "dir/below", 0700));
	file(dir, "dir/file", 0, 0, 0600);
	cr_assert(!linkat(dir, "dir/file", dir, "dir/below/second", 0) && !linkat(dir, "dir/file", dir, "third", 0));
	acl_of(acl, FROM + 77);
	put_attr(dir, "dir", "system.posix_acl_default", acl, sizeof(acl));
	cr_assert(!fchmodat(dir, "dir", 02000, 0));
	cr_assert(!utimensat(dir, "end", old, 0) && !utimensat(dir, "link", old, AT_SYMLINK_NOFOLLOW) &&
		  !utimensat(dir, "fifo", old, 0) && !utimensat(dir, "dir", old, 0) && !utimensat(dir, ".", old, 0));
}

static void is_old(int dir, const char *name)
{
	struct stat st;

	cr_assert(!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), "%s: %m", name);
	cr_expect(!memcmp(&st.st_atim, &old[0], sizeof(old[0])) && !memcmp(&st.st_mtim, &old[1], sizeof(old[1])), "%s: %jd.%ld %jd.%ld",
		  name, (intmax_t)st.st_atim.tv_sec, st.st_atim.tv_nsec, (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static void are_one(int dir, const char *a, const char *b, nlink_t links)
{
	struct stat x, y;

	cr_assert(!fstatat(dir, a, &x, AT_SYMLINK_NOFOLLOW) && !fstatat(dir, b, &y, AT_SYMLINK_NOFOLLOW), "%s, %s: %m", a, b);
	cr_expect(x.st_ino == y.st_ino && x.st_nlink == links, "%s, %s: %u", a, b, (unsigned)x.st_nlink);
}

Test(writable, a_file_has_all_that_a_layer_can_have, .timeout = 120)
{
	static char link[4096], got[4097];
	static const char *const aged[] = { ".", "end", "link", "fifo", "dir" };
	unsigned char acl[44];
	struct err e = { 0 };
	autoclose int top = place(), mnt = -1;
	struct stat st;
	size_t i;

	memset(link, 'l', sizeof(link) - 1);
	make_layer(top, &mnt);
	fill_odd(mnt, link);
	fd_close(&mnt);
	cr_assert_eq(writable_to_file(top, &e), 0, "%s", e.msg);
	mnt = writable_open(top, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	for (i = 0; i < ARRAY_LEN(aged); i++)
		is_old(mnt, aged[i]);
	data_is_at(mnt, "sparse", 700 << 20, (off_t)1 << 40);
	data_is_at(mnt, "end", 5 << 20, (5 << 20) + 1);
	data_is_at(mnt, NAME_255, 0, 1);
	is(mnt, "end", 0, 0, S_IFREG | 01600, 1);
	is(mnt, "fifo", FROM + 9, FROM + 8, S_IFIFO | 0640, 1);
	is(mnt, "socket", 0, 0, S_IFSOCK | 0755, 2);
	is(mnt, "dir", 0, 0, S_IFDIR | 02000, 3);
	is(mnt, "dir/below", 0, 0, S_IFDIR | 0700, 2);
	cr_assert(!fstatat(mnt, "gone2", &st, AT_SYMLINK_NOFOLLOW) && S_ISCHR(st.st_mode) && !st.st_rdev);
	are_one(mnt, "socket", "socket2", 2);
	are_one(mnt, "gone", "gone2", 2);
	are_one(mnt, "link", "link2", 2);
	are_one(mnt, "dir/file", "dir/below/second", 3);
	are_one(mnt, "third", "dir/file", 3);
	cr_expect(readlinkat(mnt, "link2", got, sizeof(got)) == sizeof(link) - 1 && !memcmp(link, got, sizeof(link) - 1));
	has_attr(mnt, "link", "trusted.overlay.origin", "o", 1);
	has_attr(mnt, "end", "user.note", "a\0b", 3);
	has_attr(mnt, "end", "user.empty", "", 0);
	acl_of(acl, FROM + 77);
	has_attr(mnt, "dir", "system.posix_acl_default", acl, sizeof(acl));
	/* nothing else came with it */
	cr_assert(!unlinkat(mnt, "lost+found", AT_REMOVEDIR) && !fstatat(mnt, ".", &st, 0));
	cr_expect_eq(st.st_nlink, 3, "%u", (unsigned)st.st_nlink);
}

static void set_immutable(int dir, const char *name, int on)
{
	autoclose int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	int flags = on ? FS_IMMUTABLE_FL : 0;

	cr_assert(fd >= 0, "%s: %m", name);
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
		cr_skip("tmpfs has no immutable files before Linux 6.6");
}

/* As when berthd is killed then: half a directory must not be taken for the layer, nor for what to make the file of. */
Test(writable, a_directory_that_goes_half_way_is_the_layer_no_more, .timeout = 120)
{
	struct err e = { 0 };
	autoclose int top = place(), mnt = -1, dir = -1;
	struct stat st;

	make_layer(top, &dir);
	file(dir, "a", 0, 0, 0600);
	file(dir, "stays", 0, 0, 0600);
	file(dir, "z", 0, 0, 0600);
	set_immutable(dir, "stays", 1);
	cr_expect_eq(writable_to_file(top, &e), -1);
	mnt = writable_open(top, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	cr_expect(!fstatat(mnt, "a", &st, 0) && !fstatat(mnt, "stays", &st, 0) && !fstatat(mnt, "z", &st, 0));
	fd_close(&mnt);
	cr_expect_eq(writable_to_file(top, &e), -1, "it is still there");
	set_immutable(dir, "stays", 0);
	fd_close(&dir);
	cr_expect_eq(writable_to_file(top, &e), 0, "%s", e.msg);
	cr_assert(!fstat(top, &st));
	cr_expect_eq(st.st_nlink, 2, "%u", (unsigned)st.st_nlink);
	mnt = writable_open(top, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	cr_expect(!fstatat(mnt, "a", &st, 0) && !fstatat(mnt, "stays", &st, 0) && !fstatat(mnt, "z", &st, 0));
}

Test(writable, a_layer_leaves_with_all_that_is_in_it_and_gets_other_ids, .timeout = 120)
{
	struct err e = { 0 };
	autoclose int top = place();

	cr_assert_eq(writable_to_file(top, &e), 0, "nothing there: %s", e.msg);
	cr_assert_eq(writable_shift(top, FROM, TO, &e), 0, "nothing there: %s", e.msg);
	fill(top);
	cr_assert_eq(writable_to_file(top, &e), 0, "%s", e.msg);
	cr_assert(faccessat(top, WRITABLE_DIR, F_OK, 0) < 0 && !faccessat(top, WRITABLE_FILE, F_OK, 0));
	check(top, FROM);
	cr_assert_eq(writable_shift(top, FROM, TO, &e), 0, "%s", e.msg);
	check(top, TO);
	cr_assert_eq(writable_shift(top, FROM, TO, &e), 0, "again: %s", e.msg);
	check(top, TO);
	cr_assert_eq(writable_shift(top, FROM + 1, TO, &e), -1, "an odd range");
}

/* As xfs may hold: attributes larger than a block, and more names of one file than ext4 has; overlayfs has one whiteout for all. */
Test(writable, a_file_has_what_ext4_holds_otherwise, .timeout = 120)
{
	enum { NAMES = 65100 };
	static unsigned char large[60000], got[60000];
	autoclose int top = place(), mnt = -1;
	struct err e = { 0 };
	char name[32], path[64];
	struct stat st;
	int i;

	make_layer(top, &mnt);
	memset(large, 'v', sizeof(large));
	file(mnt, "attr", 0, 0, 0600);
	put_attr(mnt, "attr", "trusted.large", large, sizeof(large));
	cr_assert(!mknodat(mnt, "0", S_IFCHR, makedev(0, 0)));
	for (i = 1; i < NAMES; i++) {
		snprintf(name, sizeof(name), "%d", i);
		cr_assert(!linkat(mnt, "0", mnt, name, 0), "%d: %m", i);
	}
	fd_close(&mnt);
	cr_assert_eq(writable_to_file(top, &e), 0, "%s", e.msg);
	mnt = writable_open(top, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/attr", mnt);
	cr_expect(getxattr(path, "trusted.large", got, sizeof(got)) == sizeof(got) && !memcmp(large, got, sizeof(got)), "%m");
	for (i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "%d", i);
		cr_assert(!fstatat(mnt, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISCHR(st.st_mode) && !st.st_rdev, "%d: %m", i);
	}
	cr_expect(!faccessat(mnt, "attr", F_OK, 0) && faccessat(mnt, ".links-of-the-copy", F_OK, 0) < 0);
}

/* Killed between chown(2), which takes set-id bits and capabilities away, and what gives them back. */
Test(writable, a_shift_that_was_cut_short_forgets_no_rights, .timeout = 120)
{
	autoclose int top = place(), mnt = -1;
	unsigned char caps[24], in_hand[4 + 24] = { 0 };
	struct err e = { 0 };
	char path[64];

	fill(top);
	cr_assert_eq(writable_to_file(top, &e), 0, "%s", e.msg);
	mnt = writable_open(top, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	caps_of(caps, TO);
	file(mnt, "sudo", TO, TO, 0755);
	in_hand[0] = 04755 & 0xff;
	in_hand[1] = 04755 >> 8;
	put_attr(mnt, "sudo", "trusted.berth.shift", in_hand, 4);
	file(mnt, "ping", TO, TO, 0755);
	in_hand[0] = 0755 & 0xff;
	in_hand[1] = 0755 >> 8;
	memcpy(in_hand + 4, caps, sizeof(caps));
	put_attr(mnt, "ping", "trusted.berth.shift", in_hand, sizeof(in_hand));
	fd_close(&mnt);
	cr_assert_eq(writable_shift(top, FROM, TO, &e), 0, "%s", e.msg);
	mnt = writable_open(top, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	is(mnt, "sudo", TO, TO, S_IFREG | 04755, 1);
	is(mnt, "ping", TO, TO, S_IFREG | 0755, 1);
	has_attr(mnt, "ping", "security.capability", caps, sizeof(caps));
	snprintf(path, sizeof(path), "/proc/self/fd/%d/sudo", mnt);
	cr_expect(lgetxattr(path, "trusted.berth.shift", in_hand, 1) < 0);
	check(top, TO);
}

/* The sandbox is started instead of archived again: what was half made, or half removed, holds no blocks any more. */
Test(writable, a_start_clears_what_an_archive_left, .timeout = 120)
{
	const struct spec spec = { .disk_bytes = 32 << 20, .disk_inodes = 1000 };
	autoclose int top = place(), dir = -1, mnt = -1;
	struct err e = { 0 };

	make_layer(top, &dir);
	file(dir, "a", 0, 0, 0600);
	fd_close(&dir);
	cr_assert_eq(writable_to_file(top, &e), 0, "%s", e.msg);
	make_layer(top, &dir);
	file(dir, "b", 0, 0, 0600);
	cr_assert(!renameat(top, WRITABLE_DIR, top, WRITABLE_DIR ".gone"));
	file(top, WRITABLE_FILE ".part", 0, 0, 0600);
	mnt = writable_lasting(&spec, top, -1, &e);
	cr_assert(mnt >= 0, "%s", e.msg);
	cr_expect(!faccessat(mnt, "a", F_OK, 0), "%m");
	cr_expect(faccessat(top, WRITABLE_DIR ".gone", F_OK, 0) < 0 && faccessat(top, WRITABLE_FILE ".part", F_OK, 0) < 0);
}
