/* SPDX-License-Identifier: Apache-2.0 */
/* E13: user strings and hostile /etc/passwd.  The result is never uid or gid 0 unless the string says so. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/path.h"
/* pid 1 has no archive; its source is small */
#include "runtime/init/user.c"

static const char passwd[] =
	"root:x:0:0:root:/root:/bin/sh\n"
	"# a comment:x:5:5::/:\n"
	"\n"
	"alice:x:1000:1000:Alice:/home/alice:/bin/sh\n"
	"bob:x:1001:100::/home/bob:/bin/sh\n"
	"huge:x:4294967296:4294967296::/:\n"
	"neg:x:-1:-1::/:\n"
	"hex:x:0x0:0x0::/:\n"
	"space:x: 0: 0::/:\n"
	"plus:x:+0:+0::/:\n"
	"nouid:x:::/:\n"
	"short:x:7\n"
	"high:x:65536:65536::/:\n"
	"top:x:65535:65535::/top:\n"
	"1234:x:0:0::/root:\n"
	"+:x:0:0::/:\n"
	"-::0:0::/:\n"
	":x:0:0::/:\n"
	"relhome:x:2000:2000::home:\n"
	"nohome:x:2001:2001:::\n"
	"ctlhome:x:2002:2002::/home/\x1b[2J:\n"
	"crlf:x:2003:2003::/home/crlf:/bin/sh\r\n"
	"only4:x:2004:2005\n"
	"last:x:3000:3000::/last:/bin/sh";		/* and no newline */

static const char group[] =
	"root:x:0:\n"
	"users:x:100:alice,bob,root\n"
	"alice:x:1000:\n"
	"audio:x:29:alice\n"
	"video:x:44:bob,alice,carol\n"
	"ali:x:45:ali,alicex,xalice\n"
	"ghuge:x:4294967296:alice\n"
	"gneg:x:-1:alice\n"
	"gtop:x:65535:\n"
	"5555:x:0:\n"
	"nogid:x::alice\n"
	"lastg:x:3001:last";

#define REFUSED ERR_INVALID
#define MISSING ERR_NOT_FOUND

