/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S9 of SECURITY.md. */
#include "runtime/sandbox/hostimage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

static const char *const top[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32" };

const char *const *hostimage_dirs(void)
{
	static const char *dirs[ARRAY_LEN(top) + 1];
	size_t i, n = 0;

	for (i = 0; i < ARRAY_LEN(top); i++) {
		struct stat st;

		if (lstat(top[i], &st) < 0) {
			if (errno != ENOENT)
				return NULL;
		} else if (S_ISDIR(st.st_mode)) {
			dirs[n++] = top[i];
		}
	}
	dirs[n] = NULL;
	return dirs;
}

/* Names in /etc that programs from /usr need; every other name stays on the host. */
static const char *const etc_names[] = {
	"alternatives", "bash.bashrc", "bash_completion.d", "bindresvport.blacklist", "ca-certificates",
	"ca-certificates.conf", "debian_version", "dpkg", "fonts", "gai.conf", "host.conf", "inputrc",
	"java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"localtime", "magic", "magic.mime", "mime.types", "mke2fs.conf", "networks", "nsswitch.conf", "os-release",
	"perl", "profile", "profile.d", "protocols", "python3", "python3.11", "python3.12", "python3.13", "rpc",
	"services", "skel", "ssl", "terminfo", "timezone", "vim", "wgetrc", "xattr.conf",
};

static const struct { const char *name, *text; } etc_own[] = {
	{ "passwd", "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
		    "bin:x:2:2:bin:/bin:/usr/sbin/nologin\nwww-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
		    "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"
		    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\nstaff:x:50:\nwww-data:x:33:\nsandbox:x:1000:\n"
		   "nogroup:x:65534:\n" },
};

static const struct { const char *path; mode_t mode; uint32_t owner; } own_dirs[] = {
	{ "etc", 0755, 0 }, { "root", 0700, 0 }, { "home", 0755, 0 }, { "home/sandbox", 0755, 1000 },
	{ "opt", 0755, 0 }, { "srv", 0755, 0 }, { "mnt", 0755, 0 }, { "media", 0755, 0 },
	{ "var", 0755, 0 }, { "var/cache", 0755, 0 }, { "var/lib", 0755, 0 }, { "var/log", 0755, 0 },
	{ "var/spool", 0755, 0 }, { "var/tmp", 01777, 0 },
};

/*
 * The sources whose change requires a new skeleton; replacing a file by rename changes its
 * directory's time.
 */
static int stamp(uint64_t *ret, struct err *e)
{
	static const char *const watched[] = {
		"/etc", "/etc/alternatives", "/etc/ssl/certs", "/etc/ld.so.cache", "/etc/ld.so.conf.d", "/etc/localtime",
		"/etc/services", "/etc/profile", "/etc/nsswitch.conf", "/lib64",
	};
	uint64_t h = 0xcbf29ce484222325ULL;
	size_t i, j;

	for (i = 0; i < ARRAY_LEN(watched); i++) {
		uint64_t v[4] = { i, 0, 0, 0 };
		struct stat st;

		if (lstat(watched[i], &st) < 0) {
			if (errno != ENOENT && errno != ENOTDIR)
				return err_sys(e, "look at %s for the host image", watched[i]);
		} else {
			v[1] = st.st_ino;
			v[2] = (uint64_t)st.st_mtim.tv_sec;
			v[3] = (uint64_t)st.st_mtim.tv_nsec;
		}
		for (j = 0; j < sizeof(v); j++) {	/* FNV-1a */
			h ^= ((const unsigned char *)v)[j];
			h *= 0x100000001b3ULL;
		}
	}
	for (j = 0; BERTH_VERSION[j]; j++)
		h = (h ^ (unsigned char)BERTH_VERSION[j]) * 0x100000001b3ULL;
	*ret = h;
	return 0;
}

#define COPY_FILE_MAX (4u << 20)
#define COPY_DEPTH_MAX 8

static int copy_skeleton_file(int from, const char *name, int to, const struct stat *st, struct err *e)
{
	autobuf struct buf b = BUF_INIT(COPY_FILE_MAX);
	autoclose int fd = -1;
	struct err skipped;

	if (io_read_file(from, name, &b, &skipped) < 0)
		return 0;	/* too large or changing: the sandbox does without */
	fd = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || io_write_all(fd, b.data ? b.data : "", b.len) < 0 || fchmod(fd, st->st_mode & 0755) < 0)
		return err_sys(e, "copy /etc file %s", name);
	return 0;
}

static int copy_skeleton_entry(int from, const char *name, int to, int depth, struct err *e);

static int copy_skeleton_dir(int from, const char *name, int to, int depth, struct err *e)
{
	autoclose int src = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int dst = -1;
	struct dirent *d;
	DIR *dir;
	int r = 0;

	if (src < 0)
		return 0;
	if (mkdirat(to, name, 0755) < 0)
		return err_sys(e, "make directory %s of the host image", name);
	dst = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dst < 0 || fchmod(dst, 0755) < 0)
		return err_sys(e, "open directory %s of the host image", name);
	dir = fdopendir(dup(src));
	if (!dir)
		return err_sys(e, "read /etc/%s", name);
	while (r == 0 && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			r = copy_skeleton_entry(src, d->d_name, dst, depth + 1, e);
	closedir(dir);
	return r;
}

