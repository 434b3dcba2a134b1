/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container's root and the mounts in it.
 *
 * Order: the root's mount on its own directory (hooks look for it there), each
 * entry of `mounts` in turn, /dev; then hooks; then pivot_root and the host's
 * root detached; then masks and read-only paths, which are resolved in the
 * container alone.  Every mount is complete before it is attached, to a
 * descriptor that the kernel resolved within the root (E09).
 *
 * Another container may have the tree, or a volume in it, too, and change it while we look (S25):
 * no path is looked up twice for one purpose, and nothing is written through the container's own
 * /proc.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/kernel/newmount.h"
#include "runtime/oci/container.h"
#include "runtime/oci/idmap.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"

/* ---- before the clone ------------------------------------------------------------- */

static const struct { const char *word; unsigned long flags; } propagations[] = {
	{ "", 0 }, { "rprivate", MS_PRIVATE | MS_REC }, { "private", MS_PRIVATE },
	{ "rslave", MS_SLAVE | MS_REC }, { "slave", MS_SLAVE }, { "rshared", MS_SHARED | MS_REC },
	{ "shared", MS_SHARED }, { "runbindable", MS_UNBINDABLE | MS_REC }, { "unbindable", MS_UNBINDABLE },
};

static int read_propagation(struct oci_container *c, struct err *e)
{
	const char *word = oci_str(c->linux_part, "rootfsPropagation");
	size_t i;

	for (i = 0; i < ARRAY_LEN(propagations); i++) {
		if (!strcmp(word ? word : "", propagations[i].word)) {
			c->propagation = propagations[i].flags;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "linux.rootfsPropagation: '%.32s' is not a propagation", word);
}

int oci_mounts_read(struct oci_container *c, struct err *e)
{
	const json_t *list = oci_get(c->config, "mounts");
	json_t *v;
	const char *label = oci_str(c->linux_part, "mountLabel");
	size_t i;

	/* a label that is taken and not put on would be a control that is not there */
	if (label && *label)
		return err_set(e, ERR_UNSUPPORTED, "linux.mountLabel '%.64s': mounts are not labelled for SELinux by this runtime; "
			       "hint: leave it out (podman: --security-opt label=disable)", label);
	if (read_propagation(c, e) < 0)
		return -1;
	c->mounts = calloc(json_array_size(list) + 1, sizeof(*c->mounts));
	if (!c->mounts)
		return err_nomem(e);
	json_array_foreach(list, i, v) {
		if (oci_mount_split(v, e) < 0 || oci_mount_read(&c->mounts[i], v, e) < 0)
			return -1;
		c->mount_count = i + 1;
	}
	if (c->mount_count && !oci_has_mounts(c) && !oci_mounts_on_host(c))
		return err_set(e, ERR_INVALID,
			       "mounts beside a user namespace need a mount namespace of the container's own, as its root "
			       "may mount nothing in the host's; hint: add {\"type\": \"mount\"} to linux.namespaces");
	return 0;
}

/* The default propagation of a bind mount. */
static unsigned long default_propagation(const struct oci_container *c)
{
	return c->propagation & MS_SHARED ? 0 : MS_SLAVE;
}

/* The user namespace of an idmapped mount; a child of the runtime makes it. */
static int open_map(const struct oci_container *c, struct oci_mount *m, struct err *e)
{
	/* no mappings anywhere, and the container joins a user namespace: use its mappings */
	if (!m->idmap_spec && c->ns_fd[NS_USER] >= 0 && !json_array_size(oci_get(m->doc, "uidMappings")) &&
	    !json_array_size(oci_get(c->linux_part, "uidMappings"))) {
		m->map_fd = fcntl(c->ns_fd[NS_USER], F_DUPFD_CLOEXEC, 3);
		return m->map_fd < 0 ? err_sys(e, "keep the user namespace for mount %s", m->destination) : 0;
	}
	m->map_fd = oci_idmap_for_mount(m->doc, m->idmap_spec, c->linux_part, e);
	return m->map_fd < 0 ? err_wrap(e, "mount %s", m->destination) : 0;
}

/*
 * Lets the runtime map the ids of m, which the process opened: root of the container's user
 * namespace may not, as the file system is the host's.
 */
static int ask_idmap(const struct oci_container *c, const struct oci_mount *m, struct err *e)
{
	struct oci_message ask = { .kind = OCI_IDMAP, .value = (int32_t)(m - c->mounts) };

	if (fdpass_send(c->sock, &ask, sizeof(ask), &m->fd, 1) < 0)
		return err_sys(e, "hand over the mount %s", m->destination);
	/* the runtime reports its own error */
	if (oci_message_recv(c->sock, &ask, NULL) != 1 || ask.kind != OCI_IDMAPPED)
		_exit(1);
	return 0;
}

int oci_mounts_idmap(struct oci_container *c, int index, int fd, struct err *e)
{
	struct oci_mount *m = index >= 0 && (size_t)index < c->mount_count ? &c->mounts[index] : NULL;

	if (fd < 0 || !m || m->map_fd < 0)
		return err_set(e, ERR_INTERNAL, "no ids to map for mount %d", index);
	if (newmount_idmap(fd, m->idmap == 2, m->map_fd, m->source, e) < 0)
		return -1;
	fd_close(&m->map_fd);
	return 0;
}

static int open_oci_bind(struct oci_container *c, struct oci_mount *m, int source_fd, struct err *e)
{
	const int ask = m->map_fd >= 0 && c->in_userns && source_fd >= 0;

	if (m->idmap && m->map_fd < 0 && open_map(c, m, e) < 0)
		return -1;
	if (oci_mount_bind(m, source_fd, default_propagation(c), ask ? -1 : m->map_fd, e) < 0 ||
	    (ask && ask_idmap(c, m, e) < 0))
		return -1;
	fd_close(&m->map_fd);
	return 0;
}

/*
 * Opens sources for the container's process, which with a user namespace can open none of the
 * host's. A source may be a file that an earlier entry of mounts puts there, so it is opened in
 * its turn: always without a user namespace, and with one where it is in the root.
 */
static int open_early(struct oci_container *c, struct oci_mount *m, struct err *e)
{
	char source[PATH_MAX];

	if (!m->bind || m->copy_symlink)
		return 0;
	if (c->in_userns && !oci_source_made_earlier(c, m, source))
		return open_oci_bind(c, m, -1, e);
	return m->idmap ? open_map(c, m, e) : 0;
}

/*
 * Opens an entry of mounts in its turn: with a user namespace from the root, because the host's
 * directories above it may be closed to the process.
 */
static int open_late(struct oci_container *c, struct oci_mount *m, struct err *e)
{
	char source[PATH_MAX];
	const char *inside = c->in_userns ? oci_source_made_earlier(c, m, source) : NULL;
	autoclose int fd = -1;

	if (!inside)
		return open_oci_bind(c, m, -1, e);
	fd = path_open_in_root(c->root_fd, inside, O_PATH | (m->source_nofollow ? O_NOFOLLOW : 0), 0);
	return fd < 0 ? err_sys(e, "bind mount %s on %s", m->source, m->destination) : open_oci_bind(c, m, fd, e);
}

/*
 * Copies the mount of a device; -1: its user reports the error. The copy is never a peer of the
 * host's mount, which would change with it.
 */
static int copy_device(const char *path, uint64_t attr)
{
	struct err ignored;

	return newmount_clone(AT_FDCWD, path, 0, attr, &ignored);
}

/*
 * A masked file is covered by the host's own node. The container's root may be the host's root,
 * and must not change the mode or owner that the whole host sees (S25). A device can still be
 * written to.
 */
static int copy_null(void)
{
	return copy_device("/dev/null", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

static const char *const dev_names[] = { "null", "zero", "full", "random", "urandom", "tty" };

int oci_mounts_open(struct oci_container *c, struct err *e)
{
	char path[32];
	size_t i;

	c->root_fd = c->null_fd = -1;
	for (i = 0; i < ARRAY_LEN(dev_names); i++)
		c->default_dev_fd[i] = -1;
	/* an ordinary user can copy mounts only in the namespaces of the container, where it is root */
	if (geteuid() != 0)
		return 0;
	for (i = 0; i < c->mount_count; i++)
		if (open_early(c, &c->mounts[i], e) < 0)
			return -1;
	if (!c->in_userns)
		return 0;
	c->root_fd = open_tree(AT_FDCWD, c->rootfs, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (c->root_fd < 0)
		return err_sys(e, "open the root %s", c->rootfs);
	c->null_fd = copy_null();
	/* no mknod in a user namespace */
	for (i = 0; i < ARRAY_LEN(dev_names); i++) {
		snprintf(path, sizeof(path), "/dev/%s", dev_names[i]);
		c->default_dev_fd[i] = copy_device(path, OCI_DEVICE_ATTR);
	}
	return oci_dev_open(c, e);
}

/* ---- the root ------------------------------------------------------------------------ */

/* move_mount and pivot_root refuse a shared parent: walks up to the mount that holds the root. */
static int make_parent_private(const char *rootfs, struct err *e)
{
	char path[PATH_MAX];
	char *slash;

	snprintf(path, sizeof(path), "%s", rootfs);
	for (;;) {
		if (mount(NULL, path, NULL, MS_PRIVATE, NULL) == 0)
			return 0;
		if (errno != EINVAL)
			return err_sys(e, "make the mount of %s private", rootfs);
		slash = strrchr(path, '/');
		if (!slash || !path[1])
			return err_set(e, ERR_INTERNAL, "no mount holds %s", rootfs);
		slash[slash == path] = '\0';
	}
}

static int attach_root(struct oci_container *c, struct err *e)
{
	const unsigned long spread = c->propagation ? c->propagation : MS_SLAVE | MS_REC;
	autoclose int target = -1;

	if (mount(NULL, "/", NULL, spread, NULL) < 0)
		return err_sys(e, "set the propagation of the mount namespace");
	if (spread & (MS_SHARED | MS_UNBINDABLE) && make_parent_private(c->rootfs, e) < 0)
		return -1;
	if (c->root_fd < 0)
		c->root_fd = open_tree(AT_FDCWD, c->rootfs, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	else if (!(spread & MS_SHARED))
		/* copied in the runtime's namespace, so still a peer of the host's */
		mount_setattr(c->root_fd, "", AT_EMPTY_PATH | AT_RECURSIVE,
			      &(struct mount_attr){ .propagation = MS_SLAVE }, sizeof(struct mount_attr));
	if (c->root_fd < 0)
		return err_sys(e, "open the root %s", c->rootfs);
	if (c->step && newmount_attr(c->root_fd, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e) < 0)
		return -1;
	target = open(c->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* the namespace's root may not reach it: then any place will do */
	if (target < 0 && errno == EACCES)
		target = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (target < 0)
		return err_sys(e, "open the root %s", c->rootfs);
	return newmount_attach(c->root_fd, target, c->rootfs, e);
}

/* ---- what is mounted in it --------------------------------------------------------------- */

static int is_mounted_directory(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The directory that a tmpfs will hide, copied into it; its owner too. */
static int copy_up_mount(struct oci_mount *m, int target, struct err *e)
{
	char path[32];
	struct stat st, own;
	autoclose int from = open(path_of_fd(target, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int to = openat(m->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		return err_sys(e, "tmpcopyup at %s", m->destination);
	/* its mode is a mount option by now, given or inherited; fchown() would clear set-id bits of it */
	if (fstat(to, &own) < 0 || fchown(to, st.st_uid, st.st_gid) < 0 || fchmod(to, own.st_mode & 07777) < 0)
		return err_sys(e, "tmpcopyup at %s", m->destination);
	return oci_copy_tree(from, to, e);
}

/* sysfs belongs to the network namespace's owner: in a user namespace with the host's network, the host's is shown. */
static int make_fs(struct oci_container *c, struct oci_mount *m, struct err *e)
{
	struct oci_mount host = *m;

	if (oci_mount_new(m, e) == 0)
		return 0;
	if (!c->in_userns || strcmp(m->type, "sysfs") != 0 || e->os_errno != EPERM)
		return -1;
	host.source = "/sys";
	host.recursive = 1;
	if (oci_mount_bind(&host, -1, MS_SLAVE, -1, e) < 0)
		return -1;
	m->fd = host.fd;
	return 0;
}

static int finish_new(struct oci_mount *m, int target, struct err *e)
{
	if (m->copy_up && copy_up_mount(m, target, e) < 0)
		return -1;
	if (m->set & MOUNT_ATTR_RDONLY && !m->late && newmount_attr(m->fd, 0, MOUNT_ATTR_RDONLY, e) < 0)
		return err_wrap(e, "mount %s", m->destination);
	return 0;
}

/* A tmpfs that hides a directory has its mode, unless it is given one. */
static void inherit_mode(const struct oci_container *c, struct oci_mount *m, const char *path)
{
	autoclose int hidden = -1;
	struct stat st;
	size_t i;

	for (i = 0; i < m->words; i++)
		if (!strncmp(m->word[i], "mode=", 5))
			return;
	hidden = path_open_in_root(c->root_fd, path, O_PATH | O_DIRECTORY, 0);
	if (hidden < 0 || fstat(hidden, &st) < 0 || m->words == OCI_MOUNT_WORDS)
		return;
	snprintf(m->mode, sizeof(m->mode), "mode=%o", st.st_mode & 07777);
	m->word[m->words++] = m->mode;
}

/* Remounts by a descriptor that the kernel resolved in the root, so it is a mount of the container. */
static int remount(const struct oci_container *c, struct oci_mount *m, const char *path, struct err *e)
{
	autoclose int target = path_open_in_root(c->root_fd, path, O_PATH | (m->target_nofollow ? O_NOFOLLOW : 0), 0);

	if (target < 0)
		return err_sys(e, "remount %s", path);
	if (oci_mount_again(m, target, e) < 0 || oci_mount_spread(m, e) < 0)
		return -1;
	if (!m->late)
		fd_close(&m->fd);
	return 0;
}

static int mount_one(struct oci_container *c, struct oci_mount *m, struct err *e)
{
	const int kernel_fs = !m->bind && !m->remount && (!strcmp(m->type, "proc") || !strcmp(m->type, "sysfs"));
	char path[PATH_MAX];
	autoclose int target = -1;
	int done;

	if (oci_place_spell(c, m->destination, path, e) < 0)
		return -1;
	if (m->remount)
		return remount(c, m, path, e);
	if (m->copy_symlink && m->bind) {
		if (oci_place_link(c->root_fd, m, path, &done, e) < 0 || done)
			return done ? 0 : -1;
	}
	if (kernel_fs && (target = oci_kernelfs_place(c->root_fd, m, path, e)) < 0)
		return -1;
	if (!m->bind && !strncmp(m->type, "cgroup", 6)) {
		target = oci_place(c->root_fd, path, 1, e);
		return target < 0 ? -1 : oci_cgroup_mount(c, m, target, e);
	}
	if (!m->bind && !strcmp(m->type, "tmpfs")) {
		m->late = m->set & MOUNT_ATTR_RDONLY ? 1 : 0;
		inherit_mode(c, m, path);
	}
	if (m->bind ? m->fd < 0 && open_late(c, m, e) < 0 : make_fs(c, m, e) < 0)
		return -1;
	if (target < 0 && m->target_nofollow)
		target = path_open_in_root(c->root_fd, path, O_PATH | O_NOFOLLOW, 0);
	if (target < 0)
		target = oci_place(c->root_fd, path, is_mounted_directory(m->fd), e);
	if (target < 0 || oci_kernelfs_check(m, path, target, e) < 0)
		return -1;
	if (!m->bind && finish_new(m, target, e) < 0)
		return -1;
	if (newmount_attach(m->fd, target, path, e) < 0 || oci_mount_spread(m, e) < 0 || oci_kernelfs_keep(c, m, path, e) < 0)
		return -1;
	if (!m->late)
		fd_close(&m->fd);
	return 0;
}

int oci_rootfs_prepare(struct oci_container *c, struct err *e)
{
	size_t i;

	if (!oci_has_mounts(c) && !oci_mounts_on_host(c)) {
		/* only the root directory is the container's */
		c->root_fd = open(c->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
		return c->root_fd < 0 ? err_sys(e, "open the root %s", c->rootfs) : 0;
	}
	if (c->null_fd < 0)
		c->null_fd = copy_null();
	if ((oci_has_mounts(c) ? attach_root(c, e) : oci_rootmount_attach(c, e)) < 0)
		return -1;
	for (i = 0; i < c->mount_count; i++)
		if (mount_one(c, &c->mounts[i], e) < 0)
			return -1;
	return oci_dev_make(c, c->root_fd, e);
}

/* ---- leaving the host's --------------------------------------------------------------------- */

static int pivot(struct err *e)
{
	autoclose int old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (old < 0)
		return err_sys(e, "open the host's root");
	/* the old root is stacked on the new one; no path of the container is needed for it */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "pivot_root");
	/*
	 * by its descriptor: "." is still the new root; only the removal of the old one must not
	 * reach the host's peers
	 */
	if (fchdir(old) < 0 || mount(NULL, ".", NULL, MS_SLAVE | MS_REC, NULL) < 0)
		return err_sys(e, "set the host's root aside");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(e, "detach the host's root");
	return 0;
}

/* The path of a line of mountinfo: blanks and the like are octal escapes (proc(5)).  In place. */
static void unescape_mountinfo(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/*
 * Hides the host's /proc and /sys. Without pivot_root the host's mounts stay in the namespace, out
 * of reach. The kernel would let a process that sees a whole /proc or /sys mount another one,
 * without our masks, so they are removed or covered.
 */
static int hide_kernel_fs(const struct oci_container *c, struct err *e)
{
	autobuf struct buf text = BUF_INIT(16u << 20);
	char *line, *save = NULL;
	const size_t n = strlen(c->rootfs);

	if (io_read_file(c->proc_fd, "self/mountinfo", &text, e) < 0)
		return -1;
	for (line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *type = strstr(line, " - "), *path = line, *end;
		int i;

		for (i = 0; path && i < 4; i++)
			path = strchr(path, ' ') ? strchr(path, ' ') + 1 : NULL;
		end = path ? strchr(path, ' ') : NULL;
		if (!end || !type || (strncmp(type + 3, "proc ", 5) != 0 && strncmp(type + 3, "sysfs ", 6) != 0))
			continue;
		*end = '\0';
		unescape_mountinfo(path);
		if (!strncmp(path, c->rootfs, n) && (path[n] == '/' || !path[n]))
			continue;
		if (mount(NULL, path, NULL, MS_SLAVE | MS_REC, NULL) < 0 && errno != EINVAL && errno != ENOENT)
			return err_sys(e, "set %s of the host aside", path);
		if (umount2(path, MNT_DETACH) == 0 || errno == ENOENT || errno == ENOTDIR)
			continue;
		/* locked by a user namespace, or busy: it must be covered completely */
		if (mount("tmpfs", path, "tmpfs", MS_RDONLY, NULL) < 0)
			return err_sys(e, "cover %s of the host", path);
	}
	return 0;
}

int oci_rootfs_enter(struct oci_container *c, struct err *e)
{
	const int own_mounts = oci_has_mounts(c);

	if (fchdir(c->root_fd) < 0)
		return err_sys(e, "enter the root %s", c->rootfs);
	if (!own_mounts || c->no_pivot) {
		if (c->no_pivot && own_mounts) {
			if (hide_kernel_fs(c, e) < 0)
				return -1;
			if (mount(".", "/", NULL, MS_MOVE, NULL) < 0)
				return err_sys(e, "move the root %s to /", c->rootfs);
		}
		if (chroot(".") < 0)
			return err_sys(e, "chroot to %s", c->rootfs);
	} else if (pivot(e) < 0) {
		return -1;
	}
	if (chdir("/") < 0)
		return err_sys(e, "enter / of the container");
	fd_close(&c->root_fd);
	return 0;
}

/* ---- a root without a mount namespace ---- */

/*
 * The root of a container without a mount namespace of its own: it inherits the runtime's
 * (config-linux.md, "Namespaces"), and so its mounts are made there. All of them lie below one
 * mount of the root on its own directory, which goes with the container.
 *
 * The state names the directory and the mount that it was on, before anything is mounted. What
 * is on the directory beyond that, and is the same directory, is the container's.
 */

#define LAYERS_MAX 64	/* mounts on the directory: a create that was killed leaves one */

int oci_has_mounts(const struct oci_container *c)
{
	return (c->new_ns >> NS_MOUNT & 1) || c->ns_fd[NS_MOUNT] >= 0;
}

int oci_mounts_on_host(const struct oci_container *c)
{
	return !oci_has_mounts(c) && !c->in_userns;
}

long oci_mount_id(int fd)
{
	autobuf struct buf text = BUF_INIT(4096);
	struct err ignored;
	char path[48];
	const char *at;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (io_read_file(AT_FDCWD, path, &text, &ignored) < 0 || !text.data ||
	    !(at = strstr(text.data, "mnt_id:")))
		return -1;
	return strtol(at + 7, NULL, 10);
}

int oci_rootmount_note(const struct oci_container *c, json_t *doc, struct err *e)
{
	autoclose int fd = -1;
	struct stat st;
	long below;

	if (!oci_mounts_on_host(c))
		return 0;
	fd = open(c->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open the root %s", c->rootfs);
	below = oci_mount_id(fd);
	if (below < 0)
		return err_set(e, ERR_SYS,
			       "find the mount of the root %s: /proc does not tell", c->rootfs);
	json_object_set_new(doc, "rootMount", json_pack("{s:I, s:I, s:I}", "below", (json_int_t)below, "dev", (json_int_t)st.st_dev,
							"ino", (json_int_t)st.st_ino));
	return 0;
}

int oci_rootmount_attach(struct oci_container *c, struct err *e)
{
	struct mount_attr own = { .propagation = MS_PRIVATE };
	autoclose int target = open(c->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (target >= 0)
		c->root_fd = open_tree(target, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
				       AT_EMPTY_PATH | AT_RECURSIVE);
	if (c->root_fd < 0)
		return err_sys(e, "open the root %s", c->rootfs);
	if (newmount_attach(c->root_fd, target, c->rootfs, e) < 0)
		return -1;
	/* on a shared mount the root has become shared too; the mounts in it are no other process's */
	if (mount_setattr(c->root_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &own, sizeof(own)) < 0)
		return err_sys(e, "make the mount of %s private", c->rootfs);
	return 0;
}

int oci_rootmount_remove(const json_t *doc, struct err *e)
{
	const json_t *noted = oci_get(doc, "rootMount");
	const char *rootfs = oci_str(doc, "rootfs");
	int i;

	if (!noted || !rootfs)
		return 0;
	for (i = 0; i < LAYERS_MAX; i++) {
		autoclose int fd = open(rootfs, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;
		char path[32];

		/* the directory has gone, or is another one by now */
		if (fd < 0 || fstat(fd, &st) < 0 || (json_int_t)st.st_dev != oci_i64(noted, "dev", -1) ||
		    (json_int_t)st.st_ino != oci_i64(noted, "ino", -1) ||
		    oci_mount_id(fd) == oci_i64(noted, "below", -1))
			return 0;
		if (umount2(path_of_fd(fd, path), MNT_DETACH) < 0)
			return errno == EINVAL ? 0 : err_sys(e, "unmount the container's root %s", rootfs);
	}
	return err_set(e, ERR_LIMIT,
		       "unmount the container's root %s: more than %d mounts are on it",
		       rootfs, LAYERS_MAX);
}
