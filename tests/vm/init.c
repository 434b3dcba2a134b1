/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init - pid 1 of the test VM: from the initramfs to one command, and the status back.  Static, no library but libc.
 *
 * /dev/vda is a throw-away ext4 copy of a small Debian: it becomes the root, writable.  The virtiofs share "berth" holds
 * tree/ (the source tree, read-only; seen at its own path under a scratch overlay) and job/ (argv, env, cwd, map and the answers:
 * stdout, stderr, status).  cgroup2 alone is mounted, with every controller switched on for children; the command runs in a
 * leaf of its own, as a service would.  The VM ends by the isa-debug-exit device.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHARE "/share"

static void leave(void)
{
	sync();
	if (!iopl(3))
		outb(0, 0xf4);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void need(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "vm init: %s: %s\n", what, strerror(errno));
	leave();
}

static void stamp(const char *what)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	fprintf(stderr, "vm init: %ld.%03ld %s\n", (long)t.tv_sec, t.tv_nsec / 1000000, what);
}

static void mkdirs(const char *path)
{
	char p[512];

	snprintf(p, sizeof p, "%s", path);
	for (char *s = p + 1; *s; s++)
		if (*s == '/') {
			*s = 0;
			mkdir(p, 0755);
			*s = '/';
		}
	mkdir(p, 0755);
}

static void attach(const char *source, const char *target, const char *type, unsigned long flags, const char *data)
{
	mkdirs(target);
	need(mount(source, target, type, flags, data), target);
}

