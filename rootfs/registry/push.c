/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/push.h"

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

void push_retrying(void *ctx, const char *why, uint64_t delay_ms)
{
	const struct push *p = ctx;

	if (p->o->event)
		p->o->event(p->o->ctx, &(struct pull_event){ .kind = PULL_RETRY, .text = why, .delay_ms = delay_ms });
}

static void tell(const struct push *p, struct push_blob *b, enum pull_layer_state state, uint64_t bytes)
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
	tell(p, b, is_here ? PULL_EXISTS : PULL_DONE, b->desc->size);
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

/* 1 when another of the same digest is on its way: this one waits for its end. */
static int is_under_way(const struct crew *c, const struct push_blob *b)
{
	const struct push_blob *o;

	for (o = c->blobs; o < b; o++)
		if (o->job && !strcmp(o->desc->digest, b->desc->digest))
			return 1;
	return 0;
}

static int start_more(struct crew *c, struct err *e)
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
		tell(c->p, b, PULL_RUNNING, 0);
	}
	return 0;
}

static int take_event(struct crew *c, const struct remote_event *ev, struct err *e)
{
	struct push_blob *b;

	for (b = c->blobs; b < c->blobs + c->count && (!b->job || b->job != (int)ev->id); b++)
		;
	if (b == c->blobs + c->count)
		return 0;
	if (ev->kind == REMOTE_PROGRESS) {
		tell(c->p, b, PULL_RUNNING, ev->bytes);
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
		if (start_more(c, e) < 0)
			return -1;
		if (!c->left)
			return 0;
		if (remote_next(&c->p->remote, -1, &ev, e) < 0 || take_event(c, &ev, e) < 0)
			return -1;
	}
}

int push_blobs(struct push *p, const struct oci_manifest *m, const struct push_way *way, struct err *e)
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

int push_reference(const struct ref *r, const struct remote_target *t, const char *digest, const char **ret, struct err *e)
{
	if (r->digest[0] && strcmp(r->digest, digest))
		return err_set(e, ERR_INVALID, "the image has digest %s, not the one to push it as; hint: name a tag", digest);
	*ret = t->ref;
	return 0;
}

json_t *push_result(const struct push *p, const char *digest, size_t layers, struct err *e)
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

/* The document as it was when it came; a store that changed it is found out here. */
static int read_blob(struct local *l, const char *digest, size_t max, char **ret, size_t *ret_len, struct err *e)
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

	if (read_blob(l, digest, OCI_MANIFEST_MAX, &l->text, &l->len, e) < 0 ||
	    oci_manifest_parse(l->text, l->len, NULL, &l->manifest, e) < 0)
		return -1;
	j = json_parse(l->text, l->len, OCI_MANIFEST_MAX, "image manifest", e);
	if (!j || json_get_str(j, "mediaType", &type, "image manifest", e) < 0)
		return -1;
	/* an OCI manifest need not say what it is; Docker's does */
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

static int begin_blob(void *ctx, struct push_blob *b, struct err *e)
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
	if (push_blobs(p, &l->manifest, &(struct push_way){ .begin = begin_blob, .ctx = l }, e) < 0)
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
	/* the blobs that we send are not removed meanwhile */
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
