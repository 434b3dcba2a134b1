/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

static char place[] = "/tmp/berth-io-XXXXXX";
static int dir = -1;

static void enter(void)
{
	cr_assert(mkdtemp(place));
	dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(dir, 0);
	alarm(100);	/* a reader that blocks is a failure, not a hang */
}

static void leave(void)
{
	struct err e;

	close(dir);
	path_remove_tree(AT_FDCWD, place, &e);
}

TestSuite(io, .init = enter, .fini = leave);

static void put(const char *name, const char *data, size_t n)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_eq(io_write_all(fd, data, n), 0);
	close(fd);
}

static int read_file(const char *name, size_t max, struct err *e)
{
	autobuf struct buf b = BUF_INIT(max);

	memset(e, 0, sizeof(*e));
	return io_read_file(dir, name, &b, e);
}

Test(io, a_regular_file_is_read_whole_with_its_nul_bytes)
{
	autobuf struct buf b = BUF_INIT(100);
	struct err e;

	put("f", "ab\0cd", 5);
	cr_assert_eq(io_read_file(dir, "f", &b, &e), 0);
	cr_expect_eq(b.len, 5);
	cr_expect_eq(memcmp(b.data, "ab\0cd", 6), 0);
}

Test(io, an_empty_file_is_read_as_nothing)
{
	autobuf struct buf b = BUF_INIT(100);
	struct err e;

	put("f", "", 0);
	cr_assert_eq(io_read_file(dir, "f", &b, &e), 0);
	cr_expect_eq(b.len, 0);
}

Test(io, a_fifo_without_writer_is_refused_at_once)
{
	struct err e;

	cr_assert_eq(mkfifoat(dir, "p", 0600), 0);
	cr_expect_eq(read_file("p", 100, &e), -1);
	cr_expect_eq(e.code, ERR_INVALID, "%s", e.msg);
}

Test(io, what_is_no_regular_file_is_refused)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct err e;
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	cr_assert_eq(mkdirat(dir, "d", 0700), 0);
	cr_expect_eq(read_file("d", 100, &e), -1);
	cr_expect_eq(e.code, ERR_INVALID, "%s", e.msg);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", place);
	cr_assert_eq(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
	close(s);
	cr_expect_eq(read_file("s", 100, &e), -1);
	cr_expect_eq(io_read_file(AT_FDCWD, "/dev/zero", &BUF_INIT(100), &e), -1);
	cr_expect_eq(e.code, ERR_INVALID, "%s", e.msg);
}

Test(io, a_symlink_is_not_followed)
{
	struct err e;

	put("f", "x", 1);
	cr_assert_eq(symlinkat("f", dir, "l"), 0);
	cr_assert_eq(symlinkat("/etc/passwd", dir, "m"), 0);
	cr_expect_eq(read_file("l", 100, &e), -1);
	cr_expect_eq(e.os_errno, ELOOP);
	cr_expect_eq(read_file("m", 1 << 20, &e), -1);
}

Test(io, a_missing_file_is_not_found)
{
	struct err e;

	cr_expect_eq(read_file("none", 100, &e), -1);
	cr_expect_eq(e.code, ERR_NOT_FOUND);
}

Test(io, a_file_of_exactly_the_ceiling_is_read_and_one_byte_more_is_not)
{
	static const size_t sizes[] = { 1, 255, 256, 257, 4095, 4096, 65536, 100000 };
	static char data[100001];
	struct err e;
	size_t i;

	memset(data, 'q', sizeof(data));
	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		autobuf struct buf b = BUF_INIT(sizes[i]);

		put("f", data, sizes[i]);
		cr_assert_eq(io_read_file(dir, "f", &b, &e), 0, "%zu: %s", sizes[i], e.msg);
		cr_expect_eq(b.len, sizes[i]);
		put("f", data, sizes[i] + 1);
		cr_expect_eq(read_file("f", sizes[i], &e), -1, "%zu", sizes[i]);
		cr_expect_eq(e.code, ERR_LIMIT, "%s", e.msg);
	}
}

