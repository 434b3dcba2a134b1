/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/push.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/image.h"
#include "rootfs/store/store.h"

struct push {
	const struct push_options *o;
	struct remote remote;
	struct remote_target to;
	json_t *seen;			/* digests that the registry has by now */
	uint64_t sent, size;
	uint64_t existed, mounted;
	size_t told, count;		/* numbers blobs, for the display */
};

struct push_blob {
	const struct oci_desc *desc;
	size_t number;			/* its number, for the display */
	int job;			/* request under way, or 0 */
	int is_over;
	int step, fd;			/* the way's own */
	/* bytes reported so far; bytes that were sent and did not arrive still count */
	uint64_t shown;
};

/*
 * How to send blobs. Both functions return a request's id, or -1; further() returns 0 when the
 * registry has the blob.
 */
struct push_way {
	int (*begin)(void *ctx, struct push_blob *b, struct err *e);
	int (*further)(void *ctx, struct push_blob *b, const struct remote_event *ev, struct err *e);
	void *ctx;
};

static void push_retrying(void *ctx, const char *why, uint64_t delay_ms)
{
	const struct push *p = ctx;

	if (p->o->event)
		p->o->event(p->o->ctx, &(struct pull_event){ .kind = PULL_RETRY, .text = why, .delay_ms = delay_ms });
}

static void tell_pushed_blob(const struct push *p, struct push_blob *b, enum pull_layer_state state, uint64_t bytes)
{
	b->shown = bytes > b->shown ? bytes : b->shown;
	if (p->o->event)
		p->o->event(p->o->ctx, &(struct pull_event){ .kind = PULL_LAYER, .digest = b->desc->digest, .layer = b->number,
							     .layers = p->count, .state = state, .bytes = b->shown,
							     .total_bytes = b->desc->size });
}

/* ---- several blobs at once ---- */

struct crew {
	struct push *p;
	const struct push_way *way;
	struct push_blob *blobs;
	size_t count, running, left;
};

static int count_blob(struct crew *c, struct push_blob *b, const struct remote_event *ev, struct err *e)
{
	struct push *p = c->p;
	int is_here = ev->existed || ev->mounted;

	b->is_over = 1;
	c->left--;
	tell_pushed_blob(p, b, is_here ? PULL_EXISTS : PULL_DONE, b->desc->size);
	p->existed += (uint64_t)ev->existed;
	p->mounted += (uint64_t)ev->mounted;
	if (!is_here)
		p->sent += b->desc->size;
	return json_object_set_new(p->seen, b->desc->digest, json_true()) < 0 ? err_nomem(e) : 0;
}

static int in_blob(const struct crew *c, const struct push_blob *b, struct err *e)
{
	return err_wrap(e, "push blob %.19s to %.100s/%.150s", b->desc->digest, c->p->to.registry, c->p->to.repo);
}

/* Returns 1 if another blob of the same digest is being sent: this one waits until that has ended. */
static int is_under_way(const struct crew *c, const struct push_blob *b)
{
	const struct push_blob *o;

	for (o = c->blobs; o < b; o++)
		if (o->job && !strcmp(o->desc->digest, b->desc->digest))
			return 1;
	return 0;
}

static int start_blob_pushes(struct crew *c, struct err *e)
{
	struct push_blob *b;

	for (b = c->blobs; b < c->blobs + c->count && c->running < c->p->o->remote->parallel; b++) {
		if (b->job || b->is_over || is_under_way(c, b))
			continue;
		if (json_object_get(c->p->seen, b->desc->digest)) {
			b->is_over = 1;
			c->left--;
			continue;
		}
		b->job = c->way->begin(c->way->ctx, b, e);
		if (b->job < 0)
			return in_blob(c, b, e);
		c->running++;
		tell_pushed_blob(c->p, b, PULL_RUNNING, 0);
	}
	return 0;
}

