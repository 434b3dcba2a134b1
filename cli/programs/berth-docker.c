/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-docker - docker's command line over berth: find the verb, run it.
 *
 * A guardian of a sandbox with a restart policy executes this program anew as "berth"
 * (manager/keeper/keeper_spawn.c): under that name it is what berth is, for that one verb.
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

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/docker/door.h"
#include "manager/host/restart.h"

#define SAID_VERSION "Docker version 25.0.0, build berth-" BERTH_VERSION

/* A file opened later must never become descriptor 0, 1 or 2. */
static int fill_docker_std_fds(void)
{
	struct pollfd p[3] = { { .fd = 0 }, { .fd = 1 }, { .fd = 2 } };
	int i;

	if (poll(p, 3, 0) < 0)
		return -1;
	for (i = 0; i < 3; i++)
		if ((p[i].revents & POLLNVAL) && open("/dev/null", O_RDWR) != i)
			return -1;
	return 0;
}

/* What an odd parent may have left, as berth does (cli/programs/berth.c). */
static int harden_docker(void)
{
	static const int reset[] = { SIGINT, SIGQUIT, SIGTERM, SIGCHLD, SIGPIPE };
	struct sigaction dfl = { .sa_handler = SIG_DFL }, ign = { .sa_handler = SIG_IGN };
	sigset_t none;
	uint64_t seed;
	size_t i;

	if (getauxval(AT_SECURE) || getauxval(AT_UID) != getauxval(AT_EUID) ||
	    fill_docker_std_fds() < 0)
		return -1;
	umask(077);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(reset); i++)
		sigaction(reset[i], &dfl, NULL);
	if (getauxval(AT_RANDOM)) {
		memcpy(&seed, (const char *)getauxval(AT_RANDOM) + 8, sizeof(seed));
		json_object_seed(seed | 1);
	}
	sigaction(SIGXFSZ, &ign, NULL);
	return 0;
}

/* ---- what stands before the verb ------------------------------------------------------------- */

/* Another engine is the business of the client that speaks with engines. */
static int elsewhere(const char *what, const char *value)
{
	return door_say(1,
			"%s %s means another engine: berth-docker works on this host without "
			"one; Debian's docker-cli speaks with others",
			what, value);
}

static int is_docker_host_here(const char *host)
{
	static const char *const ours[] = { "unix:///var/run/docker.sock",
					    "unix:///run/docker.sock",
					    "unix:///run/berth-docker.sock" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ours); i++)
		if (!strcmp(host, ours[i]))
			return 1;
	return !host[0] || door_is_own_socket(host);
}

/* Its value, and *i moved behind it; NULL when argv[*i] is another option. */
static const char *docker_option_value(char **argv, int *i, const char *name, const char *letter)
{
	const char *a = argv[*i];
	const size_t n = strlen(name);

	if (!strncmp(a, name, n) && a[n] == '=')
		return a + n + 1;
	if (letter && !strncmp(a, letter, 2) && a[2])
		return a + 2 + (a[2] == '=');
	if (strcmp(a, name) && (!letter || strcmp(a, letter)))
		return NULL;
	return argv[*i + 1] ? argv[++*i] : "";
}

/* The index of the verb, or -1 with *ret_status. */
static int global_options(int argc, char **argv, int *ret_status)
{
	const char *host = getenv("DOCKER_HOST"), *context = getenv("DOCKER_CONTEXT"), *v;
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		const char *a = argv[i];

		if ((v = docker_option_value(argv, &i, "--host", "-H")))
			host = v;
		else if ((v = docker_option_value(argv, &i, "--context", "-c")))
			context = v;
		else if (docker_option_value(argv, &i, "--config", NULL) ||
			 docker_option_value(argv, &i, "--log-level", "-l") || !strcmp(a, "-D") ||
			 !strcmp(a, "--debug"))
			continue;
		else if (!strcmp(a, "-v") || !strcmp(a, "--version"))
			return *ret_status = printf("%s\n", SAID_VERSION) < 0, -1;
		else if (!strcmp(a, "-h") || !strcmp(a, "--help"))
			return door_overview(), *ret_status = 0, -1;
		else
			return *ret_status = door_say(DOOR_USAGE,
						      "unknown flag: %.80s\nSee "
						      "'docker --help'.",
						      a),
			       -1;
	}
	if (host && !is_docker_host_here(host))
		return *ret_status = elsewhere("DOCKER_HOST or --host", host), -1;
	if (context && context[0] && strcmp(context, "default"))
		return *ret_status = elsewhere("the context", context), -1;
	return i;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int help_docker(int argc, char **argv)
{
	const struct command *verb;
	int words;

	verb = argc ? door_find_verb(argc, argv, &words) : NULL;
	if (verb)
		door_help(verb, 0);
	else
		door_overview();
	return 0;
}

static int dispatch_docker(int argc, char **argv)
{
	const struct command *verb;
	int words = 0;

	if (!argc || !strcmp(argv[0], "help"))
		return help_docker(argc ? argc - 1 : 0, argv + (argc > 0));
	if (!strcmp(argv[0], "checkpoint"))
		return door_say(1, "docker: checkpoint is refused: memory is not kept; berth "
				   "checkpoint keeps the files of a container (berth-docker(1))");
	verb = door_find_verb(argc, argv, &words);
	if (!verb)
		return door_say(1,
				"docker: unknown command: docker %.60s%s%.60s\n\nRun 'docker "
				"--help' for more information",
				argv[0], argc > 1 && words ? " " : "",
				argc > 1 && words ? argv[1] : "");
	argc -= words - 1;
	argv += words - 1;
	if (!(verb->flags & COMMAND_ANY_USER) && getauxval(AT_EUID) &&
	    !(argc > 1 && !strcmp(argv[1], "--help")))
		return door_say(1, "permission denied: berth-docker needs root");
	return verb->run(verb, argc, argv);
}

/* The guardian's verb, and no other of berth's. */
static int be_berth(int argc, char **argv)
{
	struct err e;

	if (argc > 1 && !strcmp(argv[1], RESTART_VERB))
		return cmd_guard.run(&cmd_guard, argc - 1, argv + 1);
	err_set(&e, ERR_USAGE, "berth-docker is not berth; hint: install berth under that name");
	return command_fail(NULL, &e, 0);
}

int main(int argc, char **argv)
{
	int at, status = 0;

	if (argc < 1 || harden_docker() < 0)
		return door_say(DOOR_USAGE, "berth-docker: refusing to run with privileges that "
					    "the caller does not have");
	if (!strcmp(argv[0], "berth"))
		return be_berth(argc, argv);
	at = global_options(argc, argv, &status);
	if (at >= 0)
		status = dispatch_docker(argc - at, argv + at);
	if (fflush(stdout) || ferror(stdout))
		return status ? status : door_say(1, "write to standard output failed");
	return status;
}
