/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth exec: run a command in a sandbox that lives. The process gets our own stdin, and our own
 * stdout and stderr unless they are pipes (cli/live/relay.h); we wait, and forward signals.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/phases.h"
#include "cli/commands.h"
#include "cli/live/follow.h"
#include "cli/live/relay.h"
#include "cli/live/sandbox_open.h"
#include "cli/run/sharedfd.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/optvalues.h"
#include "runtime/kernel/tty.h"
#include "runtime/sandbox/reason.h"
#include "runtime/sandbox/supervise.h"

enum {
	OPT_TTY = 1, OPT_INTERACTIVE, OPT_DETACH, OPT_ENV, OPT_ENV_FILE, OPT_USER, OPT_WORKDIR, OPT_TIMEOUT, OPT_GRACE, OPT_MEMORY,
	OPT_CPUS, OPT_PIDS, OPT_ULIMIT, OPT_START, OPT_STATUS_FD, OPT_JSON, OPT_WAIT_CHILDREN, OPT_TIMING, OPT_CHECKPOINT,
	OPT_MAX_SILENT,
};

static const struct opt options[] = {
	{ "tty", 't', OPT_FLAG, NULL, "give it a terminal", OPT_TTY },
	{ "interactive", 'i', OPT_FLAG, NULL, "accepted for docker's sake: stdin is always connected", OPT_INTERACTIVE },
	{ "detach", 'd', OPT_FLAG, NULL, "print the command's id and leave it running", OPT_DETACH },
	{ "env", 'e', OPT_LIST, "NAME[=VALUE]", "environment variable, on top of the sandbox's; without a value: the caller's", OPT_ENV },
	{ "env-file", 0, OPT_LIST, "FILE", "environment variables, one NAME=VALUE a line", OPT_ENV_FILE, COMPLETE_FILE },
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "who runs it (default: the sandbox's user)", OPT_USER },
	{ "workdir", 'w', OPT_VALUE, "DIR", "working directory (default: the sandbox's)", OPT_WORKDIR },
	{ "timeout", 0, OPT_VALUE, "TIME", "wall time before it is killed; 0 means none (default: the sandbox's, or none)", OPT_TIMEOUT },
	{ "grace", 0, OPT_VALUE, "TIME", "between SIGTERM and SIGKILL at a timeout (default: the sandbox's, 2s)", OPT_GRACE },
	{ "max-silent-time", 0, OPT_VALUE, "TIME",
	  "time without output before it is killed; 0 means none (default: the sandbox's)",
	  OPT_MAX_SILENT },
	{ "memory", 'm', OPT_VALUE, "SIZE", "memory limit of this command (default: only the sandbox's)", OPT_MEMORY },
	{ "cpus", 'c', OPT_VALUE, "N", "CPUs of this command (default: only the sandbox's)", OPT_CPUS },
	{ "pids", 0, OPT_VALUE, "N", "processes of this command (default: only the sandbox's)", OPT_PIDS },
	{ "ulimit", 0, OPT_LIST, "NAME=SOFT[:HARD]", "resource limit of each process", OPT_ULIMIT },
	{ "checkpoint", 0, OPT_FLAG, NULL, "make a checkpoint first, for berth undo",
	  OPT_CHECKPOINT },
	{ "wait-children", 0, OPT_FLAG, NULL, "wait for every process of the command, not only for its first one", OPT_WAIT_CHILDREN },
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", OPT_START },
	{ "status-fd", 0, OPT_VALUE, "N", "write the verdict, one JSON object, to this descriptor", OPT_STATUS_FD },
	{ "timing", 0, OPT_FLAG, NULL, "print how long each phase took on stderr, or in the verdict",
	  OPT_TIMING },
	{ "json", 0, OPT_FLAG, NULL, "write the verdict as the last line of stdout, errors as JSON", OPT_JSON },
};

struct exec {
	json_t *rq, *env, *ulimits;
	int tty, detach, start, json;
	int status_fd;
	int sock;
	struct tty *terminal;	/* one with -t, the other without: large, and not touched before */
	struct relay *relay;
	int master, relayed;
	uint64_t max_silent_ms, heard, heard_ms;	/* of the terminal */
	char command[24];	/* its id, once it has ended */
};

