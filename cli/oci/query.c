/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci state, list, ps, events, features. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/program.h"
#include "cli/oci/cli.h"
#include "runtime/kernel/caps.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"
#include "runtime/oci/mount.h"
#include "runtime/oci/seccomp.h"
#include "runtime/oci/state.h"
#include "runtime/oci/stats.h"
#include "runtime/oci/systemd.h"

/* ---- state ------------------------------------------------------------------------ */

/* The members of the spec, and those that runc and crun add. */
static json_t *describe_container(struct oci_state *st)
{
	const enum oci_status status = oci_state_status(st);
	json_t *j = oci_state_json(st, status);
	const char *rootfs = oci_str(st->doc, "rootfs"), *created = oci_str(st->doc, "created");
	int owner = (int)oci_i64(st->doc, "uid", 0);

	if (!oci_get(j, "pid"))
		json_object_set_new(j, "pid", json_integer(0));
	json_object_set_new(j, "rootfs", json_string(rootfs ? rootfs : ""));
	json_object_set_new(j, "created", json_string(created ? created : ""));
	json_object_set_new(j, "owner", owner == 0 ? json_string("root") : json_sprintf("%d", owner));
	return j;
}

static int run_state(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	struct oci_state st;

	(void)ctx;
	(void)count;
	if (oci_root(g, e) < 0 || oci_state_load(&st, g->root_fd, operands[0], e) < 0)
		return -1;
	oci_print_json(describe_container(&st), 2);
	oci_state_release(&st);
	return 0;
}

/* ---- list --------------------------------------------------------------------------- */

static struct list_args {
	int quiet, json;
} list_args;

enum { L_QUIET, L_FORMAT };

static const struct oci_option list_options[] = {
	[L_QUIET] = { "quiet", 'q', NULL, "ids only" },
	[L_FORMAT] = { "format", 'f', "table|json", "form of the output (default: table)" },
	{ NULL },
};

static int parse_list_format(const char *value, int *ret_json, struct err *e)
{
	*ret_json = !strcmp(value, "json");
	return *ret_json || !strcmp(value, "table") ? 0 : err_set(e, ERR_USAGE, "invalid format option: '%.32s' is not table or json", value);
}

static int set_list_option(void *ctx, size_t index, const char *value, struct err *e)
{
	struct list_args *a = ctx;

	if (index == L_FORMAT)
		return parse_list_format(value, &a->json, e);
	a->quiet = 1;
	return 0;
}

static int compare_container_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the containers, sorted; the caller frees each and the list. */
static char **containers(int root_fd, size_t *ret_count, struct err *e)
{
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char **list = NULL;
	struct dirent *de;
	size_t n = 0;

	*ret_count = 0;
	if (!d) {
		err_sys(e, "read the state directory");
		return NULL;
	}
	while ((de = readdir(d))) {
		char **more;

		if (de->d_type != DT_DIR || oci_id_fault(de->d_name))
			continue;
		more = reallocarray(list, n + 1, sizeof(*list));
		if (!more || !(more[n] = strdup(de->d_name))) {
			err_nomem(e);
			break;
		}
		list = more;
		n++;
	}
	closedir(d);
	if (n)
		qsort(list, n, sizeof(*list), compare_container_names);
	*ret_count = n;
	return list;
}

static void print_container_row(const json_t *j)
{
	printf("%-30s %-8lld %-10s %-40s %-30s %s\n", oci_str(j, "id"), (long long)oci_i64(j, "pid", 0), oci_str(j, "status"),
	       oci_str(j, "bundle"), oci_str(j, "created"), oci_str(j, "owner"));
}

