/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S44 of SECURITY.md. */
#include "rootfs/transfer/making.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"
#include "rootfs/transfer/collect.h"

#define DOCUMENTS 4096 /* bytes that a name counts for: its record, beside the documents of the image */

/* ---- the lock, and what is to be collected ---- */

static int open_lock(int store_fd, const char *tenant, struct err *e)
{
	/* not in locks/: a collection empties that */
	autoclose int dir = path_make_dir(store_fd, "tenants", e), fd = -1;

	if (dir < 0)
		return -1;
	fd = openat(dir, tenant, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "open the lock of tenant %s", tenant);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the images of tenant %s", tenant);
	return take_fd(&fd);
}

/* Tells from the lock's own length whether bytes are to be collected: 1, 0, or -1. */
static int is_unclean(int lock_fd, struct err *e)
{
	off_t n = lseek(lock_fd, 0, SEEK_END);

	return n < 0 ? err_sys(e, "look at a lock of the image store") : n > 0;
}

static int set_unclean(int lock_fd, int yes, struct err *e)
{
	return ftruncate(lock_fd, yes) < 0 || fdatasync(lock_fd) < 0
		       ? err_sys(e, "write a lock of the image store")
		       : 0;
}

/* wait 0: if another import prevents the collection, the next image does it. */
static int collect_tenant_garbage(int store_fd, int lock_fd, int wait, struct err *e)
{
	autojson json_t *freed = collect_garbage(store_fd, wait, e);

	if (!freed)
		return !wait && e->code == ERR_BUSY ? 0 : -1;
	return set_unclean(lock_fd, 0, e);
}

/* ---- what it has ---- */

/* Measures the disk space of a layer in the store, which no record holds. */
static int measure_stored_layer(int store_fd, const char *chain, uint64_t *ret, struct err *e)
{
	char path[96];

	snprintf(path, sizeof(path), "layers/%.64s", digest_hex(chain));
	*ret = 0;
	return catalog_disk_bytes(store_fd, path, ret, NULL, e) < 0 && e->code != ERR_NOT_FOUND ? -1
												: 0;
}

static int add_own_layer(struct making *m, const json_t *layer, const char *chain, struct err *e)
{
	const json_t *disk = json_object_get(layer, "disk");
	uint64_t bytes = (uint64_t)json_integer_value(disk);

	if (json_object_get(m->layers, chain))
		return 0;
	if (!disk && measure_stored_layer(m->store_fd, chain, &bytes, e) < 0)
		return -1;
	bytes += (uint64_t)json_integer_value(json_object_get(layer, "size"));
	m->used += bytes;
	return json_object_set_new(m->layers, chain, json_integer((json_int_t)bytes)) < 0
		       ? err_nomem(e)
		       : 0;
}

/* Returns the size of an image's documents, which is the rest of its size. */
static uint64_t documents_of(const json_t *record)
{
	uint64_t size = (uint64_t)json_integer_value(json_object_get(record, "size"));
	json_t *layer;
	size_t i;

	json_array_foreach (json_object_get(record, "layers"), i, layer) {
		uint64_t of = (uint64_t)json_integer_value(json_object_get(layer, "size"));

		size -= of < size ? of : size;
	}
	return 2 * size + DOCUMENTS;
}

static int count_record_of_tenant(void *ctx, const char *filename, const json_t *record, const struct err *bad,
				  struct err *e)
{
	struct making *m = ctx;
	const int own = image_view_owns(&m->who->view, record);
	const char *name = json_string_value(json_object_get(record, "name"));
	json_t *layer;
	size_t i;

	(void)filename;
	(void)bad;
	if (!record || !name || !image_view_sees(&m->who->view, record))
		return 0;
	json_array_foreach (json_object_get(record, "layers"), i, layer) {
		const char *chain = json_string_value(json_object_get(layer, "chain_id"));
		const char *digest = json_string_value(json_object_get(layer, "digest"));

		if (!chain || !digest_is_sha256(chain) || !digest)
			continue;
		if (json_object_set_new(m->seen, chain, json_true()) < 0 ||
		    json_object_set_new(m->seen, digest, json_true()) < 0)
			return err_nomem(e);
		if (own && add_own_layer(m, layer, chain, e) < 0)
			return -1;
	}
	if (!own)
		return 0;
	m->used += documents_of(record);
	return json_object_set(m->names, name, json_object_get(record, "digest")) < 0 ? err_nomem(e)
										      : 0;
}

static int set_budget(struct making *m, struct err *e)
{
	const struct image_maker *who = m->who;
	void *p;

	if (m->used >= who->max_bytes)
		return err_set(e, ERR_LIMIT,
			       "the images of tenant %s have %" PRIu64
			       " bytes, and may have %" PRIu64
			       "; hint: remove some, or [tenant] own_image_bytes in berth.toml",
			       who->view.tenant, m->used, who->max_bytes);
	p = mmap(NULL, sizeof(*m->budget), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		 0);
	if (p == MAP_FAILED)
		return err_sys(e, "map a budget");
	m->budget = p;
	atomic_init(&m->budget->left, who->max_bytes - m->used);
	return 0;
}

static int begin_making(struct making *m, struct err *e)
{
	int unclean;

	m->lock_fd = open_lock(m->store_fd, m->who->view.tenant, e);
	unclean = m->lock_fd < 0 ? -1 : is_unclean(m->lock_fd, e);
	if (unclean < 0 || (unclean && collect_tenant_garbage(m->store_fd, m->lock_fd, 1, e) < 0))
		return -1;
	m->names = json_object();
	m->layers = json_object();
	m->seen = json_object();
	if (!m->names || !m->layers || !m->seen)
		return err_nomem(e);
	return catalog_each(m->store_fd, count_record_of_tenant, m, e) < 0 ? -1 : set_budget(m, e);
}

