/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci state, list, ps. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/oci/cli.h"
#include "runtime/oci/json.h"
#include "runtime/oci/state.h"

/* ---- state ------------------------------------------------------------------------ */

/* The members of the spec, and those that runc and crun add. */
static json_t *describe(struct oci_state *st)
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
	oci_print_json(describe(&st), 2);
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

static int format(const char *value, int *ret_json, struct err *e)
{
	*ret_json = !strcmp(value, "json");
	return *ret_json || !strcmp(value, "table") ? 0 : err_set(e, ERR_USAGE, "invalid format option: '%.32s' is not table or json", value);
}

static int set_list(void *ctx, size_t index, const char *value, struct err *e)
{
	struct list_args *a = ctx;

	if (index == L_FORMAT)
		return format(value, &a->json, e);
	a->quiet = 1;
	return 0;
}

static int by_name(const void *a, const void *b)
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
		qsort(list, n, sizeof(*list), by_name);
	*ret_count = n;
	return list;
}

static void print_row(const json_t *j)
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
		j = describe(&st);
		if (a->quiet)
			puts(st.id);
		else if (a->json)
			json_array_append(all, j);
		else
			print_row(j);
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
	return format(value, &a->json, e);
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
	.set = set_list, .run = run_list, .ctx = &list_args,
};

const struct oci_verb oci_verb_ps = {
	.name = "ps", .args = "ID [OPTION OF PS]...", .summary = "list the processes of a container", .options = ps_options,
	.min = 1, .max = -1, .operands_end_options = 1, .set = set_ps, .run = run_ps, .ctx = &ps_args,
};
