/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths in hostile trees.  Each test has a root (the tree that may be hostile)
 * and beside it a victim directory that nothing may touch.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/pathwalk.h"

static char place[] = "/dev/shm/berth-path-XXXXXX";	/* in memory: a disk that is busy takes minutes for the large trees */
static char victim[64];
static int top = -1, root = -1;

static void enter(void)
{
	cr_assert(mkdtemp(place));
	top = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(mkdirat(top, "root", 0755), 0);
	cr_assert_eq(mkdirat(top, "victim", 0755), 0);
	root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(victim, sizeof(victim), "%s/victim", place);
	close(openat(top, "victim/file", O_WRONLY | O_CREAT, 0644));
	umask(022);
	alarm(240);
}

static void leave(void)
{
	struct err e;

	close(root);
	cr_expect_eq(faccessat(top, "victim/file", F_OK, 0), 0, "the victim's file is gone");
	close(top);
	cr_expect_eq(path_remove_tree(AT_FDCWD, place, &e), 0, "%s", e.msg);
}

TestSuite(path, .init = enter, .fini = leave);

static int victim_is_untouched(void)
{
	DIR *d = opendir(victim);
	struct dirent *x;
	int n = 0;

	while ((x = readdir(d)))
		n++;
	closedir(d);
	return n == 3;	/* . .. file */
}

static int is_same(int fd, int dirfd, const char *name)
{
	struct stat a, b;

	return !fstat(fd, &a) && !fstatat(dirfd, name, &b, AT_SYMLINK_NOFOLLOW) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static void mk(const char *name)
{
	cr_assert_eq(mkdirat(root, name, 0755), 0, "%s", name);
}

static void ln(const char *target, const char *name)
{
	cr_assert_eq(symlinkat(target, root, name), 0, "%s", name);
}

Test(path, names_in_the_root_resolve_inside_whatever_they_say)
{
	static const char *const same[] = { "/a", "a", "/../a", "../../../a", "//a", "/./a", "/a/.", "/x", "/y", "/z", "/up/a" };
	struct err e;
	size_t i;

	(void)e;
	mk("a");
	ln("/a", "x");
	ln("../../../../a", "y");
	ln("x", "z");
	ln("/../..", "up");
	for (i = 0; i < ARRAY_LEN(same); i++) {
		autoclose int fd = path_open_in_root(root, same[i], O_PATH | O_DIRECTORY, 0);

		cr_assert_geq(fd, 0, "%s: %s", same[i], strerror(errno));
		cr_expect(is_same(fd, root, "a"), "%s is elsewhere", same[i]);
	}
}

Test(path, an_absolute_link_out_of_the_root_ends_inside_it)
{
	autoclose int fd = -1;

	ln(victim, "out");
	ln("../victim", "rel");
	fd = path_open_in_root(root, "/out/file", O_RDONLY, 0);
	cr_expect_eq(fd, -1);
	cr_expect_eq(errno, ENOENT);
	cr_expect_eq(path_open_in_root(root, "/rel/file", O_RDONLY, 0), -1);
	cr_expect_eq(path_open_in_root(root, "/../victim/file", O_RDONLY, 0), -1);
}

Test(path, magic_links_are_never_followed)
{
	autoclose int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	cr_expect_eq(path_open_in_root(proc, "root/etc/passwd", O_RDONLY, 0), -1);
	cr_expect_eq(path_open_in_root(proc, "exe", O_RDONLY, 0), -1);
	cr_expect_eq(path_open_in_root(proc, "cwd", O_RDONLY, 0), -1);
	cr_expect_eq(path_open_beneath(proc, "exe", O_RDONLY, 0), -1);
}

Test(path, beneath_takes_no_link_no_absolute_name_and_no_way_up)
{
	static const char *const bad[] = { "/a", "..", "../victim/file", "a/../../victim", "link", "link/f", "alink", "a/in/f", "" };
	size_t i;

	mk("a");
	close(openat(root, "a/f", O_WRONLY | O_CREAT, 0644));
	ln("a", "link");
	ln(victim, "alink");
	ln("..", "a/in");
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		autoclose int fd = path_open_beneath(root, bad[i], O_RDONLY, 0);

		cr_expect_eq(fd, -1, "'%s' was opened", bad[i]);
	}
	{
		autoclose int fd = path_open_beneath(root, "a/f", O_RDONLY, 0);

		cr_expect_geq(fd, 0);
	}
}

