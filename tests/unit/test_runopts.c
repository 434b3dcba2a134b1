/* SPDX-License-Identifier: Apache-2.0 */
/* The options of run: how they combine, and that no garbage becomes a default. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/ops/params.h"
#include "manager/ops/runopts.h"
#include "runtime/kernel/caps.h"

#define BIT(c) (1ULL << (c))

static struct config config;
static struct runopts o;
static char place[] = "/tmp/berth-runopts-XXXXXX";
static char *const none[] = { NULL };

static void enter(void)
{
	cr_assert(mkdtemp(place));
	config_defaults(&config);
	runopts_init(&o, &config);
}

static void leave(void)
{
	struct err e;

	runopts_release(&o);
	path_remove_tree(AT_FDCWD, place, &e);
}

TestSuite(runopts, .init = enter, .fini = leave);

static void set(int id, const char *v)
{
	struct err e = { 0 };

	cr_assert_eq(params_read(&o, param_of(id), v, &e), 0, "'%s': %s", v, e.msg);
}

static int finish(const struct image *im, struct err *e)
{
	memset(e, 0, sizeof(*e));
	return runopts_finish(&o, im, (char **)none, 0, e);
}

static void finished(const struct image *im)
{
	struct err e;

	cr_assert_eq(finish(im, &e), 0, "%s", e.msg);
}

static const char *env_of(const char *name)
{
	const char *found = NULL;
	size_t n = strlen(name), i;

	for (i = 0; i < o.spec.env_count; i++) {
		if (strncmp(o.spec.env[i], name, n) || o.spec.env[i][n] != '=')
			continue;
		cr_expect_null(found, "%s is in the environment twice", name);
		found = o.spec.env[i] + n + 1;
	}
	return found;
}

static const char *file_with(const char *name, const char *text, size_t n)
{
	static char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", place, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	cr_assert_eq(io_write_all(fd, text, n), 0);
	close(fd);
	return path;
}

#define ENV_FILE(text) file_with("env", text, sizeof(text) - 1)

Test(runopts, without_options_the_configuration_decides)
{
	finished(NULL);
	cr_expect_eq(o.spec.limits.memory_bytes, 512 << 20);
	cr_expect_eq(o.spec.limits.swap_bytes, 0);
	cr_expect_eq(o.spec.limits.cpu_milli, 1000);
	cr_expect_eq(o.spec.limits.pids, 512);
	cr_expect_eq(o.spec.timeout_ms, 0, "run in the foreground has no timeout");
	cr_expect_eq(o.spec.cpu_time_ms, 0);
	cr_expect_eq(o.spec.network, NETWORK_NONE);
	cr_expect_eq(o.spec.read_only, 0);
	cr_expect_eq(o.spec.mount_count, 0);
	cr_expect_str_eq(o.spec.workdir, "/workspace");
	cr_expect_str_eq(o.spec.seccomp_name, "standard");
	cr_expect_not(o.spec.unconfined_seccomp);
	cr_expect_not_null(o.spec.seccomp);
	cr_expect_eq(o.spec.caps, caps_default());
}

static char *image_env[] = { (char *)"PATH=/image/bin", (char *)"A=image", (char *)"B=image", NULL };
static char *image_cmd[] = { (char *)"cmd", (char *)"arg", NULL };
static char *image_entry[] = { (char *)"entry", (char *)"-x", NULL };
static struct image image = {
	.env = image_env, .env_count = 3, .cmd = image_cmd, .cmd_count = 2, .entrypoint = image_entry, .entrypoint_count = 2,
	.user = (char *)"1000", .workdir = (char *)"/app",
};

Test(runopts, the_environment_is_ours_then_the_images_then_the_callers)
{
	set(PARAM_ENV, "B=caller");
	set(PARAM_ENV, "C=caller");
	finished(&image);
	cr_expect_str_eq(env_of("PATH"), "/image/bin");
	cr_expect_str_eq(env_of("A"), "image");
	cr_expect_str_eq(env_of("B"), "caller");
	cr_expect_str_eq(env_of("C"), "caller");
	cr_expect_str_eq(env_of("HOSTNAME"), "sandbox");
	cr_expect_null(env_of("HOME"), "init knows the home, not the command line");
}

Test(runopts, env_and_env_file_count_in_the_order_given)
{
	set(PARAM_ENV, "X=1");
	set(PARAM_ENV_FILE, ENV_FILE("X=2\nY=2\n"));
	set(PARAM_ENV, "Y=3");
	finished(NULL);
	cr_expect_str_eq(env_of("X"), "2");
	cr_expect_str_eq(env_of("Y"), "3");
}

Test(runopts, a_name_is_replaced_whole_and_only_it)
{
	set(PARAM_ENV, "AB=1");
	set(PARAM_ENV, "A=2");
	set(PARAM_ENV, "A_=3");
	set(PARAM_ENV, "A=");
	finished(NULL);
	cr_expect_str_eq(env_of("AB"), "1");
	cr_expect_str_eq(env_of("A_"), "3");
	cr_expect_str_eq(env_of("A"), "");
}

Test(runopts, only_a_named_variable_of_the_caller_gets_in)
{
	struct err e = { 0 };

	setenv("BERTH_CANARY", "secret", 1);
	setenv("BERTH_WANTED", "x=y", 1);
	set(PARAM_ENV, "BERTH_WANTED");
	cr_expect_eq(params_read(&o, param_of(PARAM_ENV), "BERTH_ABSENT", &e), -1);
	cr_expect_eq(e.code, ERR_INVALID);
	finished(NULL);
	cr_expect_str_eq(env_of("BERTH_WANTED"), "x=y");
	cr_expect_null(env_of("BERTH_CANARY"));
	cr_expect_null(env_of("BERTH_ABSENT"));
}

Test(runopts, a_malformed_variable_is_refused)
{
	static const char *const bad[] = { "", "=", "=x", "1A=x", "A B=x", " A=x", "A\n=x", "A\x01=x", "*", "A*=x", "\xc3\xa9=x", "A/B=x" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };

		cr_expect_eq(params_read(&o, param_of(PARAM_ENV), bad[i], &e), -1, "'%s'", bad[i]);
		cr_expect_eq(e.code, ERR_INVALID, "'%s': %s", bad[i], e.msg);
	}
	cr_expect_eq(o.env.count, 0);
}

Test(runopts, an_env_file_has_comments_and_empty_lines_and_needs_no_last_newline)
{
	set(PARAM_ENV_FILE, ENV_FILE("# comment\n\nA=1\nB=has = and # in it\nC=\n#D=4\nE=no newline"));
	finished(NULL);
	cr_expect_str_eq(env_of("A"), "1");
	cr_expect_str_eq(env_of("B"), "has = and # in it");
	cr_expect_str_eq(env_of("C"), "");
	cr_expect_null(env_of("D"));
	cr_expect_str_eq(env_of("E"), "no newline");
}

static void refuses_file(const char *path, const char *in_message)
{
	struct err e = { 0 };

	cr_expect_eq(params_read(&o, param_of(PARAM_ENV_FILE), path, &e), -1, "%s", path);
	cr_expect(strstr(e.msg, in_message), "%s", e.msg);
}

Test(runopts, a_malformed_env_file_is_refused_by_line)
{
	static char large[(1 << 20) + 1];

	refuses_file(ENV_FILE("A=1\n\nB\n"), "env:3:");
	refuses_file(ENV_FILE("A=1\n=x\n"), "env:2");
	refuses_file(ENV_FILE("A=1\nexport B=2\n"), "env:2");
	refuses_file(ENV_FILE("A=1\0B=2\n"), "NUL");
	memset(large, 'A', sizeof(large));
	refuses_file(file_with("env", large, sizeof(large)), "more than");
	refuses_file("/no/such/file", "No such file");
	refuses_file("/tmp", "neither a file nor a pipe");
	refuses_file("/dev/zero", "neither a file nor a pipe");
}

Test(runopts, an_empty_env_file_adds_nothing)
{
	set(PARAM_ENV_FILE, ENV_FILE(""));
	set(PARAM_ENV_FILE, ENV_FILE("\n"));
	cr_expect_eq(o.env.count, 0);
}

static uint64_t caps_with(const char *const *add, const char *const *drop)
{
	struct err e;

	runopts_release(&o);
	runopts_init(&o, &config);
	for (; *add; add++)
		set(PARAM_CAP_ADD, *add);
	for (; *drop; drop++)
		set(PARAM_CAP_DROP, *drop);
	cr_assert_eq(finish(NULL, &e), 0, "%s", e.msg);
	return o.spec.caps;
}

#define LIST(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(,) NULL })

Test(runopts, capabilities_are_the_default_plus_added_minus_dropped)
{
	uint64_t all = caps_with(LIST("ALL"), LIST());
	uint64_t d = caps_default();

	cr_expect_eq(caps_with(LIST(), LIST()), d);
	cr_expect_eq(caps_with(LIST("NET_RAW"), LIST()), d | BIT(CAP_NET_RAW));
	cr_expect_eq(caps_with(LIST("cap_net_raw", "CHOWN"), LIST()), d | BIT(CAP_NET_RAW));
	cr_expect_eq(caps_with(LIST(), LIST("CHOWN")), d & ~BIT(CAP_CHOWN));
	cr_expect_eq(caps_with(LIST(), LIST("CHOWN", "KILL")), d & ~BIT(CAP_CHOWN) & ~BIT(CAP_KILL));
	cr_expect_eq(caps_with(LIST(), LIST("SYS_ADMIN")), d, "dropping what is not held is fine");
	cr_expect_eq(caps_with(LIST(), LIST("ALL")), 0);
	cr_expect_eq(caps_with(LIST("CHOWN"), LIST("ALL")), BIT(CAP_CHOWN));
	cr_expect_eq(caps_with(LIST("CHOWN", "KILL"), LIST("ALL", "CHOWN")), BIT(CAP_CHOWN) | BIT(CAP_KILL));
	cr_expect_eq(caps_with(LIST("NET_RAW"), LIST("NET_RAW")), d, "drop wins over add");
	cr_expect_eq(caps_with(LIST("ALL"), LIST("SYS_ADMIN")), all & ~BIT(CAP_SYS_ADMIN));
	cr_expect_eq(caps_with(LIST("ALL"), LIST("ALL")), all, "--cap-drop ALL empties the default only");
	cr_expect_gt(__builtin_popcountll(all), 30);
}

Test(runopts, every_limit_refuses_garbage_and_keeps_its_value)
{
	static const int ids[] = {
		PARAM_MEMORY, PARAM_SWAP, PARAM_CPUS, PARAM_CPU_TIME, PARAM_CPU_WEIGHT, PARAM_CPUSET, PARAM_PIDS, PARAM_DISK,
		PARAM_DISK_INODES, PARAM_TMP_SIZE, PARAM_SHM_SIZE, PARAM_TIMEOUT, PARAM_GRACE, PARAM_ULIMIT,
	};
	static const char *const bad[] = {
		"", " ", "abc", "-1", "+1", "0x10", "1 ", " 1", "1e9", "nan", "inf", "infinite", "Unlimited", "UNLIMITED", "unlimited ", "max", "-",
		"99999999999999999999999", "18446744073709551616", "1..2", "\n", "%s",
	};
	size_t i, k;

	for (i = 0; i < ARRAY_LEN(ids); i++) {
		for (k = 0; k < ARRAY_LEN(bad); k++) {
			struct spec before;
			struct err e = { 0 };

			memcpy(&before, &o.spec, sizeof(before));	/* with the bytes between members */
			cr_expect_eq(params_read(&o, param_of(ids[i]), bad[k], &e), -1, "option %d takes '%s'", ids[i], bad[k]);
			cr_expect_eq(e.code, ERR_INVALID, "option %d '%s': %s", ids[i], bad[k], e.msg);
			cr_expect_eq(memcmp(&before, &o.spec, sizeof(before)), 0, "option %d '%s' changed the spec", ids[i], bad[k]);
		}
	}
}