static char *slurp(const char *path, size_t *ret_len)
{
	size_t cap = 1 << 20, n = 0;
	char *b = malloc(cap + 2);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	need(fd < 0 || !b ? -1 : 0, path);
	for (ssize_t r; n < cap && (r = read(fd, b + n, cap - n)) > 0;)
		n += (size_t)r;
	close(fd);
	b[n] = b[n + 1] = 0;
	if (ret_len)
		*ret_len = n;
	return b;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fprintf(stderr, "vm init: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void modules(void)
{
	char *save, *list = slurp("/modules/order", NULL);

	for (char *m = strtok_r(list, "\n", &save); m; m = strtok_r(NULL, "\n", &save)) {
		char path[256];
		int fd;

		snprintf(path, sizeof path, "/modules/%s", m);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			fprintf(stderr, "vm init: module %s: %s\n", m, strerror(errno));
		close(fd);
	}
}

/* NUL-separated strings -> vector */
static char **vector(char *b, size_t len)
{
	size_t n = 0;
	char **v;

	for (size_t i = 0; i < len; i++)
		n += !b[i];
	v = calloc(n + 1, sizeof *v);
	for (size_t i = 0; v && i < n; i++, b += strlen(b) + 1)
		v[i] = b;
	return v;
}

static void root_make(void)
{
	for (int i = 0; i < 3000 && access("/dev/vda", F_OK); i++)
		usleep(1000);
	attach("/dev/vda", "/new", "ext4", MS_NOATIME, NULL);
	stamp("root");
	attach("berth", "/new" SHARE, "virtiofs", 0, NULL);
	stamp("share");
	need(mount("/dev", "/new/dev", NULL, MS_MOVE, NULL), "move /dev");
	need(mount("/sys", "/new/sys", NULL, MS_MOVE, NULL), "move /sys");
	need(mount("/proc", "/new/proc", NULL, MS_MOVE, NULL), "move /proc");
	need(chdir("/new"), "/new");
	need(mount(".", "/", NULL, MS_MOVE, NULL), "move root");
	need(chroot("."), "chroot");
	need(chdir("/"), "/");
}

static void tree_make(void)
{
	size_t len;
	char **map, *tree = slurp(SHARE "/job/tree", NULL), *b = slurp(SHARE "/job/map", &len);

	attach("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755");
	/* the source tree: written to freely, nothing of it comes back */
	mkdirs("/run/vm/upper");
	mkdirs("/run/vm/work");
	attach("tree", tree, "overlay", 0, "lowerdir=" SHARE "/tree,upperdir=/run/vm/upper,workdir=/run/vm/work");
	map = vector(b, len);
	for (int i = 0; map && map[i]; i++) {	/* -w: the I-th directory lies at w/I in the share */
		char from[64];

		snprintf(from, sizeof from, SHARE "/w/%d", i);
		attach(from, map[i], NULL, MS_BIND, NULL);
	}
}

static void kernel_filesystems(void)
{
	char list[512] = "", *save, *all;

	attach("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666");
	attach("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	attach("mqueue", "/dev/mqueue", "mqueue", 0, NULL);
	need(symlink("/proc/self/fd", "/dev/fd") | symlink("fd/0", "/dev/stdin") | symlink("fd/1", "/dev/stdout") |
	     symlink("fd/2", "/dev/stderr"), "/dev links");
	attach("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate,memory_recursiveprot");
	mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=700");
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	all = slurp("/sys/fs/cgroup/cgroup.controllers", NULL);
	for (char *c = strtok_r(all, " \n", &save); c; c = strtok_r(NULL, " \n", &save))
		snprintf(list + strlen(list), sizeof list - strlen(list), "+%s ", c);
	put("/sys/fs/cgroup/cgroup.subtree_control", list);
	mkdir("/sys/fs/cgroup/vm.service", 0755);
}

/* As systemd does on a real Debian: nodes whose opening loads their module (/dev/loop-control, /dev/fuse, /dev/net/tun). */
static void static_nodes(void)
{
	struct utsname u;
	char path[512], *save, *list;

	uname(&u);
	snprintf(path, sizeof path, "/usr/lib/modules/%s/modules.devname", u.release);
	list = slurp(path, NULL);
	for (char *line = strtok_r(list, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char name[128], type;
		unsigned major, minor;

		if (sscanf(line, "%*s %127s %c%u:%u", name, &type, &major, &minor) != 4)
			continue;
		snprintf(path, sizeof path, "/dev/%s", name);
		*strrchr(path, '/') = 0;
		mkdirs(path);
		path[strlen(path)] = '/';
		mknod(path, (type == 'b' ? S_IFBLK : S_IFCHR) | 0600, makedev(major, minor));
	}
}

static void lo_up(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &r))
		fprintf(stderr, "vm init: lo: %s\n", strerror(errno));
	close(s);
}

static void stdio(const char *path, int fd, int flags)
{
	int f = open(path, flags, 0644);

	if (f < 0 || dup2(f, fd) < 0)
		_exit(125);
	close(f);
}

static void command(void)
{
	size_t len;
	char **argv, *b;

	setsid();
	put("/sys/fs/cgroup/vm.service/cgroup.procs", "0");
	stdio(SHARE "/job/stdin", 0, O_RDONLY);
	stdio(SHARE "/job/stdout", 1, O_WRONLY | O_APPEND);
	stdio(SHARE "/job/stderr", 2, O_WRONLY | O_APPEND);
	b = slurp(SHARE "/job/env", &len);
	environ = vector(b, len);
	b = slurp(SHARE "/job/argv", &len);
	argv = vector(b, len);
	b = slurp(SHARE "/job/cwd", NULL);
	if (chdir(b))
		fprintf(stderr, "%s: %s\n", b, strerror(errno));
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

int main(void)
{
	int status = 0, code = 125;
	char text[16];
	pid_t pid, gone;

	attach("proc", "/proc", "proc", 0, NULL);
	attach("sysfs", "/sys", "sysfs", 0, NULL);
	attach("devtmpfs", "/dev", "devtmpfs", 0, "mode=755");
	stamp("kernel");
	modules();
	stamp("modules");
	root_make();
	tree_make();
	kernel_filesystems();
	static_nodes();
	need(sethostname("berth-vm", 8), "hostname");
	need(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 1048576, 1048576 }), "RLIMIT_NOFILE");
	lo_up();
	stamp("command");
	pid = fork();
	need(pid, "fork");
	if (pid == 0)
		command();
	while ((gone = wait(&status)) != pid)
		if (gone < 0 && errno != EINTR)
			break;
	if (gone == pid)
		code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	stamp("done");
	kill(-1, SIGKILL);
	snprintf(text, sizeof text, "%d\n", code);
	put(SHARE "/job/status", text);
	leave();
}
