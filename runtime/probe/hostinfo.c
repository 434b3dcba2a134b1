/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/probe/hostinfo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/probe/hostprobe.h"
#include "runtime/sandbox/spec.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define PROBE_SECONDS 10
#define CGROUP_ROOT "/sys/fs/cgroup"

static const struct host_probe probes[] = {
	{ "root", 1, host_probe_root, 0, "refuses to run", 1 },
	{ "kernel", 1, host_probe_kernel, 0, "tries all the same; Linux 6.1 is the oldest it is tested on", 1 },
	{ "container", 0, host_probe_container, 0, "tries every step from in here; what is refused below, the outer "
	  "container refuses", 1 },
	{ "capabilities", 1, host_probe_caps, 0, "without CAP_SYS_RESOURCE raises no limit above the caller's own hard "
	  "limit, and refuses a --ulimit that asks for it", 1 },
	{ "LSM", 0, host_probe_lsm, 0, "does what that profile lets it; what is refused below, it refuses", 1 },

	{ "namespace user", 1, host_probe_namespace, CLONE_NEWUSER, "refuses to run" },
	{ "namespace mount", 1, host_probe_namespace, CLONE_NEWNS, "refuses to run" },
	{ "namespace pid", 1, host_probe_namespace, CLONE_NEWPID, "refuses to run" },
	{ "namespace net", 1, host_probe_namespace, CLONE_NEWNET, "refuses to run but with --network host" },
	{ "namespace ipc", 1, host_probe_namespace, CLONE_NEWIPC, "refuses to run" },
	{ "namespace uts", 1, host_probe_namespace, CLONE_NEWUTS, "refuses to run" },
	{ "namespace cgroup", 1, host_probe_namespace, CLONE_NEWCGROUP, "refuses to run" },
	{ "namespace time", 0, host_probe_namespace, CLONE_NEWTIME, "runs without: the host's uptime shows in the sandbox" },
	{ "max_user_namespaces", 1, host_probe_max_userns, 0, "refuses to run; raise /proc/sys/user/max_user_namespaces", 1 },

	{ "cgroup mode", 1, host_probe_cgroup_mode, 0, "refuses to run; mount one: mkdir -p /sys/fs/cgroup/unified && "
	  "mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified" },
	{ "cgroup memory", 1, host_probe_cgroup_limit, HOST_LIMIT_MEMORY, "refuses to run but with --memory unlimited" },
	{ "cgroup cpu", 1, host_probe_cgroup_limit, HOST_LIMIT_CPU, "refuses to run but with --cpus unlimited" },
	{ "cgroup pids", 1, host_probe_cgroup_limit, HOST_LIMIT_PIDS, "refuses to run but with --pids unlimited" },
	{ "cgroup cpuset", 0, host_probe_cgroup_limit, HOST_LIMIT_CPUSET, "refuses --cpuset" },
	{ "cgroup io weight", 0, host_probe_cgroup_limit, HOST_LIMIT_IO_WEIGHT,
	  "refuses --io-weight" },
	{ "cgroup io read rate", 0, host_probe_cgroup_limit, HOST_LIMIT_IO_READ,
	  "refuses --io-rate of that disk" },
	{ "cgroup io write rate", 0, host_probe_cgroup_limit, HOST_LIMIT_IO_WRITE,
	  "refuses write and write-iops in --io-rate" },
	{ "cgroup io", 0, host_probe_cgroup_io, 0, "gives 0 for the bytes read and written in verdicts" },
	{ "cgroup devices", 0, host_probe_cgroup_devices, 0, "runs without a device policy: nodev mounts and the missing "
	  "CAP_MKNOD keep device nodes out" },
	{ "swap accounting", 1, host_probe_cgroup_swap, 0, "runs as long as the host has no swap; refuses a memory limit "
	  "once it has" },
	{ "clone into cgroup", 1, host_probe_cgroup_clone, 0, "refuses to run" },
	{ "cgroup.kill", 0, host_probe_cgroup_kill, 0, "freezes a sandbox and kills its processes one by one" },
	{ "cgroup.freeze", 1, host_probe_cgroup_freeze, 0, "refuses berth pause" },

	{ "state directory", 1, host_probe_state_dir, 0, "refuses stored images: their commands could not be executed; "
	  "set state_dir in berth.toml" },
	{ "overlay", 1, host_probe_overlay, 0, "attaches the layers in a mount namespace of its own first: at most 80 "
	  "layers, some ms slower" },
	{ "idmapped state dir", 1, host_probe_idmap, 0, "refuses to run; set state_dir in berth.toml to a directory on "
	  "ext4, xfs or btrfs" },
	{ "idmapped tmpfs", 0, host_probe_idmap, 1, "refuses --volume and --mount of directories on tmpfs" },
	{ "proc in userns", 1, host_probe_mount_in_userns, 0, "refuses to run; an outer container that masks parts of "
	  "/proc forbids new ones: start it with an unmasked /proc" },
	{ "devpts in userns", 1, host_probe_devpts, 0, "refuses to run" },
	{ "disk on file", 0, host_probe_loop, 0, "refuses --keep and a --disk over half of --memory; smaller writable "
	  "layers are kept in memory" },
	{ "network egress", 0, host_probe_egress, 0, "refuses --network egress" },
	{ "network bridge", 0, host_probe_bridge, 0, "refuses --network bridge; egress needs none of it" },
	{ "forwarding", 0, host_probe_forwarding, 0, "refuses --network bridge unless [network] forwarding = true in berth.toml lets it "
	  "switch forwarding on", 1 },
	{ "project quota", 0, host_probe_quota, 0, "makes an ext4 file of each lasting writable layer, "
	  "bounded in bytes and inodes all the same" },

	{ "seccomp", 1, host_probe_seccomp, 0, "refuses to run but with --seccomp unconfined", 1 },
	{ "Landlock", 0, host_probe_landlock, 0, "runs without its scopes: network and pid namespaces keep sockets and "
	  "signals in", 1 },
	{ "memfd seals", 1, host_probe_memfd, 0, "seals init against writing, not against a change of its mode", 1 },
	{ "pidfd", 1, host_probe_pidfd, 0, "refuses to run", 1 },
	{ "openat2, close_range", 1, host_probe_calls, 0, "refuses to run", 1 },
	{ "zygotes", 0, host_probe_zygote, 0, "refuses berth zygote create" },
};