/* Copies world-readable files only, which any user of the host could read anyway. */
static int copy_skeleton_entry(int from, const char *name, int to, int depth, struct err *e)
{
	char link[4096];
	struct stat st;
	ssize_t n;

	if (depth > COPY_DEPTH_MAX || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(from, name, link, sizeof(link) - 1);
		if (n < 0)
			return 0;
		link[n] = '\0';
		return symlinkat(link, to, name) < 0 ? err_sys(e, "copy link %s", name) : 0;
	}
	if (S_ISDIR(st.st_mode) && (st.st_mode & 0005) == 0005)
		return copy_skeleton_dir(from, name, to, depth, e);
	if (S_ISREG(st.st_mode) && st.st_mode & 0004)
		return copy_skeleton_file(from, name, to, &st, e);
	return 0;
}

static int build_etc(int layer, struct err *e)
{
	autoclose int from = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int to = openat(layer, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t i;

	if (from < 0 || to < 0)
		return err_sys(e, "open /etc");
	for (i = 0; i < ARRAY_LEN(etc_names); i++)
		if (copy_skeleton_entry(from, etc_names[i], to, 0, e) < 0)
			return -1;
	for (i = 0; i < ARRAY_LEN(etc_own); i++)
		if (io_replace_file(to, etc_own[i].name, etc_own[i].text, strlen(etc_own[i].text), 0644, 0, e) < 0)
			return -1;
	return 0;
}

static int build(int layer, struct err *e)
{
	size_t i;

	if (fchmod(layer, 0755) < 0)
		return err_sys(e, "make the host image's root");
	for (i = 0; i < ARRAY_LEN(own_dirs); i++)
		if (mkdirat(layer, own_dirs[i].path, 0700) < 0 ||
		    fchmodat(layer, own_dirs[i].path, own_dirs[i].mode, 0) < 0 ||
		    fchownat(layer, own_dirs[i].path, own_dirs[i].owner, own_dirs[i].owner, 0) < 0)
			return err_sys(e, "make /%s of the host image", own_dirs[i].path);
	for (i = 0; i < ARRAY_LEN(top); i++) {
		char target[4096];
		struct stat st;
		ssize_t n;

		if (lstat(top[i], &st) < 0) {
			if (errno != ENOENT)	/* an image without it would stay */
				return err_sys(e, "look at %s for the host image", top[i]);
			continue;
		}
		if (S_ISDIR(st.st_mode) && mkdirat(layer, top[i] + 1, 0755) < 0)
			return err_sys(e, "make %s of the host image", top[i]);
		if (!S_ISLNK(st.st_mode))
			continue;
		n = readlink(top[i], target, sizeof(target) - 1);
		if (n < 0)
			return err_sys(e, "read link %s", top[i]);
		target[n] = '\0';
		if (symlinkat(target, layer, top[i] + 1) < 0)
			return err_sys(e, "make link %s of the host image", top[i]);
	}
	return build_etc(layer, e);
}

static int make_skeleton_layer(int hosts, const char *name, struct err *e)
{
	autoclose int layer = -1;
	char tmp[64];
	struct err ignored;

	snprintf(tmp, sizeof(tmp), ".%s.%d", name, (int)getpid());
	if (path_remove_tree(hosts, tmp, e) < 0)
		return -1;
	if (mkdirat(hosts, tmp, 0700) < 0)
		return err_sys(e, "make a directory for the host image");
	layer = openat(hosts, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (layer < 0)
		return err_sys(e, "open the directory of the host image");
	if (build(layer, e) < 0 ||
	    (renameat(hosts, tmp, hosts, name) < 0 && errno != EEXIST && errno != ENOTEMPTY &&
	     err_sys(e, "put the host image in place") < 0)) {
		path_remove_tree(hosts, tmp, &ignored);
		return -1;
	}
	path_remove_tree(hosts, tmp, &ignored);	/* another process of berth was first, with the same
						 * content */
	return 0;
}

int hostimage_layer(int state_fd, struct err *e)
{
	autoclose int hosts = -1;
	mode_t old;
	char name[40], path[48];
	uint64_t sources = 0;
	int fd, r;

	if (stamp(&sources, e) < 0)
		return -1;
	snprintf(name, sizeof(name), "%016" PRIx64, sources);
	snprintf(path, sizeof(path), "host/%s", name);
	fd = openat(state_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (mkdirat(state_fd, "host", 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make the directory of host images");
	hosts = openat(state_fd, "host", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (hosts < 0)
		return err_sys(e, "open the directory of host images");
	old = umask(022);
	r = make_skeleton_layer(hosts, name, e);
	umask(old);
	if (r < 0)
		return -1;
	fd = openat(hosts, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the host image") : fd;
}
