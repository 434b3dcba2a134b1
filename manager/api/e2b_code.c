/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's code interpreter: cells that a resident Python or node runs one after the other.  A context
 * is one such process, a detached command whose name is CONTEXT, its language and its id; it runs
 * e2bkernel.py or e2bkernel.js.  What it says comes from the sandbox and is only parsed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/e2b.h"
#include "manager/api/estream.h"
#include "manager/api/http.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define CONTEXT "code-" /* then the language, "-", and the context's id */
#define LINE_MAX_BYTES (8u << 20)
#define LINE_FREE (64u << 10) /* of a line: so many bytes are not counted */
#define LINE_COST 4	      /* bytes of memory for one of a line: parsed, and written again */
#define VALUES_MAX 65536      /* of a line */
#define SEND_PIECE (256u << 10)
#define ID_BYTES 8

extern const char e2bkernel_py[], e2bkernel_js[];

#define PYTHON "python3", "-u", "-c"
#define NODE "node", "--no-warnings", "-e"

static const struct language {
	const char *name, *other, *preset_id; /* of the context that needs no id */
	const char *argv[4];		      /* before the kernel's text */
	const char *kernel, *argument, *package;
	int begun; /* a new sandbox of E2B's has the context */
} languages[] = {
	{ "python", "py", "default", { PYTHON }, e2bkernel_py, NULL, "python3", 1 },
	{ "javascript", "js", "javascript", { NODE }, e2bkernel_js, NULL, "nodejs", 1 },
	{ "typescript", "ts", "typescript", { NODE }, e2bkernel_js, "typescript", "nodejs", 0 },
	{ "bash", "sh", "bash", { PYTHON }, e2bkernel_py, "bash", "python3", 0 },
	{ "r", "R", "r", { PYTHON }, e2bkernel_py, "r", "python3 r-base-core", 0 },
	{ "java", "java", "java", { PYTHON }, e2bkernel_py, "java",
	  "python3 default-jdk-headless", 0 },
};

/* ---- contexts ----------------------------------------------------------------------- */

/* The language that the body names, or the first if it names none; NULL with e. */
static const struct language *language_of(const json_t *body, struct err *e)
{
	const json_t *v = json_object_get(body, "language");
	const char *name = json_string_value(v);
	size_t i;

	if (!v || json_is_null(v))
		return &languages[0];
	for (i = 0; name && i < ARRAY_LEN(languages); i++)
		if (!strcmp(name, languages[i].name) || !strcmp(name, languages[i].other))
			return &languages[i];
	err_set(e, ERR_UNSUPPORTED,
		"language '%.40s' has no kernel here; hint: python, javascript, typescript, bash, "
		"r or java",
		name ? name : "");
	return NULL;
}

static int random_cell_id(char ret[2 * ID_BYTES + 1], struct err *e)
{
	unsigned char bytes[ID_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return err_sys(e, "get random bytes");
	hex_format(ret, bytes, sizeof(bytes));
	return 0;
}

static int has_kernel_ended(const json_t *command)
{
	return json_object_get(command, "verdict") != NULL;
}

/* The id of the context whose process this command is, and its language; NULL: not a context. */
static const char *kernel_id_of(const json_t *command, const struct language **ret)
{
	const char *name = json_string_value(json_object_get(command, "name"));
	size_t i, n;

	if (!name || strncmp(name, CONTEXT, strlen(CONTEXT)))
		return NULL;
	name += strlen(CONTEXT);
	for (i = 0; i < ARRAY_LEN(languages); i++) {
		n = strlen(languages[i].name);
		if (!strncmp(name, languages[i].name, n) && name[n] == '-') {
			*ret = &languages[i];
			return name + n + 1;
		}
	}
	return NULL;
}

static json_t *list_kernel_commands(struct box *b, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_commands), *answer = NULL;

	answer = box_call(b, ask, NULL, 0, NULL, e);
	return json_incref(json_object_get(answer, "commands"));
}

/* The command of a context, running or ended, a new reference; NULL with ERR_NOT_FOUND. */
static json_t *find_kernel_command(struct box *b, const char *id, int ended, struct err *e)
{
	autojson json_t *list = list_kernel_commands(b, e);
	const struct language *ignored;
	const char *its;
	json_t *one;
	size_t i;

	if (!list)
		return NULL;
	json_array_foreach(list, i, one) {
		its = kernel_id_of(one, &ignored);
		if (its && !strcmp(its, id) && has_kernel_ended(one) == ended)
			return json_incref(one);
	}
	err_set(e, ERR_NOT_FOUND, "Context %.64s not found", id);
	return NULL;
}

