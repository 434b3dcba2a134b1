/* SPDX-License-Identifier: Apache-2.0 */
/* tmpcopyup: a directory's content, copied into the tmpfs that hides it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/oci/mount.h"

static int copy_bytes(int from, int to, off_t size)
{
	while (size > 0) {
		ssize_t n = sendfile(to, from, NULL, size > 1 << 20 ? 1 << 20 : (size_t)size);

		if (n < 0 && errno != EINTR)
			return -1;
		if (n == 0)
			break;
		size -= n > 0 ? n : 0;
	}
	return 0;
}

static int copy_dir(int from, int to, int depth, struct err *e);

static int copy_entry(int from, int to, const char *name, int depth, struct err *e)
{
	autoclose int in = -1, out = -1;
	char link[4097];
	struct stat st;
	ssize_t n;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "tmpcopyup: stat %s", name);
	if (S_ISDIR(st.st_mode)) {
		if (mkdirat(to, name, 0700) < 0)
			return err_sys(e, "tmpcopyup: make directory %s", name);
		in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (in < 0 || out < 0)
			return err_sys(e, "tmpcopyup: open directory %s", name);
		if (copy_dir(in, out, depth + 1, e) < 0)
			return -1;
	} else if (S_ISLNK(st.st_mode)) {
		n = readlinkat(from, name, link, sizeof(link) - 1);
		if (n < 0)
			return err_sys(e, "tmpcopyup: read link %s", name);
		link[n] = '\0';
		if (symlinkat(link, to, name) < 0)
			return err_sys(e, "tmpcopyup: make link %s", name);
	} else if (S_ISREG(st.st_mode)) {
		in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (in < 0 || out < 0 || copy_bytes(in, out, st.st_size) < 0)
			return err_sys(e, "tmpcopyup: copy %s", name);
	} else if (mknodat(to, name, st.st_mode, st.st_rdev) < 0) {
		return err_sys(e, "tmpcopyup: make %s", name);
	}
	if (fchownat(to, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EINVAL && errno != EPERM)
		return err_sys(e, "tmpcopyup: own %s", name);
	if (!S_ISLNK(st.st_mode) && fchmodat(to, name, st.st_mode & 07777, 0) < 0)
		return err_sys(e, "tmpcopyup: mode of %s", name);
	return 0;
}

static int copy_dir(int from, int to, int depth, struct err *e)
{
	struct dirent *de;
	int fd, r = 0;
	DIR *d;

	if (depth > 128)
		return err_set(e, ERR_LIMIT, "tmpcopyup: directories nested deeper than 128");
	fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		if (fd >= 0)
			close(fd);
		return err_sys(e, "tmpcopyup: read a directory");
	}
	while (r == 0 && (de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			r = copy_entry(from, to, de->d_name, depth, e);
	closedir(d);
	return r;
}

int oci_copy_tree(int from_fd, int to_fd, struct err *e)
{
	struct stat st;

	if (fstat(from_fd, &st) < 0)
		return err_sys(e, "tmpcopyup: stat the directory");
	if (copy_dir(from_fd, to_fd, 0, e) < 0)
		return -1;
	return 0;
}
