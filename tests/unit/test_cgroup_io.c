/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "manager/ops/optvalues.h"
#include "runtime/kernel/cgroup_io.h"

#define NONE CGROUP_UNLIMITED

Test(cgroup_io, a_rate_is_printed_as_io_max_has_it_and_read_back)
{
	struct cgroup_io_rate r = {.major = 8, .minor = 16, .v = {1024, NONE, 7, NONE}}, got;
	char text[CGROUP_IO_TEXT];
	struct err e;

	cgroup_io_print(&r, text);
	cr_expect_str_eq(text, "8:16 rbps=1024 wbps=max riops=7 wiops=max");
	cr_expect_eq(cgroup_io_read(text, &got, &e), 0);
	cr_expect_arr_eq(got.v, r.v, sizeof(r.v));
	cr_expect(cgroup_io_max_is("8:1 rbps=1 wbps=max riops=7 wiops=max\n"
				   "8:16 rbps=1024 wbps=max riops=7 wiops=max\n",
				   &r));
	cr_expect_not(cgroup_io_max_is("8:16 rbps=1024 wbps=max riops=7 wiops=maxi\n", &r));
	cr_expect_not(cgroup_io_max_is("8:16 rbps=10240 wbps=max riops=7 wiops=max\n", &r));
	cr_expect_not(cgroup_io_max_is("18:16 rbps=1024 wbps=max riops=7 wiops=max\n", &r));
	cr_expect_not(cgroup_io_max_is("", &r));
}

Test(cgroup_io, a_disk_without_a_limit_may_have_no_line)
{
	const struct cgroup_io_rate r = {.major = 8, .v = {NONE, NONE, NONE, NONE}};

	cr_expect(cgroup_io_max_is("", &r));
	cr_expect_not(cgroup_io_max_is("8:0 rbps=1 wbps=max riops=max wiops=max\n", &r));
}

Test(cgroup_io, what_is_no_rate_of_a_disk_is_refused)
{
	static const char *const bad[] = {
		"",
		"8:16",
		"8:16 rbps=1",
		"8:16 rbps=1 wbps=2 riops=3 wiops=4 ",
		"8:16 rbps=-1 wbps=2 riops=3 wiops=4",
		"8:16 rbps=x wbps=2 riops=3 wiops=4",
		"8:16  rbps=1 wbps=2 riops=3 wiops=4",
	};
	struct cgroup_io_rate got;
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(cgroup_io_read(bad[i], &got, &e), -1, "%s", bad[i]);
}

Test(cgroup_io, the_later_rate_of_a_disk_replaces_the_earlier_and_there_is_room_for_eight)
{
	struct cgroup_limits l = {.io_rate_count = 0};
	struct cgroup_io_rate r = {.major = 8, .v = {5, NONE, NONE, NONE}};
	struct err e;

	for (r.minor = 0; r.minor < CGROUP_IO_RATES_MAX; r.minor++)
		cr_assert_eq(cgroup_io_put(&l, &r, &e), 0);
	cr_expect_eq(cgroup_io_put(&l, &r, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
	r.minor = 3;
	r.v[IO_READ] = 9;
	cr_expect_eq(cgroup_io_put(&l, &r, &e), 0);
	cr_expect_eq(l.io_rate_count, CGROUP_IO_RATES_MAX);
	cr_expect_eq(l.io_rates[3].v[IO_READ], 9);
}

Test(cgroup_io, the_default_weight_is_bfqs_and_the_ends_meet)
{
	cr_expect_eq(cgroup_io_bfq_weight(1), 1);
	cr_expect_eq(cgroup_io_bfq_weight(100), 100);
	cr_expect_eq(cgroup_io_bfq_weight(10000), 1000);
}

Test(limitopts, a_rate_names_a_path_and_what_is_not_named_is_unlimited)
{
	struct limitopts_io io;
	struct err e;

	cr_assert_eq(limitopts_io_parse("/dev/disk/by-path/pci-0:1:read=1k,write-iops=5", &io, &e),
		     0);
	cr_expect_str_eq(io.path, "/dev/disk/by-path/pci-0:1");
	cr_expect_eq(io.rate.v[IO_READ], 1024);
	cr_expect_eq(io.rate.v[IO_WRITE_OPS], 5);
	cr_expect_eq(io.rate.v[IO_WRITE], NONE);
	cr_assert_eq(limitopts_io_parse("/x:unlimited", &io, &e), 0);
	cr_expect_eq(io.rate.v[IO_READ], NONE);
	cr_expect(limitopts_io_same("/x:unlimited", "/x:read=1m"));
	cr_expect_not(limitopts_io_same("/x:read=1m", "/x1:read=1m"));
}
