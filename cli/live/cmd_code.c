/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth code: run a snippet in a sandbox and list the files that it made.
 *
 * The snippet becomes a file below the working directory and is run by the language's
 * interpreter as berth exec would run it; the working directory is listed before and after.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/lifecycle.h"
#include "cli/live/relay.h"
#include "cli/live/resident.h"
#include "cli/live/sandbox_open.h"
#include "cli/run/sharedfd.h"
#include "manager/host/policy.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"
#include "manager/ops/settleopt.h"
#include "manager/zygote/client.h"
#include "manager/zygote/wire.h"
#include "runtime/sandbox/reason.h"

/* ---- the files that it made ---- */

/* The files that code made, from two lists of a directory. */

static int parse_snap(const struct buf *b, struct filerecord **ret, size_t *ret_n, struct err *e)
{
	const char *at = b->data, *end = b->data + b->len;
	struct filerecord *list = NULL, *more, r;
	size_t n = 0, cap = 0;
	int got = 0;

	while (b->len && (got = filerecord_next(&at, end, &r, e)) > 0) {
		if (n == cap) {
			cap = cap ? 2 * cap : 256;
			more = reallocarray(list, cap, sizeof(*list));
			if (!more) {
				free(list);
				return err_nomem(e);
			}
			list = more;
		}
		list[n++] = r;
	}
	if (got < 0) {
		free(list);
		return -1;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

static int compare_snap_names(const void *a, const void *b)
{
	return strcmp(((const struct filerecord *)a)->name, ((const struct filerecord *)b)->name);
}

static void add_code_file(json_t *list, const struct filerecord *r, const char *change)
{
	json_t *j = json_pack("{s:s,s:I}", "change", change, "size", (json_int_t)r->size);
	struct err ignored;

	json_set_bytes(j, "path", r->name, strlen(r->name), &ignored);
	json_array_append_new(list, j);
}

/* Compares two sorted lists; differences go to the result. */
static json_t *differences(const struct filerecord *a, size_t na, const struct filerecord *b, size_t nb)
{
	json_t *list = json_array();
	size_t i = 0, j = 0;

	while (i < na || j < nb) {
		int d = i == na ? 1 : j == nb ? -1 : strcmp(a[i].name, b[j].name);

		if (d < 0)
			add_code_file(list, &a[i++], "deleted");
		else if (d > 0)
			add_code_file(list, &b[j++], "added");
		else {
			if (a[i].size != b[j].size || a[i].mode != b[j].mode || a[i].mtime_sec != b[j].mtime_sec ||
			    a[i].mtime_nsec != b[j].mtime_nsec)
				add_code_file(list, &b[j], "changed");
			i++;
			j++;
		}
	}
	return list;
}

/*
 * Two outputs of the file helper's "snap": an array of {"path", "change": "added", "changed" or
 * "deleted", "size"}; NULL for a malformed one.
 */
static json_t *codefiles_compare(const struct buf *before, const struct buf *after, struct err *e)
{
	struct filerecord *a = NULL, *b = NULL;
	size_t na = 0, nb = 0;
	json_t *list = NULL;

	if (parse_snap(before, &a, &na, e) == 0 && parse_snap(after, &b, &nb, e) == 0) {
		if (na)
			qsort(a, na, sizeof(*a), compare_snap_names);
		if (nb)
			qsort(b, nb, sizeof(*b), compare_snap_names);
		list = differences(a, na, b, nb);
	}
	free(a);
	free(b);
	return list;
}

/* ---- a sandbox for it alone ---- */

/* A sandbox of a zygote for one piece of code. */

/* Its owner is this process. */
static json_t *code_fork_options(struct err *e)
{
	autofree char *owner = NULL;
	char pid[24];
	json_t *list;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (settleopt(PARAM_OWNER_PID, pid, &owner, e) < 0)
		return NULL;
	list = json_pack("[[s,s],[s,s],[s,s]]", "auto-remove", "", "owner-pid", owner,
			 "owner-grace", "0");
	if (!list)
		err_nomem(e);
	return list;
}

/*
 * Makes it, and connects s to its keeper.  It ends with this process, however that ends, and is
 * removed then.
 */
static int codefork_begin(struct sandbox_ref *s, const char *zygote, struct err *e)
{
	const struct resident_whose whose = {.name = "", .tenant = ""};
	autojson json_t *own = code_fork_options(e), *spec = NULL;

	if (!own || sandbox_ref_registry(s, e) < 0)
		return -1;
	spec = resident_zygote_spec(&s->registry, zygote, own, e);
	if (!spec || resident_create(&s->registry, &whose, spec, s->id, e) < 0)
		return -1;
	s->sock = keeper_connect(&s->registry, s->id, e);
	return s->sock < 0 ? -1 : 0;
}

/* Removes it now. */
static void codefork_end(struct sandbox_ref *s)
{
	struct err ignored;

	if (s->id[0])
		lifecycle_remove(&s->registry, s->id, 1, &ignored);
}

/* ---- an interpreter that waits ---- */

/*
 * Code for the interpreter that waits in a sandbox of a zygote.
 */

/* Whether the living sandbox of this id has one. */
static int codewait_is_there(struct registry *r, const char *id)
{
	autojson json_t *record = NULL;
	struct err ignored;

	return record_read(r->sandboxes_fd, id, &record, &ignored) == 1 &&
	       json_object_get(record_labels(record), ZYGOTE_LABEL);
}

/*
 * Sends stdin as code to the keeper at sock, with these variables (NAME=VALUE) and descriptors.
 * The packet that ends it has "verdict" and "fresh": the interpreter was started for it.
 */
static int codewait_send(int sock, const json_t *env, uint64_t timeout_ms, int has_timeout,
			 const int std[3], struct err *e)
{
	autobuf struct buf code = BUF_INIT(ZYGOTE_REQUEST_MAX);
	autojson json_t *rq = protocol_request(OP_code);
	struct zygote_request q = {.cwd = "", .name = "<stdin>", .env = env};
	autoclose int file = -1;
	int fds[4] = {std[0], std[1], std[2], -1};

	if (io_read_all(STDIN_FILENO, &code, "stdin", e) < 0)
		return -1;
	q.code = code.data ? code.data : "";
	q.code_len = code.len;
	fds[3] = file = zygote_request_file(&q, e);
	if (has_timeout)
		request_set_timeout_ms(rq, timeout_ms);
	return file < 0 ? -1 : wire_request(sock, rq, fds, 4, e);
}

/* ---- code ---- */

#define VERB_TIMEOUT_MS 60000
#define TIME_MAX_MS (366ULL * 86400000)
#define SNAP_FILES "100000"
#define SNAP_MAX (128u << 20)
#define OUTPUT_MAX (8u << 20)	/* of each stream, in JSON */
#define SHELL_TEXT_MAX (64u << 20)

enum {
	OPT_LANG = 1,
	OPT_ENV,
	OPT_ENV_FILE,
	OPT_USER,
	OPT_TIMEOUT,
	OPT_MAX_SILENT,
	OPT_KEEP,
	OPT_QUIET,
	OPT_START,
	OPT_NEW,
	OPT_ZYGOTE,
	OPT_STATUS_FD,
	OPT_JSON
};

static const struct language {
	const char *name, *extension, *interpreter, *other;	/* other: tried when the first is missing */
} languages[] = {
	{ "python", "py", "python3", "python" }, { "sh", "sh", "sh", NULL }, { "bash", "bash", "bash", NULL },
	{ "node", "js", "node", "nodejs" }, { "perl", "pl", "perl", NULL }, { "ruby", "rb", "ruby", NULL },
};
#define LANGUAGES "python sh bash node perl ruby"

static const struct opt options[] = {
	{ "lang", 'l', OPT_VALUE, "LANGUAGE", "python, sh, bash, node, perl or ruby (default: python)", OPT_LANG, COMPLETE_WORDS,
	  LANGUAGES },
	{ "env", 'e', OPT_LIST, "NAME[=VALUE]", "environment variable, on top of the sandbox's; without a value: the caller's", OPT_ENV },
	{ "env-file", 0, OPT_LIST, "FILE", "environment variables, one NAME=VALUE a line", OPT_ENV_FILE, COMPLETE_FILE },
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "who runs it (default: the sandbox's user)", OPT_USER },
	{ "timeout", 0, OPT_VALUE, "TIME", "wall time before it is killed; 0 means none (default: the sandbox's, or 300s)", OPT_TIMEOUT },
	{ "max-silent-time", 0, OPT_VALUE, "TIME",
	  "time without output before it is killed; 0 means none (default: the sandbox's)", OPT_MAX_SILENT },
	{ "keep", 0, OPT_FLAG, NULL, "leave the snippet's file in .berth below the working directory", OPT_KEEP },
	{ "quiet", 'q', OPT_FLAG, NULL, "do not list the files it made", OPT_QUIET },
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", OPT_START },
	{ "new", 0, OPT_FLAG, NULL,
	  "in a new interpreter, where the one of berth create --zygote waits", OPT_NEW },
	{ "zygote", 0, OPT_VALUE, "ZYGOTE",
	  "in a fork of it in a sandbox of its own, which is removed then", OPT_ZYGOTE, COMPLETE_ZYGOTE },
	{ "status-fd", 0, OPT_VALUE, "N", "write the verdict, one JSON object, to this descriptor",
	  OPT_STATUS_FD },
	{ "json", 0, OPT_FLAG, NULL, "print verdict, output and files as one JSON object", OPT_JSON },
};

struct code {
	const struct language *lang;
	const char *user;
	json_t *env;
	uint64_t timeout_ms, max_silent_ms;
	int timeout_given, max_silent_given;
	const char *zygote;	/* NULL: in a sandbox that is there */
	int status_fd;	/* -1: none */
	int keep, quiet, start, json, new;
	int waits;	/* an interpreter in the sandbox, which takes the code */
	int fresh;	/* it was started for that */
	int sock;
	const char *deny;	/* rules of the command policy */
	char script[64];
};

static int set_code_option(void *ctx, int id, const char *value, struct err *e)
{
	struct code *c = ctx;
	size_t i;

	switch (id) {
	case OPT_LANG:
		for (i = 0; i < ARRAY_LEN(languages) && strcmp(languages[i].name, value); i++)
			;
		if (i == ARRAY_LEN(languages))
			return err_set(e, ERR_INVALID, "'%.40s' is not one of " LANGUAGES, value);
		c->lang = &languages[i];
		return 0;
	case OPT_ENV:
	case OPT_ENV_FILE:
		return envopts_add(c->env, id == OPT_ENV_FILE, value, e);
	case OPT_ZYGOTE:
		c->zygote = value;
		return 0;
	case OPT_STATUS_FD:
		return sharedfd_option(value, &c->status_fd, e);
	case OPT_USER:
		c->user = value;
		return 0;
	case OPT_TIMEOUT:
		c->timeout_given = 1;
		return num_duration_ms(value, "timeout", TIME_MAX_MS, &c->timeout_ms, e);
	case OPT_MAX_SILENT:
		c->max_silent_given = 1;
		return num_duration_ms(value, "max-silent-time", TIME_MAX_MS, &c->max_silent_ms, e);
	default:
		*(id == OPT_KEEP ? &c->keep : id == OPT_QUIET ? &c->quiet :
		  id == OPT_START ? &c->start : id == OPT_NEW ? &c->new : &c->json) = 1;
		return 0;
	}
}

/* ---- before and after ------------------------------------------------------------- */

static int snapshot(const struct code *c, struct buf *b, struct err *e)
{
	static const char *const argv[] = { "snap", SNAP_FILES, NULL };
	struct filecounts n;

	return fileclient_run(c->sock, argv, NULL, VERB_TIMEOUT_MS, -1, b, &n, e);
}

/* ---- the run ---------------------------------------------------------------------- */

struct output {
	int fd[2];
	struct buf b[2];
	uint64_t dropped[2];
	struct relay *relay;	/* without --json: to the caller's own */
	char command[24];	/* the id, once it has ended */
	int fresh;
};

/* Returns how many bytes came. */
static ssize_t take_code_output(struct output *o, int i)
{
	char part[65536];
	ssize_t n = read(o->fd[i], part, sizeof(part));
	struct err ignored;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		fd_close(&o->fd[i]);
		return 0;
	}
	if (o->b[i].len + (size_t)n > o->b[i].max || buf_add(&o->b[i], part, (size_t)n, &ignored) < 0)
		o->dropped[i] += (uint64_t)n;
	return n;
}