static const struct { int id; const char *least, *below, *most, *above; } ranges[] = {
	{ PARAM_MEMORY, "512k", "524287", "1152921504606846976", "1152921504606846977" },
	{ PARAM_SWAP, "0", NULL, "1152921504606846976", "1152921504606846977" },
	{ PARAM_CPUS, "0.01", "0.009", "4096", "4096.001" },
	{ PARAM_CPU_WEIGHT, "1", "0", "10000", "10001" },
	{ PARAM_PIDS, "2", "1", "4194304", "4194305" },
	{ PARAM_DISK, "1m", "1048575", "1024t", "1025t" },
	{ PARAM_DISK_INODES, "64", "63", "2147483648", "2147483649" },
	{ PARAM_TMP_SIZE, "0", NULL, "1024t", "1025t" },
	{ PARAM_SHM_SIZE, "4k", "4095", "1024t", "1025t" },
	{ PARAM_TIMEOUT, "0", NULL, "366d", "367d" },
	{ PARAM_CPU_TIME, "0", NULL, "366d", "367d" },
	{ PARAM_GRACE, "0", NULL, "24h", "24h1ms" },
};

Test(runopts, every_limit_has_the_documented_range)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(ranges); i++) {
		struct err e = { 0 };

		set(ranges[i].id, ranges[i].least);
		set(ranges[i].id, ranges[i].most);
		cr_expect_eq(params_read(&o, param_of(ranges[i].id), ranges[i].above, &e), -1, "%s", ranges[i].above);
		if (ranges[i].below)
			cr_expect_eq(params_read(&o, param_of(ranges[i].id), ranges[i].below, &e), -1, "%s", ranges[i].below);
	}
}

