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

#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/caps.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/landlock.h"
#include "runtime/probe/hostprobe.h"
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

/* The first namespaces of a boot have fixed inode numbers (include/linux/proc_ns.h). */
static int is_first(const char *ns, ino_t ino)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", ns);
	return stat(path, &st) < 0 || st.st_ino == ino;
}

void host_probe_container(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	const char *mark = !access("/run/.containerenv", F_OK) ? "podman" : !access("/.dockerenv", F_OK) ? "docker" : NULL;
	int user = is_first("user", 0xEFFFFFFDU), pid = is_first("pid", 0xEFFFFFFCU), cg = is_first("cgroup", 0xEFFFFFFBU);

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

static int load(const struct seccomp_filter *filter)
{
	struct sock_fprog prog = { .len = filter->len, .filter = (struct sock_filter *)(uintptr_t)filter->insns };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

int host_load_standard(struct err *e)
{
	const struct seccomp_profile *profile = seccomp_builtin("standard");

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	if (load(&profile->a) < 0 || load(&profile->b) < 0)
		return err_filter(e, "a filter of the standard profile", profile->b.len);
	return 0;
}

/* Both filters of the default profile, then a call that they must refuse: f is memory, so no call is needed to answer. */
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
