/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"

struct entry {
	const struct oci_exec *x;
	struct oci_made *m;
	struct oci_seccomp filter;
	int sock, runtime_sock, console_fd, proc_fd, pidfd, root_fd, beside_fd;
	uint32_t ns;	/* bit N: the container has enum oci_ns N of its own */
	pid_t target;
	int enter_v2;
};

/* ---- in the container ---------------------------------------------------------------- */

static int take_exec_terminal(struct entry *n, struct err *e)
{
	struct oci_message m = { .kind = OCI_TERMINAL };
	autoclose int master = -1;

	if (!oci_true(n->x->process, "terminal"))
		return 0;
	master = oci_console_take(n->x->process, 0, e);
	if (master < 0)
		return -1;
	if (n->console_fd >= 0)
		return oci_console_send(n->console_fd, master, e);
	if (fdpass_send(n->sock, &m, sizeof(m), &master, 1) < 0)
		return err_sys(e, "hand over the terminal");
	return 0;
}

/* Releases descriptors: after this, paths of the image are looked up. */
static int release_exec_fds(struct entry *n, struct oci_process *p, struct err *e)
{
	if (oci_process_look(p, e) < 0)
		return -1;

	const int keep[] = { n->sock, oci_log_fd(), p->apparmor_fd, p->selinux_fd };

	n->proc_fd = p->proc_fd = n->root_fd = n->pidfd = -1;
	return oci_keep_only(n->x->preserve_fds, keep, ARRAY_LEN(keep), e);
}

static int prepare_exec_process(struct entry *n, struct oci_process *p, struct err *e)
{
	const json_t *affinity = oci_get(n->x->process, "execCPUAffinity");
	struct err again;

	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_sys(e, "forbid being traced");
	if (n->ns >> NS_CGROUP & 1 && setns(n->pidfd, CLONE_NEWCGROUP) < 0)
		return err_sys(e, "join the container's cgroup namespace");
	if (setsid() < 0)
		return err_sys(e, "start a session");
	if (oci_personality_set(oci_get(n->m->config, "linux"), e) < 0 ||
	    oci_mempolicy_set(oci_get(n->m->config, "linux"), e) < 0)
		return -1;
	if (take_exec_terminal(n, e) < 0 || release_exec_fds(n, p, e) < 0)
		return -1;
	if (oci_process_chdir(p, &again) < 0 && again.os_errno != EACCES && again.os_errno != EPERM) {
		*e = again;
		return -1;
	}
	if (oci_process_prepare(p, e) < 0)
		return -1;
	oci_process_own_stdio(p->doc);
	if (oci_str(affinity, "final") && oci_process_affinity(oci_str(affinity, "final"), e) < 0)
		return -1;
	return 0;
}

static __attribute__((noreturn)) void in_container(struct entry *n)
{
	struct oci_process p = { .doc = n->x->process, .proc_fd = n->proc_fd, .in_userns = n->ns >> NS_USER & 1 };
	struct oci_seccomp filter = { 0 };
	struct err e = { 0 };

	umask(022);
	if (prepare_exec_process(n, &p, &e) < 0)
		oci_message_fail(n->sock, &e, 0);
	if (oci_message_send(n->sock, OCI_READY, 0) < 0)
		_exit(1);
	if (oci_filter_recv(n->sock, &filter, &e) < 0)
		oci_message_fail(n->sock, &e, 0);
	prctl(PR_SET_PDEATHSIG, 0);
	oci_reset_signals();
	if (oci_process_become(&p, &filter, n->sock, &e) < 0)
		oci_message_fail(n->sock, &e, 0);
	oci_process_exec(&p, &e);
	oci_message_fail(n->sock, &e, 0);
}

/* ---- on the way there ------------------------------------------------------------------- */

/*
 * The v2 cgroup of the container's first process, which is joined through its file. Opened while
 * paths are still the host's: in the container the same path may be a file of its image.
 */
