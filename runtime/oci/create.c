/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/create.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/userns.h"
#include "runtime/oci/container.h"
#include "runtime/oci/hooks.h"
#include "runtime/oci/idmap.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"
#include "runtime/oci/notify.h"
#include "runtime/oci/resources.h"

static void created_time_now(char text[48])
{
	struct timespec t;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	n = strftime(text, 48, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, 48 - n, ".%09ldZ", t.tv_nsec);
}

static int record_container(struct oci_container *c, struct oci_state *st, const struct buf *text, struct err *e)
{
	json_t *annotations = oci_get(c->config, "annotations");
	char created[48];

	created_time_now(created);
	json_object_set_new(st->doc, "ociVersion", json_string(OCI_SPEC_VERSION));
	json_object_set_new(st->doc, "id", json_string(st->id));
	json_object_set_new(st->doc, "bundle", json_string(c->bundle));
	json_object_set_new(st->doc, "rootfs", json_string(c->rootfs));
	json_object_set_new(st->doc, "created", json_string(created));
	json_object_set_new(st->doc, "uid", json_integer(getuid()));
	json_object_set_new(st->doc, "cgroup", oci_cgroup_to_json(&st->cgroup));
	if (annotations)
		json_object_set(st->doc, "annotations", annotations);
	if (oci_rootmount_note(c, st->doc, e) < 0)
		return -1;
	if (io_replace_file(st->dir_fd, "config.json", text->data, text->len, 0600, 0, e) < 0)
		return -1;
	return oci_state_save(st, e);
}

static int listen_for_start(struct oci_container *c, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char dir[32];

	c->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->listen_fd < 0)
		return err_sys(e, "make a socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/" OCI_MAKING_SOCKET, path_of_fd(c->state->dir_fd, dir));
	if (bind(c->listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(c->listen_fd, 4) < 0)
		return err_sys(e, "listen on " OCI_MAKING_SOCKET);
	return 0;
}

/* Things that are not ours must not be in st when everything is undone. */
static int check_vacant(struct oci_state *st, struct err *e)
{
	if (oci_cgroup_check_vacant(&st->cgroup, e) == 0)
		return 0;
	oci_cgroup_release(&st->cgroup);
	return -1;
}

/*
 * Makes the cgroups. Without privilege there may be none; then limits are refused where they are
 * written. Root of an ordinary user's user namespace, as with podman, has no more privilege than
 * that user.
 */
static int make_cgroups(struct oci_container *c, struct oci_state *st, const struct oci_request *r, struct err *e)
{
	if (r->systemd_program >= 0 && oci_scope_start(&c->scope, r->systemd_program, e) < 0) {
		oci_cgroup_release(&st->cgroup);	/* an existing cgroup may be another's */
		return -1;
	}
	if (oci_cgroup_create(&st->cgroup, e) == 0)
		return 0;
	if (e->code == ERR_BUSY)
		oci_cgroup_release(&st->cgroup);
	if (userns_is_host_root() || (e->os_errno != EACCES && e->os_errno != EPERM &&
	    e->os_errno != EROFS))
		return -1;
	oci_log(OCI_DEBUG, "no cgroup for an ordinary user: %s", e->msg);
	oci_cgroup_unmake(&st->cgroup);
	oci_cgroup_release(&st->cgroup);
	return 0;
}

static int run_first_hooks(const struct oci_container *c, struct err *e)
{
	const struct oci_hooks h = { c->config, c->bundle, NULL };
	/* the environment is made (runtime.md, "State": created is what follows step 2), as crun and runtime-tools have it */
	autojson json_t *state = oci_state_json(c->state, OCI_CREATED);

	return oci_hooks_run(&h, "prestart", state, 0, e) < 0 || oci_hooks_run(&h, "createRuntime", state, 0, e) < 0 ? -1 : 0;
}

/* Sets the process's ids, limits and filter while it mounts. */
static int equip(struct oci_container *c, struct err *e)
{
	const json_t *resources = oci_get(c->linux_part, "resources");
	struct oci_seccomp filter = { 0 };
	int r;

	if (c->new_ns >> NS_USER & 1) {
		if (oci_idmap_write(c->state->pid, oci_get(c->linux_part, "uidMappings"),
				    oci_get(c->linux_part, "gidMappings"), e) < 0)
			return -1;
		if (oci_message_send(c->sock, OCI_MAPPED, 0) < 0)
			return err_sys(e, "speak to the container");
	}
	if (oci_netdevs_move(c, e) < 0 || oci_resources_apply(&c->state->cgroup, resources, e) < 0)
		return -1;
	r = oci_seccomp_compile(&filter, c->config, e);
	if (r == 0) {
		c->filter = filter;
		return 0;
	}
	oci_seccomp_release(&filter);
	return r;
}

