/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "rootfs/layer/confine.h"
#include "rootfs/layer/difftar.h"
#include "rootfs/layer/tarout.h"
#include "rootfs/store/change.h"
#include "rootfs/store/hash.h"
#include "rootfs/store/merge.h"
#include "rootfs/transfer/importer.h"
#include "rootfs/transfer/layerbound.h"

#define IDS 65536u

struct commit {
	struct importer im;
	const struct commit_options *o;
	struct image parent;
	struct oci_manifest manifest;	/* of the parent */
	json_t *config;			/* the parent's config, later the new one */
	struct difftar_marks marks;
	struct import_image img;
	int has_layer;			/* the sandbox changed something */
	int has_parent;			/* the parent is an image of the store; else there is no layer
					 * below */
	uint64_t max_bytes;		/* of its layer */
	int empty_fd;			/* an empty directory that stands for the parent's files */
	char tmp_empty[32];
	char created[40];
};

/* ---- what it comes from ---- */

static int read_parent_document(struct commit *c, const char *digest, size_t max, struct buf *b, struct err *e)
{
	autoclose int fd = store_open_blob(&c->im.store, digest, e);
	char is[DIGEST_SIZE];

	b->max = max;
	if (fd < 0 || io_read_all(fd, b, "a document of the image", e) < 0 ||
	    hash_bytes(b->data ? b->data : "", b->len, digest, is, e) < 0)
		return -1;
	return strcmp(is, digest) ? err_set(e, ERR_CORRUPT, "document %s of the image is damaged; hint: berth image fsck", digest) : 0;
}

/*
 * Prepares a sandbox of the host, or of a directory: the store does not have their files, so it
 * cannot hand them on.
 */
