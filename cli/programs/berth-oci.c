/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-oci - an OCI runtime (runtime-spec 1.2): the program that podman,
 * containerd, Kubernetes, Nomad and docker start where they would start runc.
 *
 * Global options, the verb's options, operands; errors go to --log and to
 * stderr.  Verbs are in cli/oci_*.c, what they do in runtime/oci_*.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/program.h"
#include "base/suggest.h"
#include "cli/oci/cli.h"
#include "runtime/oci/log.h"
#include "runtime/oci/state.h"
#include "runtime/oci/systemd.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

#define OPTIONS_MAX 48

static const struct oci_verb *const verbs[] = {
	&oci_verb_create, &oci_verb_run, &oci_verb_start, &oci_verb_state, &oci_verb_kill, &oci_verb_delete, &oci_verb_exec,
	&oci_verb_list, &oci_verb_ps, &oci_verb_pause, &oci_verb_resume, &oci_verb_update, &oci_verb_events,
	&oci_verb_spec, &oci_verb_features, &oci_verb_checkpoint, &oci_verb_restore,
};

#define SYSTEMD_FD "BERTH_OCI_SYSTEMD_FD"	/* from this program to its sealed copy */

enum { G_ROOT, G_LOG, G_LOG_FORMAT, G_LOG_LEVEL, G_DEBUG, G_MANAGER, G_SYSTEMD, G_ROOTLESS, G_CRIU, G_STEP, G_HELP, G_VERSION };

static const struct oci_option globals[] = {
	[G_ROOT] = { "root", 0, "DIR", "where containers are recorded (default: /run/berth-oci)" },
	[G_LOG] = { "log", 0, "FILE", "write messages to FILE (default: standard error)" },
	[G_LOG_FORMAT] = { "log-format", 0, "text|json", "form of the messages (default: text)" },
	[G_LOG_LEVEL] = { "log-level", 0, "LEVEL", "error, warning, info or debug (default: warning)" },
	[G_DEBUG] = { "debug", 0, NULL, "the same as --log-level debug" },
	[G_MANAGER] = { "cgroup-manager", 0, "cgroupfs", "cgroupfs or systemd: who makes cgroups" },
	[G_SYSTEMD] = { "systemd-cgroup", 0, NULL, "make each cgroup in a scope of systemd's: cgroupsPath is SLICE:PREFIX:NAME" },
	[G_ROOTLESS] = { "rootless", 0, "auto", "accepted; it is found out" },
	[G_CRIU] = { "criu", 0, "PATH", "accepted; there is no checkpoint" },
	[G_STEP] = { "build-step", 0, NULL, "confine the container as berth run does, whatever the bundle says: a step of berth build" },
	[G_HELP] = { "help", 'h', NULL, "print this" },
	[G_VERSION] = { "version", 'v', NULL, "print the version and what it was built with" },
	{ NULL },
};

/* ---- help ------------------------------------------------------------------------------ */

