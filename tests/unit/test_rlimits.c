/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "runtime/kernel/rlimits.h"

Test(rlimits, the_table_matches_the_kernel)
{
	static const struct { unsigned i; const char *name; } t[] = {
		{ RLIMIT_CPU, "cpu" }, { RLIMIT_FSIZE, "fsize" }, { RLIMIT_DATA, "data" }, { RLIMIT_STACK, "stack" },
		{ RLIMIT_CORE, "core" }, { RLIMIT_RSS, "rss" }, { RLIMIT_NPROC, "nproc" }, { RLIMIT_NOFILE, "nofile" },
		{ RLIMIT_MEMLOCK, "memlock" }, { RLIMIT_AS, "as" }, { RLIMIT_LOCKS, "locks" },
		{ RLIMIT_SIGPENDING, "sigpending" }, { RLIMIT_MSGQUEUE, "msgqueue" }, { RLIMIT_NICE, "nice" },
		{ RLIMIT_RTPRIO, "rtprio" }, { RLIMIT_RTTIME, "rttime" },
	};
	size_t i;

	cr_expect_eq(ARRAY_LEN(t), RLIMITS_COUNT);
	for (i = 0; i < ARRAY_LEN(t); i++) {
		struct rlimits r = { 0 };
		struct err e = { 0 };
		char text[64];

		cr_expect_str_eq(rlimits_name(t[i].i), t[i].name);
		snprintf(text, sizeof(text), "%s=3:5", t[i].name);
		cr_expect_eq(rlimits_parse(&r, text, &e), 0, "%s: %s", text, e.msg);
		cr_expect_eq(r.set, 1u << t[i].i, "%s", text);
		cr_expect(r.v[t[i].i].soft == 3 && r.v[t[i].i].hard == 5, "%s", text);
	}
	cr_expect_null(rlimits_name(RLIMITS_COUNT));
}

/* K17: a piped core_pattern ignores 0 and gives up at exactly 1. */
Test(rlimits, the_defaults_leave_no_core_and_no_real_time)
{
	struct rlimits r;

	rlimits_default(&r);
	cr_expect(r.v[RLIMIT_CORE].soft == 1 && r.v[RLIMIT_CORE].hard == 1);
	cr_expect(r.v[RLIMIT_RTPRIO].hard == 0 && r.v[RLIMIT_NICE].hard == 0);
	cr_expect_eq(r.v[RLIMIT_NOFILE].soft, 1024, "select(2) breaks above 1024");
	cr_expect_eq(r.set, 1u << RLIMIT_CORE | 1u << RLIMIT_NOFILE | 1u << RLIMIT_MEMLOCK | 1u << RLIMIT_MSGQUEUE |
		     1u << RLIMIT_SIGPENDING | 1u << RLIMIT_RTPRIO | 1u << RLIMIT_NICE);
}

Test(rlimits, a_limit_is_read_in_every_documented_form)
{
	static const struct { const char *s; unsigned i; uint64_t soft, hard; } t[] = {
		{ "nofile=256", RLIMIT_NOFILE, 256, 256 }, { "nofile=256:1024", RLIMIT_NOFILE, 256, 1024 },
		{ "NOFILE=1:1", RLIMIT_NOFILE, 1, 1 }, { "core=0", RLIMIT_CORE, 0, 0 },
		{ "stack=unlimited", RLIMIT_STACK, RLIMITS_INFINITY, RLIMITS_INFINITY },
		{ "stack=8388608:unlimited", RLIMIT_STACK, 8388608, RLIMITS_INFINITY },
		{ "as=-1", RLIMIT_AS, RLIMITS_INFINITY, RLIMITS_INFINITY },
		{ "as=1:UNLIMITED", RLIMIT_AS, 1, RLIMITS_INFINITY },
		{ "fsize=9223372036854775807", RLIMIT_FSIZE, INT64_MAX, INT64_MAX },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++) {
		struct rlimits r = { 0 };
		struct err e = { 0 };

		cr_expect_eq(rlimits_parse(&r, t[i].s, &e), 0, "%s: %s", t[i].s, e.msg);
		cr_expect(r.v[t[i].i].soft == t[i].soft && r.v[t[i].i].hard == t[i].hard, "%s", t[i].s);
	}
}

Test(rlimits, a_malformed_limit_is_refused_and_changes_nothing)
{
	static const char *const bad[] = {
		"", "=", "=5", "nofile", "nofile=", "nofile=:", "nofile=:5", "nofile=5:", "nofile=5:4", "nofile=5:6:7", "nofile=abc",
		"nofile=-2", "nofile=1k", "nofile=0x10", "nofile= 5", "nofile=5 ", "no file=5", "nofil=5", "nofilee=5", "rlimit_nofile=5",
		"nofile:5", "stack=unlimited:5", "stack=-1:5", "stack=infinity", "stack=9223372036854775808",
		"stack=18446744073709551615", "stack=18446744073709551616", "stack=99999999999999999999999999999999999999999",
		"nofile=1.5", "7=5", "nofile==5", "nofile=5\n", "cpu=1s",
	};
	static const struct rlimits zero;
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct rlimits r = { 0 };
		struct err e = { 0 };

		cr_expect_eq(rlimits_parse(&r, bad[i], &e), -1, "'%s'", bad[i]);
		cr_expect_eq(e.code, ERR_INVALID, "'%s'", bad[i]);
		cr_expect_eq(memcmp(&r, &zero, sizeof(r)), 0, "'%s' changed the limits", bad[i]);
	}
}

Test(rlimits, a_later_limit_replaces_the_earlier_one_of_its_name)
{
	struct rlimits r;
	struct err e;

	rlimits_default(&r);
	cr_assert_eq(rlimits_parse(&r, "nofile=5:6", &e), 0);
	cr_assert_eq(rlimits_parse(&r, "nofile=7", &e), 0);
	cr_expect(r.v[RLIMIT_NOFILE].soft == 7 && r.v[RLIMIT_NOFILE].hard == 7);
	cr_expect_eq(r.v[RLIMIT_CORE].hard, 1, "the others stay");
}

Test(rlimits, a_default_is_lowered_to_what_the_caller_may_give)
{
	const struct rlimit own = { 100, 200 };
	struct rlimits r;
	struct err e = { 0 };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &own), 0);
	rlimits_default(&r);
	cr_expect_eq(rlimits_fit(&r, 0, &e), 0, "%s", e.msg);
	cr_expect(r.v[RLIMIT_NOFILE].soft == 200 && r.v[RLIMIT_NOFILE].hard == 200);
}

Test(rlimits, a_limit_asked_for_is_never_lowered_in_silence)
{
	const struct rlimit own = { 100, 200 };
	struct rlimits r = { 0 };
	struct err e = { 0 };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &own), 0);
	cr_assert_eq(rlimits_parse(&r, "nofile=100:201", &e), 0);
	cr_expect_eq(rlimits_fit(&r, 1u << RLIMIT_NOFILE, &e), -1);
	cr_expect_eq(e.code, ERR_UNSUPPORTED);
	cr_expect(strstr(e.msg, "nofile") && strstr(e.msg, "hint:"), "%s", e.msg);
	cr_assert_eq(rlimits_parse(&r, "nofile=unlimited", &e), 0);
	cr_expect_eq(rlimits_fit(&r, 1u << RLIMIT_NOFILE, &e), -1);
	cr_assert_eq(rlimits_parse(&r, "nofile=200", &e), 0);
	cr_expect_eq(rlimits_fit(&r, 1u << RLIMIT_NOFILE, &e), 0, "%s", e.msg);
}