/* isolate's trap: a value that was given becomes "no limit". */
Test(runopts, a_time_too_short_to_count_is_refused_not_taken_as_none)
{
	static const int ids[] = { PARAM_TIMEOUT, PARAM_CPU_TIME, PARAM_GRACE };
	static const char *const tiny[] = { "0.5ms", "0.001ms", "0.999ms" };
	size_t i, k;

	for (i = 0; i < ARRAY_LEN(ids); i++) {
		for (k = 0; k < ARRAY_LEN(tiny); k++) {
			struct err e = { 0 };

			cr_expect_eq(params_read(&o, param_of(ids[i]), tiny[k], &e), -1, "option %d: %s", ids[i], tiny[k]);
		}
		set(ids[i], "1ms");
	}
	cr_expect(o.spec.timeout_ms == 1 && o.spec.cpu_time_ms == 1 && o.spec.grace_ms == 1);
}

Test(runopts, unlimited_is_said_in_full)
{
	set(PARAM_MEMORY, "unlimited");
	set(PARAM_SWAP, "unlimited");
	set(PARAM_CPUS, "unlimited");
	set(PARAM_PIDS, "unlimited");
	cr_expect_eq(o.spec.limits.memory_bytes, CGROUP_UNLIMITED);
	cr_expect_eq(o.spec.limits.swap_bytes, CGROUP_UNLIMITED);
	cr_expect_eq(o.spec.limits.cpu_milli, CGROUP_UNLIMITED);
	cr_expect_eq(o.spec.limits.pids, CGROUP_UNLIMITED);
}

