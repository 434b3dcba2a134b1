/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of one pull: which are missing, a worker for each, their order. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "rootfs/registry/pull.h"
#include "rootfs/store/hash.h"

#define PIPE_SIZE (1 << 20)
#define HEAR_MS 1000

/* The report of a worker at its end, in one write. */
struct report {
	struct err err;
	char digest[DIGEST_SIZE], diff_id[DIGEST_SIZE];
	uint64_t size;
	enum compression found;
	struct layer_stats stats;
};

struct worker {
	enum pull_layer_state state;
	int has_blob, has_tree;
	pid_t pid;
	int report_fd, go_fd;	/* go_fd gets a byte when the layers below are complete */
	int job;		/* of berth-http, or 0 */
	int job_over;
	struct err net_err;	/* berth-http's error about it */
};

struct crew {
	struct pull *p;
	struct import_image *img;
	struct worker *w;
	int *lower_fds;		/* the trees, lowest first */
	size_t count, running, complete;	/* complete: layers 0..complete-1 are */
};

static void tell_layer(const struct crew *c, size_t i, uint64_t bytes)
{
	const struct import_layer *l = &c->img->layers[i];

	pull_tell(c->p, &(struct pull_event){ .kind = PULL_LAYER, .layer = i, .layers = c->count, .digest = l->want_digest,
					      .state = c->w[i].state, .bytes = bytes, .total_bytes = l->want_size });
}

static int in_layer(const struct crew *c, size_t i, struct err *e)
{
	return err_wrap(e, "layer %zu of %zu (%.19s)", i + 1, c->count, c->img->layers[i].want_digest);
}

/* ---- looking ---- */

static int look_at(struct crew *c, size_t i, struct err *e)
{
	struct import_layer *l = &c->img->layers[i];
	struct store *s = &c->p->im.store;
	struct worker *w = &c->w[i];

	/* lowest first, so two pulls that share layers wait for each other in one order */
	if (hash_chain(i ? c->img->layers[i - 1].chain_id : NULL, l->want_diff_id, l->chain_id, e) < 0 ||
	    importer_find_layer(&c->p->im, l, &w->has_tree, &w->has_blob, e) < 0)
		return -1;
	l->tree_fd = w->has_tree ? store_open_layer(s, l->chain_id, e) : store_tmp_dir(s, l->tmp_tree, e);
	if (l->tree_fd < 0)
		return -1;
	c->lower_fds[i] = l->tree_fd;
	if (w->has_tree && w->has_blob) {
		w->state = PULL_EXISTS;
		return importer_reuse_layer(&c->p->im, l, e);
	}
	return 0;
}

/* ---- a worker ---- */

/* Its last step reads the trees below: they must be complete. */
static int wait_for_lower(void *ctx, struct err *e)
{
	char go;

	return io_read_exact(*(int *)ctx, &go, 1) == 1 ? 0 : err_set(e, ERR_INTERNAL, "the pull ended");
}

static void run_worker(struct crew *c, size_t i, int src, int blob, int go, int report_fd, pid_t parent)
	__attribute__((noreturn));
static void run_worker(struct crew *c, size_t i, int src, int blob, int go, int report_fd, pid_t parent)
{
	struct import_layer *l = &c->img->layers[i];
	struct importer *im = &c->p->im;
	struct unpack u = { .src_fd = src, .tree_fd = c->w[i].has_tree ? -1 : l->tree_fd, .blob_fd = blob,
			    .lower_fds = c->lower_fds, .lower_count = i, .lower_ready = wait_for_lower, .lower_ctx = &go };
	struct report r = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	close(c->p->remote.sock);	/* not a worker's to speak on */
	if (!importer_stage_stream(im, l, &u, &r.err)) {
		memcpy(r.digest, l->digest, DIGEST_SIZE);
		memcpy(r.diff_id, l->diff_id, DIGEST_SIZE);
		r.size = l->size;
		r.found = l->found;
		r.stats = l->stats;
	}
	_exit(io_write_all(report_fd, &r, sizeof(r)) < 0 || r.err.code ? 1 : 0);
}

/* The blob in the store, or a pipe that berth-http fills. */
static int open_source(struct crew *c, size_t i, int *ret_out, struct err *e)
{
	int fds[2];

	*ret_out = -1;
	if (c->w[i].has_blob)
		return store_open_blob(&c->p->im.store, c->img->layers[i].want_digest, e);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE);
	*ret_out = fds[1];
	return fds[0];
}

