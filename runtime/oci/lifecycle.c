/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a container after create: start, the hooks after it, delete. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/oci/container.h"
#include "runtime/oci/create.h"
#include "runtime/oci/hooks.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"
#include "runtime/oci/notify.h"

/* config-linux.md, "The Container Process State" */
static json_t *process_state(const struct oci_made *m)
{
	const json_t *seccomp = oci_get2(m->config, "linux", "seccomp");
	const char *metadata = oci_str(seccomp, "listenerMetadata");
	/* the version of this message, not of the runtime: agents know it as crun sends it */
	json_t *j = json_pack("{s:s, s:[s], s:i, s:s, s:o}", "ociVersion", "0.2.0", "fds", "seccompFd", "pid",
			      (int)m->state.pid, "metadata", metadata ? metadata : "", "state",
			      oci_state_json(&m->state, OCI_CREATING));

	json_object_set_new(json_object_get(j, "state"), "pid", json_integer(m->state.pid));
	return j;
}

static int pass_listener(const struct oci_made *m, int number, struct err *e)
{
	const char *path = oci_str(oci_get2(m->config, "linux", "seccomp"), "listenerPath");
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, m->state.pid, 0), listener = -1;
	autojson json_t *message = process_state(m);

	if (pidfd >= 0)
		listener = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	if (listener < 0)
		return err_sys(e, "take over the seccomp listener");
	return oci_seccomp_tell(path ? path : "", listener, message, e);
}

int oci_await_exec(struct oci_made *m, struct err *e)
{
	for (;;) {
		struct oci_message msg;
		int fd = -1, r = oci_message_recv(m->sock, &msg, &fd);

		if (r == 0) {
			/* descriptors of ours end at execve, or with the process: killed, or by a filter that let it say nothing */
			if (oci_never_executed(m->state.pid))
				return err_set(e, ERR_EXEC, "the process died before it could execute its program: it was killed, or "
					       "linux.seccomp allows neither execve nor write");
			return 0;
		}
		if (r < 0)
			return err_sys(e, "listen to the container");
		switch (msg.kind) {
		case OCI_FAILED:
			*e = msg.err;
			m->hook_failed = msg.value;
			return -1;
		case OCI_TERMINAL:
			m->master = fd;
			break;
		case OCI_LISTENER:
			if (pass_listener(m, msg.value, e) < 0 || oci_message_send(m->sock, OCI_GO, 0) < 0) {
				kill(m->state.pid, SIGKILL);
				return -1;
			}
			break;
		default:
			break;
		}
	}
}

int oci_poststart(struct oci_made *m, struct err *e)
{
	const char *bundle = oci_str(m->state.doc, "bundle");
	const struct oci_hooks h = { m->config, bundle, NULL };
	autojson json_t *state = NULL;

	if (!oci_hooks_any(m->config, "poststart"))
		return 0;
	state = oci_state_json(&m->state, OCI_RUNNING);
	if (oci_hooks_run(&h, "poststart", state, 0, e) == 0)
		return 0;
	m->hook_failed = 1;
	kill(m->state.pid, SIGKILL);
	return -1;
}

/* ---- the end ------------------------------------------------------------------------------ */

/* Waits for the end of a process that may not be our child. */
static void wait_process_gone(pid_t pid, uint64_t start_time)
{
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	char letter;

	if (pidfd < 0 || oci_start_time(pid, &letter) != start_time || letter == 'Z')
		return;
	poll(&p, 1, 10000);
}

static int end_container_processes(struct oci_state *st, enum oci_status status, struct err *e)
{
	if (status != OCI_STOPPED && st->pid > 0)
		kill(st->pid, SIGKILL);
	if (oci_cgroup_open(&st->cgroup, e) < 0)
		return -1;
	if (oci_cgroup_frozen(&st->cgroup) && oci_cgroup_freeze(&st->cgroup, 0, e) < 0)
		return -1;
	if (st->cgroup.count && oci_cgroup_signal(&st->cgroup, SIGKILL, e) < 0)
		return -1;
	if (st->pid > 0)
		wait_process_gone(st->pid, st->start_time);
	return 0;
}