Test(path, an_opened_descriptor_is_close_on_exec)
{
	autoclose int fd = path_open_in_root(root, "/", O_PATH | O_DIRECTORY, 0);

	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

Test(path, missing_directories_are_made_with_mode_and_owner)
{
	struct stat st;
	struct err e;
	autoclose int fd = path_mkdirs_in_root(root, "/a/b//c/", 0750, geteuid() ? (uid_t)-1 : 1234, 4321, &e);

	cr_assert_geq(fd, 0, "%s", e.msg);
	cr_expect(is_same(fd, root, "a/b/c"));
	cr_assert_eq(fstatat(root, "a/b", &st, 0), 0);
	cr_expect_eq(st.st_mode & 07777, 0750);
	if (!geteuid())
		cr_expect(st.st_uid == 1234 && st.st_gid == 4321);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

Test(path, directories_that_exist_keep_their_mode_and_owner)
{
	struct stat st;
	struct err e;
	autoclose int fd = -1;

	cr_assert_eq(mkdirat(root, "a", 0711), 0);
	fd = path_mkdirs_in_root(root, "/a/b", 0750, geteuid() ? (uid_t)-1 : 1234, 1234, &e);
	cr_assert_geq(fd, 0, "%s", e.msg);
	cr_assert_eq(fstatat(root, "a", &st, 0), 0);
	cr_expect_eq(st.st_mode & 07777, 0711);
	cr_expect_eq(st.st_uid, geteuid());
}

Test(path, the_root_itself_is_a_directory_to_make)
{
	static const char *const roots[] = { "/", "//", "/.", "/..", "/../.." };
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(roots); i++) {
		autoclose int fd = path_mkdirs_in_root(root, roots[i], 0755, (uid_t)-1, (gid_t)-1, &e);

		cr_assert_geq(fd, 0, "%s: %s", roots[i], e.msg);
		cr_expect(is_same(fd, top, "root"), "%s", roots[i]);
	}
}

Test(path, dotdot_while_making_stays_inside)
{
	struct err e;
	autoclose int fd = path_mkdirs_in_root(root, "/../../../new/../../victim/x", 0755, (uid_t)-1, (gid_t)-1, &e);

	cr_expect(victim_is_untouched());
	if (fd >= 0)
		cr_expect(is_same(fd, root, "victim/x"));
}

Test(path, links_to_directories_inside_are_followed_while_making)
{
	struct err e;
	autoclose int fd = -1, fd2 = -1, fd3 = -1;

	mk("real");
	mk("sub");
	ln("/real", "abs");
	ln("../real", "sub/rel");
	ln("/../../../../real", "clever");
	fd = path_mkdirs_in_root(root, "/abs/x", 0755, (uid_t)-1, (gid_t)-1, &e);
	cr_assert_geq(fd, 0, "%s", e.msg);
	cr_expect(is_same(fd, root, "real/x"));
	fd2 = path_mkdirs_in_root(root, "/sub/rel/y", 0755, (uid_t)-1, (gid_t)-1, &e);
	cr_assert_geq(fd2, 0, "%s", e.msg);
	cr_expect(is_same(fd2, root, "real/y"));
	fd3 = path_mkdirs_in_root(root, "/clever/z/w", 0755, (uid_t)-1, (gid_t)-1, &e);
	cr_assert_geq(fd3, 0, "%s", e.msg);
	cr_expect(is_same(fd3, root, "real/z/w"));
}

Test(path, links_out_of_the_root_make_nothing_outside)
{
	static const char *const links[] = { "abs", "rel", "chain", "up" };
	struct err e;
	size_t i;

	ln(victim, "abs");
	ln("../victim", "rel");
	ln("abs", "chain");
	ln("..", "up");
	for (i = 0; i < ARRAY_LEN(links); i++) {
		char p[64];

		snprintf(p, sizeof(p), "/%s/made", links[i]);
		fd_close(&(int){ path_mkdirs_in_root(root, p, 0755, (uid_t)-1, (gid_t)-1, &e) });
		snprintf(p, sizeof(p), "/%s/victim/made", links[i]);
		fd_close(&(int){ path_mkdirs_in_root(root, p, 0755, (uid_t)-1, (gid_t)-1, &e) });
		cr_expect(victim_is_untouched(), "%s", links[i]);
	}
}

Test(path, a_dangling_link_is_an_error_and_makes_nothing)
{
	static const char *const dangling[] = { "/nowhere", "nowhere", "../nowhere", "/a/b/c", "loop" };
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dangling); i++) {
		cr_assert_eq(symlinkat(dangling[i], root, "loop"), 0);
		cr_expect_eq(path_mkdirs_in_root(root, "/loop", 0755, (uid_t)-1, (gid_t)-1, &e), -1, "%s", dangling[i]);
		cr_expect_eq(e.code, ERR_INVALID, "%s: %s", dangling[i], e.msg);
		cr_expect_eq(path_mkdirs_in_root(root, "/loop/x", 0755, (uid_t)-1, (gid_t)-1, &e), -1, "%s", dangling[i]);
		cr_assert_eq(unlinkat(root, "loop", 0), 0);
		cr_expect_eq(rmdir(place), -1);
		cr_expect_eq(faccessat(root, "nowhere", F_OK, 0), -1, "the link's target was made");
		cr_expect_eq(faccessat(top, "nowhere", F_OK, 0), -1, "the link's target was made outside");
	}
}

