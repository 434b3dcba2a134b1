/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "manager/host/nets.h"

static struct subnets taken;

static struct netcidr range(const char *text)
{
	struct netcidr c;
	struct err e;

	cr_assert_eq(netcidr_parse(text, &c, &e), 0, "%s", text);
	return c;
}

static void take(const char *text)
{
	struct netcidr c = range(text);
	struct err e;

	cr_assert_eq(subnets_add(&taken, &c, &e), 0);
}

static const char *chosen(const char *base, char out[NETADDR_TEXT + 5])
{
	struct netcidr b = range(base), got;

	if (subnets_choose(&taken, &b, &got) < 0)
		return "none";
	subnets_text(&got, out);
	return out;
}

Test(subnets, the_first_free_range_is_chosen)
{
	char text[NETADDR_TEXT + 5];

	cr_expect_str_eq(chosen("10.204.0.0/14", text), "10.204.0.0/24");
	take("10.204.0.0/24");
	take("10.204.1.128/25");
	cr_expect_str_eq(chosen("10.204.0.0/14", text), "10.204.2.0/24");
	take("10.204.0.0/16");
	take("10.206.0.0/15");
	cr_expect_str_eq(chosen("10.204.0.0/14", text), "10.205.0.0/24");
	take("fd00::/8");
	cr_expect_str_eq(chosen("10.204.0.0/14", text), "10.205.0.0/24");
}

Test(subnets, a_small_base_is_one_range)
{
	char text[NETADDR_TEXT + 5];

	cr_expect_str_eq(chosen("192.168.9.16/28", text), "192.168.9.16/28");
	take("192.168.9.20/32");
	cr_expect_str_eq(chosen("192.168.9.16/28", text), "none");
}

Test(subnets, ranges_overlap_whichever_is_larger)
{
	struct netcidr small = range("10.1.2.0/24"), large = range("10.0.0.0/8"), other = range("11.0.0.0/8");

	cr_expect_null(subnets_overlap(&taken, &small));
	take("10.1.0.0/16");
	cr_expect_not_null(subnets_overlap(&taken, &small));
	cr_expect_not_null(subnets_overlap(&taken, &large));
	cr_expect_null(subnets_overlap(&taken, &other));
}

Test(subnets, the_list_has_an_end)
{
	struct netcidr c = range("10.0.0.0/8");
	struct err e;

	while (taken.count < SUBNETS_TAKEN)
		take("10.0.0.0/8");
	cr_expect_eq(subnets_add(&taken, &c, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
}