static void run_poststop(const struct oci_state *st)
{
	struct err e;
	autojson json_t *config = oci_json_load(st->dir_fd, "config.json", &e);
	const struct oci_hooks h = { config, oci_str(st->doc, "bundle"), NULL };
	autojson json_t *state = NULL;

	if (!config || !oci_hooks_any(config, "poststop"))
		return;
	state = oci_state_json(st, OCI_STOPPED);
	/* runtime.md: failures are logged, the deletion goes on */
	oci_hooks_run(&h, "poststop", state, 1, &e);
}

int oci_destroy(struct oci_state *st, int root_fd, struct err *e)
{
	if (oci_cgroup_destroy(&st->cgroup, e) < 0 || oci_rootmount_remove(st->doc, e) < 0)
		return -1;
	if (st->pid)
		run_poststop(st);
	return oci_state_remove(st, root_fd, e);
}

int oci_delete(int root_fd, const char *id, int force, struct err *e)
{
	struct oci_state st;
	enum oci_status status;
	int r = -1;

	if (force ? oci_state_load_locked(&st, root_fd, id, e) < 0 : oci_state_load_made(&st, root_fd, id, e) < 0)
		return -1;
	status = oci_state_status(&st);
	if (status != OCI_STOPPED && status != OCI_CREATED && !force) {
		err_set(e, ERR_BUSY, "cannot delete container '%s' that is not stopped: %s", id, oci_status_name(status));
		goto out;
	}
	if (end_container_processes(&st, status, e) == 0)
		r = oci_destroy(&st, root_fd, e);
out:
	oci_state_release(&st);
	return r;
}

/* ---- start ------------------------------------------------------------------------------- */

/* runtime.md, "Lifecycle", 7 and 9: the container is stopped and destroyed.  The hook's failure is the error to tell. */
static void after_failed_hook(struct oci_state *st, int root_fd)
{
	struct err second;

	if (end_container_processes(st, oci_state_status(st), &second) < 0 || oci_destroy(st, root_fd, &second) < 0)
		oci_log(OCI_WARNING, "%s; `delete --force %s` clears what is left", second.msg, st->id);
}

static int connect_start(const struct oci_state *st, struct err *e)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char dir[32];

	if (fd < 0)
		return err_sys(e, "make a socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/" OCI_SOCKET, path_of_fd(st->dir_fd, dir));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, "reach the container's process");
	return take_fd(&fd);
}

int oci_start(int root_fd, const char *id, struct err *e)
{
	struct oci_made m = { .sock = -1, .master = -1, .notify_fd = -1 };
	enum oci_status status;
	int r = -1;

	if (oci_state_load_locked(&m.state, root_fd, id, e) < 0)
		return -1;
	status = oci_state_status(&m.state);
	if (status != OCI_CREATED) {
		err_set(e, ERR_BUSY, "cannot start a container that has %s: container '%s' is not in the created state",
			status == OCI_STOPPED ? "stopped" : "run", id);
		goto out;
	}
	m.config = oci_json_load(m.state.dir_fd, "config.json", e);
	if (!m.config)
		goto out;
	if (!oci_get(m.config, "process")) {
		err_set(e, ERR_INVALID, "the configuration of container '%s' has no process: nothing to start", id);
		goto out;
	}
	if (oci_notify_bind(m.state.dir_fd, &m.notify_fd, e) < 0)
		goto out;
	m.sock = connect_start(&m.state, e);
	if (m.sock < 0)
		goto out;
	r = oci_await_exec(&m, e);
	/* not earlier: until its program runs, its status is created */
	unlinkat(m.state.dir_fd, OCI_SOCKET, 0);
	if (r == 0)
		r = oci_poststart(&m, e);
	if (m.hook_failed)
		after_failed_hook(&m.state, root_fd);
	/* other commands may look at it and delete it while it gets ready */
	oci_state_unlock(&m.state);
	if (r == 0 && m.notify_fd >= 0)
		r = oci_notify_wait(m.notify_fd, m.state.pid, e);
out:
	oci_made_release(&m);
	return r;
}
