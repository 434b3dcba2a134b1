/* SPDX-License-Identifier: Apache-2.0 */
/* berth create: make a sandbox that lives, and print its id. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "base/phases.h"
#include "cli/commands.h"
#include "cli/live/lifecycle.h"
#include "cli/live/resident.h"
#include "cli/live/sandbox_status.h"
#include "cli/run/imageuse.h"
#include "manager/host/forget.h"
#include "manager/host/labels.h"
#include "manager/host/registry.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"
#include "manager/ops/runopts.h"
#include "manager/ops/settleopt.h"

/* ---- in time, or not at all ---- */

/*
 * A create that ends in time, or leaves nothing (--create-timeout).
 *
 * The work is done by a child, which is killed when the time is over, with the keeper that it may
 * have forked; what they leave is cleared by its id.
 */

/* Makes a sandbox, and notes its id in phases_on. */
typedef int createguard_make(void *ctx, struct err *e);

#define DYING_MS 5000

/* Held while its name is looked at, so that another process of that pid is never meant. */
static void kill_keeper_of_create(pid_t pid)
{
	autoclose int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	autobuf struct buf name = BUF_INIT(64);
	char path[40];
	struct err ignored;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (fd < 0 || io_read_file(AT_FDCWD, path, &name, &ignored) < 0 || !name.data ||
	    strcmp(name.data, "berth-keeper\n"))
		return;
	syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, DYING_MS);
}

static void wait_for_create(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/*
 * A keeper that was forked just before reports its pid a moment later: we look for it again
 * until nothing is left.
 */
static void clear_given_up(struct registry *r, const char *id, struct err *why)
{
	const uint64_t end = clock_ms() + DYING_MS;

	for (;;) {
		kill_keeper_of_create(phases_on->keeper);
		if (registry_clear_dead(r, id, DYING_MS, 1, why) >= 0 && path_has(r->kept_fd, id))
			forget_alone(r, id, why);
		if ((!path_has(r->kept_fd, id) && !path_has(r->sandboxes_fd, id)) ||
		    clock_ms() >= end)
			return;
		poll(NULL, 0, 5);
	}
}

static int give_up_create(struct registry *r, pid_t pid, uint64_t ms, struct err *e)
{
	const enum phase slow = phases_on->now;
	struct err why = { 0 };
	const char *id = phases_on->id;

	kill(pid, SIGKILL);
	wait_for_create(pid);
	if (id[0])
		clear_given_up(r, id, &why);
	err_set(e, ERR_TIMEOUT, "the sandbox was not made within %llu ms: its phase '%s' was under way",
		(unsigned long long)ms, phases_name(slow));
	if (id[0] && (path_has(r->kept_fd, id) || path_has(r->sandboxes_fd, id)))
		return err_hint(e, "berth gc clears what could not be removed: %.200s", why.msg);
	return err_hint(e, "a longer --create-timeout; --timing shows each phase");
}

static void make_in_child(int fd, createguard_make *make, void *ctx) __attribute__((noreturn));
static void make_in_child(int fd, createguard_make *make, void *ctx)
{
	struct err e = { 0 };

	if (make(ctx, &e) == 0)
		e.code = ERR_NONE;
	_exit(io_write_all(fd, &e, sizeof(e)) < 0);
}

/* phases_begin() was called.  ERR_TIMEOUT names the phase that was under way after ms. */
static int createguard_run(struct registry *r, uint64_t ms, createguard_make *make, void *ctx,
			   struct err *e)
{
	const uint64_t end = clock_ms() + ms;
	struct pollfd p = { .events = POLLIN };
	struct err told = { 0 };
	int fds[2], ready, got;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		make_in_child(fds[1], make, ctx);
	}
	close(fds[1]);
	p.fd = fds[0];
	do {
		uint64_t now = clock_ms();

		ready = pid < 0 ? 0 : poll(&p, 1, now < end ? (int)(end - now) : 0);
	} while (ready < 0 && errno == EINTR);
	got = ready > 0 ? io_read_exact(fds[0], &told, sizeof(told)) : 0;
	close(fds[0]);
	if (pid < 0)
		return err_sys(e, "fork");
	if (ready <= 0)
		return give_up_create(r, pid, ms, e);
	wait_for_create(pid);
	if (got != 1)
		return err_set(e, ERR_INTERNAL, "the process that made the sandbox died");
	if (told.code != ERR_NONE)
		*e = told;
	return told.code == ERR_NONE ? 0 : -1;
}

/* ---- create ---- */

