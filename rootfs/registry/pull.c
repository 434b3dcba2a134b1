/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "rootfs/store/hash.h"

struct pull {
	const struct pull_options *o;
	struct importer im;
	struct import_options import;
	struct remote remote;
	struct remote_target target;
	uint64_t downloaded;
};

static void pull_tell(const struct pull *p, const struct pull_event *ev);

/* ---- the layers ---- */

/* The layers of one pull: which are missing, a worker for each, their order. */

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
	int job;		/* id of its request to berth-http, or 0 */
	int job_over;
	struct err net_err;	/* berth-http's error about it */
};

struct crew {
	struct pull *p;
	struct import_image *img;
	struct worker *w;
	int *lower_fds;		/* the trees, lowest first */
	size_t count, running, complete;	/* layers 0 to complete - 1 are complete */
};

static void tell_layer(const struct crew *c, size_t i, uint64_t bytes)
{
	const struct import_layer *l = &c->img->layers[i];

	pull_tell(c->p, &(struct pull_event){ .kind = PULL_LAYER, .layer = i, .layers = c->count, .digest = l->want_digest,
					      .state = c->w[i].state, .bytes = bytes, .total_bytes = l->want_size });
}

static int wrap_pulled_layer(const struct crew *c, size_t i, struct err *e)
{
	return err_wrap(e, "layer %zu of %zu (%.19s)", i + 1, c->count, c->img->layers[i].want_digest);
}

/* ---- looking ---- */

static int look_at_pulled_layer(struct crew *c, size_t i, struct err *e)
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

/* Waits before a worker's last step, which reads the trees below: they must be complete. */
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
	close(c->p->remote.sock);	/* only the parent speaks with berth-http */
	if (!importer_stage_stream(im, l, &u, &r.err)) {
		memcpy(r.digest, l->digest, DIGEST_SIZE);
		memcpy(r.diff_id, l->diff_id, DIGEST_SIZE);
		r.size = l->size;
		r.found = l->found;
		r.stats = l->stats;
	}
	_exit(io_write_all(report_fd, &r, sizeof(r)) < 0 || r.err.code ? 1 : 0);
}

/* Opens the blob in the store, or a pipe that berth-http fills. */
static int open_layer_source(struct crew *c, size_t i, int *ret_out, struct err *e)
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

static int start_layer_worker(struct crew *c, size_t i, struct err *e)
{
	struct import_layer *l = &c->img->layers[i];
	struct worker *w = &c->w[i];
	autoclose int out = -1, src = open_layer_source(c, i, &out, e), blob = -1;
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
	fd_close(&out);		/* else the worker would hold its own source open */
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

static int start_layer_workers(struct crew *c, struct err *e)
{
	size_t i;

	for (i = 0; i < c->count && c->running < c->p->o->remote->parallel; i++)
		if (c->w[i].state == PULL_WAITING && start_layer_worker(c, i, e) < 0)
			return wrap_pulled_layer(c, i, e);
	return 0;
}

static void let_layers_go(struct crew *c)
{
	size_t i;

	while (c->complete < c->count &&
	       (c->w[c->complete].state == PULL_DONE || c->w[c->complete].state == PULL_EXISTS))
		c->complete++;
	/* the lowest layer that is not complete has only complete layers below */
	i = c->complete;
	if (i < c->count && c->w[i].go_fd >= 0) {
		(void)!write(c->w[i].go_fd, "", 1);
		fd_close(&c->w[i].go_fd);
	}
}

static void take_pull_event(struct crew *c, const struct remote_event *ev)
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
		take_pull_event(c, &ev);
	return r;
}

/*
 * Waits for the reason why a worker's source ended too early. berth-http reports it, unless it died
 * itself: then the kernel closes the pipe and the socket in any order.
 */
