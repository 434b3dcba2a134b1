/* SPDX-License-Identifier: Apache-2.0 */
/* berth build on behalf of docker build: its progress in the words of Docker's classic builder. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/program.h"
#include "cli/docker/verbs.h"
#include "manager/engine/build.h"

#define LINE_MAX_BYTES (1u << 20)
#define ERRORS_MAX (1u << 20)

/* A build starts berth anew, and finds it by the program that runs. */
static void become_builder(const char *const *words, int berth_fd, int out_fd, int err_fd) __attribute__((noreturn));
static void become_builder(const char *const *words, int berth_fd, int out_fd, int err_fd)
{
	struct err e;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGINT, SIG_DFL);
	if (dup2(out_fd, STDOUT_FILENO) >= 0 && dup2(err_fd, STDERR_FILENO) >= 0)
		execveat(berth_fd, "", (char *const *)(size_t)words, environ, AT_EMPTY_PATH);
	err_sys(&e, "execute berth");
	dprintf(err_fd, "%s\n", e.msg);
	_exit(125);
}

/* Tells each event, until the end of them; step: the last that began. */
static void tell_events(FILE *from, int quiet, char *step, size_t n)
{
	autofree char *line = NULL;
	size_t size = 0;
	ssize_t got;

	while ((got = getline(&line, &size, from)) > 0) {
		struct err ignored;
		autojson json_t *event = json_parse(line, (size_t)got, LINE_MAX_BYTES, "berth's answer", &ignored);
		autojson json_t *said = event ? engine_build_lines(event, quiet) : NULL;
		const json_t *one;
		size_t i;

		json_array_foreach (said, i, one) {
			const char *text = json_string_value(json_object_get(one, "stream"));

			if (text)
				fputs(text, stdout);
		}
		fflush(stdout);
		if (event)
			engine_build_note_step(event, step, n);
	}
}

/* What berth said on stderr: other lines as they are, its error as docker's client tells it.  The exit status. */
static int tell_build_error(int err_fd, const char *step, int status)
{
	autobuf struct buf said = BUF_INIT(ERRORS_MAX);
	struct err e;
	char *line, *rest;

	if (lseek(err_fd, 0, SEEK_SET) < 0 || io_read_all(err_fd, &said, "berth's errors", &e) < 0 || buf_add(&said, "", 1, &e) < 0)
		return door_error(&e);
	for (line = strtok_r(said.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		autojson json_t *doc = json_parse(line, strlen(line), ERRORS_MAX, "berth's error", &e);
		const char *message = json_string_value(json_object_get(json_object_get(doc, "error"), "message"));
		autojson json_t *error = message ? engine_build_error(message, step) : NULL;
		const json_int_t code = json_integer_value(json_object_get(error, "code"));

		if (!error)
			door_say(0, "%s", line);
		else if (!step[0])
			status = door_error((err_set(&e, ERR_INVALID, "%s", message), &e));
		else
			status = door_say(code > 0 && code < 256 ? (int)code : 1, "%s", json_string_value(json_object_get(error, "message")));
	}
	return status;
}

int door_run_build(const char *const *words, int quiet)
{
	struct err e;
	autoclose int berth = program_open("berth", &e), errors = memfd_create("errors", MFD_CLOEXEC);
	char step[1024] = "";
	int p[2], status = 0;
	FILE *from;
	pid_t pid;

	if (berth < 0)
		return door_error(&e);
	if (errors < 0 || pipe2(p, O_CLOEXEC) < 0)
		return door_error((err_sys(&e, "make a pipe"), &e));
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		become_builder(words, berth, p[1], errors);
	close(p[1]);
	from = pid < 0 ? NULL : fdopen(p[0], "r");
	if (!from) {
		close(p[0]);
		return door_error((err_sys(&e, "start a build"), &e));
	}
	/* a terminal's interrupt reaches the build, which then ends in order */
	signal(SIGINT, SIG_IGN);
	tell_events(from, quiet, step, sizeof(step));
	fclose(from);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return tell_build_error(errors, step, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