static int open_first_process_cgroup(struct entry *n, struct err *e)
{
	const struct oci_cgroup *c = &n->m->state.cgroup;
	char path[64], text[8192], *line, *save = NULL, dir[PATH_MAX];
	size_t i;
	ssize_t got;
	autoclose int fd = -1;

	snprintf(path, sizeof(path), "%d/cgroup", (int)n->target);
	fd = openat(n->proc_fd, path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (got < 0)
		return err_sys(e, "find the cgroup of the container's process");
	if (got == (ssize_t)sizeof(text) - 1)
		return err_set(e, ERR_LIMIT, "the cgroups of the container's process have names of more than %zu bytes", sizeof(text) - 2);
	text[got] = '\0';
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		for (i = 0; i < c->count && strcmp(c->part[i].name, OCI_CGROUP_UNIFIED) != 0; i++)
			;
		if (i == c->count)
			continue;
		snprintf(dir, sizeof(dir), "%.*s%s/cgroup.procs", (int)c->part[i].root_len, c->part[i].dir, line + 3);
		n->beside_fd = open(dir, O_WRONLY | O_CLOEXEC);
		return n->beside_fd < 0 ? err_sys(e, "open %s", dir) : 0;
	}
	return err_set(e, ERR_NOT_FOUND, "the container's process is in no v2 cgroup");
}

static int enter_beside(struct entry *n, struct err *e)
{
	return write(n->beside_fd, "0", 1) == 1 ? 0 : err_sys(e, "join the cgroup of the container's process");
}

/* "PATH" in every hierarchy, or "CONTROLLER,...:PATH" in those: below the container's cgroup. */
static int enter_sub_cgroup(struct entry *n, const char *text, struct err *e)
{
	struct oci_cgroup *c = &n->m->state.cgroup;
	const char *colon = strchr(text, ':'), *sub = colon ? colon + 1 : text;
	char list[128], *word, *save = NULL;

	sub += *sub == '/';
	if (!strcmp(sub, "..") || !strncmp(sub, "../", 3) || strstr(sub, "/.."))
		return err_set(e, ERR_INVALID, "bad sub cgroup path: %.100s is not a sub cgroup path: `..` "
			       "components are not allowed", sub);
	if (!colon)
		return oci_cgroup_enter(c, sub, e);
	snprintf(list, sizeof(list), "%.*s", (int)(colon - text), text);
	for (word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		struct oci_cgroup one = { .v2 = 1 };
		size_t i;

		for (i = 0; i < c->count && strcmp(c->part[i].name, word) != 0; i++)
			;
		if (i == c->count)
			return err_set(e, ERR_INVALID, "unknown controller %.32s in --cgroup", word);
		one.part[one.count++] = c->part[i];
		if (oci_cgroup_enter(&one, sub, e) < 0)
			return -1;
		fd_close(&c->part[i].dir_fd);	/* done with */
	}
	return 0;
}

/* The hierarchies that no --cgroup was about. */
static int enter_rest(struct entry *n, struct err *e)
{
	size_t i;

	for (i = 0; i < n->x->cgroups; i++)
		if (!strchr(n->x->cgroup[i], ':'))
			return 0;
	return oci_cgroup_enter(&n->m->state.cgroup, NULL, e);
}

/*
 * v1 by the threads' files, which take no global lock; v2 at the clone.  A
 * container that manages cgroups of its own has no process in the upper one
 * (cgroups(7), "no internal processes"): then where its first process is.
 */
static int enter_cgroups(struct entry *n, struct err *e)
{
	struct oci_cgroup *c = &n->m->state.cgroup;
	size_t i;

	if (n->x->cgroups) {
		for (i = 0; i < n->x->cgroups; i++)
			if (enter_sub_cgroup(n, n->x->cgroup[i], e) < 0)
				return -1;
		return enter_rest(n, e);
	}
	/* root of the container's user namespace could not put itself into a cgroup of the host's root */
	if (n->ns >> NS_USER & 1)
		return oci_cgroup_enter(c, NULL, e) == 0 ? 0 : e->os_errno != EBUSY || open_first_process_cgroup(n, e) < 0 ? -1 : enter_beside(n, e);
	for (i = 0; i < c->count; i++) {
		if (!strcmp(c->part[i].name, OCI_CGROUP_UNIFIED) || c->part[i].dir_fd < 0)
			continue;
		c->part[i].join_fd = openat(c->part[i].dir_fd, "tasks", O_WRONLY | O_CLOEXEC);
		if (c->part[i].join_fd < 0)
			return err_sys(e, "open %s/tasks", c->part[i].dir);
	}
	return oci_cgroup_join(c, e);
}

