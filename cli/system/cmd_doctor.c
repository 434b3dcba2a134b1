/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth doctor: what this host offers, each thing proven by trying it, and last
 * the whole: a real sandbox with a state of its own, removed again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/system/doctor_budgets.h"
#include "cli/system/doctor_layers.h"
#include "libc.h"	/* made by base/musl/choose */
#include "manager/host/config.h"
#include "manager/host/hostids.h"
#include "runtime/probe/hostinfo.h"

#define RUN_SECONDS 30
#define EXTRA 6		/* ours: C library, configuration, budgets, checkpoints, id ranges, sandbox */

enum { OPT_JSON = 1, OPT_BUDGETS };

struct doctor_options {
	int json, budgets;
};

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object", OPT_JSON },
	{ "budgets", 0, OPT_FLAG, NULL, "print what all sandboxes share of the kernel's limits, and nothing else", OPT_BUDGETS },
};

struct doctor {
	struct config config;
	char cgroup_parent[65];
	struct host_finding *found;
	size_t count;
};

static int set_flag(void *ctx, int id, const char *value, struct err *e)
{
	struct doctor_options *o = ctx;

	(void)value, (void)e;
	*(id == OPT_JSON ? &o->json : &o->budgets) = 1;
	return 0;
}

static struct host_finding *add(struct doctor *d, const char *what, int needed)
{
	struct host_finding *f = &d->found[d->count++];

	*f = (struct host_finding){ .what = what, .state = HOST_MISSING, .needed = needed };
	return f;
}

/* ---- an end by signal waits until all is taken back ---- */

static const int end_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static void block_ends(sigset_t *old)
{
	sigset_t s;
	size_t i;

	sigemptyset(&s);
	for (i = 0; i < ARRAY_LEN(end_signals); i++)
		sigaddset(&s, end_signals[i]);
	sigprocmask(SIG_BLOCK, &s, old);
}

static int interrupted(void)
{
	sigset_t pending;
	size_t i;

	sigpending(&pending);
	for (i = 0; i < ARRAY_LEN(end_signals); i++)
		if (sigismember(&pending, end_signals[i]) == 1)
			return 1;
	return 0;
}

/* ---- the real thing ---- */

/*
 * A directory in path, as that may be a mount of its own on another file system than what is around it, or in the nearest of its
 * parents that exists; removed by its name below *ret_fd.
 */
static int scratch_near(const char *path, char *name, size_t n, char *full, size_t full_n, int *ret_fd)
{
	char parent[300];
	char *slash;

	snprintf(parent, sizeof(parent), "%s", path);
	for (;;) {
		*ret_fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
		slash = strrchr(parent, '/');
		if (*ret_fd >= 0 || !slash || !parent[1])
			break;
		slash[slash == parent] = '\0';
	}
	snprintf(name, n, "berth-doctor-%d", (int)getpid());
	snprintf(full, full_n, "%s%s%s", parent, parent[1] ? "/" : "", name);
	return *ret_fd < 0 ? -1 : mkdirat(*ret_fd, name, 0700);
}

static void __attribute__((noreturn)) run_child(int out, const char *dir, const struct doctor *d)
{
	static char berth[] = "berth", run[] = "run", json[] = "--json", limit[] = "--timeout", seconds[] = "10",
		    image[] = "host", command[] = "/bin/true";
	char *argv[] = { berth, run, json, limit, seconds, image, command, NULL };
	char state[420], place[420], ids[420];
	struct err ignored;
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(place, sizeof(place), "%s/run", dir);
	/* where no sandbox has run yet, nothing is left behind */
	snprintf(ids, sizeof(ids), "%s/ids", dir);
	if (path_check_private_dir(d->config.ids_dir, &ignored) == 0 && setenv("BERTH_IDS_DIR", ids, 1))
		_exit(125);
	if (setenv("BERTH_STATE_DIR", state, 1) || setenv("BERTH_RUN_DIR", place, 1) ||
	    setenv("BERTH_CGROUP_PARENT", d->cgroup_parent, 1) || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(125);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	alarm(RUN_SECONDS);	/* goes over exec */
	execv("/proc/self/exe", argv);
	_exit(125);
}

/* What the run printed: a verdict, or berth's error as JSON. */
static void judge(struct host_finding *f, const char *text, int status)
{
	struct err ignored;
	autojson json_t *j = json_parse(text, strlen(text), 65536, "run", &ignored);
	json_t *error = json_object_get(j, "error");
	const char *message = json_string_value(json_object_get(error, "message"));

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && j) {
		f->state = HOST_OK;
		snprintf(f->detail, sizeof(f->detail), "'berth run host /bin/true' ran in %lld ms, every control read back",
			 (long long)json_integer_value(json_object_get(j, "wall_ms")));
	} else if (message) {
		snprintf(f->detail, sizeof(f->detail), "%.230s", message);
	} else if (WIFSIGNALED(status)) {
		snprintf(f->detail, sizeof(f->detail), "'berth run host /bin/true' died by signal %d", WTERMSIG(status));
	} else {
		snprintf(f->detail, sizeof(f->detail), "'berth run host /bin/true' gave %d: %.150s", WEXITSTATUS(status), text);
	}
}

