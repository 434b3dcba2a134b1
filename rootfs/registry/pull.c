/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/pull.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define NESTING_MAX 3

void pull_tell(const struct pull *p, const struct pull_event *ev)
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

/* The entry that fits, or NULL with the platforms there are in the error. */
static const struct oci_entry *choose(const struct oci_index *x, const struct oci_platform *want, struct err *e)
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

/* The Content-Type, the body's own media type and the descriptor's must all agree (I26). */
static int check_type(const struct remote_document *d, const struct oci_desc *from, struct err *e)
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

static int is_index(const struct remote_document *d)
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
		rc = check_type(&d, depth ? &from : NULL, e);
		if (!rc && !is_index(&d)) {
			*ret = d;
			return 0;
		}
		if (!rc)
			rc = oci_index_parse(d.text, d.len, d.type, &x, e);
		if (!depth)
			memcpy(ret_index, d.digest, DIGEST_SIZE);
		document_release(&d);
		en = rc < 0 ? NULL : choose(&x, want, e);
		if (en)
			from = en->desc;
		oci_index_release(&x);
		if (!en)
			return -1;
	}
	return err_set(e, ERR_CORRUPT, "image indexes nested deeper than %d", NESTING_MAX);
}

static int fill_image(struct pull *p, struct import_image *img, struct err *e)
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
 * REPO@DIGEST has no tag to be kept under: it becomes REPO:ALGORITHM-HEX, which
 * looking REPO@DIGEST up finds.
 */
static int choose_name(const struct pull_options *o, const struct ref *asked, struct ref *ret, struct err *e)
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
	if (!fill_image(p, &img, e) && !pull_layers(p, &img, e))
		rc = importer_publish(&p->im, &img, name, 1, e);
	if (!rc && img.index_digest[0])
		json_object_set_new(json_array_get(p->im.results, 0), "index_digest", json_string(img.index_digest));
	import_image_release(&img);
	return rc;
}

static int begin(struct pull *p, const struct ref *asked, struct err *e)
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

	if (ref_parse(o->ref, &asked, e) < 0 || choose_name(o, &asked, &name, e) < 0)
		return NULL;
	rc = begin(&p, &asked, e);
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

/* An image's platform stands in its configuration. */
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

static json_t *look(struct pull *p, struct err *e)
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
	if (check_type(&d, NULL, e) == 0 &&
	    (is_index(&d) ? look_index(&d, list, e) : look_image(p, &d, list, e)) == 0) {
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
	if (begin(&p, &asked, e) == 0)
		result = look(&p, e);
	remote_close(&p.remote);
	json_decref(p.im.results);
	return result;
}
