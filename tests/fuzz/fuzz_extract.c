/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tar stream of a sandbox, extracted as berth cp does on the host.  Whatever
 * it holds, nothing appears but below the destination, no set-id file, nothing
 * but files, directories and links, and no byte more than the limit.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "runtime/fileop/extract.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX 1000000u

static uint64_t look(int dirfd_, const char *name)
{
	int fd = openat(dirfd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	struct stat st;
	uint64_t n = 0;

	if (!d)
		abort();
	while ((de = readdir(d))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			abort();
		if (S_ISDIR(st.st_mode))
			n += look(dirfd(d), de->d_name);
		else if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
			abort();
		if (!S_ISLNK(st.st_mode) && st.st_mode & 07000)
			abort();
		n += S_ISREG(st.st_mode) ? (uint64_t)st.st_blocks * 512 / (st.st_nlink ? st.st_nlink : 1) : 0;
	}
	closedir(d);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct extract_limits limits = { BYTES_MAX, 1000 };
	static struct stream s;
	char top[] = "/tmp/berth-fuzz-XXXXXX", dest[64];
	struct extract_stats st;
	struct stat outside;
	struct err e = { 0 };
	int in = memfd_create("fuzz", MFD_CLOEXEC), r, n = 0, dir;
	DIR *d;

	if (in < 0 || write(in, data, size) != (ssize_t)size || lseek(in, 0, SEEK_SET) < 0 || !mkdtemp(top))
		abort();
	snprintf(dest, sizeof(dest), "%s/dest", top);
	if (mkdir(dest, 0700) < 0 || stat(top, &outside) < 0)
		abort();
	stream_init(&s, in, 1000);
	r = extract_to(&s, dest, EXTRACT_STRICT, &limits, &st, &e);
	if (r < 0 && (e.code == ERR_NONE || !e.msg[0]))
		abort();
	/* one that fails takes back all that it made: the destination is as empty as it was */
	if (r < 0 && (rmdir(dest) < 0 || mkdir(dest, 0700) < 0))
		abort();
	d = opendir(top);
	while (d && readdir(d))
		n++;
	if (n != 3)
		abort();
	if (look(dirfd(d), "dest") > 2 * BYTES_MAX + 4096 * 1000)
		abort();
	closedir(d);
	close(in);
	dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || path_remove_tree(dir, top + 5, &e) < 0)
		abort();
	close(dir);
	return 0;
}
