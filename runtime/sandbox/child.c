/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation.  clone3 made us pid 1 of a new pid namespace, in a new
 * user namespace (all capabilities there, none on the host) and in the v2
 * cgroup of the sandbox.  We leave the remaining host namespaces, the network's when
 * the supervisor has mapped our ids, pivot to the root, join what limits us (v1), and
 * only then look at the image: we attach the mounts that the supervisor makes
 * meanwhile, on another CPU.  Then we give up, step by step, everything that init
 * and the payload shall not have.
 *
 * A flat list of steps; the first that fails is reported and ends the sandbox.
 * No malloc, no stdio streams, no locks.
 */
#include "runtime/sandbox/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/caps.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/kernel/landlock.h"
#include "runtime/kernel/userns.h"
#include "runtime/sandbox/initproto.h"
#include "runtime/sandbox/mounts.h"

/*
 * Closes the supervisor's descriptors, except the control socket and 0 to 2. The most important one
 * is its lock, which we would hold after its end.
 */
static int child_close_supervisors(struct child *c, struct err *e)
{
	const unsigned sock = (unsigned)c->sock;

	if ((sock > 3 && syscall(SYS_close_range, 3, sock - 1, 0) < 0) || syscall(SYS_close_range, sock + 1, ~0U, 0) < 0)
		return err_sys(e, "close the supervisor's descriptors");
	return 0;
}

static int refused_namespace(const char *what, struct err *e)
{
	err_sys(e, "%s", what);
	if (e->os_errno == ENOSPC)
		err_hint(e, "raise the max_*_namespaces of /proc/sys/user");
	return -1;
}

static int child_leave_namespaces(struct child *c, struct err *e)
{
	(void)c;
	return timens_unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) < 0 ?
	       refused_namespace("make the sandbox's namespaces", e) : 0;
}

static int set_clocks(struct child *c, struct err *e)
{
	(void)c;
	return timens_zero(e);
}

/*
 * Makes the network when the ids are mapped: root of the sandbox owns /proc/net, for which the
 * kernel looks once (proc_net_ns_init() in fs/proc/proc_net.c).
 */
static int child_make_network(struct child *c, struct err *e)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	autoclose int sock = -1;

	handover_receive_mapped(c->sock);
	/* a child that joins another sandbox's network is in it already (clone_child() in launch.c) */
	if (c->spec->network == NETWORK_HOST || c->spec->network == NETWORK_JOINED)
		return 0;
	if (unshare(CLONE_NEWNET) < 0)
		return refused_namespace("make the sandbox's network namespace", e);
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &ifr) < 0)
		return err_sys(e, "bring up the loopback interface");
	return 0;
}

/* berth-net makes the network from the host's side, while we pivot and mount; init's program comes when it is done. */
static int hand_over_netns(struct child *c, struct err *e)
{
	uint32_t tag = CHILD_NETNS;
	autoclose int ns = -1;

	if (!spec_hands_netns(c->spec))
		return 0;
	ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (ns < 0 || fdpass_send(c->sock, &tag, sizeof(tag), &ns, 1) < 0)
		return err_sys(e, "hand over the network namespace");
	return 0;
}

static int set_hostname(struct child *c, struct err *e)
{
	if (sethostname(c->spec->hostname, strlen(c->spec->hostname)) < 0)
		return err_sys(e, "set the hostname");
	if (c->spec->domainname && setdomainname(c->spec->domainname, strlen(c->spec->domainname)) < 0)
		return err_sys(e, "set the domainname");
	return 0;
}

/* Waits for the supervisor; its death is our end.  From here on all we use is accounted to the sandbox, and limited. */
static int child_join_cgroups(struct child *c, struct err *e)
{
	int fds[CGROUP_JOIN_MAX];
	size_t n = 0, i;

	if (handover_receive_cgroups(c->sock, fds, &n, e) < 0)
		return -1;
	if (cgroup_join_self(fds, n) < 0)
		return err_sys(e, "join the sandbox's cgroups");
	for (i = 0; i < n; i++)
		close(fds[i]);
	return 0;
}

/*
 * Enters a new cgroup namespace, after joining the cgroups, because our present cgroup becomes the
 * root of the view: the sandbox sees no name of the host's.
 */
static int leave_cgroup_namespace(struct child *c, struct err *e)
{
	(void)c;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(e, "make the sandbox's cgroup namespace");
	return 0;
}

/* Changes from the unmapped host root to root of the sandbox, an ordinary user of the host (S3). */
static int become_sandbox_root(struct child *c, struct err *e)
{
	(void)c;
	/* the calls themselves: libc's functions first block signals, five calls each, to reach threads that we do not have */
	if (syscall(SYS_setgroups, (size_t)0, NULL) < 0)
		return err_sys(e, "drop supplementary groups");
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return err_sys(e, "become root of the sandbox");
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_sys(e, "forbid being traced");
	/* cleared by the change of ids above, so not earlier; init sees the socket close if we lose the race */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_sys(e, "tie the sandbox to its supervisor");
	if (setsid() < 0 && errno != EPERM)
		return err_sys(e, "start a session");
	return 0;
}

