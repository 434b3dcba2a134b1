/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth - the command line: checks the process's environment, finds the command, runs it.
 *
 * A program run as root cannot trust its caller to hand over a usual state (SECURITY-NOTES 3):
 * standard descriptors may be closed, the umask 0, signals blocked or ignored. All of this is on
 * the hot path, so it asks the kernel only what the auxiliary vector does not say already.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/program.h"
#include "cli/command.h"
#include "libc.h"	/* made by base/musl/choose */

/*
 * Signals an odd parent may have left ignored and that berth relies on.  SIGHUP
 * stays as it is: that is what nohup asks for.
 */
static const int reset_signals[] = { SIGINT, SIGQUIT, SIGTERM, SIGCHLD, SIGPIPE };

/* A file opened later must never become descriptor 0, 1 or 2. */
static int fill_berth_std_fds(struct err *e)
{
	struct pollfd p[3] = { { .fd = 0 }, { .fd = 1 }, { .fd = 2 } };
	int i, fd;

	if (poll(p, 3, 0) < 0) {	/* RLIMIT_NOFILE below 3 */
		for (i = 0; i < 3; i++)
			p[i].revents = fcntl(i, F_GETFD) < 0 ? POLLNVAL : 0;
	}
	for (i = 0; i < 3; i++) {
		if (!(p[i].revents & POLLNVAL))
			continue;
		fd = open("/dev/null", O_RDWR);
		if (fd != i)
			return err_sys(e, "open /dev/null as descriptor %d", i);
	}
	return 0;
}

static int harden_berth(struct err *e)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL }, ign = { .sa_handler = SIG_IGN };
	sigset_t none;
	uint64_t seed;
	size_t i;

	if (getauxval(AT_SECURE) || getauxval(AT_UID) != getauxval(AT_EUID) ||
	    getauxval(AT_GID) != getauxval(AT_EGID))
		return err_set(e, ERR_DENIED, "refusing to run with privileges the caller does not have; "
			       "hint: remove the set-uid bit and file capabilities from berth");
	if (fill_berth_std_fds(e) < 0)
		return -1;
	umask(077);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return err_sys(e, "unblock signals");
	for (i = 0; i < ARRAY_LEN(reset_signals); i++)
		sigaction(reset_signals[i], &dfl, NULL);
	/* else it reads /dev/urandom, for tables that are to resist a guess; the kernel has handed us 16 random bytes */
	if (getauxval(AT_RANDOM)) {
		memcpy(&seed, (const char *)getauxval(AT_RANDOM) + 8, sizeof(seed));
		json_object_seed(seed | 1);
	}
	/* a file size limit is then an error we report, not a death half-way */
	sigaction(SIGXFSZ, &ign, NULL);
	return 0;
}

/* Output that could not be written is a failure, though the command went well. */
static int finish_berth_output(int status)
{
	struct err e;

	if (!fflush(stdout) && !ferror(stdout))
		return status;
	err_sys(&e, "write to standard output");
	return status ? status : command_fail(NULL, &e, 0);
}

static int print_help_json(json_t *doc)
{
	autojson json_t *j = doc;
	struct err e;

	return command_print_json(j, JSON_INDENT(2), &e) < 0 ? command_fail(NULL, &e, 1) : 0;
}

/* Takes --json out of the words, wherever it stands. */
static int take_json_word(int *argc, char **argv)
{
	int i, n = 0;

	for (i = 0; i < *argc; i++)
		if (strcmp(argv[i], "--json") != 0)
			argv[n++] = argv[i];
	i = n < *argc;
	*argc = n;
	return i;
}

