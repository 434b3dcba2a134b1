/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth doctor: what this host offers, each thing proven by trying it, and last
 * the whole: a real sandbox with a state of its own, removed again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/table.h"
#include "libc.h"	/* made by base/musl/choose */
#include "manager/host/config.h"
#include "manager/host/hostids.h"
#include "manager/host/layerpool.h"
#include "manager/host/tenant.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/kernel/quota.h"
#include "runtime/kernel/rlimits.h"
#include "runtime/probe/budgets.h"
#include "runtime/probe/hostinfo.h"

/* ---- Limits of the kernel that all sandboxes share ---- */

#define QUARTER 2500
#define ALL 10000
#define FLOWS 4096	/* of a sandbox on a bridge, or a sixteenth of the table (S29) */

struct shares {
	struct budget_limits sandbox, tenant;
};

struct row {
	uint64_t host, sandbox, tenant;
	int counted;	/* the three are numbers */
};

static uint64_t budget_times(uint64_t a, uint64_t b)
{
	return a && b > BUDGET_UNLIMITED / a ? BUDGET_UNLIMITED : a * b;
}

/* For memory and disk a tenant also has a maximum of the sum. */
static uint64_t tenant_sum(const struct tenant *t, uint64_t of_each, uint64_t most)
{
	uint64_t all = budget_times(t->sandboxes, of_each);

	return all < most ? all : most;
}

static int load_budget_shares(const struct config *c, struct shares *s, struct err *e)
{
	struct rlimits r;
	struct tenant t;
	uint64_t filters;

	if (tenant_load(&t, c, "", e) < 0)
		return -1;
	rlimits_default(&r);
	filters = budgets_filter_bytes();
	s->sandbox = (struct budget_limits){
		1, c->memory_bytes, c->pids, c->disk_bytes, r.v[RLIMIT_NOFILE].hard, FLOWS, filters,
	};
	s->tenant = (struct budget_limits){
		.sandboxes = t.sandboxes, .memory_bytes = tenant_sum(&t, t.memory_bytes, t.memory_total), .pids = budget_times(t.sandboxes, t.pids),
		.disk_bytes = tenant_sum(&t, t.disk_bytes, t.disk_total), .files = r.v[RLIMIT_NOFILE].hard,
		.flows = budget_times(t.sandboxes, FLOWS), .filter_bytes = budget_times(t.sandboxes, filters),
	};
	return 0;
}

static struct row budget_row_of(const struct budget *b, const struct shares *s)
{
	struct row r = { .host = budgets_knob(b), .counted = !!b->takes };

	if (b->takes) {
		r.sandbox = b->takes(&s->sandbox);
		r.tenant = b->takes(&s->tenant);
	}
	return r;
}

static const char *budget_row_kind(const struct budget *b, const struct row *r)
{
	int over = b->kind == BUDGET_BOUNDED && r->counted && r->host && budgets_share(r->tenant, r->host) > ALL;

	return budget_kind_name(over ? BUDGET_OVERCOMMITTED : b->kind);
}

static void print_share(const char *who, uint64_t takes, uint64_t host)
{
	uint64_t share = budgets_share(takes, host);

	if (takes == BUDGET_UNLIMITED)
		printf("%s without bound", who);
	else if (share == BUDGET_UNLIMITED)
		printf("%s %" PRIu64, who, takes);
	else
		printf("%s %" PRIu64 " (%.1f %%)", who, takes, (double)share / 100);
}

/* More than the host has is no share: a tenant then takes what there is. */
static void print_tenant(const struct row *r, uint64_t sandboxes)
{
	char who[64];

	snprintf(who, sizeof(who), ", a tenant's %" PRIu64 " together", sandboxes);
	if (r->host && budgets_share(r->tenant, r->host) > ALL)
		printf("%s all of it (they may have %.1f times as much)", who, (double)r->tenant / (double)r->host);
	else
		print_share(who, r->tenant, r->host);
}

