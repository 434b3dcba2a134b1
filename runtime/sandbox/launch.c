/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/phases.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/kernel/newmount.h"
#include "runtime/sandbox/birth.h"
#include "runtime/sandbox/child.h"
#include "runtime/sandbox/hostimage.h"
#include "runtime/sandbox/mounts.h"
#include "runtime/sandbox/writable.h"

/* linux/pidfd.h of Linux 6.11; Debian 12's headers are older */
#ifndef PIDFD_GET_MNT_NAMESPACE
#define PIDFD_GET_MNT_NAMESPACE _IO(0xff, 3)
#define PIDFD_GET_USER_NAMESPACE _IO(0xff, 9)
#endif

void sandbox_init(struct sandbox *sb, const struct spec *s)
{
	memset(sb, 0, offsetof(struct sandbox, plan));
	sb->plan.count = sb->plan.spare_count = 0;
	sb->spec = s;
	filterwatch_init(&sb->filters);
	sb->leader_fd = -1;
	sb->pidfd = sb->sock = sb->base_fd = sb->host_fd = sb->pts_fd = sb->control_fd = sb->mntns_fd = sb->proc_fd = sb->io_fd = -1;
	sb->silence.fd = -1;
	layerguard_init(&sb->guard);
	nethelper_init(&sb->net), nethelper_init(&sb->proxy), nethelper_init(&sb->relay);
}

struct inner {
	const struct sandbox *sb;
	struct child *c;
};

static void run_inner(void *ctx)
{
	struct inner *i = ctx;

	close(i->sb->sock);
	child_run(i->c);
}

static int clone_inside(struct sandbox *sb, struct child *c, struct err *e)
{
	struct inner inner = { sb, c };
	struct nested n = { .spec = sb->spec, .cgroup_fd = sb->cgroup.v2_fd, .run = run_inner,
			    .ctx = &inner };
	int r = nested_clone(&n, e);

	sb->pid = n.pid;
	sb->pidfd = n.pidfd;
	return r;
}

static int clone_sandbox_child(struct sandbox *sb, int child_sock, struct err *e)
{
	struct clone_args a = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_PIDFD | CLONE_INTO_CGROUP,
		.pidfd = (uint64_t)(uintptr_t)&sb->pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)sb->cgroup.v2_fd,
	};
	struct child c = {
		.spec = sb->spec, .filters = &sb->filters, .sock = child_sock,
		.proc_mnt = -1, .knobs_fd = -1,
		.in = { .sock = child_sock, .plan = &sb->plan, .init_fd = -1 },
	};
	struct birth b = BIRTH_NONE;
	struct err ignored;
	int saved;
	pid_t pid;

	if (sb->spec->inside)
		return clone_inside(sb, &c, e);
	if (birth_begin(&b, sb->spec, e) < 0) {
		birth_end(&b, &ignored);
		return -1;
	}
	pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0) {
		close(sb->sock);
		child_run(&c);
	}
	saved = errno;
	if (pid > 0)
		sb->pid = pid;	/* from here on the child can be killed, whatever fails */
	if (birth_end(&b, e) < 0)
		return -1;
	errno = saved;
	if (pid < 0) {
		if (errno == ENOSPC)
			return err_code_sys(e, ERR_UNSUPPORTED, "make a user namespace; hint: raise "
					    "/proc/sys/user/max_user_namespaces");
		err_sys(e, "clone the sandbox");
		if (e->os_errno == EPERM)
			err_hint(e, "user namespaces are refused inside a chroot, and where an LSM or sysctl forbids them; "
				 "`berth doctor` tells");
		return -1;
	}
	return 0;
}

static int open_proc(struct sandbox *sb, struct err *e)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", sb->pid);
	sb->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (sb->proc_fd < 0)
		return err_sys(e, "open %s", path);
	if (!sb->spec->resident)	/* -1 without CONFIG_TASK_IO_ACCOUNTING */
		sb->io_fd = openat(sb->proc_fd, "io", O_RDONLY | O_CLOEXEC);
	return 0;
}