static void try_run(struct doctor *d)
{
	struct host_finding *f = add(d, "sandbox", 1);
	autobuf struct buf out = BUF_INIT(65536);
	autoclose int dir = -1;
	char name[64], full[400];
	int p[2], status = 0, result;
	struct err e;
	pid_t pid;

	if (geteuid()) {
		snprintf(f->detail, sizeof(f->detail), "not tried, which takes root");
		return;
	}
	if (scratch_near(d->config.state_dir, name, sizeof(name), full, sizeof(full), &dir) < 0 ||
	    pipe2(p, O_CLOEXEC) < 0) {
		snprintf(f->detail, sizeof(f->detail), "make a directory in %.150s: %s", d->config.state_dir,
			 strerror(errno));
		return;
	}
	pid = fork();
	if (pid == 0)
		run_child(p[1], full, d);
	close(p[1]);
	if (pid > 0) {
		(void)!io_read_all(p[0], &out, "run", &e);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		judge(f, out.data ? out.data : "", status);
	}
	close(p[0]);
	result = path_remove_tree(dir, name, &e);
	hostids_prune(&d->config);
	if (result < 0) {
		f->state = HOST_LIMITED;
		snprintf(f->detail, sizeof(f->detail), "%.200s could not be removed", full);
		snprintf(f->effect, sizeof(f->effect), "leaves it: %.200s", e.msg);
	}
}

/* ---- the ids of sandboxes ---- */

static void judge_ids(const struct config *c, struct host_finding *f)
{
	struct err e = { 0 };
	int found = hostids_overlap(c, f->detail, sizeof(f->detail), &e);

	f->state = found ? HOST_LIMITED : HOST_OK;
	if (found < 0)
		snprintf(f->detail, sizeof(f->detail), "%.230s", e.msg);
	else if (!found)
		snprintf(f->detail, sizeof(f->detail), "%u ranges, from %u to %llu, which nobody else assigns", c->id_count, c->id_base,
			 c->id_base + (unsigned long long)c->id_count * 65536 - 1);
	snprintf(f->effect, sizeof(f->effect), "%s", found < 0 ? "refuses new sandboxes" : found == HOSTIDS_SUBIDS_OF ?
		 "gives those to no sandbox; " HOSTIDS_REMEDY : "cannot know which of those are in use; " HOSTIDS_REMEDY);
}

/* ---- all findings ---- */

static const struct host_finding *blocker(const struct doctor *d)
{
	size_t i;

	/* the first that is missing explains most; the sandbox itself is the last word */
	if (d->count && d->found[d->count - 1].state == HOST_OK)
		return NULL;
	for (i = 0; i < d->count; i++)
		if (d->found[i].needed && d->found[i].state == HOST_MISSING)
			return &d->found[i];
	return NULL;
}

/* What the program was linked with when it was built. */
static void say_libc(struct host_finding *f)
{
	f->state = BERTH_LIBC_WHY[0] ? HOST_LIMITED : HOST_OK;
	snprintf(f->detail, sizeof(f->detail), "%s%s%s", BERTH_LIBC, BERTH_LIBC_WHY[0] ? ": " : "",
		 BERTH_LIBC_WHY);
	snprintf(f->effect, sizeof(f->effect),
		 "starts each command a third of a millisecond later than with musl");
}

