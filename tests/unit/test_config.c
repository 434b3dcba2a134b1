/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/host/config.h"

static struct config c;

static void good(const char *text)
{
	struct err e = { 0 };

	cr_expect_eq(config_parse(text, strlen(text), "f", &c, &e), 0, "%s\n%s", text, e.msg);
}

static void bad(const char *text, const char *message)
{
	struct err e = { 0 };

	cr_expect_eq(config_parse(text, strlen(text), "f", &c, &e), -1, "accepted: %s", text);
	cr_expect_eq(e.code, ERR_CONFIG, "%s", text);
	cr_expect(strstr(e.msg, message), "%s\n  says     %s\n  expected %s", text, e.msg, message);
	cr_expect(!strncmp(e.msg, "f:", 2), "%s", e.msg);
}

Test(config, defaults_are_those_of_the_design)
{
	size_t i;

	config_defaults(&c);
	cr_expect_str_eq(c.image, "host");
	cr_expect_str_eq(c.work_dir, "/workspace");
	cr_expect_eq(c.memory_bytes, 512 << 20);
	cr_expect_eq(c.swap_bytes, 0);
	cr_expect_eq(c.cpu_milli, 1000);
	cr_expect_eq(c.pids, 512);
	cr_expect_eq(c.disk_bytes, 256 << 20);
	cr_expect_eq(c.disk_inodes, 65536);
	cr_expect_eq(c.tmp_bytes, 0);
	cr_expect_eq(c.timeout_ms, 300000);
	cr_expect_eq(c.grace_ms, 2000);
	cr_expect_eq(c.network_enabled, 0);
	cr_expect_str_eq(c.seccomp, "standard");
	cr_expect_str_eq(c.hostname, "sandbox");
	cr_expect_str_eq(c.user, "");
	cr_expect_eq(c.max_sandboxes, 100);
	cr_expect_eq(c.idle_timeout_ms, 3600000);
	cr_expect_eq(c.cleanup_interval_ms, 300000);
	cr_expect_str_eq(c.state_dir, "/var/lib/berth");
	cr_expect_str_eq(c.run_dir, "/run/berth");
	cr_expect_str_eq(c.cgroup_parent, "berth");
	cr_expect_str_eq(c.ids_dir, "/var/lib/berth-ids");
	/* the ranges end where the ids for images of foreign systems begin */
	cr_expect_eq(c.id_base, 2000224256u);
	cr_expect_eq(c.id_base + c.id_count * 65536u, 0x7ffe0000u);
	cr_expect_str_eq(c.file, "");
	for (i = 0; i < config_key_count; i++)
		cr_expect_str_eq(config_source_name(&c, i), "default");
}

Test(config, each_type_is_read_in_its_forms)
{
	good("");
	good("[sandbox]\nmemory_limit = 1048576\nswap_limit = '1g'\ncpu_limit = 2\ntimeout = 5\ngrace = '1.5s'\n"
	     "network_enabled = true\ndisk_limit = '1.5g'\nuser = 'a:b'\n[ids]\ncount = 0x10\n");
	cr_expect_eq(c.memory_bytes, 1 << 20);
	cr_expect_eq(c.swap_bytes, 1 << 30);
	cr_expect_eq(c.cpu_milli, 2000);
	cr_expect_eq(c.timeout_ms, 5000);
	cr_expect_eq(c.grace_ms, 1500);
	cr_expect_eq(c.network_enabled, 1);
	cr_expect_eq(c.disk_bytes, 3 << 29);
	cr_expect_str_eq(c.user, "a:b");
	cr_expect_eq(c.id_count, 16);
	good("[sandbox]\ncpu_limit = 0.125\ntimeout = 0\n");
	cr_expect_eq(c.cpu_milli, 125);
	cr_expect_eq(c.timeout_ms, 0);
	good("sandbox.cpu_limit = 0.3\n");
	cr_expect_eq(c.cpu_milli, 300);
	good("sandbox = { pids_limit = 7 }\n");
	cr_expect_eq(c.pids, 7);
	cr_expect_eq(c.memory_bytes, 512 << 20, "a value of the parse before remains");
}