static int start(struct crew *c, size_t i, struct err *e)
{
	struct import_layer *l = &c->img->layers[i];
	struct worker *w = &c->w[i];
	autoclose int out = -1, src = open_source(c, i, &out, e), blob = -1;
	int go[2] = { -1, -1 }, rep[2] = { -1, -1 };
	pid_t me = getpid();

	if (src < 0)
		return -1;
	if (!w->has_blob) {
		blob = store_tmp_file(&c->p->im.store, l->tmp_blob, e);
		if (blob < 0)
			return -1;
	}
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(rep, O_CLOEXEC) < 0) {
		fd_close(&go[0]);
		fd_close(&go[1]);
		return err_sys(e, "make a pipe");
	}
	w->report_fd = rep[0];
	w->go_fd = go[1];
	if (!w->has_blob) {
		w->job = remote_get_blob(&c->p->remote, &c->p->target, l->want_digest, l->want_size, out, e);
		if (w->job < 0)
			goto fail;
	}
	fd_close(&out);		/* or the worker would hold its own source open */
	w->pid = fork();
	if (!w->pid)
		run_worker(c, i, src, blob, go[0], rep[1], me);
	if (w->pid < 0) {
		w->pid = 0;
		err_sys(e, "fork");
		goto fail;
	}
	close(go[0]);
	close(rep[1]);
	w->state = PULL_RUNNING;
	c->running++;
	tell_layer(c, i, 0);
	return 0;
fail:
	close(go[0]);
	close(rep[1]);
	return -1;
}

/* ---- the crew ---- */

static int start_more(struct crew *c, struct err *e)
{
	size_t i;

	for (i = 0; i < c->count && c->running < c->p->o->remote->parallel; i++)
		if (c->w[i].state == PULL_WAITING && start(c, i, e) < 0)
			return in_layer(c, i, e);
	return 0;
}

static void let_go(struct crew *c)
{
	size_t i;

	while (c->complete < c->count &&
	       (c->w[c->complete].state == PULL_DONE || c->w[c->complete].state == PULL_EXISTS))
		c->complete++;
	/* the lowest that is not complete has only complete ones below */
	i = c->complete;
	if (i < c->count && c->w[i].go_fd >= 0) {
		(void)!write(c->w[i].go_fd, "", 1);
		fd_close(&c->w[i].go_fd);
	}
}

static void take_event(struct crew *c, const struct remote_event *ev)
{
	size_t i;

	for (i = 0; i < c->count && (!c->w[i].job || c->w[i].job != (int)ev->id); i++)
		;
	if (i == c->count)
		return;
	if (ev->kind == REMOTE_PROGRESS && c->w[i].state == PULL_RUNNING)
		tell_layer(c, i, ev->bytes);
	if (ev->kind == REMOTE_FAILED)
		c->w[i].net_err = ev->err;
	c->w[i].job_over |= ev->kind != REMOTE_PROGRESS;
}

static int take_events(struct crew *c, struct err *e)
{
	struct remote_event ev;
	int r;

	while ((r = remote_next(&c->p->remote, 0, &ev, e)) > 0)
		take_event(c, &ev);
	return r;
}

/*
 * A worker's source ended too early. berth-http reports why, unless it died itself: then the
 * kernel closes the pipe and the socket in any order.
 */
static void hear_why(struct crew *c, struct worker *w)
{
	struct remote_event ev;
	struct err why;
	int r = 1;

	while (w->job && !w->job_over && r > 0) {
		r = remote_next(&c->p->remote, HEAR_MS, &ev, &why);
		if (r > 0)
			take_event(c, &ev);
		else if (r < 0)
			w->net_err = why;
	}
}

static int take_report(struct crew *c, size_t i, struct err *e)
{
	struct import_layer *l = &c->img->layers[i];
	struct worker *w = &c->w[i];
	struct report r = { 0 };
	int got = io_read_exact(w->report_fd, &r, sizeof(r)), status = 0;

	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	fd_close(&w->report_fd);
	fd_close(&w->go_fd);
	c->running--;
	if (got != 1)
		err_set(&r.err, ERR_INTERNAL, "the unpacking process died (wait status 0x%x)", (unsigned)status);
	if (r.err.code)
		hear_why(c, w);
	/*
	 * For an interrupted blob berth-http's error counts, unless it says that we hung up. A
	 * transfer that failed after the last byte failed too (I25: more bytes came than
	 * expected).
	 */
	if (w->net_err.code && (!r.err.code || w->net_err.code != ERR_SYS))
		r.err = w->net_err;
	if (r.err.code) {
		*e = r.err;
		return in_layer(c, i, e);
	}
	memcpy(l->digest, r.digest, DIGEST_SIZE);
	memcpy(l->diff_id, r.diff_id, DIGEST_SIZE);
	l->size = r.size;
	l->found = r.found;
	l->stats = r.stats;
	if (!w->has_blob)
		c->p->downloaded += r.size;
	w->state = PULL_DONE;
	tell_layer(c, i, l->size);
	return 0;
}

