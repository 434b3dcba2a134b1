/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth run: create a sandbox, run one command in it, report, remove it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/phases.h"
#include "cli/commands.h"
#include "cli/run/imageuse.h"
#include "cli/run/sharedfd.h"
#include "cli/run/specshow.h"
#include "cli/run/volumes.h"
#include "manager/host/journal.h"
#include "manager/host/labels.h"
#include "manager/host/netevents.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/netclient.h"
#include "manager/ops/params.h"
#include "runtime/sandbox/reason.h"
#include "runtime/sandbox/supervise.h"
#include "runtime/sandbox/verdict.h"
#include "runtime/sandbox/writable.h"

enum {
	OPT_RM = PARAM_END, OPT_KEEP, OPT_STATUS_FD, OPT_JSON, OPT_DRY_RUN, OPT_ATTEST,
	OPT_DETACH, OPT_TIMING, OPT_ZYGOTE, OPT_FILE, OPT_QUEUE_TIMEOUT,
};

static const struct opt options[] = {
	{ "detach", 'd', OPT_FLAG, NULL,
	  "make a sandbox that lives, print its id and leave it running", OPT_DETACH },
	{ "rm", 0, OPT_FLAG, NULL, "remove the sandbox when the command ends (the default)", OPT_RM },
	{ "keep", 0, OPT_FLAG, NULL, "keep the writable layer on disk; see berth ps -a and berth rm", OPT_KEEP },
	{ "status-fd", 0, OPT_VALUE, "N", "write the verdict, one JSON object, to this descriptor", OPT_STATUS_FD },
	{ "json", 0, OPT_FLAG, NULL, "write the verdict as the last line of stdout, errors as JSON", OPT_JSON },
	{ "dry-run", 0, OPT_FLAG, NULL, "print what would be done, and do nothing", OPT_DRY_RUN },
	{ "attest", 0, OPT_FLAG, NULL, "print what the kernel reports of the sandbox on stderr, before the command runs",
	  OPT_ATTEST },
	{ "timing", 0, OPT_FLAG, NULL, "print how long each phase took on stderr, or in the verdict",
	  OPT_TIMING },
	{ "zygote", 0, OPT_VALUE, "ZYGOTE", "run CODE in a fork of it; see berth zygote create",
	  OPT_ZYGOTE, COMPLETE_ZYGOTE },
	{ "file", 'f', OPT_VALUE, "FILE", "with --zygote: the code is in this file; - is stdin",
	  OPT_FILE, COMPLETE_FILE },
	{ "queue-timeout", 0, OPT_VALUE, "TIME", "with --zygote: how long to wait for a free fork (default: 30s)",
	  OPT_QUEUE_TIMEOUT },
};

struct run {
	struct config config;
	struct runopts opts;
	struct registry registry;
	struct claim claim;
	struct promise promise;	/* its limits, as promised */
	struct imageuse image;
	struct volumes volumes;
	struct netguest guest;
	struct sandbox sandbox;
	int tty_fd;		/* the terminal's master side, or -1 */
	int disk_fd;		/* directory of a file-backed writable layer, or -1 */
	int keep, json, dry_run, attest, detach, zygote;
	const struct param *of_lasting;	/* an option that only a sandbox that lives has; NULL: none */
	int status_fd;
	const char *code_file;	/* of --file */
	const char *queue_timeout;	/* as it was given */
	const char *image_ref;
	struct netevents net_events;
	struct err *idle_error;
};

/* Whether run has it only with --detach. */
static int is_of_lasting(const struct param *p)
{
	return !(p->of & (PARAM_OF_ZYGOTE | PARAM_OF_REQUEST));
}

