/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth mcp: becomes berth-mcp (cli/mcp/mcp.h), beside a `berth stdio` that does its work.
 *
 * The options are those of create, and are passed on unchanged: every sandbox that a call makes
 * has this policy.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/program.h"
#include "cli/commands.h"
#include "cli/live/resident.h"
#include "manager/keeper/wire.h"
#include "manager/ops/params.h"

#define PROGRAM "berth-mcp"
#define CONFIG_FD 3 /* as in cli/mcp/mcp.h */
#define BACKEND_FD 4

enum {
	OPT_IMAGE = PARAM_END,
	OPT_SANDBOX,
	OPT_ALLOW_IMAGE,
	OPT_MAX_SANDBOXES,
	OPT_MAX_TIMEOUT,
	OPT_CHANGES,
	OPT_TENANT,
	OPT_JSON
};

static const struct opt options[] = {
	{ "image", 0, OPT_VALUE, "IMAGE", "image of the sandbox (default: [sandbox] image, host)", OPT_IMAGE,
	  COMPLETE_IMAGE },
	{ "sandbox", 0, OPT_VALUE, "SANDBOX", "use this sandbox, and do not remove it", OPT_SANDBOX,
	  COMPLETE_SANDBOX },
	{ "allow-image", 0, OPT_LIST, "IMAGE", "an image that sandbox_create may be given, too",
	  OPT_ALLOW_IMAGE, COMPLETE_IMAGE },
	{ "max-sandboxes", 0, OPT_VALUE, "N", "sandboxes at a time, 1 to 32 (default: 4)",
	  OPT_MAX_SANDBOXES },
	{ "max-timeout", 0, OPT_VALUE, "TIME", "the longest timeout_ms of a call (default: 3600s)",
	  OPT_MAX_TIMEOUT },
	{ "allow-network-changes", 0, OPT_FLAG, NULL,
	  "offer network_change, by which the client loosens or tightens egress rules",
	  OPT_CHANGES },
	{ "tenant", 0, OPT_VALUE, "NAME", "make sandboxes of a tenant of berthd: [tenant] holds",
	  OPT_TENANT },
	{ "json", 0, OPT_FLAG, NULL, "print errors as one JSON object", OPT_JSON },
};

struct mcp_start {
	json_t *options; /* of create: long name -> true, a value, or a list */
	json_t *images;
	const char *image, *sandbox;
	const char *zygote, *not_of_zygote; /* as in berth create; NULL: none */
	char preset[256];		/* [sandbox] image */
	uint64_t max_sandboxes, max_timeout_ms;
	uint64_t timeout_ms;		/* --timeout, or [sandbox] timeout */
	int changes, json;
	struct buf lines; /* the same options for the check */
};

/* One more option of create, by its row. */
static int add_mcp_create_option(struct mcp_start *s, const struct opt *o, const char *value, struct err *e)
{
	json_t *list = json_object_get(s->options, o->name);
	json_t *one = value ? json_string(value) : json_true();

	if (!one)
		return err_set(e, ERR_INVALID, "the value is not valid UTF-8");
	if (o->kind == OPT_LIST && !list) {
		list = json_array();
		json_object_set_new(s->options, o->name, list);
	}
	if ((o->kind == OPT_LIST ? json_array_append_new(list, one) :
				   json_object_set_new(s->options, o->name, one)) < 0)
		return err_nomem(e);
	if (o->id >= PARAM_END || param_of(o->id)->of & PARAM_OF_REQUEST || (value && strchr(value, '\n')))
		return 0;
	return buf_addf(&s->lines, e, "%s%s%s\n", o->name, value ? "=" : "", value ? value : "");
}

static int set_mcp_option(void *ctx, int id, const char *value, struct err *e)
{
	struct mcp_start *s = ctx;
	const struct param *p;

	switch (id) {
	case OPT_IMAGE:
		s->image = value;
		return 0;
	case OPT_SANDBOX:
		s->sandbox = value;
		return 0;
	case OPT_ALLOW_IMAGE:
		return json_array_append_new(s->images, json_string(value)) < 0 ?
			       err_set(e, ERR_INVALID, "the value is not valid UTF-8") :
			       0;
	case OPT_MAX_SANDBOXES:
		return num_u64(value, "--max-sandboxes", 1, 32, &s->max_sandboxes, e);
	case OPT_MAX_TIMEOUT:
		return resident_time("--max-timeout", value, &s->max_timeout_ms, e);
	case OPT_CHANGES:
		s->changes = 1;
		return 0;
	case OPT_JSON:
		s->json = 1;
		return 0;
	case PARAM_NAME:
		return err_set(e, ERR_USAGE,
			       "the server may make several sandboxes; hint: "
			       "leave --name out, or --sandbox for one that is there");
	default:
		break;
	}
	if (id == PARAM_ZYGOTE)
		s->zygote = value;
	if (id == OPT_TENANT)
		return add_mcp_create_option(s, command_option(&cmd_mcp, id), value, e);
	p = param_of(id);
	if (!(p->of & PARAM_OF_REQUEST) && !resident_zygote_allows(id))
		s->not_of_zygote = p->opt.name;
	return add_mcp_create_option(s, &p->opt, value, e);
}

