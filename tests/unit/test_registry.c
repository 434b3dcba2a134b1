/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry in a directory of its own.  A supervisor that crashed is a
 * child that took a claim and was killed.  gc looks for cgroups below a parent
 * that does not exist, so the machine's are not touched.  Attacks S3 of SECURITY.md.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/procid.h"
#include "manager/host/ranges.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/restart.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/sandbox/spec.h"

static char place[] = "/tmp/berth-registry-XXXXXX";
static struct config config;
static struct registry reg;

static void enter(void)
{
	struct err e = { 0 };

	cr_assert(mkdtemp(place));
	config_defaults(&config);
	snprintf(config.run_dir, sizeof(config.run_dir), "%s/run", place);
	snprintf(config.state_dir, sizeof(config.state_dir), "%s/state", place);
	snprintf(config.cgroup_parent, sizeof(config.cgroup_parent), "berth-unit-no-such-parent");
	config.max_sandboxes = 100;
	config.id_base = 1 << 20;
	snprintf(config.ids_dir, sizeof(config.ids_dir), "%s/hostids", place);
	config.id_count = 100;
	cr_assert_eq(registry_open(&reg, &config, &e), 0, "%s", e.msg);
	alarm(120);
}

static void leave(void)
{
	struct err e;

	registry_close(&reg);
	cr_expect_eq(path_remove_tree(AT_FDCWD, place, &e), 0, "%s", e.msg);
}

TestSuite(registry, .init = enter, .fini = leave);

static int claim(const char *name, int lasting, struct claim *c, struct err *e)
{
	memset(e, 0, sizeof(*e));
	return registry_claim(&reg, name, lasting, NULL, c, e);
}

static struct claim claimed(const char *name, int lasting)
{
	struct claim c;
	struct err e;

	cr_assert_eq(claim(name, lasting, &c, &e), 0, "%s", e.msg);
	return c;
}

static void release(struct claim *c)
{
	struct err e = { 0 };

	cr_expect_eq(registry_release(&reg, c, &e), 0, "%s", e.msg);
}

static unsigned entries(const char *below)
{
	char path[200];
	struct dirent *d;
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%s", place, below);
	dir = opendir(path);
	while (dir && (d = readdir(dir)))
		n += d->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

static void record(const struct claim *c, const char *name)
{
	autojson json_t *j = json_pack("{s:i,s:s,s:s}", "version", 1, "id", c->id, "name", name);
	struct err e = { 0 };

	cr_assert_eq(record_save_run(c, j, &e), 0, "%s", e.msg);
}

/* A supervisor that takes a claim and dies without a word; its id in ret_id. */
static void crash(const char *name, int lasting, char ret_id[65])
{
	int p[2], status;
	pid_t pid;

	cr_assert_eq(pipe(p), 0);
	pid = fork();
	if (pid == 0) {
		struct registry mine;
		struct claim c;
		struct err e;

		if (registry_open(&mine, &config, &e) < 0 || registry_claim(&mine, name, lasting, NULL, &c, &e) < 0 ||
		    write(p[1], c.id, sizeof(c.id)) != (ssize_t)sizeof(c.id))
			_exit(1);
		raise(SIGKILL);
		_exit(1);
	}
	close(p[1]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status), "the claim of the child failed");
	cr_assert_eq(read(p[0], ret_id, 65), 65);
	close(p[0]);
}

static int can_gc(void)
{
	if (cgroup_detect() != CGROUP_NONE)
		return 1;
	cr_skip_test("no cgroup hierarchy to look for leftovers in");
	return 0;
}

Test(registry, a_claim_has_an_id_a_range_and_a_directory_and_release_frees_them)
{
	struct claim c = claimed("web", 0);

	cr_expect(path_is_name(c.id));
	cr_expect_str_eq(c.name, "web");
	cr_expect_geq(c.id_base, config.id_base);
	cr_expect_eq((c.id_base - config.id_base) % SPEC_IDS, 0);
	cr_expect_lt((c.id_base - config.id_base) / SPEC_IDS, config.id_count);
	cr_expect_eq(entries("run/sandboxes"), 1);
	cr_expect_eq(entries("state/names"), 1);
	release(&c);
	cr_expect_eq(entries("run/sandboxes"), 0);
	cr_expect_eq(entries("state/names"), 0);
	release(&c);
	release(&c);
}