static int wait_for_something(struct crew *c, struct pollfd *p, struct err *e)
{
	uint64_t now = clock_ms(), deadline = c->p->remote.deadline_ms;
	size_t i, n = 0;
	int r;

	for (i = 0; i < c->count; i++)
		p[n++] = (struct pollfd){ .fd = c->w[i].report_fd, .events = POLLIN };
	p[n++] = (struct pollfd){ .fd = c->p->remote.sock, .events = POLLIN };
	p[n++] = (struct pollfd){ .fd = c->p->remote.signal_fd, .events = POLLIN };
	do
		r = poll(p, n, !deadline ? -1 : deadline > now ? (int)(deadline - now > 60000 ? 60000 : deadline - now) : 0);
	while (r < 0 && errno == EINTR);
	return r < 0 ? err_sys(e, "wait for layers") : 0;
}

static int work(struct crew *c, struct err *e)
{
	autofree struct pollfd *p = calloc(c->count + 2, sizeof(*p));
	size_t i;

	if (!p)
		return err_nomem(e);
	for (;;) {
		let_go(c);
		if (start_more(c, e) < 0)
			return -1;
		if (!c->running)
			return 0;
		let_go(c);
		/* berth-http's event comes before a worker's reaction to it */
		if (wait_for_something(c, p, e) < 0 || take_events(c, e) < 0)
			return -1;
		for (i = 0; i < c->count; i++)
			if (p[i].revents && c->w[i].report_fd >= 0 && take_report(c, i, e) < 0)
				return -1;
	}
}

/* ---- the end ---- */

static void dismiss(struct crew *c)
{
	size_t i;

	for (i = 0; i < c->count; i++) {
		struct worker *w = &c->w[i];

		if (w->pid > 0) {
			kill(w->pid, SIGKILL);
			while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
		fd_close(&w->report_fd);
		fd_close(&w->go_fd);
	}
}

/*
 * Complete layers stay although no image names them yet: from the lowest layer up, without a
 * gap.
 */
static void keep_whole(struct crew *c)
{
	struct store *s = &c->p->im.store;
	size_t i;

	/* what no image names would count for no tenant */
	if (!c->complete || c->p->im.making.who || store_sync(s, NULL) < 0)
		return;
	for (i = 0; i < c->complete; i++) {
		struct import_layer *l = &c->img->layers[i];

		if ((l->tmp_tree[0] && store_publish_layer(s, l->tmp_tree, l->chain_id, NULL) < 0) ||
		    (l->tmp_blob[0] && store_publish_blob(s, l->tmp_blob, l->digest, NULL) < 0))
			return;
	}
}

/* An interrupt first ends the pull cleanly; then the signal has its usual effect. */
static int take_signals(sigset_t *ret_before)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, ret_before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void give_signals_back(int *fd, const sigset_t *before)
{
	struct signalfd_siginfo si = { 0 };

	if (*fd >= 0 && read(*fd, &si, sizeof(si)) != sizeof(si))
		si.ssi_signo = 0;
	fd_close(fd);
	if (si.ssi_signo)
		raise((int)si.ssi_signo);	/* still blocked: it arrives with the next line */
	sigprocmask(SIG_SETMASK, before, NULL);
}

int pull_layers(struct pull *p, struct import_image *img, struct err *e)
{
	struct crew c = { .p = p, .img = img, .count = img->layer_count };
	autofree struct worker *w = calloc(c.count, sizeof(*w));
	autofree int *lower = calloc(c.count, sizeof(*lower));
	uint64_t total = 0;
	sigset_t before;
	size_t i;
	int rc = 0;

	if (!w || !lower)
		return err_nomem(e);
	c.w = w;
	c.lower_fds = lower;
	for (i = 0; i < c.count; i++) {
		w[i].report_fd = w[i].go_fd = -1;
		total += img->layers[i].want_size;
	}
	pull_tell(p, &(struct pull_event){ .kind = PULL_RESOLVED, .digest = img->digest, .layers = c.count, .total_bytes = total });
	for (i = 0; i < c.count && !rc; i++) {
		rc = look_at(&c, i, e);
		if (rc < 0)
			in_layer(&c, i, e);
		else if (w[i].state == PULL_EXISTS)
			tell_layer(&c, i, img->layers[i].size);
	}
	if (!rc) {
		/* not before: waiting for another pull's lock must end at once */
		p->remote.signal_fd = take_signals(&before);
		rc = work(&c, e);
		dismiss(&c);
		let_go(&c);
		if (rc < 0)
			keep_whole(&c);
		give_signals_back(&p->remote.signal_fd, &before);
	}
	return rc;
}
