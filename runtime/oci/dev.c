/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /dev of a container: the default devices and links (runtime-linux.md,
 * "Dev symbolic links"; config-linux.md, "Default Devices"), linux.devices, and
 * its terminal.  Everything goes through descriptors of directories that were
 * resolved within the root (E08).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/kernel/newmount.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

static const struct { const char *name; unsigned major, minor; } defaults[] = {
	{ "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct { const char *name, *to; } links[] = {
	{ "fd", "/proc/self/fd" }, { "stdin", "/proc/self/fd/0" }, { "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" },
};

/* ---- nodes ----------------------------------------------------------------------- */

struct node {
	mode_t type, mode;
	unsigned major, minor;
	uid_t uid;
	gid_t gid;
	/*
	 * named in linux.devices: another file in its place is an error (config-linux.md,
	 * "Devices")
	 */
	int asked;
};

static int is_node(int fd, const struct node *n)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == n->type &&
	       (n->type == S_IFIFO || st.st_rdev == makedev(n->major, n->minor));
}

/* The host's device put over a file, where it cannot be made.  host_fd: a mount, or -1: the host's path, still reachable. */
static int bind_node(int dir, const char *name, const char *path, int host_fd, const struct node *n, struct err *e)
{
	autoclose int made = -1, target = -1, own = -1;

	if (host_fd < 0) {
		/* the host's node: its mode and owner are not the container's to change */
		own = newmount_clone(AT_FDCWD, path, 0, OCI_DEVICE_ATTR | MOUNT_ATTR_RDONLY, e);
		host_fd = own;
	}
	if (host_fd < 0 || !is_node(host_fd, n))
		return err_set(e, ERR_NOT_FOUND, "device %s can neither be made here nor taken from the host, which has no such one", path);
	made = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
	target = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (target < 0)
		return err_sys(e, "make a place for device %s", path);
	return newmount_attach(host_fd, target, path, e);
}

/* Asked where a device was to be made and a file is there, which hides the kernel's answer. */
static int nodes_can_be_made(const struct oci_container *c)
{
	static const char name[] = "device.try";

	if (c->in_userns)
		return 0;
	if (mknodat(c->state->dir_fd, name, S_IFCHR, makedev(1, 3)) < 0)
		return errno != EPERM;
	unlinkat(c->state->dir_fd, name, 0);
	return 1;
}

/* Tells whether the existing file may be removed or covered; -1 with e if not. */
static int check_node_place(const struct oci_container *c, int there, const char *path, const struct node *n, struct err *e)
{
	struct stat st;

	if (fstat(there, &st) < 0)
		return err_sys(e, "look at %s", path);
	/* a default device of the image's own /dev, under a wrong name: the container must have the right one */
	if (!n->asked)
		return 0;
	/* the mount point of bind_node(), from an earlier container of this root */
	if (n->type != S_IFIFO && S_ISREG(st.st_mode) && st.st_size == 0 && !nodes_can_be_made(c))
		return 0;
	err_set(e, ERR_EXISTS, "linux.devices: %s is there and is not the device that is asked for", path);
	return err_hint(e, "give the device another path, or take the file out of the root");
}

