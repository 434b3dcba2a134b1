/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a zygote, which is looked at before each fork.  Upholds S48 of SECURITY.md.
 *
 * Linux 6.11 answers in binary, and by kind of mapping: an interpreter with its libraries has
 * hundreds, and a few of the kinds that matter.  What it says is enough to go on; all else is read
 * from the text files, which cost twenty times as much.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/sandbox/graft.h"

/* linux/fs.h of Linux 6.11; Debian 12's headers are older */
struct map_query {
	__u64 size, flags, at, start, end, vma_flags, page_size, offset, inode;
	__u32 dev_major, dev_minor, name_size, build_id_size;
	__u64 name, build_id;
};

#define MAP_QUERY _IOWR('f', 17, struct map_query)
enum { MAP_IS_SHARED = 0x08, MAP_OR_NEXT = 0x10, MAP_OF_FILE = 0x20 };

/*
 * Memory that the fork and the zygote would both write to: a shared mapping that is writable or
 * may become so ("mw" of proc_pid_smaps(5)).
 */
static int check_shared_text(pid_t pid, struct err *e)
{
	autobuf struct buf b = BUF_INIT(64 << 20);
	char *line, *next, name[160] = "";
	int shared = 0;

	if (graft_read_proc(pid, "smaps", &b, e) < 0)
		return -1;
	for (line = b.data; line && *line; line = next) {
		char perms[5] = "";

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!strncmp(line, "VmFlags:", 8)) {
			if (shared && strstr(line, " mw"))
				return err_set(e, ERR_INVALID,
					       "the preload shares memory that its forks would "
					       "share too (%s); hint: let it make no shared memory",
					       name[0] ? name : "anonymous");
		} else if (strchr(line, '-') && sscanf(line, "%*x-%*x %4s", perms) == 1) {
			shared = perms[3] == 's';
			name[0] = '\0';
			(void)!sscanf(line, "%*s %*s %*s %*s %*s %159[^\n]", name);
		}
	}
	return 0;
}

/* The device of files that have no other name than a descriptor or a key: memfd_create(2),
 * shmget(2) and shared anonymous memory. */
static int memory_device(dev_t *ret, struct err *e)
{
	autoclose int fd = memfd_create("berth", MFD_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "learn the device of memory files");
	*ret = st.st_dev;
	return 0;
}

/*
 * A fork that only reads a memory file allocates its pages, private mapping or not, and leaves them
 * to the zygote: what bounds them is no limit of a sandbox.  (Other file systems in memory have a
 * size.)  smaps cost the kernel a walk through all pages, maps do not.
 */
static int check_text(pid_t pid, dev_t memory, struct err *e)
{
	autobuf struct buf b = BUF_INIT(64 << 20);
	const char *line;
	int shared = 0;

	if (graft_read_proc(pid, "maps", &b, e) < 0)
		return -1;
	for (line = b.data; line && *line; line += *line == '\n') {
		unsigned int of_major, of_minor;
		const char *name;
		char perms[5];

		if (sscanf(line, "%*x-%*x %4s %*x %x:%x", perms, &of_major, &of_minor) != 3)
			return err_set(e, ERR_INTERNAL, "the kernel lists mappings in another way");
		name = line + strcspn(line, "/\n");
		if (makedev(of_major, of_minor) == memory)
			return err_set(e, ERR_INVALID,
				       "the preload shares memory that its forks would "
				       "share too (%.*s); hint: let it make no shared memory",
				       (int)strcspn(name, "\n"), name);
		shared |= perms[3] == 's';
		line += strcspn(line, "\n");
	}
	return shared ? check_shared_text(pid, e) : 0;
}

int graft_check_maps_text(pid_t pid, struct err *e)
{
	dev_t memory = 0;

	return memory_device(&memory, e) < 0 ? -1 : check_text(pid, memory, e);
}

/*
 * Whether a shared mapping can never be written to, as its file was opened for reading alone
 * (mmap(2)): the mode of the entry is that of the opening (proc_pid_map_files(5)).
 */
static int is_read_only(pid_t pid, const struct map_query *q)
{
	char path[80];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid,
		 (unsigned long long)q->start, (unsigned long long)q->end);
	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && !(st.st_mode & S_IWUSR);
}

/* 1: none of its mappings of this kind is one that matters.  0: the text must say. */
static int are_harmless(pid_t pid, int maps_fd, __u64 kind, dev_t memory)
{
	struct map_query q = {.size = sizeof(q), .flags = kind | MAP_OR_NEXT};

	for (; ioctl(maps_fd, MAP_QUERY, &q) == 0; q.at = q.end) {
		if (makedev(q.dev_major, q.dev_minor) == memory ||
		    (q.vma_flags & MAP_IS_SHARED && !is_read_only(pid, &q)))
			return 0;
		q = (struct map_query){.size = sizeof(q), .flags = q.flags, .end = q.end};
	}
	return errno == ENOENT; /* there is no further one */
}

int graft_check_maps(pid_t pid, struct err *e)
{
	autoclose int fd = -1;
	dev_t memory = 0;
	char path[32];

	if (memory_device(&memory, e) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s", path);
	return are_harmless(pid, fd, MAP_OF_FILE, memory) &&
			       are_harmless(pid, fd, MAP_IS_SHARED, memory) ?
		       0 :
		       check_text(pid, memory, e);
}