enum { OPT_JSON = PARAM_END, OPT_TENANT, OPT_RM, OPT_DETACH, OPT_TIMING };

#define CREATE_TABLE \
	{ "rm", 0, OPT_FLAG, NULL, "the same as --auto-remove", OPT_RM }, \
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON }, \
	{ "timing", 0, OPT_FLAG, NULL, \
	  "print how long each phase took on stderr, or in the answer", OPT_TIMING }, \
	{ "tenant", 0, OPT_VALUE, "NAME", \
	  "make it a tenant's of berthd: [tenant] holds, and the tenant sees it", OPT_TENANT }

static const struct opt options[] = { CREATE_TABLE };

static const struct opt detached_options[] = {
	CREATE_TABLE,
	{ "detach", 'd', OPT_FLAG, NULL, "leave it running, and print its id", OPT_DETACH },
};

#define ASKED_MAX (8u << 20)	/* bytes, as of any document of a sandbox */

struct create {
	json_t *options, *seccomp;	/* the text of --seccomp FILE, or NULL */
	json_t *asked;		/* --asked, or NULL */
	int service;		/* it has a main command */
	int no_start;
	const char *zygote;	/* NULL: it is made of an image */
	const char *not_of_zygote;	/* an option that the zygote has decided; NULL: none */
	const char *name;
	const char *pull;	/* NULL: as configured */
	const char *tenant;	/* NULL: no tenant */
	int json;
	int timing;
	uint64_t timeout_ms;	/* of its making; 0: none */
	enum imageuse_pull policy;
	struct sandbox_ref ref;
	json_t *spec;
	const char *image;
};

static int add_create_env(void *ctx, const char *line, struct err *e)
{
	struct create *c = ctx;

	return params_keep(c->options, "env", line, e);
}

static int add_create_label(void *ctx, const char *line, struct err *e)
{
	struct create *c = ctx;

	return labels_refuse_own(line, e) < 0 ? -1 : params_keep(c->options, "label", line, e);
}

/* An option of the sandbox, as its starts will read it. */
static int keep_create_option(struct create *c, const struct param *p, const char *value, struct err *e)
{
	autofree char *settled = NULL;

	if (!resident_zygote_allows(p->opt.id))
		c->not_of_zygote = p->opt.name;
	if (value && settleopt(p->opt.id, value, &settled, e) < 0)
		return -1;
	if (settled)
		value = settled;
	if (p->opt.id == PARAM_SECCOMP && settleopt_seccomp(value, &c->seccomp, e) < 0)
		return -1;
	return params_keep(c->options, p->opt.name, value, e);
}

static int set_create_option(void *ctx, int id, const char *value, struct err *e)
{
	struct create *c = ctx;
	enum imageuse_pull policy;

	switch (id) {
	case OPT_JSON:
		c->json = 1;
		return 0;
	case OPT_DETACH:
		return 0;
	case OPT_RM:
		return params_keep(c->options, "auto-remove", NULL, e);
	case OPT_TIMING:
		return c->timing = 1, phases_begin(e);
	case OPT_TENANT:
		c->tenant = value;
		return path_is_name(value) ? 0 : err_set(e, ERR_INVALID, "'%.80s' is not a tenant's name; hint: a-z 0-9 _ . -", value);
	case PARAM_NO_START:
		return c->no_start = 1, 0;
	case PARAM_ASKED:
		json_decref(c->asked);
		c->asked = json_parse(value, strlen(value), ASKED_MAX, "its document", e);
		return !c->asked ? -1 :
		       json_is_object(c->asked) ? 0 : err_set(e, ERR_INVALID, "its document is not an object");
	case PARAM_PULL:
		c->pull = value;
		return imageuse_policy(value, &policy, e);
	case PARAM_CREATE_TIMEOUT:
		return num_duration_ms(value, "create-timeout", param_of(id)->max, &c->timeout_ms, e) < 0 ?
			       -1 : phases_begin(e);
	case PARAM_NAME:
		c->name = value;
		return value[0] ? 0 : err_set(e, ERR_INVALID, "the name is empty");
	case PARAM_ZYGOTE:
		return c->zygote = value, 0;
	case PARAM_ENV_FILE:
		return envopts_file(value, add_create_env, c, e);
	case PARAM_LABEL:
		return add_create_label(c, value, e);
	case PARAM_LABEL_FILE:
		return envopts_lines(value, add_create_label, c, e);
	case PARAM_SERVICE:
		c->service = 1;
		c->not_of_zygote = "service";
		return 0;
	default:
		return keep_create_option(c, param_of(id), value, e);
	}
}