static const struct { const char *s; int code; uint32_t uid, gid; } table[] = {
	/* what is meant to work */
	{ "alice|0", 0, 1000, 1000 }, { "carol|0", 0, 0, 0 }, { "carol|bob", 0, 1001, 100 }, { "carol|dave", MISSING, 0, 0 },
	{ "carol|", MISSING, 0, 0 }, { "|alice", REFUSED, 0, 0 }, { "alice|bob|0", 0, 1000, 1000 }, { "carol|65536", REFUSED, 0, 0 },
	{ "", 0, 0, 0 }, { "0", 0, 0, 0 }, { "root", 0, 0, 0 }, { "0:0", 0, 0, 0 }, { "root:root", 0, 0, 0 },
	{ "1000", 0, 1000, 1000 }, { "alice", 0, 1000, 1000 }, { "bob", 0, 1001, 100 }, { "4242", 0, 4242, 0 },
	{ "4242:4242", 0, 4242, 4242 }, { "alice:audio", 0, 1000, 29 }, { "alice:29", 0, 1000, 29 },
	{ "1000:users", 0, 1000, 100 }, { "65535", 0, 65535, 65535 }, { "65535:65535", 0, 65535, 65535 },
	{ "1000:0", 0, 1000, 0 }, { "alice:gtop", 0, 1000, 65535 }, { "00000", 0, 0, 0 }, { "01000", 0, 1000, 1000 },
	{ "last", 0, 3000, 3000 }, { "last:lastg", 0, 3000, 3001 }, { "only4", 0, 2004, 2005 }, { "top", 0, 65535, 65535 },
	{ "1234", 0, 1234, 0 },	/* a number, though a name of root's looks like it */
	{ "1000:5555", 0, 1000, 5555 },
	/* overflow and out of range */
	{ "65536", REFUSED, 0, 0 }, { "4294967296", REFUSED, 0, 0 }, { "4294967295", REFUSED, 0, 0 },
	{ "2147483648", REFUSED, 0, 0 }, { "18446744073709551616", REFUSED, 0, 0 }, { "99999", REFUSED, 0, 0 },
	{ "100000000000000000000000000000000000", REFUSED, 0, 0 }, { "1000:65536", REFUSED, 0, 0 },
	{ "1000:4294967296", REFUSED, 0, 0 }, { "0:18446744073709551616", REFUSED, 0, 0 },
	/* signs, spaces, other bases */
	{ "-1", REFUSED, 0, 0 }, { "+0", REFUSED, 0, 0 }, { "+1000", REFUSED, 0, 0 }, { "-0", REFUSED, 0, 0 },
	{ "0x0", MISSING, 0, 0 }, { "0x3e8", MISSING, 0, 0 }, { "1e3", MISSING, 0, 0 }, { "1000.0", MISSING, 0, 0 },
	{ " 0", REFUSED, 0, 0 }, { "0 ", REFUSED, 0, 0 }, { " ", REFUSED, 0, 0 }, { "\t0", REFUSED, 0, 0 },
	{ "1000:-1", REFUSED, 0, 0 }, { "1000:+0", REFUSED, 0, 0 }, { "1000: 0", REFUSED, 0, 0 },
	{ "1000:0x0", MISSING, 0, 0 },
	/* colons and controls */
	{ "0:", REFUSED, 0, 0 }, { ":0", REFUSED, 0, 0 }, { ":", REFUSED, 0, 0 }, { "::", REFUSED, 0, 0 },
	{ "1000:", REFUSED, 0, 0 }, { "alice:", REFUSED, 0, 0 }, { ":alice", REFUSED, 0, 0 }, { "0:0:0", REFUSED, 0, 0 },
	{ "root:root:root", REFUSED, 0, 0 }, { "root\n", REFUSED, 0, 0 }, { "root\nalice", REFUSED, 0, 0 },
	{ "0\n", REFUSED, 0, 0 }, { "1000:0\n", REFUSED, 0, 0 }, { "\x01", REFUSED, 0, 0 }, { "alice\x7f", REFUSED, 0, 0 },
	{ "alice\x1b[2J", REFUSED, 0, 0 }, { "ali ce", REFUSED, 0, 0 }, { "../root", REFUSED, 0, 0 }, { "/", REFUSED, 0, 0 },
	/* names the file spoils */
	{ "nobody-here", MISSING, 0, 0 }, { "roo", MISSING, 0, 0 }, { "roott", MISSING, 0, 0 }, { "Root", MISSING, 0, 0 },
	{ "huge", MISSING, 0, 0 }, { "neg", MISSING, 0, 0 }, { "hex", MISSING, 0, 0 }, { "space", MISSING, 0, 0 },
	{ "plus", MISSING, 0, 0 }, { "nouid", MISSING, 0, 0 }, { "short", MISSING, 0, 0 }, { "high", MISSING, 0, 0 },
	{ "+", REFUSED, 0, 0 }, { "-", REFUSED, 0, 0 }, { "#", MISSING, 0, 0 }, { "x", MISSING, 0, 0 },
	{ "alice:ghuge", MISSING, 0, 0 }, { "alice:gneg", MISSING, 0, 0 }, { "alice:nogid", MISSING, 0, 0 },
	{ "alice:none", MISSING, 0, 0 }, { "%s%n", MISSING, 0, 0 }, { "\xff\xfe", MISSING, 0, 0 },
};

Test(user, every_string_of_the_table_gives_its_ids_or_its_error)
{
	size_t i;

	cr_assert_geq(ARRAY_LEN(table), 60);
	for (i = 0; i < ARRAY_LEN(table); i++) {
		struct user u, before;
		struct err e = { 0 };
		int r;

		memset(&u, 0xa5, sizeof(u));
		before = u;
		r = user_lookup_in(table[i].s, passwd, group, &u, &e);
		cr_expect_eq(r == 0 ? 0 : e.code, table[i].code, "'%s': %s", table[i].s, r ? e.msg : "accepted");
		if (r == 0) {
			cr_expect_eq(u.uid, table[i].uid, "'%s': uid %u", table[i].s, u.uid);
			cr_expect_eq(u.gid, table[i].gid, "'%s': gid %u", table[i].s, u.gid);
		} else {
			cr_expect_eq(memcmp(&u, &before, sizeof(u)), 0, "'%s' was refused, but the result changed", table[i].s);
		}
	}
}