/* Serves the process until it is made. */
static int attend_create(struct oci_container *c, struct oci_made *ret, struct err *e)
{
	struct oci_message m;
	int fd, r;

	for (;;) {
		r = oci_message_recv(c->sock, &m, &fd);
		if (r != 1)
			return err_set(e, ERR_SYS, "the container's process died while it was made (out of memory?)");
		switch (m.kind) {
		case OCI_HOOKS:
			if (run_first_hooks(c, e) < 0)
				return -1;
			if (oci_message_send(c->sock, OCI_HOOKED, 0) < 0)
				return err_sys(e, "speak to the container");
			break;
		case OCI_TERMINAL:
			ret->master = fd;
			oci_console_plain(fd);
			break;
		case OCI_IDMAP:
			r = oci_mounts_idmap(c, m.value, fd, e);
			fd_close(&fd);
			if (r < 0)
				return -1;
			if (oci_message_send(c->sock, OCI_IDMAPPED, 0) < 0)
				return err_sys(e, "speak to the container");
			break;
		case OCI_READY:
			return 0;
		case OCI_FAILED:
			*e = m.err;
			return -1;
		default:
			return err_set(e, ERR_INTERNAL, "the container's process says %u", m.kind);
		}
	}
}

/* Made: limits last, as they would bind the making too; then the word to go on. */
static int finish_create(struct oci_container *c, const struct oci_request *r, struct err *e)
{
	oci_dev_forget(c);
	/* v1 begins with denying all: not while the process makes nodes and opens its terminal */
	if (oci_devices_allow(&c->state->cgroup, oci_get2(c->linux_part, "resources", "devices"), e) < 0)
		return -1;
	if (c->process && oci_process_limits(c->process, c->state->pid, c->proc_fd, e) < 0)
		return -1;
	if (r->pidfd_socket && oci_pidfd_send(r->pidfd_socket, c->state->pid, e) < 0)
		return -1;
	if (r->pid_file && oci_pid_file_write(r->pid_file, c->state->pid, e) < 0)
		return -1;
	if (oci_filter_send(c->sock, &c->filter, e) < 0)
		return -1;
	/* from here on its status is created, and it can be started */
	if (c->wait_start && renameat(c->state->dir_fd, OCI_MAKING_SOCKET, c->state->dir_fd, OCI_SOCKET) < 0)
		return err_sys(e, "make " OCI_SOCKET);
	return 0;
}