static int help_berth(int argc, char **argv)
{
	const int json = take_json_word(&argc, argv);
	const struct command *c;
	struct err e;
	int words;

	if (argc < 1 && json)
		return print_help_json(command_overview_json());
	if (argc < 1) {
		command_overview();
		return 0;
	}
	if (!json && argc == 1 && command_group_help(argv[0]))
		return 0;
	c = command_find(argc, argv, &words, &e);
	if (!c)
		return command_fail(NULL, &e, json);
	if (json)
		return print_help_json(command_json(c));
	if (c->flags & COMMAND_EXTERNAL) {
		char word[] = "help", opt[] = "--help", *args[] = { word, opt, NULL };

		return c->run(c, 2, args);
	}
	command_help(c);
	return 0;
}

/* Programs read what the options print, which is the version alone. */
static int tell_version(int argc, char **argv)
{
	const int json = take_json_word(&argc, argv);
	struct err e;

	if (argc > 1) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: berth version, or berth version --json", argv[1]);
		return command_fail(NULL, &e, json);
	}
	if (json)
		return print_help_json(json_pack("{s:s,s:s,s:s*}", "version", BERTH_VERSION, "c_library", BERTH_LIBC,
						 "c_library_why", BERTH_LIBC_WHY[0] ? BERTH_LIBC_WHY : NULL));
	printf("berth %s\n", BERTH_VERSION);
	if (argv[0][0] != '-')
		printf("C library: %s%s%s\n", BERTH_LIBC, BERTH_LIBC_WHY[0] ? ": " : "", BERTH_LIBC_WHY);
	return 0;
}

static int is_either_word(const char *s, const char *a, const char *b)
{
	return !strcmp(s, a) || !strcmp(s, b);
}

static int dispatch_berth(int argc, char **argv)
{
	const struct command *c;
	struct err e;
	int words;

	if (is_either_word(argv[0], "help", "--help") || !strcmp(argv[0], "-h"))
		return help_berth(argc - 1, argv + 1);
	if (is_either_word(argv[0], "--version", "-V") || !strcmp(argv[0], "version"))
		return tell_version(argc, argv);
	if (argv[0][0] == '-') {
		err_set(&e, ERR_USAGE, "unknown option %.64s before the command; "
			"hint: options follow the command: berth run %.64s", argv[0], argv[0]);
		return command_fail(NULL, &e, 0);
	}
	if (argc == 2 && is_either_word(argv[1], "--help", "-h") && command_group_help(argv[0]))
		return 0;
	c = command_find(argc, argv, &words, &e);
	if (!c)
		return command_fail(NULL, &e, 0);
	argc -= words - 1;
	argv += words - 1;
	if (!(c->flags & COMMAND_ANY_USER) && getauxval(AT_EUID) &&
	    !(argc > 1 && is_either_word(argv[1], "--help", "-h"))) {
		err_set(&e, ERR_DENIED, "berth needs root; hint: sudo berth %s", c->name);
		return command_fail(c, &e, 0);
	}
	return c->run(c, argc, argv);
}

/*
 * Whether another host is meant; berth-remote then does everything. Costs no system call
 * otherwise.
 */
static int wants_host(int argc, char **argv)
{
	const char *host = getenv("BERTH_HOST");

	return (host && host[0]) || (argc > 1 && (!strcmp(argv[1], "--host") || !strncmp(argv[1], "--host=", 7)));
}

static int become_remote(char **argv)
{
	struct err e;
	autoclose int fd = program_open("berth-remote", &e);

	if (fd >= 0) {
		execveat(fd, "", argv, environ, AT_EMPTY_PATH);
		err_sys(&e, "execute berth-remote");
	}
	return command_fail(NULL, &e, 0);
}

int main(int argc, char **argv)
{
	struct err e;

	if (harden_berth(&e) < 0)
		return command_fail(NULL, &e, 0);
	if (wants_host(argc, argv))
		return become_remote(argv);
	if (argc < 2) {	/* the list for people, and the error for programs */
		command_overview();
		(void)!fflush(stdout);
		err_set(&e, ERR_USAGE, "no command given; hint: berth help lists them");
		return command_fail(NULL, &e, 0);
	}
	return finish_berth_output(dispatch_berth(argc - 1, argv + 1));
}