static void print_budget_row(const struct budget *b, const struct shares *s)
{
	struct row r = budget_row_of(b, s);

	printf("%-14s%s", budget_row_kind(b, &r), b->name);
	if (r.host)
		printf(", %.*s = %" PRIu64, (int)strcspn(b->knobs, " "), b->knobs, r.host);
	if (r.counted && r.sandbox) {
		print_share("\n              a sandbox takes at most", r.sandbox, r.host);
		print_tenant(&r, s->tenant.sandboxes);
	}
	printf("\n              counted by: %s\n              %s\n", b->counted, b->why);
}

static void add_share(json_t *j, const char *who, uint64_t takes, uint64_t host)
{
	uint64_t share = budgets_share(takes, host);
	char name[40];

	json_object_set_new(j, who, takes > INT64_MAX ? json_null() : json_integer((json_int_t)takes));
	snprintf(name, sizeof(name), "%s_percent", who);
	json_object_set_new(j, name, share == BUDGET_UNLIMITED ? json_null() : json_real((double)share / 100));
}

static json_t *row_json(const struct budget *b, const struct shares *s)
{
	struct row r = budget_row_of(b, s);
	json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:o}", "name", b->name, "kind", budget_row_kind(b, &r), "knobs", b->knobs,
			      "counted_by", b->counted, "why", b->why, "test", b->test, "host",
			      r.host && r.host <= INT64_MAX ? json_integer((json_int_t)r.host) : json_null());

	if (r.counted) {
		add_share(j, "sandbox", r.sandbox, r.host);
		add_share(j, "tenant", r.tenant, r.host);
	}
	return j;
}

/* Prints all of them, for the defaults of c and the knobs as they are now. */
static int doctor_budgets(const struct config *c, int json, struct err *e)
{
	autojson json_t *root = json_object(), *list = json_array();
	struct shares s;
	size_t i;

	if (load_budget_shares(c, &s, e) < 0)
		return -1;
	for (i = 0; i < budget_count; i++)
		if (json)
			json_array_append_new(list, row_json(&budgets[i], &s));
		else if (budgets[i].kind != BUDGET_IRRELEVANT)
			print_budget_row(&budgets[i], &s);
	if (!json)
		return 0;
	json_object_set_new(root, "tenant_sandboxes", json_integer((json_int_t)s.tenant.sandboxes));
	json_object_set(root, "budgets", list);
	return command_print_json(root, JSON_INDENT(2), e);
}

/* One finding of all: limited when a sandbox with the defaults may take a quarter of one or more. */
static void doctor_budgets_find(const struct config *c, struct host_finding *f)
{
	struct shares s;
	size_t i, n = 0;
	struct err e;

	f->state = HOST_OK;
	if (load_budget_shares(c, &s, &e) < 0) {
		f->state = HOST_LIMITED;
		snprintf(f->detail, sizeof(f->detail), "%.230s", e.msg);
		return;
	}
	for (i = 0; i < budget_count; i++) {
		struct row r = budget_row_of(&budgets[i], &s);
		uint64_t share = budgets_share(r.sandbox, r.host);

		if (budgets[i].kind != BUDGET_BOUNDED || !r.counted || share == BUDGET_UNLIMITED || share < QUARTER ||
		    n >= sizeof(f->detail))
			continue;
		n += (size_t)snprintf(f->detail + n, sizeof(f->detail) - n, "%s%" PRIu64 " %% of the %s (%.*s)", n ? ", " :
				      "one default sandbox may take ", share / 100, budgets[i].name,
				      (int)strcspn(budgets[i].knobs, " "), budgets[i].knobs);
	}
	if (!n) {
		snprintf(f->detail, sizeof(f->detail), "a default sandbox may take less than a quarter of each that all share");
		return;
	}
	f->state = HOST_LIMITED;
	snprintf(f->effect, sizeof(f->effect), "runs, and a few hostile sandboxes can use that up: raise it with sysctl, or lower "
		 "[sandbox] pids_limit; see berth doctor --budgets");
}

/* ---- What a checkpoint costs ---- */

#define TRIED_BYTES (16u << 20)