static json_t *find_context(struct box *b, const char *id, struct err *e)
{
	return find_kernel_command(b, id, 0, e);
}

/* Where a context begins: cwd, which counts from the user's home, or the home itself. */
static int cell_directory(struct box *b, const char *cwd, char ret[4096], struct err *e)
{
	const struct e2b_user u = { E2B_USER };
	struct accounts a;
	int r;

	accounts_init(&a);
	r = e2b_place(b, &a, &u, cwd ? cwd : "", ret, e);
	accounts_release(&a);
	return r;
}

/* cwd is absolute, or NULL for the home. */
static int start_context(struct box *b, const struct language *l, const char *id, const char *cwd,
			 struct err *e)
{
	autojson json_t *ask = protocol_request(OP_exec), *answer = NULL;
	char name[64];

	snprintf(name, sizeof(name), CONTEXT "%s-%s", l->name, id);
	request_set_argv(ask, json_pack("[s,s,s,s,s*]", l->argv[0], l->argv[1], l->argv[2],
					l->kernel, l->argument));
	request_set_name(ask, name);
	request_set_detach(ask, 1);
	request_set_stdin_open(ask, 1);
	request_set_timeout_ms(ask, 0);
	request_set_workdir(ask, cwd ? cwd : "~");
	request_set_user(ask, E2B_USER);
	answer = box_call(b, ask, NULL, 0, NULL, e);
	if (!answer)
		e2b_judge_cwd(e);
	if (!answer && e->code == ERR_EXEC_NOT_FOUND)
		err_set(e, ERR_UNSUPPORTED,
			"cells in %s need %s in the image; hint: apt-get install %s", l->name,
			l->argv[0], l->package);
	return answer ? 0 : -1;
}

/* Kills its process, and waits until that has ended. */
static int kill_context(struct box *b, const char *id, struct err *e)
{
	autojson json_t *kill = protocol_request(OP_signal), *killed = NULL;
	autojson json_t *wait = protocol_request(OP_wait), *waited = NULL;
	struct err ignored;

	request_set_command(kill, id);
	request_set_signal(kill, 9);
	request_set_all(kill, 1);
	request_set_command(wait, id);
	killed = box_call(b, kill, NULL, 0, NULL, &ignored);
	waited = box_call(b, wait, NULL, 0, NULL, e);
	return waited ? 0 : -1;
}

static int end_context(struct box *b, const json_t *command, struct err *e)
{
	autojson json_t *forget = protocol_request(OP_forget), *forgotten = NULL;
	const char *id = json_string_value(json_object_get(command, "command"));

	if (kill_context(b, id, e) < 0)
		return -1;
	request_set_command(forget, id);
	forgotten = box_call(b, forget, NULL, 0, NULL, e);
	return forgotten ? 0 : -1;
}

static const char *cwd_of(const json_t *command)
{
	return json_string_value(json_object_get(command, "workdir"));
}

/* Starts a context anew whose process has ended by itself: 0 it runs, or it never was there. */
static int revive_kernel(struct box *b, const char *id, struct err *e)
{
	struct err ignored;
	autojson json_t *ended = find_kernel_command(b, id, 1, &ignored), *forgotten = NULL;
	autojson json_t *forget = protocol_request(OP_forget);
	const struct language *l;

	if (!ended || !kernel_id_of(ended, &l))
		return 0;
	if (start_context(b, l, id, cwd_of(ended), e) < 0 && e->code != ERR_EXISTS)
		return -1;
	request_set_command(forget, json_string_value(json_object_get(ended, "command")));
	forgotten = box_call(b, forget, NULL, 0, NULL, &ignored);
	return 0;
}

static json_t *context_json(const struct language *l, const char *id, const char *cwd)
{
	return json_pack("{s:s,s:s,s:s}", "id", id, "language", l->name, "cwd", cwd ? cwd : "");
}

/* Starts the contexts that a new sandbox of E2B's has, where the image can. */
static void begin_contexts(struct box *b)
{
	autojson json_t *there = NULL;
	char place[4096];
	struct err ignored;
	size_t i;

	for (i = 0; i < ARRAY_LEN(languages); i++) {
		there = languages[i].begun ? find_context(b, languages[i].preset_id, &ignored) : NULL;
		if (languages[i].begun && !there && cell_directory(b, NULL, place, &ignored) == 0)
			start_context(b, &languages[i], languages[i].preset_id, place, &ignored);
		json_decref(there);
		there = NULL;
	}
}