Test(config, what_is_unknown_is_refused_with_a_suggestion)
{
	bad("[sandbxo]\n", "f: unknown section [sandbxo]; hint: did you mean [sandbox]?");
	bad("[wires]\n", "unknown section [wires]; hint: berth config show lists");
	bad("[sandbox]\nmemory = 1\n", "unknown key memory in [sandbox]; hint: did you mean memory_limit?");
	bad("[sandbox]\ncpu_limt = 1\n", "hint: did you mean cpu_limit?");
	bad("[sandbox]\nmax_sandboxes = 1\n", "unknown key max_sandboxes in [sandbox]; hint: it belongs under [manager]");
	bad("[sandbox]\nunheard_of = true\n", "unknown key unheard_of in [sandbox]; hint: berth config show lists");
	bad("memory_limit = '1g'\n", "key memory_limit stands outside its section; hint: put it under [sandbox]");
	bad("sandbox = 1\n", "sandbox is not a table; hint: [sandbox]");
	bad("[[sandbox]]\n", "sandbox is not a table");
	bad("[sandbox]\nmemory_limit = \n", "f:2:16: expected a value");
}

Test(config, wrong_types_and_ranges_are_refused)
{
	bad("[sandbox]\nmemory_limit = 'abc'\n", "sandbox.memory_limit 'abc' is not a size");
	bad("[sandbox]\nmemory_limit = '-1'\n", "is not a size");
	bad("[sandbox]\nmemory_limit = -1\n", "sandbox.memory_limit is out of range");
	bad("[sandbox]\nmemory_limit = 1.5\n", "sandbox.memory_limit has the wrong type; hint: a size");
	bad("[sandbox]\nmemory_limit = true\n", "wrong type");
	bad("[sandbox]\nmemory_limit = '1k'\n", "out of range");
	bad("[sandbox]\nmemory_limit = 1\n", "out of range");
	bad("[sandbox]\ncpu_limit = 'two'\n", "wrong type; hint: a number");
	bad("[sandbox]\ncpu_limit = '2'\n", "wrong type; hint: a number");
	bad("[sandbox]\ncpu_limit = -0.5\n", "out of range");
	bad("[sandbox]\ncpu_limit = 0\n", "out of range");
	bad("[sandbox]\ncpu_limit = 1e300\n", "out of range");
	bad("[sandbox]\ncpu_limit = 0.1234\n", "more than three decimals");
	bad("[sandbox]\npids_limit = '512'\n", "wrong type; hint: an integer");
	bad("[sandbox]\npids_limit = 1\n", "out of range; hint: 2 to 4194304");
	bad("[sandbox]\ntimeout = '5 minutes'\n", "not a duration");
	bad("[sandbox]\ntimeout = -5\n", "out of range");
	bad("[sandbox]\ntimeout = 9223372036854775807\n", "out of range");
	bad("[sandbox]\nnetwork_enabled = 1\n", "wrong type; hint: true or false");
	bad("[sandbox]\nnetwork_enabled = 'yes'\n", "wrong type; hint: true or false");
	bad("[sandbox]\nimage = 1\n", "wrong type; hint: a string");
	bad("[sandbox]\nimage = ''\n", "sandbox.image has 0 bytes");
	bad("[sandbox]\nimage = \"a\\nb\"\n", "control character");
	bad("[sandbox]\nwork_dir = 'relative'\n", "not an absolute path");
	bad("[sandbox]\nwork_dir = '/a/../b'\n", "has a .. in it");
	bad("[sandbox]\nwork_dir = '/..'\n", "has a .. in it");
	bad("[paths]\nstate_dir = '/'\n", "has 1 bytes");
	bad("[sandbox]\nhostname = 'a b'\n", "not a host name");
	bad("[sandbox]\nhostname = '-x'\n", "not a host name");
	bad("[cgroup]\nparent = 'system.slice'\n", "not a name beginning with berth");
	bad("[cgroup]\nparent = 'berth/../x'\n", "not a name beginning with berth");
	bad("[ids]\nbase = 65537\n", "not a multiple of 65536");
	bad("[ids]\nbase = 0\n", "out of range");
	bad("[ids]\nbase = 4294836224\ncount = 2\n", "reach past");
	bad("[ids]\nbase = 4294967296\n", "out of range");
}

Test(config, the_last_range_of_ids_ends_before_the_last_id)
{
	good("[ids]\nbase = 4294836224\ncount = 1\n");
	cr_expect_leq((uint64_t)c.id_base + c.id_count * 65536ULL, 4294901760ULL);
}