/* How long a copy of so much takes, with all of it on disk; -1. */
static int64_t time_of_copy(int state_fd, struct err *e)
{
	autoclose int from = openat(state_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	autoclose int to = openat(state_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	char piece[1 << 16];
	uint64_t began;
	unsigned i;

	memset(piece, 'x', sizeof(piece));
	if (from < 0 || to < 0)
		return err_sys(e, "make a file in the state directory");
	for (i = 0; i < TRIED_BYTES / sizeof(piece); i++)
		if (io_write_all(from, piece, sizeof(piece)) < 0)
			return err_sys(e, "write a file in the state directory");
	if (fsync(from) < 0)
		return err_sys(e, "write a file in the state directory");
	began = clock_ms();
	if (fileclone(from, to, NULL, NULL, e) < 0)
		return -1;
	return fsync(to) < 0 ? err_sys(e, "write a file in the state directory") :
			       (int64_t)(clock_ms() - began);
}

static void say_pool(int state_fd, struct host_finding *f, struct err *e)
{
	autojson json_t *pool = layerpool_describe(state_fd, e);
	const long long left = json_integer_value(json_object_get(pool, "free_bytes"));
	const long long size = json_integer_value(json_object_get(pool, "size_bytes"));

	if (!pool) {
		snprintf(f->detail, sizeof(f->detail), "%.230s", e->msg);
		snprintf(f->effect, sizeof(f->effect),
			 "refuses new sandboxes that last, and those whose layer is in the pool");
		return;
	}
	f->state = left * 10 > size ? HOST_OK : HOST_LIMITED;
	snprintf(f->detail, sizeof(f->detail),
		 "in the pool, which has %lld of %lld MiB free: they share their blocks, at the "
		 "same cost for any size",
		 left >> 20, size >> 20);
	snprintf(f->effect, sizeof(f->effect),
		 "refuses checkpoints and sandboxes when it is full; berth system df tells what "
		 "takes it");
}

static void say_extents(int state_fd, struct host_finding *f, struct err *e)
{
	const int64_t ms = time_of_copy(state_fd, e);

	if (ms < 0) {
		snprintf(f->detail, sizeof(f->detail), "%.230s", e->msg);
		return;
	}
	f->state = HOST_LIMITED;
	snprintf(f->detail, sizeof(f->detail),
		 "the state directory's file system has no reflinks: %u MiB took %lld ms to copy",
		 TRIED_BYTES >> 20, (long long)ms);
	snprintf(f->effect, sizeof(f->effect),
		 "copies what a layer has for each checkpoint and fork, while the sandbox stands "
		 "still; berth system pool create --size 20g makes a file system that shares it");
}

static void doctor_layers_find(const struct config *c, struct host_finding *f)
{
	autoclose int state = open(c->state_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	enum layerpool_way way;
	struct err e = { 0 };

	if (geteuid()) {
		snprintf(f->detail, sizeof(f->detail), "not tried, which takes root");
	} else if (state < 0) {
		f->state = errno == ENOENT ? HOST_OK : HOST_MISSING;
		snprintf(f->detail, sizeof(f->detail), "not tried: %.150s: %s", c->state_dir,
			 strerror(errno));
	} else if (layerpool_way(state, &way, &e) < 0) {
		snprintf(f->detail, sizeof(f->detail), "%.230s", e.msg);
	} else if (way != LAYERPOOL_POOL && quota_check(state, &e) == 0) {
		f->state = HOST_LIMITED;
		snprintf(
			f->detail, sizeof(f->detail),
			"project quotas bound lasting layers, which are directories: no instant of "
			"one can be copied");
		snprintf(
			f->effect, sizeof(f->effect),
			"refuses a checkpoint until the sandbox is stopped once and its layer made "
			"a file; berth system pool create --size 20g makes new layers files");
	} else if (way == LAYERPOOL_REFLINK) {
		f->state = HOST_OK;
		snprintf(f->detail, sizeof(f->detail),
			 "the state directory's file system has reflinks: they share their blocks, "
			 "at the same cost for any size");
	} else if (way == LAYERPOOL_POOL) {
		say_pool(state, f, &e);
	} else {
		say_extents(state, f, &e);
	}
}

/* ---- The command ---- */

#define RUN_SECONDS 30
#define EXTRA 10	/* ours: C library, configuration, budgets, checkpoints, id ranges, 4 programs, sandbox */

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

static int set_doctor_flag(void *ctx, int id, const char *value, struct err *e)
{
	struct doctor_options *o = ctx;

	(void)value, (void)e;
	*(id == OPT_JSON ? &o->json : &o->budgets) = 1;
	return 0;
}

static struct host_finding *add_host_finding(struct doctor *d, const char *what, int needed)
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
static void judge_doctor_run(struct host_finding *f, const char *text, int status)
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
	struct host_finding *f = add_host_finding(d, "sandbox", 1);
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
		judge_doctor_run(f, out.data ? out.data : "", status);
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

/* ---- programs that some commands need ---- */

static const struct {
	const char *name, *path, *package, *needs;
} optional_programs[] = {
	{ "buildah", "/usr/bin/buildah", "buildah", "berth build and docker build" },
	{ "mmdebstrap", "/usr/bin/mmdebstrap", "mmdebstrap", "berth image bootstrap" },
	{ "mkfs.xfs", "/sbin/mkfs.xfs", "xfsprogs", "berth system pool create" },
	{ "lxcfs", "/usr/bin/lxcfs", "lxcfs", "container engines that show containers of berth-oci their limits in /proc" },
};

static void look_for_programs(struct doctor *d)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(optional_programs); i++) {
		struct host_finding *f = add_host_finding(d, optional_programs[i].name, 0);

		f->optional = 1;
		if (access(optional_programs[i].path, X_OK) == 0)
			f->state = HOST_OK;
		snprintf(f->detail, sizeof(f->detail), "%s%s; for %s", optional_programs[i].path, f->state == HOST_OK ? "" : " is not there",
			 optional_programs[i].needs);
		snprintf(f->effect, sizeof(f->effect), "does the rest without it; the package is %s", optional_programs[i].package);
	}
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

static int examine_host(struct doctor *d, struct err *e)
{
	struct hostinfo_place place;
	struct host_finding *f;
	sigset_t old;
	int result;

	d->found = calloc(hostinfo_count() + EXTRA, sizeof(*d->found));
	if (!d->found)
		return err_nomem(e);
	say_libc(add_host_finding(d, "C library", 0));
	f = add_host_finding(d, "configuration", 1);
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
	doctor_budgets_find(&d->config, add_host_finding(d, "shared budgets", 0));
	doctor_layers_find(&d->config, add_host_finding(d, "checkpoints", 0));
	judge_ids(&d->config, add_host_finding(d, "id ranges", 0));
	look_for_programs(d);
	if (result == 0 && !interrupted())
		try_run(d);
	hostinfo_remove_cgroups(&place);
	sigprocmask(SIG_SETMASK, &old, NULL);	/* a signal that waited ends us here */
	return result;
}

/* {"works", "blocker", "findings": [{"what", "state", "needed", "optional", "detail", "effect"}]}, a new reference. */
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
		json_array_append_new(list, json_pack("{s:s,s:s,s:b,s:b,s:s,s:s}", "what", f->what, "state",
						      hostinfo_state_name(f->state), "needed", f->needed, "optional", f->optional, "detail", detail,
						      "effect", f->state == HOST_OK ? "" : effect));
	}
	return root;
}