static int set_run_option(void *ctx, int id, const char *value, struct err *e)
{
	struct run *r = ctx;

	if (id < PARAM_END && is_of_lasting(param_of(id))) {
		r->of_lasting = param_of(id);
		return 0;
	}
	switch (id) {
	case OPT_DETACH:
		r->detach = 1;
		return 0;
	case OPT_ZYGOTE:
		r->zygote = 1;
		return 0;
	case OPT_FILE:
		r->code_file = value;
		return 0;
	case OPT_QUEUE_TIMEOUT:
		r->queue_timeout = value;
		return 0;
	case OPT_RM:
		r->keep = 0;
		return 0;
	case OPT_KEEP:
		r->keep = 1;
		return 0;
	case OPT_STATUS_FD:
		return sharedfd_option(value, &r->status_fd, e);
	case OPT_JSON:
		r->json = 1;
		return 0;
	case OPT_DRY_RUN:
		r->dry_run = 1;
		return 0;
	case OPT_ATTEST:
		r->attest = 1;
		return 0;
	case OPT_TIMING:
		return phases_begin(e);
	case PARAM_PULL:
		return imageuse_policy(value, &r->image.pull, e);
	default:
		if (id == PARAM_LABEL && labels_refuse_own(value, e) < 0)
			return -1;
		return params_read(&r->opts, param_of(id), value, e);
	}
}

/*
 * Small writable layers live in memory, charged to the sandbox; large ones and
 * those to keep in a file, so that they do not eat the memory limit.
 */
static int choose_disk(struct run *r, struct err *e)
{
	struct spec *s = &r->opts.spec;

	if (r->keep) {
		r->disk_fd = registry_keep_dir(&r->registry, s->id, e);
		return r->disk_fd < 0 ? -1 : imageuse_pin(&r->image, r->disk_fd, e);
	}
	s->passing = spec_wants_disk(s);
	if (s->passing)
		r->disk_fd = fcntl(r->registry.state_fd, F_DUPFD_CLOEXEC, 3);
	return 0;
}

static json_t *make_run_record(const struct run *r, enum record_status status)
{
	const struct spec *s = &r->opts.spec;
	autojson json_t *described = NULL;
	json_t *argv, *record;
	char created[CLOCK_UTC];
	size_t i;

	clock_utc(clock_now(CLOCK_REALTIME).tv_sec, created);
	record = record_new(s->id, r->opts.name ? r->opts.name : "", r->image_ref, status, created);
	if (!record)
		return NULL;
	record_set_supervisor_pid(record, (uint64_t)getpid());
	record_set_init_pid(record, (uint64_t)r->sandbox.pid);
	record_set_command(record, json_array());
	argv = record_command(record);
	for (i = 0; i < s->argc; i++)
		if (json_array_append_new(argv, json_string(s->argv[i])) < 0)
			break;
	record_set_labels(record, runopts_labels(&r->opts, r->image.image.labels));
	described = specjson_describe(s);
	if (record && described && json_object_update(record, described) == 0) {
		record_set_ports(record, sandbox_ports(&r->sandbox));
		return record;
	}
	json_decref(record);
	return NULL;
}

static int write_run_record(struct run *r, struct err *e)
{
	autojson json_t *record = make_run_record(r, RECORD_RUNNING);

	return record ? record_save_run(&r->claim, record, e) :
			err_set(e, ERR_INVALID, "the command is not valid UTF-8");
}

/* A kept sandbox's record holds how it ended. */
static int write_kept(struct run *r, const struct verdict *v, struct err *e)
{
	autojson json_t *record = make_run_record(r, RECORD_EXITED);
	autobuf struct buf b = BUF_INIT(4096);
	json_t *verdict;

	if (!record || verdict_json(v, &b, e) < 0)
		return err_set(e, ERR_INVALID, "the command is not valid UTF-8");
	verdict = json_parse(b.data, b.len, b.len, "verdict", e);
	if (!verdict || record_set_verdict(record, verdict) < 0)
		return -1;
	return record_keep(&r->registry, r->opts.spec.id, record, e);
}

/* While the command runs: some of what dead berths left behind is cleared. */
static void clear_leftovers(void *ctx)
{
	struct run *r = ctx;
	struct err ignored;

	/* for ps and inspect; nothing depends on it */
	write_run_record(r, &ignored);
	sandbox_settle(&r->sandbox);
	registry_gc_some(&r->registry);
}