static int join_namespaces(struct entry *n, struct err *e)
{
	int flags = 0, i;

	/* not the cgroup one: from inside it, the container's cgroup cannot be named for the clone */
	for (i = 0; i < OCI_NS_COUNT; i++)
		if (n->ns >> i & 1 && i != NS_CGROUP)
			flags |= oci_ns_types[i].flag;
	/* all at once, checked as a whole (Linux 5.8) */
	if (flags && setns(n->pidfd, flags) < 0) {
		if (errno != EINVAL || !(n->ns >> NS_TIME & 1) || setns(n->pidfd, flags & ~CLONE_NEWTIME) < 0)
			return err_sys(e, "join the container's namespaces");
	}
	/* without a mount namespace of its own the container is a chroot */
	if (!(n->ns >> NS_MOUNT & 1) && (fchdir(n->root_fd) < 0 || chroot(".") < 0))
		return err_sys(e, "enter the container's root");
	return 0;
}

static void run_exec_joiner(struct entry *n, pid_t *ret_pid, struct err *e)
{
	const json_t *affinity = oci_get(n->x->process, "execCPUAffinity");
	struct clone_args a = { .flags = CLONE_PARENT };
	struct err beside;
	const int cgroup = n->x->cgroups || n->ns >> NS_USER & 1 ? -1 : oci_cgroup_clone_fd(&n->m->state.cgroup);
	long pid;

	if (prctl(PR_SET_DUMPABLE, 0) < 0) {
		err_sys(e, "forbid being traced");
		return;
	}
	if (oci_str(affinity, "initial") && oci_process_affinity(oci_str(affinity, "initial"), e) < 0)
		return;
	if (!affinity)
		oci_process_affinity_all();
	if (enter_cgroups(n, e) < 0)
		return;
	if (cgroup >= 0)
		open_first_process_cgroup(n, &beside);
	if (join_namespaces(n, e) < 0)
		return;
	if (n->ns >> NS_USER & 1 &&
	    ((setresgid(0, 0, 0) < 0 && errno != EINVAL) || (setresuid(0, 0, 0) < 0 && errno != EINVAL))) {
		err_sys(e, "become root of the user namespace");
		return;
	}
	if (cgroup >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)cgroup;
	}
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid < 0 && cgroup >= 0 && (errno == EBUSY || errno == EACCES || errno == EOPNOTSUPP || errno == EINVAL)) {
		/* the reason why it could not be opened is the better message */
		if (n->beside_fd < 0) {
			*e = beside;
			return;
		}
		if (enter_beside(n, e) < 0)
			return;
		a.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
		pid = syscall(SYS_clone3, &a, sizeof(a));
	}
	if (pid < 0) {
		err_sys(e, "clone into the container");
		return;
	}
	if (pid == 0) {
		close(n->runtime_sock);
		in_container(n);
	}
	*ret_pid = (pid_t)pid;
}

/* ---- the runtime ---------------------------------------------------------------------------- */

struct shared {
	pid_t pid;
	struct err err;
};