Test(user, a_number_needs_no_files_and_a_name_does)
{
	struct user u;
	struct err e = { 0 };

	cr_expect_eq(user_lookup_in("", NULL, NULL, &u, &e), 0);
	cr_expect(u.uid == 0 && u.gid == 0 && !u.home[0] && !u.name[0] && !u.group_count);
	cr_expect_eq(user_lookup_in("7:8", NULL, NULL, &u, &e), 0);
	cr_expect(u.uid == 7 && u.gid == 8);
	cr_expect_eq(user_lookup_in("root", NULL, NULL, &u, &e), -1);
	cr_expect_eq(e.code, ERR_NOT_FOUND);
	cr_expect_eq(user_lookup_in("7:root", NULL, NULL, &u, &e), -1);
	cr_expect_eq(e.code, ERR_NOT_FOUND);
	cr_expect_eq(user_lookup_in("7", "", "", &u, &e), 0);
}

Test(user, supplementary_groups_are_those_that_list_the_whole_name)
{
	struct user u;
	struct err e;

	cr_assert_eq(user_lookup_in("alice", passwd, group, &u, &e), 0);
	cr_assert_eq(u.group_count, 3, "%d", u.group_count);
	cr_expect(u.groups[0] == 100 && u.groups[1] == 29 && u.groups[2] == 44);
	cr_assert_eq(user_lookup_in("1000", passwd, group, &u, &e), 0);
	cr_expect_eq(u.group_count, 3, "by number as by name");
	cr_assert_eq(user_lookup_in("4242", passwd, group, &u, &e), 0);
	cr_expect_eq(u.group_count, 0);
	cr_assert_eq(user_lookup_in("bob", passwd, group, &u, &e), 0);
	cr_expect(u.group_count == 1 && u.groups[0] == 44, "the primary group is not repeated");
}

/* As with Docker, podman and runc: USER:GROUP is that user in that group and in no other. */
Test(user, a_group_given_is_the_only_one)
{
	struct user u;
	struct err e;

	cr_assert_eq(user_lookup_in("alice:audio", passwd, group, &u, &e), 0);
	cr_expect(u.gid == 29 && u.group_count == 0, "%d supplementary groups", u.group_count);
	cr_assert_eq(user_lookup_in("1000:7", passwd, group, &u, &e), 0);
	cr_expect(u.gid == 7 && u.group_count == 0);
}

Test(user, more_groups_than_fit_are_left_out_without_harm)
{
	static char many[100000];
	struct user u;
	struct err e;
	int i;

	for (i = 0; i < 1000; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "g%d:x:%d:alice\n", i, 10000 + i);
	cr_assert_eq(user_lookup_in("alice", passwd, many, &u, &e), 0);
	cr_expect_eq(u.group_count, USER_GROUPS_MAX);
	cr_expect_eq(u.groups[USER_GROUPS_MAX - 1], 10000 + USER_GROUPS_MAX - 1);
}