Test(path, a_component_that_is_no_directory_is_invalid)
{
	static const char *const bad[] = { "/f", "/f/x", "/p", "/p/x", "/lf", "/lf/x", "/d/f" };
	struct err e = { 0 };
	size_t i;

	mk("d");
	close(openat(root, "f", O_WRONLY | O_CREAT, 0644));
	close(openat(root, "d/f", O_WRONLY | O_CREAT, 0644));
	cr_assert_eq(mkfifoat(root, "p", 0644), 0);
	ln("/f", "lf");
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		cr_expect_eq(path_mkdirs_in_root(root, bad[i], 0755, (uid_t)-1, (gid_t)-1, &e), -1, "%s", bad[i]);
		cr_expect_eq(e.code, ERR_INVALID, "%s: %s", bad[i], e.msg);
	}
}

Test(path, a_relative_or_endless_path_is_not_made)
{
	static char longer[5000];
	struct err e = { 0 };

	memset(longer, 'a', sizeof(longer) - 1);
	longer[0] = '/';
	cr_expect_eq(path_mkdirs_in_root(root, "a/b", 0755, (uid_t)-1, (gid_t)-1, &e), -1);
	cr_expect_eq(e.code, ERR_INVALID);
	cr_expect_eq(path_mkdirs_in_root(root, "", 0755, (uid_t)-1, (gid_t)-1, &e), -1);
	cr_expect_eq(path_mkdirs_in_root(root, longer, 0755, (uid_t)-1, (gid_t)-1, &e), -1);
	cr_expect_eq(e.code, ERR_INVALID);
	longer[300] = '\0';	/* one name over 255 bytes */
	cr_expect_eq(path_mkdirs_in_root(root, longer, 0755, (uid_t)-1, (gid_t)-1, &e), -1);
}

Test(path, removing_what_is_missing_is_success)
{
	struct err e;

	cr_expect_eq(path_remove_tree(root, "none", &e), 0);
	cr_expect_eq(path_remove_tree(root, "none/none", &e), 0);
}

