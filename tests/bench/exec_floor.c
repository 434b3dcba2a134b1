/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_floor - the least `berth exec` can cost on this kernel: the physical limit that `make bench` puts beside it.
 *
 *   exec_floor serve SOCKET CGROUP ROOTFS     until its stdin ends; says "ready" on stdout
 *   exec_floor SOCKET COMMAND...              its three descriptors go to the server, its status is the command's
 *
 * The server is one process that waits in the seven namespaces.  For a request it clones into a fresh v2 cgroup; the child
 * joins fresh memory and pids cgroups on a hybrid host, as whoever is to say what one command used needs them, and
 * executes.  There is no keeper that clients and commands cannot kill, no user, limit, filter, time limit, verdict or
 * record, and no clean error: never use it to hold anything in.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL_NS (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define CGROUPS "/sys/fs/cgroup"

/* the v2 tree, then the v1 hierarchies that count what a command used */
static const char *const trees[] = { "/unified", "/memory", "/pids" };
enum { TREES = sizeof trees / sizeof *trees, ARGS = 64 };

static void need(long r, const char *what)
{
	if (r >= 0)
		return;
	dprintf(2, "exec_floor: %s: %s\n", what, strerror(errno));
	_exit(125);
}

/* ---- cgroups ------------------------------------------------------------- */
struct leaf {
	char name[24];
	int fd[TREES];	/* [0] the v2 directory, the others `tasks` of v1; -1: none */
};

/* The directories that the leaves are made in; on a pure v2 host there is one. */
static void open_parents(const char *cgroup, int parent[TREES])
{
	char path[256];
	int hybrid = !access(CGROUPS "/unified", F_OK);

	for (int i = 0; i < TREES; i++) {
		parent[i] = -1;
		snprintf(path, sizeof path, CGROUPS "%s/%s", hybrid ? trees[i] : "", cgroup);
		if ((!hybrid && i) || (mkdir(path, 0755) < 0 && errno == ENOENT))
			continue;
		parent[i] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		need(parent[i], path);
	}
}

/* With the one leaf that the server was killed with. */
static void remove_parents(const char *cgroup)
{
	char path[256];
	struct dirent *d;
	DIR *dir;

	for (int i = -1; i < TREES; i++) {
		snprintf(path, sizeof path, CGROUPS "%s/%s", i < 0 ? "" : trees[i], cgroup);
		dir = opendir(path);
		while (dir && (d = readdir(dir)))
			if (d->d_type == DT_DIR && d->d_name[0] == 'c')
				unlinkat(dirfd(dir), d->d_name, AT_REMOVEDIR);
		if (dir)
			closedir(dir);
		rmdir(path);
	}
}

static void leaf_make(const int parent[TREES], struct leaf *l)
{
	static unsigned n;
	char tasks[40];

	snprintf(l->name, sizeof l->name, "c%u", n++);
	for (int i = 0; i < TREES; i++) {
		l->fd[i] = -1;
		if (parent[i] < 0)
			continue;
		need(mkdirat(parent[i], l->name, 0755), "mkdir");
		snprintf(tasks, sizeof tasks, i ? "%s/tasks" : "%s", l->name);
		l->fd[i] = openat(parent[i], tasks, i ? O_WRONLY | O_CLOEXEC : O_PATH | O_DIRECTORY | O_CLOEXEC);
		need(l->fd[i], tasks);
	}
}

static void leaf_remove(const int parent[TREES], const struct leaf *l)
{
	for (int i = 0; i < TREES; i++) {
		if (l->fd[i] < 0)
			continue;
		close(l->fd[i]);
		unlinkat(parent[i], l->name, AT_REMOVEDIR);
	}
}

static pid_t clone_into(int cgroup, uint64_t flags)
{
	struct clone_args a = { .flags = flags | CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)cgroup };

	return (pid_t)syscall(SYS_clone3, &a, sizeof a);
}

