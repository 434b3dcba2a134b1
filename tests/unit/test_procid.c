/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/host/procid.h"

Test(procid, a_living_process_is_found_by_its_name)
{
	char name[PROCID_SIZE], again[PROCID_SIZE], pid[16];
	struct err e = { 0 };
	autoclose int fd = -1;

	cr_assert_eq(procid_name(getpid(), name, &e), 0, "%s", e.msg);
	snprintf(pid, sizeof(pid), "%d", getpid());
	cr_assert_eq(procid_parse(pid, again, &e), 0);
	cr_assert_str_eq(name, again);
	cr_assert_eq(procid_parse(name, again, &e), 0);
	cr_assert_str_eq(name, again);
	fd = procid_open(name, &e);
	cr_assert_geq(fd, 0);
	cr_assert(!procid_has_ended(name));
}

Test(procid, one_that_has_ended_is_known_as_such)
{
	pid_t pid = fork();
	char name[PROCID_SIZE];
	struct err e = { 0 };
	struct pollfd p = { .events = POLLIN };

	if (pid == 0)
		for (;;)
			pause();
	cr_assert_eq(procid_name(pid, name, &e), 0);
	p.fd = procid_open(name, &e);
	cr_assert_geq(p.fd, 0);
	kill(pid, SIGKILL);
	cr_assert_eq(poll(&p, 1, 10000), 1, "its end is heard");
	cr_assert(procid_has_ended(name), "a zombie has ended");
	waitpid(pid, NULL, 0);
	cr_assert(procid_has_ended(name));
	close(p.fd);
}

Test(procid, another_process_of_the_same_pid_is_another)
{
	char name[PROCID_SIZE], other[PROCID_SIZE], *space;
	struct err e = { 0 };

	cr_assert_eq(procid_name(getpid(), name, &e), 0);
	space = strrchr(name, ' ');
	snprintf(other, sizeof(other), "%d 17%s", getpid(), space);
	cr_assert(procid_has_ended(other), "of another start");
	snprintf(other, sizeof(other), "%.*s 00000000", (int)(space - name), name);
	cr_assert(procid_has_ended(other), "of another boot");
	snprintf(other, sizeof(other), "%.*s", (int)(space - name), name);
	cr_assert(!procid_has_ended(other), "without a boot any is meant");
}

Test(procid, what_is_no_process_is_refused)
{
	static const char *const bad[] = { "", "0", "-1", "x", "99999999999", "1073741823" };
	char name[PROCID_SIZE];
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		cr_assert_eq(procid_parse(bad[i], name, &e), -1, "'%s'", bad[i]);
	cr_assert(procid_has_ended("nonsense 1 2"));
}