Test(registry, everything_on_disk_is_for_root_only)
{
	static const char *const dirs[] = { "run", "state", "run/sandboxes", "state/ids", "state/sandboxes", "state/names" };
	struct claim c = claimed("web", 1);
	struct stat st;
	char path[200];
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", place, dirs[i]);
		cr_assert_eq(stat(path, &st), 0, "%s", path);
		cr_expect_eq(st.st_mode & 077, 0, "%s has mode %o", path, st.st_mode & 07777);
	}
	snprintf(path, sizeof(path), "%s/run/sandboxes/%s", place, c.id);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 077, 0);
	release(&c);
}

Test(registry, no_two_claims_share_an_id_or_a_range)
{
	static struct claim c[50];
	size_t i, j;

	for (i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = claimed(NULL, 0);
		for (j = 0; j < i; j++) {
			cr_expect_str_neq(c[i].id, c[j].id);
			cr_expect_neq(c[i].id_base, c[j].id_base);
		}
	}
	for (i = 0; i < ARRAY_LEN(c); i++)
		release(&c[i]);
}

Test(registry, a_name_is_taken_once_until_it_is_released)
{
	struct claim a = claimed("web", 0), b;
	struct err e;

	cr_expect_eq(claim("web", 0, &b, &e), -1);
	cr_expect_eq(e.code, ERR_EXISTS, "%s", e.msg);
	cr_expect(strstr(e.msg, a.id), "%s", e.msg);
	cr_expect_eq(entries("run/sandboxes"), 1, "the refused claim left something");
	release(&a);
	b = claimed("web", 0);
	release(&b);
}

Test(registry, a_malformed_name_is_refused_and_leaves_nothing)
{
	static const char *const bad[] = { "..", ".", "-x", "a/b", "../a", "A", "a b", "a\n", "/", "web\x1b[2J", "%s" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct claim c;
		struct err e;

		cr_expect_eq(claim(bad[i], i % 2, &c, &e), -1, "'%s'", bad[i]);
		cr_expect_eq(e.code, ERR_INVALID, "'%s': %s", bad[i], e.msg);
		cr_expect_eq(entries("run/sandboxes") + entries("state/sandboxes") + entries("state/names"), 0, "'%s'", bad[i]);
	}
}