Test(runopts, the_last_of_a_repeated_limit_counts)
{
	set(PARAM_MEMORY, "1g");
	set(PARAM_MEMORY, "64m");
	set(PARAM_TIMEOUT, "5");
	set(PARAM_TIMEOUT, "1m30s");
	cr_expect_eq(o.spec.limits.memory_bytes, 64 << 20);
	cr_expect_eq(o.spec.timeout_ms, 90000);
}

Test(runopts, a_list_of_cpus_is_read_strictly)
{
	static const char *const good[] = { "0", "0-1", "0,1", "0-1,3", "0-0", "3,1,2", "8191", "0-8191" };
	static const char *const bad[] = {
		",", "-", "0,", ",0", "0,,1", "0-", "-0", "1-0", "0-1-2", "0--1", "0 1", "0;1", "0-99999999", "8192", "4294967296",
		"18446744073709551616", "0-1,", "a", "0x1", "all",
	};
	static char longer[600];
	size_t i;

	for (i = 0; i < ARRAY_LEN(good); i++) {
		set(PARAM_CPUSET, good[i]);
		cr_expect_str_eq(o.spec.limits.cpuset, good[i]);
	}
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };

		cr_expect_eq(params_read(&o, param_of(PARAM_CPUSET), bad[i], &e), -1, "'%s'", bad[i]);
		cr_expect_eq(e.code, ERR_INVALID, "'%s'", bad[i]);
	}
	for (i = 0; i + 3 < sizeof(longer); i += 2)
		memcpy(longer + i, "0,", 3);
	strcat(longer, "0");
	cr_expect_eq(params_read(&o, param_of(PARAM_CPUSET), longer, &(struct err){ 0 }), -1);
	cr_expect_str_eq(o.spec.limits.cpuset, good[ARRAY_LEN(good) - 1]);
}

