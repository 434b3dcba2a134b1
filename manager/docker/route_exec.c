/* SPDX-License-Identifier: Apache-2.0 */
/* Execs: the table of those that were made, and their routes. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/create.h"
#include "manager/engine/name.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"

/* ---- the table of execs ---- */

struct entry {
	struct entry *next; /* newer ones first */
	struct exec e;	/* its body is in text */
	char *text;	/* of the body: as JSON it would take many times as much */
	size_t bytes;
};

struct execs {
	pthread_mutex_t lock;
	pthread_cond_t moved;	/* one has started or ended */
	struct entry *first;
	size_t count, bytes;
};

struct execs *execs_new(void)
{
	struct execs *x = calloc(1, sizeof(*x));

	if (x) {
		pthread_mutex_init(&x->lock, NULL);
		pthread_cond_init(&x->moved, NULL);
	}
	return x;
}

static void entry_free(struct entry *n)
{
	free(n->text);
	free(n);
}

void execs_free(struct execs *x)
{
	struct entry *n;

	if (!x)
		return;
	while ((n = x->first)) {
		x->first = n->next;
		entry_free(n);
	}
	pthread_cond_destroy(&x->moved);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

static struct entry *find_exec_entry(struct execs *x, const char *id)
{
	struct entry *n = x->first;

	while (n && strcmp(n->e.id, id))
		n = n->next;
	return n;
}

/* With the lock held: removes the oldest that is over or was never started; 0 when there is none. */
static int drop_oldest(struct execs *x)
{
	struct entry **at, **oldest = NULL, *n;

	for (at = &x->first; *at; at = &(*at)->next)
		if ((*at)->e.state == EXEC_ENDED || (*at)->e.state == EXEC_NEW)
			oldest = at;
	if (!oldest)
		return 0;
	n = *oldest;
	*oldest = n->next;
	x->count--;
	x->bytes -= n->bytes;
	entry_free(n);
	return 1;
}

/* With the lock held: room for one more of these bytes, or 0. */
static int make_room_for_exec(struct execs *x, size_t bytes)
{
	while (x->count >= EXECS_MAX || x->bytes + bytes > EXECS_BYTES_MAX)
		if (!drop_oldest(x))
			return 0;
	return 1;
}

int execs_add(struct execs *x, const char *box, const json_t *body, char ret_id[EXEC_ID],
	      struct err *e)
{
	struct entry *n = calloc(1, sizeof(*n));
	int room;

	if (!n || engine_new_id(n->e.id) < 0 || !(n->text = json_dumps(body, JSON_COMPACT))) {
		free(n);
		return err_nomem(e);
	}
	snprintf(n->e.box, sizeof(n->e.box), "%s", box);
	n->bytes = sizeof(*n) + strlen(n->text);
	memcpy(ret_id, n->e.id, EXEC_ID);
	pthread_mutex_lock(&x->lock);
	room = make_room_for_exec(x, n->bytes);
	if (room) {
		n->next = x->first;
		x->first = n;
		x->count++;
		x->bytes += n->bytes;
	}
	pthread_mutex_unlock(&x->lock);
	if (room)
		return 0;
	entry_free(n);
	return err_set(e, ERR_LIMIT, "%d execs of %u bytes run at once, which is the most; hint: wait for one to end", EXECS_MAX,
		       EXECS_BYTES_MAX);
}

int execs_get(struct execs *x, const char *id, struct exec *ret)
{
	struct entry *n;

	pthread_mutex_lock(&x->lock);
	n = find_exec_entry(x, id);
	if (n) {
		*ret = n->e;
		ret->body = json_loads(n->text, 0, NULL);
	}
	pthread_mutex_unlock(&x->lock);
	return n != NULL;
}

/* Of a command of box; starts: one of box that begins now, whose command is not known yet. */
static const struct entry *find_exec_of(const struct execs *x, const char *box, const char *command, int *starts)
{
	const struct entry *n;

	*starts = 0;
	for (n = x->first; n; n = n->next) {
		if (strcmp(n->e.box, box) != 0)
			continue;
		if (!strcmp(n->e.command, command))
			return n;
		*starts |= n->e.state == EXEC_STARTS;
	}
	return NULL;
}

int execs_of_command(struct execs *x, const char *box, const char *command, char ret_id[EXEC_ID])
{
	const struct entry *n;
	struct timespec until;
	int starts, late = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	pthread_mutex_lock(&x->lock);
	/* the end of a short command is told before its start is answered */
	while (!(n = find_exec_of(x, box, command, &starts)) && starts && !late)
		late = pthread_cond_timedwait(&x->moved, &x->lock, &until) != 0;
	if (n)
		memcpy(ret_id, n->e.id, EXEC_ID);
	pthread_mutex_unlock(&x->lock);
	return n != NULL;
}

json_t *execs_running(struct execs *x, const char *box)
{
	json_t *all = NULL;
	struct entry *n;

	pthread_mutex_lock(&x->lock);
	for (n = x->first; n; n = n->next) {
		if (strcmp(n->e.box, box) || (n->e.state != EXEC_RUNS && n->e.state != EXEC_STARTS))
			continue;
		if (!all)
			all = json_array();
		json_array_append_new(all, json_string(n->e.id));
	}
	pthread_mutex_unlock(&x->lock);
	return all ? all : json_null();
}

void exec_release(struct exec *e)
{
	json_decref(e->body);
	e->body = NULL;
}

int execs_begin(struct execs *x, const char *id)
{
	struct entry *n;
	int r = -1;

	pthread_mutex_lock(&x->lock);
	n = find_exec_entry(x, id);
	if (n)
		r = n->e.state == EXEC_NEW;
	if (r == 1)
		n->e.state = EXEC_STARTS;
	pthread_mutex_unlock(&x->lock);
	return r;
}

void execs_started(struct execs *x, const char *id, const char *command)
{
	struct entry *n;

	pthread_mutex_lock(&x->lock);
	n = find_exec_entry(x, id);
	if (n) {
		n->e.state = EXEC_RUNS;
		snprintf(n->e.command, sizeof(n->e.command), "%s", command);
	}
	pthread_cond_broadcast(&x->moved);
	pthread_mutex_unlock(&x->lock);
}

void execs_ended(struct execs *x, const char *id, int exit_code)
{
	struct entry *n;

	pthread_mutex_lock(&x->lock);
	n = find_exec_entry(x, id);
	if (n) {
		n->e.state = EXEC_ENDED;
		n->e.exit_code = exit_code;
	}
	pthread_cond_broadcast(&x->moved);
	pthread_mutex_unlock(&x->lock);
}

/* ---- their routes ---- */

/*
 * Routes that run further commands in a container.
 *
 * An exec is a detached command of the keeper's that its client follows: as with Docker it lives
 * on when the client goes. If its program is missing, its stream says so, where Docker's clients
 * look for it, and its exit code is the one that dockerd gives each exec whose program never began.
 */

#define NOT_BEGUN 126
#define LOST 137

static struct execs *table_of(const struct http_request *rq)
{
	return docker_of(rq)->execs;
}

/* ---- make ------------------------------------------------------------------------------- */

static int check_paused(struct http_request *rq, struct box *b, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_ping), *now = NULL;
	const char *state;

	if (docker_connect(b, e) < 0 || !(now = docker_call(b, ask, e)))
		return -1;
	state = json_string_value(json_object_get(now, "state"));
	return state && !strcmp(state, "paused")
		       ? docker_fail(rq, 409, e,
				     "Container %.200s is paused, unpause the container "
				     "before exec",
				     docker_called(rq))
		       : 0;
}

