/* SPDX-License-Identifier: Apache-2.0 */
/* Folders to a local storage and back, on threads as small as berthd's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/service/storage.h"

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

	if (storage_put_folder(storage, "a/b", from, &st, e) == 0 && storage_get_folder(storage, "a/b", to, 1, &st, e) < 0)
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
