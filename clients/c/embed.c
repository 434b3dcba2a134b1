/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed - run a command in a sandbox by a `berth stdio` of its own; the requests are in berth-stdio(1).
 * The exit status is the command's, or 125 with a line on stderr.
 */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *to, *from;

/* One request, which is taken over, and its last answer: exec streams output before it. */
static json_t *call(json_t *request)
{
	json_t *answer;
	const char *data, *stream;
	if (!request || json_dumpf(request, to, 0) < 0 || fputc('\n', to) < 0 || fflush(to) < 0)
		exit((perror("berth stdio"), 125));
	json_decref(request);
	while ((answer = json_loadf(from, JSON_DISABLE_EOF_CHECK, NULL))) {
		data = json_string_value(json_object_get(answer, "data"));
		stream = json_string_value(json_object_get(answer, "stream"));
		if (stream && data)
			fputs(data, stream[3] == 'e' ? stderr : stdout);	/* std[e]rr */
		if (!stream && !json_object_get(answer, "started"))
			break;
		json_decref(answer);
	}
	data = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
	if (!answer || data)
		exit((fprintf(stderr, "embed: %s\n", data ? data : "berth stdio ended"), 125));
	return answer;
}

int main(int argc, char **argv)
{
	json_t *made, *ran, *box;
	int in[2], out[2], status;

	if (argc != 3 || pipe(in) < 0 || pipe(out) < 0)
		return fprintf(stderr, "usage: embed IMAGE COMMAND\n"), 2;
	if (fork() == 0) {
		dup2(in[0], 0), dup2(out[1], 1), close(in[0]), close(in[1]), close(out[0]), close(out[1]);
		execlp("berth", "berth", "stdio", NULL);
		_exit((perror("berth"), 127));
	}
	signal(SIGPIPE, SIG_IGN), close(in[0]), close(out[1]), to = fdopen(in[1], "w"), from = fdopen(out[0], "r");
	made = call(json_pack("{s:i,s:s,s:s,s:{s:b,s:i}}", "id", 1, "op", "create", "image", argv[1],
			      "options", "auto-remove", 1, "owner-pid", (int)getpid()));
	box = json_object_get(made, "sandbox");
	ran = call(json_pack("{s:i,s:s,s:O,s:[sss],s:i}", "id", 2, "op", "exec", "sandbox", box,
			     "argv", "/bin/sh", "-c", argv[2], "timeout_ms", 10000));
	status = (int)json_integer_value(json_object_get(json_object_get(ran, "verdict"), "exit_status"));
	json_decref(call(json_pack("{s:i,s:s,s:O,s:{s:b}}", "id", 3, "op", "rm", "sandbox", box,
				   "options", "force", 1)));
	json_decref(made), json_decref(ran), fclose(to), wait(NULL), fclose(from);
	return status;
}