Test(path, a_file_a_fifo_and_a_link_are_removed_as_themselves)
{
	struct err e = { 0 };

	close(openat(root, "f", O_WRONLY | O_CREAT, 0));
	cr_assert_eq(mkfifoat(root, "p", 0), 0);
	ln(victim, "l");
	cr_expect_eq(path_remove_tree(root, "f", &e), 0, "%s", e.msg);
	cr_expect_eq(path_remove_tree(root, "p", &e), 0, "%s", e.msg);
	cr_expect_eq(path_remove_tree(root, "l", &e), 0, "%s", e.msg);
	cr_expect(victim_is_untouched());
	cr_expect_eq(faccessat(root, "l", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

Test(path, links_in_a_tree_are_removed_and_never_followed)
{
	struct err e = { 0 };

	mk("t");
	mk("t/sub");
	ln(victim, "t/abs");
	ln("../../victim", "t/rel");
	ln("../../victim/file", "t/sub/file");
	ln("/", "t/sub/slash");
	ln("..", "t/sub/up");
	ln("nowhere", "t/dangling");
	cr_expect_eq(path_remove_tree(root, "t", &e), 0, "%s", e.msg);
	cr_expect(victim_is_untouched());
	cr_expect_eq(faccessat(root, "t", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static int dig(int depth)
{
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), i;

	for (i = 0; i < depth; i++) {
		int next;

		cr_assert_eq(mkdirat(fd, "d", 0755), 0);
		cr_assert_eq(symlinkat(victim, fd, "l"), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	return fd;
}

Test(path, a_tree_3000_levels_deep_is_removed_with_few_descriptors)
{
	const struct rlimit few = { 32, 32 };
	struct err e = { 0 };

	close(dig(3000));
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	cr_expect_eq(path_remove_tree(root, "d", &e), 0, "%s", e.msg);
	cr_expect_eq(faccessat(root, "d", F_OK, 0), -1);
	cr_expect(victim_is_untouched());
}

Test(path, a_tree_20000_levels_deep_is_removed)
{
	struct err e = { 0 };

	close(dig(20000));
	cr_expect_eq(path_remove_tree(root, "d", &e), 0, "%s", e.msg);
	cr_expect_eq(faccessat(root, "d", F_OK, 0), -1);
}

/* Looking at all neighbours again for each takes minutes for this many, else it is a second. */
static void limit_cpu(void)
{
	cr_assert(!setrlimit(RLIMIT_CPU, &(struct rlimit){ 20, 20 }), "%m");
}

Test(path, many_directories_that_hold_something_are_removed_in_one_go, .timeout = 240)
{
	struct err e = { 0 };
	char name[300];
	int i;

	limit_cpu();
	mk("w");
	for (i = 0; i < 12000; i++) {
		/* long names now and then, so that no place for names holds them all */
		snprintf(name, sizeof(name), i % 3 ? "w/%d" : "w/%0250d", i);
		mk(name);
		snprintf(name, sizeof(name), i % 3 ? "w/%d/s" : "w/%0250d/s", i);
		mk(name);
	}
	cr_expect_eq(path_remove_tree(root, "w", &e), 0, "%s", e.msg);
	cr_expect_eq(faccessat(root, "w", F_OK, 0), -1);
}

/* Nor is it a matter of how deep they are: what is held for the levels above is little. */
Test(path, many_directories_that_hold_something_are_removed_deep_down, .timeout = 240)
{
	struct err e = { 0 };
	int fd = dig(600), i;
	char name[32];

	limit_cpu();
	for (i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		cr_assert_eq(mkdirat(fd, name, 0755), 0);
		snprintf(name, sizeof(name), "%d/s", i);
		cr_assert_eq(mkdirat(fd, name, 0755), 0);
	}
	close(fd);
	cr_expect_eq(path_remove_tree(root, "d", &e), 0, "%s", e.msg);
	cr_expect_eq(faccessat(root, "d", F_OK, 0), -1);
}

/* Of the same file system, so that only the mount tells. */
Test(path, what_is_mounted_in_a_tree_is_not_removed)
{
	struct err e = { 0 };

	mk("t");
	mk("t/sub");
	cr_assert(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "%m");
	cr_assert(!chdir(victim) && !chdir("../root/t") && !mount(victim, "sub", NULL, MS_BIND, NULL), "%m");
	cr_expect_eq(path_remove_tree(AT_FDCWD, "../t", &e), -1);
	cr_expect_eq(e.code, ERR_BUSY, "%s", e.msg);
	cr_expect(victim_is_untouched());
	cr_assert(!umount2("sub", MNT_DETACH), "%m");
	cr_expect_eq(path_remove_tree(root, "t", &e), 0, "%s", e.msg);
}

Test(path, wide_trees_and_unreadable_modes_are_removed)
{
	struct err e = { 0 };
	char name[64];
	int i, j;

	mk("w");
	for (i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "w/dir%d", i);
		mk(name);
		for (j = 0; j < 20; j++) {
			snprintf(name, sizeof(name), "w/dir%d/f%d", i, j);
			close(openat(root, name, O_WRONLY | O_CREAT, 0));
		}
		if (!geteuid()) {
			snprintf(name, sizeof(name), "w/dir%d", i);
			cr_assert_eq(fchmodat(root, name, 0, 0), 0);
		}
	}
	cr_expect_eq(path_remove_tree(root, "w", &e), 0, "%s", e.msg);
	cr_expect_eq(faccessat(root, "w", F_OK, 0), -1);
}

static int private_dir(const char *name, struct err *e)
{
	char p[200];

	snprintf(p, sizeof(p), "%s/%s", place, name);
	memset(e, 0, sizeof(*e));
	return path_open_private_dir(p, e);
}

Test(path, a_private_directory_is_made_with_mode_0700)
{
	struct stat st;
	struct err e;
	autoclose int fd = -1, deep = -1, again = -1;

	umask(0);
	fd = private_dir("new", &e);
	cr_assert_geq(fd, 0, "%s", e.msg);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0700);
	deep = private_dir("x/y/z", &e);
	cr_assert_geq(deep, 0, "%s", e.msg);
	cr_assert_eq(fstat(deep, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0700);
	again = private_dir("new", &e);
	cr_expect_geq(again, 0, "%s", e.msg);
}

Test(path, a_private_directory_others_could_use_is_denied)
{
	static const mode_t loose[] = { 0701, 0702, 0704, 0710, 0720, 0740, 0777, 01777 };
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(loose); i++) {
		cr_assert_eq(mkdirat(top, "loose", 0700), 0);
		cr_assert_eq(fchmodat(top, "loose", loose[i], 0), 0);
		cr_expect_eq(private_dir("loose", &e), -1, "mode %04o", loose[i]);
		cr_expect_eq(e.code, ERR_DENIED, "%s", e.msg);
		cr_expect(strstr(e.msg, "hint:"), "%s", e.msg);
		cr_assert_eq(unlinkat(top, "loose", AT_REMOVEDIR), 0);
	}
}

Test(path, a_private_directory_of_another_owner_is_denied)
{
	struct err e;

	if (geteuid())
		cr_skip_test("needs root to give a directory away");
	cr_assert_eq(mkdirat(top, "theirs", 0700), 0);
	cr_assert_eq(fchownat(top, "theirs", 1234, 0, 0), 0);
	cr_expect_eq(private_dir("theirs", &e), -1);
	cr_expect_eq(e.code, ERR_DENIED);
}

Test(path, a_private_directory_that_is_a_link_or_a_file_is_denied)
{
	struct err e;

	cr_assert_eq(fchmodat(top, "victim", 0700, 0), 0);
	cr_assert_eq(symlinkat("victim", top, "link"), 0);
	cr_assert_eq(symlinkat("nowhere", top, "dangling"), 0);
	close(openat(top, "file", O_WRONLY | O_CREAT, 0600));
	cr_expect_eq(private_dir("link", &e), -1);
	cr_expect_eq(e.code, ERR_DENIED, "%s", e.msg);
	cr_expect_eq(private_dir("file", &e), -1);
	cr_expect_eq(e.code, ERR_DENIED, "%s", e.msg);
	cr_expect_eq(private_dir("dangling", &e), -1);
	cr_expect_eq(faccessat(top, "nowhere", F_OK, 0), -1, "the link's target was made");
	cr_expect(victim_is_untouched());
}

Test(path, a_name_is_what_the_grammar_says)
{
	static const char *const good[] = {
		"a", "0", "z9", "abc", "a.b", "a_b", "a-b", "a..b", "a.", "a-", "0-0", "deadbeef0123",
		"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg",	/* 64 */
	};
	static const char *const bad[] = {
		"", ".", "..", "...", ".a", "-a", "_a", "-", "--", "-rf", "A", "aB", "a/b", "/", "/a", "a/", "../a", "a/..", "a b",
		" a", "a ", "a\n", "a\t", "a\x01", "a\x7f", "a\xc3\xa9", "\xff", "a:b", "a%b", "a$b", "a*", "a?", "a~", "~", "a\\b",
		"a'b", "a\"b", "a;b", "a&b", "a|b", "a=b", "a,b", "a+b", "a@b", "a#b", "a!b", "a(b", "a[b", "a{b", "a<b", "a>b", "a^b",
		"a`b", "%s", "\x1b[2J",
		"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggggg",	/* 65 */
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(good); i++)
		cr_expect(path_is_name(good[i]), "'%s'", good[i]);
	for (i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_not(path_is_name(bad[i]), "'%s'", bad[i]);
}

Test(path, a_descriptor_has_a_path)
{
	char a[32], b[32];

	cr_expect_str_eq(path_of_fd(7, a), "/proc/self/fd/7");
	cr_expect_str_eq(path_of_fd(2147483647, b), "/proc/self/fd/2147483647");
}

/* ---- pathwalk: the same without openat2 -------------------------------------------- */

static void touch(const char *name)
{
	close(openat(root, name, O_WRONLY | O_CREAT, 0644));
}

/* Both open the same, or fail with the same errno. */
static void compare_walks(const char *path, int flags, uint64_t resolve)
{
	autoclose int a = path_openat2(root, path, (uint64_t)flags, 0, resolve);
	int kernel_errno = a < 0 ? errno : 0;
	autoclose int b = pathwalk_steps(root, path, flags, resolve);
	int ours = b < 0 ? errno : 0;
	struct stat x, y;

	cr_expect_eq(ours, kernel_errno, "%s, flags %x, resolve %x: %s, the kernel says %s", path, flags, (unsigned)resolve,
		     strerror(ours), strerror(kernel_errno));
	if (a >= 0 && b >= 0) {
		cr_assert(!fstat(a, &x) && !fstat(b, &y));
		cr_expect(x.st_ino == y.st_ino && x.st_dev == y.st_dev, "%s leads elsewhere", path);
	}
}

Test(path, a_walk_in_steps_ends_where_openat2_does)
{
	static const char *const paths[] = {
		"a", "a/b/c", "./a//b/./c", "a/b/c/", "a/..", "a/b/../../a", "..", "../..", "../victim/file", "/", "/a", "/a/b", ".", "",
		"file", "file/", "file/x", "file/..", "a/none", "none", "none/x", "to_a", "to_a/b", "to_a/", "to_a/..", "to_a/b/..", "abs",
		"abs/b", "out", "out/file", "up", "up/a", "up/victim", "far", "loop", "loop/x", "dangling", "dangling/x", "chain", "chain/c",
		"to_file", "to_file/", "to_file/x", "slash/c", "deep/..", "deep/../x", "a/b/link_up/a", "a/b/link_up/../a/b", "empty/x",
	};
	static const int flags[] = { O_PATH | O_DIRECTORY, O_RDONLY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, O_PATH | O_NOFOLLOW, O_PATH };
	static const uint64_t resolves[] = { RESOLVE_IN_ROOT, RESOLVE_BENEATH, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	size_t i, f, r;

	mk("a");
	mk("a/b");
	mk("a/b/c");
	mk("empty");
	touch("file");
	ln("a", "to_a");
	ln("/a", "abs");
	ln(victim, "out");
	ln("..", "up");
	ln("../../../../../..", "far");
	ln("loop", "loop");
	ln("nowhere", "dangling");
	ln("to_a/../abs/b", "chain");
	ln("file", "to_file");
	ln("a/b/", "slash");
	ln("a/b/c", "deep");
	ln("../..", "a/b/link_up");
	for (i = 0; i < ARRAY_LEN(paths); i++)
		for (f = 0; f < ARRAY_LEN(flags); f++)
			for (r = 0; r < ARRAY_LEN(resolves); r++)
				compare_walks(paths[i], flags[f], resolves[r] | RESOLVE_NO_MAGICLINKS);
}

Test(path, a_walk_in_steps_refuses_what_it_does_not_promise)
{
	cr_expect(pathwalk_steps(root, "x", O_WRONLY | O_CREAT, RESOLVE_BENEATH) < 0 && errno == EINVAL);
	cr_expect(pathwalk_steps(root, ".", O_TMPFILE | O_WRONLY, RESOLVE_BENEATH) < 0 && errno == EINVAL);
	cr_expect(pathwalk_steps(root, ".", O_PATH, 0) < 0 && errno == EINVAL);
	cr_expect(pathwalk_steps(root, ".", O_PATH, RESOLVE_BENEATH | RESOLVE_NO_XDEV) < 0 && errno == EINVAL);
}

Test(path, a_link_full_of_dots_costs_a_walk_in_steps_a_bounded_number_of_them)
{
	char text[4000] = "", name[8];
	int i;

	for (i = 0; i < 400; i++)
		strcat(text, "d/");
	cr_assert_eq(mkdirat(root, "d", 0755), 0);
	{
		autoclose int at = openat(root, "d", O_PATH);
		int next;

		for (i = 0; i < 500; i++) {
			cr_assert_eq(mkdirat(at, "d", 0755), 0);
			next = openat(at, "d", O_PATH);
			close(at);
			at = next;
		}
	}
	for (i = 0; i < 500; i++)
		strcat(text, "../d/");
	for (i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		ln(text, name);
	}
	cr_expect(pathwalk_steps(root, "l0", O_PATH, RESOLVE_IN_ROOT) < 0 && errno == ELOOP, "%s", strerror(errno));
}

/* A directory and a link out of the tree change places all the while. */
Test(path, a_walk_in_steps_never_leaves_the_tree_while_somebody_exchanges_names)
{
	pid_t racer;
	int i, fd, reached = 0;
	struct stat st, outside;

	mk("a");
	mk("a/b");
	mk("a/b/c");
	mk("o");
	ln(victim, "l");
	ln("../../..", "a/b/up");
	cr_assert_eq(fstatat(top, "victim", &outside, 0), 0);
	racer = fork();
	if (!racer) {
		for (;;) {
			renameat2(root, "a", root, "l", RENAME_EXCHANGE);
			renameat2(root, "l", root, "o", RENAME_EXCHANGE);
		}
	}
	for (i = 0; i < 20000; i++) {
		static const char *const paths[] = { "a/b/c", "a", "a/b/../b", "a/b/up/a/b", "o/b/up", "l/b" };

		fd = pathwalk_steps(root, paths[i % 6], O_PATH, i & 8 ? RESOLVE_IN_ROOT : RESOLVE_BENEATH);
		if (fd < 0)
			continue;
		reached++;
		cr_assert_eq(fstat(fd, &st), 0);
		cr_assert(st.st_ino != outside.st_ino || st.st_dev != outside.st_dev, "it reached the victim by %s", paths[i % 6]);
		cr_assert_lt(openat(fd, "file", O_RDONLY), 0, "it reached the victim by %s", paths[i % 6]);
		close(fd);
	}
	kill(racer, SIGKILL);
	cr_assert_eq(waitpid(racer, NULL, 0), racer);
	cr_expect_gt(reached, 100, "reached %d", reached);
	cr_expect(victim_is_untouched());
}
