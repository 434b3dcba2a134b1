/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <linux/capability.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/kernel/caps.h"

#define BIT(c) (1ULL << (c))

/* SECURITY-NOTES: eight, all namespaced. */
Test(caps, a_sandbox_holds_eight_by_default)
{
	uint64_t want = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | BIT(CAP_KILL) |
			BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_NET_BIND_SERVICE);

	cr_expect_eq(caps_default(), want);
	cr_expect_eq(__builtin_popcountll(caps_default()), 8);
}

Test(caps, every_name_is_read_in_both_spellings_and_any_case)
{
	unsigned i;

	for (i = 0; i <= CAPS_LAST; i++) {
		const char *name = caps_name(i);
		char lower[64];
		uint64_t mask = 0;
		struct err e = { 0 };
		size_t k;

		cr_assert_not_null(name, "%u", i);
		cr_expect_eq(strncmp(name, "CAP_", 4), 0);
		cr_expect_eq(caps_parse(name, &mask, &e), 0, "%s", name);
		cr_expect_eq(mask, BIT(i), "%s", name);
		mask = 0;
		for (k = 4; name[k]; k++)
			lower[k - 4] = (char)(name[k] >= 'A' && name[k] <= 'Z' ? name[k] + 32 : name[k]);
		lower[k - 4] = '\0';
		cr_expect_eq(caps_parse(lower, &mask, &e), 0, "%s", lower);
		cr_expect_eq(mask, BIT(i), "%s", lower);
	}
	cr_expect_null(caps_name(CAPS_LAST + 1));
	cr_expect_null(caps_name(63));
	cr_expect_null(caps_name(~0u));
}

Test(caps, the_numbers_are_the_kernels)
{
	cr_expect_str_eq(caps_name(0), "CAP_CHOWN");
	cr_expect_str_eq(caps_name(12), "CAP_NET_ADMIN");
	cr_expect_str_eq(caps_name(21), "CAP_SYS_ADMIN");
	cr_expect_str_eq(caps_name(31), "CAP_SETFCAP");
	cr_expect_str_eq(caps_name(40), "CAP_CHECKPOINT_RESTORE");
}

Test(caps, all_is_every_one_known)
{
	uint64_t mask = 0;
	struct err e;

	cr_expect_eq(caps_parse("ALL", &mask, &e), 0);
	cr_expect_eq(mask, CAPS_ALL);
	cr_expect_eq(caps_parse("all", &mask, &e), 0);
	cr_expect_eq(__builtin_popcountll(mask), CAPS_LAST + 1);
}

Test(caps, what_is_no_name_is_refused)
{
	static const char *const bad[] = {
		"", "CAP_", "CAP", "CAP_ALL", "NONE", "CHOW", "CHOWNX", "CAP_CHOWN ", " CHOWN", "CAP_CAP_CHOWN", "cap-chown", "0", "21",
		"0x1", "-1", "CHOWN,KILL", "CHOWN KILL", "~CHOWN", "CAP_CHOWN\n", "ROOT", "SYS", "\xff",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		uint64_t mask = 77;
		struct err e = { 0 };

		cr_expect_eq(caps_parse(bad[i], &mask, &e), -1, "'%s'", bad[i]);
		cr_expect_eq(e.code, ERR_INVALID, "'%s'", bad[i]);
		cr_expect_eq(mask, 77, "'%s' changed the result", bad[i]);
	}
}