static int run_list(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	const struct list_args *a = ctx;
	json_t *all = json_array();
	char **names = NULL;
	size_t n = 0, i;

	(void)operands;
	(void)count;
	if (oci_root(g, e) >= 0)
		names = containers(g->root_fd, &n, e);
	else if (e->code == ERR_NOT_FOUND && !g->root)
		*e = (struct err){ 0 };	/* the first container makes the default */
	if (!names && e->code)
		return -1;
	if (!a->quiet && !a->json)
		printf("%-30s %-8s %-10s %-40s %-30s %s\n", "ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER");
	for (i = 0; i < n; i++) {
		struct oci_state st;
		struct err gone;
		json_t *j;

		/* deleted meanwhile */
		if (oci_state_load(&st, g->root_fd, names[i], &gone) < 0)
			continue;
		j = describe_container(&st);
		if (a->quiet)
			puts(st.id);
		else if (a->json)
			json_array_append(all, j);
		else
			print_container_row(j);
		json_decref(j);
		oci_state_release(&st);
	}
	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
	if (a->json && !a->quiet)
		oci_print_json(all, 0);
	else
		json_decref(all);
	return 0;
}

/* ---- ps ------------------------------------------------------------------------------- */

static struct list_args ps_args;

static const struct oci_option ps_options[] = { { "format", 'f', "table|json", "form of the output (default: table)" }, { NULL } };

static int set_ps(void *ctx, size_t index, const char *value, struct err *e)
{
	struct list_args *a = ctx;

	(void)index;
	return parse_list_format(value, &a->json, e);
}

/* The lines of ps(1) that are about pids; its own pid column is found by its heading. */
static int ps_table(char **options, int count, const pid_t *pids, size_t n, struct err *e)
{
	char line[4096], command[2048] = "ps";
	int column = -1, i;
	size_t len = 2, k;
	FILE *f;

	/* the words go to a shell: each as one, in quotes */
	for (i = 0; i < count; i++) {
		if (strchr(options[i], '\'') || len + strlen(options[i]) + 4 > sizeof(command))
			return err_set(e, ERR_USAGE, "ps: option '%.64s' is not for ps(1)", options[i]);
		len += (size_t)snprintf(command + len, sizeof(command) - len, " '%s'", options[i]);
	}
	if (!count)
		snprintf(command + len, sizeof(command) - len, " -ef");
	f = popen(command, "re");	/* NOLINT(cert-env33-c): each word is quoted above */
	if (!f)
		return err_sys(e, "run ps(1)");
	while (fgets(line, sizeof(line), f)) {
		char copy[4096], *word, *save = NULL;
		long pid = -1;

		memcpy(copy, line, sizeof(copy));
		for (i = 0, word = strtok_r(copy, " \t\n", &save); word; word = strtok_r(NULL, " \t\n", &save), i++) {
			if (column < 0 && !strcmp(word, "PID")) {
				column = i;
				fputs(line, stdout);
				break;
			}
			if (i == column) {
				pid = strtol(word, NULL, 10);
				break;
			}
		}
		for (k = 0; k < n && pid > 0; k++)
			if (pids[k] == pid)
				fputs(line, stdout);
	}
	i = pclose(f);
	if (column < 0)
		return err_set(e, ERR_NOT_FOUND, "ps(1) printed no PID column (exit status %d); hint: --format json needs no ps(1)", i >> 8);
	return 0;
}

static int run_ps(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	const struct list_args *a = ctx;
	autofree pid_t *pids = NULL;
	struct oci_state st;
	json_t *all;
	size_t n, i;
	int r;

	if (oci_root(g, e) < 0 || oci_state_load(&st, g->root_fd, operands[0], e) < 0)
		return -1;
	r = oci_cgroup_open(&st.cgroup, e) < 0 || oci_cgroup_pids(&st.cgroup, &pids, &n, e) < 0 ? -1 : 0;
	oci_state_release(&st);
	if (r < 0)
		return -1;
	if (!a->json)
		return ps_table(operands + 1, count - 1, pids, n, e);
	all = json_array();
	for (i = 0; i < n; i++)
		json_array_append_new(all, json_integer(pids[i]));
	oci_print_json(all, 0);
	return 0;
}

