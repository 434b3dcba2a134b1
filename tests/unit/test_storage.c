/* SPDX-License-Identifier: Apache-2.0 */
/* Folders to a local storage and back, on threads as small as berthd's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/objects/storage.h"

#define STACK_BYTES (1u << 20)	/* of berthd's threads */

static char place[] = "/tmp/berth-storage-XXXXXX";
static struct storage *storage;
static int from, to;

static int dir_at(const char *name)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/%s", place, name);
	cr_assert_eq(mkdir(path, 0700), 0);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void begin(void)
{
	struct conf *c = calloc(1, sizeof(*c));
	struct err e = { 0 };

	cr_assert_not_null(c);
	cr_assert_not_null(mkdtemp(place));
	from = dir_at("from");
	to = dir_at("to");
	snprintf(c->storage_url, sizeof(c->storage_url), "file:%s/store", place);
	cr_assert_eq(storage_open(&storage, c, &e), 0, "%s", e.msg);
	free(c);
}

static void end(void)
{
	struct err e = { 0 };

	storage_close(storage);
	close(from);
	close(to);
	cr_expect_eq(path_remove_tree(AT_FDCWD, place, &e), 0, "%s", e.msg);
}

TestSuite(storage, .init = begin, .fini = end, .timeout = 120);

/* The directory n levels below, each of that name. */
static int dig(int top, const char *name, int n)
{
	int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;

	while (n--) {
		cr_assert_eq(mkdirat(fd, name, 0755), 0, "%s", strerror(errno));
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	return fd;
}

static int down(int top, const char *name, int n)
{
	int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;

	while (n-- && fd >= 0) {
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	return fd;
}

static void put_text(int dir, const char *name, const char *text)
{
	autoclose int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void expect_text(int dir, const char *name, const char *text)
{
	autoclose int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char got[100] = "";

	cr_assert_geq(fd, 0, "%s: %s", name, strerror(errno));
	cr_expect_geq(read(fd, got, sizeof(got) - 1), 0);
	cr_expect_str_eq(got, text);
}

static void *there_and_back(void *arg)
{
	struct err *e = arg;
	struct storage_stats st;

	if (storage_put_folder(storage, "a/b", from, NULL, &st, e) == 0 && storage_get_folder(storage, "a/b", NULL, to, 1, &st, e) < 0)
		cr_expect_fail("what was stored does not come back: %s", e->msg);
	return NULL;
}

static void on_small_thread(struct err *e)
{
	pthread_attr_t a;
	pthread_t t;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, STACK_BYTES);
	cr_assert_eq(pthread_create(&t, &a, there_and_back, e), 0);
	pthread_join(t, NULL);
	pthread_attr_destroy(&a);
}

Test(storage, a_tree_190_levels_deep_goes_there_and_back_on_a_small_thread)
{
	autoclose int deep = dig(from, "d", 190), other = dig(to, "d", 180), back = -1;
	struct err e = { 0 };

	put_text(deep, "f", "bottom");
	put_text(other, "more", "not of it");
	on_small_thread(&e);
	cr_assert_eq(e.code, 0, "%s", e.msg);
	back = down(to, "d", 190);
	expect_text(back, "f", "bottom");
	close(other);
	other = down(to, "d", 180);
	cr_expect_eq(faccessat(other, "more", F_OK, 0), -1, "what the folder does not name is removed");
}

/* As deep as a path can say. */
Test(storage, a_tree_1990_levels_deep_goes_there_and_back_on_a_small_thread)
{
	autoclose int deep = dig(from, "d", 1990), other = dig(to, "d", 1900), back = -1;
	struct err e = { 0 };

	put_text(deep, "f", "bottom");
	on_small_thread(&e);
	cr_assert_eq(e.code, 0, "%s", e.msg);
	back = down(to, "d", 1990);
	expect_text(back, "f", "bottom");
}

static int put(struct err *e)
{
	struct storage_stats st;

	return storage_put_folder(storage, "a/b", from, NULL, &st, e);
}

/* Nothing of it is stored that a later download would take for the folder. */
static void refused(enum err_code code, const char *words)
{
	struct storage_stats st;
	struct err e = { 0 };

	cr_expect_eq(put(&e), -1);
	cr_expect_eq(e.code, (int)code, "%d %s", e.code, e.msg);
	cr_expect(strstr(e.msg, words) && strstr(e.msg, "hint: "), "%s", e.msg);
	cr_expect_eq(storage_get_folder(storage, "a/b", NULL, to, 1, &st, &e), 0, "%s", e.msg);
}

Test(storage, a_path_that_could_not_come_back_is_refused)
{
	char name[251] = "";
	autoclose int deep = -1;

	memset(name, 'n', 250);
	deep = dig(from, name, 15);
	put_text(deep, "f", "3765 bytes of directories are fine");
	{
		struct err e = { 0 };
		struct storage_stats st;

		cr_assert_eq(put(&e), 0, "%s", e.msg);
		cr_assert_eq(storage_get_folder(storage, "a/b", NULL, to, 1, &st, &e), 1, "%s", e.msg);
		cr_assert_eq(storage_delete_folder(storage, "a/b", &e), 0, "%s", e.msg);
	}
	close(deep);
	deep = down(from, name, 15);
	cr_assert_eq(mkdirat(deep, name, 0755), 0);
	refused(ERR_LIMIT, "longer than 4000 bytes");
}

Test(storage, a_manifest_that_could_not_be_read_back_is_refused)
{
	char name[251] = "", file[10];
	autoclose int deep = -1;
	int i;

	memset(name, 'n', 250);
	deep = dig(from, name, 14);
	for (i = 0; i < 76000; i++) {
		snprintf(file, sizeof(file), "%d", i);
		cr_assert_eq(mknodat(deep, file, S_IFREG | 0644, 0), 0);
	}
	refused(ERR_LIMIT, "larger than 256 MiB");
}

Test(storage, an_owner_that_could_not_come_back_is_refused)
{
	if (geteuid())
		cr_skip("needs root");
	put_text(from, "f", "x");
	cr_assert_eq(fchownat(from, "f", 65536, 0, 0), 0);
	refused(ERR_INVALID, "65536:0");
}

Test(storage, holes_are_neither_read_nor_written)
{
	const off_t size = (64ll << 30) + 12345, at = (32ll << 30) + 7;
	struct storage_stats st;
	struct err e = { 0 };
	autoclose int fd = openat(from, "big", O_RDWR | O_CREAT | O_CLOEXEC, 0600), back = -1;
	char got[4] = "";
	struct stat s;
	int i;

	cr_assert_eq(ftruncate(fd, size), 0);
	cr_assert(pwrite(fd, "one", 3, at) == 3 && pwrite(fd, "two", 3, size - 3) == 3);
	/* there twice: what is there already is not read for nothing either */
	for (i = 0; i < 2; i++)
		cr_assert(storage_put_folder(storage, "a/b", from, NULL, &st, &e) == 0 && storage_get_folder(storage, "a/b", NULL, to, 1, &st, &e) == 1,
			  "%s", e.msg);
	cr_expect_eq(st.skipped, (uint64_t)(size / STORAGE_CHUNK) + 1);
	back = openat(to, "big", O_RDONLY | O_CLOEXEC);
	cr_assert(back >= 0 && fstat(back, &s) == 0);
	cr_expect(s.st_size == size && s.st_blocks * 512 < 64 << 20, "%lld, %lld blocks", (long long)s.st_size, (long long)s.st_blocks);
	cr_expect(pread(back, got, 3, at) == 3 && !strcmp(got, "one"), "%s", got);
	cr_expect(pread(back, got, 3, size - 3) == 3 && !strcmp(got, "two"), "%s", got);
	cr_expect(pread(back, got, 1, at - 1) == 1 && !got[0]);
}

Test(storage, a_file_of_more_chunks_than_memory_should_hold_is_refused)
{
	autoclose int fd = openat(from, "big", O_RDWR | O_CREAT | O_CLOEXEC, 0600), one = openat(from, "more", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (ftruncate(fd, (16ll << 40) - (8 << 20)) < 0)
		cr_skip("the file system has no such files");
	cr_assert_eq(ftruncate(one, 24 << 20), 0);
	refused(ERR_LIMIT, "larger than 16 TiB");
}

static int version_of(const char *path)
{
	autojson json_t *manifest = NULL;
	struct err e = { 0 };

	cr_assert_eq(storage_manifest(storage, path, &manifest, &e), 1, "%s", e.msg);
	return (int)json_integer_value(json_object_get(manifest, "version"));
}

Test(storage, names_of_any_bytes_come_back)
{
	static const char *const names[] = { "\xff\xfe", "latin-\xe9", "over\xc0\xaf", "surrogate\xed\xa0\x80", "line\nfeed", "\xc3\xa9", "\x7f\x01" };
	struct storage_stats st;
	struct err e = { 0 };
	char got[100] = "";
	size_t i;

	put_text(from, "plain", "x");
	cr_assert_eq(put(&e), 0, "%s", e.msg);
	cr_expect_eq(version_of("a/b"), 2, "an older berthd can read it");
	for (i = 0; i < ARRAY_LEN(names); i++) {
		autoclose int dir = -1;

		cr_assert_eq(mkdirat(from, names[i], 0750), 0);
		dir = openat(from, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		put_text(dir, names[i], names[i]);
		cr_assert_eq(symlinkat(names[i], dir, "link"), 0);
	}
	/* and what has the name that its hexadecimal has, or goes away beside it */
	put_text(from, "fffe", "another");
	put_text(to, "\xff\xfd", "not of it");
	for (i = 0; i < 2; i++)
		cr_assert(put(&e) == 0 && storage_get_folder(storage, "a/b", NULL, to, 1, &st, &e) == 1, "%s", e.msg);
	cr_expect_eq(version_of("a/b"), 3, "and one that cannot says so");
	for (i = 0; i < ARRAY_LEN(names); i++) {
		autoclose int dir = openat(to, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct stat s;

		cr_assert(dir >= 0 && fstat(dir, &s) == 0);
		cr_expect_eq(s.st_mode & 07777, 0750);
		expect_text(dir, names[i], names[i]);
		memset(got, 0, sizeof(got));
		cr_expect_gt(readlinkat(dir, "link", got, sizeof(got) - 1), 0);
		cr_expect_str_eq(got, names[i]);
	}
	expect_text(to, "fffe", "another");
	cr_expect_eq(faccessat(to, "\xff\xfd", F_OK, 0), -1);
}

static void expect_corrupt(const char *entries)
{
	struct storage_stats st;
	struct err e = { 0 };
	char text[500];
	int n = snprintf(text, sizeof(text), "{\"version\":3,\"upload\":\"\",\"entries\":[%s]}", entries);

	cr_assert_eq(storage_put(storage, "evil/manifest.json", text, (size_t)n, &e), 0, "%s", e.msg);
	cr_expect_eq(storage_get_folder(storage, "evil", NULL, to, 1, &st, &e), -1, "%s", entries);
	cr_expect_eq(e.code, ERR_CORRUPT, "%s: %d %s", entries, e.code, e.msg);
}

Test(storage, paths_in_hexadecimal_lead_nowhere_else)
{
	static const char *const evil[] = { "2e2e2f66", "2f66", "612f2e2e2f62", "6", "", "6100", "zz", "6A", "612f", "+1" };
	char entry[200];
	size_t i;

	for (i = 0; i < ARRAY_LEN(evil); i++) {
		snprintf(entry, sizeof(entry), "{\"path_hex\":\"%s\",\"type\":\"dir\",\"mode\":493,\"uid\":0,\"gid\":0,\"mtime\":0,\"mtime_ns\":0}", evil[i]);
		expect_corrupt(entry);
	}
	expect_corrupt("{\"path\":\"l\",\"target_hex\":\"00\",\"type\":\"symlink\",\"mode\":511,\"uid\":0,\"gid\":0,\"mtime\":0,\"mtime_ns\":0}");
}

/* ---- what fails ---- */

static const struct storage_ops *real;
static int puts_done, puts_allowed;

/* The last one that comes through arrives, but nobody is told so. */
static int put_so_many(struct storage *st, const char *key, const void *data, size_t n, const char sha256[65], struct err *e)
{
	puts_done++;
	if (puts_done > puts_allowed)
		return err_set(e, ERR_NET, "the object store answers 503");
	if (real->put(st, key, data, n, sha256, e) < 0)
		return -1;
	return puts_done == puts_allowed ? err_set(e, ERR_NET, "no answer") : 0;
}

/* As many objects may be put from here on. */
static void allow_puts(int n)
{
	static struct storage_ops ops;

	if (!real)
		real = storage->ops;
	ops = *real;
	ops.put = put_so_many;
	storage->ops = &ops;
	puts_done = 0;
	puts_allowed = n;
}

static int count_object(void *ctx, const char *key, struct err *e)
{
	(void)key, (void)e;
	++*(int *)ctx;
	return 0;
}

static int objects(const char *prefix)
{
	struct err e = { 0 };
	int n = 0;

	cr_assert_eq(storage_each(storage, prefix, count_object, &n, &e), 0, "%s", e.msg);
	return n;
}

static void put_files(void)
{
	char name[20];
	int i;

	for (i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "file%d", i);
		put_text(from, name, name);
	}
}

Test(storage, an_upload_that_fails_leaves_nothing)
{
	struct err e = { 0 };
	int i;

	put_files();
	/* the mark, some pieces */
	for (i = 1; i < 6; i++) {
		allow_puts(i);
		cr_assert_eq(put(&e), -1);
		cr_expect_eq(e.code, ERR_NET);
		cr_expect_eq(objects("a"), i == 1, "%d puts", i);
		/* of the mark alone nobody knows whether it came: it is taken for dead in time */
		storage_delete_folder(storage, "a/b", &e);
	}
	allow_puts(100);
	cr_assert_eq(put(&e), 0, "%s", e.msg);
	cr_expect_eq(objects("a"), 6);
	put_text(from, "file6", "more");
	for (i = 0; i < 5; i++) {
		allow_puts(2);
		cr_assert_eq(put(&e), -1);
		cr_expect_eq(objects("a"), 6, "what the manifest names stays, and nothing else");
	}
}

Test(storage, a_manifest_that_may_still_come_keeps_its_pieces)
{
	struct storage_stats st;
	struct err e = { 0 };

	put_files();
	allow_puts(7);
	cr_assert_eq(put(&e), -1);
	allow_puts(100);
	cr_assert_eq(storage_get_folder(storage, "a/b", NULL, to, 1, &st, &e), 1, "%s", e.msg);
	expect_text(to, "file4", "file4");
}

Test(storage, what_is_refused_is_so_before_anything_is_sent)
{
	if (geteuid())
		cr_skip("needs root");
	put_files();
	cr_assert_eq(fchownat(from, "file4", 65536, 0, 0), 0);
	allow_puts(100);
	refused(ERR_INVALID, "65536:0");
	cr_expect_eq(puts_done, 0);
}

Test(storage, nothing_begins_while_the_process_ends)
{
	struct err e = { 0 };

	put_files();
	allow_puts(100);
	storage_use_stop(0);
	cr_expect_eq(put(&e), -1);
	cr_expect(e.code == ERR_BUSY && !puts_done, "%d %s", e.code, e.msg);
	storage_use_stop(60000);
	cr_expect_eq(put(&e), 0, "%s", e.msg);
	storage_use_resume();
}

Test(storage, many_files_take_little_memory)
{
	struct rusage before, after;
	struct err e = { 0 };
	char name[20];
	int i;

	for (i = 0; i < 30000; i++) {
		snprintf(name, sizeof(name), "file%d", i);
		cr_assert_eq(mknodat(from, name, S_IFREG | 0644, 0), 0);
	}
	getrusage(RUSAGE_SELF, &before);
	/* the second finds the manifest of the first */
	for (i = 0; i < 2; i++)
		cr_assert_eq(put(&e), 0, "%s", e.msg);
	getrusage(RUSAGE_SELF, &after);
#ifdef __SANITIZE_ADDRESS__
	before = after;		/* what is freed stays; and a skip would leave the directory, too */
#endif
	cr_expect_lt(after.ru_maxrss - before.ru_maxrss, 30000, "%ld KiB, then %ld", before.ru_maxrss, after.ru_maxrss);
}

#define H16 "0123456789abcdef"
#define HASH H16 H16 H16 H16
#define ID H16 H16

static size_t pieces_in(const char *text, char upload[33], struct err *e)
{
	autojson json_t *pieces = json_object();
	autobuf struct buf b = BUF_INIT(10000);

	cr_assert_eq(buf_adds(&b, text, e), 0);
	return storage_pieces(&b, pieces, upload, e) < 0 ? 100 : json_object_size(pieces);
}

Test(storage, pieces_are_those_of_lists_whatever_names_say)
{
	struct err e = { 0 };
	char id[33];

	cr_expect_eq(pieces_in("{\"upload\":\"" ID "\",\"entries\":[{\"path\":\"a\",\"chunks\":[\"\",\"" HASH "." ID "\"],\"size\":1},"
			       "{ \"chunks\" : [ \"" HASH "\" ] }],\"version\":2}", id, &e), 2, "%s", e.msg);
	cr_expect_str_eq(id, ID);
	cr_expect_eq(pieces_in("{\"entries\":[{\"chunks\":[],\"path\":\"" HASH "\",\"target\":\"\\\",\\\"chunks\\\":[\\\"" HASH "\\\"]\"},"
			       "{\"path\":\"chunks\",\"type\":\"upload\"}]}", id, &e), 0, "%s", e.msg);
	cr_expect_str_eq(id, "");
	cr_expect_eq(pieces_in("{\"entries\":[{\"chunks\":[\"" HASH "\"", id, &e), 100);
	cr_expect_eq(pieces_in("{\"entries\":[]}]", id, &e), 100);
	cr_expect_eq(pieces_in("{\"entries\":\"", id, &e), 100);
}
