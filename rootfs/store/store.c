/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

static int make_image_store_dirs(int fd, struct err *e)
{
	static const char *const dirs[] = { "blobs", "blobs/sha256", "blobs/sha512", "layers", "images", "holds", "tmp", "locks" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(fd, dirs[i], 0700) < 0 && errno != EEXIST)
			return err_sys(e, "make directory %s in the image store", dirs[i]);
	return 0;
}

static int lock_fd(int fd, int how)
{
	int r;

	do
		r = flock(fd, how);
	while (r < 0 && errno == EINTR);
	return r;
}

/*
 * Removes the directories of dead writers. Call it with tmp/ locked: no process is then between
 * making a directory and locking it.
 */
static int clear_dead_writers(int tmp_root, struct err *e)
{
	int fd = openat(tmp_root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	int rc = 0;

	if (!dir) {
		fd_close(&fd);
		return err_sys(e, "read tmp in the image store");
	}
	while (!rc && (d = readdir(dir))) {
		autoclose int sub = -1;

		if (d->d_name[0] == '.')
			continue;
		sub = openat(tmp_root, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub < 0 && errno == ENOENT)
			continue;
		if (sub >= 0 && lock_fd(sub, LOCK_EX | LOCK_NB) < 0)
			continue;
		rc = path_remove_tree(tmp_root, d->d_name, e);
	}
	closedir(dir);
	return rc;
}

int store_clear_dead(const char *path, struct err *e)
{
	autoclose int store = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), root = -1;

	if (store >= 0)
		root = openat(store, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open tmp in the image store %s", path);
	return lock_fd(root, LOCK_EX) < 0 ? err_sys(e, "lock tmp in the image store") : clear_dead_writers(root, e);
}

static int open_tmp(struct store *s, struct err *e)
{
	autoclose int root = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	unsigned int random;

	if (root < 0)
		return err_sys(e, "open tmp in the image store");
	if (lock_fd(root, LOCK_EX) < 0)
		return err_sys(e, "lock tmp in the image store");
	if (clear_dead_writers(root, e) < 0)
		return -1;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, "read random bytes");
	snprintf(s->tmp_name, sizeof(s->tmp_name), "%d-%08x", (int)getpid(), random);
	if (mkdirat(root, s->tmp_name, 0700) < 0)
		return err_sys(e, "make a directory in tmp");
	s->tmp_fd = openat(root, s->tmp_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->tmp_fd < 0 || lock_fd(s->tmp_fd, LOCK_EX | LOCK_NB) < 0)
		return err_sys(e, "lock a directory in tmp");
	return 0;
}

