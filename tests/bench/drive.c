/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drive - run commands in turn, round after round, and time each from spawn to reaped.
 *
 *   drive ROUNDS WARMUP GAP_US LIMIT_S BUDGET_S LEAST {: NAME MNTNS ERRFILE EVERY ARG...}...
 *
 * Every round runs every command once, in an order shuffled anew, so that noise falls on all alike; a slow one may take
 * part in each EVERYth round only.  After BUDGET_S no further round is begun, once there were LEAST.  Between two runs it
 * spins for GAP_US, so that the kernel's deferred clean-up of one is not charged to the next and the processor stays awake.
 * MNTNS is a mount namespace to run in ("-" for ours).  An argument "%n" becomes a name never used before.
 * One line per run on stdout: NAME ROUND WALL_NS STATUS CPU_US PEAK_KIB (ROUND from 0; the warm-up is not printed).  STATUS is the exit
 * status, 128 + signal, or -1 for the time limit.  A command that failed is not run again; its stderr is in ERRFILE.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONTENDERS = 64, ARGS = 128 };

struct contender {
	const char *name;
	int mntns_fd, err_fd, failed, argc, every;
	char *argv[ARGS];
};
static struct contender all[CONTENDERS];
static volatile sig_atomic_t running, timed_out;

static void die(const char *what)
{
	fprintf(stderr, "drive: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void on_alarm(int sig)
{
	(void)sig;
	if (running > 0) {
		timed_out = 1;
		kill(running, SIGKILL);
	}
}

static long cpu_us(const struct rusage *u)
{
	return (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000L + u->ru_utime.tv_usec + u->ru_stime.tv_usec;
}

/* -1: could not start.  vfork: the cost is the same for all, and does not depend on our size. */
static int run_once(struct contender *c, unsigned limit_s, uint64_t *ret_wall_ns, struct rusage *ret_use)
{
	char *argv[ARGS], number[64];
	static unsigned long serial;
	uint64_t t0;
	int status;
	pid_t pid;

	snprintf(number, sizeof number, "berth-bench-%d-%lu", getpid(), serial++);
	for (int i = 0; i < c->argc; i++)
		argv[i] = strcmp(c->argv[i], "%n") ? c->argv[i] : number;
	argv[c->argc] = NULL;
	if (ftruncate(c->err_fd, 0) || lseek(c->err_fd, 0, SEEK_SET))
		die("stderr file");
	timed_out = 0;
	t0 = now_ns();
	pid = vfork();
	if (pid == 0) {
		if (c->mntns_fd >= 0 && setns(c->mntns_fd, CLONE_NEWNS))
			_exit(125);
		dup2(c->err_fd, 2);
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0)
		die("vfork");
	running = pid;
	alarm(limit_s);
	while (wait4(pid, &status, 0, ret_use) < 0)
		if (errno != EINTR)
			die("wait4");
	*ret_wall_ns = now_ns() - t0;
	alarm(0);
	running = 0;
	if (timed_out)
		return -1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int parse(int argc, char **argv)
{
	int n = 0;

	for (int i = 7; i < argc; n++) {
		struct contender *c = &all[n];

		if (n == CONTENDERS || strcmp(argv[i], ":") || i + 5 >= argc)
			return -1;
		c->name = argv[i + 1];
		c->mntns_fd = -1;
		if (strcmp(argv[i + 2], "-") && (c->mntns_fd = open(argv[i + 2], O_RDONLY | O_CLOEXEC)) < 0)
			die(argv[i + 2]);
		c->err_fd = open(argv[i + 3], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (c->err_fd < 0)
			die(argv[i + 3]);
		c->every = atoi(argv[i + 4]);
		if (c->every < 1)
			return -1;
		for (i += 5; i < argc && strcmp(argv[i], ":"); i++) {
			if (c->argc == ARGS - 1)
				return -1;
			c->argv[c->argc++] = argv[i];
		}
	}
	return n;
}

int main(int argc, char **argv)
{
	int n, rounds, warmup, order[CONTENDERS];
	uint64_t gap_ns, over;
	unsigned limit_s;
	int out, least;

	n = argc > 7 ? parse(argc, argv) : -1;
	if (n < 1) {
		fprintf(stderr, "usage: drive ROUNDS WARMUP GAP_US LIMIT_S BUDGET_S LEAST {: NAME MNTNS ERRFILE EVERY ARG...}...\n");
		return 2;
	}
	rounds = atoi(argv[1]);
	warmup = atoi(argv[2]);
	gap_ns = strtoul(argv[3], NULL, 10) * 1000u;
	limit_s = (unsigned)atoi(argv[4]);
	over = now_ns() + strtoul(argv[5], NULL, 10) * 1000000000u;
	least = atoi(argv[6]);
	/* our stdout carries the figures; theirs is thrown away */
	out = fcntl(1, F_DUPFD_CLOEXEC, 3);
	if (out < 0 || dup2(open("/dev/null", O_RDWR | O_CLOEXEC), 1) < 0 || dup2(1, 0) < 0)
		die("stdout");
	signal(SIGALRM, on_alarm);
	srand(1);
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int r = -warmup; r < rounds && (r < least || now_ns() < over); r++) {
		for (int i = n - 1; i > 0; i--) {
			int k = rand() % (i + 1), t = order[i];

			order[i] = order[k];
			order[k] = t;
		}
		for (int i = 0; i < n; i++) {
			struct contender *c = &all[order[i]];
			uint64_t wall, until = now_ns() + gap_ns;
			struct rusage use;
			int status;

			if (c->failed || (r >= 0 && r % c->every))
				continue;
			while (now_ns() < until)
				;
			status = run_once(c, limit_s, &wall, &use);
			c->failed = status != 0;
			if (r >= 0 || c->failed)
				dprintf(out, "%s %d %llu %d %ld %ld\n", c->name, r, (unsigned long long)wall, status, cpu_us(&use), use.ru_maxrss);
		}
	}
	return 0;
}
