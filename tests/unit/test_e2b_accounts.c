/* SPDX-License-Identifier: Apache-2.0 */
/* Homes and names in a sandbox's /etc/passwd and /etc/group, whose bytes are hostile. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/e2b.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
			     "#user:x:7:7::/commented:/bin/sh\n"
			     "\n"
			     "short:x\n"
			     "ctl\x1b:x:8:8::/ctl:/bin/sh\n"
			     "user:x:1000:1000::/home/user:/bin/sh\n"
			     "user:x:1001:1001::/second:/bin/sh\n"
			     "relative:x:1002:1002::home:/bin/sh\n"
			     "escape:x:1003:1003::/h\x1b[2J:/bin/sh\n"
			     "nohome:x:1004:1004\n"
			     "zero:x:0:0::\n"
			     "last:x:1005:1005::/last";

Test(e2b_accounts, a_home_is_that_of_the_first_line_with_the_name_or_number)
{
	static const struct {
		const char *name, *home;
	} table[] = {
		{ "root", "/root" },	 { "user", "/home/user" }, { "1000", "/home/user" }, { "last", "/last" },
		{ "relative", "/" },	 { "escape", "/" },	   { "nohome", "/" },	     { "zero", "/root" },
		{ "0", "/root" },	 { "none", NULL },	   { "#user", NULL },
		{ "", NULL },		 { "use", NULL },	   { "users", NULL },	     { "7", NULL },
		{ "user:x", NULL },
	};
	char home[1024];
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++) {
		int found = accounts_find(passwd, table[i].name, strlen(table[i].name), home);

		cr_expect_eq(found, table[i].home != NULL, "'%s'", table[i].name);
		if (found && table[i].home)
			cr_expect_str_eq(home, table[i].home, "'%s'", table[i].name);
	}
	cr_expect_eq(accounts_find("", "root", 4, home), 0);
}

Test(e2b_accounts, a_number_is_told_by_its_first_printable_name)
{
	static const struct {
		unsigned id;
		const char *name;
	} table[] = { { 0, "root" }, { 1000, "user" }, { 1005, "last" }, { 7, NULL }, { 8, NULL }, { 100, NULL } };
	char name[65], long_line[200];
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++) {
		int found = accounts_name(passwd, table[i].id, name);

		cr_expect_eq(found, table[i].name != NULL, "%u", table[i].id);
		if (found && table[i].name)
			cr_expect_str_eq(name, table[i].name, "%u", table[i].id);
	}
	memset(long_line, 'a', sizeof(long_line));
	strcpy(long_line + 100, ":x:5:");
	cr_expect_eq(accounts_name(long_line, 5, name), 0);
}
