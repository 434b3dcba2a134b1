/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers, on text and on a temporary directory; the machine's cgroups are not touched.  What is read back: S1 of SECURITY.md. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/cgroup_backends.h"

static char place[] = "/tmp/berth-cgroup-XXXXXX";
static int dir = -1;

static void enter(void)
{
	cr_assert(mkdtemp(place));
	dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(dir, 0);
}

static void leave(void)
{
	struct err e;

	close(dir);
	path_remove_tree(AT_FDCWD, place, &e);
}

TestSuite(cgroup, .init = enter, .fini = leave);

/* nsjail's strstr("cpu") accepts cpuset. */
Test(cgroup, a_controller_is_a_whole_word)
{
	static const struct { const char *list, *word; int want; } t[] = {
		{ "cpuset", "cpu", 0 }, { "cpuset cpu", "cpu", 1 }, { "cpu", "cpu", 1 }, { "cpuset memory", "cpu", 0 },
		{ "cpuacct", "cpu", 0 }, { "mycpu", "cpu", 0 }, { "mycpu cpu", "cpu", 1 }, { "cpucpu", "cpu", 0 },
		{ "cpucpu cpu\n", "cpu", 1 }, { "cpuset cpu io memory hugetlb pids rdma misc\n", "misc", 1 },
		{ "cpuset cpu io memory hugetlb pids rdma misc\n", "memor", 0 },
		{ "cpuset cpu io memory hugetlb pids rdma misc\n", "emory", 0 }, { "memory\n", "memory", 1 },
		{ "io\n", "io", 1 }, { "blkio", "io", 0 }, { "", "cpu", 0 }, { "\n", "cpu", 0 }, { " cpu ", "cpu", 1 },
		{ "cpu,cpuacct", "cpu", 0 }, { "-cpu", "cpu", 0 }, { "pids", "pids", 1 }, { "pi ds", "pids", 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		cr_expect_eq(cgroup_has_word(t[i].list, t[i].word), t[i].want, "'%s' in '%s'", t[i].word, t[i].list);
}

Test(cgroup, a_statistic_is_found_by_its_whole_key_at_a_line_start)
{
	static const char text[] = "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\nlast 18446744073709551615";
	static const struct { const char *key; uint64_t want; } t[] = {
		{ "low", 1 }, { "oom", 4 }, { "oom_kill", 5 }, { "oom_group_kill", 6 }, { "last", UINT64_MAX },
		{ "kill", 0 }, { "oom_", 0 }, { "om", 0 }, { "none", 0 }, { "1", 0 }, { "lo", 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		cr_expect_eq(cgroup_stat_value(text, t[i].key), t[i].want, "%s", t[i].key);
	cr_expect_eq(cgroup_stat_value("", "low"), 0);
	cr_expect_eq(cgroup_stat_value("\n\n\nlow 7\n", "low"), 7);
	cr_expect_eq(cgroup_stat_value("low\n", "low"), 0);
	cr_expect_eq(cgroup_stat_value("usage_usec 12\nuser_usec 34\n", "user_usec"), 34);
}

static void put(const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static const char *got(const char *name)
{
	static char text[256];

	cr_assert_geq(cgroup_read(dir, name, text, sizeof(text)), 0);
	return text;
}

Test(cgroup, a_limit_is_written_as_a_number_or_as_unlimited)
{
	struct err e = { 0 };

	put("memory.max", "");
	cr_expect_eq(cgroup_set(dir, "memory.max", 67108864, "max", &e), 0, "%s", e.msg);
	cr_expect_str_eq(got("memory.max"), "67108864");
	put("memory.max", "");
	cr_expect_eq(cgroup_set(dir, "memory.max", CGROUP_UNLIMITED, "max", &e), 0, "%s", e.msg);
	cr_expect_str_eq(got("memory.max"), "max");
	put("memory.limit_in_bytes", "");
	cr_expect_eq(cgroup_set(dir, "memory.limit_in_bytes", CGROUP_UNLIMITED, "-1", &e), 0, "%s", e.msg);
	cr_expect_str_eq(got("memory.limit_in_bytes"), "-1");
	put("pids.max", "");
	cr_expect_eq(cgroup_set(dir, "pids.max", 0, "max", &e), 0);
	cr_expect_str_eq(got("pids.max"), "0");
}

Test(cgroup, a_control_that_is_not_there_is_an_error_and_is_not_made)
{
	struct err e = { 0 };

	cr_expect_eq(cgroup_set(dir, "pids.max", 5, "max", &e), -1);
	cr_expect(strstr(e.msg, "pids.max"), "%s", e.msg);
	cr_expect_eq(faccessat(dir, "pids.max", F_OK, 0), -1);
	cr_expect_eq(cgroup_write(dir, "cgroup.kill", "1"), -1);
}

/*
 * A kernel that keeps another value than the one written: the file is longer
 * than what is written, so that the tail of the old content stays.
 */
static int set_over(const char *file, const char *kept, uint64_t value, struct err *e)
{
	put(file, kept);
	memset(e, 0, sizeof(*e));
	return cgroup_set(dir, file, value, "max", e);
}

Test(cgroup, a_limit_that_reads_back_otherwise_is_refused)
{
	struct err e;

	cr_expect_eq(set_over("pids.max", "xx7", 51, &e), -1, "517 for 51");
	cr_expect_eq(e.code, ERR_UNSUPPORTED, "%s", e.msg);
	cr_expect(strstr(e.msg, "517") && strstr(e.msg, "51"), "%s", e.msg);
	cr_expect_eq(set_over("memory.max", "xxxxxxx0", 4194304, &e), -1, "more than was asked for");
	cr_expect_eq(set_over("cpu.weight", "xxx garbage", 100, &e), -1);
	cr_expect_eq(set_over("memory.max", "xx\n", 51, &e), 0, "%s", e.msg);
}

/* A descriptor on /dev/full and the like has no other value; a FIFO-like mock would. See same_limit(). */
Test(cgroup, only_memory_may_be_rounded_and_only_to_whole_pages)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	static const struct { const char *file; uint64_t value; int rest; int good; } t[] = {
		{ "memory.max", 5000000, 1, 1 }, { "memory.limit_in_bytes", 5000000, 1, 1 },
		{ "memory.max", 5000000, 0, 0 }, { "pids.max", 5000000, 1, 0 }, { "cpu.weight", 5000000, 1, 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++) {
		char text[32];

		snprintf(text, sizeof(text), "%llu", (unsigned long long)(t[i].rest ? t[i].value / page * page :
								       t[i].value / page * page - page));
		cr_expect_eq(cgroup_same_limit(t[i].file, text, t[i].value), t[i].good, "%s: %s for %llu", t[i].file, text,
			     (unsigned long long)t[i].value);
	}
	cr_expect_not(cgroup_same_limit("pids.max", "0", 512));
	cr_expect_not(cgroup_same_limit("pids.max", "100", 512));
	cr_expect_not(cgroup_same_limit("cpu.weight", "1", 10000));
	cr_expect_not(cgroup_same_limit("memory.max", "max", 512));
	cr_expect_not(cgroup_same_limit("memory.max", "-1", 512));
	cr_expect_not(cgroup_same_limit("memory.max", "", 512));
	cr_expect_not(cgroup_same_limit("memory.limit_in_bytes", "9223372036854771712", 1 << 30));
	cr_expect(cgroup_same_limit("memory.limit_in_bytes", "9223372036854771712", CGROUP_UNLIMITED));
	cr_expect_not(cgroup_same_limit("memory.limit_in_bytes", "1073741824", CGROUP_UNLIMITED));
	cr_expect_not(cgroup_same_limit("pids.max", "4194304", CGROUP_UNLIMITED));
}

Test(cgroup, reading_is_bounded_and_terminated)
{
	char text[8];

	put("f", "0123456789");
	memset(text, 'Z', sizeof(text));
	cr_expect_eq(cgroup_read(dir, "f", text, sizeof(text)), 7);
	cr_expect_str_eq(text, "0123456");
	cr_expect_eq(cgroup_read(dir, "none", text, sizeof(text)), -1);
}

Test(cgroup, a_directory_is_made_once_with_its_parent)
{
	struct err e = { 0 };
	autoclose int a = cgroup_dir(place, "berth", "one", 1, &e);
	autoclose int b = -1, c = -1, d = -1;

	cr_assert_geq(a, 0, "%s", e.msg);
	cr_expect_eq(faccessat(dir, "berth/one", F_OK, 0), 0);
	b = cgroup_dir(place, "berth", "one", 1, &e);
	cr_expect_eq(b, -1);
	cr_expect_eq(e.code, ERR_EXISTS, "%s", e.msg);
	c = cgroup_dir(place, "berth", "one", 0, &e);
	cr_expect_geq(c, 0);
	d = cgroup_dir(place, "berth", "two", 0, &e);
	cr_expect_eq(d, -1);
	cr_expect_eq(e.code, ERR_NOT_FOUND, "%s", e.msg);
	cr_expect(fcntl(a, F_GETFD) & FD_CLOEXEC);
}

Test(cgroup, a_directory_goes_with_its_leaves_and_missing_is_success)
{
	struct err e = { 0 };

	cr_expect_eq(cgroup_rmdir(place, "berth", "gone", &e), 0, "%s", e.msg);
	cr_assert_eq(mkdirat(dir, "berth", 0755), 0);
	cr_assert_eq(mkdirat(dir, "berth/one", 0755), 0);
	cr_assert_eq(mkdirat(dir, "berth/one/init", 0755), 0);
	cr_assert_eq(mkdirat(dir, "berth/one/cmd", 0755), 0);
	cr_assert_eq(mkdirat(dir, "berth/one/cmd/leaf", 0755), 0);
	cr_assert_eq(mkdirat(dir, "berth/other", 0755), 0);
	cr_expect_eq(cgroup_rmdir(place, "berth", "one", &e), 0, "%s", e.msg);
	cr_expect_eq(faccessat(dir, "berth/one", F_OK, 0), -1);
	cr_expect_eq(faccessat(dir, "berth/other", F_OK, 0), 0, "a neighbour went too");
	cr_expect_eq(cgroup_rmdir(place, "berth", "one", &e), 0);
}

Test(cgroup, releasing_what_was_never_opened_is_harmless)
{
	struct cgroup c = { 0 };
	struct err e;

	cgroup_release(&c);
	cgroup_release(&c);
	cr_expect_eq(cgroup_destroy(&c, &e), 0);
}

Test(pressure, reads_both_lines_and_refuses_others)
{
	struct pressure p;

	cr_assert(pressure_parse("some avg10=92.61 avg60=93.07 avg300=0.05 total=4005580236\n"
				 "full avg10=0.00 avg60=1.50 avg300=100.00 total=7\n", &p));
	cr_assert(p.some.avg10 == 9261 && p.some.avg60 == 9307 && p.some.avg300 == 5);
	cr_assert(p.some.total_us == 4005580236u && p.full.avg60 == 150);
	cr_assert(p.full.avg300 == 10000 && p.full.total_us == 7);
	/* Linux 5.12 and before: of the CPU there is one line */
	cr_assert(pressure_parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", &p));
	cr_assert(p.full.total_us == 0);
	cr_assert_not(pressure_parse("", &p));
	cr_assert_not(pressure_parse("some avg10=1 avg60=0.00 avg300=0.00 total=0\n", &p));
	cr_assert_not(pressure_parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfill\n", &p));
}