/*
 * Opens one of the child's namespaces: by its pidfd (Linux 6.11), or by its name in /proc, which
 * costs several times as much. -1 with errno.
 */
static int open_namespace(const struct sandbox *sb, unsigned long request, const char *name)
{
	int fd = ioctl(sb->pidfd, request, 0);

	return fd >= 0 ? fd : openat(sb->proc_fd, name, O_RDONLY | O_CLOEXEC);
}

/* The cgroups that the child joins, made while it pivots. */
static int complete_cgroups(struct sandbox *sb, struct err *e)
{
	struct cgroup_limits l = sb->spec->limits;

	l.no_io = sb->io_fd >= 0;
	return cgroup_complete(&sb->cgroup, &l, e);
}

/* Maps one range of uids and one of gids; the kernel takes exactly one write to each file. */
static int map_sandbox_ids(const struct sandbox *sb, struct err *e)
{
	char map[4096];	/* the kernel takes less than a page */
	size_t len, i;

	if (sb->spec->inside)
		return 0;	/* nested_clone() has */
	len = (size_t)snprintf(map, sizeof(map), "0 %u %u\n", sb->spec->id_base, SPEC_IDS);
	for (i = 0; i < sb->spec->inner_count && len < sizeof(map); i++)
		len += (size_t)snprintf(map + len, sizeof(map) - len, "%zu %u %u\n",
					(i + 1) * SPEC_IDS, sb->spec->inner_base[i], SPEC_IDS);
	if (len >= sizeof(map))
		return err_set(e, ERR_INTERNAL, "a map of ids longer than a page");
	return io_write_file(sb->proc_fd, "uid_map", map, e) < 0 ? -1 : io_write_file(sb->proc_fd, "gid_map", map, e);
}

static int make_writable(struct sandbox *sb, const struct launch_place *where, struct err *e)
{
	sb->host_fd = where->disk_dirfd;
	if (where->disk_dirfd >= 0)
		sb->base_fd = where->lasting ? writable_lasting(sb->spec, where->disk_dirfd, where->models_fd, e) :
					       writable_file(sb->spec, where->disk_dirfd, NULL, where->models_fd, e);
	else
		sb->base_fd = writable_memory(sb->spec, e);
	if (sb->base_fd < 0)
		return -1;
	return writable_seed(sb->spec, sb->base_fd, e);
}

/* A descriptor that the child hands over under a tag, or its last words. */
static int receive_fd(struct sandbox *sb, uint32_t wanted, const char *what, struct err *e)
{
	struct init_reply r;
	int fd = -1;
	uint32_t tag = 0;
	size_t n;
	ssize_t got = fdpass_recv(sb->sock, &r, sizeof(r), &fd, 1, &n);

	/* as in sandbox_reply(): the child failed before it read our packet */
	if (got < 0 && errno == ECONNRESET)
		got = fdpass_recv(sb->sock, &r, sizeof(r), &fd, 1, &n);
	if (got == (ssize_t)sizeof(tag))
		memcpy(&tag, &r, sizeof(tag));
	if (tag == wanted && n == 1)
		return fd;
	if (got == (ssize_t)sizeof(r) && r.magic == INIT_MAGIC && r.type == INIT_SETUP_FAILED) {
		r.err.msg[sizeof(r.err.msg) - 1] = '\0';
		*e = r.err;
		return -1;
	}
	return err_set(e, ERR_INTERNAL, "the sandbox ended before it handed over its %s", what);
}

static int start_network(struct sandbox *sb, const struct launch_place *where, struct err *e)
{
	autoclose int netns = -1;

	if (!spec_hands_netns(sb->spec))
		return nethelper_watch(&sb->net, sb->spec, e);
	netns = receive_fd(sb, CHILD_NETNS, "network namespace", e);
	if (netns < 0)
		return -1;
	if (spec_needs_nethelper(sb->spec) && (nethelper_start(&sb->net, sb->spec, netns, where->net_log_dir, e) < 0 ||
					       nethelper_start_member(&sb->proxy, sb->spec, netns, e) < 0))
		return -1;
	return nethelper_start_relay(&sb->relay, sb->spec, netns, e);
}