static int get_contexts(struct http_request *rq, struct err *e)
{
	autojson json_t *commands = NULL;
	json_t *list = json_array(), *one;
	const struct language *l;
	const char *id;
	struct box b;
	size_t i;
	int preset;

	if (e2b_connect(&b, rq, e) == 0) {
		begin_contexts(&b);
		commands = list_kernel_commands(&b, e);
	}
	box_close(&b);
	/* those that a sandbox begins with, and then the others as they were made */
	for (preset = 1; preset >= 0; preset--)
		json_array_foreach (commands, i, one) {
			id = has_kernel_ended(one) ? NULL : kernel_id_of(one, &l);
			if (id && preset == !strcmp(id, l->preset_id))
				json_array_append_new(list, context_json(l, id, cwd_of(one)));
		}
	if (commands)
		return http_reply_json(rq, 0, list, e);
	json_decref(list);
	return -1;
}

static int post_contexts(struct http_request *rq, struct err *e)
{
	const char *cwd = json_string_value(json_object_get(http_json(rq), "cwd"));
	const struct language *l = language_of(http_json(rq), e);
	char id[2 * ID_BYTES + 1], place[4096];
	struct box b;
	int r;

	if (!l || random_cell_id(id, e) < 0)
		return -1;
	r = e2b_connect(&b, rq, e);
	if (r == 0 && (cell_directory(&b, cwd, place, e) < 0 || start_context(&b, l, id, place, e) < 0))
		r = -1;
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 0, context_json(l, id, place), e);
}

