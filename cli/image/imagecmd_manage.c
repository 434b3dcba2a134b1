/* SPDX-License-Identifier: Apache-2.0 */
/* berth image tag, history, pin, unpin, prune. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/image/imagecmd.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/pins.h"
#include "rootfs/transfer/collect.h"

static int done(const struct imagecmd_args *a, const char *key, const char *value)
{
	if (imagecmd_flag(a, IMG_JSON)) {
		autojson json_t *j = json_pack("{s:s}", key, value);

		imagecmd_print_json(j);
	}
	return 0;
}

static int run_tag(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	return catalog_tag(store_fd, a->operands[0], a->operands[1], e) < 0 ? -1 : done(a, "tagged", a->operands[1]);
}

static int run_pin(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	return pins_add(store_fd, a->operands[0], a->operands[1], e) < 0 ? -1 : done(a, "pinned", a->operands[0]);
}

static int run_unpin(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	return pins_remove(store_fd, a->operands[0], e) < 0 ? -1 : done(a, "unpinned", a->operands[0]);
}

/* ---- history ---- */

/* The newest step first; the size is that of the compressed layer, none for a step that made none. */
static json_t *steps_of(const json_t *image, struct err *e)
{
	const json_t *history = json_object_get(json_object_get(image, "image_config"), "history");
	const json_t *layers = json_object_get(image, "layers"), *h;
	json_t *out = json_array();
	size_t i, layer = 0;

	json_array_foreach(history, i, h) {
		const int empty = json_is_true(json_object_get(h, "empty_layer"));
		json_t *step = json_deep_copy(h);

		json_object_del(step, "empty_layer");
		if (!empty && layer < json_array_size(layers)) {
			json_object_set(step, "digest", json_object_get(json_array_get(layers, layer), "digest"));
			json_object_set(step, "size", json_object_get(json_array_get(layers, layer), "size"));
			layer++;
		}
		json_array_insert_new(out, 0, step);
	}
	/* an image that says nothing of how it came to be still has layers */
	for (; out && layer < json_array_size(layers); layer++)
		json_array_insert_new(out, 0, json_pack("{s:O, s:O}", "digest", json_object_get(json_array_get(layers, layer), "digest"),
							"size", json_object_get(json_array_get(layers, layer), "size")));
	if (!out)
		err_nomem(e);
	return out;
}

static int run_history(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *image = catalog_inspect(store_fd, a->operands[0], e);
	autojson json_t *steps = image ? steps_of(image, e) : NULL;
	const json_t *s;
	size_t i;

	if (!steps)
		return -1;
	if (imagecmd_flag(a, IMG_JSON)) {
		imagecmd_print_json(steps);
		return 0;
	}
	printf("%-20s  %10s  %s\n", "CREATED", "SIZE", "MADE BY");
	json_array_foreach(steps, i, s) {
		char created[64], by[160], comment[160], size[24] = "-";

		imagecmd_text(s, "created", created, sizeof(created));
		imagecmd_text(s, "created_by", by, sizeof(by));
		imagecmd_text(s, "comment", comment, sizeof(comment));
		if (json_object_get(s, "size"))
			imagecmd_bytes(imagecmd_u64(s, "size"), size);
		printf("%-20.19s  %10s  %s%s%s\n", *created ? created : "-", size, by, *by && *comment ? ": " : "", comment);
	}
	return 0;
}

/* ---- prune ---- */

static int remove_names(int store_fd, const json_t *names, json_t *removed, struct err *e)
{
	const json_t *name;
	size_t i;

	json_array_foreach(names, i, name) {
		struct err why = { 0 };

		/* a volume that was taken into use since stays */
		if (catalog_remove(store_fd, json_string_value(name), 0, removed, &why) < 0 && why.code != ERR_BUSY &&
		    why.code != ERR_NOT_FOUND) {
			*e = why;
			return -1;
		}
	}
	return 0;
}

static int run_prune(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	const char *older = imagecmd_value(a, IMG_OLDER);
	const int dry = imagecmd_flag(a, IMG_DRY_RUN);
	autojson json_t *names = NULL, *removed = json_array(), *freed = NULL;
	uint64_t age_ms = 0;
	const json_t *name;
	char bytes[24];
	size_t i;

	if (older && num_duration_ms(older, "--older-than", 1000ULL * 3600 * 24 * 36500, &age_ms, e) < 0)
		return -1;
	if (older && !imagecmd_flag(a, IMG_ALL))
		return err_set(e, ERR_USAGE, "--older-than chooses among the images that --all removes");
	names = imagecmd_flag(a, IMG_ALL) ? catalog_unused(store_fd, older ? (int64_t)time(NULL) - (int64_t)(age_ms / 1000) : INT64_MAX, e) :
					    json_array();
	if (!names || (!dry && remove_names(store_fd, names, removed, e) < 0))
		return -1;
	freed = dry ? NULL : collect_garbage(store_fd, 1, e);
	if (!dry && !freed)
		return -1;
	if (imagecmd_flag(a, IMG_JSON)) {
		autojson json_t *all = dry ? json_pack("{s:O}", "would_remove", names) :
					     json_pack("{s:O, s:O}", "removed", removed, "freed", freed);

		imagecmd_print_json(all);
		return 0;
	}
	json_array_foreach(dry ? names : removed, i, name)
		puts(json_string_value(name));
	if (!dry && !imagecmd_flag(a, IMG_QUIET)) {
		imagecmd_bytes(imagecmd_u64(freed, "bytes"), bytes);
		printf("removed %s, %s and %s, %s\n",
		       imagecmd_count(json_array_size(removed), "name", (char[40]){ "" }),
		       imagecmd_count(imagecmd_u64(freed, "layers"), "layer", (char[40]){ "" }),
		       imagecmd_count(imagecmd_u64(freed, "blobs"), "blob", (char[40]){ "" }), bytes);
	}
	return 0;
}

/* ---- the table's rows ---- */

const struct imagecmd imagecmd_tag = {
	.name = "tag",
	.args = "IMAGE NAME",
	.summary = "give an image a further name",
	.options = IMG(JSON),
	.min = 2,
	.max = 2,
	.run = run_tag,
};

const struct imagecmd imagecmd_history = {
	.name = "history",
	.args = "IMAGE",
	.summary = "how an image was made, the last step first",
	.options = IMG(JSON),
	.min = 1,
	.max = 1,
	.run = run_history,
};

const struct imagecmd imagecmd_pin = {
	.name = "pin",
	.args = "WORD IMAGE",
	.summary = "keep an image's files, whatever becomes of its names",
	.options = IMG(JSON),
	.min = 2,
	.max = 2,
	.run = run_pin,
};

const struct imagecmd imagecmd_unpin = {
	.name = "unpin",
	.args = "WORD",
	.summary = "take a pin away",
	.options = IMG(JSON),
	.min = 1,
	.max = 1,
	.run = run_unpin,
};

const struct imagecmd imagecmd_prune = {
	.name = "prune",
	.args = "",
	.summary = "remove what no image needs; with --all also unused images",
	.detail = "An image is in use when a sandbox, running or stopped, was made from it, or when it is pinned.\n",
	.options = IMG(ALL) | IMG(OLDER) | IMG(DRY_RUN) | IMG(QUIET) | IMG(JSON),
	.run = run_prune,
};