static pid_t spawn_exec_joiner(struct entry *n, struct err *e)
{
	struct shared *out = mmap(NULL, sizeof(*out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t helper, pid;

	if (out == MAP_FAILED)
		return err_nomem(e);
	out->pid = -1;
	err_set(&out->err, ERR_INTERNAL, "the process that joins the container died");
	helper = fork();
	if (helper < 0)
		return err_sys(e, "fork");
	if (helper == 0) {
		run_exec_joiner(n, &out->pid, &out->err);
		_exit(0);
	}
	while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
		;
	pid = out->pid;
	if (pid < 0)
		*e = out->err;
	munmap(out, sizeof(*out));
	return pid;
}

static uint32_t own_namespaces(const json_t *config)
{
	const json_t *list = oci_get2(config, "linux", "namespaces"), *v;
	uint32_t mask = 0;
	size_t i;
	int n;

	json_array_foreach(list, i, v)
		for (n = 0; n < OCI_NS_COUNT; n++)
			if (!strcmp(oci_str(v, "type"), oci_ns_types[n].word))
				mask |= 1u << n;
	return mask;
}

static int attend_exec(struct entry *n, struct err *e)
{
	struct oci_message m;
	int fd;

	for (;;) {
		if (oci_message_recv(n->sock, &m, &fd) != 1)
			return err_set(e, ERR_SYS, "the process died before it was executed");
		if (m.kind == OCI_TERMINAL) {
			n->m->master = fd;
			oci_console_plain(fd);
		} else if (m.kind == OCI_FAILED) {
			*e = m.err;
			return -1;
		} else if (m.kind == OCI_READY) {
			return 0;
		}
	}
}

static int check_exec_status(const struct oci_state *st, const struct oci_exec *x, struct err *e)
{
	switch (oci_state_status(st)) {
	case OCI_CREATING:
		/* its root is not entered yet: a process that joined it now would see the host's */
		return err_set(e, ERR_BUSY, "cannot exec in a container that is being created: the container '%s' is not running", st->id);
	case OCI_STOPPED:
		return err_set(e, ERR_BUSY, "cannot exec in a stopped container: the container '%s' is not running", st->id);
	case OCI_PAUSED:
		return x->ignore_paused ? 0 : err_set(e, ERR_BUSY, "cannot exec in a paused container (use --ignore-paused to "
						      "override): the container '%s' is paused", st->id);
	default:
		return 0;
	}
}

static int run_oci_exec(struct entry *n, struct err *e)
{
	struct oci_made *m = n->m;
	char path[48];
	int pair[2];

	n->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	n->pidfd = (int)syscall(SYS_pidfd_open, n->target, 0);
	if (n->proc_fd < 0 || n->pidfd < 0)
		return err_sys(e, "open the container's process");
	snprintf(path, sizeof(path), "%d/root", (int)n->target);
	n->root_fd = openat(n->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (n->root_fd < 0)
		return err_sys(e, "open the container's root");
	n->ns = own_namespaces(m->config);
	if (oci_cgroup_open(&m->state.cgroup, e) < 0 ||
	    oci_seccomp_compile(&n->filter, m->config, e) < 0)
		return -1;
	if (n->x->console_socket && (n->console_fd = oci_console_connect(n->x->console_socket, e)) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "make a socket pair");
	n->sock = pair[1];
	n->runtime_sock = pair[0];
	m->state.pid = spawn_exec_joiner(n, e);
	close(pair[1]);
	n->sock = m->sock = pair[0];
	if (m->state.pid < 0)
		return -1;
	m->state.start_time = oci_start_time(m->state.pid, NULL);
	if (attend_exec(n, e) < 0 || oci_process_limits(n->x->process, m->state.pid, n->proc_fd, e) < 0 ||
	    oci_filter_send(n->sock, &n->filter, e) < 0 || oci_await_exec(m, e) < 0)
		return -1;
	if (n->x->pidfd_socket && oci_pidfd_send(n->x->pidfd_socket, m->state.pid, e) < 0)
		return -1;
	return n->x->pid_file ? oci_pid_file_write(n->x->pid_file, m->state.pid, e) : 0;
}

int oci_exec_start(struct oci_made *m, int root_fd, const char *id, const struct oci_exec *x, struct err *e)
{
	struct entry n = { .x = x, .m = m, .sock = -1, .console_fd = -1, .proc_fd = -1, .pidfd = -1, .root_fd = -1, .beside_fd = -1 };
	int r;

	memset(m, 0, sizeof(*m));
	m->sock = m->master = -1;
	if (oci_state_load(&m->state, root_fd, id, e) < 0)
		return -1;
	n.target = m->state.pid;
	m->config = oci_json_load(m->state.dir_fd, "config.json", e);
	r = !m->config || check_exec_status(&m->state, x, e) < 0 ? -1 : run_oci_exec(&n, e);
	if (r < 0) {
		if (m->state.pid > 0 && m->state.pid != n.target) {
			kill(m->state.pid, SIGKILL);
			while (waitpid(m->state.pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
		oci_made_release(m);
	}
	oci_seccomp_release(&n.filter);
	fd_close(&n.console_fd);
	fd_close(&n.proc_fd);
	fd_close(&n.pidfd);
	fd_close(&n.root_fd);
	return r;
}

json_t *oci_exec_model(int root_fd, const char *id, struct err *e)
{
	struct oci_state st;
	json_t *config, *process = NULL;

	if (oci_state_load(&st, root_fd, id, e) < 0)
		return NULL;
	config = oci_json_load(st.dir_fd, "config.json", e);
	if (config) {
		process = json_deep_copy(oci_get(config, "process"));
		if (!process)
			err_set(e, ERR_INVALID, "the configuration of container '%s' has no process", id);
	}
	json_decref(config);
	oci_state_release(&st);
	return process;
}