static const struct oci_option none[] = { { NULL } };

const struct oci_verb oci_verb_state = {
	.name = "state", .args = "ID", .summary = "print the state of a container", .options = none, .min = 1, .max = 1,
	.run = run_state,
};

const struct oci_verb oci_verb_list = {
	.name = "list", .args = "", .summary = "list the containers below --root", .options = list_options, .min = 0, .max = 0,
	.set = set_list_option, .run = run_list, .ctx = &list_args,
};

const struct oci_verb oci_verb_ps = {
	.name = "ps", .args = "ID [OPTION OF PS]...", .summary = "list the processes of a container", .options = ps_options,
	.min = 1, .max = -1, .operands_end_options = 1, .set = set_ps, .run = run_ps, .ctx = &ps_args,
};

/* ---- events ---- */

/* berth-oci events. */

static struct events_args {
	int stats;
	uint64_t interval_ms;
} args = { .interval_ms = 5000 };

enum { E_STATS, E_INTERVAL };

static const struct oci_option events_options[] = {
	[E_STATS] = { "stats", 0, NULL, "print the counters once" },
	[E_INTERVAL] = { "interval", 0, "TIME", "print them this often (default: 5s)" },
	{ NULL },
};

static int set_oci_events_option(void *ctx, size_t index, const char *value, struct err *e)
{
	struct events_args *a = ctx;

	if (index == E_STATS) {
		a->stats = 1;
		return 0;
	}
	if (num_duration_ms(value, "--interval", 86400000, &a->interval_ms, e) < 0)
		return -1;
	return a->interval_ms ? 0 : err_set(e, ERR_USAGE, "duration interval must be greater than 0");
}

static void print_oci_event(const char *type, const char *id, json_t *data)
{
	json_t *j = json_pack("{s:s, s:s}", "type", type, "id", id);

	if (data)
		json_object_set_new(j, "data", data);
	oci_print_json(j, 0);
	fflush(stdout);
}

/* Until the container's process ends; an OOM kill is seen within a second. */
static int follow_oci_events(const struct oci_state *st, uint64_t interval_ms, struct err *e)
{
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, st->pid, 0);
	uint64_t ooms = oci_stats_ooms(&st->cgroup), waited = 0;

	if (pidfd < 0)
		return err_sys(e, "open the container's process");
	for (;;) {
		struct pollfd p = { .fd = pidfd, .events = POLLIN };
		const uint64_t left = interval_ms - waited, step = left > 1000 ? 1000 : left;
		const int ended = poll(&p, 1, (int)step) > 0;
		const uint64_t now = oci_stats_ooms(&st->cgroup);

		for (; ooms < now; ooms++)
			print_oci_event("oom", st->id, NULL);
		if (ended)
			return 0;
		waited += step;
		if (waited >= interval_ms) {
			print_oci_event("stats", st->id, oci_stats(&st->cgroup));
			waited = 0;
		}
	}
}

static int run_oci_events_verb(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	const struct events_args *a = ctx;
	enum oci_status status;
	struct oci_state st;
	int r = -1;

	(void)count;
	if (oci_root(g, e) < 0 || oci_state_load(&st, g->root_fd, operands[0], e) < 0)
		return -1;
	status = oci_state_status(&st);
	if (status == OCI_STOPPED || status == OCI_CREATING) {
		err_set(e, ERR_BUSY, "container with id %s is not running", st.id);
	} else if (oci_cgroup_open(&st.cgroup, e) == 0) {
		r = 0;
		if (a->stats)
			print_oci_event("stats", st.id, oci_stats(&st.cgroup));
		else
			r = follow_oci_events(&st, a->interval_ms, e);
	}
	oci_state_release(&st);
	return r;
}

const struct oci_verb oci_verb_events = {
	.name = "events", .args = "ID", .summary = "print what a container uses, and when it ran out of memory",
	.options = events_options, .min = 1, .max = 1, .set = set_oci_events_option, .run = run_oci_events_verb, .ctx = &args,
};

