/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S17 of SECURITY.md. */
#include "rootfs/layer/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "rootfs/layer/confine.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/notes.h"

#define CHUNK (256u << 10)
#define PIPE_SIZE (1 << 20)
#define MEMORY_FILTER (512ull << 20)	/* a zstd window of 128 MiB and its tables */
#define MEMORY_WRITER (256ull << 20)

/* The report of a child at its end, in one write. */
struct report {
	struct err err;
	struct decompress_result filter;
	struct layer_stats stats;
};

struct child {
	pid_t pid;
	int report_fd;
	struct report report;
};

struct pipeline {
	struct unpack *u;
	struct child filter, writer;
	int feed_fd;		/* compressed bytes go here */
	int notes_fd;
	int userns_fd;		/* both children live in it */
	int mapped_fd;		/* the tree, as the writer sees it */
	struct layer_progress *progress;
};

static int make_unpack_pipe(int fds[2], struct err *e)
{
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE);	/* faster when allowed, right without */
	return 0;
}

static void finish_child(int report_fd, const struct report *r) __attribute__((noreturn));
static void finish_child(int report_fd, const struct report *r)
{
	_exit(io_write_all(report_fd, r, sizeof(*r)) < 0 || r->err.code ? 1 : 0);
}

static void run_filter(int in_fd, int out_fd, int report_fd, int userns_fd, pid_t parent, struct unpack *u)
{
	const int keep[] = { in_fd, out_fd, report_fd };
	const struct confine c = { CONFINE_FILTER, parent, -1, -1, userns_fd, keep, ARRAY_LEN(keep), MEMORY_FILTER };
	struct report r = { 0 };

	if (!confine_child(&c, &r.err))
		decompress_run(in_fd, out_fd, u->compression,
			       u->max_bytes ? u->max_bytes : DECOMPRESS_BYTES_MAX,
			       u->max_bytes != 0, u->want_diff_id, &r.filter, &r.err);
	finish_child(report_fd, &r);
}

static void run_writer(int in_fd, int report_fd, pid_t parent, struct pipeline *p)
{
	const int keep[] = { in_fd, report_fd, p->mapped_fd, p->notes_fd };
	const struct confine c = { CONFINE_WRITE, parent, p->mapped_fd, -1, p->userns_fd, keep, ARRAY_LEN(keep), MEMORY_WRITER };
	const struct layer_limits limits = { DECOMPRESS_BYTES_MAX, LAYER_ENTRIES_MAX,
					     p->u->budget };
	struct report r = { 0 };

	if (!confine_child(&c, &r.err))
		layer_apply(in_fd, p->mapped_fd, p->notes_fd, p->u->lower_count > 0, &limits,
			    p->progress, &r.stats, &r.err);
	finish_child(report_fd, &r);
}

static int start_filter(struct pipeline *p, int out_fd, struct err *e)
{
	int in[2], rep[2];
	pid_t me = getpid();

	if (make_unpack_pipe(in, e) < 0)
		return -1;
	if (pipe2(rep, O_CLOEXEC) < 0) {
		close(in[0]);
		close(in[1]);
		return err_sys(e, "make a pipe");
	}
	p->filter.pid = fork();
	if (!p->filter.pid)
		run_filter(in[0], out_fd, rep[1], p->userns_fd, me, p->u);
	close(in[0]);
	close(rep[1]);
	p->feed_fd = in[1];
	p->filter.report_fd = rep[0];
	return p->filter.pid < 0 ? err_sys(e, "fork") : 0;
}

/* Starts the writer; *ret_fd is where the tar stream goes. */
static int start_writer(struct pipeline *p, int *ret_fd, struct err *e)
{
	int in[2], rep[2];
	pid_t me = getpid();

	p->mapped_fd = confine_mount(p->u->tree_fd, p->userns_fd, e);
	if (p->mapped_fd < 0)
		return -1;
	p->notes_fd = memfd_create("berth-notes", MFD_CLOEXEC);
	if (p->notes_fd < 0)
		return err_sys(e, "make a memory file");
	if (make_unpack_pipe(in, e) < 0)
		return -1;
	if (pipe2(rep, O_CLOEXEC) < 0) {
		close(in[0]);
		close(in[1]);
		return err_sys(e, "make a pipe");
	}
	p->writer.pid = fork();
	if (!p->writer.pid)
		run_writer(in[0], rep[1], me, p);
	close(in[0]);
	close(rep[1]);
	*ret_fd = in[1];
	p->writer.report_fd = rep[0];
	return p->writer.pid < 0 ? err_sys(e, "fork") : 0;
}