static const char *doctor_text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

/* A line each in a pipe; on a terminal they are filled. */
static void print_doctor_finding(const json_t *one, int width)
{
	const int columns = (int)table_terminal_width(), hangs = columns >= 9 + width + 2 + 30;
	const int indent = hangs ? 9 + width + 2 : 9;
	const char *effect = doctor_text_of(one, "effect");
	int at = printf("%-8s %-*s  ", doctor_text_of(one, "state"), columns && !hangs ? 0 : width, doctor_text_of(one, "what"));

	if (!columns) {
		printf("%s\n", doctor_text_of(one, "detail"));
		if (effect[0])
			printf("%-8s %-*s  -> berth %s\n", "", width, "", effect);
		return;
	}
	if (!hangs) {
		printf("\n");
		at = 0;
	}
	command_print_filled(doctor_text_of(one, "detail"), indent, at, columns);
	if (effect[0]) {
		at = printf("%*s-> berth", indent, "");
		command_print_filled(effect, indent + 3, at, columns);
	}
}

enum doctor_part { DOCTOR_PROBLEMS, DOCTOR_WORKS, DOCTOR_PROGRAMS };

/* Those of a part, the blocker before all; returns how many. */
static int print_doctor_part(const json_t *found, enum doctor_part part, const char *blocks, int width, const char *head)
{
	const json_t *one;
	int n = 0, first;
	size_t i;

	for (first = 1; first >= 0; first--)
		json_array_foreach (found, i, one) {
			const int optional = json_is_true(json_object_get(one, "optional")), ok = !strcmp(doctor_text_of(one, "state"), "ok");

			if ((optional ? DOCTOR_PROGRAMS : ok ? DOCTOR_WORKS : DOCTOR_PROBLEMS) != part ||
			    first != !strcmp(doctor_text_of(one, "what"), blocks))
				continue;
			if (!n++)
				printf("%s", head);
			print_doctor_finding(one, width);
		}
	return n;
}