/* An exec of a user of its own has the container's further groups all the same. */
static int add_with_groups(struct http_request *rq, struct box *b, const json_t *body, char id[EXEC_ID],
			   struct err *e)
{
	autojson json_t *whole = json_copy((json_t *)(size_t)body);
	struct engine_loaded d;

	/* not a client's to say */
	json_object_del(whole, ENGINE_EXEC_GROUPS);
	if (json_string_length(json_object_get(body, "User"))) {
		if (docker_load(&d, b, 0, e) < 0)
			return -1;
		json_object_set(whole, ENGINE_EXEC_GROUPS,
				(json_t *)(size_t)engine_asked_host(&d.v, "GroupAdd"));
		engine_loaded_release(&d);
	}
	return execs_add(table_of(rq), b->id, whole, id, e);
}

#define EVENT_TEXT 200

/* Its words as an event's text: their beginning, in whole characters. */
static void tell_exec(struct registry *r, const char *event, const char *box, const char *id, const json_t *body)
{
	autobuf struct buf text = BUF_INIT(4096);
	struct err ignored;
	json_t *word;
	size_t i, n;

	/* of a word that is cut there is more than the text takes */
	json_array_foreach (json_object_get(body, "Cmd"), i, word)
		if (buf_addf(&text, &ignored, "%s%.*s", i ? " " : "", EVENT_TEXT + 1, json_string_value(word)) < 0 || text.len > EVENT_TEXT)
			break;
	n = text.len < EVENT_TEXT ? text.len : EVENT_TEXT;
	while (n && ((unsigned char)text.data[n] & 0xc0) == 0x80)
		n--;
	events_add(r, event, box, json_pack("{s:s,s:s#}", "exec", id, "text", n ? text.data : "", n));
}

