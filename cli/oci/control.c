/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci kill, delete, pause, resume. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/oci/cli.h"
#include "runtime/oci/create.h"
#include "runtime/oci/json.h"
#include "runtime/oci/state.h"

/* ---- kill ------------------------------------------------------------------------- */

/* A signal by number or name, with or without "SIG": ERR_INVALID. */
static int oci_signal_number(const char *word, int *ret, struct err *e)
{
	const char *name = strncasecmp(word, "SIG", 3) ? word : word + 3;
	uint64_t n;
	int i;

	if (isdigit((unsigned char)word[0])) {
		if (num_u64(word, "signal", 0, 64, &n, e) < 0)
			return -1;
		*ret = (int)n;
		return 0;
	}
	for (i = 1; i < 32; i++) {
		if (!strcasecmp(name, sigabbrev_np(i))) {
			*ret = i;
			return 0;
		}
	}
	if (!strncasecmp(name, "RTMIN", 5) || !strncasecmp(name, "RTMAX", 5)) {
		const int min = tolower((unsigned char)name[3]) == 'i';
		long off = name[5] ? strtol(name + 5, NULL, 10) : 0;

		i = (min ? 34 : 64) + (int)off;
		if (i >= 34 && i <= 64) {
			*ret = i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "unknown signal \"%.32s\"", word);
}

static struct kill_args {
	int all, have_signal, signal, regex;
} kill_args;

enum { K_ALL, K_SIGNAL, K_REGEX };

static const struct oci_option kill_options[] = {
	[K_ALL] = { "all", 'a', NULL, "to every process of the container" },
	[K_SIGNAL] = { "signal", 's', "SIGNAL", "the signal (default: TERM)" },
	[K_REGEX] = { "regex", 'r', NULL, "ID is a regular expression: all containers that match" },
	{ NULL },
};

static int set_kill(void *ctx, size_t index, const char *value, struct err *e)
{
	struct kill_args *a = ctx;

	if (index == K_ALL)
		a->all = 1;
	else if (index == K_REGEX)
		a->regex = 1;
	else if (oci_signal_number(value, &a->signal, e) == 0)
		a->have_signal = 1;
	else
		return -1;
	return 0;
}

/* Whether the process is pid 1 of its own namespace: its end is then everybody's. */
static int own_pids(const struct oci_state *st)
{
	struct err ignored;
	autojson json_t *config = oci_json_load(st->dir_fd, "config.json", &ignored);
	const json_t *list = oci_get2(config, "linux", "namespaces"), *v;
	size_t i;

	json_array_foreach(list, i, v)
		if (!strcmp(oci_str(v, "type"), "pid"))
			return !oci_str(v, "path") || !*oci_str(v, "path");
	return 0;
}

static int send_signal(struct oci_state *st, int sig, int all, struct err *e)
{
	const enum oci_status status = oci_state_status(st);

	if (oci_cgroup_open(&st->cgroup, e) < 0)
		return -1;
	if (status == OCI_STOPPED) {
		autofree pid_t *pids = NULL;
		size_t n = 0;

		/* its first process ended, others may live where no pid namespace took them along */
		if (all || !own_pids(st)) {
			if (oci_cgroup_pids(&st->cgroup, &pids, &n, e) < 0)
				return -1;
			if (n)
				return oci_cgroup_signal(&st->cgroup, sig, e);
		}
		if (all)
			return 0;
		return err_set(e, ERR_BUSY, "container not running: container '%s' is stopped, signal %d cannot be sent", st->id, sig);
	}
	if (!st->pid)
		return err_set(e, ERR_BUSY, "container not running: container '%s' is being created", st->id);
	if (all || (sig == SIGKILL && !own_pids(st)))
		return oci_cgroup_signal(&st->cgroup, sig, e);
	if (kill(st->pid, sig) < 0)
		return errno == ESRCH ? err_set(e, ERR_BUSY, "container not running: process %d is gone", (int)st->pid) :
					err_sys(e, "send signal %d to process %d", sig, (int)st->pid);
	/* a frozen process dies only once it thaws */
	if (status == OCI_PAUSED && sig == SIGKILL)
		return oci_cgroup_freeze(&st->cgroup, 0, e);
	return 0;
}

static int kill_one(struct oci_global *g, const char *id, int sig, int all, struct err *e)
{
	struct oci_state st;
	int r;

	if (oci_state_load(&st, g->root_fd, id, e) < 0)
		return -1;
	r = send_signal(&st, sig, all, e);
	oci_state_release(&st);
	return r;
}

/* Calls f for every container whose id matches. */
static int each_match(struct oci_global *g, const char *pattern, int (*f)(struct oci_global *, const char *, struct err *),
		      struct err *e)
{
	int fd = openat(g->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	regex_t re;

	if (!d)
		return err_sys(e, "read the state directory");
	if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
		closedir(d);
		return err_set(e, ERR_USAGE, "'%.64s' is not a regular expression", pattern);
	}
	while (r == 0 && (de = readdir(d)))
		if (de->d_type == DT_DIR && !oci_id_fault(de->d_name) && regexec(&re, de->d_name, 0, NULL, 0) == 0)
			r = f(g, de->d_name, e);
	regfree(&re);
	closedir(d);
	return r;
}

static int kill_match(struct oci_global *g, const char *id, struct err *e)
{
	return kill_one(g, id, kill_args.signal, kill_args.all, e);
}

static int run_kill(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	struct kill_args *a = ctx;

	if (!a->have_signal)
		a->signal = SIGTERM;
	if (count > 1 && oci_signal_number(operands[1], &a->signal, e) < 0)
		return -1;
	if (oci_root(g, e) < 0)
		return -1;
	return a->regex ? each_match(g, operands[0], kill_match, e) : kill_one(g, operands[0], a->signal, a->all, e);
}

/* ---- delete -------------------------------------------------------------------------- */

static struct delete_args {
	int force, regex;
} delete_args;

enum { D_FORCE, D_REGEX };

static const struct oci_option delete_options[] = {
	[D_FORCE] = { "force", 'f', NULL, "kill it first if it runs; ignore a missing one" },
	[D_REGEX] = { "regex", 'r', NULL, "ID is a regular expression: all containers that match" },
	{ NULL },
};

static int set_delete(void *ctx, size_t index, const char *value, struct err *e)
{
	struct delete_args *a = ctx;

	(void)value;
	(void)e;
	*(index == D_FORCE ? &a->force : &a->regex) = 1;
	return 0;
}

static int delete_match(struct oci_global *g, const char *id, struct err *e)
{
	return oci_delete(g->root_fd, id, delete_args.force, e);
}

static int run_delete(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	const struct delete_args *a = ctx;
	int i;

	if (oci_root(g, e) < 0)
		return a->force && e->code == ERR_NOT_FOUND ? 0 : -1;
	for (i = 0; i < count; i++) {
		if (a->regex ? each_match(g, operands[i], delete_match, e) == 0 :
			       oci_delete(g->root_fd, operands[i], a->force, e) == 0)
			continue;
		if (!(a->force && e->code == ERR_NOT_FOUND))
			return -1;
	}
	return 0;
}

/* ---- pause, resume ---------------------------------------------------------------------- */

static int freeze(struct oci_global *g, const char *id, int on, struct err *e)
{
	struct oci_state st;
	enum oci_status status;
	int r = -1;

	if (oci_root(g, e) < 0 || oci_state_load(&st, g->root_fd, id, e) < 0)
		return -1;
	status = oci_state_status(&st);
	if (on && status != OCI_RUNNING && status != OCI_CREATED)
		err_set(e, ERR_BUSY, "container '%s' is not running or created: %s", id, oci_status_name(status));
	else if (!on && status != OCI_PAUSED)
		err_set(e, ERR_BUSY, "container not paused: container '%s' is %s", id, oci_status_name(status));
	else
		r = oci_cgroup_open(&st.cgroup, e) < 0 ? -1 : oci_cgroup_freeze(&st.cgroup, on, e);
	oci_state_release(&st);
	return r;
}

static int run_pause(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	(void)ctx;
	(void)count;
	return freeze(g, operands[0], 1, e);
}

static int run_resume(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	(void)ctx;
	(void)count;
	return freeze(g, operands[0], 0, e);
}

static const struct oci_option none[] = { { NULL } };

const struct oci_verb oci_verb_kill = {
	.name = "kill", .args = "ID [SIGNAL]", .summary = "send a signal to a container (default: TERM)", .options = kill_options,
	.min = 1, .max = 2, .set = set_kill, .run = run_kill, .ctx = &kill_args,
};

const struct oci_verb oci_verb_delete = {
	.name = "delete", .args = "ID...", .summary = "remove a container that is stopped", .options = delete_options,
	.min = 1, .max = -1, .set = set_delete, .run = run_delete, .ctx = &delete_args,
};

const struct oci_verb oci_verb_pause = {
	.name = "pause", .args = "ID", .summary = "freeze all processes of a container", .options = none, .min = 1, .max = 1,
	.run = run_pause,
};

const struct oci_verb oci_verb_resume = {
	.name = "resume", .args = "ID", .summary = "thaw a paused container", .options = none, .min = 1, .max = 1,
	.run = run_resume,
};

/* ---- what there is not: told as such, before options that only CRIU would know ------------ */

static const struct oci_option no_options[] = { { NULL } };

#define NO_CHECKPOINT "checkpoint and restore are not supported by this runtime (no CRIU); hint: pause and resume keep a " \
		      "container in memory"

const struct oci_verb oci_verb_checkpoint = {
	.name = "checkpoint", .args = "ID", .summary = "not supported", .options = no_options, .refused = NO_CHECKPOINT,
};

const struct oci_verb oci_verb_restore = {
	.name = "restore", .args = "ID", .summary = "not supported", .options = no_options, .refused = NO_CHECKPOINT,
};
