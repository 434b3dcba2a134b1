/* SPDX-License-Identifier: Apache-2.0 */
/* What a build reads: its context, its Dockerfile, its base images; all of it into its volume. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/image/build.h"
#include "cli/image/buildbase.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"
#include "runtime/fileop/extract.h"

#define ERRORS_MAX 65536
#define ENTRIES_MAX 1000000
#define MAGIC_AT 257 /* of a tar archive, in its first block */
#define BLOCK 512

static int put(const struct build *b, const char *name, const char *text, struct err *e)
{
	return io_replace_file(b->volume.root_fd, name, text, strlen(text), 0644, 0, e);
}

/* ---- berth itself ------------------------------------------------------------------------- */

static int spawn(const char *const *argv, int in_fd, int out_fd, int err_fd, pid_t *ret,
		 struct err *e)
{
	posix_spawn_file_actions_t fa;
	int r;

	posix_spawn_file_actions_init(&fa);
	if (in_fd >= 0)
		posix_spawn_file_actions_adddup2(&fa, in_fd, 0);
	else
		posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	if (out_fd >= 0)
		posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
	else
		posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, err_fd, 2);
	r = posix_spawn(ret, "/proc/self/exe", &fa, NULL, (char *const *)(size_t)argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	return r ? err_start(e, r, "berth") : 0;
}

int build_berth(const char *const *argv, int in_fd, int out_fd, struct err *e)
{
	autobuf struct buf said = BUF_INIT(ERRORS_MAX);
	struct err ignored;
	int p[2], status = 0, r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	r = spawn(argv, in_fd, out_fd, p[1], &pid, e);
	close(p[1]);
	if (r == 0) {
		io_read_all(p[0], &said, "berth's errors", &ignored);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (status)
			r = json_take_error_line(said.data, "berth", e);
	}
	close(p[0]);
	return r;
}

/* ---- the context ---------------------------------------------------------------------------- */

static int unpack(struct build *b, struct stream *in, struct err *e)
{
	const struct extract_limits limits = {UINT64_MAX, ENTRIES_MAX};
	struct extract_stats st = {0};
	char dest[64];

	snprintf(dest, sizeof(dest), "/proc/self/fd/%d/context/.", b->volume.root_fd);
	return extract_to(in, dest, EXTRACT_STRICT | EXTRACT_INTO, &limits, &st, e) < 0 ?
		       err_wrap(e, "the context") :
		       0;
}

/* A Dockerfile on stdin, whose first bytes are read. */
static int take_text(struct build *b, const char *first, size_t n, struct err *e)
{
	if (buf_add(&b->dockerfile, first, n, e) < 0)
		return -1;
	return n < BLOCK ? 0 :
			   io_read_all(STDIN_FILENO, &b->dockerfile, "the Dockerfile on stdin", e);
}

static int copy_all(int from, int to, const char *first, size_t n, struct err *e)
{
	char piece[65536];
	ssize_t got = (ssize_t)n;

	memcpy(piece, first, n);
	for (; got > 0; got = read(from, piece, sizeof(piece)))
		if (io_write_all(to, piece, (size_t)got) < 0)
			return err_code_sys(e, errno == ENOSPC ? ERR_FULL : ERR_SYS,
					    "keep the context");
	return got < 0 ? err_sys(e, "read the context") : 0;
}