static void print_oci_options(const struct oci_option *o)
{
	for (; o->name; o++) {
		char left[64];

		snprintf(left, sizeof(left), "%s%c%s--%s%s%s", o->letter ? "-" : " ", o->letter ? o->letter : ' ',
			 o->letter ? ", " : "  ", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
		printf("  %-34s %s\n", left, o->help);
	}
}

static void print_oci_help(void)
{
	size_t i;

	printf("berth-oci - an OCI runtime\n\nUsage: berth-oci [OPTIONS] COMMAND [ARGUMENTS]\n\nCommands:\n");
	for (i = 0; i < ARRAY_LEN(verbs); i++)
		printf("  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
	printf("\nOptions:\n");
	print_oci_options(globals);
}

static void print_verb_help(const struct oci_verb *v)
{
	printf("berth-oci %s - %s\n\nUsage: berth-oci %s%s %s\n", v->name, v->summary, v->name,
	       v->options[0].name ? " [OPTIONS]" : "", v->args);
	if (v->options[0].name)
		printf("\nOptions:\n");
	print_oci_options(v->options);
}

/* Lines that engines and test suites look for: the spec's version, features with a plus. */
static void print_oci_version(void)
{
	printf("berth-oci version " BERTH_VERSION "\nspec: " OCI_SPEC_VERSION "\n+SELINUX +APPARMOR +CAP +SECCOMP +EBPF\n");
}

/* ---- options ------------------------------------------------------------------------------ */

static size_t to_getopt(const struct oci_option *table, struct option *longs, char *letters, int stop)
{
	size_t n = 0, l = 0;

	if (stop)
		letters[l++] = '+';
	letters[l++] = ':';
	for (; n < OPTIONS_MAX && table[n].name; n++) {
		longs[n] = (struct option){ table[n].name, table[n].arg ? required_argument : no_argument, NULL, 1000 + (int)n };
		if (!table[n].letter)
			continue;
		letters[l++] = table[n].letter;
		if (table[n].arg)
			letters[l++] = ':';
	}
	longs[n] = (struct option){ "help", no_argument, NULL, 'h' };
	longs[n + 1] = (struct option){ NULL };
	if (!strchr(letters, 'h'))
		letters[l++] = 'h';
	letters[l] = '\0';
	return n;
}

static size_t oci_option_index(const struct oci_option *table, size_t count, int c)
{
	size_t i;

	if (c >= 1000)
		return (size_t)c - 1000;
	for (i = 0; i < count; i++)
		if (table[i].letter == c)
			return i;
	return count;
}

/* 1: help was asked for and printed. */
static int parse_oci_options(const struct oci_option *table, int stop, int argc, char **argv,
			     int (*set)(void *ctx, size_t index, const char *value, struct err *e), void *ctx, struct err *e)
{
	struct option longs[OPTIONS_MAX + 2];
	char letters[2 * OPTIONS_MAX + 4] = "";
	size_t count = to_getopt(table, longs, letters, stop), i;
	int c;

	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (c == '?' || c == ':')
			return err_set(e, ERR_USAGE, c == ':' ? "option '%.64s' needs an argument" : "unknown option '%.64s'",
				       argv[optind - 1]);
		i = oci_option_index(table, count, c);
		if (i == count)
			return 1;
		if (set(ctx, i, optarg, e) < 0)
			return -1;
	}
	return 0;
}

struct globals_seen {
	struct oci_global g;
	const char *log;
	int json, help, version;
	enum oci_level level;
};

static int set_global(void *ctx, size_t index, const char *value, struct err *e)
{
	struct globals_seen *s = ctx;

	switch (index) {
	case G_ROOT:
		s->g.root = value;
		return 0;
	case G_LOG:
		s->log = value;
		return 0;
	case G_LOG_FORMAT:
		s->json = !strcmp(value, "json");
		return s->json || !strcmp(value, "text") ? 0 :
		       err_set(e, ERR_USAGE, "log format '%.32s' is not text or json", value);
	case G_LOG_LEVEL:
		return oci_log_level(value, &s->level, e);
	case G_DEBUG:
		s->g.debug = 1;
		s->level = OCI_DEBUG;
		return 0;
	case G_MANAGER:
		s->g.systemd = !strcmp(value, "systemd");
		return s->g.systemd || !strcmp(value, "cgroupfs") || !strcmp(value, "disabled") ? 0 :
		       err_set(e, ERR_USAGE, "--cgroup-manager '%.32s' is not cgroupfs, systemd or disabled", value);
	case G_SYSTEMD:
		s->g.systemd = 1;
		return 0;
	case G_STEP:
		s->g.step = 1;
		return 0;
	case G_HELP:
		s->help = 1;
		return 0;
	case G_VERSION:
		s->version = 1;
		return 0;
	default:
		return 0;
	}
}

/* ---- the process -------------------------------------------------------------------------- */

/* A missing 0, 1 or 2 would be the next thing opened. */
static void fill_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < 3);
	if (fd >= 3)
		close(fd);
}

/*
 * A process that enters a container must not run the host's binary: a process that opens its
 * /proc/PID/exe there could write to it (CVE-2019-5736). Execute a sealed copy instead.
 */
