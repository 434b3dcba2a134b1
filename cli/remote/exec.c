/* SPDX-License-Identifier: Apache-2.0 */
/* exec, sh, output, send: a command on the other host, and its bytes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/remote/remote.h"
#include "runtime/sandbox/reason.h"

#define TEXT_MAX (768u << 10)	/* berthd takes 1 MiB of JSON */

/* ---- events, a line each ---------------------------------------------------------------- */

int remote_write_data(const json_t *j, const char *key, int fd, struct err *e)
{
	autobuf struct buf bytes = BUF_INIT(1u << 30);	/* an answer is shorter */

	if (json_get_bytes(j, key, &bytes, "berthd's answer", e) < 0)
		return e->code == ERR_INVALID ? err_set(e, ERR_CORRUPT, "berthd's answer is malformed") : -1;
	return bytes.len && io_write_all(fd, bytes.data, bytes.len) < 0 ? err_sys(e, "write the output") : 0;
}

/* A thread: our stdin, to its end. */
static void *feed_remote_stdin(void *arg)
{
	struct remote_events *ev = arg;
	autobuf struct buf path = BUF_INIT(4096), rest = BUF_INIT(256);
	struct remote_io io = { .in_fd = STDIN_FILENO };
	struct err ignored;

	if (buf_addf(&rest, &ignored, "/%s/%s/stdin?eof=true", ev->is_zygote ? "runs" : "commands",
		     ev->command) == 0 &&
	    (ev->is_zygote ? remote_zygote_path : remote_path)(&path, ev->box, rest.data,
							       &ignored) == 0)
		/* if it reads no more, that is no error */
		remote_transfer(ev->r, "POST", path.data, &io, &ignored);
	return NULL;
}

static int take_start(struct remote_events *ev, const char *command, const char *sandbox, const json_t *attest, struct err *e)
{
	autofree char *text = attest ? json_dumps(attest, JSON_INDENT(2)) : NULL;

	if (!ev->box[0]) {
		snprintf(ev->made, sizeof(ev->made), "%s", sandbox ? sandbox : "");
		ev->box = ev->made;
	}
	snprintf(ev->command, sizeof(ev->command), "%s", command);
	if (text && (io_write_all(STDERR_FILENO, text, strlen(text)) < 0 || io_write_all(STDERR_FILENO, "\n", 1) < 0))
		return err_sys(e, "write the attestation");
	if (ev->started) {
		ev->fed = 1;
		return ev->started(ev, e);
	}
	ev->fed = pthread_create(&ev->feeder, NULL, feed_remote_stdin, ev) == 0 ? 1 : -1;
	return 0;
}

static int take_remote_event(struct remote_events *ev, const char *text, size_t n, struct err *e)
{
	autojson json_t *j = json_parse(text, n, REMOTE_LINE_MAX, "berthd's answer", e);
	const char *stream = json_string_value(json_object_get(j, "stream"));
	const char *command = json_string_value(json_object_get(j, ev->is_zygote ? "run" : "command")),
		   *sandbox = json_string_value(json_object_get(j, "sandbox"));

	if (!j)
		return -1;
	if (json_object_get(j, "error"))
		return json_take_error(json_object_get(j, "error"), ERR_INTERNAL, "berthd", e);
	if (json_object_get(j, "verdict")) {
		json_decref(ev->verdict);
		ev->verdict = json_incref(json_object_get(j, "verdict"));
		return 0;
	}
	if (json_object_get(j, "started") && command && ev->fed == 0 && ev->box)
		return take_start(ev, command, sandbox, json_object_get(j, "attest"), e);
	if (!stream)
		return 0;
	if (ev->json)
		return remote_print(json_incref(j), e);
	return remote_write_data(j, "data", !strcmp(stream, "stderr") ? STDERR_FILENO : STDOUT_FILENO, e);
}

int remote_take_events(void *ctx, const char *data, size_t n, struct err *e)
{
	struct remote_events *ev = ctx;
	char *end;

	if (buf_add(&ev->line, data, n, e) < 0)
		return -1;
	while ((end = memchr(ev->line.data, '\n', ev->line.len))) {
		size_t len = (size_t)(end - ev->line.data);

		if (len && take_remote_event(ev, ev->line.data, len, e) < 0)
			return -1;
		memmove(ev->line.data, end + 1, ev->line.len - len - 1);
		ev->line.len -= len + 1;
	}
	return 0;
}

/* ---- exec ---------------------------------------------------------------------------------- */