/* Upholds S12 of SECURITY.md. */
int sandbox_tty(struct sandbox *sb, int *ret_master, int *ret_slave, struct err *e)
{
	autoclose int master = openat(sb->pts_fd, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW);
	autoclose int slave = -1;
	int unlock = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_sys(e, "open a terminal in the sandbox");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || fchown(slave, sb->spec->id_base, sb->spec->id_base + 5) < 0)
		return err_sys(e, "open the terminal's slave side");
	*ret_master = take_fd(&master);
	*ret_slave = take_fd(&slave);
	return 0;
}

static int keep_control(struct sandbox *sb, struct err *e)
{
	size_t i;

	for (i = 0; i < sb->plan.count; i++)
		if (sb->plan.ops[i].kind == MOUNT_CONTROL)
			sb->control_fd = fcntl(sb->plan.ops[i].fd, F_DUPFD_CLOEXEC, 3);
	return sb->spec->resident && sb->control_fd < 0 ? err_sys(e, "keep the control directory") : 0;
}

struct handing {
	struct sandbox *sb;
	struct handover out;
};

/* The cgroups are made while the child pivots; it joins them before it looks at anything of the image. */
static int hand_over_cgroups(struct sandbox *sb, struct err *e)
{
	if (complete_cgroups(sb, e) < 0)
		return -1;
	if (handover_send_cgroups(sb->sock, &sb->cgroup) == 0)
		return 0;
	err_sys(e, "hand the cgroups to the sandbox");
	return sandbox_prefer_error(sb, e);
}

/* The cgroups are there now: detached copies of those that the plan shows, as far as this process can see them. */
static int show_cgroups(struct sandbox *sb, struct err *e)
{
	size_t i;

	for (i = 0; i < sb->plan.count; i++) {
		struct mount_op *op = &sb->plan.ops[i];

		if (op->kind != MOUNT_V1)
			continue;
		op->fd = newmount_clone(sb->cgroup.v1_fd[op->hierarchy], "", 0, op->attr, e);
		if (op->fd < 0)
			return err_wrap(e, "show the sandbox %s", op->target);
	}
	return 0;
}

/*
 * Sends the mounts. The first packet also has the writable layer's file system, for the child to
 * unmount with the host's root.
 */
static int hand_over_mounts(void *ctx, size_t end, struct err *e)
{
	struct handing *h = ctx;
	int first = !h->out.next;

	if (handover_send_mounts(&h->out, end, first ? h->sb->base_fd : -1, -1, e) < 0)
		return sandbox_prefer_error(h->sb, e);
	return first && (hand_over_cgroups(h->sb, e) < 0 || show_cgroups(h->sb, e) < 0) ? -1 : 0;
}

/* The child takes and attaches them while we make the next. */
static int make_mounts(struct sandbox *sb, const struct launch_place *where, int userns, struct err *e)
{
	struct handing h = { sb, { .sock = sb->sock, .plan = &sb->plan } };
	autoclose int init_fd = -1;

	phase_enter(PHASE_WRITABLE);
	if (make_writable(sb, where, e) < 0)
		return -1;
	phase_enter(PHASE_MOUNTS);
	if (mounts_prepare(&sb->plan, sb->spec, userns, sb->base_fd, where->scratch, hand_over_mounts, &h, e) < 0 ||
	    keep_control(sb, e) < 0)
		return -1;
	if (where->lasting)
		writable_hold_spares(sb->base_fd);
	layerguard_begin(&sb->guard, sb->base_fd, sb->host_fd, where->disk_reserve);
	/* the zygote's user owns the fork's user namespace, and could trace its init */
	init_fd = sandbox_init_program(sb->spec->inside != NULL, e);
	phase_enter(PHASE_NETWORK);
	if (init_fd < 0 || nethelper_ready(&sb->net, e) < 0 || nethelper_ready(&sb->proxy, e) < 0 || nethelper_ready(&sb->relay, e) < 0)
		return -1;
	phase_enter(PHASE_INIT);
	if (handover_send_mounts(&h.out, sb->plan.count, -1, init_fd, e) < 0)
		return sandbox_prefer_error(sb, e);
	return 0;
}