/* words: IMAGE [COMMAND...], and NULL. */
static json_t *make_spec(struct create *c, char **words, struct err *e)
{
	autojson json_t *command = json_array();
	json_t *spec;
	size_t i;

	for (i = 1; words[i]; i++)
		if (json_array_append_new(command, json_string(words[i])) < 0) {
			err_set(e, ERR_INVALID, "the command is not valid UTF-8");
			return NULL;
		}
	if ((c->service || words[1]) && params_keep(c->options, "service", NULL, e) < 0)
		return NULL;
	spec = json_pack("{s:i,s:s,s:O,s:O*,s:O*}", "version", REGISTRY_FORMAT, "image", words[0],
			 "options", c->options, "seccomp", c->seccomp, "command", words[1] ? command : NULL);
	if (!spec)
		err_set(e, ERR_INVALID, "the image is not valid UTF-8");
	return spec;
}

/* What --publish led to, as JSON: the ports of the host may have been left to berth. */
static char *ports_text(struct create *c, const char *id)
{
	autojson json_t *ports = NULL;
	struct err ignored;
	json_t *option;
	size_t i;

	json_array_foreach(c->options, i, option)
		if (!strcmp(json_string_value(json_array_get(option, 0)), "publish"))
			break;
	if (i == json_array_size(c->options))
		return NULL;
	ports = ports_of(&c->ref.registry, id, &ignored);
	return ports ? json_dumps(ports, JSON_COMPACT) : NULL;
}

