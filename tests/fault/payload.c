/* SPDX-License-Identifier: Apache-2.0 */
/*
 * payload - what the fault tests run in the sandbox: says how it is confined,
 * as the kernel reports it, in lines that are the same in every sandbox.
 *
 * Few system calls, and each checked: a fault that hits one of them ends it
 * with 77, which the tests tell from a failure of berth.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define HIT 77

static char text[262144];

static const char *slurp(const char *path)
{
	size_t n = 0;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		_exit(HIT);
	while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	if (got < 0 || close(fd))
		_exit(HIT);
	text[n] = 0;
	return text;
}

static char out[65536];
static size_t out_len;

static void put(const char *s, size_t n)
{
	if (out_len + n + 1 >= sizeof(out))
		_exit(HIT);
	memcpy(out + out_len, s, n);
	out_len += n;
}

static void status_lines(void)
{
	static const char *const keys[] = { "Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:",
					    "NoNewPrivs:", "Seccomp:", "Seccomp_filters:", "Speculation_Store_Bypass:", NULL };

	slurp("/proc/self/status");
	for (char *line = text, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		for (int i = 0; keys[i]; i++) {
			if (strncmp(line, keys[i], strlen(keys[i])) == 0)
				put(line, (size_t)(next - line));
		}
	}
}

/* "mount point, flags, type" of each line of mountinfo; the rest differs from run to run. */
static void mounts(void)
{
	slurp("/proc/self/mountinfo");
	for (char *line = text, *next; *line; line = next) {
		char point[512], flags[256], type[64];
		const char *dash = strstr(line, " - ");

		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (!dash || sscanf(line, "%*s %*s %*s %*s %511s %255s", point, flags) != 2 || sscanf(dash, " - %63s", type) != 1)
			_exit(HIT);
		put(point, strlen(point));
		put(" ", 1);
		put(flags, strlen(flags));
		put(" ", 1);
		put(type, strlen(type));
		put("\n", 1);
	}
}

static void limits(void)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit r;
		char line[100];

		if (getrlimit((__rlimit_resource_t)i, &r))
			_exit(HIT);
		put(line, (size_t)snprintf(line, sizeof(line), "rlimit %d %lld %lld\n", i, (long long)r.rlim_cur, (long long)r.rlim_max));
	}
}

/* Whether the other wall stands too: what must fail does. */
static void forbidden(void)
{
	if (unshare(CLONE_NEWUSER) == 0)
		put("unshare works\n", 14);
	if (socket(AF_PACKET, SOCK_RAW, 0) >= 0)
		put("packet works\n", 13);
	if (open("/proc/sys/kernel/core_pattern", O_WRONLY) >= 0)
		put("core_pattern works\n", 19);
	if (access("/proc/kcore", R_OK) == 0 && open("/proc/kcore", O_RDONLY) >= 0 && read(3, text, 1) > 0)
		put("kcore works\n", 12);
}

int main(void)
{
	char name[65];

	status_lines();
	mounts();
	limits();
	forbidden();
	if (gethostname(name, sizeof(name)))
		_exit(HIT);
	put(name, strlen(name));
	put("\n", 1);
	/* in one write, so that a fault cannot cut it short unseen */
	if (write(1, out, out_len) != (ssize_t)out_len)
		_exit(HIT);
	_exit(0);
}
