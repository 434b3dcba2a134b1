/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runtime/oci/cgroup.h"

static char place[64];
static int top = -1;

static void setup(void)
{
	snprintf(place, sizeof(place), "/tmp/berth-cgroups-XXXXXX");
	cr_assert(mkdtemp(place));
	top = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(top >= 0);
}

struct seen {
	size_t entered, left;
};

static int count(void *ctx, int fd, struct err *e)
{
	struct seen *s = ctx;

	(void)fd;
	(void)e;
	s->entered++;
	return 0;
}

static int take_away(void *ctx, int above, const char *name, struct err *e)
{
	struct seen *s = ctx;

	s->left++;
	return unlinkat(above, name, AT_REMOVEDIR) < 0 ? err_sys(e, "remove %s", name) : 0;
}

static void tear_down(void)
{
	const struct oci_cgroup_walk w = { .leave = take_away, .ctx = &(struct seen){ 0 }, .end = clock_ms() + 20000 };
	struct err e;

	cr_assert_eq(oci_cgroup_walk(top, &w, &e), 0, "%s", e.msg);
	cr_assert_eq(rmdir(place), 0);
	fd_close(&top);
}

TestSuite(oci_cgroup_walk, .init = setup, .fini = tear_down);

static void make(int below, int levels)
{
	int fd = dup(below);

	while (levels--) {
		int next;

		cr_assert_eq(mkdirat(fd, "d", 0700), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = next;
	}
	close(fd);
}

Test(oci_cgroup_walk, comes_by_all_with_few_descriptors)
{
	const struct rlimit few = { 32, 32 };
	struct seen s = { 0 };
	struct oci_cgroup_walk w = { .enter = count, .ctx = &s, .end = clock_ms() + 20000 };
	char name[16];
	struct err e;
	int i;

	make(top, 3000);
	for (i = 0; i < 300; i++) {
		autoclose int fd = -1;

		snprintf(name, sizeof(name), ".%d", i);
		cr_assert_eq(mkdirat(top, name, 0700), 0);
		fd = openat(top, name, O_RDONLY | O_DIRECTORY);
		make(fd, 2);
	}
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	cr_assert_eq(oci_cgroup_walk(top, &w, &e), 0, "%s", e.msg);
	cr_assert_eq(s.entered, 1u + 3000 + 3 * 300);
	w.leave = take_away;
	cr_assert_eq(oci_cgroup_walk(top, &w, &e), 0, "%s", e.msg);
	cr_assert_eq(s.left, 3000u + 3 * 300);
	s.entered = 0;
	cr_assert_eq(oci_cgroup_walk(top, &w, &e), 0, "%s", e.msg);
	cr_assert_eq(s.entered, 1u);
}

static int grow(void *ctx, int fd, struct err *e)
{
	(void)ctx;
	return mkdirat(fd, "d", 0700) < 0 ? err_sys(e, "make a directory") : 0;
}

Test(oci_cgroup_walk, does_not_follow_for_ever_what_grows)
{
	const struct oci_cgroup_walk w = { .enter = grow, .end = clock_ms() + 20 };
	struct err e;

	cr_assert_eq(oci_cgroup_walk(top, &w, &e), -1);
	cr_assert_eq(e.code, ERR_TIMEOUT, "%s", e.msg);
}

/* What another removes while it is walked. */
static int vanish(void *ctx, int fd, struct err *e)
{
	struct seen *s = ctx;

	(void)fd;
	if (s->entered++ == 2)
		return unlinkat(top, "d/d", AT_REMOVEDIR) < 0 || unlinkat(top, "d", AT_REMOVEDIR) < 0 ? err_sys(e, "remove d") : 0;
	return 0;
}

Test(oci_cgroup_walk, comes_back_from_what_was_removed_meanwhile)
{
	struct seen s = { 0 };
	const struct oci_cgroup_walk w = { .enter = vanish, .ctx = &s, .end = clock_ms() + 20000 };
	struct err e;

	make(top, 2);
	cr_assert_eq(mkdirat(top, "e", 0700), 0);
	cr_assert_eq(oci_cgroup_walk(top, &w, &e), 0, "%s", e.msg);
	/* in either order of the names */
	cr_assert(s.entered == 3 || s.entered == 4, "%zu", s.entered);
}

static int move(void *ctx, int fd, struct err *e)
{
	struct seen *s = ctx;

	(void)fd;
	return s->entered++ == 2 && renameat(top, "d/d", top, "moved") < 0 ? err_sys(e, "move") : 0;
}

Test(oci_cgroup_walk, does_not_come_back_to_where_it_was_not)
{
	struct seen s = { 0 };
	const struct oci_cgroup_walk w = { .enter = move, .leave = take_away, .ctx = &s, .end = clock_ms() + 20000 };
	struct err e;

	make(top, 2);
	cr_assert_eq(oci_cgroup_walk(top, &w, &e), -1);
	cr_assert_eq(e.code, ERR_BUSY, "%s", e.msg);
	cr_assert_eq(s.left, 0u);
}