/* ---- feeding ---- */

struct feed {
	struct hash hash;
	int broken;	/* the pipeline wants no more; we read on for the digest */
};

static int feed_bytes(struct pipeline *p, struct feed *f, const void *buf, size_t n, struct err *e)
{
	struct unpack *u = p->u;

	u->size += n;
	if (u->want_size != UINT64_MAX && u->size > u->want_size)
		return err_set(e, ERR_CORRUPT, "the blob is larger than the %llu bytes it should have",
			       (unsigned long long)u->want_size);
	if (hash_add(&f->hash, buf, n, e) < 0)
		return -1;
	if (u->blob_fd >= 0 && layer_budget_take(u->budget, n, e) < 0)
		return -1;
	if (u->blob_fd >= 0 && io_write_all(u->blob_fd, buf, n) < 0)
		return err_sys(e, "write the blob into the store");
	if (!f->broken && io_write_all(p->feed_fd, buf, n) < 0) {
		if (errno != EPIPE)
			return err_sys(e, "feed the unpacking process");
		f->broken = 1;
	}
	if (u->tick)
		u->tick(u->tick_ctx, u->size, p->progress);
	return 0;
}

static int feed_pipeline(struct pipeline *p, struct feed *f, struct err *e)
{
	autofree unsigned char *buf = malloc(CHUNK);
	ssize_t r;

	if (!buf)
		return err_nomem(e);
	if (p->u->prefix_len && feed_bytes(p, f, p->u->prefix, p->u->prefix_len, e) < 0)
		return -1;
	for (;;) {
		r = read(p->u->src_fd, buf, CHUNK);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "read the source");
		if (!r)
			return 0;
		if (feed_bytes(p, f, buf, (size_t)r, e) < 0)
			return -1;
		/* without a digest to check there is nothing more to learn */
		if (f->broken && !p->u->want_digest)
			return 0;
	}
}

static int feed_blob(struct pipeline *p, struct err *e)
{
	struct feed f = { 0 };
	int rc = -1;

	if (!hash_init(&f.hash, p->u->want_digest, e) && !feed_pipeline(p, &f, e))
		rc = hash_final(&f.hash, p->u->digest, e);
	hash_release(&f.hash);
	return rc;
}

/* ---- ending ---- */

static void reap_stage(struct child *c, int kill_it)
{
	int status = 0;

	if (c->pid <= 0)
		return;
	if (kill_it)
		kill(c->pid, SIGKILL);
	if (io_read_exact(c->report_fd, &c->report, sizeof(c->report)) != 1)
		c->report.err.code = -1;
	c->report.err.msg[sizeof(c->report.err.msg) - 1] = '\0';
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (c->report.err.code < 0 || c->report.err.code >= ERR_CODE_COUNT)
		err_set(&c->report.err, ERR_INTERNAL, "the unpacking process died (wait status 0x%x)",
			(unsigned)status);
	c->pid = 0;
}

/* Chooses the first cause: a broken blob, then its decoding, then its content. */
static int judge_pipeline(struct pipeline *p, int fed, const struct err *feed_err, struct err *e)
{
	struct unpack *u = p->u;
	const struct err *why = NULL;

	if (fed < 0)
		why = feed_err;
	else if (u->want_size != UINT64_MAX && u->size != u->want_size)
		return err_set(e, ERR_CORRUPT, "the blob has %llu bytes instead of %llu",
			       (unsigned long long)u->size, (unsigned long long)u->want_size);
	else if (u->want_digest && strcmp(u->want_digest, u->digest))
		return err_set(e, ERR_CORRUPT, "the blob's digest is %s instead of %s", u->digest, u->want_digest);
	else if (p->writer.report.err.code && p->filter.report.err.os_errno == EPIPE)
		why = &p->writer.report.err;
	else if (p->filter.report.err.code)
		why = &p->filter.report.err;
	else if (p->writer.report.err.code)
		why = &p->writer.report.err;
	if (why) {
		if (e)
			*e = *why;
		return -1;
	}
	memcpy(u->diff_id, p->filter.report.filter.diff_id, DIGEST_SIZE);
	if (!digest_is_valid(u->diff_id))
		return err_set(e, ERR_INTERNAL, "the unpacking process reported nonsense");
	if (u->want_diff_id && strcmp(u->want_diff_id, u->diff_id))
		return err_set(e, ERR_CORRUPT, "the layer's content has diff id %s instead of %s",
			       u->diff_id, u->want_diff_id);
	u->found = p->filter.report.filter.found;
	u->tar_bytes = p->filter.report.filter.out_bytes;
	u->stats = p->writer.report.stats;
	return 0;
}