static int exec_body(struct remote *r, json_t *body, struct err *e)
{
	const char *v;
	json_t *argv = json_array();
	uint64_t n;
	int i;

	for (i = 1; i < r->count; i++)
		if (json_array_append_new(argv, json_string(r->words[i])) < 0) {
			json_decref(argv);
			return err_set(e, ERR_INVALID, "the command is not valid UTF-8");
		}
	json_object_set_new(body, "argv", argv);
	remote_set_list(r, body, "env", "env");
	if (remote_flag(r, "checkpoint"))
		json_object_set_new(body, "checkpoint", json_true());
	remote_set_list(r, body, "ulimits", "ulimit");
	remote_set_string(r, body, "user", "user");
	remote_set_string(r, body, "workdir", "workdir");
	if (remote_set_ms(r, body, "timeout_ms", "timeout", e) < 0 || remote_set_ms(r, body, "grace_ms", "grace", e) < 0 ||
	    remote_set_ms(r, body, "max_silent_ms", "max-silent-time", e) < 0)
		return -1;
	v = remote_value(r, "memory");
	if (v && (num_size(v, "memory", 512 << 10, 1ULL << 60, &n, e) < 0 ||
		  json_object_set_new(body, "memory_bytes", json_integer((json_int_t)n)) < 0))
		return -1;
	v = remote_value(r, "cpus");
	if (v && (num_milli(v, "cpus", 10, 4096000, &n, e) < 0 || json_object_set_new(body, "cpu_milli", json_integer((json_int_t)n)) < 0))
		return -1;
	v = remote_value(r, "pids");
	if (v && (num_u64(v, "pids", 1, 4194304, &n, e) < 0 || json_object_set_new(body, "pids", json_integer((json_int_t)n)) < 0))
		return -1;
	return 0;
}

void remote_tell_reason(const struct remote *r, const json_t *verdict)
{
	char prog[64];

	snprintf(prog, sizeof(prog), "berth %s", r->command->name);
	reason_tell(prog, verdict, strcmp(r->command->name, "run") != 0);
}

int remote_report(struct remote *r, const json_t *verdict, struct err *e)
{
	const char *fd = remote_value(r, "status-fd");
	autofree char *text = json_dumps(verdict, JSON_COMPACT);
	uint64_t n;

	r->status = (int)json_integer_value(json_object_get(verdict, "exit_status"));
	if (!r->json)
		remote_tell_reason(r, verdict);
	if (fd) {
		if (num_u64(fd, "descriptor", 0, 1 << 20, &n, e) < 0)
			return -1;
		if (!text || io_write_all((int)n, text, strlen(text)) < 0 || io_write_all((int)n, "\n", 1) < 0)
			return err_sys(e, "write the verdict to descriptor %s", fd);
	}
	return r->json ? remote_print(json_incref((json_t *)(size_t)verdict), e) : 0;
}

static int start_remote_detached(struct remote *r, const char *path, const json_t *body, struct err *e)
{
	autojson json_t *answer = remote_call(r, "POST", path, body, e);
	const char *id = json_string_value(json_object_get(answer, "command"));

	if (!answer)
		return -1;
	printf(r->json ? "{\"command\":\"%s\"}\n" : "%s\n", id ? id : "");
	return 0;
}

int remote_stream(struct remote *r, const char *path, const json_t *body, const char *box,
		  int is_zygote, struct err *e)
{
	static struct remote_events ev;	/* the thread that reads our stdin may outlive this function */
	struct remote_io io = { .in_fd = -1, .json = body, .take = remote_take_events, .ctx = &ev };
	int result;

	ev = (struct remote_events){ .r = r, .line = BUF_INIT(REMOTE_LINE_MAX),
				     .box = (char *)(size_t)box, .is_zygote = is_zygote };
	result = remote_transfer(r, "POST", path, &io, e);
	if (result == 0)
		result = ev.verdict ? remote_report(r, ev.verdict, e) :
				      err_set(e, ERR_NET, "the connection ended before the command did");
	buf_release(&ev.line);
	json_decref(ev.verdict);
	return result;
}

int remote_exec(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object();
	autobuf struct buf path = BUF_INIT(4096);

	if (exec_body(r, body, e) < 0 || remote_path(&path, r->words[0], "/exec", e) < 0)
		return -1;
	if (remote_flag(r, "detach") || remote_flag(r, "tty")) {
		json_object_set_new(body, "detach", json_true());
		if (remote_flag(r, "tty"))
			json_object_set_new(body, "tty", json_true());
		return remote_flag(r, "detach") ? start_remote_detached(r, path.data, body, e) : remote_exec_terminal(r, path.data, body, e);
	}
	json_object_set_new(body, "stream", json_true());
	json_object_set_new(body, "stdin_open", json_true());
	return remote_stream(r, path.data, body, r->words[0], 0, e);
}