static void run_sealed(char **argv)
{
	autoclose int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct err e;
	struct stat st;
	off_t at = 0;
	int copy, have;

	if (self < 0 || fstat(self, &st) < 0) {
		err_sys(&e, "open this program");
		goto fail;
	}
	have = fcntl(self, F_GET_SEALS);
	if (have >= 0 && (have & seals) == seals)	/* -1: not a memfd */
		return;
	copy = memfd_create("berth-oci", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (copy < 0 && errno == EINVAL)	/* before Linux 6.3 */
		copy = memfd_create("berth-oci", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	while (copy >= 0 && at < st.st_size)
		if (sendfile(copy, self, &at, (size_t)(st.st_size - at)) <= 0)
			break;
	if (copy < 0 || at < st.st_size || fcntl(copy, F_ADD_SEALS, seals) < 0) {
		err_sys(&e, "make a sealed copy of this program");
		goto fail;
	}
	fexecve(copy, argv, environ);
	err_sys(&e, "execute the sealed copy of this program");
fail:
	oci_log_fatal(&e);
	exit(1);
}

/* In the sealed copy: closes what the first program left open for it, and the caller did not. */
static int kept_program(void)
{
	const char *text = getenv(SYSTEMD_FD);
	struct err ignored;
	uint64_t fd;

	return text && num_u64(text, SYSTEMD_FD, 3, INT_MAX, &fd, &ignored) == 0 ? (int)fd : -1;
}

/* Beside this program, which is not to be found once it runs from a copy: opened before that, and handed to it. */
static int find_systemd_program(struct oci_global *g, struct err *e)
{
	const char *text = getenv(SYSTEMD_FD);
	uint64_t fd;
	char number[16];
	int kept;

	if (text) {
		if (num_u64(text, SYSTEMD_FD, 3, INT_MAX, &fd, e) < 0)
			return -1;
		g->systemd_program = (int)fd;
		unsetenv(SYSTEMD_FD);
		return fcntl(g->systemd_program, F_SETFD, FD_CLOEXEC) < 0 ? err_sys(e, SYSTEMD_FD "=%d", (int)fd) : 0;
	}
	g->systemd_program = program_open(OCI_SYSTEMD_PROGRAM, e);
	if (g->systemd_program < 0)
		return -1;
	/* above what --preserve-fds counts */
	kept = fcntl(g->systemd_program, F_DUPFD, 200);
	if (kept < 0)
		return err_sys(e, "keep " OCI_SYSTEMD_PROGRAM " open");
	snprintf(number, sizeof(number), "%d", kept);
	return setenv(SYSTEMD_FD, number, 1) < 0 ? err_sys(e, "set " SYSTEMD_FD) : 0;
}

int oci_root(struct oci_global *g, struct err *e)
{
	if (g->root_fd < 0)
		g->root_fd = oci_root_open(g->root, g->makes, e);
	return g->root_fd;
}

const char *oci_absolute(const char *path, struct err *e)
{
	static char kept[4][2 * PATH_MAX];	/* bundle, pid file, console socket, pidfd socket */
	static size_t used;
	char cwd[PATH_MAX];

	if (path[0] == '/')
		return path;
	if (!getcwd(cwd, sizeof(cwd)) || used == ARRAY_LEN(kept) || strlen(path) >= PATH_MAX) {
		err_sys(e, "find the working directory");
		return NULL;
	}
	if (!strcmp(path, "."))
		snprintf(kept[used], sizeof(kept[used]), "%s", cwd);
	else
		snprintf(kept[used], sizeof(kept[used]), "%s/%s", cwd, path);
	return kept[used++];
}

void oci_print_json(void *j, int indent)
{
	json_dumpf(j, stdout, (size_t)(indent ? JSON_INDENT(indent) : JSON_COMPACT) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(j);
}

static const struct oci_verb *find_verb(const char *name, struct err *e)
{
	struct suggest near = SUGGEST_INIT(name);
	size_t i;

	for (i = 0; i < ARRAY_LEN(verbs); i++) {
		if (!strcmp(name, verbs[i]->name))
			return verbs[i];
		suggest_offer(&near, verbs[i]->name);
	}
	err_set(e, ERR_USAGE, "unknown command '%.64s'", name);
	if (near.best)
		err_hint(e, "did you mean %s?", near.best);
	return NULL;
}

static int run_oci_verb(const struct oci_verb *v, struct globals_seen *s, int argc, char **argv, char **all, struct err *e)
{
	int r;

	if (v->refused && !(argc > 1 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))))
		return err_set(e, ERR_UNSUPPORTED, "%s", v->refused);
	r = parse_oci_options(v->options, v->operands_end_options, argc, argv, v->set, v->ctx, e);

	if (r > 0) {
		print_verb_help(v);
		return 0;
	}
	if (r < 0)
		return -1;
	if (argc - optind < v->min)
		return err_set(e, ERR_USAGE, "%s needs %s", v->name, v->args);
	if (v->max >= 0 && argc - optind > v->max)
		return err_set(e, ERR_USAGE, "%s: '%.64s' is too much; usage: berth-oci %s %s", v->name, argv[optind + v->max],
			       v->name, v->args);
	s->g.makes = v->makes;
	if (v->makes && s->g.systemd && find_systemd_program(&s->g, e) < 0)
		return -1;
	if (v->sealed)
		run_sealed(all);
	return v->run(&s->g, v->ctx, argv + optind, argc - optind, e);
}

int main(int argc, char **argv)
{
	struct globals_seen s = { .g = { .root_fd = -1, .systemd_program = -1 }, .level = OCI_WARNING };
	const struct oci_verb *v = NULL;
	struct err e = { 0 };
	int status = -1, r;

	fill_stdio();
	r = oci_passed_find(&s.g, argv, kept_program(), &e);
	if (r == 0)
		r = parse_oci_options(globals, 1, argc, argv, set_global, &s, &e);
	if (r == 0 && oci_log_open(s.log, s.json, s.level, &e) == 0) {
		if (s.version) {
			print_oci_version();
			return 0;
		}
		if (s.help || optind == argc) {
			print_oci_help();
			return s.help ? 0 : 1;
		}
		if (!strcmp(argv[optind], "help")) {
			print_oci_help();
			return 0;
		}
		v = find_verb(argv[optind], &e);
		if (v)
			status = run_oci_verb(v, &s, argc - optind, argv + optind, argv, &e);
	}
	if (status >= 0) {
		if (fflush(stdout) != 0)
			return 1;
		return status;
	}
	oci_log_fatal(&e);
	return v && v->fail_status ? v->fail_status : 1;
}
