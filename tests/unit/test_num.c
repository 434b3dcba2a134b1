/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people write them: what is read, what is refused, and that a refusal changes nothing. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

#define UNTOUCHED 0xdeadbeefULL

/* Refused by every reader here: no number at all, signs, white space, other bases, trailing bytes. */
static const char *const never[] = {
	"", " ", "-", "+", ".", "-1", "+1", "- 1", " 1", "1 ", "\t1", "1\n", "0x10", "1e3", "1E3", "1_000", "1,000",
	"1'000", "abc", "nan", "inf", "NaN", "infinity", "unlimited", "1.2.3", "1..2", ".5", "5.", "0.", "1-2", "1/2",
	"\xd9\xa1", "1\xc2\xa0", "\xef\xbc\x91", "%d", "$1", "99999999999999999999999999999999999999999",
	"18446744073709551616", "1\x01", "--1", "1k1", "0b1", "0o7", "1;", "\x1b[1m1",
};

typedef int reader(const char *s, uint64_t *ret, struct err *e);

static int any_u64(const char *s, uint64_t *ret, struct err *e)
{
	return num_u64(s, "value", 0, UINT64_MAX, ret, e);
}

static int any_size(const char *s, uint64_t *ret, struct err *e)
{
	return num_size(s, "value", 0, UINT64_MAX, ret, e);
}

static int any_duration(const char *s, uint64_t *ret, struct err *e)
{
	return num_duration_ms(s, "value", UINT64_MAX, ret, e);
}

static int any_milli(const char *s, uint64_t *ret, struct err *e)
{
	return num_milli(s, "value", 0, UINT64_MAX, ret, e);
}

static void refuses(reader *read, const char *s)
{
	uint64_t v = UNTOUCHED;
	struct err e = { 0 };

	cr_expect_eq(read(s, &v, &e), -1, "'%s' was read as %" PRIu64, s, v);
	cr_expect_eq(e.code, ERR_INVALID, "'%s': code %d", s, e.code);
	cr_expect_eq(v, UNTOUCHED, "'%s' was refused, but the result changed to %" PRIu64, s, v);
	cr_expect(strstr(e.msg, "value"), "'%s': the message does not name the value: %s", s, e.msg);
}

static void reads(reader *read, const char *s, uint64_t want)
{
	uint64_t v = UNTOUCHED;
	struct err e = { 0 };

	cr_expect_eq(read(s, &v, &e), 0, "'%s' was refused: %s", s, e.msg);
	cr_expect_eq(v, want, "'%s' was read as %" PRIu64 ", not %" PRIu64, s, v, want);
}

Test(num, what_is_no_number_is_refused_by_every_reader)
{
	reader *const all[] = { any_u64, any_size, any_duration, any_milli };
	size_t r, i;

	for (r = 0; r < ARRAY_LEN(all); r++)
		for (i = 0; i < ARRAY_LEN(never); i++)
			refuses(all[r], never[i]);
}

Test(num, a_whole_number_is_decimal_digits_only)
{
	reads(any_u64, "0", 0);
	reads(any_u64, "00", 0);
	reads(any_u64, "010", 10);	/* never octal */
	reads(any_u64, "18446744073709551615", UINT64_MAX);
	reads(any_u64, "000000000000000000000000000000000000001", 1);
	refuses(any_u64, "1.0");
	refuses(any_u64, "1k");
	refuses(any_u64, "18446744073709551616");	/* 2^64 */
	refuses(any_u64, "18446744073709551625");	/* wraps to 9 */
	refuses(any_u64, "36893488147419103232");	/* 2^65, wraps to 0 */
}

Test(num, a_whole_number_holds_to_its_range_at_both_ends)
{
	static const struct { const char *s; int good; } t[] = {
		{ "1", 0 }, { "2", 1 }, { "3", 1 }, { "4", 1 }, { "5", 0 }, { "0", 0 },
	};
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++) {
		uint64_t v = UNTOUCHED;

		cr_expect_eq(num_u64(t[i].s, "n", 2, 4, &v, &e) == 0, t[i].good, "%s in 2..4", t[i].s);
		cr_expect(t[i].good || v == UNTOUCHED);
		cr_expect(t[i].good || strstr(e.msg, "2 to 4"), "the range is not in: %s", e.msg);
	}
}