/* ---- run ------------------------------------------------------------------------------------- */

int remote_run(struct remote *r, struct err *e)
{
	autojson json_t *body = NULL, *status_fd = json_incref(json_object_get(r->options, "status-fd"));
	static const char *const ours[] = { "status-fd", "interactive", "rm", "tty", "keep", "attest" };
	int tty = remote_flag(r, "tty"), keep = remote_flag(r, "keep"), attest = remote_flag(r, "attest"), i;
	json_t *argv = json_array();

	if (remote_flag(r, "zygote")) {
		json_decref(argv);
		return remote_run_zygote(r, e);
	}
	if (remote_flag(r, "dry-run")) {
		json_decref(argv);
		return err_set(e, ERR_UNSUPPORTED,
			       "option --dry-run of run works on the sandbox's own host only; hint: over ssh");
	}
	if (remote_flag(r, "detach") && r->count) {
		json_decref(argv);
		json_object_del(r->options, "detach");
		json_object_set_new(r->options, "service", json_pack("[b]", 1));
		return remote_create(r, e);
	}
	if (r->count < 2) {
		json_decref(argv);
		return err_set(e, ERR_USAGE, "on another host run takes an image and a command");
	}
	for (i = 0; i < (int)ARRAY_LEN(ours); i++)
		json_object_del(r->options, ours[i]);
	body = remote_create_body(r);
	for (i = 1; i < r->count; i++)
		if (json_array_append_new(argv, json_string(r->words[i])) < 0)
			json_array_append_new(argv, json_null());	/* which berthd refuses */
	if (!body) {
		json_decref(argv);
		return -1;
	}
	json_object_set_new(body, "argv", argv);
	json_object_set_new(body, "stream", json_true());
	if (keep)
		json_object_set_new(body, "keep", json_true());
	if (attest)
		json_object_set_new(body, "attest", json_true());
	if (status_fd)
		json_object_set(r->options, "status-fd", status_fd);
	if (tty)
		return remote_run_terminal(r, body, e);
	json_object_set_new(body, "stdin_open", json_true());
	return remote_stream(r, "/v1/run", body, "", 0, e);
}

/* ---- sh ------------------------------------------------------------------------------------- */

static int sh_text(struct remote *r, json_t *body, struct err *e)
{
	autobuf struct buf b = BUF_INIT(TEXT_MAX);
	json_t *text;
	int i;

	if (r->count < 2 && io_read_all(STDIN_FILENO, &b, "stdin", e) < 0)
		return -1;
	for (i = 1; i < r->count; i++)
		if ((i > 1 && buf_adds(&b, " ", e) < 0) || buf_adds(&b, r->words[i], e) < 0)
			return -1;
	text = json_stringn(b.data ? b.data : "", b.len);
	return text ? json_object_set_new(body, "text", text) : err_set(e, ERR_INVALID, "the text is not valid UTF-8");
}

static int show_shell(struct remote *r, json_t *answer, struct err *e)
{
	const json_t *dropped = json_object_get(answer, "output_dropped");

	r->status = (int)json_integer_value(json_object_get(answer, "exit_status"));
	if (r->json)
		return remote_print(json_incref(answer), e);
	if (json_integer_value(dropped))
		log_note("berth sh", "%lld bytes of output were dropped", (long long)json_integer_value(dropped));
	if (remote_write_data(answer, "output", STDOUT_FILENO, e) < 0 || remote_write_data(answer, "stderr", STDERR_FILENO, e) < 0)
		return -1;
	remote_tell_reason(r, json_object_get(answer, "verdict"));
	return 0;
}