/* Waits until the supervisor has made the root. */
static int receive_root(struct child *c, struct err *e)
{
	return handover_receive_mounts(&c->in, e);
}

static int child_enter_root(struct child *c, struct err *e)
{
	umask(0);
	return mounts_enter_root(c->in.plan, c->spec, &c->proc_mnt, &c->knobs_fd, e);
}

static int child_mount_all(struct child *c, struct err *e)
{
	return mounts_enter(&c->in, c->spec, c->proc_mnt, e);
}

/*
 * Reads each mount's flags back from the kernel (T10). A mask below /proc/sys has the flags of
 * the file that it hides, so its file system is checked too: it must be a file or directory of
 * our /dev.
 */
static int verify_mounts(struct child *c, struct err *e)
{
	size_t i;

	for (i = 0; i < c->in.plan->count; i++) {
		const struct mount_op *op = &c->in.plan->ops[i];
		struct statfs st;

		if (statfs(op->target, &st) < 0) {
			if (errno == ENOENT && (op->kind == MOUNT_MASK || op->kind == MOUNT_BOOT || op->kind == MOUNT_RDONLY))
				continue;
			return err_sys(e, "read back the mount at %s", op->target);
		}
		if ((op->kind == MOUNT_MASK || op->kind == MOUNT_BOOT) && (unsigned long)st.f_type != TMPFS_MAGIC)
			return err_set(e, ERR_INTERNAL, "the kernel does not report the mask of %s", op->target);
		if (mounts_check_flags(op->target, (unsigned long)st.f_flags, op->attr, e) < 0)
			return -1;
	}
	return 0;
}

/*
 * The sandbox's own devpts, handed over before any payload exists: the
 * supervisor opens terminals through this descriptor, by no path (E07, K11).
 */
static int hand_over_pts(struct child *c, struct err *e)
{
	uint32_t tag = CHILD_PTS;
	autoclose int pts = -1;

	if (!c->spec->tty && !c->spec->resident)
		return 0;
	pts = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (pts < 0 || fdpass_send(c->sock, &tag, sizeof(tag), &pts, 1) < 0)
		return err_sys(e, "hand over /dev/pts");
	return 0;
}

/* Receives init's program, which comes with the last of the mounts. */
static int receive_program(struct child *c, struct err *e)
{
	while (c->in.init_fd < 0)
		if (handover_receive_mounts(&c->in, e) < 0)
			return -1;
	return 0;
}

/*
 * The limit on further namespaces; it is set after all our own were made, because they count. Those
 * of a zygote's forks are made inside its own: several of a kind, as the kernel counts a detached
 * mount as a mount namespace, and ended ones for a while. The zygote's filters still refuse it to
 * make any.
 */
#define NAMESPACES_A_FORK 8
static int forbid_namespaces(struct child *c, struct err *e)
{
	const size_t inner = c->spec->inner_count;

	return mounts_limit_namespaces(c->knobs_fd, inner ? NAMESPACES_A_FORK * inner + 1 : 0, e);
}

/* A session keyring of its own: none of the caller's keys are reachable (K08). */
static int child_join_keyring(struct child *c, struct err *e)
{
	(void)c;
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return err_sys(e, "make a session keyring");
	return 0;
}

static int child_limit_resources(struct child *c, struct err *e)
{
	int i;

	for (i = 0; i < RLIMITS_COUNT; i++) {
		const struct rlimits *r = &c->spec->rlimits;
		struct rlimit l = { r->v[i].soft, r->v[i].hard }, got;

		if (!(r->set & 1u << i))
			continue;
		if (setrlimit(i, &l) < 0 || getrlimit(i, &got) < 0)
			return err_sys(e, "set the limit %s", rlimits_name((unsigned)i));
		if (got.rlim_cur != l.rlim_cur || got.rlim_max != l.rlim_max)
			return err_set(e, ERR_INTERNAL, "the limit %s does not read back", rlimits_name((unsigned)i));
	}
	return 0;
}

