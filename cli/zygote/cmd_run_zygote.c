/* SPDX-License-Identifier: Apache-2.0 */
/* berth run --zygote: runs code in a fork of a zygote. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/run/sharedfd.h"
#include "cli/zygote/zygote.h"
#include "manager/ops/optvalues.h"
#include "manager/zygote/client.h"
#include "runtime/sandbox/reason.h"
#include "runtime/sandbox/supervise.h"

enum {
	OPT_ZYGOTE = 1,
	OPT_ENV,
	OPT_ENV_FILE,
	OPT_WORKDIR,
	OPT_TIMEOUT,
	OPT_QUEUE_TIMEOUT,
	OPT_FILE,
	OPT_STATUS_FD,
	OPT_JSON
};

static const struct opt options[] = {
	{"zygote", 0, OPT_VALUE, "ZYGOTE", "the zygote, by name or id", OPT_ZYGOTE, COMPLETE_ZYGOTE},
	{"file", 'f', OPT_VALUE, "FILE", "the code is in this file of the host; - is stdin",
	 OPT_FILE, COMPLETE_FILE},
	{"env", 'e', OPT_LIST, "NAME[=VALUE]",
	 "environment variable; without a value: the caller's", OPT_ENV},
	{"env-file", 0, OPT_LIST, "FILE", "environment variables, one NAME=VALUE a line",
	 OPT_ENV_FILE, COMPLETE_FILE},
	{"workdir", 'w', OPT_VALUE, "DIR",
	 "working directory, made if missing (default: /workspace)", OPT_WORKDIR},
	{"timeout", 0, OPT_VALUE, "TIME", "wall time before it is killed (default: the zygote's)",
	 OPT_TIMEOUT},
	{"queue-timeout", 0, OPT_VALUE, "TIME", "how long it may wait for a free fork (default: 30s)",
	 OPT_QUEUE_TIMEOUT},
	{"status-fd", 0, OPT_VALUE, "N", "write the verdict, one JSON object, to this descriptor",
	 OPT_STATUS_FD},
	{"json", 0, OPT_FLAG, NULL, "write the verdict as the last line of stdout, errors as JSON",
	 OPT_JSON},
};

struct run {
	struct config config;
	struct registry registry;
	struct zygote_request q;
	json_t *env;
	const char *file;
	struct buf code;
	int status_fd, json;
};

static int set_run_zygote_option(void *ctx, int id, const char *value, struct err *e)
{
	struct run *r = ctx;

	switch (id) {
	case OPT_ZYGOTE:
		r->q.zygote = value;
		return 0;
	case OPT_FILE:
		r->file = value;
		return 0;
	case OPT_ENV:
	case OPT_ENV_FILE:
		return envopts_add(r->env, id == OPT_ENV_FILE, value, e);
	case OPT_WORKDIR:
		if (value[0] != '/')
			return err_set(e, ERR_INVALID,
				       "working directory '%.200s' must be absolute", value);
		r->q.cwd = value;
		return 0;
	case OPT_TIMEOUT:
		return num_duration_ms(value, "timeout", 366ULL * 86400000, &r->q.timeout_ms, e);
	case OPT_QUEUE_TIMEOUT:
		if (num_duration_ms(value, "queue-timeout", 86400000, &r->q.wait_ms, e) < 0)
			return -1;
		/* a fork that is free takes a moment to say so */
		return r->q.wait_ms ? 0 : err_set(e, ERR_INVALID, "queue-timeout 0 is too short to ask for a fork; hint: such as 100ms or 5s");
	case OPT_STATUS_FD:
		return sharedfd_option(value, &r->status_fd, e);
	default:
		r->json = 1;
		return 0;
	}
}

/* The code: the first word, or a file, or stdin. */
static int read_fork_code(struct run *r, int argc, char **argv, struct err *e)
{
	autoclose int fd = -1;

	if (!r->file && !argc)
		return err_set(e, ERR_USAGE,
			       "no code given; hint: berth run --zygote %.80s CODE, or --file FILE",
			       r->q.zygote);
	r->q.argv = argv + !r->file;
	r->q.argc = (size_t)(argc - !r->file);
	if (!r->file) {
		r->q.name = "<string>";
		r->q.code = argv[0];
		r->q.code_len = strlen(argv[0]);
		return 0;
	}
	if (!strcmp(r->file, "-")) {
		r->q.name = "<stdin>";
		if (io_read_all(STDIN_FILENO, &r->code, "stdin", e) < 0)
			return -1;
	} else {
		r->q.name = r->file;
		fd = open(r->file, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_code_sys(e, ERR_NOT_FOUND, "open %.200s", r->file);
		if (io_read_all(fd, &r->code, r->file, e) < 0)
			return -1;
	}
	r->q.code = r->code.data ? r->code.data : "";
	r->q.code_len = r->code.len;
	return 0;
}

static int report_fork_verdict(const struct run *r, struct buf *verdict, struct err *e)
{
	if (!r->json)
		reason_tell_text("berth run", verdict);
	if (r->status_fd < 0 && !r->json)
		return 0;
	if (buf_adds(verdict, "\n", e) < 0)
		return -1;
	if (r->status_fd >= 0 && sharedfd_last_line(r->status_fd, verdict->data, verdict->len) < 0)
		return err_sys(e, "write the verdict to descriptor %d", r->status_fd);
	if (r->json && sharedfd_last_line(STDOUT_FILENO, verdict->data, verdict->len) < 0)
		return err_sys(e, "write the verdict to stdout");
	return 0;
}

static int run_in_fork(struct run *r, int *ret_status, struct err *e)
{
	const int std[3] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
	autobuf struct buf verdict = BUF_INIT(1 << 17);
	autoclose int signal_fd = supervise_signals(e);

	if (signal_fd < 0 || registry_open(&r->registry, &r->config, e) < 0)
		return -1;
	r->q.env = r->env;
	if (zygote_run(&r->registry, &r->q, std, signal_fd, &verdict, ret_status, e) < 0)
		return -1;
	return report_fork_verdict(r, &verdict, e);
}

static int run_zygote_main(const struct command *self, int argc, char **argv)
{
	struct run r = {.registry = REGISTRY_INIT,
			.env = json_array(),
			.code = BUF_INIT(ZYGOTE_REQUEST_MAX),
			.status_fd = -1,
			.q = {.cwd = ZYGOTE_WORKDIR, .timeout_ms = UINT64_MAX, .wait_ms = ZYGOTE_WAIT_MS}};
	struct err e = {0};
	int rest, help = 0, status = 0, result = config_load(&r.config, &e);

	if (result == 0 &&
	    (result = command_options(self, argc, argv, set_run_zygote_option, &r, &rest, &help, &e)) < 0 &&
	    e.code == ERR_USAGE)
		err_wrap(&e, "limits, mounts and the network are those of the zygote");
	if (result == 0 && !help && (result = read_fork_code(&r, argc - rest, argv + rest, &e)) == 0)
		result = run_in_fork(&r, &status, &e);
	if (result < 0)
		status = command_fail(self, &e, r.json);
	registry_close(&r.registry);
	buf_release(&r.code);
	json_decref(r.env);
	return status;
}

const struct command cmd_run_zygote = {
	.name = "run --zygote",
	.args = "CODE [ARGUMENT...]",
	.summary = "run code in a fork of a zygote",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = run_zygote_main,
};
