/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/host/volume.h"
#include "manager/ops/mountspec.h"
#include "runtime/sandbox/mountplan.h"

typedef int reader(struct spec *s, const char *text, char **ret_owned, struct err *e);

static struct spec spec;
static char *owned[SPEC_MOUNTS_MAX + 1];
static size_t owned_count;

static void enter(void)
{
	memset(&spec, 0, sizeof(spec));
}

static void leave(void)
{
	while (owned_count)
		free(owned[--owned_count]);
}

TestSuite(mountspec, .init = enter, .fini = leave);

static const struct spec_mount *reads(reader *read, const char *text)
{
	struct err e = { 0 };
	size_t before = spec.mount_count;

	cr_assert_eq(read(&spec, text, &owned[owned_count], &e), 0, "'%s': %s", text, e.msg);
	owned_count++;
	cr_assert_eq(spec.mount_count, before + 1);
	return &spec.mounts[before];
}

static void refuses_with(reader *read, const char *text, int code)
{
	struct err e = { 0 };
	char *mine = NULL;

	cr_expect_eq(read(&spec, text, &mine, &e), -1, "'%s' is accepted", text);
	cr_expect_eq(e.code, code, "'%s': %s", text, e.msg);
	cr_expect_null(mine, "'%s'", text);
	cr_expect_eq(spec.mount_count, 0, "'%s' left a mount", text);
}

static void refuses(reader *read, const char *text)
{
	refuses_with(read, text, ERR_INVALID);
}

Test(mountspec, a_volume_is_read_only_unless_rw)
{
	const struct spec_mount *m = reads(mountspec_volume, "/usr:/data");

	cr_expect_eq(m->kind, SPEC_BIND);
	cr_expect_str_eq(m->source, "/usr");
	cr_expect_str_eq(m->target, "/data");
	cr_expect(!m->writable && m->exec && !m->nosymfollow);
	m = reads(mountspec_volume, "/usr:/data:rw");
	cr_expect(m->writable);
	m = reads(mountspec_volume, "/usr:/data:ro");
	cr_expect(!m->writable);
	m = reads(mountspec_volume, "/usr:/data:rw,noexec,nosymfollow");
	cr_expect(m->writable && !m->exec && m->nosymfollow);
	m = reads(mountspec_volume, "/usr:/data:noexec,exec,rw,readonly");
	cr_expect(!m->writable && m->exec, "the last word counts");
}