static int add_exec_text(json_t *array, const char *value, struct err *e)
{
	return json_array_append_new(array, json_string(value)) < 0 ?
		err_set(e, ERR_INVALID, "the value is not valid UTF-8") : 0;
}

static int set_limit(json_t *rq, int id, const char *value, struct err *e)
{
	uint64_t v = 0;
	int r;

	switch (id) {
	case OPT_TIMEOUT:
		if ((r = num_duration_ms(value, "timeout", 366ULL * 86400000, &v, e)) == 0)
			request_set_timeout_ms(rq, v);
		return r;
	case OPT_MAX_SILENT:
		if ((r = num_duration_ms(value, "max-silent-time", 366ULL * 86400000, &v, e)) == 0)
			request_set_max_silent_ms(rq, v);
		return r;
	case OPT_GRACE:
		if ((r = num_duration_ms(value, "grace", 86400000, &v, e)) == 0)
			request_set_grace_ms(rq, v);
		return r;
	case OPT_MEMORY:
		if ((r = num_size(value, "memory", 512 << 10, 1ULL << 60, &v, e)) == 0)
			request_set_memory_bytes(rq, v);
		return r;
	case OPT_CPUS:
		if ((r = num_milli(value, "cpus", 10, 4096000, &v, e)) == 0)
			request_set_cpu_milli(rq, v);
		return r;
	default:
		if ((r = num_u64(value, "pids", 1, 4194304, &v, e)) == 0)
			request_set_pids(rq, v);
		return r;
	}
}

static int set_exec_option(void *ctx, int id, const char *value, struct err *e)
{
	struct exec *x = ctx;
	uint64_t v;

	switch (id) {
	case OPT_TTY:
		x->tty = 1;
		return 0;
	case OPT_INTERACTIVE:
		return 0;
	case OPT_DETACH:
		x->detach = 1;
		return 0;
	case OPT_START:
		x->start = 1;
		return 0;
	case OPT_JSON:
		x->json = 1;
		return 0;
	case OPT_TIMING:
		return phases_begin(e);
	case OPT_CHECKPOINT:
		request_set_checkpoint(x->rq, 1);
		return 0;
	case OPT_WAIT_CHILDREN:
		request_set_wait_children(x->rq, 1);
		return 0;
	case OPT_ENV:
	case OPT_ENV_FILE:
		return envopts_add(x->env, id == OPT_ENV_FILE, value, e);
	case OPT_ULIMIT:
		return add_exec_text(x->ulimits, value, e);
	case OPT_USER:
		request_set_user(x->rq, value);
		return 0;
	case OPT_WORKDIR:
		if (value[0] != '/')
			return err_set(e, ERR_INVALID, "'%.200s' must be an absolute path in the sandbox", value);
		request_set_workdir(x->rq, value);
		return 0;
	case OPT_TIMEOUT:
	case OPT_GRACE:
	case OPT_MAX_SILENT:
	case OPT_MEMORY:
	case OPT_CPUS:
	case OPT_PIDS:
		return set_limit(x->rq, id, value, e);
	default:
		if (num_u64(value, "descriptor", 0, 1 << 20, &v, e) < 0)
			return -1;
		x->status_fd = (int)v;
		return fcntl(x->status_fd, F_GETFD) < 0 ? err_set(e, ERR_INVALID, "descriptor %s is not open", value) : 0;
	}
}