Test(num, a_size_takes_units_of_1024_in_any_case)
{
	static const struct { const char *s; uint64_t want; } t[] = {
		{ "0", 0 }, { "1", 1 }, { "512", 512 }, { "7b", 7 }, { "7B", 7 }, { "1k", 1024 }, { "1K", 1024 },
		{ "1kb", 1024 }, { "1KB", 1024 }, { "1kib", 1024 }, { "1KiB", 1024 }, { "1kIb", 1024 },
		{ "512m", 512ULL << 20 }, { "512M", 512ULL << 20 }, { "512mb", 512ULL << 20 }, { "512MiB", 512ULL << 20 },
		{ "2g", 2ULL << 30 }, { "1t", 1ULL << 40 }, { "0.5k", 512 }, { "1.5g", 3ULL << 29 }, { "0.001k", 1 },
		{ "0.125m", 131072 }, { "1.999", 1 }, { "0.999b", 0 }, { "0000512m", 512ULL << 20 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		reads(any_size, t[i].s, t[i].want);
}

Test(num, a_size_with_a_wrong_unit_is_refused)
{
	static const char *const t[] = {
		"1x", "1kk", "1mm", "1p", "1e", "1bb", "1bib", "1bi", "1ki", "1mi", "1kibb", "1 k", "1k ", "k", "b", "1.5.5k",
		"1.2345k", "0.0001g", "1m1k", "m512", "512 MB", "512mbit", "1\xc2\xb5", "1k\n", "1kB1", "-1k", "+1k", "1%", "0x1k",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		refuses(any_size, t[i]);
}

Test(num, a_size_too_large_is_refused_and_never_wraps)
{
	static const char *const t[] = {
		"16777216t",			/* 2^64 */
		"16777217t", "18014398509481984k", "17179869184g", "99999999999999999t", "18446744073709551615k",
		"18446744073709551615t", "18446744073709551616",
	};
	uint64_t v = UNTOUCHED;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		refuses(any_size, t[i]);
	cr_expect_eq(num_size("1023", "n", 1024, 4096, &v, &e), -1);
	cr_expect_str_eq(e.msg, "n '1023' is out of range; hint: 1k to 4k");
	cr_expect_eq(num_size("1k", "n", 512 << 20, 1ULL << 50, &v, &e), -1);
	cr_expect_str_eq(e.msg, "n '1k' is out of range; hint: 512m to 1024t");
	cr_expect_eq(num_size("0", "n", 1, 1023, &v, &e), -1);
	cr_expect_str_eq(e.msg, "n '0' is out of range; hint: 1 to 1023");
	cr_expect_eq(num_size("4097", "n", 1024, 4096, &v, &e), -1);
	cr_expect_eq(v, UNTOUCHED);
	cr_expect_eq(num_size("1k", "n", 1024, 4096, &v, &e), 0);
	cr_expect_eq(num_size("4k", "n", 1024, 4096, &v, &e), 0);
	cr_expect_eq(v, 4096);
}

Test(num, a_size_reaches_every_limit_berth_has)
{
	reads(any_size, "1152921504606846976", 1ULL << 60);	/* the most --memory takes */
	reads(any_size, "1048576t", 1ULL << 60);
	reads(any_size, "16777215t", 16777215ULL << 40);
	reads(any_size, "18446744073709551615", UINT64_MAX);
	reads(any_size, "18446744073709551615.999b", UINT64_MAX);
}

Test(num, a_duration_without_unit_is_seconds)
{
	static const struct { const char *s; uint64_t want; } t[] = {
		{ "0", 0 }, { "1", 1000 }, { "300", 300000 }, { "1.5", 1500 }, { "0.001", 1 }, { "0.25", 250 },
		{ "1ms", 1 }, { "1500ms", 1500 }, { "2s", 2000 }, { "2.5s", 2500 }, { "5m", 300000 },
		{ "0.5m", 30000 }, { "1h", 3600000 }, { "1d", 86400000 }, { "1h30m", 5400000 }, { "1d2h3m4s5ms", 93784005 },
		{ "1m30s", 90000 }, { "1s1ms", 1001 }, { "1.5h30m", 7200000 }, { "366d", 31622400000 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		reads(any_duration, t[i].s, t[i].want);
}

Test(num, a_malformed_duration_is_refused)
{
	static const char *const t[] = {
		"s", "ms", "1S", "1M", "1H", "1MS", "1 s", "1s ", "1w", "1y", "1us", "1ns", "1sec", "1min", "1hour", "1mss",
		"30m1h", "1m1m", "1s1s", "1ms1s", "1h30", "1.s", "1.0005s", "0.5ms", "1.5ms", "1s0.001ms", "0x1s", "1h-1m", "1h 30m", "1h,30m", "1:30", "PT5M",
		"5m5", "1d1d", "300x", "-5m", "+5m", "1h+30m",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		refuses(any_duration, t[i]);
}

Test(num, a_duration_too_long_is_refused_and_never_wraps)
{
	static const char *const t[] = {
		"18446744073709551615", "18446744073709551615d", "213503982335d", "99999999999999999999d",
		"18446744073709551616ms", "18446744073709551s616ms616ms",
	};
	uint64_t v = UNTOUCHED;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		refuses(any_duration, t[i]);
	cr_expect_eq(num_duration_ms("1h1ms", "t", 3600000, &v, &e), -1);
	cr_expect_str_eq(e.msg, "t '1h1ms' is out of range; hint: at most 1h");
	cr_expect_eq(num_duration_ms("59m60.001s", "t", 3600000, &v, &e), -1);
	cr_expect_eq(v, UNTOUCHED);
	cr_expect_eq(num_duration_ms("59m60s", "t", 3600000, &v, &e), 0);
	cr_expect_eq(v, 3600000);
	cr_expect_eq(num_duration_ms("1", "t", 999, &v, &e), -1);
	cr_expect_str_eq(e.msg, "t '1' is out of range; hint: at most 999ms");
	cr_expect_eq(num_duration_ms("367d", "t", 366ULL * 86400000, &v, &e), -1);
	cr_expect_str_eq(e.msg, "t '367d' is out of range; hint: at most 366d");
}

Test(num, cpus_are_counted_in_thousandths)
{
	static const struct { const char *s; uint64_t want; } t[] = {
		{ "0", 0 }, { "0.5", 500 }, { "1", 1000 }, { "1.0", 1000 }, { "1.000", 1000 }, { "2.25", 2250 },
		{ "0.001", 1 }, { "0.01", 10 }, { "64", 64000 }, { "00.5", 500 },
	};
	static const char *const bad[] = { "0.0001", "1.2345", "1k", "0.5x", "1%", "0,5", "50%", "18446744073709551.616" };
	uint64_t v = UNTOUCHED;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		reads(any_milli, t[i].s, t[i].want);
	for (i = 0; i < ARRAY_LEN(bad); i++)
		refuses(any_milli, bad[i]);
	reads(any_milli, "18446744073709551.615", UINT64_MAX);
	cr_expect_eq(num_milli("0.009", "cpus", 10, 4096000, &v, &e), -1);
	cr_expect_eq(num_milli("4096.001", "cpus", 10, 4096000, &v, &e), -1);
	cr_expect_eq(v, UNTOUCHED);
	cr_expect_eq(num_milli("0.01", "cpus", 10, 4096000, &v, &e), 0);
	cr_expect_eq(num_milli("4096", "cpus", 10, 4096000, &v, &e), 0);
	cr_expect_eq(v, 4096000);
}

static void answers_an_endless_value(reader *read)
{
	static char huge[100000];
	uint64_t v = UNTOUCHED;
	struct err e = { 0 };

	memset(huge, '9', sizeof(huge) - 1);
	cr_expect_eq(read(huge, &v, &e), -1);
	cr_expect(memchr(e.msg, '\0', sizeof(e.msg)));
	cr_expect(strstr(e.msg, "hint:"), "the value crowds out what is wrong with it: %s", e.msg);
	cr_expect_eq(v, UNTOUCHED);
}

Test(num, an_endless_value_still_gets_a_reason)
{
	answers_an_endless_value(any_u64);
	answers_an_endless_value(any_size);
	answers_an_endless_value(any_duration);
	answers_an_endless_value(any_milli);
}
