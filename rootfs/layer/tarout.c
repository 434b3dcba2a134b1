/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/layer/tarout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "rootfs/layer/layer.h"

/* ---- a tree as a tar ---- */

static int compare_tar_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void tarout_free_names(char **names, size_t n)
{
	while (n)
		free(names[--n]);
	free(names);
}

int tarout_names(int dir_fd, const char *what, size_t max, char ***ret, size_t *ret_n, struct err *e)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	size_t n = 0, cap = 0;
	char **names = NULL;
	struct dirent *d;

	if (!dir) {
		fd_close(&fd);
		return err_sys(e, "read directory '%.200s'", what);
	}
	while ((d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (n == cap) {
			char **more = realloc(names, (cap = cap ? cap * 2 : 64) * sizeof(*names));

			if (!more)
				break;
			names = more;
		}
		names[n] = strdup(d->d_name);
		if (!names[n])
			break;
		if (++n > max)
			break;
	}
	closedir(dir);
	if (d) {
		tarout_free_names(names, n);
		return err_set(e, ERR_LIMIT, "too many entries in directory '%.200s'", what);
	}
	if (n)
		qsort(names, n, sizeof(*names), compare_tar_names);
	*ret = names;
	*ret_n = n;
	return 0;
}

int tarout_enter(struct tarstream *t, const char *name, struct err *e)
{
	size_t len = strlen(t->path), n = strlen(name);

	if (len + 1 + n > TREE_PATH_MAX)
		return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", TREE_PATH_MAX);
	if (len)
		t->path[len] = '/';
	memcpy(t->path + len + (len > 0), name, n + 1);
	return 0;
}

static int tarout_dir(struct tarout *o, int fd, int depth, struct err *e);

int tarout_one(struct tarout *o, int dir_fd, const char *name, int depth, struct err *e)
{
	struct tarstream *t = o->t;
	autoclose int fd = -1;
	struct stat st;

	if (!strncmp(name, ".wh.", 4)) {	/* it would delete a file instead of being one */
		o->st.skipped++;
		return 0;
	}
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look at '%.200s'", t->path);
	if (S_ISREG(st.st_mode))
		return tarstream_file(t, dir_fd, name, e);
	if (S_ISLNK(st.st_mode))
		return tarstream_link(t, dir_fd, name, &st, e);
	if (S_ISFIFO(st.st_mode) && o->keep_fifos)
		return tarstream_fifo(t, &st, e);
	if (!S_ISDIR(st.st_mode)) {
		o->st.skipped++;
		return 0;
	}
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 :
			err_sys(e, "open directory '%.200s'", t->path);
	return tarout_dir(o, fd, depth + 1, e);
}

/* Writes the directory fd, which is called t->path, with everything in it. */
static int tarout_dir(struct tarout *o, int fd, int depth, struct err *e)
{
	struct tarstream *t = o->t;
	size_t len = strlen(t->path), n = 0, i;
	char **names = NULL;
	struct stat st;
	int rc = 0;

	if (depth > TREE_COMPONENTS_MAX)
		return err_set(e, ERR_LIMIT, "directories nested deeper than %d", TREE_COMPONENTS_MAX);
	if (tarstream_dir(t, fd, &st, e) < 0)
		return -1;
	if (o->one_fs && st.st_dev != o->dev) {
		o->st.not_entered++;
		return 0;
	}
	if (tarout_names(fd, t->path, LAYER_ENTRIES_MAX - t->entries, &names, &n, e) < 0)
		return -1;
	for (i = 0; !rc && i < n; i++) {
		rc = tarout_enter(t, names[i], e);
		if (!rc)
			rc = tarout_one(o, fd, names[i], depth, e);
		t->path[len] = '\0';
	}
	tarout_free_names(names, n);
	return rc;
}

int tarout_write(int root_fd, int out_fd, const struct tarout_options *how, struct tarout_stats *ret, struct err *e)
{
	autofree struct tarstream *t = calloc(1, sizeof(*t));
	struct tarout o = { .t = t, .one_fs = how->one_fs, .keep_fifos = how->keep_fifos };
	struct stat st;
	int rc;

	if (!t)
		return err_nomem(e);
	if (fstat(root_fd, &st) < 0)
		return err_sys(e, "look at the root directory");
	o.dev = st.st_dev;
	rc = tarstream_open(t, out_fd, how->compression, e);
	if (!rc)
		rc = tarout_dir(&o, root_fd, 0, e);
	if (!rc)
		rc = tarstream_close(t, e);
	o.st.entries = t->entries;
	if (!rc)
		*ret = o.st;
	tarstream_release(t);
	return rc;
}

/* ---- in a child process ---- */

struct report {
	struct err err;
	struct tarout_stats stats;
};

int packer_start(struct packer *p, packer_fn *fn, void *ctx, int out_fd, struct err *e)
{
	struct report r = { 0 };
	pid_t me = getpid();
	int rep[2];

	if (pipe2(rep, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	p->pid = fork();
	if (!p->pid) {
		fn(ctx, out_fd, rep[1], me, &r.stats, &r.err);
		_exit(io_write_all(rep[1], &r, sizeof(r)) < 0 || r.err.code ? 1 : 0);
	}
	close(rep[1]);
	p->report_fd = rep[0];
	return p->pid < 0 ? err_sys(e, "fork") : 0;
}

int packer_start_pipe(struct packer *p, packer_fn *fn, void *ctx, int *ret_fd, struct err *e)
{
	int out[2], r;

	if (pipe2(out, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fcntl(out[1], F_SETPIPE_SZ, 1 << 20);
	r = packer_start(p, fn, ctx, out[1], e);
	close(out[1]);
	if (r < 0)
		close(out[0]);
	else
		*ret_fd = out[0];
	return r;
}

int packer_end(struct packer *p, int rc, struct tarout_stats *ret, struct err *e)
{
	struct report r = { 0 };
	int got, status;

	if (p->pid <= 0)
		return rc;
	if (rc < 0)
		kill(p->pid, SIGKILL);
	got = io_read_exact(p->report_fd, &r, sizeof(r));
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	fd_close(&p->report_fd);
	p->pid = 0;
	r.err.msg[sizeof(r.err.msg) - 1] = '\0';
	if (got != 1 || r.err.code < 0 || r.err.code >= ERR_CODE_COUNT)
		return rc < 0 ? -1 : err_set(e, ERR_INTERNAL, "the packing process died (wait status 0x%x)", (unsigned)status);
	/* EPIPE: we hung up ourselves */
	if (r.err.code && (rc == 0 || r.err.os_errno != EPIPE)) {
		if (e)
			*e = r.err;
		return -1;
	}
	*ret = r.stats;
	return rc;
}