static int load_nothing(struct commit *c, struct err *e)
{
	c->img.on_host = c->o->on_host;
	importer_note(&c->im, "%s", c->img.on_host ?
		      "the new image stands on the programs of this host, which are no part of it: elsewhere it has "
		      "only what the sandbox wrote" :
		      "the sandbox was not made from an image of the store: the new image "
		      "has only what the sandbox wrote, and nothing below it");
	oci_platform_host(&c->im.want);
	c->config = json_pack("{s:s, s:s, s:{s:[s]}, s:{s:s, s:[]}}", "os", c->im.want.os,
			      "architecture", c->im.want.arch,
			      "config", "Env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			      "rootfs", "type", "layers", "diff_ids");
	if (!c->config)
		return err_nomem(e);
	if (c->im.want.variant[0])
		json_object_set_new(c->config, "variant", json_string(c->im.want.variant));
	c->empty_fd = store_tmp_dir(&c->im.store, c->tmp_empty, e);
	return c->empty_fd < 0 ? -1 : import_image_layers(&c->img, 1, e);
}

static int load_parent(struct commit *c, struct err *e)
{
	autobuf struct buf manifest = BUF_INIT(0), config = BUF_INIT(0);
	struct oci_config parsed = { 0 };
	struct err why = { 0 };

	if (image_load_pin(c->o->dir_fd, &c->parent, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return load_nothing(c, e);
		*e = why;
		return -1;
	}
	c->has_parent = 1;
	c->img.on_host = c->parent.on_host;
	if (read_parent_document(c, c->parent.digest, OCI_MANIFEST_MAX, &manifest, e) < 0 ||
	    oci_manifest_parse(manifest.data, manifest.len, NULL, &c->manifest, e) < 0 ||
	    read_parent_document(c, c->manifest.config.digest, OCI_CONFIG_MAX, &config, e) < 0 ||
	    oci_config_parse(config.data, config.len, &parsed, e) < 0)
		return -1;
	c->im.want = parsed.platform;
	if (parsed.diff_id_count != c->manifest.layer_count || c->parent.layer_count != parsed.diff_id_count)
		err_set(e, ERR_CORRUPT, "the image's documents disagree on its layers; hint: berth image fsck");
	else if (c->manifest.layer_count >= IMAGE_LAYERS_MAX)
		err_set(e, ERR_LIMIT, "the image has %zu layers already, which is all that can be stacked; hint: berth image export "
			"--format rootfs and import make one of them", c->manifest.layer_count);
	else
		c->config = json_parse(config.data, config.len, OCI_CONFIG_MAX, "image config", e);
	if (c->config && import_image_layers(&c->img, c->manifest.layer_count + 1, e) == 0) {
		size_t i;

		memcpy(c->img.parent, c->parent.digest, sizeof(c->img.parent));
		for (i = 0; i < c->manifest.layer_count; i++) {
			memcpy(c->img.layers[i].want_digest, c->manifest.layers[i].digest, DIGEST_SIZE);
			memcpy(c->img.layers[i].want_diff_id, parsed.diff_ids[i], DIGEST_SIZE);
			c->img.layers[i].want_size = c->manifest.layers[i].size;
			c->img.layers[i].compression = c->manifest.layers[i].compression;
		}
	}
	oci_config_release(&parsed);
	return c->config && c->img.layers ? 0 : -1;
}

/* Fails: all but the last layer must be in the store, because the sandbox uses them. */
static int no_parent_source(void *ctx, size_t i, struct err *e)
{
	const struct commit *c = ctx;

	return err_set(e, ERR_CORRUPT, "layer %s is missing; hint: import %s again", c->manifest.layers[i].digest, c->parent.name);
}

static int stage_parent(struct commit *c, struct err *e)
{
	int r;

	if (!c->has_parent)
		return 0;
	c->img.layer_count--;
	c->im.making.stands_on_all = 1;
	r = importer_stage(&c->im, &c->img, no_parent_source, c, e);
	c->im.making.stands_on_all = 0;
	c->img.layer_count++;
	return r;
}

/* ---- the new layer ---- */

static int pack_upper(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret, struct err *e)
{
	const struct commit *c = ctx;
	autoclose int lower =
		c->has_parent ? merge_layers(c->im.store.fd,
					     (const char (*)[DIGEST_HEX_SIZE])c->parent.layers,
					     c->parent.layer_count, e) :
				fcntl(c->empty_fd, F_DUPFD_CLOEXEC, 3);
	const int keep[] = { lower, c->o->upper_fd, out_fd, report_fd };
	const struct confine how = { CONFINE_READ, parent, lower, c->o->upper_fd, -1, keep, ARRAY_LEN(keep), PACKER_MEMORY };
	const struct difftar d = {
		.upper_fd = c->o->upper_fd, .lower_fd = lower, .marks = &c->marks, .id_base = c->o->id_base, .id_count = IDS,
		.workdir = c->o->workdir, .compression = c->o->compression,
		.max_bytes = c->max_bytes,
	};

	if (lower < 0 || confine_child(&how, e) < 0)
		return -1;
	return difftar_write(&d, out_fd, ret, e);
}

/*
 * Stages the layer like any other: through the filter and the writer, into blob and tree. Its bound
 * is that of berth checkpoint export: zeros that the disk holds are no bomb.
 */
static int stage_upper(struct commit *c, struct err *e)
{
	size_t n = c->img.layer_count - 1, i;
	struct import_layer *l = &c->img.layers[n];
	autoclose int blob = store_tmp_file(&c->im.store, l->tmp_blob, e), src = -1;
	autofree int *lower = calloc(n + 1, sizeof(*lower));
	struct packer packer = PACKER_INIT;
	struct tarout_stats st = { 0 };
	struct unpack u = { .blob_fd = blob, .lower_fds = lower, .lower_count = n };
	int rc;

	if (!lower)
		return err_nomem(e);
	if (layerbound_of(c->o->upper_fd, &c->max_bytes, e) < 0)
		return -1;
	u.max_bytes = c->max_bytes;
	for (i = 0; i < n; i++)
		lower[i] = c->img.layers[i].tree_fd;
	l->tree_fd = store_tmp_dir(&c->im.store, l->tmp_tree, e);
	if (blob < 0 || l->tree_fd < 0 || packer_start_pipe(&packer, pack_upper, c, &src, e) < 0)
		return -1;
	u.src_fd = src;
	u.tree_fd = l->tree_fd;
	l->compression = c->o->compression;
	c->im.at_layer = c->im.of_layers = c->img.layer_count;
	c->im.at_total = 0;
	rc = importer_stage_stream(&c->im, l, &u, e);
	fd_close(&src);
	rc = packer_end(&packer, rc, &st, e);
	c->img.skipped_elsewhere = st.skipped;
	c->has_layer = st.entries > 0;
	return rc < 0 ? -1 : hash_chain(n ? c->img.layers[n - 1].chain_id : NULL, l->diff_id, l->chain_id, e);
}

/* Drops the layer: nothing changed, so the image is its parent with another config. */
static void drop_layer(struct commit *c)
{
	struct import_layer *l = &c->img.layers[--c->img.layer_count];

	fd_close(&l->tree_fd);
	store_tmp_remove(&c->im.store, l->tmp_tree);
	store_tmp_remove(&c->im.store, l->tmp_blob);
}

/* ---- the new config ---- */

static json_t *object_of(json_t *parent, const char *key)
{
	json_t *o = json_object_get(parent, key);

	if (!json_is_object(o)) {
		json_object_set_new(parent, key, json_object());
		o = json_object_get(parent, key);
	}
	return o;
}

static void change_env(json_t *run, const json_t *env)
{
	json_t *list = json_object_get(run, "Env"), *v;
	size_t i, j;

	if (!json_is_array(list)) {
		json_object_set_new(run, "Env", json_array());
		list = json_object_get(run, "Env");
	}
	json_array_foreach(env, i, v) {
		const char *s = json_string_value(v);
		size_t n = strcspn(s, "=") + 1;

		for (j = json_array_size(list); j > 0; j--) {
			const char *have = json_string_value(json_array_get(list, j - 1));

			if (have && !strncmp(have, s, n))
				json_array_remove(list, j - 1);
		}
		json_array_append(list, v);
	}
}

static int change_run(json_t *run, const json_t *changes, struct err *e)
{
	static const struct { const char *from, *to; } plain[] = {
		{ "cmd", "Cmd" }, { "entrypoint", "Entrypoint" }, { "workdir", "WorkingDir" }, { "user", "User" },
	};
	const json_t *labels = json_object_get(changes, "labels");
	size_t i;

	for (i = 0; i < ARRAY_LEN(plain); i++) {
		json_t *v = json_object_get(changes, plain[i].from);

		if (v)
			json_object_set(run, plain[i].to, v);
	}
	/* a new entrypoint would get the old one's arguments */
	if (json_object_get(changes, "entrypoint") && !json_object_get(changes, "cmd"))
		json_object_del(run, "Cmd");
	if (json_object_get(changes, "env"))
		change_env(run, json_object_get(changes, "env"));
	if (labels)
		json_object_update(object_of(run, "Labels"), (json_t *)labels);
	return change_apply_all(run, json_object_get(changes, "instructions"), e);
}

/*
 * Adds our history entry to one entry per layer; an image without a history gets one that fits its
 * layers.
 */
static void change_history(struct commit *c)
{
	json_t *history = json_object_get(c->config, "history"), *h, *entry;
	size_t i, layers = 0;

	json_array_foreach(history, i, h)
		layers += !json_is_true(json_object_get(h, "empty_layer"));
	if (!json_is_array(history) || layers != c->manifest.layer_count) {
		json_object_set_new(c->config, "history", json_array());
		history = json_object_get(c->config, "history");
		for (i = 0; i < c->manifest.layer_count; i++)
			json_array_append_new(history, json_pack("{s:s}", "comment", "layer of the image that was committed to"));
	}
	entry = json_pack("{s:s, s:s, s:s*, s:s*}", "created", c->created, "created_by", "berth commit",
			  "author", c->o->author, "comment", c->o->message);
	if (!c->has_layer)
		json_object_set_new(entry, "empty_layer", json_true());
	json_array_append_new(history, entry);
}

static int make_committed_config(struct commit *c, struct err *e)
{
	json_t *ids = object_of(c->config, "rootfs");

	ids = json_object_get(ids, "diff_ids");
	if (c->has_layer)
		json_array_append_new(ids, json_string(c->img.layers[c->img.layer_count - 1].diff_id));
	/* docker commit's field: what ran in the container from which this image's parent was made */
	json_object_del(c->config, "container");
	json_object_del(c->config, "container_config");
	json_object_set_new(c->config, "created", json_string(c->created));
	if (c->o->author)
		json_object_set_new(c->config, "author", json_string(c->o->author));
	if (c->o->changes && change_run(object_of(c->config, "config"), c->o->changes, e) < 0)
		return -1;
	change_history(c);
	c->img.config = json_dumps(c->config, JSON_COMPACT);
	if (!c->img.config)
		return err_nomem(e);
	c->img.config_len = strlen(c->img.config);
	if (hash_bytes(c->img.config, c->img.config_len, NULL, c->img.config_digest, e) < 0 ||
	    importer_take_config(&c->im, &c->img, e) < 0)
		return err_wrap(e, "the new image's config");
	return importer_make_manifest(&c->img, e);
}

/*
 * Sets the time: now, to the nanosecond, so that two commits within a second are two images in their order;
 * or SOURCE_DATE_EPOCH (reproducible-builds.org).
 */
static int set_time(struct commit *c, struct err *e)
{
	const char *epoch = getenv("SOURCE_DATE_EPOCH");
	struct timespec now = { 0 };
	uint64_t seconds;
	struct tm tm;
	time_t t;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	seconds = (uint64_t)now.tv_sec;
	if (epoch && num_u64(epoch, "SOURCE_DATE_EPOCH", 0, 253402300799ULL, &seconds, e) < 0)
		return -1;
	t = (time_t)seconds;
	if (!gmtime_r(&t, &tm))
		return err_set(e, ERR_INVALID, "SOURCE_DATE_EPOCH is not a time");
	n = strftime(c->created, sizeof(c->created), "%Y-%m-%dT%H:%M:%S", &tm);
	if (epoch)
		snprintf(c->created + n, sizeof(c->created) - n, "Z");
	else
		snprintf(c->created + n, sizeof(c->created) - n, ".%09ldZ", now.tv_nsec);
	return 0;
}

/*
 * Sets the owner: an image made in a tenant's sandbox, or from a tenant's image, belongs to that
 * tenant (S44 of SECURITY.md).
 */
static int set_committed_owner(struct commit *c, struct err *e)
{
	autojson json_t *parent =
		c->has_parent ? json_parse(c->parent.record, c->parent.record_len,
					   c->parent.record_len, "image record", e) :
				json_object();
	const char *owner = c->o->owner ? c->o->owner : json_string_value(json_object_get(parent, "owner"));

	if (!parent)
		return -1;
	if (owner && strlen(owner) >= sizeof(c->img.owner))
		return err_set(e, ERR_CORRUPT, "the owner of the sandbox has no name");
	if (c->o->shown.maker)
		owner = c->o->shown.maker->view.tenant;
	snprintf(c->img.owner, sizeof(c->img.owner), "%s", owner ? owner : "");
	return 0;
}

static int commit_writable_layer(struct commit *c, struct err *e)
{
	struct ref name;

	if (importer_name(&c->im, "", &name, e) < 0 || set_time(c, e) < 0 || load_parent(c, e) < 0 || set_committed_owner(c, e) < 0 || stage_parent(c, e) < 0 ||
	    difftar_scan(c->o->upper_fd, &c->marks, e) < 0 ||
	    ((!c->has_parent || c->img.on_host) && difftar_check_renamed(&c->marks, e) < 0) ||
	     stage_upper(c, e) < 0)
		return -1;
	if (!c->has_layer && !c->has_parent)
		return err_set(e, ERR_INVALID, "the sandbox wrote no files, and there is no image "
			       "that it was made from: the new one would be empty");
	if (!c->has_layer)
		drop_layer(c);
	if (make_committed_config(c, e) < 0)
		return -1;
	return importer_publish(&c->im, &c->img, &name, 1, e);
}

json_t *commit_run(int store_fd, const struct commit_options *o, struct err *e)
{
	struct import_options opts = o->shown;
	struct commit c = { .o = o, .im.opts = &opts, .empty_fd = -1 };
	json_t *ret = NULL;

	opts.name = o->name;
	opts.source = "";
	if (importer_begin(&c.im, store_fd, e) < 0)
		return NULL;
	c.im.results = json_array();
	if (!c.im.results)
		err_nomem(e);
	else if (commit_writable_layer(&c, e) == 0)
		ret = json_incref(json_array_get(c.im.results, 0));
	if (c.empty_fd >= 0)
		store_tmp_remove(&c.im.store, c.tmp_empty);
	fd_close(&c.empty_fd);
	importer_end(&c.im);
	json_decref(c.im.results);
	json_decref(c.config);
	difftar_release(&c.marks);
	oci_manifest_release(&c.manifest);
	import_image_release(&c.img);
	image_release(&c.parent);
	return ret;
}
