/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between registries, and within the store.  A blob comes into a file of
 * tmp/, is compared with its digest, and goes out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "rootfs/registry/push.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/image.h"
#include "rootfs/store/store.h"

#define CHUNK (256u << 10)
#define NESTING_MAX 3

struct copy {
	struct push p;
	struct remote_target from;
	struct store store;
	size_t layers;
};

static int compare(int fd, const char *digest, struct err *e)
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
 * A blob that is requested, fetched and sent on. A blob that the target has or can mount is not
 * fetched. A fetched blob goes through a file of ours, so a broken download does not become half
 * an upload.
 */
enum { COPY_ASK, COPY_GET, COPY_SEND };

static int begin_blob(void *ctx, struct push_blob *b, struct err *e)
{
	struct copy *c = ctx;

	return remote_have_blob(&c->p.remote, &c->p.to, b->desc->digest, is_same_registry(c) ? c->from.repo : NULL, e);
}

static int fetch(struct copy *c, struct push_blob *b, struct err *e)
{
	char name[32];

	b->fd = store_tmp_file(&c->store, name, e);
	if (b->fd < 0)
		return -1;
	/* nobody needs its name: the kernel removes the file when we end */
	store_tmp_remove(&c->store, name);
	b->step = COPY_GET;
	return remote_get_blob(&c->p.remote, &c->from, b->desc->digest, b->desc->size, b->fd, e);
}

static int go_further(void *ctx, struct push_blob *b, const struct remote_event *ev, struct err *e)
{
	struct copy *c = ctx;

	switch (b->step) {
	case COPY_ASK:
		return ev->existed || ev->mounted ? 0 : fetch(c, b, e);
	case COPY_GET:
		if (compare(b->fd, b->desc->digest, e) < 0)
			return -1;
		b->step = COPY_SEND;
		return remote_push_blob(&c->p.remote, &c->p.to, b->desc->digest, b->desc->size, NULL, b->fd, e);
	default:
		fd_close(&b->fd);
		return 0;
	}
}

static int copy_image(struct copy *c, const struct remote_document *doc, const char *as, struct err *e)
{
	struct push_way way = { .begin = begin_blob, .further = go_further, .ctx = c };
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

static int is_index(const struct remote_document *d)
{
	return !strcmp(d->type, "application/vnd.oci.image.index.v1+json") ||
	       !strcmp(d->type, "application/vnd.docker.distribution.manifest.list.v2+json");
}

/* An index with all that it lists, then the index itself. */
static int copy_tree(struct copy *c, const struct remote_document *doc, const char *as, int depth, struct err *e)
{
	struct oci_index x = { 0 };
	size_t i;
	int rc = 0;

	if (!is_index(doc))
		return copy_image(c, doc, as, e);
	if (depth == NESTING_MAX)
		return err_set(e, ERR_CORRUPT, "image indexes nested deeper than %d", NESTING_MAX);
	if (oci_index_parse(doc->text, doc->len, doc->type, &x, e) < 0)
		return -1;
	for (i = 0; !rc && i < x.count; i++) {
		const struct oci_desc *d = &x.entries[i].desc;
		struct remote_document one = { 0 };

		rc = remote_get_manifest(&c->p.remote, &c->from, d->digest, &one, e);
		if (!rc && (strcmp(one.type, d->media_type) || one.len != d->size))
			rc = err_set(e, ERR_CORRUPT, "manifest %s is not what its index says", d->digest);
		if (!rc)
			rc = copy_tree(c, &one, d->digest, depth + 1, e);
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
	    !push_reference(&to, &c.p.to, doc.digest, &as, e) && !copy_tree(&c, &doc, as, 0, e))
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