static int make_oci_container(struct oci_container *c, struct oci_made *ret, const struct oci_request *r, struct err *e)
{
	struct oci_state *st = &ret->state;
	int pair[2];

	if (make_cgroups(c, st, r, e) < 0)
		return -1;
	if (r->console_socket && (c->console_fd = oci_console_connect(r->console_socket, e)) < 0)
		return -1;
	if (c->wait_start && listen_for_start(c, e) < 0)
		return -1;
	if (oci_mounts_open(c, e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "make a socket pair");
	c->sock = pair[1];
	st->pid = oci_clone(c, pair[0], e);
	close(pair[1]);
	c->sock = ret->sock = pair[0];
	if (st->pid < 0) {
		st->pid = 0;
		return -1;
	}
	fd_close(&c->listen_fd);
	st->start_time = oci_start_time(st->pid, NULL);
	json_object_set_new(st->doc, "pid", json_integer(st->pid));
	json_object_set_new(st->doc, "startTime", json_integer((json_int_t)st->start_time));
	if (equip(c, e) < 0 || oci_state_save(st, e) < 0 || attend_create(c, ret, e) < 0 || finish_create(c, r, e) < 0) {
		struct oci_message m;

		/* an earlier failure inside is the cause of the failure here */
		if (e->os_errno == EPIPE && oci_message_recv(c->sock, &m, NULL) == 1 && m.kind == OCI_FAILED)
			*e = m.err;
		return -1;
	}
	return 0;
}

static void release_container(struct oci_container *c)
{
	size_t i;

	for (i = 0; i < c->mount_count; i++) {
		fd_close(&c->mounts[i].map_fd);
		fd_close(&c->mounts[i].fd);
	}
	for (i = 0; i < OCI_NS_COUNT; i++)
		if (c->ns_fd[i] > 0)
			fd_close(&c->ns_fd[i]);
	for (i = 0; i < ARRAY_LEN(c->default_dev_fd); i++)
		if (c->default_dev_fd[i] > 0)
			fd_close(&c->default_dev_fd[i]);
	for (i = 0; i < c->device_count; i++)
		fd_close(&c->device_fd[i]);
	free(c->device_fd);
	fd_close(&c->root_fd);
	fd_close(&c->null_fd);
	fd_close(&c->console_fd);
	fd_close(&c->listen_fd);
	fd_close(&c->proc_fd);
	oci_seccomp_release(&c->filter);
	free(c->mounts);
}

/* Undoes everything; e keeps the first error. */
static void undo_create(struct oci_made *m, int root_fd)
{
	struct err second;

	if (m->state.pid > 0) {
		kill(m->state.pid, SIGKILL);
		while (waitpid(m->state.pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (oci_destroy(&m->state, root_fd, &second) < 0)
		oci_log(OCI_WARNING, "%s; `delete --force %s` clears what is left", second.msg, m->state.id);
}

static int plan_cgroups(struct oci_container *c, struct oci_state *st, const struct oci_request *r, struct err *e)
{
	const char *path = oci_str(c->linux_part, "cgroupsPath");

	if (c->step)	/* the step stays in the build's cgroup */
		return 0;
	if (r->systemd_program < 0)
		return oci_cgroup_plan(&st->cgroup, path, r->id, e);
	return oci_scope_plan(&c->scope, path, r->id, e) < 0 ? -1 : oci_cgroup_plan_scope(&st->cgroup, c->scope.path, e);
}

int oci_create(struct oci_made *ret, int root_fd, const struct oci_request *r, struct err *e)
{
	struct oci_container c = { .id = r->id, .bundle = r->bundle, .no_pivot = r->no_pivot, .preserve_fds = r->preserve_fds,
				   .listen_fds = r->listen_fds, .no_new_keyring = r->no_new_keyring || r->step, .wait_start = !r->run,
				   .step = r->step, .root_fd = -1, .null_fd = -1,
				   .proc_mount_fd = -1, .sys_mount_fd = -1,
				   .console_fd = -1, .listen_fd = -1, .sock = -1, .hook_fds = { -1, -1 } };
	autobuf struct buf text = BUF_INIT(OCI_DOCUMENT_MAX);
	int made = 0, result = -1;

	memset(ret, 0, sizeof(*ret));
	ret->sock = ret->master = ret->state.dir_fd = ret->notify_fd = -1;
	if (oci_id_fault(r->id))
		return err_set(e, ERR_INVALID, "container id '%.64s' %s", r->id, oci_id_fault(r->id));
	c.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c.proc_fd < 0)
		return err_sys(e, "open /proc");
	if (chdir(r->bundle) < 0) {
		err_sys(e, "enter bundle %s", r->bundle);
		goto out;
	}
	if (oci_bundle_load(&c, r, root_fd, &text, e) < 0)
		goto out;
	if (oci_state_new(&ret->state, root_fd, r->id, e) < 0)
		goto out;
	made = 1;
	c.state = &ret->state;
	if (plan_cgroups(&c, &ret->state, r, e) < 0 ||
	    check_vacant(&ret->state, e) < 0 || record_container(&c, &ret->state, &text, e) < 0 ||
	    oci_notify_make_dir(ret->state.dir_fd, e) < 0 ||
	    (r->run && oci_notify_bind(ret->state.dir_fd, &ret->notify_fd, e) < 0) || make_oci_container(&c, ret, r, e) < 0)
		goto out;
	oci_state_unlock(&ret->state);
	ret->config = c.config;
	c.config = NULL;
	result = 0;
out:
	if (result < 0) {
		fd_close(&ret->sock);
		fd_close(&ret->notify_fd);
		if (made)
			undo_create(ret, root_fd);
		fd_close(&ret->master);
		oci_state_release(&ret->state);
	}
	oci_scope_end(&c.scope);
	release_container(&c);
	json_decref(c.config);
	return result;
}

void oci_made_release(struct oci_made *m)
{
	fd_close(&m->sock);
	fd_close(&m->master);
	fd_close(&m->notify_fd);
	oci_state_release(&m->state);
	json_decref(m->config);
	m->config = NULL;
}

/* ---- the clone ---- */

/* The clone of a container's process into its namespaces, new ones and those that it joins. */

static long sys_clone3(struct clone_args *a)
{
	return syscall(SYS_clone3, a, sizeof(*a));
}

/* New namespaces at once; the cgroup one only after the cgroups are joined, time only affects children. */
static pid_t clone_process(struct oci_container *c, uint64_t extra, struct err *e)
{
	struct clone_args a = { .flags = extra, .exit_signal = extra & CLONE_PARENT ? 0 : SIGCHLD };
	const int cgroup = oci_cgroup_clone_fd(&c->state->cgroup);
	int n;
	long pid;

	for (n = 0; n < OCI_NS_COUNT; n++)
		if (c->new_ns >> n & 1 && n != NS_CGROUP && n != NS_TIME)
			a.flags |= (uint64_t)oci_ns_types[n].flag;
	if (cgroup >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)cgroup;
	}
	pid = sys_clone3(&a);
	/* a filter that wants to see the flags forbids clone3; no cgroup is there to be born in then (step.h) */
	if (pid < 0 && errno == ENOSYS && cgroup < 0)
		pid = syscall(SYS_clone, (unsigned long)(a.flags | a.exit_signal), 0, 0, 0, 0);
	/* before Linux 5.7, or if a filter in between forbids it */
	if (pid < 0 && cgroup >= 0 && (errno == EINVAL || errno == E2BIG || errno == EACCES || errno == EOPNOTSUPP)) {
		a.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
		a.cgroup = 0;
		c->enter_v2 = 1;
		pid = sys_clone3(&a);
	}
	return pid < 0 ? err_sys(e, "clone into new namespaces") : (pid_t)pid;
}

static int set_time_offsets(const struct oci_container *c, struct err *e)
{
	json_t *map = oci_get(c->linux_part, "timeOffsets"), *v;
	char text[256];
	const char *clock;
	int n = 0;

	if (unshare(CLONE_NEWTIME) < 0)
		return err_sys(e, "make a time namespace");
	json_object_foreach(map, clock, v) {
		if (strcmp(clock, "monotonic") != 0 && strcmp(clock, "boottime") != 0)
			return err_set(e, ERR_INVALID, "linux.timeOffsets: '%.32s' is not monotonic or boottime", clock);
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s %lld %llu\n", clock,
			      (long long)oci_i64(v, "secs", 0), (unsigned long long)oci_u64(v, "nanosecs", 0));
	}
	return n ? io_write_file(c->proc_fd, "self/timens_offsets", text, e) : 0;
}

static int needs_joiner(const struct oci_container *c)
{
	int n;

	for (n = 0; n < OCI_NS_COUNT; n++)
		if (c->ns_fd[n] >= 0)
			return 1;
	return c->new_ns >> NS_TIME & 1;
}

/*
 * Joins the namespaces. Those that a user namespace to be joined owns can be joined only from
 * inside it, those of the host only from outside, so both are tried.
 */
static int join_all(const struct oci_container *c, struct err *e)
{
	/* the mount namespace last: paths change with it */
	static const enum oci_ns order[] = { NS_NET, NS_IPC, NS_UTS, NS_PID, NS_CGROUP, NS_TIME, NS_MOUNT };
	uint32_t left = 0;
	size_t i;
	int round;

	for (i = 0; i < ARRAY_LEN(order); i++)
		if (c->ns_fd[order[i]] >= 0)
			left |= 1u << order[i];
	for (round = 0; round < 2; round++) {
		for (i = 0; i < ARRAY_LEN(order); i++) {
			const enum oci_ns n = order[i];

			if (!(left >> n & 1) || (round == 0 && n == NS_MOUNT && c->ns_fd[NS_USER] >= 0))
				continue;
			if (setns(c->ns_fd[n], oci_ns_types[n].flag) == 0)
				left &= ~(1u << n);
			else if (round == 1 || c->ns_fd[NS_USER] < 0)
				return err_sys(e, "join the %s namespace", oci_ns_types[n].word);
		}
		if (round == 0 && c->ns_fd[NS_USER] >= 0 && setns(c->ns_fd[NS_USER], CLONE_NEWUSER) < 0)
			return err_sys(e, "join the user namespace");
	}
	return 0;
}

struct joined {
	pid_t pid;
	int enter_v2;
	struct err err;
};

static void run_create_joiner(struct oci_container *c, struct joined *out, int runtime_sock)
{
	pid_t pid = -1;

	if (join_all(c, &out->err) == 0 && (!(c->new_ns >> NS_TIME & 1) || set_time_offsets(c, &out->err) == 0))
		pid = clone_process(c, CLONE_PARENT, &out->err);
	if (pid == 0) {
		close(runtime_sock);
		oci_init(c);
	}
	out->enter_v2 = c->enter_v2;
	out->pid = pid;
	_exit(pid < 0);
}

static pid_t clone_by_joiner(struct oci_container *c, int runtime_sock, struct err *e)
{
	struct joined *out = mmap(NULL, sizeof(*out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid, helper;

	if (out == MAP_FAILED)
		return err_nomem(e);
	out->pid = -1;
	err_set(&out->err, ERR_INTERNAL, "the process that joins namespaces died");
	helper = fork();
	if (helper < 0)
		return err_sys(e, "fork");
	if (helper == 0)
		run_create_joiner(c, out, runtime_sock);
	while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
		;
	pid = out->pid;
	if (pid < 0)
		*e = out->err;
	munmap(out, sizeof(*out));
	return pid;
}

pid_t oci_clone(struct oci_container *c, int runtime_sock, struct err *e)
{
	pid_t pid;

	if (needs_joiner(c))
		return clone_by_joiner(c, runtime_sock, e);
	pid = clone_process(c, 0, e);
	if (pid == 0) {
		close(runtime_sock);
		oci_init(c);
	}
	return pid;
}