static int take_push_event(struct crew *c, const struct remote_event *ev, struct err *e)
{
	struct push_blob *b;

	for (b = c->blobs; b < c->blobs + c->count && (!b->job || b->job != (int)ev->id); b++)
		;
	if (b == c->blobs + c->count)
		return 0;
	if (ev->kind == REMOTE_PROGRESS) {
		tell_pushed_blob(c->p, b, PULL_RUNNING, ev->bytes);
		return 0;
	}
	if (ev->kind == REMOTE_FAILED) {
		*e = ev->err;
		return in_blob(c, b, e);
	}
	b->job = c->way->further ? c->way->further(c->way->ctx, b, ev, e) : 0;
	if (b->job < 0)
		return in_blob(c, b, e);
	if (b->job)
		return 0;
	c->running--;
	return count_blob(c, b, ev, e);
}

static int run_crew(struct crew *c, struct err *e)
{
	struct remote_event ev;

	for (;;) {
		if (start_blob_pushes(c, e) < 0)
			return -1;
		if (!c->left)
			return 0;
		if (remote_next(&c->p->remote, -1, &ev, e) < 0 || take_push_event(c, &ev, e) < 0)
			return -1;
	}
}

/*
 * Sends all blobs of a manifest, several at once, as registry.parallel says. On failure requests
 * are left under way: remote_close() ends them.
 */
static int push_blobs(struct push *p, const struct oci_manifest *m, const struct push_way *way, struct err *e)
{
	size_t n = m->layer_count + 1, i;
	autofree struct push_blob *blobs = calloc(n, sizeof(*blobs));
	struct crew c = { .p = p, .way = way, .blobs = blobs, .count = n, .left = n };
	int rc;

	if (!blobs)
		return err_nomem(e);
	p->count += n;
	for (i = 0; i < n; i++) {
		blobs[i] = (struct push_blob){ .desc = i < m->layer_count ? &m->layers[i] : &m->config, .fd = -1,
					       .number = p->told++ };
		p->size += blobs[i].desc->size;
	}
	rc = run_crew(&c, e);
	for (i = 0; i < n; i++)
		fd_close(&blobs[i].fd);
	return rc;
}

/* Chooses the name for the manifest: the reference's digest, which must then match, or its tag. */
static int push_reference(const struct ref *r, const struct remote_target *t, const char *digest, const char **ret, struct err *e)
{
	if (r->digest[0] && strcmp(r->digest, digest))
		return err_set(e, ERR_INVALID, "the image has digest %s, not the digest it would "
			"be pushed as; hint: name a tag", digest);
	*ret = t->ref;
	return 0;
}

static json_t *push_result(const struct push *p, const char *digest, size_t layers, struct err *e)
{
	json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name", p->o->ref, "digest", digest, "layers",
			      (json_int_t)layers, "size", (json_int_t)p->size, "sent_bytes", (json_int_t)p->sent, "existed",
			      (json_int_t)p->existed, "mounted", (json_int_t)p->mounted);

	if (!j)
		err_nomem(e);
	return j;
}

/* ---- from the store ---- */

struct local {
	struct push p;
	struct store store;
	json_t *record;
	struct oci_manifest manifest;
	char *text;
	size_t len;
	char type[128];
};

/* Reads the document as it was when it came; a store that changed it is detected here. */
static int read_pushed_document(struct local *l, const char *digest, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	autoclose int fd = store_open_blob(&l->store, digest, e);
	struct buf b = BUF_INIT(max);
	char have[DIGEST_SIZE];

	if (fd < 0)
		return -1;
	if (io_read_all(fd, &b, digest, e) < 0 || hash_bytes(b.data ? b.data : "", b.len, digest, have, e) < 0) {
		buf_release(&b);
		return -1;
	}
	if (strcmp(have, digest)) {
		buf_release(&b);
		return err_set(e, ERR_CORRUPT, "blob %s of the store is damaged; hint: berth image fsck --repair", digest);
	}
	*ret = b.data;
	*ret_len = b.len;
	return 0;
}

static int read_manifest(struct local *l, const char *digest, struct err *e)
{
	autojson json_t *j = NULL;
	const char *type = NULL;

	if (read_pushed_document(l, digest, OCI_MANIFEST_MAX, &l->text, &l->len, e) < 0 ||
	    oci_manifest_parse(l->text, l->len, NULL, &l->manifest, e) < 0)
		return -1;
	j = json_parse(l->text, l->len, OCI_MANIFEST_MAX, "image manifest", e);
	if (!j || json_get_str(j, "mediaType", &type, "image manifest", e) < 0)
		return -1;
	/* an OCI manifest need not name its media type; Docker's does */
	snprintf(l->type, sizeof(l->type), "%.127s", type ? type : OCI_TYPE_MANIFEST);
	return 0;
}