static int launch_sandbox(struct sandbox *sb, const struct launch_place *where, struct err *e)
{
	const struct spec *s = sb->spec;
	const char *const *host_dirs = s->host_image ? hostimage_dirs() : NULL;
	autoclose int child_sock = -1, userns = -1;
	int sv[2];

	phase_enter(PHASE_CGROUP);
	if (spec_network_inside(s) == NETWORK_BRIDGE && !s->net_dir)
		return err_set(e, ERR_INTERNAL, "no directory for the files of the network");
	if (s->host_image && !host_dirs)
		return err_sys(e, "look at the directories of the host image");
	if (spec_check(s, e) < 0 || mountplan_build(&sb->plan, s, host_dirs, e) < 0 ||
	    filterwatch_prepare(&sb->filters, s, e) < 0 ||
	    cgroup_begin(&sb->cgroup, s->cgroup_parent, s->id, &s->limits, e) < 0)
		return -1;
	phase_enter(PHASE_PROCESS);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, "make the control socket");
	sb->sock = sv[0];
	child_sock = sv[1];
	if (clone_sandbox_child(sb, child_sock, e) < 0)
		return -1;
	fd_close(&child_sock);
	if (open_proc(sb, e) < 0)
		return -1;
	userns = open_namespace(sb, PIDFD_GET_USER_NAMESPACE, "ns/user");
	if (userns < 0) {
		err_sys(e, "open the sandbox's user namespace");
		return sandbox_prefer_error(sb, e);
	}
	if (map_sandbox_ids(sb, e) < 0)
		return sandbox_prefer_error(sb, e);
	if (handover_send_mapped(sb->sock) < 0) {
		err_sys(e, "tell the sandbox of its ids");
		return sandbox_prefer_error(sb, e);
	}
	phase_enter(PHASE_NETWORK);
	if (start_network(sb, where, e) < 0)
		return -1;
	if (make_mounts(sb, where, userns, e) < 0)
		return sandbox_prefer_error(sb, e);
	if ((s->tty || s->resident) && (sb->pts_fd = receive_fd(sb, CHILD_PTS, "terminals", e)) < 0)
		return -1;
	return s->resident ? sb->cgroup.ops->house(&sb->cgroup, sb->pid, e) : 0;
}

int sandbox_launch(struct sandbox *sb, const struct launch_place *where, struct err *e)
{
	mode_t old = umask(0);	/* modes inside the sandbox are what we say, not the caller's umask */
	int r = launch_sandbox(sb, where, e);

	umask(old);
	return r;
}

/* Adds what a /proc/PID/io file says; 0 bytes when it cannot be read. */
static void add_process_io(struct sandbox *sb, int fd)
{
	char text[512];
	const char *p;
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	if ((p = strstr(text, "\nread_bytes: ")))
		sb->read_bytes += strtoull(p + strlen("\nread_bytes: "), NULL, 10);
	if ((p = strstr(text, "\nwrite_bytes: ")))
		sb->written_bytes += strtoull(p + strlen("\nwrite_bytes: "), NULL, 10);
}

/*
 * Init may or may not reap, and so count, a process that dies with it. So we read the figures of
 * all living processes before the kill, and do not ask init after it.
 */
