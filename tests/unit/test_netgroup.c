/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/netgroup.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct netgroup *group(void)
{
	int fd = memfd_create("group", MFD_CLOEXEC);
	struct err e = { 0 };
	struct netgroup *g;

	cr_assert_eq(ftruncate(fd, NETGROUP_SIZE), 0);
	g = netgroup_map(fd, &e);
	cr_assert(g, "%s", e.msg);
	close(fd);
	return g;
}

Test(netgroup, a_file_that_is_too_short_is_not_mapped)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	struct err e = { 0 };

	cr_expect_null(netgroup_map(fd, &e));
	close(fd);
}

Test(netgroup, processes_that_take_at_once_get_the_budget_and_no_byte_more)
{
	enum { BUDGET = 1000003, STEP = 777, PROCESSES = 4 };
	struct netgroup *g = group();
	uint64_t *got = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t sum = 0;
	int i;

	for (i = 0; i < PROCESSES; i++)
		if (fork() == 0) {
			size_t n;

			/* half of each is given back, as a read that found less does */
			while ((n = netgroup_take(g, BUDGET, STEP))) {
				netgroup_give_back(g, n / 2);
				got[i] += n - n / 2;
			}
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	for (i = 0; i < PROCESSES; i++)
		sum += got[i];
	cr_expect_eq(sum, g->bytes);
	cr_expect_leq(sum, BUDGET);
	cr_expect_gt(sum, BUDGET - PROCESSES * STEP);
	cr_expect_eq(netgroup_take(g, 0, 5), 5, "without a budget all is given");
}

Test(netgroup, connections_are_counted_to_the_last_one)
{
	struct netgroup *g = group();

	cr_expect_eq(netgroup_connect(g, 2), 1);
	cr_expect_eq(netgroup_connect(g, 2), 1);
	cr_expect_eq(netgroup_connect(g, 2), 0);
	cr_expect_eq(netgroup_connect(g, 3), 1, "a larger budget goes on");
	cr_expect_eq(netgroup_connect(g, 0), 1);
	cr_expect_eq(g->connections, 4);
}

static off_t size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_size : -1;
}

Test(netgroup, the_log_of_many_writers_has_an_end_and_keeps_the_newest)
{
	enum { HALF = 4000, LINES = 500, PROCESSES = 4 };
	char a[] = "/tmp/berth-netgroup-XXXXXX", b[] = "/tmp/berth-netgroup-XXXXXX", last[100] = "";
	struct netgroup *g = group();
	int fd[2] = { mkstemp(a), mkstemp(b) }, i, k;

	cr_assert(fd[0] >= 0 && fd[1] >= 0);
	for (i = 0; i < PROCESSES; i++)
		if (fork() == 0) {
			int own[2] = { open(a, O_RDWR | O_APPEND), open(b, O_RDWR | O_APPEND) };

			for (k = 0; k < LINES; k++)
				netgroup_log(g, own, "a line of the log\n", 18, HALF);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	close(fd[0]);
	close(fd[1]);
	fd[0] = open(a, O_RDWR | O_APPEND);
	fd[1] = open(b, O_RDWR | O_APPEND);
	netgroup_log(g, fd, "the newest\n", 11, HALF);
	cr_expect_leq(size_of(fd[0]), 2 * HALF);
	cr_expect_leq(size_of(fd[1]), 2 * HALF);
	cr_expect_gt(size_of(fd[0]) + size_of(fd[1]), HALF / 2);
	i = (int)(g->log_now & 1);
	cr_assert_eq(pread(fd[i], last, 11, size_of(fd[i]) - 11), 11);
	cr_expect_str_eq(last, "the newest\n");
	unlink(a);
	unlink(b);
}