static void print_doctor_findings(const json_t *doc)
{
	const json_t *found = json_object_get(doc, "findings"), *one;
	const char *blocks = doctor_text_of(doc, "blocker"), *why = "";
	const int columns = (int)table_terminal_width();
	int width = 0, problems;
	char last[512];
	size_t i;

	json_array_foreach (found, i, one) {
		if ((int)strlen(doctor_text_of(one, "what")) > width)
			width = (int)strlen(doctor_text_of(one, "what"));
		if (!strcmp(doctor_text_of(one, "what"), blocks))
			why = doctor_text_of(one, "detail");
	}
	problems = print_doctor_part(found, DOCTOR_PROBLEMS, blocks, width, "");
	print_doctor_part(found, DOCTOR_WORKS, blocks, width, problems ? "\n" : "");
	print_doctor_part(found, DOCTOR_PROGRAMS, blocks, width, "\noptional programs:\n");
	if (json_is_true(json_object_get(doc, "works")))
		snprintf(last, sizeof(last), "berth run works here");
	else
		snprintf(last, sizeof(last), "berth run does not work here: %s: %s", blocks, why);
	printf("\n");
	command_print_filled(last, 0, 0, columns ? columns : (int)sizeof(last));
}

static int print_budgets(int json, struct err *e)
{
	static struct config c;

	return config_load(&c, e) < 0 ? -1 : doctor_budgets(&c, json, e);
}

static int run_doctor(const struct command *self, int argc, char **argv)
{
	struct doctor_options o = { 0 };
	int rest, help = 0, status;
	static struct doctor d;
	autojson json_t *doc = NULL;
	struct err e;

	if (command_options(self, argc, argv, set_doctor_flag, &o, &rest, &help, &e) < 0)
		return command_fail(self, &e, o.json);
	if (help)
		return 0;
	if (rest < argc) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]);
		return command_fail(self, &e, o.json);
	}
	if (o.budgets)
		return print_budgets(o.json, &e) < 0 ? command_fail(self, &e, o.json) : 0;
	status = examine_host(&d, &e) < 0 ? -1 : blocker(&d) ? 1 : 0;
	doc = status < 0 ? NULL : document_of(&d);
	free(d.found);
	if (status < 0 || (o.json && command_print_json(doc, JSON_INDENT(2), &e) < 0))
		return command_fail(self, &e, o.json);
	if (!o.json)
		print_doctor_findings(doc);
	return status;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.print = print_doctor_findings,
	.summary = "prove what this host offers and what berth does about each lack",
	.detail = "Each line is ok, limited or missing, then what was tried and what was seen; for a lack, what berth does "
		  "about it. Everything is tried for real, in processes of its own, and taken back; last of all a sandbox "
		  "runs. Exit status 0 when berth run works here, 1 when not.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = run_doctor,
	.flags = COMMAND_ANY_USER,
};