struct mount_search {
	const struct local *l;
	const char *digest;
	char found[REMOTE_REPO_MAX];
};

/*
 * Finds another image of ours in the same registry that has the blob, so that the registry most
 * likely has it too.
 */
static int look_for_mount(void *ctx, const char *filename, const json_t *record, const struct err *bad, struct err *e)
{
	struct mount_search *m = ctx;
	const char *name = json_string_value(json_object_get(record, "name")), *d;
	struct remote_target t;
	const json_t *layer;
	struct ref r;
	size_t i;

	(void)filename;
	(void)bad;
	(void)e;
	if (m->found[0] || !name || ref_parse(name, &r, NULL) < 0 ||
	    remote_target(&r, m->l->p.o->remote, 0, &t, NULL) < 0 || strcmp(t.registry, m->l->p.to.registry) ||
	    !strcmp(t.repo, m->l->p.to.repo))
		return 0;
	json_array_foreach(json_object_get(record, "layers"), i, layer) {
		d = json_string_value(json_object_get(layer, "digest"));
		if (d && !strcmp(d, m->digest))
			memcpy(m->found, t.repo, sizeof(m->found));
	}
	return 0;
}

static int begin_local_blob(void *ctx, struct push_blob *b, struct err *e)
{
	struct local *l = ctx;
	const struct oci_desc *d = b->desc;
	autoclose int fd = store_open_blob(&l->store, d->digest, e);
	struct mount_search m = { .l = l, .digest = d->digest };
	struct stat st;

	if (fd < 0 || catalog_each(l->store.fd, look_for_mount, &m, e) < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at a blob");
	if ((uint64_t)st.st_size != d->size)
		return err_set(e, ERR_CORRUPT, "blob %s of the store has %lld bytes instead of %llu; hint: berth image fsck "
			       "--repair", d->digest, (long long)st.st_size, (unsigned long long)d->size);
	return remote_push_blob(&l->p.remote, &l->p.to, d->digest, d->size, m.found[0] ? m.found : NULL, fd, e);
}

static int push_image(struct local *l, const struct ref *r, const char *digest, struct err *e)
{
	struct push *p = &l->p;
	const char *as;

	if (push_reference(r, &p->to, digest, &as, e) < 0)
		return -1;
	p->size = l->len;
	if (push_blobs(p, &l->manifest, &(struct push_way){ .begin = begin_local_blob, .ctx = l }, e) < 0)
		return -1;
	return remote_put_manifest(&p->remote, &p->to, as, l->type, l->text, l->len, e);
}

json_t *push_run(int store_fd, const struct push_options *o, struct err *e)
{
	struct local l = { .p = { .o = o, .remote = REMOTE_INIT } };
	const struct remote_target *to = &l.p.to;
	autojson json_t *record = NULL, *seen = json_object();
	const char *digest;
	json_t *result = NULL;
	struct ref r;

	l.p.seen = seen;
	l.p.remote.retrying = push_retrying;
	l.p.remote.ctx = &l.p;
	if (!seen || ref_parse(o->ref, &r, e) < 0 || remote_target(&r, o->remote, 0, &l.p.to, e) < 0)
		return NULL;
	/* the blobs that we send must not be removed meanwhile */
	if (store_begin(&l.store, store_fd, e) < 0)
		return NULL;
	record = image_record(store_fd, o->image, e);
	digest = json_string_value(json_object_get(record, "digest"));
	if (digest && digest_is_valid(digest) && !read_manifest(&l, digest, e) &&
	    !remote_open(&l.p.remote, o->remote, &to, 1, NULL, e) && !push_image(&l, &r, digest, e))
		result = push_result(&l.p, digest, l.manifest.layer_count, e);
	remote_close(&l.p.remote);
	oci_manifest_release(&l.manifest);
	free(l.text);
	store_end(&l.store);
	return result;
}

/* ---- from another registry ---- */

/*
 * Copies between registries, and within the store. A blob is written to a file of tmp/, compared
 * with its digest, and sent.
 */

#define CHUNK (256u << 10)
#define NESTING_MAX 3

struct copy {
	struct push p;
	struct remote_target from;
	struct store store;
	size_t layers;
};

static int compare_fetched_blob(int fd, const char *digest, struct err *e)
{
	autofree unsigned char *chunk = malloc(CHUNK);
	autohash struct hash h = { 0 };
	char have[DIGEST_SIZE];
	off_t at = 0;
	ssize_t r;

	if (!chunk)
		return err_nomem(e);
	if (hash_init(&h, digest, e) < 0)
		return -1;
	while ((r = pread(fd, chunk, CHUNK, at)) > 0 || (r < 0 && errno == EINTR)) {
		if (r > 0 && hash_add(&h, chunk, (size_t)r, e) < 0)
			return -1;
		at += r > 0 ? r : 0;
	}
	if (r < 0)
		return err_sys(e, "read a blob again");
	if (hash_final(&h, have, e) < 0)
		return -1;
	return strcmp(have, digest) ? err_set(e, ERR_CORRUPT, "blob %s has digest %s", digest, have) : 0;
}

static int is_same_registry(const struct copy *c)
{
	return !strcmp(c->from.registry, c->p.to.registry);
}

/*
 * The steps of a blob: it is requested, fetched and sent on. A blob that the target has or can
 * mount is not fetched. A fetched blob goes through a file of ours, so a broken download does not
 * become half an upload.
 */
enum { COPY_ASK, COPY_GET, COPY_SEND };

static int begin_copied_blob(void *ctx, struct push_blob *b, struct err *e)
{
	struct copy *c = ctx;

	return remote_have_blob(&c->p.remote, &c->p.to, b->desc->digest, is_same_registry(c) ? c->from.repo : NULL, e);
}

static int fetch_copied_blob(struct copy *c, struct push_blob *b, struct err *e)
{
	char name[32];

	b->fd = store_tmp_file(&c->store, name, e);
	if (b->fd < 0)
		return -1;
	/* its name is not needed: the kernel removes the file when we end */
	store_tmp_remove(&c->store, name);
	b->step = COPY_GET;
	return remote_get_blob(&c->p.remote, &c->from, b->desc->digest, b->desc->size, b->fd, e);
}

static int go_further(void *ctx, struct push_blob *b, const struct remote_event *ev, struct err *e)
{
	struct copy *c = ctx;

	switch (b->step) {
	case COPY_ASK:
		return ev->existed || ev->mounted ? 0 : fetch_copied_blob(c, b, e);
	case COPY_GET:
		if (compare_fetched_blob(b->fd, b->desc->digest, e) < 0)
			return -1;
		b->step = COPY_SEND;
		return remote_push_blob(&c->p.remote, &c->p.to, b->desc->digest, b->desc->size, NULL, b->fd, e);
	default:
		fd_close(&b->fd);
		return 0;
	}
}

static int copy_remote_image(struct copy *c, const struct remote_document *doc, const char *as, struct err *e)
{
	struct push_way way = { .begin = begin_copied_blob, .further = go_further, .ctx = c };
	struct oci_manifest m = { 0 };
	int rc;

	if (oci_manifest_parse(doc->text, doc->len, doc->type, &m, e) < 0)
		return -1;
	c->layers += m.layer_count;
	c->p.size += doc->len;
	rc = push_blobs(&c->p, &m, &way, e);
	oci_manifest_release(&m);
	return rc ? -1 : remote_put_manifest(&c->p.remote, &c->p.to, as, doc->type, doc->text, doc->len, e);
}

static int is_copied_index(const struct remote_document *d)
{
	return !strcmp(d->type, "application/vnd.oci.image.index.v1+json") ||
	       !strcmp(d->type, "application/vnd.docker.distribution.manifest.list.v2+json");
}

/* Copies an index: all manifests that it lists, then the index itself. */
static int copy_remote_tree(struct copy *c, const struct remote_document *doc, const char *as, int depth, struct err *e)
{
	struct oci_index x = { 0 };
	size_t i;
	int rc = 0;

	if (!is_copied_index(doc))
		return copy_remote_image(c, doc, as, e);
	if (depth == NESTING_MAX)
		return err_set(e, ERR_CORRUPT, "image indexes nested deeper than %d", NESTING_MAX);
	if (oci_index_parse(doc->text, doc->len, doc->type, &x, e) < 0)
		return -1;
	for (i = 0; !rc && i < x.count; i++) {
		const struct oci_desc *d = &x.entries[i].desc;
		struct remote_document one = { 0 };

		rc = remote_get_manifest(&c->p.remote, &c->from, d->digest, &one, e);
		if (!rc && (strcmp(one.type, d->media_type) || one.len != d->size))
			rc = err_set(e, ERR_CORRUPT, "manifest %s does not match its index", d->digest);
		if (!rc)
			rc = copy_remote_tree(c, &one, d->digest, depth + 1, e);
		free(one.text);
	}
	oci_index_release(&x);
	return rc ? -1 : remote_put_manifest(&c->p.remote, &c->p.to, as, doc->type, doc->text, doc->len, e);
}

static int get_source(struct copy *c, struct remote_document *doc, struct err *e)
{
	char index[DIGEST_SIZE];
	struct oci_platform want;

	if (c->p.o->all)
		return remote_get_manifest(&c->p.remote, &c->from, c->from.ref, doc, e);
	oci_platform_host(&want);
	if (c->p.o->platform && oci_platform_parse(c->p.o->platform, &want, e) < 0)
		return -1;
	return pull_resolve(&c->p.remote, &c->from, c->from.ref, &want, doc, index, e);
}

json_t *copy_remote(int store_fd, const struct push_options *o, struct err *e)
{
	struct copy c = { .p = { .o = o, .remote = REMOTE_INIT } };
	const struct remote_target *targets[] = { &c.from, &c.p.to };
	struct remote_document doc = { 0 };
	autojson json_t *seen = json_object();
	json_t *result = NULL;
	struct ref from, to;
	const char *as;

	c.p.seen = seen;
	c.p.remote.retrying = push_retrying;
	c.p.remote.ctx = &c.p;
	if (!seen || ref_parse(o->image, &from, e) < 0 || ref_parse(o->ref, &to, e) < 0 ||
	    remote_target(&from, o->remote, 1, &c.from, e) < 0 || remote_target(&to, o->remote, 0, &c.p.to, e) < 0)
		return NULL;
	if (store_begin(&c.store, store_fd, e) < 0)
		return NULL;
	if (!remote_open(&c.p.remote, o->remote, targets, 2, NULL, e) && !get_source(&c, &doc, e) &&
	    !push_reference(&to, &c.p.to, doc.digest, &as, e) && !copy_remote_tree(&c, &doc, as, 0, e))
		result = push_result(&c.p, doc.digest, c.layers, e);
	free(doc.text);
	remote_close(&c.p.remote);
	store_end(&c.store);
	return result;
}

/* ---- within the store ---- */

json_t *copy_local(int store_fd, const char *image, const char *name, struct err *e)
{
	char filename[REF_NAME_MAX + 8], full[REF_NAME_MAX + 1];
	autojson json_t *record = NULL;
	struct store s;
	json_t *result = NULL;
	struct ref r;

	if (ref_parse_owned(name, &r, e) < 0)
		return NULL;
	if (r.digest[0] || ref_is_reserved(&r)) {
		err_set(e, ERR_INVALID, "'%.200s' cannot be the name of an image in the store", name);
		return NULL;
	}
	if (store_begin(&s, store_fd, e) < 0)
		return NULL;
	ref_name(&r, full);
	ref_filename(&r, filename);
	record = image_record(store_fd, image, e);
	if (record && json_object_set_new(record, "name", json_string(full)) == 0 &&
	    !store_write_record(&s, filename, record, e))
		result = json_pack("{s:s, s:O}", "name", full, "digest", json_object_get(record, "digest"));
	store_end(&s);
	return result;
}
