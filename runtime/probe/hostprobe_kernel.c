/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of the kernel, of the caller, of namespaces, and of the means that confine a process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/caps.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/inject.h"
#include "runtime/kernel/landlock.h"
#include "runtime/probe/hostprobe.h"
#include "runtime/sandbox/nethelper.h"
#include "seccomp/seccomp.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* ---- who and where we are ---- */

void host_probe_root(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	(void)p, (void)probe;
	if (geteuid())
		host_say(f, HOST_MISSING, "the caller is user %u, not root", (unsigned)geteuid());
	else
		host_say(f, HOST_OK, "the caller is root");
}

void host_probe_kernel(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	(void)p, (void)probe;
	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		host_say(f, HOST_LIMITED, "its version cannot be read");
	else
		host_say(f, major > 6 || (major == 6 && minor >= 1) ? HOST_OK : HOST_LIMITED, "Linux %s %s", u.release,
			 u.machine);
}

/* Tells whether it is the initial namespace: those have fixed inode numbers (include/linux/proc_ns.h). */
static int is_first_namespace(const char *ns, ino_t ino)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", ns);
	return stat(path, &st) < 0 || st.st_ino == ino;
}

void host_probe_container(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	const char *mark = !access("/run/.containerenv", F_OK) ? "podman" : !access("/.dockerenv", F_OK) ? "docker" : NULL;
	int user = is_first_namespace("user", 0xEFFFFFFDU), pid = is_first_namespace("pid", 0xEFFFFFFCU), cg = is_first_namespace("cgroup", 0xEFFFFFFBU);

	(void)p, (void)probe;
	if (user && pid && cg)
		host_say(f, HOST_OK, "%s%s%s", mark ? "marks of " : "not in a container", mark ? mark : "",
			 mark ? ", but all namespaces are the machine's own" : "");
	else
		host_say(f, HOST_LIMITED, "in a container%s%s:%s%s%s", mark ? " of " : "", mark ? mark : "",
			 user ? "" : " own user namespace", pid ? "" : " own pid namespace", cg ? "" : " own cgroup namespace");
}

static uint64_t effective_caps(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	if (syscall(SYS_capget, &h, d) < 0)
		return 0;
	return d[0].effective | (uint64_t)d[1].effective << 32;
}

void host_probe_caps(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	/* set-up uses these on the host; all others only within the sandbox's own user namespace */
	static const uint64_t need = 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SETUID | 1ULL << CAP_SETGID | 1ULL << CAP_SETFCAP |
				     1ULL << CAP_CHOWN | 1ULL << CAP_FOWNER | 1ULL << CAP_MKNOD | 1ULL << CAP_DAC_OVERRIDE |
				     1ULL << CAP_SYS_PTRACE;
	uint64_t have = effective_caps();
	char lacking[160] = "";
	unsigned i, count = 0;
	int bad = 0;

	(void)p, (void)probe;
	for (i = 0; i <= CAPS_LAST; i++) {
		size_t n = strlen(lacking);

		if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) < 0 || have & 1ULL << i)
			continue;
		count++;
		bad |= !!(need & 1ULL << i);
		if (n + 40 < sizeof(lacking))
			snprintf(lacking + n, sizeof(lacking) - n, " %s", caps_name(i));
		else if (lacking[n - 1] != '.')
			snprintf(lacking + n, sizeof(lacking) - n, " ...");
	}
	if (!count) {
		host_say(f, HOST_OK, "the caller has all of them");
		return;
	}
	host_say(f, bad ? HOST_MISSING : HOST_LIMITED, "the caller lacks%s", lacking);
	if (bad)
		snprintf(f->effect, sizeof(f->effect), "refuses to run");
	else if (have & 1ULL << CAP_SYS_RESOURCE)
		snprintf(f->effect, sizeof(f->effect), "needs none of these");
}