Test(user, a_home_is_an_absolute_path_without_controls)
{
	static const struct { const char *s, *home; } t[] = {
		{ "alice", "/home/alice" }, { "root", "/root" }, { "", "/root" }, { "top", "/top" }, { "last", "/last" },
		{ "relhome", "" }, { "nohome", "" }, { "ctlhome", "" }, { "crlf", "/home/crlf" }, { "only4", "" }, { "4242", "" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++) {
		struct user u;
		struct err e = { 0 };

		cr_assert_eq(user_lookup_in(t[i].s, passwd, group, &u, &e), 0, "%s: %s", t[i].s, e.msg);
		cr_expect_str_eq(u.home, t[i].home, "%s", t[i].s);
	}
}

Test(user, a_name_and_a_home_of_any_length_fit_or_are_left_out)
{
	static char text[20000], name[5000], home[5000];
	size_t lengths[] = { 1, 62, 63, 64, 65, 1022, 1023, 1024, 1025, 4000 }, i;

	for (i = 0; i < ARRAY_LEN(lengths); i++) {
		size_t n = lengths[i];
		struct user u;
		struct err e;

		memset(name, 'n', n);
		name[n] = '\0';
		memset(home, 'h', n);
		home[n] = '\0';
		home[0] = '/';
		snprintf(text, sizeof(text), "ok:x:1:1::%s:\n", home);
		cr_assert_eq(user_lookup_in("ok", text, "", &u, &e), 0);
		cr_expect_eq(strlen(u.home), n < sizeof(u.home) ? n : 0, "%zu", n);
		snprintf(text, sizeof(text), "%s:x:5:5::/:\n", name);
		cr_expect_eq(user_lookup_in(name, text, "", &u, &e), n < 64 ? 0 : -1, "%zu", n);
		cr_assert_eq(user_lookup_in("5", text, "", &u, &e), 0);
		cr_expect_eq(strlen(u.name), n < 64 ? n : 0, "%zu", n);
	}
}

Test(user, the_first_entry_of_a_name_counts)
{
	struct user u;
	struct err e;

	cr_assert_eq(user_lookup_in("a", "a:x:1:1::/:\na:x:0:0::/:\n", "", &u, &e), 0);
	cr_expect_eq(u.uid, 1);
}

Test(user, a_message_about_a_hostile_string_is_bounded)
{
	static char huge[100000];
	struct user u;
	struct err e = { 0 };

	memset(huge, 'a', sizeof(huge) - 1);
	cr_expect_eq(user_lookup_in(huge, passwd, group, &u, &e), -1);
	cr_expect(strstr(e.msg, "hint:"), "%s", e.msg);
	memset(huge, '9', sizeof(huge) - 1);
	cr_expect_eq(user_lookup_in(huge, passwd, group, &u, &e), -1);
	cr_expect_eq(e.code, ERR_INVALID);
}

static char place[] = "/tmp/berth-user-XXXXXX";
static char file[64];

static void enter(void)
{
	cr_assert(mkdtemp(place));
	snprintf(file, sizeof(file), "%s/passwd", place);
	alarm(60);
}

static void leave(void)
{
	struct err e;

	path_remove_tree(AT_FDCWD, place, &e);
}

TestSuite(user_file, .init = enter, .fini = leave);

static char space[FILE_MAX + 1];

static const char *read_of_size(size_t n)
{
	static char text[FILE_MAX + 2];
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	memset(text, 'x', n);
	cr_assert_eq(write(fd, text, n), (ssize_t)n);
	close(fd);
	return read_small(file, space);
}

Test(user_file, a_file_up_to_1_mib_is_read_whole)
{
	static const size_t sizes[] = { 0, 1, 4096, FILE_MAX - 1, FILE_MAX };
	size_t i;

	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		const char *s = read_of_size(sizes[i]);

		cr_assert_not_null(s, "%zu", sizes[i]);
		cr_expect_eq(strlen(s), sizes[i]);
	}
	cr_expect_null(read_of_size(FILE_MAX + 1));
}

/* E12: a FIFO hangs other runtimes, 8 GiB of holes eat their memory. */
Test(user_file, what_is_no_small_regular_file_is_as_good_as_absent)
{
	int fd;

	cr_expect_null(read_small(file, space));
	cr_assert_eq(mkfifo(file, 0600), 0);
	cr_expect_null(read_small(file, space));
	cr_assert_eq(unlink(file), 0);
	cr_assert_eq(mkdir(file, 0700), 0);
	cr_expect_null(read_small(file, space));
	cr_assert_eq(rmdir(file), 0);
	cr_expect_null(read_small("/dev/zero", space));
	cr_expect_null(read_small("/proc/self/mem", space));
	fd = open(file, O_WRONLY | O_CREAT, 0600);
	cr_assert_eq(ftruncate(fd, 8LL << 30), 0);
	close(fd);
	cr_expect_null(read_small(file, space));
}

Test(user_file, a_nul_byte_spoils_the_file)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_eq(write(fd, "root:x:0:0\n\0evil", 16), 16);
	close(fd);
	cr_expect_null(read_small(file, space));
}
