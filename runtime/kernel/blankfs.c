/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/blankfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/program.h"

#define MODEL_PREFIX "blank-"
#define MODELS_MAX 4	/* sizes that are asked for once would stay for ever */

#define FEATURES "^has_journal,^resize_inode"

/* journal_mib 0: no journal */
static int format_ext4(int fd, const char *features, uint64_t bytes, uint64_t inodes,
		  unsigned journal_mib, struct err *e)
{
	char count[32], journal[32];
	const char *argv[18] = {
		"mkfs.ext4", "-q", "-F", "-b", "4096", "-O", features, "-m", "0",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0", "-N",
		count,
	};
	int status, n = 13;

	snprintf(count, sizeof(count), "%" PRIu64, inodes);
	snprintf(journal, sizeof(journal), "size=%u", journal_mib);
	if (journal_mib) {
		argv[n++] = "-J";
		argv[n++] = journal;
	}
	argv[n] = "/proc/self/fd/3";
	if (process_run("/sbin/mkfs.ext4", argv, fd, &status, e) < 0)
		return -1;
	return status ? err_set(e, ERR_UNSUPPORTED, "mkfs.ext4 failed with status %d on a writable layer of %" PRIu64 " bytes and %" PRIu64
				" files; hint: ask for a larger --disk or fewer --disk-inodes", status, bytes, inodes) : 0;
}

/* Makes the model's name, with a version of the form: other options of format_ext4() need another model. */
static void model_name(char name[80], uint64_t bytes, uint64_t inodes)
{
	snprintf(name, 80, MODEL_PREFIX "1-%" PRIu64 "-%" PRIu64 ".ext4", bytes, inodes);
}

/* Copies everything that is not a hole. 0, or -1 with errno. */
static int copy_model_data(int from, int to, off_t size)
{
	char piece[1 << 16];
	off_t at = 0, hole;

	while ((at = lseek(from, at, SEEK_DATA)) >= 0 && at < size) {
		hole = lseek(from, at, SEEK_HOLE);
		if (hole < 0)
			return -1;
		while (at < hole) {
			size_t want = (size_t)(hole - at) < sizeof(piece) ? (size_t)(hole - at) : sizeof(piece);
			ssize_t n = pread(from, piece, want, at);

			if (n <= 0 || pwrite(to, piece, (size_t)n, at) != n)
				return -1;
			at += n;
		}
	}
	return at < 0 && errno != ENXIO ? -1 : 0;	/* ENXIO: only a hole is left */
}

/* Returns 1 if copied, 0 without a usable model; -1: fd must be emptied again. */
static int copy_model(int fd, int models_fd, off_t bytes, uint64_t inodes, int passing)
{
	autoclose int model = -1;
	char name[80];
	struct stat st;

	model_name(name, (uint64_t)bytes, inodes);
	model = openat(models_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (model < 0 || fstat(model, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022 || st.st_size != bytes)
		return 0;
	/* on disk before the record that refers to it, as mkfs.ext4 does */
	return copy_model_data(model, fd, bytes) < 0 || (!passing && fdatasync(fd) < 0) ? -1 : 1;
}

static int count_model(void *ctx, const char *name)
{
	*(unsigned *)ctx += !strncmp(name, MODEL_PREFIX, strlen(MODEL_PREFIX));
	return 0;
}

/* Writes the model completely or not at all; a missing model only costs time. */
static void keep_model(int fd, int models_fd, off_t bytes, uint64_t inodes)
{
	autoclose int dir = openat(models_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), model = -1;
	unsigned models = 0;
	char name[80], proc[32];
	int failed = 0;

	if (dir < 0 || path_each_entry(dir, count_model, &models, &failed) < 0 || models >= MODELS_MAX)
		return;
	model = openat(models_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0400);
	if (model < 0 || ftruncate(model, bytes) < 0 || copy_model_data(fd, model, bytes) < 0 || fdatasync(model) < 0)
		return;
	model_name(name, (uint64_t)bytes, inodes);
	/* fails if another process was faster, which is fine */
	(void)!linkat(AT_FDCWD, path_of_fd(model, proc), models_fd, name, AT_SYMLINK_FOLLOW);
}

int blankfs_make(int fd, uint64_t inodes, int models_fd, int passing, struct err *e)
{
	struct stat st;
	int copied = 0;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at the file of the writable layer");
	if (models_fd >= 0)
		copied = copy_model(fd, models_fd, st.st_size, inodes, passing);
	if (copied > 0)
		return 1;
	if (copied < 0 && (ftruncate(fd, 0) < 0 || ftruncate(fd, st.st_size) < 0))
		return err_sys(e, "size the file of the writable layer");
	if (format_ext4(fd, FEATURES, (uint64_t)st.st_size, inodes, 0, e) < 0)
		return -1;
	if (models_fd >= 0)
		keep_model(fd, models_fd, st.st_size, inodes);
	return 0;
}

int blankfs_remake(int fd, uint64_t inodes, int models_fd, struct err *e)
{
	char name[80];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at the file of the writable layer");
	model_name(name, (uint64_t)st.st_size, inodes);
	unlinkat(models_fd, name, 0);
	if (ftruncate(fd, 0) < 0 || ftruncate(fd, st.st_size) < 0)
		return err_sys(e, "size the file of the writable layer");
	return format_ext4(fd, FEATURES, (uint64_t)st.st_size, inodes, 0, e);
}

int blankfs_make_roomy(int fd, uint64_t inodes, struct err *e)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? err_sys(e, "look at the file of the writable layer") :
	       format_ext4(fd, FEATURES ",ea_inode", (uint64_t)st.st_size, inodes, 0, e);
}

#define JOURNAL_MIN_MIB 4	/* the least that mkfs.ext4 makes */
#define JOURNAL_MAX_MIB 64
#define JOURNAL_PART 64		/* of the file */

int blankfs_make_journaled(int fd, uint64_t inodes, struct err *e)
{
	struct stat st;
	uint64_t mib;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at the file for a file system");
	mib = (uint64_t)st.st_size / JOURNAL_PART >> 20;
	if (mib < JOURNAL_MIN_MIB)
		mib = JOURNAL_MIN_MIB;
	if (mib > JOURNAL_MAX_MIB)
		mib = JOURNAL_MAX_MIB;
	return format_ext4(fd, "^resize_inode", (uint64_t)st.st_size, inodes, (unsigned)mib, e);
}