Test(io, a_sparse_giant_is_refused_without_reading_it)
{
	int fd = openat(dir, "big", O_WRONLY | O_CREAT, 0600);
	struct err e;

	cr_assert_eq(ftruncate(fd, 8LL << 30), 0);
	close(fd);
	cr_expect_eq(read_file("big", 1 << 20, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
}

/* procfs and cgroupfs files say they are empty. */
Test(io, a_file_of_unknown_size_is_read_to_its_end)
{
	autobuf struct buf b = BUF_INIT(1 << 20), small = BUF_INIT(10);
	struct err e;

	cr_assert_eq(io_read_file(AT_FDCWD, "/proc/self/status", &b, &e), 0, "%s", e.msg);
	cr_expect(strstr(b.data, "Name:"));
	cr_expect_eq(io_read_file(AT_FDCWD, "/proc/self/status", &small, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
}

struct pour {
	int fd;
	size_t n;
};

static void *pour(void *arg)
{
	struct pour *p = arg;
	char c = 'z';
	size_t i;

	for (i = 0; i < p->n; i++)
		if (write(p->fd, &c, 1) != 1)
			break;
	close(p->fd);
	return NULL;
}

static int read_poured(size_t n, struct buf *b, struct err *e)
{
	int p[2], r;
	struct pour how;
	pthread_t t;

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe(p), 0);
	how = (struct pour){ p[1], n };
	cr_assert_eq(pthread_create(&t, NULL, pour, &how), 0);
	r = io_read_all(p[0], b, "the pipe", e);
	close(p[0]);
	pthread_join(t, NULL);
	return r;
}

Test(io, a_stream_of_exactly_the_ceiling_is_read_and_one_byte_more_is_not)
{
	static const size_t sizes[] = { 0, 1, 254, 255, 256, 257, 511, 512, 513, 70000 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		autobuf struct buf fits = BUF_INIT(sizes[i]), over = BUF_INIT(sizes[i]);
		struct err e = { 0 };

		cr_expect_eq(read_poured(sizes[i], &fits, &e), 0, "%zu: %s", sizes[i], e.msg);
		cr_expect_eq(fits.len, sizes[i]);
		cr_expect_eq(read_poured(sizes[i] + 1, &over, &e), -1, "%zu", sizes[i]);
		cr_expect_eq(e.code, ERR_LIMIT);
		cr_expect(strstr(e.msg, "the pipe"), "%s", e.msg);
		cr_expect_leq(over.len, sizes[i]);
	}
}

Test(io, reading_appends_to_what_is_there)
{
	autobuf struct buf b = BUF_INIT(10);
	struct err e;

	cr_assert_eq(buf_adds(&b, "head:", &e), 0);
	cr_assert_eq(read_poured(5, &b, &e), 0);
	cr_expect_str_eq(b.data, "head:zzzzz");
	cr_expect_eq(read_poured(1, &b, &e), -1);
}

Test(io, a_message_cut_short_is_told_from_the_end)
{
	char got[4];
	int p[2];

	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(write(p[1], "abcdef", 6), 6);
	close(p[1]);
	cr_expect_eq(io_read_exact(p[0], got, 4), 1);
	cr_expect_eq(memcmp(got, "abcd", 4), 0);
	errno = 0;
	cr_expect_eq(io_read_exact(p[0], got, 4), -1);
	cr_expect_eq(errno, EPIPE);
	cr_expect_eq(io_read_exact(p[0], got, 4), 0);
	cr_expect_eq(io_read_exact(-1, got, 4), -1);
	cr_expect_eq(io_read_exact(-1, got, 0), 1);
}

static void nothing(int s)
{
	(void)s;
}

static void *disturb(void *arg)
{
	pthread_t *whom = arg;
	int i;

	for (i = 0; i < 200; i++) {
		pthread_kill(*whom, SIGUSR1);
		usleep(200);
	}
	return NULL;
}

Test(io, signals_do_not_cut_a_transfer)
{
	struct sigaction sa = { .sa_handler = nothing };	/* no SA_RESTART */
	autobuf struct buf b = BUF_INIT(1 << 20);
	pthread_t self = pthread_self(), t;
	struct err e = { 0 };

	sigaction(SIGUSR1, &sa, NULL);
	cr_assert_eq(pthread_create(&t, NULL, disturb, &self), 0);
	cr_expect_eq(read_poured(200000, &b, &e), 0, "%s", e.msg);
	cr_expect_eq(b.len, 200000);
	pthread_join(t, NULL);
}

Test(io, a_control_file_is_never_made)
{
	struct err e;

	cr_expect_eq(io_write_file(dir, "no.such.control", "1", &e), -1);
	cr_expect_eq(e.os_errno, ENOENT);
	put("c", "", 0);
	cr_expect_eq(io_write_file(dir, "c", "max", &e), 0);
}

Test(io, a_replaced_file_is_whole_and_leaves_no_other_name)
{
	autobuf struct buf b = BUF_INIT(100);
	struct err e;
	struct stat st;

	put("r", "old and long", 12);
	cr_assert_eq(io_replace_file(dir, "r", "new", 3, 0640, 1, &e), 0, "%s", e.msg);
	cr_assert_eq(io_read_file(dir, "r", &b, &e), 0);
	cr_expect_str_eq(b.data, "new");
	cr_assert_eq(fstatat(dir, "r", &st, 0), 0);
	cr_expect_eq(st.st_mode & 07777 & ~0640u, 0);
	cr_assert_eq(unlinkat(dir, "r", 0), 0);
	cr_expect_eq(rmdir(place), 0, "something is left beside it");
	cr_assert_eq(mkdir(place, 0700), 0);
}

Test(io, replacing_a_symlink_replaces_the_link_not_its_target)
{
	autobuf struct buf b = BUF_INIT(100);
	struct err e;
	struct stat st;

	put("victim", "untouched", 9);
	cr_assert_eq(symlinkat("victim", dir, "r"), 0);
	cr_assert_eq(io_replace_file(dir, "r", "new", 3, 0600, 0, &e), 0);
	cr_assert_eq(fstatat(dir, "r", &st, AT_SYMLINK_NOFOLLOW), 0);
	cr_expect(S_ISREG(st.st_mode));
	cr_assert_eq(io_read_file(dir, "victim", &b, &e), 0);
	cr_expect_str_eq(b.data, "untouched");
}

static void *replace_often(void *text)
{
	struct err e;
	int i;

	for (i = 0; i < 2000; i++)
		if (io_replace_file(dir, "shared", text, 1 + 999 * (*(char *)text == 'b'), 0600, 0, &e) < 0)
			return "failed";
	return NULL;
}

Test(io, two_threads_that_replace_a_file_leave_what_one_of_them_wrote)
{
	autobuf struct buf b = BUF_INIT(2000);
	static char text[2][1001];
	pthread_t t[2];
	struct err e;
	void *result;
	int i;

	memset(text[0], 'a', 1000);
	memset(text[1], 'b', 1000);
	for (i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, replace_often, text[i]), 0);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(pthread_join(t[i], &result), 0);
		cr_expect_null(result);
	}
	cr_assert_eq(io_read_file(dir, "shared", &b, &e), 0);
	cr_expect(!strcmp(b.data, "a") || !strcmp(b.data, text[1]));
}

Test(io, a_replacement_that_cannot_be_done_leaves_nothing)
{
	struct err e;
	char longer[400];

	memset(longer, 'n', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	cr_expect_eq(io_replace_file(dir, longer, "x", 1, 0600, 0, &e), -1);
	cr_assert_eq(mkdirat(dir, "d", 0700), 0);
	cr_expect_eq(io_replace_file(dir, "d", "x", 1, 0600, 0, &e), -1);
	cr_assert_eq(unlinkat(dir, "d", AT_REMOVEDIR), 0);
	cr_expect_eq(rmdir(place), 0, "a temporary file is left");
	cr_assert_eq(mkdir(place, 0700), 0);
}
