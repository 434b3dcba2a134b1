/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci kill, delete, pause, resume, update. */
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

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/oci/cli.h"
#include "runtime/oci/create.h"
#include "runtime/oci/json.h"
#include "runtime/oci/resources.h"
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

static int send_container_signal(struct oci_state *st, int sig, int all, struct err *e)
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

static int kill_container(struct oci_global *g, const char *id, int sig, int all, struct err *e)
{
	struct oci_state st;
	int r;

	if (oci_state_load(&st, g->root_fd, id, e) < 0)
		return -1;
	r = send_container_signal(&st, sig, all, e);
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
	return kill_container(g, id, kill_args.signal, kill_args.all, e);
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
	return a->regex ? each_match(g, operands[0], kill_match, e) : kill_container(g, operands[0], a->signal, a->all, e);
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

static int freeze_container(struct oci_global *g, const char *id, int on, struct err *e)
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
	return freeze_container(g, operands[0], 1, e);
}

static int run_resume(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	(void)ctx;
	(void)count;
	return freeze_container(g, operands[0], 0, e);
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

/* ---- update ---- */

/* berth-oci update. */

enum kind { FILE_NAME, BYTES, NUMBER, WORD, REFUSED, NOTHING };

/* Each flag is one member of linux.resources. */
static const struct { const char *object, *key; enum kind kind; } members[] = {
	{ NULL, NULL, FILE_NAME },
	{ "blockIO", "weight", NUMBER },
	{ "cpu", "period", NUMBER },
	{ "cpu", "quota", NUMBER },
	{ "cpu", "burst", NUMBER },
	{ "cpu", "shares", NUMBER },
	{ "cpu", "shares", NUMBER },
	{ "cpu", "idle", NUMBER },
	{ "cpu", "realtimePeriod", NUMBER },
	{ "cpu", "realtimeRuntime", NUMBER },
	{ "cpu", "cpus", WORD },
	{ "cpu", "mems", WORD },
	{ "memory", "limit", BYTES },
	{ "memory", "reservation", BYTES },
	{ "memory", "swap", BYTES },
	{ "memory", "kernel", NOTHING },
	{ "memory", "kernelTCP", BYTES },
	{ "pids", "limit", NUMBER },
	{ NULL, "--l3-cache-schema", REFUSED },
	{ NULL, "--mem-bw-schema", REFUSED },
};

static const struct oci_option update_options[] = {
	{ "resources", 'r', "FILE|-", "linux.resources as JSON, from a file or stdin" },
	{ "blkio-weight", 0, "N", "share of block I/O, 10 to 1000" },
	{ "cpu-period", 0, "US", "CPU period in microseconds" },
	{ "cpu-quota", 0, "US", "CPU time within a period; -1: no limit" },
	{ "cpu-burst", 0, "US", "CPU time that may be saved up" },
	{ "cpu-share", 0, "N", "share of CPU time, 2 to 262144" },
	{ "cpu-shares", 0, "N", "the same" },
	{ "cpu-idle", 0, "0|1", "run only when nothing else does" },
	{ "cpu-rt-period", 0, "US", "realtime period (cgroup v1)" },
	{ "cpu-rt-runtime", 0, "US", "realtime runtime (cgroup v1)" },
	{ "cpuset-cpus", 0, "LIST", "CPUs it may use" },
	{ "cpuset-mems", 0, "LIST", "memory nodes it may use" },
	{ "memory", 0, "BYTES", "memory limit; -1: none" },
	{ "memory-reservation", 0, "BYTES", "memory that it may keep under pressure" },
	{ "memory-swap", 0, "BYTES", "memory and swap together; -1: none" },
	{ "kernel-memory", 0, "BYTES", "accepted; without effect since Linux 5.16" },
	{ "kernel-memory-tcp", 0, "BYTES", "TCP buffer memory (cgroup v1)" },
	{ "pids-limit", 0, "N", "processes; -1: no limit" },
	{ "l3-cache-schema", 0, "TEXT", "refused: no Intel RDT" },
	{ "mem-bw-schema", 0, "TEXT", "refused: no Intel RDT" },
	{ NULL },
};
_Static_assert(ARRAY_LEN(update_options) == ARRAY_LEN(members) + 1, "one member for each option");

static struct update_args {
	json_t *resources;
	const char *file;
} args;

static int parse_signed_number(const char *text, const char *what, int64_t *ret, struct err *e)
{
	uint64_t v;

	if (num_u64(text[0] == '-' ? text + 1 : text, what, 0, INT64_MAX, &v, e) < 0)
		return -1;
	*ret = text[0] == '-' ? -(int64_t)v : (int64_t)v;
	return 0;
}

static int set_oci_update_option(void *ctx, size_t i, const char *value, struct err *e)
{
	struct update_args *a = ctx;
	const char *what = update_options[i].name;
	json_t *object;
	uint64_t bytes;
	int64_t n;

	if (members[i].kind == REFUSED)
		return err_set(e, ERR_UNSUPPORTED, "%s: Intel RDT is not supported by this runtime", members[i].key);
	if (members[i].kind == NOTHING)
		return 0;
	if (members[i].kind == FILE_NAME) {
		a->file = value;
		return 0;
	}
	if (!a->resources)
		a->resources = json_object();
	object = oci_get(a->resources, members[i].object);
	if (!object) {
		object = json_object();
		json_object_set_new(a->resources, members[i].object, object);
	}
	if (members[i].kind == WORD) {
		json_object_set_new(object, members[i].key, json_string(value));
		return 0;
	}
	if (members[i].kind == BYTES && value[0] != '-') {
		if (num_size(value, what, 0, INT64_MAX, &bytes, e) < 0)
			return -1;
		n = (int64_t)bytes;
	} else if (parse_signed_number(value, what, &n, e) < 0) {
		return -1;
	}
	json_object_set_new(object, members[i].key, json_integer(n));
	return 0;
}

static json_t *read_resources(const char *file, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OCI_DOCUMENT_MAX);
	json_t *j;

	if (strcmp(file, "-") != 0) {
		j = oci_json_load(AT_FDCWD, file, e);
	} else {
		if (io_read_all(STDIN_FILENO, &b, "stdin", e) < 0)
			return NULL;
		j = oci_json_parse(b.data ? b.data : "", b.len, "stdin", e);
	}
	if (j && oci_schema_check(j, OCI_RESOURCES, "resources", e) < 0) {
		json_decref(j);
		return NULL;
	}
	return j;
}

static int run_oci_update_verb(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	struct update_args *a = ctx;
	struct oci_state st;
	enum oci_status status;
	int r = -1;

	(void)count;
	if (a->file) {
		json_decref(a->resources);
		a->resources = read_resources(a->file, e);
		if (!a->resources)
			return -1;
	} else if (a->resources && oci_schema_check(a->resources, OCI_RESOURCES, "update", e) < 0) {
		return -1;
	}
	if (oci_root(g, e) < 0 || oci_state_load(&st, g->root_fd, operands[0], e) < 0)
		return -1;
	status = oci_state_status(&st);
	if (status == OCI_STOPPED || status == OCI_CREATING)
		err_set(e, ERR_BUSY, "container '%s' is not running: there is nothing to update", operands[0]);
	else if (oci_cgroup_open(&st.cgroup, e) == 0)
		r = oci_resources_update(&st.cgroup, a->resources, e);
	oci_state_release(&st);
	return r;
}

const struct oci_verb oci_verb_update = {
	.name = "update", .args = "ID", .summary = "change the limits of a container", .options = update_options,
	.min = 1, .max = 1, .set = set_oci_update_option, .run = run_oci_update_verb, .ctx = &args,
};
