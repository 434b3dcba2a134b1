/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that the caller passes on to the process: those from 3 up, as many as --preserve-fds and LISTEN_FDS say.
 *
 * They keep their numbers, and a number that is counted but not open would be given to something of ours, such as a
 * directory of the host, that would live on where paths of the image are looked up (CVE-2024-21626).  So what was open is
 * counted before anything is opened, and no more than that is passed on.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "cli/oci/cli.h"

#define FIRST 3
#define PASSED_MAX 1000000

int oci_passed_count(int ours)
{
	int fd = FIRST;

	while (fd != ours && fd < INT_MAX && fcntl(fd, F_GETFD) >= 0)
		fd++;
	return fd - FIRST;
}

int oci_passed_behind(int count, int ours)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;
	int next = INT_MAX;

	while (dir && (d = readdir(dir))) {
		int fd = atoi(d->d_name);

		if (fd >= FIRST + count && fd < next && fd != ours && fd != dirfd(dir))
			next = fd;
	}
	if (dir)
		closedir(dir);
	return next;
}

int oci_preserve_number(const char *value, int *ret, struct err *e)
{
	uint64_t n;

	if (num_u64(value, "--preserve-fds", 0, PASSED_MAX, &n, e) < 0)
		return -1;
	*ret = (int)n;
	return 0;
}

int oci_passed_check(const struct oci_global *g, int *preserve, struct err *e)
{
	/* one that is open past those that were asked for is not passed on, and no gap before it matters */
	if (*preserve > g->passed && g->passed_behind < FIRST + *preserve) {
		err_set(e, ERR_INVALID, "--preserve-fds %d: descriptor %d is not open, but %d is", *preserve, FIRST + g->passed,
			g->passed_behind);
		return err_hint(e, "give the number of descriptors that are open from %d up, without a gap: %d", FIRST, g->passed);
	}
	/* more than there are, as crun takes it: all of them */
	if (*preserve > g->passed)
		*preserve = g->passed;
	return 0;
}

/*
 * sd_listen_fds(3): the sockets of a service, when they are meant for this process.  runc asks for LISTEN_PID, crun does
 * not: without it they count, with another's the variables were left over from whoever started our caller.
 */
static int listen_fds(int *ret, struct err *e)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	struct err ignored;
	uint64_t n;

	*ret = 0;
	if (!fds || !*fds)
		return 0;
	if (pid && (num_u64(pid, "LISTEN_PID", 1, INT_MAX, &n, &ignored) < 0 || n != (uint64_t)getpid()))
		return 0;
	if (num_u64(fds, "LISTEN_FDS", 0, PASSED_MAX, &n, e) < 0)
		return -1;
	*ret = (int)n;
	return 0;
}

int oci_passed_listen(const struct oci_global *g, int *preserve, int *ret_listen, struct err *e)
{
	int n;

	if (listen_fds(&n, e) < 0)
		return -1;
	if (n > g->passed) {
		err_set(e, ERR_INVALID, "LISTEN_FDS=%d: descriptor %d is not open", n, FIRST + g->passed);
		return err_hint(e, "unset LISTEN_FDS, which was left over, or set LISTEN_PID to the process that it is for");
	}
	/* --preserve-fds counts from behind them */
	*preserve += n;
	if (oci_passed_check(g, preserve, e) < 0)
		return -1;
	*ret_listen = n;
	return 0;
}