/* ---- what the writer may not do ---- */

static int mark_opaque(const struct unpack *u, const char *path, struct err *e)
{
	autoclose int fd = path_open_beneath(u->tree_fd, path, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)	/* replaced by a later entry */
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 :
			err_sys(e, "open '%.200s' to mark it opaque", path);
	if (fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) < 0)
		return err_sys(e, "mark '%.200s' opaque", path);
	return 0;
}

/*
 * A layer that holds only etc/motd says nothing about /etc: it keeps the owner,
 * mode and time it has below.  Without this, a layer with tmp/x would make /tmp
 * 0755.
 */
static int adopt_implied(const struct unpack *u, const char *path, struct err *e)
{
	autoclose int fd = path_open_beneath(u->tree_fd, path, O_RDONLY | O_DIRECTORY, 0);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { 0, 0 } };
	struct stat st;
	size_t i;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at '%.200s'", path);
	if (st.st_mtim.tv_sec != LAYER_IMPLIED_SEC || st.st_mtim.tv_nsec != LAYER_IMPLIED_NSEC)
		return 0;	/* the directory has an entry after all */
	for (i = u->lower_count; i > 0; i--) {
		autoclose int low = path_open_beneath(u->lower_fds[i - 1], path, O_PATH, 0);

		if (low < 0)
			continue;
		if (fstat(low, &st) < 0)
			return err_sys(e, "look at '%.200s' in a lower layer", path);
		if (!S_ISDIR(st.st_mode))
			break;
		if (fchown(fd, st.st_uid, st.st_gid) < 0 || fchmod(fd, st.st_mode & 07777) < 0)
			return err_sys(e, "give '%.200s' owner and mode", path);
		times[1] = st.st_mtim;
		break;
	}
	return futimens(fd, times) < 0 ? err_sys(e, "give '%.200s' its time", path) : 0;
}

static int apply_note(void *ctx, const struct note *n, struct err *e)
{
	const struct unpack *u = ctx;

	if (n->kind == NOTE_OPAQUE)
		return mark_opaque(u, n->path, e);
	if (n->kind == NOTE_IMPLIED)
		return adopt_implied(u, n->path, e);
	return 0;
}

int unpack_run(struct unpack *u, struct err *e)
{
	struct pipeline p = { .u = u, .feed_fd = -1, .notes_fd = -1, .userns_fd = -1, .mapped_fd = -1,
			      .filter.report_fd = -1, .writer.report_fd = -1 };
	struct err feed_err = { 0 };
	int tar_fd = -1, started, fed, rc;

	u->size = 0;
	p.progress = mmap(NULL, sizeof(*p.progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p.progress == MAP_FAILED)
		return err_sys(e, "map the progress counters");
	p.userns_fd = confine_userns(e);
	started = p.userns_fd < 0 ? -1 : u->tree_fd < 0 ? 0 : start_writer(&p, &tar_fd, e);
	if (!started)
		started = start_filter(&p, tar_fd, e);
	fd_close(&tar_fd);
	fd_close(&p.mapped_fd);
	fd_close(&p.userns_fd);
	fed = started < 0 ? -1 : feed_blob(&p, &feed_err);
	fd_close(&p.feed_fd);
	reap_stage(&p.filter, fed < 0);
	reap_stage(&p.writer, fed < 0);
	rc = started < 0 ? -1 : judge_pipeline(&p, fed, &feed_err, e);
	if (!rc && u->lower_ready)
		rc = u->lower_ready(u->lower_ctx, e);
	if (!rc && p.notes_fd >= 0)
		rc = notes_replay(p.notes_fd, apply_note, u, e);
	fd_close(&p.notes_fd);
	fd_close(&p.filter.report_fd);
	fd_close(&p.writer.report_fd);
	munmap(p.progress, sizeof(*p.progress));
	return rc;
}