static int post_exec_create(struct http_request *rq, struct err *e)
{
	json_t *body = http_json(rq);
	struct pump trial;
	char id[EXEC_ID];
	struct box b;
	int r = docker_find_running(&b, rq, e);

	if (r == 0)
		r = engine_exec_check(body, e);
	if (r == 0)
		r = pump_keys(&trial, rq, json_string_value(json_object_get(body, "DetachKeys")), e);
	if (r == 0)
		r = check_paused(rq, &b, e);
	if (r == 0)
		r = add_with_groups(rq, &b, body, id, e);
	if (r == 0)
		tell_exec(&b.registry, "exec-create", b.id, id, body);
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 201, json_pack("{s:s}", "Id", id), e);
}

/* ---- start ------------------------------------------------------------------------------- */

struct execution {
	struct box box;
	struct docker *docker;
	struct exec exec;
	struct pump pump;
	struct err failed; /* the reason why its program did not begin; code ERR_NONE: it did */
};

static void exec_reply_free(void *ctx)
{
	struct execution *x = ctx;

	box_close(&x->box);
	exec_release(&x->exec);
	json_decref(x->pump.verdict);
	free(x);
}

static int no_such_exec(struct http_request *rq, struct err *e)
{
	return docker_fail(rq, 404, e, "No such exec instance: %.70s", http_param(rq, "id"));
}

/* The sandbox of the exec, which the path does not name. */
static int open_exec_box(struct box *b, struct http_request *rq, const struct exec *x, struct err *e)
{
	if (box_open(b, rq, e) < 0)
		return -1;
	snprintf(b->id, sizeof(b->id), "%s", x->box);
	b->sock = keeper_connect(&b->registry, b->id, e);
	if (b->sock < 0 && e->code == ERR_NOT_FOUND)
		return engine_not_running(b->id, e);
	return b->sock < 0 ? -1 : 0;
}

static int is_exec_flag_on(const json_t *body, const char *key)
{
	return json_is_true(json_object_get(body, key));
}

static void set_exec_terminal_size(json_t *ask, const json_t *body)
{
	const json_t *size = json_object_get(body, "ConsoleSize");
	json_int_t rows = json_integer_value(json_array_get(size, 0));
	json_int_t cols = json_integer_value(json_array_get(size, 1));

	if (rows > 0 && cols > 0) {
		request_set_rows(ask, (uint64_t)rows);
		request_set_cols(ask, (uint64_t)cols);
	}
}