static void hear_why(struct crew *c, struct worker *w)
{
	struct remote_event ev;
	struct err why;
	int r = 1;

	while (w->job && !w->job_over && r > 0) {
		r = remote_next(&c->p->remote, HEAR_MS, &ev, &why);
		if (r > 0)
			take_pull_event(c, &ev);
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
	 * For an interrupted blob berth-http's error is the one to report, unless it says that we
	 * hung up. A transfer that failed after the last byte failed too (I25: more bytes came than
	 * expected).
	 */
	if (w->net_err.code && (!r.err.code || w->net_err.code != ERR_SYS))
		r.err = w->net_err;
	if (r.err.code) {
		*e = r.err;
		return wrap_pulled_layer(c, i, e);
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

static int run_layer_workers(struct crew *c, struct err *e)
{
	autofree struct pollfd *p = calloc(c->count + 2, sizeof(*p));
	size_t i;

	if (!p)
		return err_nomem(e);
	for (;;) {
		let_layers_go(c);
		if (start_layer_workers(c, e) < 0)
			return -1;
		if (!c->running)
			return 0;
		let_layers_go(c);
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
 * Keeps complete layers although no image names them yet: from the lowest layer up, without a gap.
 */
static void keep_whole(struct crew *c)
{
	struct store *s = &c->p->im.store;
	size_t i;

	/* bytes that no image names would count for no tenant */
	if (!c->complete || c->p->im.making.who || store_sync(s, NULL) < 0)
		return;
	for (i = 0; i < c->complete; i++) {
		struct import_layer *l = &c->img->layers[i];

		if ((l->tmp_tree[0] && store_publish_layer(s, l->tmp_tree, l->chain_id, NULL) < 0) ||
		    (l->tmp_blob[0] && store_publish_blob(s, l->tmp_blob, l->digest, NULL) < 0))
			return;
	}
}

/* Catches an interrupt, which first ends the pull cleanly; then the signal has its usual effect. */
static int take_pull_signals(sigset_t *ret_before)
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

/* Brings all layers of img into tmp/ of the store, as importer_stage() does. */
static int pull_layers(struct pull *p, struct import_image *img, struct err *e)
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
		rc = look_at_pulled_layer(&c, i, e);
		if (rc < 0)
			wrap_pulled_layer(&c, i, e);
		else if (w[i].state == PULL_EXISTS)
			tell_layer(&c, i, img->layers[i].size);
	}
	if (!rc) {
		/* not earlier: waiting for another pull's lock must end at once */
		p->remote.signal_fd = take_pull_signals(&before);
		rc = run_layer_workers(&c, e);
		dismiss(&c);
		let_layers_go(&c);
		if (rc < 0)
			keep_whole(&c);
		give_signals_back(&p->remote.signal_fd, &before);
	}
	return rc;
}

/* ---- the documents, and the whole ---- */

#define NESTING_MAX 3

static void pull_tell(const struct pull *p, const struct pull_event *ev)
{
	if (p->o->event)
		p->o->event(p->o->ctx, ev);
}

static void tell_retry(void *ctx, const char *why, uint64_t delay_ms)
{
	pull_tell(ctx, &(struct pull_event){ .kind = PULL_RETRY, .text = why, .delay_ms = delay_ms });
}

static void tell_note(void *ctx, const char *text)
{
	pull_tell(ctx, &(struct pull_event){ .kind = PULL_NOTE, .text = text });
}

/* ---- the manifest ---- */

/* Returns the entry that fits, or NULL with the platforms that exist in the error. */
static const struct oci_entry *choose_platform_entry(const struct oci_index *x, const struct oci_platform *want, struct err *e)
{
	char seen[300] = "", text[100];
	size_t i, len;

	for (i = 0; i < x->count; i++) {
		const struct oci_entry *en = &x->entries[i];

		if (en->desc.kind != OCI_MANIFEST && en->desc.kind != OCI_INDEX)
			continue;
		if (oci_platform_fits(&en->platform, want))
			return en;
		oci_platform_format(&en->platform, text);
		len = strlen(seen);
		/* attestations are for unknown/unknown */
		if (en->platform.os[0] && strcmp(en->platform.os, "unknown") && !strstr(seen, text) &&
		    len + strlen(text) + 3 < sizeof(seen))
			snprintf(seen + len, sizeof(seen) - len, "%s%s", len ? ", " : "", text);
	}
	oci_platform_format(want, text);
	err_set(e, ERR_NOT_FOUND, "there is no image for %s, but for %s; hint: --platform OS/ARCH", text, seen[0] ? seen : "none");
	return NULL;
}

static void document_release(struct remote_document *d)
{
	free(d->text);
	d->text = NULL;
}

/* Checks that the Content-Type, the body's own media type and the descriptor's all agree (I26). */
static int check_manifest_type(const struct remote_document *d, const struct oci_desc *from, struct err *e)
{
	if (!d->type[0])
		return err_set(e, ERR_CORRUPT, "the manifest came without a Content-Type");
	if (from && strcmp(from->media_type, d->type))
		return err_set(e, ERR_CORRUPT, "the manifest came as '%.100s', the index says '%.100s'", d->type,
			       from->media_type);
	if (from && from->size != d->len)
		return err_set(e, ERR_CORRUPT, "the manifest has %zu bytes, the index says %llu", d->len,
			       (unsigned long long)from->size);
	return 0;
}

static int is_pulled_index(const struct remote_document *d)
{
	return !strcmp(d->type, "application/vnd.oci.image.index.v1+json") ||
	       !strcmp(d->type, "application/vnd.docker.distribution.manifest.list.v2+json");
}

int pull_resolve(struct remote *r, const struct remote_target *t, const char *ref, const struct oci_platform *want,
		 struct remote_document *ret, char ret_index[DIGEST_SIZE], struct err *e)
{
	struct remote_document d = { 0 };
	const struct oci_entry *en;
	struct oci_desc from = { 0 };
	int depth, rc;

	ret_index[0] = '\0';
	for (depth = 0; depth <= NESTING_MAX; depth++) {
		struct oci_index x = { 0 };

		if (remote_get_manifest(r, t, depth ? from.digest : ref, &d, e) < 0)
			return -1;
		rc = check_manifest_type(&d, depth ? &from : NULL, e);
		if (!rc && !is_pulled_index(&d)) {
			*ret = d;
			return 0;
		}
		if (!rc)
			rc = oci_index_parse(d.text, d.len, d.type, &x, e);
		if (!depth)
			memcpy(ret_index, d.digest, DIGEST_SIZE);
		document_release(&d);
		en = rc < 0 ? NULL : choose_platform_entry(&x, want, e);
		if (en)
			from = en->desc;
		oci_index_release(&x);
		if (!en)
			return -1;
	}
	return err_set(e, ERR_CORRUPT, "image indexes nested deeper than %d", NESTING_MAX);
}

static int fetch_image_documents(struct pull *p, struct import_image *img, struct err *e)
{
	struct remote_document d = { 0 };
	struct oci_manifest m = { 0 };
	size_t i;
	int rc = -1;

	if (pull_resolve(&p->remote, &p->target, p->target.ref, &p->im.want, &d, img->index_digest, e) < 0)
		return -1;
	img->manifest = d.text;
	img->manifest_len = d.len;
	memcpy(img->digest, d.digest, DIGEST_SIZE);
	if (oci_manifest_parse(d.text, d.len, d.type, &m, e) < 0)
		return -1;
	memcpy(img->config_digest, m.config.digest, DIGEST_SIZE);
	if (remote_get_document(&p->remote, &p->target, &m.config, OCI_CONFIG_MAX, &img->config, &img->config_len, e) < 0 ||
	    import_image_layers(img, m.layer_count, e) < 0)
		goto done;
	for (i = 0; i < m.layer_count; i++) {
		memcpy(img->layers[i].want_digest, m.layers[i].digest, DIGEST_SIZE);
		img->layers[i].want_size = m.layers[i].size;
		img->layers[i].compression = m.layers[i].compression;
	}
	rc = importer_take_config(&p->im, img, e);
done:
	oci_manifest_release(&m);
	return rc;
}

/* ---- names ---- */

/*
 * Names a pulled image. REPO@DIGEST has no tag: it is kept as REPO:ALGORITHM-HEX, which a lookup of
 * REPO@DIGEST finds.
 */
static int choose_pulled_name(const struct pull_options *o, const struct ref *asked, struct ref *ret, struct err *e)
{
	char pinned[REF_NAME_MAX + DIGEST_SIZE + 8];

	if (o->name) {
		if (ref_parse_owned(o->name, ret, e) < 0)
			return -1;
		if (ret->digest[0])
			return err_set(e, ERR_INVALID, "'%.200s' has a digest: an image's name is given without one", o->name);
	} else if (asked->digest[0] && !asked->tag[0]) {
		snprintf(pinned, sizeof(pinned), "%s:%.6s-%.64s", asked->repo, asked->digest, digest_hex(asked->digest));
		if (ref_parse(pinned, ret, e) < 0)
			return -1;
	} else {
		*ret = *asked;
		ret->digest[0] = '\0';
	}
	if (ref_is_reserved(ret))
		return err_set(e, ERR_INVALID, "the name 'host' stands for the host's own programs; hint: "
			       "docker.io/library/host cannot be pulled under that name");
	return 0;
}

/* ---- all of it ---- */

static int pull_image(struct pull *p, struct ref *name, struct err *e)
{
	struct import_image img = { 0 };
	int rc = -1;

	if (making_take_name(&p->im.making, name, e) < 0)
		return -1;
	if (!fetch_image_documents(p, &img, e) &&
	    !(img.layers[0].empty ? importer_stage(&p->im, &img, NULL, NULL, e) : pull_layers(p, &img, e)))
		rc = importer_publish(&p->im, &img, name, 1, e);
	if (!rc && img.index_digest[0])
		json_object_set_new(json_array_get(p->im.results, 0), "index_digest", json_string(img.index_digest));
	import_image_release(&img);
	return rc;
}

static int begin_remote_pull(struct pull *p, const struct ref *asked, struct err *e)
{
	const struct pull_options *o = p->o;
	const struct remote_target *target = &p->target;

	if (o->platform ? oci_platform_parse(o->platform, &p->im.want, e) < 0 : 0)
		return -1;
	if (!o->platform)
		oci_platform_host(&p->im.want);
	if (remote_target(asked, o->remote, 1, &p->target, e) < 0)
		return -1;
	p->import = (struct import_options){ .source = o->ref, .note = tell_note, .ctx = p,
					     .maker = o->maker };
	p->im.opts = &p->import;
	p->im.results = json_array();
	if (!p->im.results)
		return err_nomem(e);
	p->remote.retrying = tell_retry;
	p->remote.ctx = p;
	return remote_open(&p->remote, o->remote, &target, 1, NULL, e);
}

json_t *pull_run(int store_fd, const struct pull_options *o, struct err *e)
{
	struct pull p = { .o = o, .remote = REMOTE_INIT };
	struct ref asked, name;
	json_t *result = NULL;
	int rc;

	if (ref_parse(o->ref, &asked, e) < 0 || choose_pulled_name(o, &asked, &name, e) < 0)
		return NULL;
	rc = begin_remote_pull(&p, &asked, e);
	if (!rc)
		rc = importer_begin(&p.im, store_fd, e);
	if (!rc) {
		rc = pull_image(&p, &name, e);
		importer_end(&p.im);
	}
	remote_close(&p.remote);
	if (!rc) {
		result = json_incref(json_array_get(p.im.results, 0));
		json_object_set_new(result, "downloaded_bytes", json_integer((json_int_t)p.downloaded));
	}
	json_decref(p.im.results);
	return result;
}

/* ---- a look ---- */

static int add_platform(json_t *list, const struct oci_platform *p, struct err *e)
{
	/* attestations are for unknown/unknown */
	if (!p->os[0] || !strcmp(p->os, "unknown"))
		return 0;
	return json_array_append_new(list, json_pack("{s:s,s:s,s:s*}", "os", p->os, "architecture",
						     p->arch, "variant",
						     p->variant[0] ? p->variant : NULL)) < 0 ?
		       err_nomem(e) :
		       0;
}

static int look_index(const struct remote_document *d, json_t *list, struct err *e)
{
	struct oci_index x = { 0 };
	size_t i;
	int rc = oci_index_parse(d->text, d->len, d->type, &x, e);

	for (i = 0; !rc && i < x.count; i++)
		rc = add_platform(list, &x.entries[i].platform, e);
	oci_index_release(&x);
	return rc;
}

/* Adds an image's platform, which stands in its configuration. */
static int look_image(struct pull *p, const struct remote_document *d, json_t *list, struct err *e)
{
	struct oci_manifest m = { 0 };
	struct oci_config c = { 0 };
	autofree char *text = NULL;
	size_t len;
	int rc = oci_manifest_parse(d->text, d->len, d->type, &m, e);

	if (!rc)
		rc = remote_get_document(&p->remote, &p->target, &m.config, OCI_CONFIG_MAX, &text,
					 &len, e);
	if (!rc)
		rc = oci_config_parse(text, len, &c, e);
	if (!rc)
		rc = add_platform(list, &c.platform, e);
	oci_config_release(&c);
	oci_manifest_release(&m);
	return rc;
}

static json_t *look_up_remote(struct pull *p, struct err *e)
{
	autojson json_t *list = json_array();
	struct remote_document d = { 0 };
	json_t *result = NULL;

	if (!list) {
		err_nomem(e);
		return NULL;
	}
	if (remote_get_manifest(&p->remote, &p->target, p->target.ref, &d, e) < 0)
		return NULL;
	if (check_manifest_type(&d, NULL, e) == 0 &&
	    (is_pulled_index(&d) ? look_index(&d, list, e) : look_image(p, &d, list, e)) == 0) {
		result = json_pack("{s:s,s:s,s:s,s:I,s:O}", "name", p->o->ref, "digest", d.digest,
				   "media_type", d.type, "size", (json_int_t)d.len, "platforms",
				   list);
		if (!result)
			err_nomem(e);
	}
	document_release(&d);
	return result;
}

json_t *pull_look(const struct pull_options *o, struct err *e)
{
	struct pull p = { .o = o, .remote = REMOTE_INIT };
	json_t *result = NULL;
	struct ref asked;

	if (ref_parse(o->ref, &asked, e) < 0)
		return NULL;
	if (begin_remote_pull(&p, &asked, e) == 0)
		result = look_up_remote(&p, e);
	remote_close(&p.remote);
	json_decref(p.im.results);
	return result;
}