static int make_node(const struct oci_container *c, int dir, const char *name, const char *path, int host_fd,
		     const struct node *n, struct err *e)
{
	autoclose int there = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (there >= 0 && is_node(there, n)) {
		/* a node of the image's or the host's stays unchanged */
		return 0;
	}
	if (there >= 0 && check_node_place(c, there, path, n, e) < 0)
		return -1;
	if (n->type != S_IFIFO && (c->in_userns || (there >= 0 && n->asked)))
		return bind_node(dir, name, path, host_fd, n, e);
	/* a directory is left, and is the error below */
	if (there >= 0 && fstat(there, &st) == 0 && !S_ISDIR(st.st_mode))
		unlinkat(dir, name, 0);
	if (mknodat(dir, name, n->type | n->mode, makedev(n->major, n->minor)) < 0) {
		if (errno == EPERM && n->type != S_IFIFO)
			return bind_node(dir, name, path, host_fd, n, e);
		return err_sys(e, "make device %s", path);
	}
	/* the umask is 0 here */
	if ((n->uid || n->gid) && fchownat(dir, name, n->uid, n->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "give device %s its owner", path);
	return 0;
}

static int read_node(const json_t *v, struct node *n, struct err *e)
{
	const char *type = oci_str(v, "type");

	/* permissions alone: engines pass on the type in it, and a set-id device is none (runc drops the bits too) */
	*n = (struct node){ .mode = (mode_t)oci_u64(v, "fileMode", 0666) & 0777, .major = (unsigned)oci_i64(v, "major", 0),
			    .minor = (unsigned)oci_i64(v, "minor", 0), .uid = (uid_t)oci_u64(v, "uid", 0),
			    .gid = (gid_t)oci_u64(v, "gid", 0) };
	if (!strcmp(type, "c") || !strcmp(type, "u"))
		n->type = S_IFCHR;
	else if (!strcmp(type, "b"))
		n->type = S_IFBLK;
	else if (!strcmp(type, "p"))
		n->type = S_IFIFO;
	else
		return err_set(e, ERR_INVALID, "linux.devices: type '%.16s' is not c, b, u or p", type);
	return 0;
}

/* The host's id of a container's. */
static uid_t on_host(const json_t *map, uid_t id)
{
	const json_t *v;
	size_t i;

	json_array_foreach(map, i, v) {
		uint64_t from = oci_u64(v, "containerID", 0), size = oci_u64(v, "size", 0);

		if (id >= from && id - from < size)
			return (uid_t)(oci_u64(v, "hostID", 0) + id - from);
	}
	return id;
}

/*
 * The container's root may not make a device, but the host's may. It makes the device in the
 * state directory, and the device is mounted from there (devices work on that mount, even if
 * /run is nodev). The name must stay until the mount is attached: oci_dev_forget().
 */
static int make_on_host(struct oci_container *c, size_t i, const struct node *n, const char *path, struct err *e)
{
	char name[32];
	struct mount_attr a = { .attr_set = OCI_DEVICE_ATTR, .attr_clr = MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE };
	autoclose int fd = -1;
	mode_t mask;
	int r;

	snprintf(name, sizeof(name), "device.%zu", i);
	mask = umask(0);
	r = mknodat(c->state->dir_fd, name, n->type | n->mode, makedev(n->major, n->minor));
	umask(mask);
	if (r < 0)
		return errno == EPERM ? -1 : err_sys(e, "make device %s", path);
	if (fchownat(c->state->dir_fd, name, on_host(oci_get(c->linux_part, "uidMappings"), n->uid),
		     on_host(oci_get(c->linux_part, "gidMappings"), n->gid), AT_SYMLINK_NOFOLLOW) == 0)
		fd = open_tree(c->state->dir_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		err_sys(e, "make device %s", path);
	return take_fd(&fd);
}

void oci_dev_forget(const struct oci_container *c)
{
	char name[32];
	size_t i;

	for (i = 0; i < c->device_count; i++) {
		snprintf(name, sizeof(name), "device.%zu", i);
		unlinkat(c->state->dir_fd, name, 0);
	}
}

int oci_dev_open(struct oci_container *c, struct err *e)
{
	const json_t *list = oci_get(c->linux_part, "devices"), *v;
	size_t i;

	c->device_fd = calloc(json_array_size(list) + 1, sizeof(*c->device_fd));
	if (!c->device_fd)
		return err_nomem(e);
	json_array_foreach(list, i, v) {
		struct node n;

		c->device_fd[i] = -1;
		c->device_count = i + 1;
		if (read_node(v, &n, e) < 0)
			return -1;
		/* without privilege it is -1, and the host's device of the same path is taken */
		if (n.type != S_IFIFO && geteuid() == 0)
			c->device_fd[i] = make_on_host(c, i, &n, oci_str(v, "path"), e);
	}
	return 0;
}

static int same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* An entry of linux.devices.  *taken gets bit N when it is what defaults[N] would be, in dev. */
static int configured(const struct oci_container *c, const json_t *v, int root_fd, int dev, int host_fd, unsigned *taken,
		      struct err *e)
{
	const char *path = oci_str(v, "path");
	char parent[PATH_MAX], *name;
	autoclose int dir = -1;
	struct node n;
	size_t i;

	if (read_node(v, &n, e) < 0)
		return -1;
	n.asked = 1;
	if (path[0] != '/' || (size_t)snprintf(parent, sizeof(parent), "%s", path) >= sizeof(parent))
		return err_set(e, ERR_INVALID, "linux.devices: path '%.200s' is not absolute", path);
	for (name = parent + strlen(parent); name > parent + 1 && name[-1] == '/';)
		*--name = '\0';
	name = strrchr(parent, '/');
	*name++ = '\0';
	if (!*name || !strcmp(name, "..") || !strcmp(name, "."))
		return err_set(e, ERR_INVALID, "linux.devices: path '%.200s' is not a file's", path);
	dir = oci_place(root_fd, parent[0] ? parent : "/", 1, e);
	if (dir < 0)
		return -1;
	if (make_node(c, dir, name, path, host_fd, &n, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(defaults); i++)
		if (!strcmp(name, defaults[i].name) && same_file(dir, dev))
			*taken |= 1u << i;
	return 0;
}

/* The configuration may give the container the host's /dev: then nothing is made in it. */
static int dev_is_bound(const struct oci_container *c)
{
	size_t i;

	for (i = 0; i < c->mount_count; i++)
		if (c->mounts[i].bind && (!strcmp(c->mounts[i].destination, "/dev") || !strcmp(c->mounts[i].destination, "/dev/")))
			return 1;
	return 0;
}

static void make_link(int dir, const char *name, const char *to)
{
	/* a file of the image with that name stays, as in runc and crun */
	if (symlinkat(to, dir, name) < 0)
		return;
}

int oci_dev_make(struct oci_container *c, int root_fd, struct err *e)
{
	const json_t *list = oci_get(c->linux_part, "devices"), *v;
	autoclose int dir = -1;
	unsigned taken = 0;
	size_t i;

	if (dev_is_bound(c))
		return 0;
	dir = oci_place(root_fd, "/dev", 1, e);
	if (dir < 0)
		return -1;
	json_array_foreach(list, i, v)
		if (configured(c, v, root_fd, dir, i < c->device_count ? c->device_fd[i] : -1, &taken, e) < 0)
			return -1;
	for (i = 0; i < ARRAY_LEN(defaults); i++) {
		struct node n = { S_IFCHR, 0666, defaults[i].major, defaults[i].minor, 0, 0, 0 };
		char path[32];

		/* a file requested by name wins */
		if (taken >> i & 1)
			continue;
		snprintf(path, sizeof(path), "/dev/%s", defaults[i].name);
		if (make_node(c, dir, defaults[i].name, path, c->default_dev_fd[i], &n, e) < 0)
			return -1;
	}
	for (i = 0; i < ARRAY_LEN(links); i++)
		make_link(dir, links[i].name, links[i].to);
	if (faccessat(c->proc_fd, "kcore", F_OK, 0) == 0)
		make_link(dir, "core", "/proc/kcore");
	/* the container's own devpts, even if the image has a file there */
	if (path_has(dir, "pts/ptmx")) {
		unlinkat(dir, "ptmx", 0);
		make_link(dir, "ptmx", "pts/ptmx");
	}
	return 0;
}

/* ---- the terminal ---------------------------------------------------------------------- */

static int open_master(struct err *e)
{
	autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;
	int fd;

	if (root < 0)
		return err_sys(e, "open the container's root");
	fd = path_open_in_root(root, "/dev/pts/ptmx", O_RDWR | O_NOCTTY, 0);
	if (fd < 0)
		fd = path_open_in_root(root, "/dev/ptmx", O_RDWR | O_NOCTTY, 0);
	if (fd < 0)
		return err_sys(e, "open /dev/ptmx in the container: process.terminal needs a devpts mount at /dev/pts");
	if (fstatfs(fd, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC) {
		/* the host's own ptmx, bound there, lies in devtmpfs: its peer is still a terminal */
		struct stat st;

		if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(5, 2)) {
			close(fd);
			return err_set(e, ERR_DENIED, "/dev/ptmx in the container is not a terminal multiplexer");
		}
	}
	return fd;
}

/*
 * Mounts the console on a file of the container's /dev, made if missing: never through a link
 * (CVE-2025-52565, E07).
 */
static int mount_console(int peer, struct err *e)
{
	autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), dir = -1, made = -1, target = -1, mnt = -1;

	if (root < 0)
		return err_sys(e, "open the container's root");
	dir = path_open_in_root(root, "/dev", O_PATH | O_DIRECTORY, 0);
	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open /dev of the container");
	made = openat(dir, "console", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0620);
	target = openat(dir, "console", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (target < 0)
		return err_sys(e, "make /dev/console");
	mnt = open_tree(peer, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (mnt < 0)
		return err_sys(e, "take the terminal for /dev/console");
	return newmount_attach(mnt, target, "/dev/console", e);
}

int oci_console_take(const json_t *process, int console, struct err *e)
{
	const json_t *box = oci_get(process, "consoleSize");
	struct winsize size = { .ws_row = (unsigned short)oci_u64(box, "height", 0),
				.ws_col = (unsigned short)oci_u64(box, "width", 0) };
	autoclose int master = open_master(e), peer = -1;
	int i, unlock = 0;

	if (master < 0)
		return -1;
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_sys(e, "unlock the terminal");
	peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (peer < 0)
		return err_sys(e, "open the terminal");
	if (box && ioctl(master, TIOCSWINSZ, &size) < 0)
		return err_sys(e, "set the terminal's size");
	if (console && mount_console(peer, e) < 0)
		return -1;
	for (i = 0; i < 3; i++)
		if (dup2(peer, i) < 0)
			return err_sys(e, "make the terminal stdin, stdout and stderr");
	if (ioctl(0, TIOCSCTTY, 0) < 0)
		return err_sys(e, "make the terminal the controlling one");
	return take_fd(&master);
}

void oci_console_plain(int master)
{
	struct termios t;

	if (tcgetattr(master, &t) < 0)
		return;
	t.c_oflag &= ~(tcflag_t)ONLCR;
	tcsetattr(master, TCSANOW, &t);
}

int oci_console_connect(const char *path, struct err *e)
{
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char near[64];
	autoclose int dir = -1;

	if (fd < 0)
		return err_sys(e, "make a socket");
	if (strlen(path) >= sizeof(a.sun_path)) {
		/* longer than an address takes: by way of its directory's descriptor */
		char copy[PATH_MAX], *slash;

		snprintf(copy, sizeof(copy), "%s", path);
		slash = strrchr(copy, '/');
		*slash++ = '\0';
		dir = open(copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || strlen(slash) > 60)
			return err_sys(e, "open the directory of console socket %s", path);
		snprintf(a.sun_path, sizeof(a.sun_path), "%s/%.60s", path_of_fd(dir, near), slash);
	} else {
		memcpy(a.sun_path, path, strlen(path));
	}
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, "connect to console socket %s", path);
	return take_fd(&fd);
}

int oci_pidfd_send(const char *path, pid_t pid, struct err *e)
{
	autoclose int sock = -1, pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0)
		return err_sys(e, "open process %d", (int)pid);
	sock = oci_console_connect(path, e);
	if (sock < 0)
		return err_wrap(e, "--pidfd-socket");
	/* the name goes with it, as runc has it */
	return fdpass_send(sock, "pidfd", 5, &pidfd, 1) < 0 ? err_sys(e, "send the process to %s", path) : 0;
}

int oci_console_send(int fd, int master, struct err *e)
{
	static const char name[] = "/dev/pts/ptmx";

	if (fdpass_send(fd, name, sizeof(name) - 1, &master, 1) < 0)
		return err_sys(e, "send the terminal to the console socket");
	return 0;
}