/* ---- the server ----------------------------------------------------------- */
/* A request is the arguments, each with its NUL, and three descriptors. */
static int request(int sock, char *text, size_t size, char **argv, int std[3])
{
	union { char space[CMSG_SPACE(3 * sizeof(int))]; struct cmsghdr align; } control;
	struct iovec iov = { text, size };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	ssize_t n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC);
	int argc = 0;

	if (n <= 0 || text[n - 1] || !CMSG_FIRSTHDR(&h))
		return -1;
	memcpy(std, CMSG_DATA(CMSG_FIRSTHDR(&h)), 3 * sizeof(int));
	for (char *p = text; p < text + n && argc < ARGS - 1; p += strlen(p) + 1)
		argv[argc++] = p;
	argv[argc] = NULL;
	return 0;
}

static int command(const struct leaf *l, char **argv, const int std[3])
{
	int status;
	pid_t pid = clone_into(l->fd[0], CLONE_VFORK);

	need(pid, "clone3");
	if (pid == 0) {
		for (int i = 1; i < TREES; i++)
			if (l->fd[i] >= 0)
				need(write(l->fd[i], "0", 1), "tasks");
		for (int i = 0; i < 3; i++)
			dup2(std[i], i);
		execv(argv[0], argv);
		_exit(127);
	}
	for (int i = 0; i < 3; i++)
		close(std[i]);
	need(waitpid(pid, &status, 0), "waitpid");
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void serve(int listener, const int parent[TREES], const char *rootfs)
{
	char text[4096], *argv[ARGS];
	int std[3], sock, status;
	struct leaf l;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "make private");
	need(mount(rootfs, rootfs, NULL, MS_BIND, NULL), "bind");
	need(chdir(rootfs), rootfs);
	need(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	need(umount2(".", MNT_DETACH), "umount old root");
	for (;;) {
		/* the next command's, while nobody waits */
		leaf_make(parent, &l);
		need(sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC), "accept");
		if (request(sock, text, sizeof text, argv, std) == 0) {
			status = command(&l, argv, std);
			need(send(sock, &status, sizeof status, MSG_NOSIGNAL), "answer");
		}
		close(sock);
		leaf_remove(parent, &l);
	}
}

static void map_write(pid_t pid, const char *which, const char *map)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	need(fd < 0 ? -1 : write(fd, map, strlen(map)), path);
	close(fd);
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	return a;
}

static int server(const char *path, const char *cgroup, const char *rootfs)
{
	struct sockaddr_un a = address(path);
	int parent[TREES], listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), go[2];
	pid_t pid;
	char c;

	open_parents(cgroup, parent);
	need(bind(listener, (struct sockaddr *)&a, sizeof a), path);
	need(listen(listener, 8), "listen");
	need(pipe2(go, O_CLOEXEC), "pipe");
	pid = clone_into(parent[0], ALL_NS);
	need(pid, "clone3");
	if (pid == 0) {
		need(read(go[0], &c, 1), "wait");
		serve(listener, parent, rootfs);
	}
	map_write(pid, "uid_map", "0 0 1");
	map_write(pid, "gid_map", "0 0 1");
	need(write(go[1], "", 1), "go");
	need(write(1, "ready\n", 6), "stdout");
	while (read(0, &c, 1) > 0)
		;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	remove_parents(cgroup);
	return 0;
}

/* ---- the client ------------------------------------------------------------- */
static int client(const char *path, char **argv)
{
	struct sockaddr_un a = address(path);
	union { char space[CMSG_SPACE(3 * sizeof(int))]; struct cmsghdr align; } control = { { 0 } };
	char text[4096];
	struct iovec iov = { text, 0 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	struct cmsghdr *m = CMSG_FIRSTHDR(&h);
	int std[3] = { 0, 1, 2 }, sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), status;

	for (; *argv && iov.iov_len + strlen(*argv) < sizeof text; argv++) {
		memcpy(text + iov.iov_len, *argv, strlen(*argv) + 1);
		iov.iov_len += strlen(*argv) + 1;
	}
	*m = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof std), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(m), std, sizeof std);
	need(connect(sock, (struct sockaddr *)&a, sizeof a), path);
	need(sendmsg(sock, &h, MSG_NOSIGNAL), "send");
	need(recv(sock, &status, sizeof status, 0) == sizeof status ? 0 : -1, "answer");
	return status;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "serve"))
		return server(argv[2], argv[3], argv[4]);
	if (argc > 2)
		return client(argv[1], argv + 2);
	dprintf(2, "usage: exec_floor serve SOCKET CGROUP ROOTFS | SOCKET COMMAND...\n");
	return 2;
}