static int report_created(struct create *c, const char *id, const json_t *spec)
{
	autofree char *ports = c->json ? ports_text(c, id) : NULL;
	autojson json_t *timing = c->timing ? phases_json() : NULL;
	autofree char *text = timing ? json_dumps(timing, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

	if (!c->json)
		return puts(id) < 0;
	return printf("{\"id\":\"%s\",\"name\":\"%s\",\"service\":%s%s%s%s%s}\n", id,
		      c->name ? c->name : "", resident_is_service(spec) ? "true" : "false",
		      ports ? ",\"ports\":" : "", ports ? ports : "",
		      text ? ",\"timing\":" : "", text ? text : "") < 0;
}

/* Whether its client has a key by which it finds the sandbox again. */
static int has_request_label(const struct create *c)
{
	json_t *option;
	size_t i;

	json_array_foreach (c->options, i, option) {
		if (!strcmp(json_string_value(json_array_get(option, 0)), "mark") &&
		    label_is_request(json_string_value(json_array_get(option, 1))))
			return 1;
	}
	return 0;
}

/* The answer, or no sandbox: if its reader has gone (a killed berthd), nobody would know the id. */
static int tell_created(struct create *c, const char *id)
{
	struct err e;

	signal(SIGPIPE, SIG_IGN);
	if (!report_created(c, id, c->spec) && fflush(stdout) == 0)
		return 0;
	if (errno == EPIPE && c->json && !has_request_label(c) && lifecycle_remove(&c->ref.registry, id, 1, &e) < 0)
		log_note("berth create", "sandbox %s is left, though nobody was told of it: %s", id, e.msg);
	return 1;
}

static int make_it(struct create *c, char id[65], struct err *e)
{
	struct registry *r = &c->ref.registry;

	phase_enter(PHASE_IMAGE);
	if (imageuse_ensure(r, c->image, c->policy, c->json, e) < 0)
		return -1;
	return resident_create(r, &(struct resident_whose){ .name = c->name ? c->name : "",
			       .tenant = c->tenant ? c->tenant : "", .asked = c->asked,
			       .no_start = c->no_start }, c->spec, id, e);
}

/* In a child, which puts the id into phases_on. */
static int make_guarded(void *ctx, struct err *e)
{
	char id[65];

	return make_it(ctx, id, e);
}

static int make_in_time(struct create *c, char id[65], struct err *e)
{
	if (!c->timeout_ms)
		return make_it(c, id, e);
	if (createguard_run(&c->ref.registry, c->timeout_ms, make_guarded, c, e) < 0)
		return -1;
	memcpy(id, phases_on->id, sizeof(phases_on->id));
	return 0;
}

static int spec_of_zygote(struct create *c, char **words, struct err *e)
{
	if (words[0])
		return err_set(e, ERR_USAGE,
			       "'%.80s' is one word too many: a zygote brings its image, and its "
			       "interpreter is what runs; hint: berth create --zygote %.80s",
			       words[0], c->zygote);
	if (c->not_of_zygote)
		return resident_zygote_refuse(c->not_of_zygote, e);
	if (sandbox_ref_registry(&c->ref, e) < 0)
		return -1;
	c->spec = resident_zygote_spec(&c->ref.registry, c->zygote, c->options, e);
	c->image = json_string_value(json_object_get(c->spec, "image"));
	return c->spec ? 0 : -1;
}

/* Checks the request before anything is made. */
static int prepare_create(struct create *c, char **words, struct err *e)
{
	const char *pull;

	if (c->zygote) {
		if (spec_of_zygote(c, words, e) < 0)
			return -1;
	} else {
		c->image = words[0];
		c->spec = make_spec(c, words, e);
		if (!c->spec || sandbox_ref_registry(&c->ref, e) < 0)
			return -1;
	}
	pull = c->pull ? c->pull : c->ref.registry.config->registry_pull;
	return imageuse_policy(pull, &c->policy, e);
}

int lifecycle_create(struct sandbox_ref *s, const struct resident_whose *whose, char **words,
		     struct err *e)
{
	struct create c = { .options = json_array(), .policy = IMAGEUSE_NEVER };
	autofree char **argv = NULL;
	int argc = 1, rest = 0, help = 0, r = 0;

	while (words[argc - 1])
		argc++;
	argv = calloc((size_t)argc + 1, sizeof(*argv));
	if (!argv)
		r = err_nomem(e);
	else
		memcpy(argv + 1, words, (size_t)argc * sizeof(*argv));	/* with its NULL */
	if (r == 0)
		r = command_options(&cmd_create, argc, argv, set_create_option, &c, &rest, &help, e);
	if (r == 0 && (rest >= argc || c.zygote))
		r = err_set(e, ERR_USAGE,
			    c.zygote ? "a zygote is not taken here" : "no image given");
	if (r == 0 && s->registry.run_fd < 0)
		r = sandbox_ref_registry(s, e);
	if (r == 0 && !(c.spec = make_spec(&c, argv + rest, e)))
		r = -1;
	if (r == 0)
		r = resident_create(&s->registry, whose, c.spec, s->id, e);
	s->kept = whose->no_start;
	json_decref(c.spec);
	json_decref(c.options);
	json_decref(c.seccomp);
	json_decref(c.asked);
	return r;
}

static int berth_create_main(const struct command *self, int argc, char **argv)
{
	struct create c = { .options = json_array(), .service = self == &cmd_run_detached };
	struct err e = { 0 };
	int rest, help = 0, result;
	char id[65];

	sandbox_ref_init(&c.ref);
	result = command_options(self, argc, argv, set_create_option, &c, &rest, &help, &e);
	if (result == 0 && help) {
		json_decref(c.options);
		return 0;
	}
	if (result == 0 && rest >= argc && !c.zygote)
		result = err_set(&e, ERR_USAGE, "no image given; hint: berth create host");
	if (result == 0)
		result = prepare_create(&c, argv + rest, &e);
	if (result == 0)
		result = make_in_time(&c, id, &e);
	if (c.timing && !c.json)
		phases_tell("berth create");
	result = result < 0 ? command_fail(self, &e, c.json) : tell_created(&c, id);
	if (c.ref.registry.run_fd >= 0)
		/* the sandbox is made: now clear the leftovers of others */
		registry_gc_some(&c.ref.registry);
	sandbox_ref_close(&c.ref);
	json_decref(c.spec);
	json_decref(c.options);
	json_decref(c.seccomp);
	json_decref(c.asked);
	return result;
}

const struct command cmd_create = {
	.name = "create",
	.args = "IMAGE [COMMAND...]",
	.summary = "make a sandbox that lives until it is removed, and print its id",
	.detail = "Without a COMMAND it runs nothing of its own: berth exec runs commands in it.\n"
		  "With one, or with --service, it is a service: the output of its main command is\n"
		  "its log, and that command's end is its end.",
	.params = PARAM_OF_CREATE,
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_IMAGE,
	.run = berth_create_main,
};

const struct command cmd_run_detached = {
	.name = "run",
	.args = "--detach IMAGE [COMMAND...]",
	.summary = "run a command as the main command of a sandbox that lives, and print its id",
	.params = PARAM_OF_DETACHED,
	.opts = detached_options,
	.opt_count = ARRAY_LEN(detached_options),
	.complete = COMPLETE_IMAGE,
	.run = berth_create_main,
};