static int end_named(struct http_request *rq, int again, struct err *e)
{
	autojson json_t *command = NULL;
	const struct language *l;
	struct box b;
	int r = e2b_connect(&b, rq, e);

	if (r == 0)
		command = find_context(&b, http_param(rq, "context"), e);
	if (r == 0)
		r = command ? end_context(&b, command, e) : -1;
	if (r == 0 && again && kernel_id_of(command, &l))
		r = start_context(&b, l, http_param(rq, "context"), cwd_of(command), e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

static int delete_context(struct http_request *rq, struct err *e)
{
	return end_named(rq, 0, e);
}

static int post_kernel_restart(struct http_request *rq, struct err *e)
{
	return end_named(rq, 1, e);
}

/* ---- a cell ------------------------------------------------------------------------------ */

struct cell {
	struct box box;
	char command[24], id[2 * ID_BYTES + 1];
	int begun, over; /* its context has it; its end is told */
	uint64_t from;
	struct buf line;
	struct http_hold hold;
};

/* The client has gone before the cell's end: nobody waits for it, but others for its context. */
static void interrupt_cell(struct cell *c)
{
	autojson json_t *ask = protocol_request(OP_send);
	char line[64];
	struct err ignored;
	autoclose int fd = -1;

	snprintf(line, sizeof(line), "{\"interrupt\":\"%s\"}\n", c->id);
	fd = wire_data(line, strlen(line), &ignored);
	request_set_command(ask, c->command);
	if (fd >= 0) /* no answer is waited for */
		box_send(&c->box, ask, &fd, 1, &ignored);
}

static void cell_free(void *ctx)
{
	struct cell *c = ctx;

	if (c->begun && !c->over)
		interrupt_cell(c);
	buf_release(&c->line);
	http_hold_end(&c->hold);
	box_close(&c->box);
	free(c);
}

static int ask_cell_output(struct cell *c, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_follow);

	request_set_command(ask, c->command);
	request_set_stream(ask, "stdout");
	request_set_from(ask, c->from);
	request_set_hold(ask, 1);
	return box_send(&c->box, ask, NULL, 0, e);
}

static int send_cell(struct cell *c, const json_t *body, struct err *e)
{
	autojson json_t *cell =
		json_pack("{s:s,s:O,s:O*}", "id", c->id, "code", json_object_get(body, "code"),
			  "env", json_object_get(body, "env_vars"));
	autofree char *text = cell ? json_dumps(cell, JSON_COMPACT) : NULL;
	size_t at = 0, n = text ? strlen(text) : 0;

	if (!text)
		return err_nomem(e);
	text[n++] = '\n';
	while (at < n) {
		size_t some = n - at < SEND_PIECE ? n - at : SEND_PIECE;
		autojson json_t *ask = protocol_request(OP_send), *answer = NULL;
		autoclose int fd = wire_data(text + at, some, e);

		if (fd < 0)
			return -1;
		request_set_command(ask, c->command);
		answer = box_call(&c->box, ask, &fd, 1, NULL, e);
		if (!answer)
			return -1;
		at += some;
	}
	return 0;
}

/* How many values JSON text has at least, as these cost more than their bytes. */
static size_t count_values(const char *line, size_t n)
{
	size_t count = 0, i;
	int quoted = 0;

	for (i = 0; i < n; i++) {
		if (quoted && line[i] == '\\')
			i++;
		else if (line[i] == '"')
			quoted = !quoted;
		else if (!quoted)
			count += line[i] == ',' || line[i] == '[' || line[i] == '{';
	}
	return count;
}

/* Handles one line from the interpreter: 1, or 0 after the last line of the cell. */
static int take_cell_line(struct estream *s, struct cell *c, const char *line, size_t n, struct err *e)
{
	struct err ignored;
	autojson json_t *event = NULL;
	const char *id, *type;
	int last;

	if (count_values(line, n) > VALUES_MAX)
		return err_set(e, ERR_LIMIT, "a result has more than %d values", VALUES_MAX);
	event = json_parse(line, n, LINE_MAX_BYTES, "line", &ignored);
	id = json_string_value(json_object_get(event, "id"));
	type = json_string_value(json_object_get(event, "type"));
	last = type && !strcmp(type, "end_of_execution");
	if (!id || !type || strcmp(id, c->id))
		return 1;
	json_object_del(event, "id");
	c->over |= last;
	return estream_add(s, "", 0, json_incref(event), e) < 0 ? -1 : !last;
}

static int take_cell_lines(struct estream *s, struct cell *c, struct err *e)
{
	size_t start = 0;
	int r = 1;

	while (r > 0 && start < c->line.len) {
		const char *from = c->line.data + start,
			   *nl = memchr(from, '\n', c->line.len - start);

		if (!nl)
			break;
		r = take_cell_line(s, c, from, (size_t)(nl - from), e);
		start += (size_t)(nl - from) + 1;
	}
	if (start) {
		memmove(c->line.data, c->line.data + start, c->line.len - start);
		c->line.len -= start;
	}
	return r;
}

/* The whole sandbox was stopped: the connection ends, and the SDKs then ask for its health. */
static int refuse_ended_kernel(struct err *e)
{
	return err_set(e, ERR_NET, "the sandbox was killed or reached its end of life");
}

static int add_death(struct estream *s, const json_t *verdict, struct err *e)
{
	const char *cause = json_string_value(json_object_get(verdict, "cause"));

	return estream_add(s, "", 0,
			   json_pack("{s:s,s:s,s:o,s:s}", "type", "error", "name",
				     "ContextRestarting", "value",
				     json_sprintf("Context was restarted: its process ended (%s)",
						  cause ? cause : "?"),
				     "traceback", ""),
			   e);
}

/* Memory for a long line counts as a request body that berthd holds. */
static int hold_line(struct cell *c, struct http_request *rq, struct err *e)
{
	size_t want = c->line.len > LINE_FREE ? LINE_COST * c->line.len : 0;

	if (want < c->hold.bytes)
		http_hold_end(&c->hold);
	return want > c->hold.bytes ? http_hold_take(rq, &c->hold, want - c->hold.bytes, e) : 0;
}

static int receive_cell_output(struct estream *s, struct http_request *rq, struct err *e)
{
	struct cell *c = s->ctx;
	autojson json_t *answer = box_receive_data(&c->box, -1, &c->line, e);
	const json_t *part;
	int r;

	if (!answer && c->box.ended)
		return refuse_ended_kernel(e);
	if (!answer || hold_line(c, rq, e) < 0)
		return -1;
	part = json_object_get(answer, "stdout");
	c->from = part ? (uint64_t)json_integer_value(json_object_get(part, "next")) : c->from;
	r = take_cell_lines(s, c, e);
	if (r <= 0)
		return r;
	c->over |= json_is_true(json_object_get(answer, "ended"));
	if (json_is_true(json_object_get(answer, "sandbox_ended")))
		return refuse_ended_kernel(e);
	if (c->over)
		return add_death(s, json_object_get(answer, "verdict"), e);
	return ask_cell_output(c, e) < 0 ? -1 : 1;
}

static int next_cell_event(struct estream *s, struct http_request *rq, struct err *e)
{
	struct cell *c = s->ctx;
	int r = receive_cell_output(s, rq, e);

	if (r > 0 && hold_line(c, rq, e) == 0)
		return 1;
	if (r == 0 || e->code != ERR_LIMIT)
		return r > 0 ? -1 : r;
	/* as an event, which the SDKs show */
	return estream_add(s, "", 0,
			   json_pack("{s:s,s:s,s:s,s:s}", "type", "error", "name", "OutputTooLarge",
				     "value", e->msg, "traceback", ""),
			   e);
}

/* The context that the body names, or the default context of the language, made on first use. */
static json_t *context_of(struct box *b, const json_t *body, struct err *e)
{
	const char *id = json_string_value(json_object_get(body, "context_id"));
	const struct language *l = language_of(body, e), *its;
	json_t *command = l ? find_context(b, id ? id : l->preset_id, e) : NULL;
	char place[4096];

	if (l && !command && e->code == ERR_NOT_FOUND) {
		if (revive_kernel(b, id ? id : l->preset_id, e) < 0)
			return NULL;
		command = find_context(b, id ? id : l->preset_id, e);
	}
	if (command && json_is_string(json_object_get(body, "language")) &&
	    kernel_id_of(command, &its) && its != l) {
		json_decref(command);
		err_set(e, ERR_INVALID, "context %.64s is of %s", id ? id : l->preset_id,
			its->name);
		return NULL;
	}
	if (!l || command || id || e->code != ERR_NOT_FOUND)
		return command;
	/* another request may make it now */
	if (cell_directory(b, NULL, place, e) < 0 ||
	    (start_context(b, l, l->preset_id, place, e) < 0 && e->code != ERR_EXISTS))
		return NULL;
	return find_context(b, l->preset_id, e);
}

static int hand_over_once(struct cell *c, const json_t *body, struct err *e)
{
	autojson json_t *command = context_of(&c->box, body, e);

	if (!command)
		return -1;
	snprintf(c->command, sizeof(c->command), "%s",
		 json_string_value(json_object_get(command, "command")));
	c->from = (uint64_t)json_integer_value(json_object_get(command, "stdout_bytes"));
	return random_cell_id(c->id, e) < 0 ? -1 : send_cell(c, body, e);
}

/* Gives the cell to its context; one whose process is about to end, as it reads no more, is begun anew. */
static int hand_cell_over(struct cell *c, const json_t *body, struct err *e)
{
	struct err ignored;
	int r = hand_over_once(c, body, e);

	if (r < 0 && e->code == ERR_NOT_FOUND && c->command[0] && !c->box.ended &&
	    kill_context(&c->box, c->command, &ignored) == 0)
		r = hand_over_once(c, body, e);
	c->begun = r == 0;
	return r;
}

static int begin_cell(struct cell *c, struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	int r, tries = 0;

	if (!json_is_string(json_object_get(body, "code")))
		return err_set(e, ERR_INVALID, "code is not text");
	if (!language_of(body, e) || e2b_connect(&c->box, rq, e) < 0)
		return -1;
	do /* the kernel may just have ended after an earlier cell; then there is another one */
		r = hand_cell_over(c, body, e);
	while (r < 0 && e->code == ERR_NOT_FOUND && !json_object_get(body, "context_id") &&
	       !tries++);
	return r < 0 ? -1 : ask_cell_output(c, e);
}

static int post_execute(struct http_request *rq, struct err *e)
{
	struct cell *c = calloc(1, sizeof(*c));

	if (!c)
		return err_nomem(e);
	box_init(&c->box, rq);
	c->line = BUF_INIT(LINE_MAX_BYTES);
	if (begin_cell(c, rq, e) == 0)
		return estream_reply(rq, 200, next_cell_event, cell_free, c, e);
	cell_free(c);
	return -1;
}

#define ERRORS .query = "source:string", .shape_error = e2b_error, .error_schema = "Document"

const struct http_route e2b_code_routes[] = {
	{ "POST", "/execute", post_execute, "E2B: run a cell; an object a line", HTTP_JSON,
	  HTTP_ONE, .type = ESTREAM_TYPES, ERRORS },
	{ "GET", "/contexts", get_contexts, "E2B: contexts of cells", .flags = HTTP_ONE,
	  .response = "Documents", ERRORS },
	{ "POST", "/contexts", post_contexts, "E2B: make a context", HTTP_JSON,
	  HTTP_ONE, .response = "Document", ERRORS },
	{ "DELETE", "/contexts/{context}", delete_context, "E2B: end a context", .flags = HTTP_ONE,
	  .status = 204, ERRORS },
	{ "POST", "/contexts/{context}/restart", post_kernel_restart, "E2B: begin a context anew",
	  HTTP_JSON, HTTP_OPTIONAL | HTTP_ONE, .status = 204, ERRORS },
	{ NULL },
};