/* ---- features ---- */

/* berth-oci features: what this runtime implements (runtime-spec, features.md). */

static json_t *words(const char *const *list)
{
	json_t *j = json_array();

	for (; *list; list++)
		json_array_append_new(j, json_string(*list));
	return j;
}

static json_t *json_names_of(const char *(*nth)(size_t i))
{
	json_t *j = json_array();
	const char *name;
	size_t i;

	for (i = 0; (name = nth(i)); i++)
		json_array_append_new(j, json_string(name));
	return j;
}

/* Whether --systemd-cgroup can be honoured, as far as this installation goes. */
static int has_systemd(void)
{
	struct err ignored;
	autoclose int fd = program_open(OCI_SYSTEMD_PROGRAM, &ignored);

	return fd >= 0;
}

static json_t *linux_part(void)
{
	json_t *namespaces = json_array(), *capabilities = json_array();
	unsigned i;

	for (i = 0; i < OCI_NS_COUNT; i++)
		json_array_append_new(namespaces, json_string(oci_ns_types[i].word));
	for (i = 0; i <= CAPS_LAST; i++)
		json_array_append_new(capabilities, json_string(caps_name(i)));
	return json_pack("{s:o, s:o, s:{s:b, s:b, s:b, s:b, s:b}, s:{s:b, s:o, s:o, s:o, s:o, s:o}, s:{s:b}, s:{s:b}, "
			 "s:{s:o, s:o}, s:{s:{s:b}}, s:{s:b}, s:{s:b}}",
			 "namespaces", namespaces, "capabilities", capabilities,
			 "cgroup", "v1", 1, "v2", 1, "systemd", has_systemd(), "systemdUser", 0, "rdma", 1,
			 "seccomp", "enabled", 1, "actions", words(oci_seccomp_actions), "operators", words(oci_seccomp_operators),
			 "archs", words(oci_seccomp_archs), "knownFlags", words(oci_seccomp_flags), "supportedFlags", words(oci_seccomp_flags),
			 "apparmor", "enabled", 1, "selinux", "enabled", 1, "memoryPolicy", "modes",
			 json_names_of(oci_mempolicy_mode), "flags", json_names_of(oci_mempolicy_flag),
			 "mountExtensions", "idmap", "enabled", 1,
			 "intelRdt", "enabled", 0, "netDevices", "enabled", 1);
}

static int run_oci_features_verb(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	static const char *const hooks[] = { "prestart", "createRuntime", "createContainer", "startContainer", "poststart",
					     "poststop", NULL };
	const struct scmp_version *v = seccomp_version();
	char version[32];
	json_t *j;

	(void)g;
	(void)ctx;
	(void)operands;
	(void)count;
	snprintf(version, sizeof(version), "%u.%u.%u", v->major, v->minor, v->micro);
	j = json_pack("{s:s, s:s, s:o, s:o, s:o, s:{s:s, s:s}, s:[s,s]}", "ociVersionMin", "1.0.0", "ociVersionMax", "1.3.0",
		      "hooks", words(hooks), "mountOptions", json_names_of(oci_mount_option_name), "linux", linux_part(),
		      "annotations", "io.github.seccomp.libseccomp.version", version,
		      "org.opencontainers.runtime.berth.version", BERTH_VERSION, "potentiallyUnsafeConfigAnnotations",
		      "run.oci.hooks.stdout", "run.oci.hooks.stderr");
	if (!j)
		return err_nomem(e);
	oci_print_json(j, 2);
	return 0;
}

static const struct oci_option no_features_options[] = { { NULL } };

const struct oci_verb oci_verb_features = {
	.name = "features", .args = "", .summary = "print what this runtime implements, as JSON", .options = no_features_options, .min = 0,
	.max = 0, .run = run_oci_features_verb,
};