void host_probe_lsm(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	char enabled[8] = "", label[128] = "";
	int selinux = !access("/sys/fs/selinux/enforce", F_OK), apparmor;

	(void)p, (void)probe;
	cgroup_read(AT_FDCWD, "/sys/module/apparmor/parameters/enabled", enabled, sizeof(enabled));
	apparmor = enabled[0] == 'Y';
	cgroup_read(AT_FDCWD, "/proc/self/attr/current", label, sizeof(label));
	label[strcspn(label, "\n")] = '\0';
	if (label[0] && strcmp(label, "unconfined") && strcmp(label, "kernel") && !strstr(label, "unconfined_t"))
		host_say(f, HOST_LIMITED, "berth itself is confined as '%.100s'", label);
	else if (apparmor || selinux)
		host_say(f, HOST_OK, "%s is active and does not confine berth, which loads no profile of its own",
			 apparmor ? "AppArmor" : "SELinux");
	else
		host_say(f, HOST_OK, "neither AppArmor nor SELinux is active");
}

/* ---- namespaces ---- */

static void say_ok(struct host_finding *f)
{
	host_say(f, HOST_OK, "made, in a user namespace with 65536 ids");
}

void host_probe_namespace(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	struct host_inner in;

	/* as the runtime does: below a user namespace; CLONE_NEWTIME is for unshare(2) alone */
	if (probe->arg == 0x80 /* CLONE_NEWTIME */) {
		if (unshare((int)probe->arg) < 0)
			host_errno(f, "unshare");
		else
			host_say(f, HOST_OK, "made");
		return;
	}
	if (host_inner_start(&in, p, CLONE_NEWUSER | probe->arg, say_ok, f) == 0)
		host_inner_end(&in);
}

void host_probe_max_userns(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	char text[64];
	int n = cgroup_read(AT_FDCWD, "/proc/sys/user/max_user_namespaces", text, sizeof(text));

	(void)p, (void)probe;
	if (n < 0) {
		host_errno(f, "read max_user_namespaces");
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	host_say(f, strtoull(text, NULL, 10) ? HOST_OK : HOST_MISSING, "%s", text);
}

/* ---- calls ---- */

void host_probe_calls(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	autoclose int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	autoclose int fd = path_open_in_root(dir, "../proc/./self/status", O_RDONLY, 0);
	int magic;

	(void)p, (void)probe;
	if (fd < 0) {
		host_errno(f, "openat2");
		return;
	}
	magic = path_open_in_root(dir, "proc/self/cwd", O_PATH | O_DIRECTORY, 0);
	if (magic >= 0) {
		close(magic);
		host_say(f, HOST_MISSING, "openat2 follows magic links in spite of RESOLVE_NO_MAGICLINKS");
		return;
	}
	if (syscall(SYS_close_range, 3, ~0U, 0) < 0) {
		host_errno(f, "close_range");
		return;
	}
	fd = dir = -1;
	host_say(f, HOST_OK, "both work");
}

void host_probe_pidfd(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	int fd = -1, status;
	struct clone_args a = { .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&fd, .exit_signal = SIGCHLD };
	pid_t me = getpid(), pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	struct pollfd pfd;

	(void)p, (void)probe;
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != me)
			_exit(1);	/* nothing else would end it */
		for (;;)
			pause();
	}
	if (pid < 0) {
		host_errno(f, "clone3 with CLONE_PIDFD");
		return;
	}
	pfd = (struct pollfd){ .fd = fd, .events = POLLIN };
	if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0) {
		host_errno(f, "pidfd_send_signal");
		kill(pid, SIGKILL);
	} else if (poll(&pfd, 1, 5000) != 1) {
		host_say(f, HOST_MISSING, "a pidfd does not report the end of its process");
	} else {
		host_say(f, HOST_OK, "signals a process and reports its end");
	}
	waitpid(pid, &status, 0);
	close(fd);
}