static int begin_store_write(struct store *s, int store_fd, int how, struct err *e)
{
	memset(s, 0, sizeof(*s));
	s->fd = store_fd;
	s->lock_fd = s->tmp_fd = -1;
	if (make_image_store_dirs(store_fd, e) < 0)
		return -1;
	s->lock_fd = openat(store_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return err_sys(e, "open the lock of the image store");
	if (lock_fd(s->lock_fd, how) < 0) {
		if (errno == EWOULDBLOCK)
			err_set(e, ERR_BUSY, "the image store is in use by another import or removal");
		else
			err_sys(e, "lock the image store");
		store_end(s);
		return -1;
	}
	if (open_tmp(s, e) < 0) {
		store_end(s);
		return -1;
	}
	return 0;
}

int store_begin(struct store *s, int store_fd, struct err *e)
{
	return begin_store_write(s, store_fd, LOCK_SH, e);
}

int store_begin_exclusive(struct store *s, int store_fd, int wait, struct err *e)
{
	return begin_store_write(s, store_fd, LOCK_EX | (wait ? 0 : LOCK_NB), e);
}

int store_share(struct store *s, int on, struct err *e)
{
	if (lock_fd(s->lock_fd, on ? LOCK_SH : LOCK_UN) < 0)
		return err_sys(e, "lock the image store");
	return 0;
}

void store_end(struct store *s)
{
	autoclose int root = -1;

	if (s->tmp_fd >= 0) {
		root = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (root >= 0)	/* if it fails, the next writer clears it */
			path_remove_tree(root, s->tmp_name, NULL);
	}
	fd_close(&s->tmp_fd);
	store_unlock_layers(s);
	fd_close(&s->lock_fd);
}

/* ---- looking ---- */

static void layer_path(char path[96], const char *chain_id)
{
	snprintf(path, 96, "layers/%.64s", digest_hex(chain_id));
}

static int store_has_entry(const struct store *s, const char *path, mode_t type, struct err *e)
{
	struct stat st;

	if (fstatat(s->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look at %s in the image store", path);
	return (st.st_mode & S_IFMT) == type ? 1 :
		err_set(e, ERR_CORRUPT, "%s in the image store is of the wrong kind", path);
}

int store_has_blob(const struct store *s, const char *digest, struct err *e)
{
	char path[DIGEST_BLOB_PATH_SIZE];

	digest_blob_path(path, digest);
	return store_has_entry(s, path, S_IFREG, e);
}

int store_has_layer(const struct store *s, const char *chain_id, struct err *e)
{
	char path[96];

	layer_path(path, chain_id);
	return store_has_entry(s, path, S_IFDIR, e);
}

static int open_at(const struct store *s, const char *path, int flags, struct err *e)
{
	int fd = openat(s->fd, path, flags | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %s in the image store", path);
	return fd;
}

int store_open_blob(const struct store *s, const char *digest, struct err *e)
{
	char path[DIGEST_BLOB_PATH_SIZE];

	digest_blob_path(path, digest);
	return open_at(s, path, O_RDONLY | O_NONBLOCK, e);
}

int store_open_layer(const struct store *s, const char *chain_id, struct err *e)
{
	char path[96];

	layer_path(path, chain_id);
	return open_at(s, path, O_PATH | O_DIRECTORY, e);
}

/* ---- adding ---- */

int store_lock_layer(struct store *s, const char *chain_id, struct err *e)
{
	char path[96];
	autoclose int fd = -1;
	int *more = realloc(s->layer_locks, (s->layer_lock_count + 1) * sizeof(*more));

	if (!more)
		return err_nomem(e);
	s->layer_locks = more;
	snprintf(path, sizeof(path), "locks/%.64s", digest_hex(chain_id));
	fd = openat(s->fd, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || lock_fd(fd, LOCK_EX) < 0)
		return err_sys(e, "lock layer %.12s", digest_hex(chain_id));
	s->layer_locks[s->layer_lock_count++] = take_fd(&fd);
	return 0;
}

void store_unlock_layers(struct store *s)
{
	while (s->layer_lock_count)
		close(s->layer_locks[--s->layer_lock_count]);
	free(s->layer_locks);
	s->layer_locks = NULL;
}

int store_tmp_file(struct store *s, char ret_name[32], struct err *e)
{
	int fd;

	snprintf(ret_name, 32, "file-%u", s->serial++);
	fd = openat(s->tmp_fd, ret_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, "make a temporary file in the image store") : fd;
}

int store_tmp_link(struct store *s, const char *path, char ret_name[32], struct err *e)
{
	snprintf(ret_name, 32, "file-%u", s->serial++);
	if (linkat(AT_FDCWD, path, s->tmp_fd, ret_name, AT_SYMLINK_FOLLOW) < 0)
		return err_sys(e, "link a file in the image store");
	return 0;
}

int store_tmp_dir(struct store *s, char ret_name[32], struct err *e)
{
	int fd;

	snprintf(ret_name, 32, "tree-%u", s->serial++);
	if (mkdirat(s->tmp_fd, ret_name, 0755) < 0)
		return err_sys(e, "make a temporary directory in the image store");
	fd = openat(s->tmp_fd, ret_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open a temporary directory in the image store") : fd;
}

void store_tmp_remove(struct store *s, const char *name)
{
	path_remove_tree(s->tmp_fd, name, NULL);
}

int store_sync(const struct store *s, struct err *e)
{
	return syncfs(s->fd) < 0 ? err_sys(e, "write the image store to disk") : 0;
}

int store_publish_blob(struct store *s, const char *tmp_name, const char *digest, struct err *e)
{
	char path[DIGEST_BLOB_PATH_SIZE];

	digest_blob_path(path, digest);
	if (renameat(s->tmp_fd, tmp_name, s->fd, path) < 0)
		return err_sys(e, "put blob %s into the image store", digest);
	return 0;
}

int store_publish_layer(struct store *s, const char *tmp_name, const char *chain_id, struct err *e)
{
	char path[96];

	layer_path(path, chain_id);
	if (!renameat2(s->tmp_fd, tmp_name, s->fd, path, RENAME_NOREPLACE))
		return 0;
	if (errno != EEXIST)
		return err_sys(e, "put layer %.12s into the image store", digest_hex(chain_id));
	store_tmp_remove(s, tmp_name);
	return 0;
}

int store_stage_bytes(struct store *s, const void *p, size_t n, char ret_name[32], struct err *e)
{
	autoclose int fd = store_tmp_file(s, ret_name, e);

	if (fd < 0)
		return -1;
	if (io_write_all(fd, p, n) < 0)
		return err_sys(e, "write a document into the image store");
	return 0;
}

int store_write_hold(struct store *s, const char *digest, const char *text, struct err *e)
{
	autoclose int dir = openat(s->fd, "holds", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return err_sys(e, "open holds in the image store");
	/* another process may hold a lock on the existing file; its content is the same */
	if (path_has(dir, digest_hex(digest)))
		return 0;
	return io_replace_file(dir, digest_hex(digest), text, strlen(text), 0600, 1, e);
}

int store_write_record(struct store *s, const char *filename, const json_t *record, struct err *e)
{
	autofree char *text = json_dumps(record, JSON_COMPACT);
	autoclose int dir = openat(s->fd, "images", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (!text)
		return err_nomem(e);
	if (dir < 0)
		return err_sys(e, "open images in the image store");
	return io_replace_file(dir, filename, text, strlen(text), 0600, 1, e);
}