/* The next packet; the end's verdict is returned. */
static int take_code_packet(int sock, struct output *o, json_t **ret_verdict, struct err *e)
{
	autojson json_t *msg = NULL;
	const char *id;
	size_t n;
	int r = wire_recv(sock, -1, &msg, NULL, 0, &n, e);

	if (r <= 0)
		return r < 0 ? -1 : wire_ended(e);
	if (wire_check(msg, e) < 0)
		return -1;
	if (!json_object_get(msg, "ended"))
		return 0;
	id = json_string_value(json_object_get(msg, "command"));
	snprintf(o->command, sizeof(o->command), "%s", id ? id : "");
	*ret_verdict = json_incref(json_object_get(msg, "verdict"));
	o->fresh = json_is_true(json_object_get(msg, "fresh"));
	return 0;
}

/* Until the command has ended; its output is drained then, never waited for. */
static int wait_for_code_end(int sock, struct output *o, json_t **ret_verdict, struct err *e)
{
	while (!*ret_verdict) {
		struct pollfd p[3 + RELAY_POLLS] = { { .fd = sock, .events = POLLIN }, { .fd = o->fd[0], .events = POLLIN },
						     { .fd = o->fd[1], .events = POLLIN } };
		int i;

		if (o->relay)
			relay_polls(o->relay, p + 3);
		if (poll(p, o->relay ? ARRAY_LEN(p) : 3, -1) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, "wait for the code");
		}
		for (i = 0; i < 2; i++)
			if (p[1 + i].revents && o->fd[i] >= 0)
				take_code_output(o, i);
		if (o->relay)
			relay_move(o->relay, p + 3);
		if (p[0].revents && take_code_packet(sock, o, ret_verdict, e) < 0)
			return -1;
	}
	/* only the present content: a process that is left behind may go on writing for ever */
	for (int i = 0; i < 2; i++) {
		int left;

		if (o->fd[i] < 0 || ioctl(o->fd[i], FIONREAD, &left) < 0)
			continue;
		while (o->fd[i] >= 0 && left > 0)
			left -= (int)take_code_output(o, i);
	}
	return 0;
}