size_t hostinfo_count(void)
{
	return ARRAY_LEN(probes);
}

const char *hostinfo_state_name(enum host_state s)
{
	static const char *const names[] = { [HOST_OK] = "ok", [HOST_LIMITED] = "limited", [HOST_MISSING] = "missing" };

	return names[s];
}

/* ---- what probes use ---- */

void host_say(struct host_finding *f, enum host_state s, const char *fmt, ...)
{
	va_list ap;

	f->state = s;
	va_start(ap, fmt);
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
}

void host_err(struct host_finding *f, const struct err *e)
{
	host_say(f, HOST_MISSING, "%.230s", e->msg);
}

void host_errno(struct host_finding *f, const char *doing)
{
	host_say(f, HOST_MISSING, "%s: %s", doing, strerror(errno));
}

static int map_probe_ids(pid_t pid, const struct hostinfo_place *p, struct err *e)
{
	char path[64], map[64];

	snprintf(map, sizeof(map), "0 %u %u\n", p->id_base, SPEC_IDS);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	if (io_write_file(AT_FDCWD, path, map, e) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	return io_write_file(AT_FDCWD, path, map, e);
}

static void __attribute__((noreturn)) inner_run(int go_fd, uint64_t flags, void (*fn)(struct host_finding *f),
						struct host_finding *f)
{
	char c;

	/* only this process still has the descriptor of the other end */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(go_fd, &c, 1) == 0 && fn) {
		if ((flags & CLONE_NEWUSER) && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
			host_errno(f, "become root of the user namespace");
		else
			fn(f);
	}
	_exit(0);
}

int host_inner_start(struct host_inner *in, const struct hostinfo_place *p, uint64_t flags,
		     void (*fn)(struct host_finding *f), struct host_finding *f)
{
	struct clone_args a = { .flags = flags, .exit_signal = SIGCHLD };
	char path[64];
	struct err e;
	int go[2];

	*in = (struct host_inner){ .pid = -1, .go_fd = -1, .userns_fd = -1 };
	if (pipe2(go, O_CLOEXEC) < 0) {
		host_errno(f, "make a pipe");
		return -1;
	}
	in->pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (in->pid == 0) {
		close(go[1]);
		inner_run(go[0], flags, fn, f);
	}
	close(go[0]);
	in->go_fd = go[1];
	if (in->pid < 0) {
		host_errno(f, "clone3");
		fd_close(&in->go_fd);
		return -1;
	}
	if (!(flags & CLONE_NEWUSER))
		return 0;
	if (map_probe_ids(in->pid, p, &e) < 0) {
		host_err(f, &e);
	} else {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", in->pid);
		in->userns_fd = open(path, O_RDONLY | O_CLOEXEC);
		if (in->userns_fd >= 0)
			return 0;
		host_errno(f, "open the user namespace");
	}
	kill(in->pid, SIGKILL);
	host_inner_end(in);
	return -1;
}

void host_inner_end(struct host_inner *in)
{
	fd_close(&in->go_fd);
	fd_close(&in->userns_fd);
	if (in->pid > 0)
		while (waitpid(in->pid, NULL, 0) < 0 && errno == EINTR)
			;
	in->pid = -1;
}

int host_state_dir(const struct hostinfo_place *p, char *path, size_t n)
{
	int fd;

	snprintf(path, n, "%s", p->state_dir);
	for (;;) {
		char *slash = strrchr(path, '/');

		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 || errno != ENOENT || !slash || !path[1])
			return fd;
		slash[slash == path] = '\0';
	}
}

