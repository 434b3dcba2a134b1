/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor - the least a sandbox can cost on this kernel: the physical limit that `make bench` puts beside berth.
 *
 * It makes the seven namespaces (user pid mnt net ipc uts cgroup), writes the id maps, mounts an overlay with its
 * upper on a tmpfs, mounts proc, pivots, runs the command and waits.  There is no hardening, no limit, no /dev and no
 * clean error: never use it to hold anything in.
 *
 *   one    (-m one, the default) everything in one clone3; the child then mounts, as a textbook program would
 *   split  (-m split) clone3 of all but the net namespace, which the child makes while the parent builds the overlay
 *          as a detached mount and hands it over by SCM_RIGHTS.  Needs Linux 6.15 (overlay layers on detached mounts)
 *   fixed  (-m fixed) as split, but the parent attaches the layers in a mount namespace of its own: Linux 5.2
 *
 * -v prints what each step took, as the median and 99th percentile of -n rounds (50).
 * ROOTFS is a directory, or "host": an empty tree with this machine's /usr bound into it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MNT_DETACH 2
#define ALL_NS (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define ID_MAP "0 100000 65536"
enum { STEPS = 40, ROUNDS = 2000 };

extern int umount2(const char *target, int flags);

enum mode { ONE, SPLIT, FIXED };
struct step {
	const char *name;
	uint64_t ns;
};
struct trace {	/* shared by parent and child, so that both write one timeline */
	unsigned n;
	struct step at[STEPS];
};
struct job {
	enum mode mode;
	int host;
	const char *rootfs;
	char **argv;
	struct trace *trace;	/* NULL: do not look at the clock */
};

static void need(long r, const char *what)
{
	if (r >= 0)
		return;
	dprintf(2, "floor: %s: %s\n", what, strerror(errno));
	_exit(125);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void stamp(const struct job *j, const char *name)
{
	unsigned i;

	if (!j->trace)
		return;
	i = __atomic_fetch_add(&j->trace->n, 1, __ATOMIC_RELAXED);
	if (i < STEPS)
		j->trace->at[i] = (struct step){ name, now_ns() };
}

/* ---- mounts ------------------------------------------------------------- */
static int fs_open(const char *type)
{
	int fd = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);

	need(fd, type);
	return fd;
}

static void fs_set(int fd, const char *key, const char *value)
{
	need(syscall(SYS_fsconfig, fd, FSCONFIG_SET_STRING, key, value, 0), key);
}

static int fs_mount(int fd, const char *what)
{
	int m;

	need(syscall(SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0), what);
	m = (int)syscall(SYS_fsmount, fd, FSMOUNT_CLOEXEC, 0);
	need(m, what);
	close(fd);
	return m;
}

static void attach(int m, const char *where)
{
	need(syscall(SYS_move_mount, m, "", AT_FDCWD, where, MOVE_MOUNT_F_EMPTY_PATH), where);
}

/* The overlay, detached.  attach_layers: before 6.15 a layer must lie in a mount of the caller's namespace. */
static int overlay(const struct job *j, int attach_layers)
{
	char lower[64], upper[64], work[64];
	int tmp = fs_mount(fs_open("tmpfs"), "tmpfs"), fs, m;

	if (attach_layers)
		attach(tmp, "/");	/* on top of /, out of the way of every path below */
	need(mkdirat(tmp, "upper", 0755) | mkdirat(tmp, "work", 0755), "mkdir");
	if (j->host) {
		need(mkdirat(tmp, "lower", 0755) | mkdirat(tmp, "lower/usr", 0755) | mkdirat(tmp, "lower/proc", 0755), "mkdir");
		need(symlinkat("usr/bin", tmp, "lower/bin") | symlinkat("usr/sbin", tmp, "lower/sbin") |
		     symlinkat("usr/lib", tmp, "lower/lib") | symlinkat("usr/lib64", tmp, "lower/lib64"), "symlink");
		snprintf(lower, sizeof lower, "/proc/self/fd/%d/lower", tmp);
	} else {
		int fd = open(j->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);

		need(fd, j->rootfs);
		snprintf(lower, sizeof lower, "/proc/self/fd/%d", fd);
	}
	snprintf(upper, sizeof upper, "/proc/self/fd/%d/upper", tmp);
	snprintf(work, sizeof work, "/proc/self/fd/%d/work", tmp);
	stamp(j, "tmpfs");
	fs = fs_open("overlay");
	fs_set(fs, "lowerdir", lower);
	fs_set(fs, "upperdir", upper);
	fs_set(fs, "workdir", work);
	if (j->mode == ONE)	/* mounted with the user namespace's rights only */
		need(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0), "userxattr");
	m = fs_mount(fs, "overlay");
	stamp(j, "overlay");
	return m;
}

/* Make the mount `root` the root, with proc (and /usr) in it, and let the old tree go. */
static void enter(const struct job *j, int root)
{
	attach(root, "/");
	need(fchdir(root), "chdir");
	stamp(j, "attach root");
	if (j->host) {
		int usr = (int)syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

		need(usr, "/usr");
		attach(usr, "usr");
		stamp(j, "bind usr");
	}
	need(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	stamp(j, "pivot");
	attach(fs_mount(fs_open("proc"), "proc"), "proc");	/* before the old proc goes: a userns may add what it can see */
	stamp(j, "proc");
	need(umount2(".", MNT_DETACH), "umount old root");
	stamp(j, "umount old root");
	need(chdir("/"), "chdir /");
}

/* ---- the two processes ---------------------------------------------------- */
static void fd_send(int sock, int fd)
{
	char c = 0, control[CMSG_SPACE(sizeof fd)] = { 0 };
	struct iovec iov = { &c, 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = fd < 0 ? NULL : control,
			    .msg_controllen = fd < 0 ? 0 : sizeof control };
	struct cmsghdr *m = CMSG_FIRSTHDR(&h);

	if (m) {
		*m = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(m), &fd, sizeof fd);
	}
	need(sendmsg(sock, &h, 0), "sendmsg");
}