static int forward_signals(struct exec *x, int signal_fd, struct err *e)
{
	struct signalfd_siginfo si;

	while (read(signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		autojson json_t *rq = protocol_request(OP_forward);

		request_set_signal(rq, si.ssi_signo);
		if (si.ssi_signo == SIGWINCH && x->tty) {
			if (x->master >= 0)
				tty_resize(x->terminal);
		} else if (wire_request(x->sock, rq, NULL, 0, e) < 0) {
			return -1;
		}
	}
	return 0;
}

/* The next packet: "terminal" with the master, "started", or the end, whose verdict is returned. */
static int take_exec_packet(struct exec *x, json_t **ret_verdict, struct err *e)
{
	autojson json_t *msg = NULL;
	int fds[WIRE_FDS_MAX], r;
	size_t n = 0;

	r = wire_recv(x->sock, -1, &msg, fds, WIRE_FDS_MAX, &n, e);
	if (r == 0)
		return wire_ended(e);
	if (r < 0 || wire_check(msg, e) < 0)
		return -1;
	if (json_object_get(msg, "terminal") && n == 1) {
		x->master = fds[0];
		x->max_silent_ms = (uint64_t)json_integer_value(
			json_object_get(msg, "max_silent_ms"));
		x->heard_ms = clock_ms();
		return tty_open(x->terminal, x->master, STDIN_FILENO, STDOUT_FILENO, e);
	}
	if (json_object_get(msg, "started") && x->detach) {
		const char *id = json_string_value(json_object_get(msg, "command"));

		printf(x->json ? "{\"command\":\"%s\"}\n" : "%s\n", id ? id : "");
		fflush(stdout);
		*ret_verdict = json_null();
	}
	if (json_object_get(msg, "ended")) {
		const char *id = json_string_value(json_object_get(msg, "command"));

		snprintf(x->command, sizeof(x->command), "%s", id ? id : "");
		*ret_verdict = json_incref(json_object_get(msg, "verdict"));
	}
	return 0;
}

/* Looks at what the terminal has printed: milliseconds until that is too long ago, -1: no limit. */
static int silent_in_ms(struct exec *x)
{
	const uint64_t now = clock_ms();

	if (x->master < 0 || !x->max_silent_ms)
		return -1;
	/* a reader that is slow is no silence */
	if (x->terminal->heard != x->heard || x->terminal->to_out_len)
		x->heard_ms = now;
	x->heard = x->terminal->heard;
	return clock_poll_ms(x->heard_ms + x->max_silent_ms, now, 1000000);
}

/* The keeper, which has no part in the terminal, ends the command. */
static int tell_silent(struct exec *x, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_silent);

	x->max_silent_ms = 0;
	return wire_request(x->sock, rq, NULL, 0, e);
}

static int wait_for_exec_end(struct exec *x, int signal_fd, json_t **ret_verdict, struct err *e)
{
	*ret_verdict = NULL;
	while (!*ret_verdict) {
		struct pollfd p[2 + RELAY_POLLS] = {
			{ .fd = x->sock, .events = POLLIN }, { .fd = signal_fd, .events = POLLIN },
		};
		nfds_t n = 2;
		int wait_ms = silent_in_ms(x);

		_Static_assert(RELAY_POLLS >= TTY_POLLS, "either fits");
		if (x->master >= 0) {
			tty_polls(x->terminal, p + 2);
			n += TTY_POLLS;
		} else if (x->relayed) {
			relay_polls(x->relay, p + 2);
			n += RELAY_POLLS;
		}
		if (wait_ms == 0 && tell_silent(x, e) < 0)
			return -1;
		if (poll(p, n, wait_ms) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, "wait for the command");
		}
		if (x->master >= 0 && tty_move(x->terminal, p + 2, e) < 0)
			return -1;
		if (x->relayed)
			relay_move(x->relay, p + 2);
		if (p[1].revents && forward_signals(x, signal_fd, e) < 0)
			return -1;
		if (p[0].revents && take_exec_packet(x, ret_verdict, e) < 0)
			return -1;
	}
	return 0;
}

static int report_exec(const struct exec *x, const json_t *verdict, struct err *e)
{
	autofree char *text = json_dumps(verdict, JSON_COMPACT | JSON_REAL_PRECISION(9));
	autobuf struct buf b = BUF_INIT(1 << 16);

	if (!text || buf_addf(&b, e, "%s\n", text) < 0)
		return err_nomem(e);
	if (x->status_fd >= 0 && sharedfd_last_line(x->status_fd, b.data, b.len) < 0)
		return err_sys(e, "write the verdict to descriptor %d", x->status_fd);
	if (x->json && sharedfd_last_line(STDOUT_FILENO, b.data, b.len) < 0)
		return err_sys(e, "write the verdict to stdout");
	return 0;
}