static int check_mcp_zygote(struct mcp_start *s, struct registry *r, struct err *e)
{
	autojson json_t *spec = NULL;

	if (s->image || json_array_size(s->images))
		return err_set(e, ERR_USAGE,
			       "--zygote brings its image, and sandboxes have no other; hint: "
			       "leave --image and --allow-image out");
	if (s->not_of_zygote)
		return resident_zygote_refuse(s->not_of_zygote, e);
	spec = resident_zygote_spec(r, s->zygote, NULL, e);
	if (!spec)
		return -1;
	snprintf(s->preset, sizeof(s->preset), "%s",
		 json_string_value(json_object_get(spec, "image")));
	return 0;
}

static int check_mcp_start(struct mcp_start *s, int extra, const char *word, struct err *e)
{
	const char *timeout = json_string_value(json_object_get(s->options, "timeout"));
	struct sandbox_ref ref;
	int r = 0;

	if (extra)
		return err_set(e, ERR_USAGE, "unexpected argument '%.80s'; hint: --image %.80s",
			       word, word);
	if (s->sandbox && (s->image || json_object_size(s->options)))
		return err_set(e, ERR_USAGE,
			       "--sandbox names one that is there: --image and options "
			       "of create have no effect; hint: leave them out");
	sandbox_ref_init(&ref);
	r = sandbox_ref_registry(&ref, e);
	if (r == 0) {
		snprintf(s->preset, sizeof(s->preset), "%s", ref.registry.config->image);
		s->timeout_ms = ref.registry.config->timeout_ms;
	}
	if (r == 0 && timeout)
		r = resident_time("--timeout", timeout, &s->timeout_ms, e);
	if (r == 0 && s->zygote)
		r = check_mcp_zygote(s, &ref.registry, e);
	if (r == 0 && s->sandbox)
		r = sandbox_ref_find(&ref, s->sandbox, e);
	if (r == 0 && s->lines.len)
		r = resident_check_options(ref.registry.config, s->lines.data, "the command line",
					   e);
	sandbox_ref_close(&ref);
	return r;
}

/* The child that does the work, with one end of a socket as its input and output. */
static int start_backend(int *ret_fd, struct err *e)
{
	static char name[] = "berth", verb[] = "stdio";
	char *words[] = { name, verb, NULL };
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "make a socket");
	pid = fork();
	if (!pid) {
		if (dup2(pair[1], STDIN_FILENO) >= 0 && dup2(pair[1], STDOUT_FILENO) >= 0)
			execv("/proc/self/exe", words);
		_exit(125);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_sys(e, "fork");
	}
	*ret_fd = pair[0];
	return 0;
}

/* Moves fd to want, where it stays open across execve. */
static int place_mcp_descriptor(int fd, int want, struct err *e)
{
	if (fd == want ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, want) < 0)
		return err_sys(e, "place descriptor %d", want);
	return 0;
}

static int become_server(const struct mcp_start *s, struct err *e)
{
	static char name[] = PROGRAM;
	char *words[] = { name, NULL };
	autojson json_t *doc = json_pack("{s:s*,s:s*,s:O,s:O,s:I,s:I,s:I,s:b}", "image",
					 s->sandbox ? NULL :
					 s->image   ? s->image :
					 s->zygote  ? s->preset :
						      "host",
					 "sandbox", s->sandbox, "images", s->images, "options",
					 s->options, "max_sandboxes", (json_int_t)s->max_sandboxes,
					 "max_timeout_ms", (json_int_t)s->max_timeout_ms,
					 "timeout_ms", (json_int_t)s->timeout_ms,
					 "network_changes", s->changes);
	autofree char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
	int program, config, backend = -1;

	if (!text)
		return err_set(e, ERR_INVALID, "the command line is not valid UTF-8");
	program = program_open(PROGRAM, e);
	config = program < 0 ? -1 : wire_data(text, strlen(text), e);
	if (config < 0 || start_backend(&backend, e) < 0)
		return -1;
	/* above what they are moved to */
	program = fcntl(program, F_DUPFD_CLOEXEC, 10);
	config = fcntl(config, F_DUPFD_CLOEXEC, 10);
	backend = fcntl(backend, F_DUPFD_CLOEXEC, 10);
	if (program < 0 || config < 0 || backend < 0)
		return err_sys(e, "duplicate descriptors");
	if (place_mcp_descriptor(config, CONFIG_FD, e) < 0 || place_mcp_descriptor(backend, BACKEND_FD, e) < 0)
		return -1;
	execveat(program, "", words, environ, AT_EMPTY_PATH);
	return err_sys(e, "execute " PROGRAM);
}

static int mcp_main(const struct command *self, int argc, char **argv)
{
	struct mcp_start s = { .options = json_object(),
			       .images = json_array(),
			       .max_sandboxes = 4,
			       .max_timeout_ms = 3600000,
			       .lines = BUF_INIT(1u << 20) };
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_mcp_option, &s, &rest, &help, &e);
	if (r == 0 && !help)
		r = check_mcp_start(&s, rest < argc, rest < argc ? argv[rest] : "", &e);
	if (r == 0 && !help)
		r = become_server(&s, &e);
	json_decref(s.options);
	json_decref(s.images);
	buf_release(&s.lines);
	return r < 0 ? command_fail(self, &e, s.json) : 0;
}

const struct command cmd_mcp = {
	.name = "mcp",
	.args = "",
	.summary = "serve a sandbox to agents by the Model Context Protocol on stdin and stdout",
	.detail =
		"The client, such as Claude Code or an IDE, starts it.  Its first call makes a\n"
		"sandbox with the options given here; when it closes its end, the sandbox is removed.\n",
	.params = PARAM_OF_MCP,
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = mcp_main,
};