static int send_code_exec(const struct code *c, const char *interpreter, const int std[3], struct err *e)
{
	autojson json_t *rq = protocol_request(OP_exec);

	request_set_argv(rq, json_pack("[s,s]", interpreter, c->script));
	request_set_is_text(rq, 1);
	if (c->timeout_given)
		request_set_timeout_ms(rq, c->timeout_ms);
	if (c->max_silent_given)
		request_set_max_silent_ms(rq, c->max_silent_ms);
	if (c->user)
		request_set_user(rq, c->user);
	if (json_array_size(c->env))
		request_set_env(rq, json_incref(c->env));
	return wire_request(c->sock, rq, std, 3, e);
}

/* interpreter NULL: the one that waits. */
static int exec_once(const struct code *c, const char *interpreter, const int std[3],
		     struct output *o, json_t **ret_verdict, struct err *e)
{
	int given[3] = { std[0], std[1], std[2] }, r = 0;
	struct relay relay;

	if (!c->json) {
		r = relay_open(&relay, given, e);
		o->relay = &relay;
	}
	if (r == 0)
		r = interpreter ? send_code_exec(c, interpreter, given, e) :
				  codewait_send(c->sock, c->env, c->timeout_ms, c->timeout_given,
						given, e);
	if (o->relay)
		relay_handed(o->relay);
	if (r == 0)
		r = wait_for_code_end(c->sock, o, ret_verdict, e);
	if (o->relay)
		relay_end(o->relay, "berth code", c->sock, -1, o->command, *ret_verdict);
	o->relay = NULL;
	return r;
}

