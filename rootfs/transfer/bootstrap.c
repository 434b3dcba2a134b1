/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "rootfs/layer/confine.h"
#include "rootfs/layer/tarout.h"

#define PROGRAM "/usr/bin/mmdebstrap"
#define ARGS_MAX 24
#define LINE_MAX_BYTES 300

/* mmdebstrap copies the first two from the host; the third holds our --dpkgopt. */
#define CLEAN_HOOK \
	"--customize-hook=rm -f \"$1/etc/resolv.conf\" \"$1/etc/hostname\" \"$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap\""

struct debootstrap {
	const struct bootstrap_options *o;
	const char *suite, *variant;
	char epoch[32];
	char created[40];
	pid_t pid, listener;
	int said_fd;		/* struct said, which the listener writes; -1 */
	int status;		/* of its end */
};

/* What mmdebstrap's output tells, for our message. */
struct said {
	char package[100];	/* the package that apt or dpkg worked on last */
	char failed[100];	/* the package that dpkg could not process */
	char error[LINE_MAX_BYTES];
};

/* ---- what is asked for ---- */

static int check_word(const char *s, const char *what, const char *allowed, struct err *e)
{
	if (!*s || *s == '-' || *s == '.' || *s == '/' || strspn(s, allowed) != strlen(s) || strlen(s) > 4096)
		return err_set(e, ERR_INVALID, "%s '%.80s' is malformed", what, s);
	return 0;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int check_debootstrap_words(const struct debootstrap *d, struct err *e)
{
	static const char *const variants[] = { "essential", "apt", "minbase", "buildd", "required", "important", "standard" };
	const struct bootstrap_options *o = d->o;
	size_t i;

	if (o->packages && *o->packages && check_word(o->packages, "list of packages", LOWER UPPER "+.-:=~,/", e) < 0)
		return err_hint(e, "names as apt takes them, separated by commas: python3,git");
	if (check_word(d->suite, "suite", LOWER ".-", e) < 0)
		return err_hint(e, "such as bookworm or trixie");
	if (o->mirror && (check_word(o->mirror, "mirror", LOWER UPPER ":/._~%+@-", e) < 0 || !strstr(o->mirror, "://")))
		return err_set(e, ERR_INVALID, "mirror '%.200s' is not a URL; hint: such as http://deb.debian.org/debian", o->mirror);
	for (i = 0; i < ARRAY_LEN(variants); i++)
		if (!strcmp(d->variant, variants[i]))
			break;
	if (i == ARRAY_LEN(variants))
		return err_set(e, ERR_INVALID, "variant '%.40s' is unknown; hint: essential, apt, minbase, buildd, required, important "
			       "or standard", d->variant);
	if (access(PROGRAM, X_OK) < 0)
		return err_set(e, ERR_NOT_FOUND, PROGRAM ", which puts images together from packages, is not installed; hint: "
			       "apt-get install mmdebstrap");
	return 0;
}

static int set_epoch(struct debootstrap *d, struct err *e)
{
	const char *given = getenv("SOURCE_DATE_EPOCH");
	uint64_t seconds = (uint64_t)time(NULL) / 86400 * 86400;
	struct tm tm;
	time_t t;

	if (given && num_u64(given, "SOURCE_DATE_EPOCH", 0, 253402300799ULL, &seconds, e) < 0)
		return -1;
	t = (time_t)seconds;
	if (!gmtime_r(&t, &tm))
		return err_set(e, ERR_INVALID, "SOURCE_DATE_EPOCH is not a time");
	snprintf(d->epoch, sizeof(d->epoch), "SOURCE_DATE_EPOCH=%llu", (unsigned long long)seconds);
	strftime(d->created, sizeof(d->created), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return 0;
}

/* ---- the program ---- */

static size_t make_debootstrap_env(struct debootstrap *d, const char **env)
{
	static const char *const passed[] = { "http_proxy", "https_proxy", "no_proxy", "TMPDIR" };
	size_t n = 0, i;

	env[n++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	env[n++] = "LC_ALL=C.UTF-8";
	env[n++] = "DEBIAN_FRONTEND=noninteractive";
	env[n++] = d->epoch;
	for (i = 0; i < ARRAY_LEN(passed); i++) {
		const char *v = getenv(passed[i]);
		char *s;

		/* in a child that executes at once: nothing to free */
		if (v && asprintf(&s, "%s=%s", passed[i], v) > 0)
			env[n++] = s;
	}
	env[n] = NULL;
	return n;
}

/* ---- what it says ---- */

/*
 * Takes the word that follows start in the line, up to a blank, a bracket or a full stop at the
 * end; or nothing.
 */
static void take_package(const char *line, const char *start, char *ret, size_t n)
{
	const size_t at = strlen(start), len = strcspn(line + at, " (:");

	if (!strncmp(line, start, at) && len && len < n)
		snprintf(ret, n, "%.*s", (int)(line[at + len - (len > 1)] == '.' ? len - 1 : len), line + at);
}

static void take_debootstrap_line(const struct debootstrap *d, struct said *s, const char *line)
{
	static const char *const begins[] = { "Setting up ", "Unpacking ", "Selecting previously unselected package " };
	const struct said before = *s;
	size_t i;

	for (i = 0; i < ARRAY_LEN(begins); i++)
		if (!strncmp(line, begins[i], strlen(begins[i])))
			take_package(line, begins[i], s->package, sizeof(s->package));
	if (!strncmp(line, "I: installing ", 14)) /* the next phase */
		s->package[0] = '\0';
	if (!strncmp(line, "dpkg: error processing package ", 31) && !s->failed[0])
		take_package(line, "dpkg: error processing package ", s->failed, sizeof(s->failed));
	if (!strncmp(line, "E: ", 3) && (!s->error[0] || (!strstr(line, " failed") && !strstr(line, "apt-get -o"))))
		snprintf(s->error, sizeof(s->error), "%.150s", line + 3);
	if (memcmp(&before, s, sizeof(before)) != 0 && pwrite(d->said_fd, s, sizeof(*s), 0) < 0)
		return; /* without memory the message has fewer words */
	if (!d->o->quiet && strchr("IWE", line[0]) && line[0] && line[1] == ':')
		dprintf(2, "%s\n", line);
}

/*
 * Reads the output in a child process, because we are busy with the layer; the child ends with the
 * last writer.
 */
static void read_debootstrap_lines(const struct debootstrap *d, int in_fd)
{
	struct said s = { .package = "" };
	FILE *in = fdopen(in_fd, "r");
	char line[4096];
	size_t n;

	while (in && fgets(line, sizeof(line), in)) {
		n = strcspn(line, "\r\n");
		line[n] = '\0';
		take_debootstrap_line(d, &s, line);
	}
	_exit(0);
}

static int start_listener(struct debootstrap *d, int *ret_fd, struct err *e)
{
	int pipe_fds[2];

	d->said_fd = memfd_create("mmdebstrap", MFD_CLOEXEC);
	if (d->said_fd < 0)
		return err_sys(e, "make a memory file");
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	d->listener = fork();
	if (!d->listener) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pipe_fds[1]);
		read_debootstrap_lines(d, pipe_fds[0]);
	}
	close(pipe_fds[0]);
	if (d->listener < 0) {
		close(pipe_fds[1]);
		d->listener = 0;
		return err_sys(e, "fork");
	}
	*ret_fd = pipe_fds[1];
	return 0;
}

/* Ends the listener. Children that outlive a killed program still hold its pipe, so the wait is bounded. */
static void end_listener(struct debootstrap *d)
{
	int i;

	for (i = 0; d->listener && i < 100; i++) {
		if (waitpid(d->listener, NULL, WNOHANG) == d->listener)
			d->listener = 0;
		else
			poll(NULL, 0, 10);
	}
	if (!d->listener)
		return;
	kill(d->listener, SIGKILL);
	while (waitpid(d->listener, NULL, 0) < 0 && errno == EINTR)
		;
	d->listener = 0;
}

static int set_reason(struct debootstrap *d, struct err *e)
{
	struct said s = { .package = "" };

	end_listener(d);
	if (pread(d->said_fd, &s, sizeof(s), 0) != sizeof(s))
		s = (struct said){ .package = "" };
	if (WIFSIGNALED(d->status)) {
		err_set(e, ERR_UNSUPPORTED, "mmdebstrap was killed by signal %d%s%s", WTERMSIG(d->status),
			s.package[0] ? " while it installed package " : " before it installed a package", s.package);
		return err_hint(e, "was there memory enough? dmesg tells of processes that the kernel killed");
	}
	err_set(e, ERR_UNSUPPORTED, "mmdebstrap failed%s%s%s%s", s.failed[0] ? " at package " : s.package[0] ? " while it installed package " : "",
		s.failed[0] ? s.failed : s.package, s.error[0] ? ": " : "", s.error);
	return err_hint(e, "are the suite and the packages known to the mirror, and can it be reached?");
}

/* ---- the program itself ---- */

static void exec_debootstrap(struct debootstrap *d, int out_fd, int err_fd)
{
	const char *argv[ARGS_MAX], *env[16];
	char variant[64], include[4200];
	int null = open("/dev/null", O_RDONLY);
	size_t n = 0;

	prctl(PR_SET_PDEATHSIG, SIGTERM);	/* it cleans up after itself */
	if (null < 0 || dup2(null, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0)
		_exit(126);
	/* its mounts are its own, and disappear with it */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		_exit(126);
	syscall(SYS_close_range, 3, ~0U, 0);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	umask(022);
	snprintf(variant, sizeof(variant), "--variant=%s", d->variant);
	argv[n++] = PROGRAM;
	argv[n++] = variant;
	argv[n++] = "--format=tar";
	argv[n++] = "--verbose"; /* prints names of packages, and no progress bars */
	if (d->o->packages && *d->o->packages) {
		snprintf(include, sizeof(include), "--include=%s", d->o->packages);
		argv[n++] = include;
	}
	/* a failure discards everything, so no fsync is needed */
	argv[n++] = "--dpkgopt=force-unsafe-io";
	argv[n++] = CLEAN_HOOK;
	argv[n++] = d->suite;
	argv[n++] = "-";
	if (d->o->mirror)
		argv[n++] = d->o->mirror;
	argv[n] = NULL;
	make_debootstrap_env(d, env);
	execve(PROGRAM, (char *const *)argv, (char *const *)env);
	_exit(127);
}

static int start_debootstrap(struct debootstrap *d, int *ret_fd, struct err *e)
{
	autoclose int err_fd = -1;
	int out[2];

	if (start_listener(d, &err_fd, e) < 0)
		return -1;
	if (pipe2(out, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	d->pid = fork();
	if (!d->pid)
		exec_debootstrap(d, out[1], err_fd);
	close(out[1]);
	if (d->pid < 0) {
		close(out[0]);
		return err_sys(e, "fork");
	}
	*ret_fd = out[0];
	return 0;
}

/* Waits until the program has ended with success, before anything it made gets a name. */
static int finish_debootstrap(void *ctx, struct err *e)
{
	struct debootstrap *d = ctx;

	if (d->pid > 0) {
		while (waitpid(d->pid, &d->status, 0) < 0 && errno == EINTR)
			;
		d->pid = 0;
	}
	if (WIFEXITED(d->status) && !WEXITSTATUS(d->status))
		return 0;
	return set_reason(d, e);
}

/* ---- the layer ---- */

struct squeeze {
	int in_fd;
	enum compression compression;
};

/* Compresses the plain tar, in a child that can do nothing else. */
static int squeeze(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret, struct err *e)
{
	const struct squeeze *s = ctx;
	const int keep[] = { s->in_fd, out_fd, report_fd };
	const struct confine c = { CONFINE_FILTER, parent, -1, -1, -1, keep, ARRAY_LEN(keep), PACKER_MEMORY };
	autofree struct tarstream *t = calloc(1, sizeof(*t));
	autofree unsigned char *buf = malloc(1 << 18);
	ssize_t n = 0;
	int rc;

	(void)ret;
	if (confine_child(&c, e) < 0)
		return -1;
	rc = t && buf ? tarstream_open(t, out_fd, s->compression, e) : err_nomem(e);
	while (!rc && (n = read(s->in_fd, buf, 1 << 18)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		rc = n < 0 ? err_sys(e, "read the packages' files") : tarstream_raw(t, buf, (size_t)n, e);
	}
	if (!rc)
		rc = tarstream_flush(t, e);
	if (t)
		tarstream_release(t);
	return rc;
}

static json_t *make_bootstrap_config(const struct debootstrap *d)
{
	return json_pack("{s:[s,s], s:[s], s:{s:s, s:s, s:s}}", "Env",
			 "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "Cmd", "/bin/bash",
			 "Labels", "berth.bootstrap.suite", d->suite, "berth.bootstrap.variant", d->variant,
			 "berth.bootstrap.packages", d->o->packages ? d->o->packages : "");
}

static json_t *make_bootstrap_image(int store_fd, struct debootstrap *d, struct err *e)
{
	autojson json_t *config = make_bootstrap_config(d), *ret = NULL;
	autoclose int tar_fd = -1, layer_fd = -1;
	struct import_options opts = d->o->shown;
	struct packer packer = PACKER_INIT;
	struct tarout_stats st = { 0 };
	struct squeeze s = { .compression = d->o->compression };
	struct err why = { 0 };
	char by[4400];

	if (start_debootstrap(d, &tar_fd, e) < 0)
		return NULL;
	s.in_fd = tar_fd;
	if (packer_start_pipe(&packer, squeeze, &s, &layer_fd, e) < 0)
		return NULL;
	fd_close(&tar_fd);
	snprintf(by, sizeof(by), "mmdebstrap --variant=%s --include=%s %s", d->variant, d->o->packages ? d->o->packages : "", d->suite);
	opts.name = d->o->name;
	opts.source = "";
	opts.stream_fd = layer_fd;
	opts.config = config;
	opts.created = d->created;
	opts.created_by = by;
	opts.confirm = finish_debootstrap;
	opts.confirm_ctx = d;
	ret = import_run(store_fd, &opts, e);
	fd_close(&layer_fd);
	packer_end(&packer, ret ? 0 : -1, &st, &why);
	/* if a stream ended early, the cause is in the program, unless we hung up */
	if (!ret && finish_debootstrap(d, &why) < 0 && !(WIFSIGNALED(d->status) && WTERMSIG(d->status) == SIGPIPE) && e->code == ERR_CORRUPT)
		*e = why;
	return ret ? json_incref(ret) : NULL;
}

json_t *bootstrap_run(int store_fd, const struct bootstrap_options *o, struct err *e)
{
	struct debootstrap d = { .o = o, .said_fd = -1 };
	json_t *ret;

	d.suite = o->suite ? o->suite : BOOTSTRAP_SUITE;
	d.variant = o->variant ? o->variant : BOOTSTRAP_VARIANT;
	if (check_debootstrap_words(&d, e) < 0 || set_epoch(&d, e) < 0)
		return NULL;
	ret = make_bootstrap_image(store_fd, &d, e);
	if (d.pid > 0) {	/* if nobody waited for it, the failure is ours */
		kill(d.pid, SIGTERM);
		while (waitpid(d.pid, &d.status, 0) < 0 && errno == EINTR)
			;
	}
	end_listener(&d);
	fd_close(&d.said_fd);
	return ret;
}
