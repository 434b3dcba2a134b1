/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci exec. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/oci/cli.h"
#include "runtime/kernel/caps.h"
#include "runtime/oci/exec.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"

#define LIST_MAX 256

static struct exec_args {
	const char *process, *cwd, *user, *pid_file, *label, *apparmor, *console_socket, *pidfd_socket;
	const char *env[LIST_MAX], *cap[LIST_MAX], *gid[LIST_MAX], *cgroup[LIST_MAX];
	size_t envs, caps, gids, cgroups;
	int detach, tty, no_new_privs, preserve_fds, ignore_paused;
} args;

enum {
	X_APPARMOR, X_CAP, X_CGROUP, X_CONSOLE, X_CWD, X_DETACH, X_ENV, X_GIDS, X_PAUSED, X_NNP, X_NO_SUBREAPER, X_PID_FILE, X_PIDFD,
	X_PRESERVE, X_PROCESS, X_LABEL, X_TTY, X_USER,
};

static const struct oci_option exec_options[] = {
	[X_APPARMOR] = { "apparmor", 0, "PROFILE", "AppArmor profile of the process" },
	[X_CAP] = { "cap", 'c', "CAP", "one more capability; may be repeated" },
	[X_CGROUP] = { "cgroup", 0, "PATH", "run in this cgroup below the container's; may be CONTROLLERS:PATH, repeated" },
	[X_CONSOLE] = { "console-socket", 0, "PATH", "socket that receives the process's terminal" },
	[X_CWD] = { "cwd", 0, "DIR", "working directory" },
	[X_DETACH] = { "detach", 'd', NULL, "return once it runs" },
	[X_ENV] = { "env", 'e', "NAME=VALUE", "one more variable; may be repeated" },
	[X_GIDS] = { "additional-gids", 'g', "GID", "one more group; may be repeated" },
	[X_PAUSED] = { "ignore-paused", 0, NULL, "allow it in a paused container, where it waits" },
	[X_NNP] = { "no-new-privs", 0, NULL, "set no_new_privs" },
	[X_NO_SUBREAPER] = { "no-subreaper", 0, NULL, "accepted; there is no other way here" },
	[X_PID_FILE] = { "pid-file", 0, "FILE", "write the process id here" },
	[X_PIDFD] = { "pidfd-socket", 0, "PATH", "socket that receives a descriptor of the process" },
	[X_PRESERVE] = { "preserve-fds", 0, "N", "pass on the N descriptors from 3 up" },
	[X_PROCESS] = { "process", 'p', "FILE", "what to run, as process of config.json" },
	[X_LABEL] = { "process-label", 0, "LABEL", "SELinux label of the process" },
	[X_TTY] = { "tty", 't', NULL, "give it a terminal" },
	[X_USER] = { "user", 'u', "UID[:GID]", "its user" },
	{ NULL },
};

static int append_exec_value(const char **list, size_t *n, const char *value, struct err *e)
{
	if (*n == LIST_MAX)
		return err_set(e, ERR_LIMIT, "more than %d of one option", LIST_MAX);
	list[(*n)++] = value;
	return 0;
}

static int set_oci_exec_option(void *ctx, size_t index, const char *value, struct err *e)
{
	struct exec_args *a = ctx;

	switch (index) {
	case X_APPARMOR:
		a->apparmor = value;
		break;
	case X_CAP:
		return append_exec_value(a->cap, &a->caps, value, e);
	case X_CGROUP:
		return append_exec_value(a->cgroup, &a->cgroups, value, e);
	case X_CONSOLE:
		a->console_socket = value;
		break;
	case X_CWD:
		a->cwd = value;
		break;
	case X_DETACH:
		a->detach = 1;
		break;
	case X_ENV:
		return append_exec_value(a->env, &a->envs, value, e);
	case X_GIDS:
		return append_exec_value(a->gid, &a->gids, value, e);
	case X_PAUSED:
		a->ignore_paused = 1;
		break;
	case X_NNP:
		a->no_new_privs = 1;
		break;
	case X_PID_FILE:
		a->pid_file = value;
		break;
	case X_PIDFD:
		a->pidfd_socket = value;
		break;
	case X_PRESERVE:
		return oci_preserve_number(value, &a->preserve_fds, e);
	case X_PROCESS:
		a->process = value;
		break;
	case X_LABEL:
		a->label = value;
		break;
	case X_TTY:
		a->tty = 1;
		break;
	case X_USER:
		a->user = value;
		break;
	default:
		break;
	}
	return 0;
}

static json_t *list_in(json_t *obj, const char *key)
{
	json_t *list = oci_get(obj, key);

	if (!list) {
		list = json_array();
		json_object_set_new(obj, key, list);
	}
	return list;
}

static json_t *object_in(json_t *obj, const char *key)
{
	json_t *v = oci_get(obj, key);

	if (!v) {
		v = json_object();
		json_object_set_new(obj, key, v);
	}
	return v;
}

/* "1000", "1000:100"; ids only, as the container's passwd is not asked by the runtime. */
static int set_exec_user(json_t *process, const char *text, struct err *e)
{
	json_t *user = object_in(process, "user");
	char copy[64], *colon;
	uint64_t uid, gid;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return err_set(e, ERR_INVALID, "user '%.64s' is too long", text);
	colon = strchr(copy, ':');
	if (colon)
		*colon++ = '\0';
	if (num_u64(copy, "user", 0, UINT32_MAX - 1, &uid, e) < 0 ||
	    (colon && num_u64(colon, "group", 0, UINT32_MAX - 1, &gid, e) < 0))
		return -1;
	json_object_set_new(user, "uid", json_integer((json_int_t)uid));
	if (colon)
		json_object_set_new(user, "gid", json_integer((json_int_t)gid));
	return 0;
}