/* ---- running them ---- */

static void __attribute__((noreturn)) child(const struct hostinfo_place *p, const struct host_probe *probe,
					    struct host_finding *f, pid_t parent)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGALRM, SIG_DFL);
	alarm(PROBE_SECONDS);
	probe->run(p, probe, f);
	_exit(0);
}

static int run_host_probe(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f, struct err *e)
{
	pid_t parent = getpid(), pid;
	int status;

	*f = (struct host_finding){ .what = probe->what, .state = HOST_MISSING, .needed = probe->needed };
	if (!probe->anyone && geteuid()) {
		snprintf(f->detail, sizeof(f->detail), "not tried, which takes root");
		return 0;
	}
	snprintf(f->detail, sizeof(f->detail), "the probe ended without an answer");
	pid = fork();
	if (pid == 0)
		child(p, probe, f, parent);
	if (pid < 0)
		return err_sys(e, "fork for a probe");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for a probe");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		host_say(f, HOST_MISSING, "no answer within %d s", PROBE_SECONDS);
	else if (WIFSIGNALED(status))
		host_say(f, HOST_MISSING, "the probe died by signal %d", WTERMSIG(status));
	if (f->state != HOST_OK && !f->effect[0])
		snprintf(f->effect, sizeof(f->effect), "%s", probe->effect);
	return 0;
}

/* Reads which controllers the v2 root passes down: berth enables those it needs, a probe restores that. */
static int root_controllers(char *buf, size_t n)
{
	int len;

	if (cgroup_detect() != CGROUP_V2)
		return -1;
	len = cgroup_read(AT_FDCWD, CGROUP_ROOT "/cgroup.subtree_control", buf, (unsigned)n);
	return len;
}

static void hand_back(const char *before)
{
	char now[256], word[64], text[80], *p = now;
	int n;

	if (root_controllers(now, sizeof(now)) < 0)
		return;
	while (sscanf(p, " %63s%n", word, &n) == 1) {
		p += n;
		if (cgroup_has_word(before, word))
			continue;
		snprintf(text, sizeof(text), "-%s", word);
		/* EBUSY: a sandbox started meanwhile relies on it */
		(void)!cgroup_write(AT_FDCWD, CGROUP_ROOT "/cgroup.subtree_control", text);
	}
}

void hostinfo_remove_cgroups(const struct hostinfo_place *p)
{
	struct dirent *d;
	struct cgroup c;
	struct err ignored;
	char path[400];
	DIR *dir;

	if (cgroup_open(&c, p->cgroup_parent, "probe", &ignored) == 0)
		cgroup_destroy(&c, &ignored);
	cgroup_release(&c);
	snprintf(path, sizeof(path), CGROUP_ROOT "/%s", p->cgroup_parent);
	rmdir(path);
	dir = opendir(CGROUP_ROOT);
	if (!dir)
		return;
	while ((d = readdir(dir))) {
		if (d->d_type != DT_DIR || d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), CGROUP_ROOT "/%s/%s", d->d_name, p->cgroup_parent);
		rmdir(path);
	}
	closedir(dir);
}

int hostinfo_probe(const struct hostinfo_place *p, struct host_finding *ret, int (*interrupted)(void), struct err *e)
{
	struct host_finding *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char before[256] = "";
	int had = root_controllers(before, sizeof(before)), result = 0;
	size_t i;

	if (shared == MAP_FAILED)
		return err_sys(e, "share memory with the probes");
	for (i = 0; i < ARRAY_LEN(probes) && result == 0; i++) {
		if (interrupted && interrupted())
			result = err_set(e, ERR_BUSY, "interrupted");
		else
			result = run_host_probe(p, &probes[i], shared, e);
		ret[i] = *shared;
	}
	hostinfo_remove_cgroups(p);
	if (had >= 0)
		hand_back(before);
	munmap(shared, sizeof(*shared));
	return result;
}