Test(runopts, ulimits_add_to_the_defaults_and_are_remembered_as_asked)
{
	set(PARAM_ULIMIT, "nofile=100:200");
	set(PARAM_ULIMIT, "stack=8388608");
	cr_expect(o.spec.rlimits.v[RLIMIT_NOFILE].soft == 100 && o.spec.rlimits.v[RLIMIT_NOFILE].hard == 200);
	cr_expect_eq(o.spec.rlimits.v[RLIMIT_CORE].hard, 1);
	cr_expect_eq(o.ulimits_asked, 1u << RLIMIT_NOFILE | 1u << RLIMIT_STACK);
}

Test(runopts, the_callers_words_beat_the_image_and_the_image_the_configuration)
{
	finished(&image);
	cr_expect_str_eq(o.spec.user, "1000");
	cr_expect_str_eq(o.spec.workdir, "/app");
	runopts_release(&o);
	runopts_init(&o, &config);
	set(PARAM_USER, "7:8");
	set(PARAM_WORKDIR, "/w");
	finished(&image);
	cr_expect_str_eq(o.spec.user, "7:8");
	cr_expect_str_eq(o.spec.workdir, "/w");
}

static void argv_is(const struct image *im, const char *entry, int host, char *const *words, const char *const *want)
{
	struct err e = { 0 };
	size_t n = 0, i;

	runopts_release(&o);
	runopts_init(&o, &config);
	o.spec.host_image = host;
	if (entry)
		set(PARAM_ENTRYPOINT, entry);
	while (words[n])
		n++;
	cr_assert_eq(runopts_finish(&o, im, (char **)words, n, &e), 0, "%s", e.msg);
	for (i = 0; want[i] && i < o.spec.argc; i++)
		cr_expect_str_eq(o.spec.argv[i], want[i]);
	cr_expect(!want[i] && i == o.spec.argc, "%zu words", o.spec.argc);
}

Test(runopts, the_command_is_entry_point_and_words_or_cmd)
{
	char *const words[] = { (char *)"w1", (char *)"-w2", NULL };
	struct image bare = image;

	bare.entrypoint_count = 0;
	argv_is(&image, NULL, 0, none, LIST("entry", "-x", "cmd", "arg"));
	argv_is(&image, NULL, 0, words, LIST("entry", "-x", "w1", "-w2"));
	argv_is(&image, "mine", 0, none, LIST("mine"));
	argv_is(&image, "mine", 0, words, LIST("mine", "w1", "-w2"));
	argv_is(&image, "", 0, words, LIST("w1", "-w2"));
	argv_is(&image, "", 0, none, LIST());
	argv_is(&bare, NULL, 0, none, LIST("cmd", "arg"));
	argv_is(&bare, NULL, 0, words, LIST("w1", "-w2"));
	argv_is(NULL, NULL, 0, none, LIST());
	argv_is(NULL, NULL, 1, none, LIST("/bin/sh"));
	argv_is(NULL, NULL, 1, words, LIST("w1", "-w2"));
}

Test(runopts, a_profile_is_built_in_or_a_file)
{
	static const char *const builtin[] = { "strict", "standard", "dev" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(builtin); i++) {
		runopts_release(&o);
		runopts_init(&o, &config);
		set(PARAM_SECCOMP, builtin[i]);
		finished(NULL);
		cr_expect_not(o.spec.unconfined_seccomp);
		cr_expect_eq(o.spec.hide_pids, !strcmp(builtin[i], "strict"));
	}
	set(PARAM_SECCOMP, "unconfined");
	finished(NULL);
	cr_expect(o.spec.unconfined_seccomp);
}

Test(runopts, an_unknown_profile_is_refused)
{
	static const char *const bad[] = {
		"", "none", "off", "Strict", "strict ", "default", "init", "unconfined ", "/no/such.json", "no.json", "/dev/zero", "/tmp",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e;

		runopts_release(&o);
		runopts_init(&o, &config);
		set(PARAM_SECCOMP, bad[i]);
		cr_expect_eq(finish(NULL, &e), -1, "'%s'", bad[i]);
		cr_expect_not(o.spec.unconfined_seccomp, "'%s'", bad[i]);
		cr_expect(e.msg[0]);
	}
}