static int execute_code(const struct code *c, struct output *o, json_t **ret_verdict, struct err *e)
{
	autoclose int null = open("/dev/null", O_RDONLY | O_CLOEXEC), out = -1, err = -1;
	int std[3] = { null, STDOUT_FILENO, STDERR_FILENO }, p[2], r;

	if (null < 0)
		return err_sys(e, "open /dev/null");
	if (c->json) {
		if (pipe2(p, O_CLOEXEC) < 0)
			return err_sys(e, "make a pipe");
		o->fd[0] = p[0];
		std[1] = out = p[1];
		if (pipe2(p, O_CLOEXEC) < 0)
			return err_sys(e, "make a pipe");
		o->fd[1] = p[0];
		std[2] = err = p[1];
		if (fcntl(o->fd[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(o->fd[1], F_SETFL, O_NONBLOCK) < 0)
			return err_sys(e, "set up a pipe");
	}
	if (c->waits)
		return exec_once(c, NULL, std, o, ret_verdict, e);
	r = exec_once(c, c->lang->interpreter, std, o, ret_verdict, e);
	if (r < 0 && e->code == ERR_EXEC_NOT_FOUND && c->lang->other)
		r = exec_once(c, c->lang->other, std, o, ret_verdict, e);
	if (r < 0 && e->code == ERR_EXEC_NOT_FOUND)
		return err_set(e, ERR_EXEC_NOT_FOUND, "the sandbox's image has no %s; hint: --lang, or an image with %s", c->lang->name,
			       c->lang->interpreter);
	return r;
}

/* A shell's snippet is a command like any other: a memfd with it when the command policy lets it pass. */
static int checked_text(const struct code *c, struct err *e)
{
	autobuf struct buf b = BUF_INIT(SHELL_TEXT_MAX);
	struct policy *policy = policy_new(c->deny, e);
	int r;

	if (!policy)
		return -1;
	r = io_read_all(STDIN_FILENO, &b, "stdin", e);
	if (r == 0)
		r = policy_check_text(policy, b.data ? b.data : "", b.len, e);
	policy_free(policy);
	return r < 0 ? -1 : wire_data(b.data ? b.data : "", b.len, e);
}

static int write_script(struct code *c, struct err *e)
{
	autoclose int text = -1;

	const char *argv[] = { "write", "p", "644", c->script, NULL };
	struct filecounts n;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	snprintf(c->script, sizeof(c->script), ".berth/code-%llx%05lx.%s", (unsigned long long)t.tv_sec, (unsigned long)t.tv_nsec / 1000,
		 c->lang->extension);
	if (!strcmp(c->lang->name, "sh") || !strcmp(c->lang->name, "bash")) {
		text = checked_text(c, e);
		if (text < 0)
			return -1;
	}
	return fileclient_run(c->sock, argv, NULL, VERB_TIMEOUT_MS * 5, text >= 0 ? text : STDIN_FILENO, NULL, &n, e);
}

static int show_code_result(const struct code *c, struct output *o, json_t *verdict, json_t *files, struct err *e)
{
	static const char *const names[] = { "stdout", "stderr" };
	json_t *j, *file;
	char key[24], path[1024];
	size_t i;

	if (!c->json) {
		if (c->fresh)
			log_note("berth code", "the interpreter had ended: this one is new, "
				 "without what earlier code left in it");
		json_array_foreach(files, i, file) {
			const char *p = json_string_value(json_object_get(file, "path"));

			log_clean(path, sizeof(path), p ? p : json_string_value(json_object_get(file, "path_hex")), 0);
			if (!c->quiet)
				log_note("berth code", "%s %s (%lld bytes)", json_string_value(json_object_get(file, "change")), path,
					 (long long)json_integer_value(json_object_get(file, "size")));
		}
		reason_tell("berth code", verdict, 1);
		return 0;
	}
	j = json_pack("{s:O,s:O,s:s,s:O}", "verdict", verdict, "exit_status", json_object_get(verdict, "exit_status"), "language",
		      c->lang->name, "files", files);
	if (c->waits)
		json_object_set_new(j, "fresh", json_boolean(c->fresh));
	if (c->keep)
		json_object_set_new(j, "script", json_string(c->script));
	for (i = 0; i < 2; i++) {
		if (json_set_bytes(j, names[i], o->b[i].data, o->b[i].len, e) < 0) {
			json_decref(j);
			return -1;
		}
		snprintf(key, sizeof(key), "%s_dropped", names[i]);
		json_object_set_new(j, key, json_integer((json_int_t)o->dropped[i]));
	}
	return fileclient_print(j, e);
}

static int run_snippet(struct code *c, int *ret_status, struct err *e)
{
	autobuf struct buf before = BUF_INIT(SNAP_MAX), after = BUF_INIT(SNAP_MAX);
	const char *rm[] = { "rm", "f", c->script, NULL };
	struct output o = { { -1, -1 }, { BUF_INIT(OUTPUT_MAX), BUF_INIT(OUTPUT_MAX) }, { 0, 0 }, NULL, "" };
	autojson json_t *verdict = NULL, *files = NULL;
	struct filecounts n;
	struct err ignored;
	int r;

	signal(SIGPIPE, SIG_IGN);	/* a reader that leaves ends the code, not us */
	if (!c->waits && write_script(c, e) < 0)
		return e->code == ERR_POLICY ? -1 : err_wrap(e, "hand over the code");
	r = snapshot(c, &before, e);
	if (r == 0)
		r = execute_code(c, &o, &verdict, e);
	if (!c->keep && !c->waits)	/* the caller does not wait for its removal */
		(void)fileclient_run(c->sock, rm, NULL, VERB_TIMEOUT_MS, -1, NULL, &n, &ignored);
	if (r == 0)
		r = snapshot(c, &after, e);
	c->fresh = o.fresh;
	if (r == 0) {
		files = codefiles_compare(&before, &after, e);
		r = files ? show_code_result(c, &o, verdict, files, e) : -1;
		if (r == 0)
			r = sharedfd_verdict(c->status_fd, verdict, e);
		*ret_status = (int)json_integer_value(json_object_get(verdict, "exit_status"));
	}
	for (int i = 0; i < 2; i++) {
		fd_close(&o.fd[i]);
		buf_release(&o.b[i]);
	}
	return r;
}

/* Python goes to the interpreter that waits, unless --new says otherwise. */
static int choose_code_sandbox(struct code *c, struct sandbox_ref *s, struct err *e)
{
	const char *const of_no_use = c->new ? "new" : c->start ? "start" :
		c->lang != &languages[0] ? "lang" : c->user ? "user" : c->keep ? "keep" :
		c->max_silent_ms ? "max-silent-time" : NULL;

	if (c->zygote && of_no_use)
		return err_set(e, ERR_USAGE, "--%s is of no use in a fork of a zygote; hint: berth "
			       "code --zygote %.80s < FILE", of_no_use, c->zygote);
	c->waits = !c->new && c->lang == &languages[0] && (c->zygote || codewait_is_there(&s->registry, s->id));
	if (c->waits && (c->user || c->keep || c->max_silent_ms))
		return err_set(e, ERR_INVALID,
			       "--%s is of no use to the interpreter that waits in sandbox %.80s; "
			       "hint: --new runs the code in another",
			       c->user ? "user" : c->keep ? "keep" : "max-silent-time", s->id);
	return 0;
}

/* words: the operands. */
static int open_code_sandbox(struct code *c, struct sandbox_ref *s, char **words, struct err *e)
{
	if (!words[0] && !c->zygote)
		return err_set(e, ERR_USAGE,
			       "no sandbox given; hint: berth code ID --lang python < FILE");
	if (words[0] && c->zygote)
		return err_set(e, ERR_USAGE, "a sandbox, '%.80s', and --zygote; hint: berth code "
			       "--zygote %.80s < FILE", words[0], c->zygote);
	if (c->zygote && choose_code_sandbox(c, s, e) < 0)
		return -1;
	if ((c->zygote ? codefork_begin(s, c->zygote, e) :
			 sandbox_ref_connect(s, words[0], c->start, e)) < 0)
		return -1;
	c->sock = s->sock;
	c->deny = s->config.deny;
	return c->zygote ? 0 : choose_code_sandbox(c, s, e);
}

static int code_main(const struct command *self, int argc, char **argv)
{
	struct code c = { .lang = &languages[0], .env = json_array(), .status_fd = -1 };
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, status = 0, result;

	sandbox_ref_init(&s);
	result = command_options(self, argc, argv, set_code_option, &c, &rest, &help, &e);
	/* options may follow the sandbox: berth code ID --lang sh */
	if (result == 0 && !help && argc - rest > 1) {
		char *id = argv[rest];
		int more;

		result = command_options(self, argc - rest, argv + rest, set_code_option, &c, &more, &help, &e);
		if (result == 0 && !help && more < argc - rest)
			result = err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: the code comes on stdin", argv[rest + more]);
		argv[rest] = id;
	}
	if (result == 0 && !help) {
		result = open_code_sandbox(&c, &s, argv + rest, &e);
		if (result == 0)
			result = run_snippet(&c, &status, &e);
		if (c.zygote)
			codefork_end(&s);
	}
	if (result < 0)
		status = command_fail(self, &e, c.json);
	sandbox_ref_close(&s);
	json_decref(c.env);
	return status;
}

const struct command cmd_code = {
	.name = "code",
	.args = "SANDBOX",
	.summary = "run a snippet from stdin in a sandbox, and list the files it made",
	.detail = "The exit status is the code's, 128+n for signal n, 124 for a timeout, 127 when the image lacks the\n"
		  "interpreter.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = code_main,
};
