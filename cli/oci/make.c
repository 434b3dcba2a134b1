/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci create, run, start. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/oci/cli.h"
#include "runtime/oci/create.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"
#include "runtime/oci/notify.h"

struct make_args {
	const char *bundle, *config, *pid_file, *console_socket, *pidfd_socket;
	int preserve_fds, no_pivot, no_new_keyring, detach, keep;
};

enum { M_BUNDLE, M_CONFIG, M_CONSOLE, M_PID, M_PIDFD, M_NO_PIVOT, M_NO_KEYRING, M_PRESERVE, M_NO_SUBREAPER, M_DETACH, M_KEEP };

#define MAKE_OPTIONS \
	[M_BUNDLE] = { "bundle", 'b', "DIR", "the bundle (default: the working directory)" }, \
	[M_CONFIG] = { "config", 'f', "FILE", "the configuration (default: config.json of the bundle)" }, \
	[M_CONSOLE] = { "console-socket", 0, "PATH", "socket that receives the container's terminal" }, \
	[M_PID] = { "pid-file", 0, "FILE", "write the process id of the container here" }, \
	[M_PIDFD] = { "pidfd-socket", 0, "PATH", "socket that receives a descriptor of the container's process" }, \
	[M_NO_PIVOT] = { "no-pivot", 0, NULL, "move the root instead of pivoting to it (a root on a RAM disk)" }, \
	[M_NO_KEYRING] = { "no-new-keyring", 0, NULL, "keep the caller's session keyring" }, \
	[M_PRESERVE] = { "preserve-fds", 0, "N", "pass on the N descriptors from 3 up" }, \
	[M_NO_SUBREAPER] = { "no-subreaper", 0, NULL, "accepted; there is no other way here" }

static const struct oci_option create_options[] = { MAKE_OPTIONS, { NULL } };
static const struct oci_option run_options[] = {
	MAKE_OPTIONS,
	[M_DETACH] = { "detach", 'd', NULL, "return once it runs" },
	[M_KEEP] = { "keep", 0, NULL, "do not delete the container when it ends" },
	{ NULL },
};

static int set_oci_create_option(void *ctx, size_t index, const char *value, struct err *e)
{
	struct make_args *a = ctx;

	switch (index) {
	case M_BUNDLE:
		a->bundle = value;
		break;
	case M_CONFIG:
		a->config = value;
		break;
	case M_CONSOLE:
		a->console_socket = value;
		break;
	case M_PID:
		a->pid_file = value;
		break;
	case M_PIDFD:
		a->pidfd_socket = value;
		break;
	case M_NO_PIVOT:
		a->no_pivot = 1;
		break;
	case M_NO_KEYRING:
		a->no_new_keyring = 1;
		break;
	case M_PRESERVE:
		return oci_preserve_number(value, &a->preserve_fds, e);
	case M_DETACH:
		a->detach = 1;
		break;
	case M_KEEP:
		a->keep = 1;
		break;
	default:
		break;
	}
	return 0;
}

static int make_oci_request(const struct oci_global *g, const struct make_args *a, const char *id, struct oci_request *r, struct err *e)
{
	*r = (struct oci_request){ .id = id, .config_file = a->config, .preserve_fds = a->preserve_fds, .no_pivot = a->no_pivot,
				   .no_new_keyring = a->no_new_keyring, .step = g->step, .systemd_program = g->systemd_program };
	if (oci_passed_listen(g, &r->preserve_fds, &r->listen_fds, e) < 0)
		return -1;
	r->bundle = oci_absolute(a->bundle ? a->bundle : ".", e);
	if (!r->bundle)
		return -1;
	/* relative to where we are, before the bundle is entered; the configuration to the bundle, as for crun */
	if (a->pid_file && !(r->pid_file = oci_absolute(a->pid_file, e)))
		return -1;
	if (a->console_socket && !(r->console_socket = oci_absolute(a->console_socket, e)))
		return -1;
	if (a->pidfd_socket && !(r->pidfd_socket = oci_absolute(a->pidfd_socket, e)))
		return -1;
	return 0;
}

static int run_create(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	struct oci_request r;
	struct oci_made m;

	(void)count;
	if (make_oci_request(g, ctx, operands[0], &r, e) < 0 || oci_root(g, e) < 0 || oci_create(&m, g->root_fd, &r, e) < 0)
		return -1;
	oci_made_release(&m);
	return 0;
}

static int run_start(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	(void)ctx;
	(void)count;
	return oci_root(g, e) < 0 ? -1 : oci_start(g->root_fd, operands[0], e);
}

/* Removes a container that could not be started; the first error is the one reported. */
static int fail_oci_create(struct oci_global *g, const char *id)
{
	struct err second;

	if (oci_delete(g->root_fd, id, 1, &second) < 0)
		oci_log(OCI_WARNING, "%s", second.msg);
	return -1;
}

static int run_run(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	const struct make_args *a = ctx;
	struct oci_request r;
	struct oci_made m;
	int status = 0;

	(void)count;
	if (make_oci_request(g, a, operands[0], &r, e) < 0 || oci_root(g, e) < 0)
		return -1;
	r.run = 1;
	if ((!a->detach && oci_hold_signals(e) < 0) || oci_create(&m, g->root_fd, &r, e) < 0)
		return -1;
	if (oci_await_exec(&m, e) < 0 || oci_poststart(&m, e) < 0) {
		oci_last_words(&m);
		oci_made_release(&m);
		return fail_oci_create(g, operands[0]);
	}
	if (a->detach && m.master >= 0 && !a->console_socket) {
		err_set(e, ERR_USAGE, "cannot allocate tty if runc will detach without setting console socket");
		oci_made_release(&m);
		return fail_oci_create(g, operands[0]);
	}
	if (!a->detach) {
		status = oci_foreground(&m, oci_get(m.config, "process"), e);
		oci_made_release(&m);
		if (status < 0)
			return fail_oci_create(g, operands[0]);
		if (!a->keep && oci_delete(g->root_fd, operands[0], 1, e) < 0)
			return -1;
		return status;
	}
	status = m.notify_fd >= 0 ? oci_notify_wait(m.notify_fd, m.state.pid, e) : 0;
	oci_made_release(&m);
	return status;
}

static struct make_args args;

const struct oci_verb oci_verb_create = {
	.name = "create", .args = "ID", .summary = "make a container, without starting its program", .options = create_options,
	.min = 1, .max = 1, .set = set_oci_create_option, .run = run_create, .ctx = &args, .makes = 1, .sealed = 1,
};

const struct oci_verb oci_verb_run = {
	.name = "run", .args = "ID", .summary = "make a container, start it, wait for its end, delete it",
	.options = run_options, .min = 1, .max = 1, .set = set_oci_create_option, .run = run_run, .ctx = &args, .makes = 1, .sealed = 1,
};

static const struct oci_option none[] = { { NULL } };

const struct oci_verb oci_verb_start = {
	.name = "start", .args = "ID", .summary = "start the program of a created container", .options = none,
	.min = 1, .max = 1, .run = run_start,
};