/* The stdin of a detached command stays open; without an attached client it is closed. */
static void end_input(struct execution *x)
{
	autojson json_t *ask = protocol_request(OP_send), *answer = NULL;
	struct err ignored;

	request_set_command(ask, x->exec.command);
	request_set_eof(ask, 1);
	answer = box_call(&x->box, ask, NULL, 0, NULL, &ignored);
}

static int launch_exec(struct execution *x, const json_t *how, struct err *e)
{
	autojson json_t *ask = engine_exec_request(x->exec.body), *answer = NULL;
	const char *command;

	if (is_exec_flag_on(x->exec.body, "Tty"))
		set_exec_terminal_size(ask, json_object_get(how, "ConsoleSize") ? how : x->exec.body);
	/* nothing is lost between here and the first look at its output */
	if (!is_exec_flag_on(how, "Detach"))
		request_set_hold(ask, 1);
	tell_exec(&x->box.registry, "exec-start", x->box.id, x->exec.id, x->exec.body);
	answer = docker_call(&x->box, ask, e);
	command = json_string_value(json_object_get(answer, "command"));
	if (!command)
		return answer ? err_set(e, ERR_CORRUPT, "the keeper named no command") : -1;
	snprintf(x->exec.command, sizeof(x->exec.command), "%s", command);
	execs_started(x->docker->execs, x->exec.id, command);
	if (!is_exec_flag_on(x->exec.body, "AttachStdin") && !is_exec_flag_on(x->exec.body, "Tty"))
		end_input(x);
	return 0;
}