Test(registry, the_limit_is_exact_and_names_the_remedy)
{
	struct claim c[3], more;
	struct err e;
	size_t i;

	config.max_sandboxes = 3;
	for (i = 0; i < 3; i++)
		c[i] = claimed(NULL, i == 2);
	cr_expect_eq(claim(NULL, 0, &more, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
	cr_expect(strstr(e.msg, "3") && strstr(e.msg, "hint:"), "%s", e.msg);
	cr_expect_eq(entries("run/sandboxes"), 3);
	release(&c[0]);
	more = claimed(NULL, 0);
	release(&more);
	release(&c[1]);
	release(&c[2]);
}

Test(registry, a_stopped_sandbox_counts_against_a_limit_of_its_own)
{
	const struct promise p = { .memory_bytes = 1, .cpu_milli = 1 };
	struct claim a, b, more;
	struct err e;
	char id[65], second[65];
	autojson json_t *j = json_pack("{s:i,s:s}", "version", 1, "name", "keep");

	config.max_sandboxes = 2;
	a = claimed("keep", 1);
	memcpy(id, a.id, sizeof(id));
	cr_assert_eq(record_keep(&reg, id, j, &e), 0, "%s", e.msg);
	b = claimed(NULL, 0);
	release(&b);
	release(&a);
	cr_expect_eq(entries("state/sandboxes"), 1);
	cr_expect_eq(claim("keep", 0, &b, &e), -1, "its name is kept too");
	cr_expect_eq(e.code, ERR_EXISTS, "%s", e.msg);
	/* it takes no place from one that runs, but from one that will stop as it did */
	config.max_stopped = 1;
	a = claimed(NULL, 0);
	cr_expect_eq(claim(NULL, 1, &b, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT, "%s", e.msg);
	cr_expect(strstr(e.msg, "1 stopped") && strstr(e.msg, "max_stopped"), "%s", e.msg);
	b = claimed(NULL, 0);
	/* and it needs one to run again, though not to have its files looked at */
	cr_expect_eq(registry_reclaim(&reg, id, &p, &more, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT, "%s", e.msg);
	cr_expect(strstr(e.msg, "2 sandboxes run") && strstr(e.msg, "max_sandboxes"), "%s", e.msg);
	cr_expect_eq(entries("run/sandboxes"), 2);
	cr_expect_eq(registry_reclaim(&reg, id, NULL, &more, &e), 0, "%s", e.msg);
	release(&more);
	release(&b);
	release(&a);
	config.max_stopped = 2;
	a = claimed(NULL, 1);
	cr_expect_eq(record_keep(&reg, a.id, j, &e), 0, "%s", e.msg);
	memcpy(second, a.id, sizeof(second));
	release(&a);
	cr_expect_eq(registry_forget(&reg, second, &e), 0, "%s", e.msg);
	cr_expect_eq(registry_reclaim(&reg, id, &p, &a, &e), 0, "%s", e.msg);
	cr_expect_str_eq(a.id, id);
	cr_expect_eq(registry_reclaim(&reg, id, NULL, &b, &e), -1, "it runs");
	cr_expect_eq(e.code, ERR_EXISTS);
	cr_expect_eq(entries("run/sandboxes"), 1, "the refused claim took the living one with it");
	release(&a);
	cr_expect_eq(registry_forget(&reg, id, &e), 0, "%s", e.msg);
	cr_expect_eq(entries("state/sandboxes"), 0);
	b = claimed("keep", 0);
	release(&b);
}

Test(registry, no_range_of_ids_left_is_a_limit)
{
	struct claim a, b, c;
	struct err e;

	config.id_count = 2;
	a = claimed(NULL, 0);
	b = claimed(NULL, 0);
	cr_expect_eq(claim(NULL, 0, &c, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT, "%s", e.msg);
	cr_expect_eq(entries("run/sandboxes"), 2, "the refused claim left a directory");
	release(&a);
	c = claimed(NULL, 0);
	release(&c);
	release(&b);
}

static size_t read_text(const char *below, char *text, size_t n)
{
	char path[200];
	FILE *f;
	size_t got;

	snprintf(path, sizeof(path), "%s/%s", place, below);
	f = fopen(path, "r");
	cr_assert(f, "%s is not there", path);
	got = fread(text, 1, n - 1, f);
	text[got] = '\0';
	fclose(f);
	return got;
}

/* The directory of a sandbox that ended serves the next, and tells it nothing. */
Test(registry, a_spare_directory_says_nothing_of_whom_it_was)
{
	static const char *const names[] = { "the-first-and-longest-of-the-names", "z-z", "one-in-between" };
	char text[4096], below[100];
	size_t i;

	for (i = 0; i < 3; i++) {
		struct claim c = claimed(NULL, 0);
		struct err e = { 0 };
		autojson json_t *j = NULL;

		snprintf(below, sizeof(below), "run/sandboxes/%s/record.json", c.id);
		record(&c, names[i]);
		j = json_parse(text, read_text(below, text, sizeof(text)), sizeof(text), "record", &e);
		cr_assert(j, "record %zu: %s", i, e.msg);
		cr_expect_str_eq(json_string_value(json_object_get(j, "name")), names[i]);
		record(&c, "again");	/* of the same sandbox: replaced */
		cr_expect(read_text(below, text, sizeof(text)) && strstr(text, "again") && !strstr(text, names[i]), "%s", text);
		record(&c, names[i]);
		release(&c);
		cr_expect_eq(entries("run/sandboxes"), 0);
		read_text("run/spare/record.json", text, sizeof(text));
		cr_expect_eq(strspn(text, " "), strlen(text), "left in the spare directory: %s", text);
	}
}

Test(registry, gc_leaves_the_living_alone)
{
	struct claim a = claimed("web", 0), b = claimed("db", 1);
	struct err e = { 0 };
	unsigned cleared = 99;

	if (!can_gc())
		return;
	cr_expect_eq(registry_gc(&reg, &cleared, &e), 0, "%s", e.msg);
	cr_expect_eq(cleared, 0);
	cr_expect_eq(entries("run/sandboxes"), 2);
	cr_expect_eq(entries("state/sandboxes"), 1, "a lasting one that is being made has no record yet");
	release(&a);
	release(&b);
}

static int count(void *ctx, const char *id)
{
	(void)id;
	++*(unsigned *)ctx;
	return 0;
}

Test(registry, gc_clears_what_a_dead_supervisor_left)
{
	struct err e = { 0 };
	unsigned cleared = 0, would = 0;
	char id[65];

	if (!can_gc())
		return;
	crash("web", 0, id);
	cr_expect_eq(entries("run/sandboxes"), 1);
	cr_expect_eq(registry_gc_dry(&reg, count, &would, &e), 0);
	cr_expect_eq(would, 1);
	cr_expect_eq(entries("run/sandboxes"), 1, "a dry run changed something");
	cr_expect_eq(registry_gc(&reg, &cleared, &e), 0, "%s", e.msg);
	cr_expect_eq(cleared, 1);
	cr_expect_eq(entries("run/sandboxes") + entries("state/names"), 0);
	cr_expect_eq(registry_gc(&reg, &cleared, &e), 0);
	cr_expect_eq(cleared, 0);
}

/* kill -9 in the middle of `run --keep` or `create`, before there is a record: nothing could ever remove it. */
Test(registry, gc_clears_a_lasting_sandbox_that_was_never_finished)
{
	struct err e = { 0 };
	unsigned cleared = 0;
	struct claim c;
	char id[65];

	if (!can_gc())
		return;
	crash("half", 1, id);
	cr_expect_eq(entries("state/sandboxes"), 1);
	cr_expect_eq(registry_gc(&reg, &cleared, &e), 0, "%s", e.msg);
	cr_expect_eq(entries("run/sandboxes") + entries("state/sandboxes") + entries("state/names"), 0);
	c = claimed("half", 1);
	release(&c);
}

Test(registry, gc_finishes_a_removal_that_was_cut_short)
{
	struct err e = { 0 };
	unsigned cleared = 0;

	if (!can_gc())
		return;
	cr_assert_eq(mkdirat(reg.kept_fd, "0123456789ab", 0700), 0);
	close(openat(reg.kept_fd, "0123456789ab/writable.img", O_WRONLY | O_CREAT, 0600));
	cr_assert_eq(symlinkat("0123456789ab", reg.names_fd, "old"), 0);
	cr_expect_eq(registry_gc(&reg, &cleared, &e), 0, "%s", e.msg);
	cr_expect_eq(cleared, 1);
	cr_expect_eq(entries("state/sandboxes") + entries("state/names"), 0);
}

Test(registry, gc_keeps_a_lasting_sandbox_with_its_name_and_clears_its_run)
{
	autojson json_t *j = json_pack("{s:i,s:s}", "version", 1, "name", "keep");
	struct err e = { 0 };
	unsigned cleared = 0;
	struct claim c;
	char id[65];

	if (!can_gc())
		return;
	crash("keep", 1, id);
	cr_assert_eq(record_keep(&reg, id, j, &e), 0);
	cr_expect_eq(registry_gc(&reg, &cleared, &e), 0, "%s", e.msg);
	cr_expect_eq(entries("run/sandboxes"), 0);
	cr_expect_eq(entries("state/sandboxes"), 1);
	cr_expect_eq(entries("state/names"), 1);
	cr_expect_eq(registry_reclaim(&reg, id, NULL, &c, &e), 0, "%s", e.msg);
	release(&c);
}

Test(registry, a_range_is_free_again_after_a_crash)
{
	struct claim c;
	char id[65];

	if (!can_gc())
		return;
	config.id_count = 1;
	crash(NULL, 0, id);
	c = claimed(NULL, 0);
	cr_expect_eq(c.id_base, config.id_base);
	cr_expect_eq(entries("run/sandboxes"), 1);
	release(&c);
}

Test(registry, the_dead_do_not_count_and_do_not_hold_names)
{
	struct claim c;
	char id[65];

	if (!can_gc())
		return;
	config.max_sandboxes = 1;
	crash("web", 0, id);
	c = claimed("web", 0);
	release(&c);
	crash("web", 0, id);
	config.max_sandboxes = 100;
	c = claimed("web", 0);
	release(&c);
}

static int collect(void *ctx, const char *id, int kept, json_t *r)
{
	char *out = ctx;

	(void)id;
	snprintf(out + strlen(out), 200 - strlen(out), "%s%s ", json_string_value(json_object_get(r, "name")), kept ? "*" : "");
	return 0;
}

Test(registry, a_list_shows_what_has_a_record_and_skips_what_has_none_or_a_bad_one)
{
	struct claim a = claimed("a", 0), b = claimed("b", 0), c = claimed("c", 0);
	struct err e = { 0 };
	char text[200] = "";

	record(&a, "a");
	cr_assert_eq(io_replace_file(c.dir_fd, "record.json", "{bad", 4, 0600, 0, &e), 0);
	cr_expect_eq(registry_list(&reg, 1, collect, text, &e), 0, "%s", e.msg);
	cr_expect_str_eq(text, "a ");
	release(&a);
	release(&b);
	release(&c);
}

struct meddler {
	char text[200];
	struct claim *starts, *stops;
};

/* While it is told of the first: one that was stopped starts, one that was told of stops. */
static int meddle(void *ctx, const char *id, int kept, json_t *r)
{
	struct meddler *m = ctx;

	collect(m->text, id, kept, r);
	if (m->stops && !strcmp(id, m->stops->id)) {
		cr_assert_eq(unlinkat(m->stops->dir_fd, "record.json", 0), 0);
		m->stops = NULL;
		record(m->starts, "starts");
	}
	return 0;
}

Test(registry, what_starts_or_stops_while_a_list_is_made_is_in_it_once)
{
	struct claim a = claimed("starts", 1), b = claimed("stops", 1);
	autojson json_t *starts = json_pack("{s:i,s:s}", "version", 1, "name", "starts"), *stops = json_pack("{s:i,s:s}", "version", 1, "name", "stops");
	struct meddler m = { .text = "", .starts = &a, .stops = &b };
	char text[200] = "";
	struct err e = { 0 };

	cr_assert_eq(record_keep(&reg, a.id, starts, &e), 0, "%s", e.msg);
	cr_assert_eq(record_keep(&reg, b.id, stops, &e), 0, "%s", e.msg);
	record(&b, "stops");
	cr_expect_eq(registry_list(&reg, 1, meddle, &m, &e), 0, "%s", e.msg);
	cr_expect_str_eq(m.text, "stops starts ");
	/* half a record, as one that is being written is read, hides nothing */
	cr_assert_eq(io_replace_file(a.dir_fd, "record.json", "{\"id\":", 6, 0600, 0, &e), 0);
	cr_expect_eq(registry_list(&reg, 1, collect, text, &e), 0, "%s", e.msg);
	cr_expect(!strcmp(text, "stops* starts* ") || !strcmp(text, "starts* stops* "), "%s", text);
	release(&a);
	release(&b);
	cr_expect_eq(registry_forget(&reg, a.id, &e), 0);
	cr_expect_eq(registry_forget(&reg, b.id, &e), 0);
}

Test(registry, a_sandbox_is_found_by_id_prefix_and_name)
{
	struct claim a = claimed("web", 0);
	struct err e = { 0 };
	char id[65], prefix[65];
	int kept;

	record(&a, "web");
	cr_expect_eq(registry_find(&reg, a.id, id, &kept, &e), 0);
	cr_expect_eq(registry_find(&reg, "web", id, &kept, &e), 0);
	cr_expect_str_eq(id, a.id);
	snprintf(prefix, sizeof(prefix), "%.4s", a.id);
	cr_expect_eq(registry_find(&reg, prefix, id, &kept, &e), 0);
	prefix[3] = '\0';
	cr_expect_eq(registry_find(&reg, prefix, id, &kept, &e), -1, "three characters are too few");
	cr_expect_eq(e.code, ERR_NOT_FOUND);
	cr_expect_eq(registry_find(&reg, "", id, &kept, &e), -1);
	cr_expect_eq(registry_find(&reg, "we", id, &kept, &e), -1);
	cr_expect_eq(registry_find(&reg, "../web", id, &kept, &e), -1);
	release(&a);
	cr_expect_eq(registry_find(&reg, "web", id, &kept, &e), -1);
}

Test(registry, directories_others_could_use_are_refused)
{
	struct registry r;
	struct err e = { 0 };

	cr_assert_eq(chmod(config.run_dir, 0755), 0);
	cr_expect_eq(registry_open(&r, &config, &e), -1);
	cr_expect_eq(e.code, ERR_DENIED);
	cr_assert_eq(chmod(config.run_dir, 0700), 0);
}

#define CONTENDERS 200
#define ALLOWED 40

static void contend(int go, int done, int tell)
{
	struct registry mine;
	struct claim c;
	struct err e = { 0 };
	char said = 'E', byte;

	while (read(go, &byte, 1) < 0 && errno == EINTR)
		;
	if (registry_open(&mine, &config, &e) == 0) {
		if (registry_claim(&mine, NULL, 0, NULL, &c, &e) == 0)
			said = '+';
		else if (e.code == ERR_LIMIT)
			said = '-';
		if (write(tell, &said, 1) != 1)
			_exit(1);
		while (read(done, &byte, 1) < 0 && errno == EINTR)
			;
		if (said == '+')
			registry_release(&mine, &c, &e);
	}
	_exit(said == 'E');
}

Test(registry, two_hundred_claims_at_once_never_exceed_the_limit)
{
	int go[2], done[2], tell[2], i, won = 0, lost = 0, status, odd = 0;

	config.max_sandboxes = ALLOWED;
	config.id_count = 2 * ALLOWED;
	cr_assert(!pipe(go) && !pipe(done) && !pipe(tell));
	for (i = 0; i < CONTENDERS; i++) {
		pid_t pid = fork();

		cr_assert_geq(pid, 0);
		if (!pid) {
			close(go[1]);
			close(done[1]);
			contend(go[0], done[0], tell[1]);
		}
	}
	close(go[1]);	/* all at once */
	for (i = 0; i < CONTENDERS; i++) {
		char c;

		cr_assert_eq(read(tell[0], &c, 1), 1);
		won += c == '+';
		lost += c == '-';
	}
	cr_expect_eq(entries("run/sandboxes"), ALLOWED);
	close(done[1]);
	while (wait(&status) > 0)
		odd += !WIFEXITED(status) || WEXITSTATUS(status);
	cr_expect_eq(won, ALLOWED);
	cr_expect_eq(lost, CONTENDERS - ALLOWED);
	cr_expect_eq(odd, 0, "%d children failed otherwise", odd);
	cr_expect_eq(entries("run/sandboxes"), 0);
}

/* The file of notes of an older berth, counted from its [ids] base, with one note. */
static int older_notes(uint32_t n, const char *id)
{
	int fd = openat(reg.ids_fd, "ranges", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char note[24] = "";

	snprintf(note, sizeof(note), "%s", id);
	cr_assert(fd >= 0 && pwrite(fd, note, sizeof(note), (off_t)n * RANGES_NOTE) == sizeof(note));
	return fd;
}

Test(registry, a_range_that_an_older_supervisor_holds_is_not_taken)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	static const char own_base[] = "[ids]\nbase = 1048576\n";
	struct claim c, other, third;
	struct err e = { 0 };
	int notes, locks;

	/* [ids] base is set, and the older berth counted from there */
	cr_assert_eq(config_parse(own_base, strlen(own_base), "test", &config, &e), 0, "%s", e.msg);
	snprintf(config.run_dir, sizeof(config.run_dir), "%s/run", place);
	snprintf(config.state_dir, sizeof(config.state_dir), "%s/state", place);
	snprintf(config.ids_dir, sizeof(config.ids_dir), "%s/hostids", place);
	config.id_count = 3;
	/* the first version locks the file of notes itself, and the second another */
	notes = older_notes(0, "gone");
	locks = openat(reg.ids_fd, "locks-1", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert(fcntl(notes, F_OFD_SETLK, &l) == 0);
	l.l_start = 1;
	cr_assert(locks >= 0 && fcntl(locks, F_OFD_SETLK, &l) == 0);
	cr_assert_eq(claim(NULL, 0, &c, &e), 0, "%s", e.msg);
	cr_expect_eq(c.id_base, config.id_base + 2 * SPEC_IDS);
	cr_expect_eq(claim(NULL, 0, &other, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT, "%s", e.msg);
	close(notes);
	cr_assert_eq(claim(NULL, 0, &other, &e), 0, "%s", e.msg);
	cr_expect_eq(other.id_base, config.id_base);
	close(locks);
	cr_assert_eq(claim(NULL, 0, &third, &e), 0, "%s", e.msg);
	cr_expect_eq(third.id_base, config.id_base + SPEC_IDS);
	release(&c);
	release(&other);
	release(&third);
}

Test(registry, a_note_of_an_older_berth_says_nothing_of_the_disk)
{
	const struct range_note older = { .version = RANGES_PROMISED, .cpu_disk = UINT64_MAX };
	const struct range_note noted = { .version = RANGES_INNER | RANGES_DISK, .cpu_disk = UINT64_C(3) << 32 | 1500 };
	const struct range_note unlimited = { .version = RANGES_PROMISED | RANGES_DISK, .cpu_disk = UINT32_MAX };

	cr_expect_eq(ranges_cpu(&older), UINT64_MAX);
	cr_expect_eq(ranges_disk(&older, 7), 7);
	cr_expect_eq(ranges_kind(&noted), RANGES_INNER);
	cr_expect_eq(ranges_cpu(&noted), 1500);
	cr_expect_eq(ranges_disk(&noted, 7), UINT64_C(3) << 20);
	cr_expect_eq(ranges_cpu(&unlimited), UINT64_MAX);
	cr_expect_eq(ranges_disk(&unlimited, 7), 0);
}

Test(registry, the_notes_of_an_older_berth_are_read_and_its_sandboxes_keep_their_ids)
{
	static const uint32_t older = 1342177280u;
	autojson json_t *record = json_pack("{s:i,s:s,s:s}", "version", 1, "name", "old", "status", "stopped");
	struct range_note *notes = NULL;
	struct err e = { 0 };
	size_t count, i, found = 0;
	struct claim c;
	int dir;

	config.id_base = older;
	config.id_count = 4;
	cr_assert_eq(mkdirat(reg.kept_fd, "0123456789ab", 0700), 0);
	dir = openat(reg.kept_fd, "0123456789ab", O_RDONLY | O_DIRECTORY);
	cr_assert_eq(record_keep(&reg, "0123456789ab", record, &e), 0, "%s", e.msg);
	cr_assert_eq(io_replace_file(dir, "range", "1342308352", 10, 0600, 0, &e), 0);
	close(older_notes(2, "0123456789ab"));
	/* the default is another by now */
	config.id_base = 2000224256u;
	cr_assert_eq(registry_reclaim(&reg, "0123456789ab", NULL, &c, &e), 0, "%s", e.msg);
	cr_expect_eq(c.id_base, older + 2 * SPEC_IDS);
	cr_assert_eq(ranges_read(&reg, &notes, &count, &e), 0, "%s", e.msg);
	for (i = 0; i < count; i++)
		found += !strcmp(notes[i].id, "0123456789ab");
	cr_expect_eq(found, 1);
	free(notes);
	release(&c);
	/* stopped, it holds its range against new ones: three of the four are left */
	config.id_base = older;
	for (i = 0; i < 3; i++)
		cr_expect_neq(claimed(NULL, 0).id_base, older + 2 * SPEC_IDS);
	cr_expect_eq(claim(NULL, 0, &c, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT, "%s", e.msg);
	close(dir);
}

/* Until it executes `berth guard` it has the words of the command that started the sandbox. */
Test(registry, a_guardian_counts_before_it_has_its_words)
{
	struct claim a = claimed("guarded", 1);
	autojson json_t *record = json_pack("{s:i,s:s,s:s,s:s}", "version", 1, "name", "guarded",
					    "status", "exited", "restart", "always");
	char name[PROCID_SIZE];
	struct err e = { 0 };

	restart_note_guardian(record, getpid());
	cr_assert_eq(record_keep(&reg, a.id, record, &e), 0, "%s", e.msg);
	cr_expect_eq(restart_is_coming(&reg, a.id), 1);
	/* another process has its pid */
	snprintf(name, sizeof(name), "%d 1 x", getpid());
	json_object_set_new(record, "guardian", json_string(name));
	cr_assert_eq(record_keep(&reg, a.id, record, &e), 0, "%s", e.msg);
	cr_expect_eq(restart_is_coming(&reg, a.id), 0);
	release(&a);
	cr_expect_eq(registry_forget(&reg, a.id, &e), 0);
}