void host_probe_memfd(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	autoclose int fd = memfd_create("berth-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

	(void)p, (void)probe;
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("berth-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		host_errno(f, "memfd_create");
		return;
	}
	if (!fcntl(fd, F_ADD_SEALS, seals | F_SEAL_EXEC)) {
		if (write(fd, "x", 1) >= 0)
			host_say(f, HOST_MISSING, "a sealed memfd can be written to");
		else
			host_say(f, HOST_OK, "with F_SEAL_EXEC");
	} else if (!fcntl(fd, F_ADD_SEALS, seals)) {
		host_say(f, HOST_LIMITED, "without F_SEAL_EXEC, which is of Linux 6.3");
	} else {
		host_errno(f, "seal a memfd");
	}
}

/* ---- confinement ---- */

static int load_probe_filter(const struct seccomp_filter *filter)
{
	struct sock_fprog prog = { .len = filter->len, .filter = (struct sock_filter *)(uintptr_t)filter->insns };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

int host_load_standard(struct err *e)
{
	const struct seccomp_profile *profile = seccomp_builtin("standard");

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	if (load_probe_filter(&profile->a) < 0 || load_probe_filter(&profile->b) < 0)
		return err_filter(e, "a filter of the standard profile", profile->b.len);
	return 0;
}

/*
 * Loads both filters of the default profile, then makes a call that they must refuse: f is memory,
 * so no call is needed to answer.
 */
void host_probe_seccomp(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	struct err e;

	(void)p, (void)probe;
	if (host_load_standard(&e) < 0) {
		host_err(f, &e);
		return;
	}
	if (umount2("/nonexistent/berth-doctor", 0) == 0 || errno != EPERM)
		host_say(f, HOST_MISSING, "the standard profile is loaded but refuses nothing");
	else
		host_say(f, HOST_OK, "the standard profile loads and refuses");
}

void host_probe_landlock(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	int abi = landlock_abi();
	struct err e;

	(void)p, (void)probe;
	if (!abi) {
		host_say(f, HOST_MISSING, "not in this kernel, or not in its list of LSMs");
		return;
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (landlock_confine(&e) < 0) {
		host_err(f, &e);
		return;
	}
	if (abi >= 6)
		host_say(f, HOST_OK, "ABI %d, entered, with scopes", abi);
	else
		host_say(f, HOST_LIMITED, "ABI %d: no scopes, which are of ABI 6 (Linux 6.12)", abi);
}

/* ---- zygotes ---- */

/*
 * hostprobe_zygote - the requirements of zygotes (runtime/sandbox/graft.h): a process under the
 * filters of the standard profile is stopped, makes calls of ours without them, one of which is a
 * clone, and has them again.
 */

#ifdef __x86_64__
#define PROBE_MS 5000
#define PATH_AT 64

static void tracee(struct host_finding *f)
{
	struct err e;

	(void)f;
	if (host_load_standard(&e) < 0)
		return; /* host_probe_seccomp() tells why */
	for (;;)
		syscall(SYS_pause);
}

/* Returns what umount2(2) says about a file that does not exist: EPERM is the filters' answer. */
static int try_umount(struct inject *t, int want, struct err *e)
{
	static const char path[] = "/nonexistent/berth-doctor";
	struct inject_call c = {.nr = SYS_umount2, .arg = {inject_room(t, PATH_AT)}};

	if (inject_put(t, PATH_AT, path, sizeof(path), e) < 0 ||
	    inject_batch(t, &c, 1, NULL, e) < 0)
		return -1;
	if (c.result == -want)
		return 0;
	return err_set(e, ERR_UNSUPPORTED,
		       want == EPERM ? "the filters of a traced process stay suspended" :
				       "the filters of a traced process were not suspended");
}

static int try_getfd(const struct inject *t, struct err *e)
{
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, t->pid, 0);
	autoclose int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, 0, 0);

	return fd < 0 ? err_sys(e, "take a descriptor of a traced process") : 0;
}

/* The steps of graft_fork(), in its order. */
static int try(struct inject *t, pid_t pid, struct inject *child, struct err *e)
{
	struct inject_call map = {.nr = SYS_mmap,
				  .arg = {0, INJECT_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
					  MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0},
				  .what = "map a page in a traced process"};
	struct inject_call clone = {.nr = SYS_clone,
				    .arg = {CLONE_VM | CLONE_PARENT},
				    .what = "clone a traced process"};
	struct user_regs_struct r;
	uint64_t rseq[3];

	if (inject_seize(t, pid, clock_ms() + PROBE_MS, e) < 0)
		return -1;
	do
		if (inject_next_entry(t, &r, e) < 0)
			return -1;
	while (r.orig_rax != SYS_pause);
	if (inject_unfilter(t, 1, e) < 0 || inject_rseq(t, rseq, e) < 0 ||
	    inject_replace(t, &map, e) < 0 || inject_map(t, (uint64_t)map.result, e) < 0 ||
	    try_umount(t, ENOENT, e) < 0 || try_getfd(t, e) < 0 ||
	    inject_batch(t, &clone, 1, child, e) < 0)
		return -1;
	inject_end(child);
	return inject_unfilter(t, 0, e) < 0 ? -1 : try_umount(t, EPERM, e);
}

void host_probe_zygote(const struct hostinfo_place *p, const struct host_probe *probe,
		       struct host_finding *f)
{
	struct inject t = {.pid = 0}, child = {.pid = 0};
	struct host_inner in;
	sigset_t chld;
	struct err e;

	(void)probe;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL); /* inject_seize() wants it so */
	if (host_inner_start(&in, p, CLONE_NEWUSER | CLONE_NEWNS, tracee, f) < 0)
		return;
	fd_close(&in.go_fd);
	if (try(&t, in.pid, &child, &e) < 0)
		host_err(f, &e);
	else
		host_say(f, HOST_OK,
			 "a traced process made calls of ours with its filters suspended, and has "
			 "them again");
	inject_end(&child);
	kill(in.pid, SIGKILL); /* seized or not; whoever reaps it */
	inject_end(&t);
	host_inner_end(&in);
}
#else
void host_probe_zygote(const struct hostinfo_place *p, const struct host_probe *probe,
		       struct host_finding *f)
{
	struct err e;