static void add_living_io(struct sandbox *sb)
{
	char pids[65536], path[64], *p = pids;
	int n = cgroup_read(sb->cgroup.v2_fd, "cgroup.procs", pids, sizeof(pids));

	while (n > 0 && *p) {
		long pid = strtol(p, &p, 10);
		autoclose int fd = -1;

		snprintf(path, sizeof(path), "/proc/%ld/io", pid);
		if (pid > 0)
			fd = open(path, O_RDONLY | O_CLOEXEC);
		add_process_io(sb, fd);
		p += strspn(p, "\n");
	}
}

int sandbox_kill(struct sandbox *sb, struct err *e)
{
	if (sb->io_fd >= 0 && !sb->killed)
		add_living_io(sb);
	sb->killed = 1;
	return cgroup_kill(&sb->cgroup, e);
}

int sandbox_reap(struct sandbox *sb, int timeout_ms, struct err *e)
{
	struct pollfd p = { .fd = sb->pidfd, .events = POLLIN };
	int n, wait_ms = timeout_ms;
	uint64_t files = 0;

	if (sb->pid <= 0)
		return 0;
	do
		n = poll(&p, 1, wait_ms);
	while ((n < 0 && errno == EINTR) ||
	       (n == 0 && timeout_ms >= CGROUP_END_MS && (wait_ms = (int)cgroup_more_ms(&files)) > 0));
	if (n < 0)
		return err_sys(e, "wait for the sandbox's init");
	if (n == 0)
		return err_set(e, ERR_TIMEOUT, "the sandbox's init outlived SIGKILL by %d ms", timeout_ms);
	if (!sb->killed)
		add_process_io(sb, sb->io_fd);	/* reads the zombie's counters, which include those of
						 * processes that it reaped */
	while (waitpid(sb->pid, NULL, 0) < 0 && errno == EINTR)
		;
	sb->pid = 0;
	return 0;
}

void sandbox_settle(struct sandbox *sb)
{
	mounts_release(&sb->plan);
}

int sandbox_swap_mount(struct sandbox *sb, const char *target, const char *source, struct err *e)
{
	autoclose int userns = open_namespace(sb, PIDFD_GET_USER_NAMESPACE, "ns/user");
	autoclose int mntns = open_namespace(sb, PIDFD_GET_MNT_NAMESPACE, "ns/mnt");

	if (userns < 0 || mntns < 0)
		return err_sys(e, "open the sandbox's namespaces");
	return mounts_swap(&sb->plan, target, source, userns, mntns, e);
}

void sandbox_hold_mounts(struct sandbox *sb)
{
	/* the host's, if the child has not made its own yet: then init takes its mounts down itself */
	sb->mntns_fd = open_namespace(sb, PIDFD_GET_MNT_NAMESPACE, "ns/mnt");
}

int sandbox_destroy(struct sandbox *sb, struct err *e)
{
	struct err ignored;
	int r;

	mounts_release(&sb->plan);
	fd_close(&sb->sock);	/* init ends on this, too */
	if (sb->pid > 0) {
		cgroup_kill(&sb->cgroup, &ignored);
		kill(sb->pid, SIGKILL);	/* ours and not reaped yet: the pid cannot be another's */
		sandbox_reap(sb, CGROUP_END_MS, &ignored);
	}
	silence_close(&sb->silence);
	filterwatch_close(&sb->filters);
	layerguard_end(&sb->guard);
	fd_close(&sb->base_fd);
	fd_close(&sb->mntns_fd);
	nethelper_stop(&sb->relay, sb->spec, &ignored);
	nethelper_stop(&sb->proxy, sb->spec, &ignored);
	r = nethelper_stop(&sb->net, sb->spec, e);
	if (cgroup_destroy(&sb->cgroup, e) < 0)
		r = -1;
	fd_close(&sb->pidfd);
	fd_close(&sb->proc_fd);
	fd_close(&sb->leader_fd);
	fd_close(&sb->io_fd);
	fd_close(&sb->pts_fd);
	fd_close(&sb->control_fd);
	cgroup_release(&sb->cgroup);
	return r;
}