/* Nobody else could say which ports of the host were free. */
static void tell_ports(const struct run *r)
{
	const json_t *ports = sandbox_ports(&r->sandbox), *one;
	const char *address;
	size_t i;

	json_array_foreach(ports, i, one) {
		address = json_string_value(json_object_get(one, "address"));
		if (netopts_chose_port(&r->opts.net) && !strchr(address, ':'))
			log_note("berth run", "port %d is published at %s:%d",
				 (int)json_integer_value(json_object_get(one, "port")), address,
				 (int)json_integer_value(json_object_get(one, "host_port")));
	}
}

static int start_run(struct run *r, struct err *e)
{
	char scratch[sizeof(r->config.run_dir) + 80];
	struct launch_place where = { scratch, -1, 0, r->registry.state_fd, scratch, 0 };
	const struct spec *s = &r->opts.spec;
	autoclose int slave = -1;
	int std[3] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
	struct job c = sandbox_job(s, INIT_LAST | INIT_MAKE_CWD | INIT_QUIET);

	snprintf(scratch, sizeof(scratch), "%s/sandboxes/%s", r->config.run_dir, s->id);
	if (!r->guest.id[0])
		r->opts.spec.net_dir = scratch;
	r->opts.spec.name = r->opts.name;
	if (choose_disk(r, e) < 0)
		return -1;
	where.disk_dirfd = r->disk_fd;
	where.lasting = r->keep;
	where.disk_reserve = r->config.disk_reserve_bytes;
	if (volumes_open(&r->volumes, &r->registry, &r->opts.spec, "", scratch, e) < 0 ||
	    sandbox_launch(&r->sandbox, &where, e) < 0 ||
	    (r->attest && attestation_print(&r->sandbox, e) < 0))
		return -1;
	spec_close_sources(&r->opts.spec);
	runopts_tell(&r->opts, "berth run");
	tell_ports(r);
	if (s->tty) {
		if (sandbox_tty(&r->sandbox, &r->tty_fd, &slave, e) < 0)
			return -1;
		std[0] = std[1] = std[2] = slave;
		c.flags |= INIT_TTY;
	}
	return supervise_exec(&r->sandbox, 1, &c, std, e);
}