static void tell_exec_client(const struct execution *x, int fd, const char *text)
{
	unsigned char head[8];
	const size_t n = strlen(text);

	engine_frame(head, 1, (uint32_t)n);
	if (!x->pump.raw)
		(void)!send(fd, head, sizeof(head), MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)!send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* In the stream, in Docker's words. */
static void tell_failure(struct execution *x, int fd)
{
	char text[sizeof(x->failed.msg) + 120];
	const int missing = x->failed.code == ERR_EXEC_NOT_FOUND;
	const int too_long = strstr(x->failed.msg, strerror(E2BIG)) != NULL;
	const char *why = x->failed.code == ERR_EXEC && !too_long ? ": permission denied" :
			  missing		     ? ": executable file not found in $PATH" :
						       "";

	snprintf(text, sizeof(text), "OCI runtime exec failed: exec failed: %s%s: unknown\r\n",
		 x->failed.msg, why);
	tell_exec_client(x, fd, text);
}

static void forget_exec_command(struct execution *x)
{
	autojson json_t *ask = protocol_request(OP_forget), *answer = NULL;
	struct err ignored;

	request_set_command(ask, x->exec.command);
	answer = keeper_call(x->box.sock, ask, NULL, 0, NULL, &ignored);
}

static void run_exec_stream(void *ctx, struct http_request *rq, int fd, const char *extra, size_t n)
{
	struct execution *x = ctx;
	struct err e;

	if (x->failed.code) {
		tell_failure(x, fd);
		return;
	}
	if (pump_run(&x->pump, rq, fd, extra, n, &e) < 0)
		return;
	/* it goes on */
	if (x->pump.keys.detached) {
		tell_exec_client(x, fd, "exec attach failed: error on attach stdin: read escape sequence\r\n");
		return;
	}
	/* the client asks for the code when it has seen the end */
	execs_ended(x->docker->execs, x->exec.id,
		    x->pump.verdict ? (int)json_integer_value(
					      json_object_get(x->pump.verdict, "exit_status"))
				    : LOST);
	if (x->pump.verdict)
		forget_exec_command(x);
}

/*
 * Whether the command itself is the reason, its program, user or directory: docker's client shows
 * the text of a stream, and of another status only the number.
 */
static int is_the_commands(const struct err *e)
{
	return e->code == ERR_EXEC || e->code == ERR_EXEC_NOT_FOUND || e->code == ERR_NOT_FOUND ||
	       e->code == ERR_INVALID || e->code == ERR_DENIED;
}

static int begin_execution(struct execution *x, struct http_request *rq, struct err *e)
{
	int r = execs_begin(table_of(rq), http_param(rq, "id"));

	if (r < 0 || !execs_get(table_of(rq), http_param(rq, "id"), &x->exec))
		return no_such_exec(rq, e);
	http_audit(rq, "id", x->exec.box);
	if (!r)
		return docker_fail(rq, 409, e, "Error: Exec command %.64s is already running",
				   x->exec.id);
	if (open_exec_box(&x->box, rq, &x->exec, e) < 0) {
		execs_ended(table_of(rq), x->exec.id, NOT_BEGUN);
		return -1;
	}
	if (is_exec_flag_on(x->exec.body, "Tty") &&
	    pump_keys(&x->pump, rq, json_string_value(json_object_get(x->exec.body, "DetachKeys")), e) < 0) {
		execs_ended(table_of(rq), x->exec.id, NOT_BEGUN);
		return -1;
	}
	if (launch_exec(x, http_json(rq), e) < 0) {
		x->failed = *e;
		execs_ended(table_of(rq), x->exec.id, NOT_BEGUN);
		if (!is_the_commands(e))
			return -1;
	}
	return http_endless(rq, e);
}

/* The form of the stream is what the start says, whatever the exec has. */
static void set_pump(struct execution *x, int raw)
{
	const json_t *body = x->exec.body;
	const int tty = is_exec_flag_on(body, "Tty");

	x->pump = (struct pump){ .box = &x->box,
				 .command = x->exec.command,
				 .raw = raw,
				 .keys = x->pump.keys,
				 .input = is_exec_flag_on(body, "AttachStdin"),
				 .input_ends = !tty };
	x->pump.want[0] = is_exec_flag_on(body, "AttachStdout");
	x->pump.want[1] = is_exec_flag_on(body, "AttachStderr");
}

static int post_exec_start(struct http_request *rq, struct err *e)
{
	struct execution *x = calloc(1, sizeof(*x));
	struct http_hijack h = { run_exec_stream, exec_reply_free, x };
	const char *type;
	struct err failed;

	if (!x)
		return err_nomem(e);
	box_clear(&x->box);
	x->docker = docker_of(rq);
	atomic_fetch_add(&api_of(rq)->execs, 1);
	if (begin_execution(x, rq, e) < 0) {
		exec_reply_free(x);
		return -1;
	}
	set_pump(x, is_exec_flag_on(http_json(rq), "Tty"));
	type = x->pump.raw ? DOCKER_RAW_STREAM : DOCKER_FRAMES;
	if (!is_exec_flag_on(http_json(rq), "Detach"))
		return http_reply_hijack(rq, type, &h, e);
	failed = x->failed;
	exec_reply_free(x);
	if (failed.code)
		return docker_fail(rq, 400, e, "%s", failed.msg);
	return http_reply_empty(rq, 200, e);
}

/* ---- look -------------------------------------------------------------------------------- */

/* If nobody saw the stream to its end, its keeper knows the result. */
static void ask_exec_state(struct http_request *rq, struct exec *x)
{
	autojson json_t *ask = protocol_request(OP_commands), *answer = NULL;
	struct err ignored;
	const json_t *c, *verdict;
	struct box b;
	size_t i;

	if (open_exec_box(&b, rq, x, &ignored) == 0)
		answer = box_call(&b, ask, NULL, 0, NULL, &ignored);
	box_close(&b);
	json_array_foreach(json_object_get(answer, "commands"), i, c) {
		const char *id = json_string_value(json_object_get(c, "command"));

		if (!id || strcmp(id, x->command))
			continue;
		verdict = json_object_get(c, "verdict");
		if (!verdict)
			return;
		x->state = EXEC_ENDED;
		x->exit_code = (int)json_integer_value(json_object_get(verdict, "exit_status"));
		execs_ended(table_of(rq), x->id, x->exit_code);
		return;
	}
	/* its sandbox has stopped */
	if (!answer) {
		x->state = EXEC_ENDED;
		x->exit_code = LOST;
	}
}

/* Without a Pid: that of the inside would be another process to who uses it on the host, as Docker's is. */
static json_t *describe_exec(const struct exec *x)
{
	const json_t *argv = json_object_get(x->body, "Cmd");
	const char *user = json_string_value(json_object_get(x->body, "User"));
	json_t *args = json_array();
	char box[ENGINE_ID];
	size_t i;

	for (i = 1; i < json_array_size(argv); i++)
		json_array_append(args, json_array_get(argv, i));
	engine_id(x->box, box);
	return json_pack(
		"{s:s,s:b,s:o,s:{s:b,s:O,s:o,s:b,s:s},s:b,s:b,s:b,s:b,s:s,s:s,s:i}", "ID", x->id,
		"Running", x->state == EXEC_RUNS || x->state == EXEC_STARTS, "ExitCode",
		x->state == EXEC_ENDED ? json_integer(x->exit_code) : json_null(), "ProcessConfig",
		"tty", is_exec_flag_on(x->body, "Tty"), "entrypoint", json_array_get(argv, 0), "arguments",
		args, "privileged", 0, "user", user ? user : "", "OpenStdin",
		is_exec_flag_on(x->body, "AttachStdin"), "OpenStderr", is_exec_flag_on(x->body, "AttachStderr"),
		"OpenStdout", is_exec_flag_on(x->body, "AttachStdout"), "CanRemove", 0, "ContainerID", box,
		"DetachKeys", "", "Pid", 0);
}

static int get_exec(struct http_request *rq, struct err *e)
{
	struct exec x;
	json_t *j;

	if (!execs_get(table_of(rq), http_param(rq, "id"), &x))
		return no_such_exec(rq, e);
	if (x.state == EXEC_RUNS)
		ask_exec_state(rq, &x);
	j = describe_exec(&x);
	exec_release(&x);
	return http_reply_json(rq, 200, j, e);
}

static int resize(struct http_request *rq, const struct exec *x, long rows, long cols, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_resize), *answer = NULL;
	struct box b;
	int r;

	if (x->state != EXEC_RUNS || rows <= 0 || cols <= 0)
		return 0;
	request_set_command(ask, x->command);
	request_set_rows(ask, (uint64_t)rows);
	request_set_cols(ask, (uint64_t)cols);
	r = open_exec_box(&b, rq, x, e);
	if (r == 0)
		answer = box_call(&b, ask, NULL, 0, NULL, e);
	box_close(&b);
	/* it may have ended just now */
	return answer || e->code == ERR_NOT_FOUND || e->code == ERR_INVALID ? 0 : -1;
}

static int post_exec_resize(struct http_request *rq, struct err *e)
{
	struct exec x;
	long rows, cols;
	int r;

	if (docker_query_int(rq, "h", 24, &rows, e) < 0 || docker_query_int(rq, "w", 80, &cols, e) < 0)
		return -1;
	if (!execs_get(table_of(rq), http_param(rq, "id"), &x))
		return no_such_exec(rq, e);
	r = resize(rq, &x, rows, cols, e);
	exec_release(&x);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

const struct http_route docker_exec_routes[] = {
	{ "POST", "/containers/{id}/exec", post_exec_create, "make an exec", HTTP_JSON },
	{ "POST", "/exec/{id}/start", post_exec_start, "start an exec", HTTP_JSON,
	  HTTP_OPTIONAL | HTTP_UPGRADES },
	{ "POST", "/exec/{id}/resize", post_exec_resize, "set the size of an exec's terminal", HTTP_JSON,
	  HTTP_OPTIONAL | HTTP_QUIET },
	{ "GET", "/exec/{id}/json", get_exec, "look at an exec", HTTP_NONE, HTTP_QUIET },
	{ NULL },
};