/* Sends the request with the descriptors that the command gets. */
static int begin_exec(struct exec *x, struct err *e)
{
	int std[3] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };

	if (x->tty || x->detach)
		return wire_request(x->sock, x->rq, NULL, 0, e);
	x->relayed = 1;
	if (relay_open(x->relay, std, e) < 0 || wire_request(x->sock, x->rq, std, 3, e) < 0)
		return -1;
	relay_handed(x->relay);
	return 0;
}

static int execute_and_wait(struct exec *x, int *ret_status, struct err *e)
{
	autoclose int signal_fd = supervise_signals(e);
	struct sharedfd shared;
	json_t *verdict = NULL;
	int result;

	sharedfd_note(&shared, x->status_fd);
	if (signal_fd < 0)
		return -1;
	result = begin_exec(x, e);
	if (result == 0)
		result = wait_for_exec_end(x, signal_fd, &verdict, e);
	if (x->relayed)
		relay_end(x->relay, "berth exec", x->sock, signal_fd, x->command, verdict);
	if (!x->detach)
		sharedfd_give_back(&shared);
	if (x->master >= 0) {
		tty_drain(x->terminal);
		tty_close(x->terminal);
	}
	if (result == 0 && json_is_object(verdict)) {
		if (phases_on)
			json_object_set_new(verdict, "timing", phases_json());
		*ret_status = follow_status(verdict);
		if (!x->json)
			reason_tell("berth exec", verdict, 1);
		result = report_exec(x, verdict, e);
	}
	json_decref(verdict);
	return result;
}

static int build_exec_request(struct exec *x, char **words, struct err *e)
{
	json_t *argv = json_array();

	for (; *words; words++)
		if (json_array_append_new(argv, json_string(*words)) < 0) {
			json_decref(argv);
			return err_set(e, ERR_INVALID, "the command is not valid UTF-8");
		}
	request_set_argv(x->rq, argv);
	request_set_env(x->rq, json_incref(x->env));
	request_set_ulimits(x->rq, json_incref(x->ulimits));
	request_set_tty(x->rq, x->tty);
	request_set_detach(x->rq, x->detach);
	request_set_silent(x->rq, 1);	/* only its end matters to us */
	return 0;
}

static int berth_exec_main(const struct command *self, int argc, char **argv)
{
	struct tty terminal;
	struct relay relay;
	struct exec x = { .rq = protocol_request(OP_exec), .env = json_array(), .ulimits = json_array(), .status_fd = -1, .sock = -1,
			  .master = -1, .terminal = &terminal, .relay = &relay };
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, status = 0, result;

	sandbox_ref_init(&s);
	result = command_options(self, argc, argv, set_exec_option, &x, &rest, &help, &e);
	if (result == 0 && !help) {
		if (argc - rest < 2)
			result = err_set(&e, ERR_USAGE, "a sandbox and a command are wanted; hint: berth exec ID COMMAND");
		else if (x.detach && x.status_fd >= 0)
			result = err_set(&e, ERR_USAGE, "--status-fd tells how the command ended, which --detach does not wait for; "
					 "hint: berth wait --json");
		if (result == 0)
			result = build_exec_request(&x, argv + rest + 1, &e);
		/* who has words of another system has none of berth's rules */
		if (self->fail)
			request_set_unruled(x.rq, 1);
		phase_enter(PHASE_CONNECT);
		if (result == 0)
			result = sandbox_ref_connect(&s, argv[rest], x.start, &e);
		x.sock = s.sock;
		phase_enter(PHASE_COMMAND);
		if (result == 0)
			result = execute_and_wait(&x, &status, &e);
	}
	if (!x.json)
		phases_tell("berth exec");
	if (result < 0)
		status = command_fail(self, &e, x.json);
	sandbox_ref_close(&s);
	fd_close(&x.master);
	json_decref(x.rq);
	json_decref(x.env);
	json_decref(x.ulimits);
	return status;
}

const struct command cmd_exec = {
	.name = "exec",
	.args = "SANDBOX COMMAND...",
	.summary = "run a command in a sandbox that lives",
	.detail = "The exit status is the command's, 128+n for signal n, 124 for a timeout, 125 when berth failed,\n"
		  "126 or 127 when the command cannot be executed or found.  The command runs in a cgroup of its own.\n"
		  "A pipe's reader sees the end when the first process has ended, whatever that left running.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = berth_exec_main,
};