Test(runopts, a_profile_from_a_file_is_stacked_on_the_standard_one)
{
	set(PARAM_SECCOMP, file_with("p.json", "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}", 34));
	finished(NULL);
	cr_expect(o.spec.seccomp == &o.custom && !o.spec.unconfined_seccomp);
	cr_expect_gt(o.custom.a.len, 0, "an allow-all file must not switch the first filter off");
	cr_expect_eq(o.custom.a.insns, seccomp_builtin("standard")->a.insns);
}

Test(runopts, network_enabled_means_a_bridge_unless_told_otherwise)
{
	config.network_enabled = 1;
	finished(NULL);
	cr_expect_eq(o.spec.network, NETWORK_BRIDGE);
	cr_expect(strstr(o.spec.net_policy, "\"bridge\""), "%s", o.spec.net_policy);
}

Test(runopts, network_enabled_yields_to_the_option)
{
	config.network_enabled = 1;
	set(PARAM_NETWORK, "none");
	finished(NULL);
	cr_expect_eq(o.spec.network, NETWORK_NONE);
	cr_expect_null(o.spec.net_policy);
}

Test(runopts, rules_without_a_network_that_has_them_are_refused)
{
	struct err e;

	set(PARAM_ALLOW_HOST, "example.com");
	cr_expect_eq(finish(NULL, &e), -1);
	cr_expect_eq(e.code, ERR_INVALID);
	cr_expect(strstr(e.msg, "--network egress"), "%s", e.msg);
}

Test(runopts, egress_has_a_policy_and_the_proxy_s_variables)
{
	size_t i, found = 0;

	set(PARAM_NETWORK, "egress");
	set(PARAM_ALLOW_HOST, "example.com");
	set(PARAM_NETWORK_BYTES, "1k");
	finished(NULL);
	cr_expect_str_eq(o.spec.net_policy, "{\"allow_host\":[\"example.com\"],\"max_bytes\":1024}");
	for (i = 0; i < o.spec.env_count; i++)
		found += !strcmp(o.spec.env[i], "https_proxy=http://127.0.0.1:3128") || !strcmp(o.spec.env[i], "HTTPS_PROXY=http://127.0.0.1:3128");
	cr_expect_eq(found, 2);
}

Test(runopts, a_relative_directory_and_an_empty_user_are_refused)
{
	struct err e = { 0 };

	cr_expect_eq(params_read(&o, param_of(PARAM_WORKDIR), "rel", &e), -1);
	cr_expect_eq(params_read(&o, param_of(PARAM_WORKDIR), "", &e), -1);
	cr_expect_eq(params_read(&o, param_of(PARAM_USER), "", &e), -1);
	cr_expect_eq(e.code, ERR_INVALID);
}

Test(runopts, mounts_of_all_kinds_come_in_the_order_given)
{
	set(PARAM_TMPFS, "/a");
	set(PARAM_VOLUME, "/usr:/b");
	set(PARAM_MOUNT, "type=tmpfs,dst=/c");
	cr_assert_eq(o.spec.mount_count, 3);
	cr_expect_str_eq(o.spec.mounts[0].target, "/a");
	cr_expect_str_eq(o.spec.mounts[1].target, "/b");
	cr_expect_str_eq(o.spec.mounts[2].target, "/c");
}

Test(runopts, thousands_of_variables_are_kept_and_released)
{
	static char text[5000][24];
	int i;

	for (i = 0; i < 5000; i++) {
		snprintf(text[i], sizeof(text[i]), "V%d=%d", i, i);
		set(PARAM_ENV, text[i]);
	}
	finished(NULL);
	cr_expect_str_eq(env_of("V0"), "0");
	cr_expect_str_eq(env_of("V4999"), "4999");
}

Test(runopts, release_is_idempotent)
{
	set(PARAM_ENV, "A=1");
	set(PARAM_TMPFS, "/a");
	finished(NULL);
	runopts_release(&o);
	runopts_release(&o);
	cr_expect_null(o.spec.env);
}

Test(runopts, a_network_that_is_no_mode_is_a_name)
{
	static const char *const bad[] = { "", " ", "None", "a b", "../x", "default", "x/y", "sandbox:" };
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_eq(params_read(&o, param_of(PARAM_NETWORK), bad[i], &e), -1, "'%s'", bad[i]);
	set(PARAM_NETWORK, "app");
	cr_expect_eq(o.spec.network, NETWORK_BRIDGE);
	cr_expect_str_eq(o.net.name, "app");
	set(PARAM_NETWORK, "bridge");
	cr_expect_str_eq(o.net.name, "");
}