static int add_cap(json_t *process, const char *name, struct err *e)
{
	static const char *const sets[] = { "bounding", "effective", "permitted", "inheritable", "ambient" };
	json_t *caps = object_in(process, "capabilities");
	char full[64];
	uint64_t bit;
	size_t i;

	snprintf(full, sizeof(full), "%s%.50s", strncmp(name, "CAP_", 4) ? "CAP_" : "", name);
	/* the configuration's unknown names are a warning (config.md); one of a command line is a slip */
	if (caps_parse(full, &bit, e) < 0)
		return err_set(e, ERR_INVALID, "--cap: '%.64s' is not a capability; hint: a name of capabilities(7) such as "
			       "NET_RAW", name);
	/* inheritable and ambient are not root's to have unless the container has some: as runc since 1.1.2 */
	for (i = 0; i < 3; i++)
		json_array_append_new(list_in(caps, sets[i]), json_string(full));
	if (json_array_size(oci_get(caps, "inheritable"))) {
		json_array_append_new(list_in(caps, "inheritable"), json_string(full));
		json_array_append_new(list_in(caps, "ambient"), json_string(full));
	}
	return 0;
}

static int apply_flags(json_t *process, const struct exec_args *a, char **command, int count, struct err *e)
{
	json_t *argv = json_array();
	uint64_t gid;
	size_t i;
	int j;

	for (j = 0; j < count; j++)
		json_array_append_new(argv, json_string(command[j]));
	json_object_set_new(process, "args", argv);
	json_object_set_new(process, "terminal", json_boolean(a->tty));
	/* that of the container's own terminal */
	json_object_del(process, "consoleSize");
	if (a->cwd)
		json_object_set_new(process, "cwd", json_string(a->cwd));
	if (a->label)
		json_object_set_new(process, "selinuxLabel", json_string(a->label));
	if (a->apparmor)
		json_object_set_new(process, "apparmorProfile", json_string(a->apparmor));
	/* what the container gave up is given up here too, as in runc: crun forgets it */
	if (a->no_new_privs)
		json_object_set_new(process, "noNewPrivileges", json_true());
	for (i = 0; i < a->envs; i++)
		json_array_append_new(list_in(process, "env"), json_string(a->env[i]));
	for (i = 0; i < a->caps; i++)
		if (add_cap(process, a->cap[i], e) < 0)
			return -1;
	for (i = 0; i < a->gids; i++) {
		if (num_u64(a->gid[i], "group", 0, UINT32_MAX - 1, &gid, e) < 0)
			return -1;
		json_array_append_new(list_in(object_in(process, "user"), "additionalGids"), json_integer((json_int_t)gid));
	}
	return a->user ? set_exec_user(process, a->user, e) : 0;
}

static json_t *describe_oci_process(struct oci_global *g, const struct exec_args *a, char **operands, int count, struct err *e)
{
	json_t *process;

	if (a->process) {
		process = oci_json_load(AT_FDCWD, a->process, e);
		if (process && a->tty)
			json_object_set_new(process, "terminal", json_true());
	} else {
		if (count < 2) {
			err_set(e, ERR_USAGE, "exec needs a command, or --process FILE: process args cannot be empty");
			return NULL;
		}
		process = oci_exec_model(g->root_fd, operands[0], e);
		if (process && apply_flags(process, a, operands + 1, count - 1, e) < 0) {
			json_decref(process);
			return NULL;
		}
	}
	if (process && oci_schema_check(process, OCI_PROCESS, a->process ? a->process : "process", e) < 0) {
		json_decref(process);
		return NULL;
	}
	return process;
}

static int run_oci_exec_verb(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	const struct exec_args *a = ctx;
	struct oci_exec x = { .cgroup = a->cgroup, .cgroups = a->cgroups, .preserve_fds = a->preserve_fds, .ignore_paused = a->ignore_paused };
	autojson json_t *process = NULL;
	struct oci_made m;
	int status = 0;

	oci_passed_limit(g, &x.preserve_fds);
	if (oci_root(g, e) < 0 || !(process = describe_oci_process(g, a, operands, count, e)))
		return -1;
	x.process = process;
	if ((a->pid_file && !(x.pid_file = oci_absolute(a->pid_file, e))) ||
	    (a->console_socket && !(x.console_socket = oci_absolute(a->console_socket, e))) ||
	    (a->pidfd_socket && !(x.pidfd_socket = oci_absolute(a->pidfd_socket, e))))
		return -1;
	if (a->detach && oci_true(process, "terminal") && !a->console_socket)
		return err_set(e, ERR_USAGE, "cannot allocate tty if runc will detach without setting console socket");
	if ((!a->detach && oci_hold_signals(e) < 0) || oci_exec_start(&m, g->root_fd, operands[0], &x, e) < 0)
		return -1;
	if (!a->detach)
		status = oci_foreground(&m, process, e);
	oci_made_release(&m);
	return status;
}

const struct oci_verb oci_verb_exec = {
	.name = "exec", .args = "ID COMMAND [ARGUMENT]...", .summary = "run another process in a container",
	.options = exec_options, .min = 1, .max = -1, .operands_end_options = 1, .set = set_oci_exec_option, .run = run_oci_exec_verb, .ctx = &args,
	.fail_status = 255, .sealed = 1,
};
