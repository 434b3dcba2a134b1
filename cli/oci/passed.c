/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that the caller passes on to the process: those from 3 up, as many as --preserve-fds and LISTEN_FDS say.
 *
 * They keep their numbers, and a number that is counted but not open would be given to something of ours, such as a
 * directory of the host, that would live on where paths of the image are looked up (CVE-2024-21626).  So what was open is
 * counted before anything is opened, no more than that is passed on, and the numbers that are not open in between are kept
 * by descriptors of /dev/null, of no use to anybody (O_PATH), which end at execve(2).
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "cli/oci/cli.h"

#define FIRST 3
#define PASSED_MAX 1000000
#define GAPS_MAX 1024

/* How many are open from 3 up, to the first that is not or is ours (-1: none is). */
static int count_passed_fds(int ours)
{
	int fd = FIRST;

	while (fd != ours && fd < INT_MAX && fcntl(fd, F_GETFD) >= 0)
		fd++;
	return fd - FIRST;
}

/* The last that is open and below end; -1: none is. */
static int last_below(int end)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;
	int last = -1;

	while (dir && (d = readdir(dir))) {
		int fd = atoi(d->d_name);

		if (fd > last && fd < end && fd != dirfd(dir))
			last = fd;
	}
	if (dir)
		closedir(dir);
	return last;
}

/*
 * The largest number that the arguments and LISTEN_FDS may ask for, before they are read
 * properly; 0: --preserve-fds is not among them.
 */
static int asked_for(char **argv)
{
	static const char option[] = "--preserve-fds";
	const size_t n = sizeof(option) - 1;
	const char *listen = getenv("LISTEN_FDS");
	long most = 0;

	for (; *argv; argv++) {
		const char *value = strncmp(*argv, option, n) ? NULL : (*argv)[n] == '=' ? *argv + n + 1 : (*argv)[n] ? NULL : argv[1];
		long v = value ? strtol(value, NULL, 10) : 0;

		most = v > most ? v : most;
	}
	if (most && listen)
		most += strtol(listen, NULL, 10);
	return most < 0 ? 0 : most > PASSED_MAX ? PASSED_MAX : (int)most;
}

int oci_passed_find(struct oci_global *g, char **argv, int ours, struct err *e)
{
	int end = FIRST + asked_for(argv), fd, last, gaps = 0;

	g->passed = g->filled = count_passed_fds(ours);
	if (ours >= FIRST && end > ours)
		end = ours;
	last = end > FIRST + g->passed ? last_below(end) : -1;
	if (last < FIRST + g->passed)
		return 0;
	/* it gets the lowest free number */
	for (fd = FIRST + g->passed; fd < last; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (++gaps > GAPS_MAX)
			return err_set(e, ERR_LIMIT, "--preserve-fds: more than %d descriptors are not open before %d, which is", GAPS_MAX, last);
		if (open("/dev/null", O_PATH | O_CLOEXEC) != fd)
			return err_sys(e, "keep descriptor %d free", fd);
	}
	g->filled = last - FIRST + 1;
	return 0;
}

int oci_preserve_number(const char *value, int *ret, struct err *e)
{
	uint64_t n;

	if (num_u64(value, "--preserve-fds", 0, PASSED_MAX, &n, e) < 0)
		return -1;
	*ret = (int)n;
	return 0;
}

void oci_passed_limit(const struct oci_global *g, int *preserve)
{
	/* more than there are means all of them, as in crun */
	if (*preserve > g->filled)
		*preserve = g->filled;
}

/*
 * sd_listen_fds(3): the sockets of a service, if they are meant for this process. runc requires
 * LISTEN_PID, crun does not. Without it they count; with another's pid the variables are left
 * over from the parent of our caller.
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
	oci_passed_limit(g, preserve);
	*ret_listen = n;
	return 0;
}