int making_begin(struct making *m, const struct image_maker *who, int store_fd, struct err *e)
{
	*m = (struct making) { .who = who, .store_fd = store_fd, .lock_fd = -1 };
	if (!who || begin_making(m, e) == 0)
		return 0;
	making_end(m);
	return -1;
}

void making_end(struct making *m)
{
	struct err ignored;

	if (!m->who)
		return;
	if (m->replaced)
		collect_tenant_garbage(m->store_fd, m->lock_fd, 0, &ignored);
	if (m->budget)
		munmap(m->budget, sizeof(*m->budget));
	json_decref(m->names);
	json_decref(m->layers);
	json_decref(m->seen);
	fd_close(&m->lock_fd);
	*m = (struct making) { .lock_fd = -1 };
}

int making_may_use(const struct making *m, const char *id)
{
	return !m->who || m->stands_on_all || json_object_get(m->seen, id) != NULL;
}

void making_refund(struct making *m, uint64_t bytes)
{
	if (m->budget)
		atomic_fetch_add(&m->budget->left, bytes);
}

/* ---- names ---- */

int making_take_name(struct making *m, struct ref *name, struct err *e)
{
	char full[REF_NAME_MAX + 1];

	if (!m->who)
		return 0;
	if (ref_set_tenant(name, m->who->view.tenant, e) < 0)
		return -1;
	ref_name(name, full);
	if (!json_object_get(m->names, full) && json_object_size(m->names) >= m->who->max_images)
		return err_set(e, ERR_LIMIT,
			       "tenant %s has %zu images, and may have %" PRIu64
			       "; hint: remove some, or [tenant] own_images in berth.toml",
			       m->who->view.tenant, json_object_size(m->names), m->who->max_images);
	return 0;
}

/* ---- publishing ---- */

int making_settle(struct making *m, struct store *s, uint64_t document_bytes, struct err *e)
{
	if (!m->who)
		return 0;
	if (layer_budget_take(m->budget, 2 * document_bytes + DOCUMENTS, e) < 0 ||
	    store_share(s, 1, e) < 0)
		return -1;
	/* not needed by any image until it has a name */
	return set_unclean(m->lock_fd, 1, e);
}

/* Checks that a layer still exists: others could remove it while bytes arrived. */
static int check_layer_there(struct store *s, const struct making_layer *l, struct err *e)
{
	int tree = l->has_tree ? 1 : store_has_layer(s, l->chain_id, e);
	int blob = l->has_blob ? 1 : store_has_blob(s, l->digest, e);

	if (tree < 0 || blob < 0)
		return -1;
	if (!tree || !blob)
		return err_set(e, ERR_BUSY, "layer %.19s was removed meanwhile; hint: try again",
			       l->digest);
	return 0;
}

int making_settle_layer(struct making *m, struct store *s, const struct making_layer *l,
			uint64_t *ret_disk, struct err *e)
{
	const json_t *own = json_object_get(m->layers, l->chain_id);
	uint64_t bytes = (uint64_t)json_integer_value(own), disk = l->charged;

	if (check_layer_there(s, l, e) < 0)
		return -1;
	if (!l->has_tree && own)
		disk = bytes > l->size ? bytes - l->size : 0;
	else if (!l->has_tree && measure_stored_layer(m->store_fd, l->chain_id, &disk, e) < 0)
		return -1;
	bytes = (l->has_tree ? 0 : disk) + (l->has_blob ? 0 : l->size);
	if (!own && layer_budget_take(m->budget, bytes, e) < 0)
		return -1;
	/* a second image of the same source may use it, too */
	if (json_object_set_new(m->layers, l->chain_id,
				json_integer((json_int_t)(disk + l->size))) < 0 ||
	    json_object_set_new(m->seen, l->chain_id, json_true()) < 0 ||
	    json_object_set_new(m->seen, l->digest, json_true()) < 0)
		return err_nomem(e);
	*ret_disk = disk;
	return 0;
}

int making_named(struct making *m, const char *name, const char *digest, struct err *e)
{
	const char *had = m->who ? json_string_value(json_object_get(m->names, name)) : NULL;

	if (!m->who)
		return 0;
	m->replaced |= had && strcmp(had, digest);
	return json_object_set_new(m->names, name, json_string(digest)) < 0 ? err_nomem(e) : 0;
}

int making_done(struct making *m, struct store *s, struct err *e)
{
	if (!m->who)
		return 0;
	if (!m->replaced && set_unclean(m->lock_fd, 0, e) < 0)
		return -1;
	return store_share(s, 0, e);
}

/* ---- removing ---- */

int making_remove(int store_fd, const struct image_maker *who, const char *ref, json_t *removed,
		  struct err *e)
{
	autoclose int lock = open_lock(store_fd, who->view.tenant, e);
	autojson json_t *record = lock < 0 ? NULL : image_record_seen(store_fd, &who->view, ref, e);

	if (!record)
		return -1;
	if (!image_view_owns(&who->view, record))
		return err_set(e, ERR_DENIED,
			       "image '%.200s' is shared, and only the operator removes it", ref);
	/* files that others use stay, and are not mentioned */
	if (set_unclean(lock, 1, e) < 0 ||
	    catalog_remove(store_fd, json_string_value(json_object_get(record, "name")), 1, removed,
			   e) < 0)
		return -1;
	return collect_tenant_garbage(store_fd, lock, 0, e);
}