Test(mountspec, a_malformed_volume_is_refused)
{
	static const char *const bad[] = {
		"", ":", "::", ":::", "/usr", "/usr:", ":/data", "/usr:data", "/usr::", "/usr::rw", "/usr:./x", "/usr:/data:", "/usr:/data:x",
		"/usr:/data:RW", "/usr:/data:rw,", "/usr:/data:,rw", "/usr:/data:rw,,ro", "/usr:/data: rw", "/usr:/data:size=1m",
		"/usr:/data:mode=755", "/usr:/data:rw:ro", "/usr:/data:suid", "/usr:/data:dev", "/usr:/data:z", "/usr:/data:rw=1",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		refuses(mountspec_volume, bad[i]);
}

Test(mountspec, a_missing_source_is_not_found)
{
	refuses_with(mountspec_volume, "/no/such/dir:/data", ERR_NOT_FOUND);
	refuses_with(mountspec_mount, "type=bind,src=/no/such/dir,dst=/data", ERR_NOT_FOUND);
}

Test(mountspec, a_relative_source_is_taken_from_the_callers_directory)
{
	cr_assert_eq(chdir("/usr"), 0);
	cr_expect_str_eq(reads(mountspec_volume, "./share:/data")->source, "/usr/share");
	cr_expect_str_eq(reads(mountspec_volume, ".:/data")->source, "/usr");
	cr_expect_str_eq(reads(mountspec_volume, "..:/data")->source, "/");
	cr_expect_str_eq(reads(mountspec_mount, "type=bind,src=share/..,dst=/data")->source, "/usr");
}

Test(mountspec, a_source_without_a_slash_is_a_writable_volume)
{
	const struct spec_mount *m = reads(mountspec_volume, "share:/data");

	cr_expect(m->kind == SPEC_VOLUME && m->writable && m->source_fd == -1);
	cr_expect_str_eq(m->source, "share");
	cr_expect_not(reads(mountspec_volume, "share:/data:ro")->writable);
	cr_expect_not(reads(mountspec_mount, "type=volume,src=share,dst=/data,ro")->writable);
}

Test(mountspec, what_is_no_name_of_a_volume_is_refused)
{
	refuses(mountspec_volume, "Share:/data");
	refuses(mountspec_volume, "a@b:/data");
	refuses(mountspec_volume, ":/data");
	refuses(mountspec_mount, "type=volume,dst=/data");
	refuses(mountspec_mount, "type=volume,src=../share,dst=/data");
}

Test(mountspec, which_options_name_a_volume)
{
	char name[VOLUME_NAME_MAX + 1];

	cr_expect(volume_of_option("volume", "data:/x:ro", name) && !strcmp(name, "data"));
	cr_expect(volume_of_option("mount", "type=volume,dst=/x,src=data", name) && !strcmp(name, "data"));
	cr_expect(volume_of_option("mount", "source=data,type=volume,dst=/x", name) && !strcmp(name, "data"));
	cr_expect_not(volume_of_option("volume", "/data:/x", name));
	cr_expect_not(volume_of_option("volume", "./data:/x", name));
	cr_expect_not(volume_of_option("mount", "type=bind,src=data,dst=/x", name));
	cr_expect_not(volume_of_option("env", "data:/x", name));
}

Test(mountspec, a_target_has_one_spelling)
{
	static const struct { const char *in, *out; } t[] = {
		{ "/usr:/data/", "/data" }, { "/usr://data", "/data" }, { "/usr:/./data/.", "/data" }, { "/usr:/a//b/./c//", "/a/b/c" },
		{ "/usr:/", "/" }, { "/usr://", "/" }, { "/usr:/.", "/" }, { "/usr:/./", "/" }, { "/usr:/..x/.y", "/..x/.y" },
		{ "/usr:/a/../b", "/a/../b" },	/* left for the plan to refuse */
		{ "/usr://proc", "/proc" }, { "/usr:/./proc", "/proc" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		cr_expect_str_eq(reads(mountspec_volume, t[i].in)->target, t[i].out, "%s", t[i].in);
}

/* The two halves together: no spelling of a reserved target gets into a plan. */
Test(mountspec, no_spelling_of_a_reserved_target_gets_into_a_plan)
{
	static const char *const bad[] = {
		"/", "//", "/.", "/proc", "//proc", "/proc/", "/./proc", "/proc/.", "/proc//", "/x/../proc", "/../proc", "/dev/", "//dev/./null",
		"/sys//", "/sys/fs/cgroup/", "/dev/../dev", "/..",
	};
	static struct mountplan p;
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		char text[100];
		struct err e = { 0 };

		spec.mount_count = 0;
		snprintf(text, sizeof(text), "/usr:%s", bad[i]);
		reads(mountspec_volume, text);
		cr_expect_eq(mountplan_build(&p, &spec, NULL, &e), -1, "%s", bad[i]);
	}
}

Test(mountspec, a_tmpfs_has_size_mode_and_inodes)
{
	const struct spec_mount *m = reads(mountspec_tmpfs, "/scratch");

	cr_expect_eq(m->kind, SPEC_TMPFS);
	cr_expect_str_eq(m->target, "/scratch");
	cr_expect(m->writable && m->exec && m->size_bytes == 64 << 20 && m->mode == 01777 && m->inodes == 0);
	m = reads(mountspec_tmpfs, "/scratch/:size=1m,inodes=50,mode=0700,noexec,ro");
	cr_expect_str_eq(m->target, "/scratch");
	cr_expect(!m->writable && !m->exec && m->size_bytes == 1 << 20 && m->mode == 0700 && m->inodes == 50);
	m = reads(mountspec_mount, "type=tmpfs,dst=/scratch,size=4096,mode=755");
	cr_expect(m->kind == SPEC_TMPFS && m->size_bytes == 4096 && m->mode == 0755 && m->writable);
}

Test(mountspec, a_malformed_tmpfs_is_refused)
{
	static const char *const bad[] = {
		"", ":", "scratch", ":size=1m", "/scratch:", "/scratch:size", "/scratch:size=", "/scratch:size=abc", "/scratch:size=-1",
		"/scratch:size=0", "/scratch:size=4095", "/scratch:size=9999999999t", "/scratch:size=1m,", "/scratch:,size=1m",
		"/scratch:mode=", "/scratch:mode=8", "/scratch:mode=2777", "/scratch:mode=4755", "/scratch:mode=rwx", "/scratch:mode=-1",
		"/scratch:mode=07777777777777777777777777", "/scratch:mode=0x1ff", "/scratch:mode= 755", "/scratch:mode=755 ",
		"/scratch:inodes=0", "/scratch:inodes=-1", "/scratch:inodes=x", "/scratch:inodes=4294967297", "/scratch:uid=0", "/scratch:rw=",
		"/scratch:nr_inodes=5", "/scratch:huge=always", "/scratch:size=1m:rw", "/scratch:SIZE=1m", "/scratch:size=1m size=2m",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		refuses(mountspec_tmpfs, bad[i]);
}

Test(mountspec, a_mount_takes_the_documented_words_in_any_order)
{
	static const char *const same[] = {
		"type=bind,src=/usr,dst=/data,rw", "type=bind,source=/usr,destination=/data,rw", "rw,type=bind,target=/data,src=/usr",
		"dst=/data/,rw,src=/usr/,type=bind", "src=/usr,dst=/data,type=bind,ro,rw",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(same); i++) {
		const struct spec_mount *m = reads(mountspec_mount, same[i]);

		cr_expect(m->kind == SPEC_BIND && m->writable, "%s", same[i]);
		cr_expect_str_eq(m->source, "/usr", "%s", same[i]);
		cr_expect_str_eq(m->target, "/data", "%s", same[i]);
	}
	cr_expect(!reads(mountspec_mount, "type=bind,src=/usr,dst=/data")->writable);
}

Test(mountspec, a_malformed_mount_is_refused)
{
	static const char *const bad[] = {
		"", ",", "type=bind", "src=/usr,dst=/data", "type=bind,src=/usr", "type=bind,dst=/data", "type=tmpfs", "type=tmpfs,src=/usr,dst=/d",
		"type=volume,src=/usr,dst=/data", "type=,src=/usr,dst=/data", "type,src=/usr,dst=/data", "type=bind,src=,dst=/data",
		"type=bind,src=/usr,dst=", "type=bind,src=/usr,dst=data", "type=bind,src=/usr,dst=/data,", ",type=bind,src=/usr,dst=/data",
		"type=bind,,src=/usr,dst=/data", "type=bind,src=/usr,dst=/data,bogus", "type=bind,src=/usr,dst=/data,size=1m",
		"type=bind, src=/usr,dst=/data", "TYPE=bind,src=/usr,dst=/data", "type=bind,Src=/usr,dst=/data",
		"type=bind,src=/usr,dst=/data,bind-propagation=shared", "type=tmpfs,dst=/d,size=x",
		"type=tmpfs,dst=/d,rw,rw,rw,rw,rw,rw,rw,rw,rw,rw,rw,rw,rw,rw,rw,rw,rw",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		refuses(mountspec_mount, bad[i]);
}

Test(mountspec, a_word_given_twice_with_two_meanings_is_refused)
{
	static const char *const bad[] = {
		"type=bind,type=tmpfs,dst=/d", "type=tmpfs,type=bind,src=/usr,dst=/d", "type=bind,src=/usr,src=/etc,dst=/d",
		"type=bind,src=/usr,dst=/d,dst=/e", "type=bind,src=/usr,source=/usr,dst=/d", "type=bind,src=/usr,dst=/d,target=/d",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		refuses(mountspec_mount, bad[i]);
}

Test(mountspec, one_mount_too_many_is_a_limit)
{
	struct err e = { 0 };
	char *mine = NULL;
	int i;

	for (i = 0; i < SPEC_MOUNTS_MAX; i++)
		reads(mountspec_tmpfs, "/x");
	cr_expect_eq(mountspec_tmpfs(&spec, "/x", &mine, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
	cr_expect_eq(mountspec_volume(&spec, "/usr:/x", &mine, &e), -1);
	cr_expect_eq(mountspec_mount(&spec, "type=tmpfs,dst=/x", &mine, &e), -1);
	cr_expect_eq(spec.mount_count, SPEC_MOUNTS_MAX);
}

Test(mountspec, an_endless_spec_is_handled)
{
	static char huge[300000];
	struct err e = { 0 };
	char *mine = NULL;

	memset(huge, 'a', sizeof(huge) - 1);
	cr_expect_eq(mountspec_volume(&spec, huge, &mine, &e), -1);
	cr_expect_eq(mountspec_tmpfs(&spec, huge, &mine, &e), -1);
	cr_expect_eq(mountspec_mount(&spec, huge, &mine, &e), -1);
	memcpy(huge, "/usr:/", 6);
	reads(mountspec_volume, huge);
	huge[100] = ':';
	spec.mount_count = 0;
	cr_expect_eq(mountspec_volume(&spec, huge, &mine, &e), -1);
}