static int fd_recv(int sock)
{
	char c, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &c, 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
	int fd = -1;

	need(recvmsg(sock, &h, MSG_CMSG_CLOEXEC) == 1 ? 0 : -1, "recvmsg");
	if (CMSG_FIRSTHDR(&h))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof fd);
	return fd;
}

static void child(const struct job *j, int sock)
{
	int root;

	stamp(j, "child runs");
	if (j->mode != ONE) {
		need(unshare(CLONE_NEWNET), "unshare net");
		stamp(j, "netns");
	}
	root = fd_recv(sock);
	stamp(j, "told to go on");
	need(setresgid(0, 0, 0), "setresgid");
	need(setresuid(0, 0, 0), "setresuid");
	enter(j, j->mode == ONE ? overlay(j, 1) : root);
	execvp(j->argv[0], j->argv);
	need(-1, j->argv[0]);
}

static void map_write(pid_t pid, const char *which)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	need(fd < 0 ? -1 : write(fd, ID_MAP, sizeof ID_MAP - 1), path);
	close(fd);
}

static int run(const struct job *j)
{
	struct clone_args args = { .flags = j->mode == ONE ? ALL_NS : ALL_NS & ~CLONE_NEWNET, .exit_signal = SIGCHLD };
	int sock[2], root = -1, status;
	pid_t pid;

	stamp(j, "start");
	need(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), "socketpair");
	if (j->mode == FIXED) {
		need(unshare(CLONE_NEWNS), "unshare mnt");	/* a copy that shares nothing with the host ... */
		need(syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE,
			     &(struct mount_attr){ .propagation = 1 << 18 /* MS_PRIVATE */ }, sizeof(struct mount_attr)),
		     "make private");
		stamp(j, "parent mntns");
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	need(pid, "clone3");
	if (pid == 0)
		child(j, sock[1]);
	stamp(j, "clone3");
	map_write(pid, "uid_map");
	map_write(pid, "gid_map");
	stamp(j, "maps");
	if (j->mode != ONE)
		root = overlay(j, j->mode == FIXED);
	fd_send(sock[0], root);
	stamp(j, "handed over");
	need(waitpid(pid, &status, 0), "waitpid");
	stamp(j, "exec to reaped");
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- -v --------------------------------------------------------------------- */
static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Each round in a process of its own, so that its descriptors, mounts and namespaces end with it. */
static int profile(struct job *j, unsigned rounds)
{
	static uint64_t at[STEPS][ROUNDS];
	const char *names[STEPS];
	unsigned steps = 0;

	j->trace = mmap(NULL, sizeof *j->trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(j->trace == MAP_FAILED ? -1 : 0, "mmap");
	for (unsigned r = 0; r < rounds; r++) {
		int status;
		pid_t pid;

		j->trace->n = 0;
		pid = fork();
		if (pid == 0)
			_exit(run(j));
		need(waitpid(pid, &status, 0), "waitpid");
		if (status)
			return WEXITSTATUS(status);
		stamp(j, "exit");
		for (unsigned i = 0; i < j->trace->n && i < STEPS; i++) {
			unsigned k = 0;

			while (k < steps && strcmp(names[k], j->trace->at[i].name))
				k++;
			if (k == steps)
				names[steps++] = j->trace->at[i].name;
			at[k][r] = j->trace->at[i].ns - j->trace->at[0].ns;
		}
		usleep(3000);	/* the kernel takes the namespaces apart behind us */
	}
	dprintf(2, "%-18s %10s %10s  (us since start, %u rounds)\n", "reached", "median", "p99", rounds);
	for (unsigned k = 0; k < steps; k++) {
		qsort(at[k], rounds, sizeof at[k][0], by_value);
		dprintf(2, "%-18s %10.1f %10.1f\n", names[k], (double)at[k][rounds / 2] / 1e3,
			(double)at[k][rounds * 99 / 100] / 1e3);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const char usage[] = "usage: floor [-v [-n ROUNDS]] [-m one|split|fixed] ROOTFS|host COMMAND...\n";
	struct job j = { .mode = ONE };
	unsigned rounds = 50;
	int opt, verbose = 0;

	while ((opt = getopt(argc, argv, "+vn:m:")) != -1) {
		if (opt == 'v')
			verbose = 1;
		else if (opt == 'n' && atoi(optarg) > 0 && atoi(optarg) <= ROUNDS)
			rounds = (unsigned)atoi(optarg);
		else if (opt == 'm' && (!strcmp(optarg, "one") || !strcmp(optarg, "split") || !strcmp(optarg, "fixed")))
			j.mode = *optarg == 'o' ? ONE : *optarg == 's' ? SPLIT : FIXED;
		else
			argc = 0;
	}
	if (argc - optind < 2) {
		dprintf(2, "%s", usage);
		return 2;
	}
	j.rootfs = argv[optind];
	j.host = !strcmp(j.rootfs, "host");
	j.argv = argv + optind + 1;
	return verbose ? profile(&j, rounds) : run(&j);
}