/* What config show prints means the same when it is read again. */
Test(config, shown_values_read_back)
{
	static struct config again;
	static char text[70000], value[CONFIG_TOML_MAX];
	size_t i, n = 0;

	good("[sandbox]\nimage = 'a\"b\\c'\nmemory_limit = 1048577\nswap_limit = '3g'\ncpu_limit = 0.125\ngrace = '1500ms'\n"
	     "network_enabled = true\nuser = '1000:1000'\n[policy]\ndeny = ['rm -rf \"/\"', ':(){:|:&};:']\n[ids]\nbase = 655360\n");
	for (i = 0; i < config_key_count; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s.%s = %s\n", config_keys[i].section, config_keys[i].name,
				      config_value_toml(&c, &config_keys[i], value, sizeof(value)));
	again = c;
	good(text);
	for (i = 0; i < config_key_count; i++)
		cr_expect(!memcmp((char *)&c + config_keys[i].offset, (char *)&again + config_keys[i].offset,
				  config_keys[i].type == CONFIG_STRING || config_keys[i].type == CONFIG_LIST ?
				  strlen((char *)&c + config_keys[i].offset) + 1 : config_keys[i].size),
			  "%s.%s", config_keys[i].section, config_keys[i].name);
}

Test(config, keys_are_unique_and_fit_their_fields)
{
	size_t i, j;

	for (i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];

		if (k->type == CONFIG_STRING || k->type == CONFIG_LIST)
			cr_expect_lt(k->max, k->size, "%s", k->name);
		else
			cr_expect_eq(k->size, k->type == CONFIG_BOOL || k->type == CONFIG_U32 ? 4 : 8, "%s", k->name);
		for (j = 0; j < i; j++) {
			cr_expect(strcmp(k->name, config_keys[j].name), "%s", k->name);
			cr_expect_neq(k->offset, config_keys[j].offset, "%s", k->name);
		}
	}
}

/* ---- the file and the environment ---- */

static char path[64];

static void write_file(const char *text, mode_t mode)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/berth-config-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void refused(const char *message)
{
	struct err e = { 0 };

	cr_expect_eq(config_load_file(path, &c, &e), -1);
	cr_expect_eq(e.code, ERR_CONFIG);
	cr_expect(strstr(e.msg, message), "%s", e.msg);
}

Test(config, a_file_that_others_may_write_is_refused)
{
	struct err e;

	write_file("[sandbox]\npids_limit = 9\n", 0644);
	cr_expect_eq(config_load_file(path, &c, &e), 0);
	cr_expect_eq(c.pids, 9);
	cr_expect_str_eq(c.file, path);
	chmod(path, 0664);
	refused("may be written by others; hint: chmod go-w");
	chmod(path, 0646);
	refused("may be written by others");
	if (geteuid() == 0) {
		chmod(path, 0644);
		cr_assert_eq(chown(path, 1000, 0), 0);
		refused("belongs to user 1000; hint: chown root");
	}
	unlink(path);
	refused("No such file");
	mkdir(path, 0700);
	refused("not a regular file");
	rmdir(path);
	mkfifo(path, 0600);
	refused("not a regular file");
	unlink(path);
}

Test(config, a_huge_file_is_refused)
{
	write_file("", 0600);
	cr_assert_eq(truncate(path, CONFIG_MAX_BYTES + 1), 0);
	refused("more than 1048576 bytes");
	unlink(path);
}

Test(config, the_environment_overrides_three_keys)
{
	struct err e = { 0 };

	write_file("[paths]\nstate_dir = '/from/file'\nrun_dir = '/run/file'\n", 0600);
	setenv("BERTH_CONFIG", path, 1);
	setenv("BERTH_STATE_DIR", "/from/env", 1);
	setenv("BERTH_CGROUP_PARENT", "berth-env", 1);
	unsetenv("BERTH_RUN_DIR");
	cr_expect_eq(config_load(&c, &e), 0, "%s", e.msg);
	cr_expect_str_eq(c.state_dir, "/from/env");
	cr_expect_str_eq(c.run_dir, "/run/file");
	cr_expect_str_eq(c.cgroup_parent, "berth-env");
	setenv("BERTH_STATE_DIR", "", 1);
	cr_expect_eq(config_load(&c, &e), -1);
	cr_expect_eq(e.code, ERR_CONFIG);
	setenv("BERTH_STATE_DIR", "relative/path", 1);
	cr_expect_eq(config_load(&c, &e), -1);
	cr_expect(strstr(e.msg, "$BERTH_STATE_DIR 'relative/path' is not an absolute path"), "%s", e.msg);
	unsetenv("BERTH_STATE_DIR");
	setenv("BERTH_CGROUP_PARENT", "system.slice", 1);
	cr_expect_eq(config_load(&c, &e), -1);
	unsetenv("BERTH_CGROUP_PARENT");
	unlink(path);
	cr_expect_eq(config_load(&c, &e), -1, "the file that $BERTH_CONFIG names is absent");
}