/* Upholds S5 of SECURITY.md. */
/* The control socket becomes 3, 0-2 the sandbox's /dev/null, everything else is closed (E01, E03, E04). */
static int close_descriptors(struct child *c, struct err *e)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
	int i;

	if (null < 0)
		return err_sys(e, "open /dev/null in the sandbox");
	if (c->sock != INIT_SOCKET_FD && c->in.init_fd == INIT_SOCKET_FD) {
		c->in.init_fd = fcntl(c->in.init_fd, F_DUPFD_CLOEXEC, 16);
		if (c->in.init_fd < 0)
			return err_sys(e, "arrange descriptors");
	}
	for (i = 0; i < 3; i++)
		if (dup2(null, i) < 0)
			return err_sys(e, "arrange descriptors");
	if (c->sock == INIT_SOCKET_FD ? fcntl(c->sock, F_SETFD, 0) < 0 : dup2(c->sock, INIT_SOCKET_FD) < 0)
		return err_sys(e, "arrange descriptors");
	c->sock = INIT_SOCKET_FD;
	if (dup2(c->in.init_fd, INIT_SOCKET_FD + 1) < 0 || fcntl(INIT_SOCKET_FD + 1, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "arrange descriptors");
	c->in.init_fd = INIT_SOCKET_FD + 1;
	if (syscall(SYS_close_range, INIT_SOCKET_FD + 2, ~0U, 0) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

static const uint64_t init_caps = 1ULL << CAP_KILL | 1ULL << CAP_SETUID | 1ULL << CAP_SETGID;

static int child_set_caps(uint64_t keep, uint64_t inheritable, struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];
	unsigned i;

	if (syscall(SYS_capget, &h, d) < 0)
		return err_sys(e, "read capabilities");
	for (i = 0; i < 2; i++) {
		d[i].inheritable = (uint32_t)(inheritable >> (32 * i));
		d[i].permitted &= (uint32_t)(keep >> (32 * i));
		d[i].effective = d[i].permitted;
	}
	return syscall(SYS_capset, &h, d) < 0 ? err_sys(e, "drop capabilities") : 0;
}

/* Upholds S4 of SECURITY.md. */
/*
 * The bounding set limits what the payload can ever hold. It counts from the exec of init on, so
 * we drop it while we have to wait anyway. Init keeps KILL, SETUID and SETGID through its exec
 * as inheritable capabilities and clears them there. Nothing outside the bounding set can become
 * inheritable (capset(2)), so these are set first.
 */
static int drop_bounding_set(struct child *c, struct err *e)
{
	unsigned i;

	if (child_set_caps(~0ULL, init_caps, e) < 0)
		return -1;
	for (i = 0; i <= 63; i++) {
		if (i <= CAPS_LAST && c->spec->caps & 1ULL << i)
			continue;
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break;	/* past the kernel's last capability */
			return err_sys(e, "drop capability %u", i);
		}
	}
	return 0;
}

/* Upholds S4 of SECURITY.md. */
static int child_drop_capabilities(struct child *c, struct err *e)
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, "clear ambient capabilities");
	return child_set_caps(c->spec->caps | init_caps, init_caps, e);
}

static int no_new_privileges(struct child *c, struct err *e)
{
	(void)c;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	return 0;
}

static int enter_landlock(struct child *c, struct err *e)
{
	(void)c;
	return landlock_confine(e);
}

/*
 * Init's own filter: what any profile allows, and clone3, with which it puts
 * each command in its cgroup.  The payload gets the two of its profile on top,
 * the second right before its exec (S6).  A profile read from a file may allow what init's
 * filter does not, so init then has one only that watches for further ones.
 */
static int enter_seccomp(struct child *c, struct err *e)
{
	if (c->spec->unconfined_seccomp)
		return 0;
	return filterwatch_enter(c->filters, c->spec, c->sock, e);
}

static int exec_init(struct child *c, struct err *e)
{
	char *const argv[] = { (char *)"berth-init", NULL };
	char *const envp[] = { NULL };

	syscall(SYS_execveat, c->in.init_fd, "", argv, envp, AT_EMPTY_PATH);
	return err_sys(e, "execute init");
}

static const struct {
	const char *name;
	int (*run)(struct child *c, struct err *e);
} steps[] = {
	{ "inherited descriptors", child_close_supervisors },
	{ "namespaces", child_leave_namespaces },
	{ "clocks", set_clocks },
	{ "hostname", set_hostname },
	{ "bounding set", drop_bounding_set },
	{ "network", child_make_network },
	{ "network hand-over", hand_over_netns },
	{ "hand-over", receive_root },
	{ "identity", become_sandbox_root },
	{ "root", child_enter_root },
	{ "cgroups", child_join_cgroups },
	{ "cgroup namespace", leave_cgroup_namespace },
	{ "mounts", child_mount_all },
	{ "mount check", verify_mounts },
	{ "terminal", hand_over_pts },
	{ "program", receive_program },
	{ "further namespaces", forbid_namespaces },
	{ "keyring", child_join_keyring },
	{ "limits", child_limit_resources },
	{ "descriptors", close_descriptors },
	{ "capabilities", child_drop_capabilities },
	{ "no_new_privs", no_new_privileges },
	{ "Landlock", enter_landlock },
	{ "seccomp", enter_seccomp },
	{ "init", exec_init },
};

void child_run(struct child *c)
{
	struct init_reply r = { .magic = INIT_MAGIC, .type = INIT_SETUP_FAILED };
	size_t i;

	for (i = 0; i < ARRAY_LEN(steps); i++) {
		if (steps[i].run(c, &r.err) < 0) {
			err_wrap(&r.err, "sandbox set-up, %s", steps[i].name);
			break;
		}
	}
	(void)!send(c->sock, &r, sizeof(r), MSG_NOSIGNAL);
	_exit(1);
}