	(void)p, (void)probe;
	(void)inject_available(&e);
	host_err(f, &e);
}
#endif

/* ---- networks ---- */

/*
 * hostprobe_net - the requirements of sandbox networks: berth-net, a proxy that can be confined,
 * a bridge with rules.
 */

void host_probe_egress(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	char job[64];
	struct err e;

	(void)probe;
	snprintf(job, sizeof(job), "{\"uid\":%u}", p->id_base + SPEC_IDS - 1);
	if (nethelper_call("egress-probe", job, NULL, &e) < 0)
		host_err(f, &e);
	else
		host_say(f, HOST_OK, "berth-net runs, and confines itself as a proxy");
}

/* Probes the bridge in namespaces of its own: the host's network is not touched. */
void host_probe_bridge(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	struct err e;

	(void)p, (void)probe;
	if (nethelper_call("bridge-probe", "{}", NULL, &e) < 0)
		host_err(f, &e);
	else
		host_say(f, HOST_OK, "a bridge with a locked port, and the rules of nftables, made and gone again");
}

static int is_sysctl_on(const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	char c = '0';

	return fd >= 0 && read(fd, &c, 1) == 1 && c != '0';
}

void host_probe_forwarding(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	int v4 = is_sysctl_on("/proc/sys/net/ipv4/ip_forward"), v6 = is_sysctl_on("/proc/sys/net/ipv6/conf/all/forwarding");

	(void)p, (void)probe;
	if (!v4)
		host_say(f, HOST_MISSING, "net.ipv4.ip_forward is 0");
	else
		host_say(f, HOST_OK, v6 ? "IPv4 and IPv6" : "IPv4; sandboxes with a bridge have no route for IPv6");
}