static int examine(struct doctor *d, struct err *e)
{
	struct hostinfo_place place;
	struct host_finding *f;
	sigset_t old;
	int result;

	d->found = calloc(hostinfo_count() + EXTRA, sizeof(*d->found));
	if (!d->found)
		return err_nomem(e);
	say_libc(add(d, "C library", 0));
	f = add(d, "configuration", 1);
	if (config_load(&d->config, e) < 0) {
		snprintf(f->detail, sizeof(f->detail), "%.230s", e->msg);
		snprintf(f->effect, sizeof(f->effect), "refuses to run; the defaults are examined here");
		config_defaults(&d->config);
	} else {
		f->state = HOST_OK;
		snprintf(f->detail, sizeof(f->detail), "%.230s", d->config.file[0] ? d->config.file : "the defaults");
	}
	snprintf(d->cgroup_parent, sizeof(d->cgroup_parent), "%.40s-doctor-%d", d->config.cgroup_parent, (int)getpid());
	place = (struct hostinfo_place){ d->config.state_dir, d->cgroup_parent, d->config.id_base };
	block_ends(&old);
	result = hostinfo_probe(&place, d->found + d->count, interrupted, e);
	d->count += hostinfo_count();
	doctor_budgets_find(&d->config, add(d, "shared budgets", 0));
	doctor_layers_find(&d->config, add(d, "checkpoints", 0));
	judge_ids(&d->config, add(d, "id ranges", 0));
	if (result == 0 && !interrupted())
		try_run(d);
	hostinfo_remove_cgroups(&place);
	sigprocmask(SIG_SETMASK, &old, NULL);	/* a signal that waited ends us here */
	return result;
}

/* {"works", "blocker", "findings": [{"what", "state", "needed", "detail", "effect"}]}, a new reference. */
static json_t *document_of(const struct doctor *d)
{
	const struct host_finding *b = blocker(d);
	json_t *root = json_object(), *list = json_array();
	size_t i;

	json_object_set_new(root, "works", json_boolean(!b));
	json_object_set_new(root, "blocker", b ? json_string(b->what) : json_null());
	json_object_set_new(root, "findings", list);
	for (i = 0; i < d->count; i++) {
		const struct host_finding *f = &d->found[i];
		char detail[sizeof(f->detail)], effect[sizeof(f->effect)];

		log_clean(detail, sizeof(detail), f->detail, 0);
		log_clean(effect, sizeof(effect), f->effect, 0);
		json_array_append_new(list, json_pack("{s:s,s:s,s:b,s:s,s:s}", "what", f->what, "state",
						      hostinfo_state_name(f->state), "needed", f->needed, "detail", detail,
						      "effect", f->state == HOST_OK ? "" : effect));
	}
	return root;
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static void print_text(const json_t *doc)
{
	const json_t *found = json_object_get(doc, "findings"), *one;
	const char *blocks = text_of(doc, "blocker"), *why = "";
	int width = 0;
	size_t i;

	json_array_foreach (found, i, one) {
		if ((int)strlen(text_of(one, "what")) > width)
			width = (int)strlen(text_of(one, "what"));
		if (!strcmp(text_of(one, "what"), blocks))
			why = text_of(one, "detail");
	}
	json_array_foreach (found, i, one) {
		printf("%-8s %-*s  %s\n", text_of(one, "state"), width, text_of(one, "what"), text_of(one, "detail"));
		if (text_of(one, "effect")[0])
			printf("%-8s %-*s  -> berth %s\n", "", width, "", text_of(one, "effect"));
	}
	if (json_is_true(json_object_get(doc, "works")))
		printf("\nberth run works here\n");
	else
		printf("\nberth run does not work here: %s: %s\n", blocks, why);
}

static int print_budgets(int json, struct err *e)
{
	static struct config c;

	return config_load(&c, e) < 0 ? -1 : doctor_budgets(&c, json, e);
}

static int run(const struct command *self, int argc, char **argv)
{
	struct doctor_options o = { 0 };
	int rest, help = 0, status;
	static struct doctor d;
	autojson json_t *doc = NULL;
	struct err e;

	if (command_options(self, argc, argv, set_flag, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.json);
	if (help)
		return 0;
	if (rest < argc) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]);
		return command_fail(self, &e, o.json);
	}
	if (o.budgets)
		return print_budgets(o.json, &e) < 0 ? command_fail(self, &e, o.json) : 0;
	status = examine(&d, &e) < 0 ? -1 : blocker(&d) ? 1 : 0;
	doc = status < 0 ? NULL : document_of(&d);
	free(d.found);
	if (status < 0 || (o.json && command_print_json(doc, JSON_INDENT(2), &e) < 0))
		return command_fail(self, &e, o.json);
	if (!o.json)
		print_text(doc);
	return status;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.print = print_text,
	.summary = "prove what this host offers and what berth does about each lack",
	.detail = "Each line is ok, limited or missing, then what was tried and what was seen; for a lack, what berth does "
		  "about it. Everything is tried for real, in processes of its own, and taken back; last of all a sandbox "
		  "runs. Exit status 0 when berth run works here, 1 when not.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = run,
	.flags = COMMAND_ANY_USER,
};