int remote_sh(struct remote *r, struct err *e)
{
	const char *session = remote_value(r, "session"), *method = "POST", *verb = "/run";
	autobuf struct buf path = BUF_INIT(4096), rest = BUF_INIT(256);
	autojson json_t *body = json_object(), *answer = NULL;
	int wait = remote_flag(r, "wait"), list = remote_flag(r, "list"), close = remote_flag(r, "close");

	if (session && strchr(session, '/'))
		return err_set(e, ERR_INVALID, "session name '%.40s' is malformed; hint: a-z 0-9 _ . -", session);
	if (!list && !close) {
		remote_set_string(r, body, "on_timeout", "on-timeout");
		if (remote_set_ms(r, body, "timeout_ms", "timeout", e) < 0 || (!wait && sh_text(r, body, e) < 0))
			return -1;
		if (remote_flag(r, "split") && !wait)
			json_object_set_new(body, "split", json_true());
		if (!wait && (remote_set_ms(r, body, "queue_ms", "queue-timeout", e) < 0 ||
			      remote_set_ms(r, body, "max_silent_ms", "max-silent-time", e) < 0))
			return -1;
		if (remote_flag(r, "no-wait") && !wait)
			json_object_set_new(body, "no_wait", json_true());
		if (remote_flag(r, "checkpoint") && !wait)
			json_object_set_new(body, "checkpoint", json_true());
	}
	if (wait)
		verb = "/wait";
	if (list || close) {
		method = list ? "GET" : "DELETE";
		verb = "";
	}
	if (list ? buf_adds(&rest, "/sessions", e) < 0 : buf_addf(&rest, e, "/sessions/%s%s", session ? session : "main", verb) < 0)
		return -1;
	if (remote_path(&path, r->words[0], rest.data, e) < 0)
		return -1;
	answer = remote_call(r, method, path.data, list || close ? NULL : body, e);
	if (!answer)
		return -1;
	if (list)
		return remote_print(json_incref(json_object_get(answer, "sessions")), e);
	return close ? 0 : show_shell(r, answer, e);
}

/* ---- output, send ------------------------------------------------------------------------------ */

int remote_output(struct remote *r, struct err *e)
{
	const char *stream = remote_flag(r, "stderr") ? "stderr" : "stdout", *from = remote_value(r, "from");
	int follow = remote_flag(r, "follow");
	autobuf struct buf path = BUF_INIT(4096), rest = BUF_INIT(256);
	struct remote_events ev = { .r = r, .line = BUF_INIT(REMOTE_LINE_MAX), .json = r->json };
	struct remote_io io = { .in_fd = -1, .take = follow ? remote_take_events : remote_to_stdout, .ctx = &ev };
	json_t *answer;
	int result;

	if (strchr(r->words[1], '/'))
		return err_set(e, ERR_NOT_FOUND, "no command '%.40s'", r->words[1]);
	if (buf_addf(&rest, e, "/commands/%s/%s", r->words[1], follow ? "follow" : "output") < 0 ||
	    remote_path(&path, r->words[0], rest.data, e) < 0 || remote_query(&path, "stream", stream, e) < 0 ||
	    (from && remote_query(&path, follow && !strcmp(stream, "stderr") ? "stderr_from" : "from", from, e) < 0))
		return -1;
	if (!follow && r->json) {
		answer = remote_call(r, "GET", path.data, NULL, e);
		return answer ? remote_print(answer, e) : -1;
	}
	if (!follow && remote_query(&path, "raw", "true", e) < 0)
		return -1;
	result = remote_transfer(r, "GET", path.data, &io, e);
	buf_release(&ev.line);
	json_decref(ev.verdict);
	return result;
}

int remote_send(struct remote *r, struct err *e)
{
	const char *session = remote_value(r, "session"), *to = session ? session : r->count > 1 ? r->words[1] : "";
	const char *text = r->count > (session ? 1 : 2) ? r->words[r->count - 1] : NULL;
	autobuf struct buf path = BUF_INIT(4096), rest = BUF_INIT(256);
	struct remote_io io = { .in_fd = STDIN_FILENO };
	int p[2] = { -1, -1 }, result;

	if (!to[0] || strchr(to, '/'))
		return err_set(e, ERR_USAGE, "a sandbox and a command are wanted; hint: berth send ID COMMAND TEXT");
	if (buf_addf(&rest, e, session ? "/sessions/%s/input" : "/commands/%s/stdin", to) < 0 ||
	    remote_path(&path, r->words[0], rest.data, e) < 0 || (remote_flag(r, "eof") && remote_query(&path, "eof", "true", e) < 0))
		return -1;
	if (text || remote_flag(r, "eof")) {
		/* a text of the command line fits a pipe, or is refused */
		if (text && strlen(text) > 60000)
			return err_set(e, ERR_LIMIT, "the text is too long; hint: on stdin");
		if (pipe(p) < 0)
			return err_sys(e, "make a pipe");
		if (text && (io_write_all(p[1], text, strlen(text)) < 0 ||
			     (!remote_flag(r, "no-newline") && io_write_all(p[1], "\n", 1) < 0)))
			return err_sys(e, "write to a pipe");
		fd_close(&p[1]);
		io.in_fd = p[0];
	}
	result = remote_transfer(r, "POST", path.data, &io, e);
	fd_close(&p[0]);
	return result;
}