/* The timing becomes the verdict's last member. */
static int add_timing(struct buf *b, struct err *e)
{
	autojson json_t *timing = NULL;
	autofree char *text = NULL;

	if (!phases_on)
		return 0;
	timing = phases_json();
	text = timing ? json_dumps(timing, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	b->len--;	/* its brace */
	return text ? buf_addf(b, e, ",\"timing\":%s}", text) : err_nomem(e);
}

static int report_run(const struct run *r, const struct verdict *v, struct err *e)
{
	autobuf struct buf b = BUF_INIT(4096);

	if (r->status_fd < 0 && !r->json && v->cause == CAUSE_EXIT)
		return 0;
	if (verdict_json(v, &b, e) < 0)
		return -1;
	if (!r->json && v->cause != CAUSE_LOST)	/* which is an error of ours, told as one */
		reason_tell_text("berth run", &b);
	if (add_timing(&b, e) < 0 || buf_adds(&b, "\n", e) < 0)
		return -1;
	if (r->status_fd >= 0 && sharedfd_last_line(r->status_fd, b.data, b.len) < 0)
		return err_sys(e, "write the verdict to descriptor %d", r->status_fd);
	if (r->json && sharedfd_last_line(STDOUT_FILENO, b.data, b.len) < 0)
		return err_sys(e, "write the verdict to stdout");
	return 0;
}

static void emit_run_event(void *ctx, const char *event, json_t *members)
{
	struct run *r = ctx;

	events_add(&r->registry, event, r->opts.spec.id, members);
}

/* The proxy refused something. */
static void tell_refusals(void *ctx)
{
	struct run *r = ctx;

	if (r->guest.id[0]) {
		fd_close(&sandbox_meter(&r->sandbox)->notice_fd);
		emit_run_event(r, "network-lost", json_pack("{s:s}", "container", r->guest.id));
		log_note("berth run", "sandbox %s, whose network this one joined, has ended",
			 r->guest.id);
		return;
	}
	if (netevents_notices(&r->net_events, sandbox_meter(&r->sandbox)->notice_fd, clock_ms(), emit_run_event, r) < 0)
		fd_close(&sandbox_meter(&r->sandbox)->notice_fd);
}

/* Reports the rest of the network's events when the command has ended. */
static void tell_network(struct run *r, const struct verdict *v)
{
	if (sandbox_meter(&r->sandbox)->notice_fd >= 0 && !r->guest.id[0])
		tell_refusals(r);
	if (v->facts.has_network)
		netevents_counters(&r->net_events, &v->facts.network, v->facts.network_is_bridge, emit_run_event, r);
}

/* Whether berth kill or berth rm -f ended it. */
static int was_run_killed(void *ctx)
{
	const struct run *r = ctx;

	return path_has(r->claim.dir_fd, KEEPER_KILLED_FILE);
}

static int run_in_sandbox(struct run *r, struct verdict *ret, struct err *e)
{
	struct supervise how = {
		.signal_fd = supervise_signals(e), .in = STDIN_FILENO, .out = STDOUT_FILENO,
		.idle = clear_leftovers, .idle_ctx = r, .notice = tell_refusals, .notice_ctx = r,
		.was_killed = was_run_killed, .was_killed_ctx = r,
	};
	struct sharedfd shared;
	struct err second;
	int result;

	if (how.signal_fd < 0)
		return -1;
	sharedfd_note(&shared, r->status_fd);
	result = start_run(r, e);
	how.tty_fd = r->tty_fd;
	phase_enter(PHASE_COMMAND);
	if (result == 0)
		result = supervise_run(&r->sandbox, 1, &how, ret, e);
	if (result == 0)
		tell_network(r, ret);
	phase_enter(PHASE_REMOVE);
	if (sandbox_destroy(&r->sandbox, &second) < 0) {
		registry_abandon(&r->claim);
		if (result == 0)
			*e = second;
		result = -1;
	}
	sharedfd_give_back(&shared);
	if (r->keep && result == 0)
		result = write_kept(r, ret, e);
	else if (r->keep)
		registry_forget(&r->registry, r->opts.spec.id, &second);
	close(how.signal_fd);
	return result;
}

static int join_network(struct run *r, struct err *e)
{
	const char *of = r->opts.net.joins;

	return !of[0] || r->dry_run ? 0 : netguest_open(&r->registry, of, "", &r->guest,
							&r->opts.spec, e);
}

/* Everything between the parsed command line and the verdict. */
static int run_one_command(struct run *r, char **command, size_t words, struct verdict *ret, struct err *e)
{
	struct spec *s = &r->opts.spec;

	phase_enter(PHASE_IMAGE);
	if (registry_open(&r->registry, &r->config, e) < 0 || imageuse_open(&r->image, &r->registry, r->image_ref, s, e) < 0 ||
	    runopts_devices(&r->opts, e) < 0 || join_network(r, e) < 0 ||
	    runopts_finish(&r->opts, r->image.has_image ? &r->image.image : NULL, command, words, e) < 0)
		return -1;
	if (r->dry_run) {
		snprintf(s->id, sizeof(s->id), "dry-run");
		s->id_base = r->config.id_base;
		return plan_print(s, r->image_ref, r->json, e);
	}
	r->promise = (struct promise){ .memory_bytes = s->limits.memory_bytes, .cpu_milli = s->limits.cpu_milli,
				       .disk_bytes = r->keep || spec_wants_disk(s) ? s->disk_bytes : 0 };
	phase_enter(PHASE_CLAIM);
	if (registry_claim(&r->registry, r->opts.name, r->keep, &r->promise, &r->claim, e) < 0)
		return writable_tell_host_full(r->config.state_dir, e);
	snprintf(s->id, sizeof(s->id), "%s", r->claim.id);
	s->id_base = r->claim.id_base;
	return run_in_sandbox(r, ret, e);
}

static void release_run(struct run *r)
{
	struct err ignored;

	registry_release(&r->registry, &r->claim, &ignored);
	registry_close(&r->registry);
	imageuse_close(&r->image, &r->opts.spec);
	volumes_close(&r->volumes);
	netguest_close(&r->guest);
	fd_close(&r->disk_fd);
	fd_close(&r->tty_fd);
	runopts_release(&r->opts);
}

static int check_detached(const struct run *r, struct err *e)
{
	if (r->detach && (r->keep || r->dry_run || r->attest || r->status_fd >= 0))
		return err_set(e, ERR_USAGE, "--keep, --status-fd, --dry-run and --attest do not "
			       "go with --detach; hint: berth inspect and berth wait tell of a "
			       "sandbox that lives");
	if (r->code_file && !r->zygote)
		return err_set(e, ERR_USAGE, "--file goes with --zygote; hint: berth run IMAGE "
			       "python3 - < FILE");
	if (r->queue_timeout && !r->zygote)
		return err_set(e, ERR_USAGE, "--queue-timeout goes with --zygote; hint: [admission] and [manager] max_sandboxes bound how many run");
	if (r->detach)
		return 0;
	if (r->of_lasting)
		return err_set(e, ERR_USAGE, "--%s is of a sandbox that lives; "
			       "hint: berth run --detach, or berth create",
			       r->of_lasting->opt.name);
	return 0;
}

static int berth_run_main(const struct command *self, int argc, char **argv)
{
	static struct run r;	/* 40 KiB, of which most is never touched: on the stack it would have to be cleared first */
	struct verdict v = { 0 };
	struct err e = { 0 };
	int rest, help = 0, result, status;

	r.image = IMAGEUSE_INIT;
	r.tty_fd = r.disk_fd = r.status_fd = -1;
	r.registry = (struct registry)REGISTRY_INIT;
	r.guest = (struct netguest)NETGUEST_NONE;
	r.claim = (struct claim){ .dir_fd = -1, .slot_fd = -1 };
	if (config_load(&r.config, &e) < 0)
		return command_fail(self, &e, 0);
	if (imageuse_policy(r.config.registry_pull, &r.image.pull, &e) < 0)
		return command_fail(self, &e, 0);
	runopts_init(&r.opts, &r.config);
	sandbox_init(&r.sandbox, &r.opts.spec);
	result = command_options(self, argc, argv, set_run_option, &r, &rest, &help, &e);
	if (result == 0 && help)
		return 0;
	if (result == 0)
		result = check_detached(&r, &e);
	if (result == 0 && r.zygote) {
		runopts_release(&r.opts);
		return cmd_run_zygote.run(&cmd_run_zygote, argc, argv);
	}
	if (result == 0 && r.detach) {
		runopts_release(&r.opts);
		return cmd_run_detached.run(&cmd_run_detached, argc, argv);
	}
	if (result == 0 && rest >= argc)
		result = err_set(&e, ERR_USAGE, "no image given; hint: berth run host true, or berth run --help");
	if (result == 0) {
		r.image_ref = argv[rest];
		r.image.quiet = r.json;
		if (r.dry_run)
			r.image.pull = IMAGEUSE_NEVER;
		result = run_one_command(&r, argv + rest + 1, (size_t)(argc - rest - 1), &v, &e);
	}
	if (result == 0 && !r.dry_run)
		result = report_run(&r, &v, &e);
	if (result == 0 && !r.dry_run && v.cause == CAUSE_LOST)
		result = err_set(&e, ERR_INTERNAL, VERDICT_LOST_TEXT);
	if (!r.json)
		phases_tell("berth run");
	status = result < 0 ? command_fail(self, &e, r.json) : r.dry_run ? 0 : verdict_exit_status(&v);
	release_run(&r);
	return status;
}

const struct command cmd_run = {
	.name = "run",
	.args = "IMAGE [COMMAND...]",
	.summary = "run a command in a fresh sandbox",
	.detail = "IMAGE is a stored image, \"host\" (this host's /usr, read-only) or the path of a root file\n"
		  "system.  The command gets the caller's own stdin, stdout and stderr.  The exit status is\n"
		  "the command's, 128+n for signal n, 124 for a timeout, 125 when berth failed, 126 or 127 when\n"
		  "the command cannot be executed or found, 2 for a wrong command line.",
	.params = PARAM_OF_RUN,
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_IMAGE,
	.run = berth_run_main,
};
