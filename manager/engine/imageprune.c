/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/imageprune.h"

#include <string.h>

#include "base/mem.h"
#include "manager/engine/accept.h"
#include "manager/engine/image.h"
#include "manager/ops/call.h"
#include "rootfs/store/catalog.h"

struct pruner {
	const json_t *filters;
	int dangling; /* only images without a name */
	json_int_t *bytes;
	const struct engine_berth *berth;
};

static const json_t *find(const json_t *list, const char *name)
{
	const json_t *item;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, item) {
		const char *its = json_string_value(json_object_get(item, "name"));

		if (its && !strcmp(its, name))
			return item;
	}
	return NULL;
}

static json_int_t freed_bytes(const json_t *said)
{
	return json_integer_value(json_object_get(json_object_get(said, "freed"), "bytes"));
}

/* The images whose last name is among the removed, by their digests. */
static json_t *deleted_of(int store_fd, const json_t *before, const json_t *removed)
{
	struct err ignored;
	autojson json_t *after = catalog_list(store_fd, 0, &ignored), *there = json_object();
	json_t *all = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach (after, i, one)
		json_object_set_new(there, json_string_value(json_object_get(one, "digest")), json_true());
	json_array_foreach ((json_t *)(size_t)removed, i, one) {
		json_t *digest = json_object_get(find(before, json_string_value(one)), "digest");

		if (digest && !json_object_get(there, json_string_value(digest))) {
			json_array_append(all, digest);
			json_object_set_new(there, json_string_value(digest), json_true());
		}
	}
	return all;
}

/* One that a container took into use meanwhile stays, and one that is gone is no failure. */
static int remove_one(const struct pruner *p, const char *name, json_t *removed, struct err *e)
{
	struct err why;
	autojson json_t *said = engine_do(p->berth, call_of("image rm", name, NULL), &why);

	if (said) {
		*p->bytes += freed_bytes(said);
		return json_array_append_new(removed, json_string(name)) < 0 ? err_nomem(e) : 0;
	}
	if (why.code == ERR_BUSY || why.code == ERR_NOT_FOUND)
		return 0;
	*e = why;
	return -1;
}

/* Of the names that nothing uses, those that the filters do not spare. */
static int remove_unused(const struct pruner *p, const json_t *list, json_t *removed,
			 struct err *e)
{
	autojson json_t *unused = NULL;
	json_t *look = call_of("image prune", NULL);
	const json_t *one;
	size_t i;

	call_flag(look, "all");
	call_flag(look, "dry-run");
	unused = engine_look(p->berth, look, e);
	if (!unused)
		return -1;
	json_array_foreach (json_object_get(unused, "would_remove"), i, one) {
		const json_t *item = find(list, json_string_value(one));

		if (item && (!p->dangling || engine_image_is_unnamed(json_string_value(one))) &&
		    !engine_image_kept_by(p->filters, item) &&
		    remove_one(p, json_string_value(one), removed, e) < 0)
			return -1;
	}
	return 0;
}

json_t *engine_image_prune(int store_fd, const json_t *filters, const struct engine_berth *b,
			   struct err *e)
{
	json_int_t bytes = 0;
	const struct pruner p = { filters, engine_accepted_bool(filters, "dangling", 1), &bytes, b };
	autojson json_t *list = NULL, *removed = json_array(), *said = NULL;

	if (engine_accept(ENGINE_PRUNE_IMAGES, filters, e) < 0)
		return NULL;
	if (!(list = catalog_list(store_fd, 0, e)) || remove_unused(&p, list, removed, e) < 0)
		return NULL;
	said = engine_do(b, call_of("image prune", NULL), e);
	return said ? json_pack("{s:O,s:o,s:I}", "removed", removed, "deleted", deleted_of(store_fd, list, removed),
				"bytes", bytes + freed_bytes(said)) :
		      NULL;
}