static int take_stdin(struct build *b, struct err *e)
{
	static struct stream in;
	autoclose int tar = -1;
	char first[BLOCK];
	int got = io_read_exact(STDIN_FILENO, first, 1) == 1 ? 1 : 0;
	ssize_t n;

	for (;
	     got && got < BLOCK && (n = read(STDIN_FILENO, first + got, (size_t)(BLOCK - got))) > 0;
	     got += (int)n)
		;
	if (got >= 2 && !memcmp(first, "\x1f\x8b", 2))
		return err_set(e, ERR_UNSUPPORTED,
			       "the context is compressed; send a plain tar archive");
	if (got < BLOCK || memcmp(first + MAGIC_AT, "ustar", 5))
		return take_text(b, first, (size_t)got, e);
	tar = openat(b->volume.root_fd, "context.tar", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (tar < 0)
		return err_sys(e, "keep the context");
	if (copy_all(STDIN_FILENO, tar, first, (size_t)got, e) < 0 || lseek(tar, 0, SEEK_SET) < 0)
		return -1;
	stream_init(&in, tar, -1);
	if (unpack(b, &in, e) < 0)
		return -1;
	return unlinkat(b->volume.root_fd, "context.tar", 0) < 0 ?
		       err_sys(e, "remove the context's archive") :
		       0;
}

/* A Dockerfile of the context that leads out of it would be shown, line by line, in errors. */
static int read_dockerfile(struct build *b, int dirfd, struct err *e)
{
	autoclose int fd = path_open_beneath(dirfd, b->file + (b->file[0] == '/'),
					     O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;

	if (fd < 0 && errno == ENOENT && !strcmp(b->file, "Dockerfile"))
		fd = path_open_beneath(dirfd, "Containerfile", O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_INVALID,
				    "Cannot locate specified Dockerfile: %.200s", b->file);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "the Dockerfile %.200s is not a file", b->file);
	return io_read_all(fd, &b->dockerfile, "the Dockerfile", e);
}

int build_take_context(struct build *b, struct err *e)
{
	autoclose int dir = -1;

	if (mkdirat(b->volume.root_fd, "context", 0755) < 0)
		return err_sys(e, "make the context's directory");
	if (!strcmp(b->context, "-")) {
		if (take_stdin(b, e) < 0)
			return -1;
		dir = openat(b->volume.root_fd, "context", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} else {
		dir = open(b->context, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (dir < 0)
		return err_code_sys(e, ERR_NOT_FOUND, "open the context %.200s", b->context);
	if (!b->dockerfile.len && read_dockerfile(b, dir, e) < 0)
		return -1;
	if (buf_add(&b->dockerfile, "", 1, e) < 0)
		return -1;
	if (strlen(b->dockerfile.data) + 1 != b->dockerfile.len)
		return err_set(e, ERR_INVALID, "the Dockerfile holds a NUL byte");
	if (strcmp(b->context, "-"))
		b->context_fd = take_fd(&dir);
	return put(b, "Dockerfile", b->dockerfile.data, e);
}

/* ---- base images ------------------------------------------------------------------------------
 */

/* As buildah calls it: with the registry. */
static void whole_name(const char *name, char *ret, size_t size)
{
	size_t n = strcspn(name, "/");
	const char *hub = name[n] && (memchr(name, '.', n) || memchr(name, ':', n) ||
				      !strncmp(name, "localhost/", 10)) ?
				  "" :
			  name[n] ? "docker.io/" :
				    "docker.io/library/";

	snprintf(ret, size, "%s%s", hub, name);
}

static int save_base(struct build *b, const char *name, unsigned at, struct buf *list,
		     struct err *e)
{
	const char *argv[] = {"berth", "image", "save", "--quiet", "--json", "--", name, NULL};
	char file[32], whole[600];
	autoclose int fd = -1;

	snprintf(file, sizeof(file), "base-%u.tar", at);
	fd = openat(b->volume.root_fd, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "keep the base image %.200s", name);
	if (build_berth(argv, -1, fd, e) < 0)
		return err_wrap(e, "base image %.200s", name);
	whole_name(name, whole, sizeof(whole));
	return buf_addf(list, e, "%s %s\n", file, whole);
}

/* What the arguments say may be the name of an image, too. */
static int text_of(const struct build *b, struct buf *text, struct err *e)
{
	const json_t *one;
	size_t i;

	if (buf_adds(text, b->dockerfile.data, e) < 0)
		return -1;
	json_array_foreach ((json_t *)(size_t)b->words, i, one)
		if (buf_adds(text, "\n", e) < 0 || buf_adds(text, json_string_value(one), e) < 0)
			return -1;
	return buf_add(text, "", 1, e);
}

static int fetch(struct build *b, struct err *e)
{
	autojson json_t *named = buildbase_named(b->dockerfile.data, e);
	struct err why;
	json_t *one;
	size_t i;

	json_array_foreach (named, i, one)
		if (imageuse_ensure(&b->ref.registry, json_string_value(one), b->pull, 1, &why) <
			    0 &&
		    !b->last[0])
			snprintf(b->last, sizeof(b->last), "%.390s", why.msg);
	return named ? 0 : -1;
}

int build_take_bases(struct build *b, struct err *e)
{
	autobuf struct buf text = BUF_INIT(4 * BUILD_DOCKERFILE_MAX), list = BUF_INIT(1 << 16);
	char path[sizeof(b->ref.config.state_dir) + 16];
	autoclose int store = -1;
	autojson json_t *images = NULL;
	json_t *one;
	unsigned count = 0;
	size_t i;

	if (fetch(b, e) < 0 || text_of(b, &text, e) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/store", b->ref.config.state_dir);
	store = store_open(path, e);
	images = store < 0 ? NULL : catalog_list(store, 0, e);
	if (!images)
		return -1;
	json_array_foreach (images, i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));

		if (!name || strchr(name, '@') || !buildbase_may_be(text.data, name))
			continue;
		if (count == BUILDBASE_MAX)
			return err_set(e, ERR_LIMIT,
				       "more than %d images of the store may be meant",
				       BUILDBASE_MAX);
		if (save_base(b, name, count++, &list, e) < 0)
			return -1;
	}
	return put(b, "bases", list.len ? list.data : "", e);
}

/* ---- settings -----------------------------------------------------------------------------------
 */

int build_write_settings(struct build *b, struct err *e)
{
	static const char *const dirs[] = {"storage", "runroot", "tmp", "oci"};
	static const char policy[] = "{\"default\":[{\"type\":\"insecureAcceptAnything\"}]}\n";
	static const char registries[] = "unqualified-search-registries = [\"docker.io\"]\n";
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(b->volume.root_fd, dirs[i], 0711) < 0)
			return err_sys(e, "make the directory %s of a build", dirs[i]);
	if (put(b, "policy.json", policy, e) < 0 ||
	    put(b, "storage.conf", "[storage]\ndriver = \"overlay\"\n", e) < 0)
		return -1;
	return put(b, "registries.conf", registries, e);
}
