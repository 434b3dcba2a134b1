/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of berth-image on the images of the store. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/image/imagecmd.h"
#include "manager/host/checkpoint.h"
#include "manager/host/layerpool.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/change.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/diskuse.h"
#include "rootfs/store/image.h"
#include "rootfs/store/pins.h"
#include "rootfs/transfer/bootstrap.h"
#include "rootfs/transfer/collect.h"
#include "rootfs/transfer/import.h"

/* ---- berth image import, ls, inspect, rm, gc, fsck ---- */

static void show_import_note(void *ctx, const char *text)
{
	const struct imagecmd_args *a = ctx;

	if (!imagecmd_flag(a, IMG_JSON) && !imagecmd_flag(a, IMG_QUIET)) {
		if (isatty(STDERR_FILENO))
			imagecmd_clear_line();
		log_note("berth image import", "note: %s", text);
	}
}

/*
 * Makes *ret an array of all the values of an option, or NULL where it was not given. Changes are
 * tried here, before anything is read.
 */
static int read_import_list(const struct imagecmd_args *a, enum imagecmd_opt id, json_t **ret, struct err *e)
{
	autojson json_t *trial = json_object();
	size_t i;

	for (i = 0; i < a->given_count; i++) {
		if (a->given[i].id != id)
			continue;
		if (id == IMG_CHANGE && change_apply(trial, a->given[i].value, e) < 0)
			return -1;
		if (!*ret)
			*ret = json_array();
		if (json_array_append_new(*ret, json_string(a->given[i].value)) < 0)
			return err_nomem(e);
	}
	return 0;
}

int imagecmd_import_as(int store_fd, const struct imagecmd_args *a, const char *event, struct err *e)
{
	int live = imagecmd_is_live(a);
	struct import_options o = {
		.source = a->operands[0],
		.name = a->operand_count > 1 ? a->operands[1] : NULL,
		.unnamed = imagecmd_value(a, IMG_UNNAMED),
		.platform = imagecmd_value(a, IMG_PLATFORM),
		.message = imagecmd_value(a, IMG_MESSAGE),
		.progress = live ? imagecmd_progress : NULL,
		.note = show_import_note,
		.ctx = (void *)a,
	};
	autojson json_t *done = NULL, *all = NULL, *changes = NULL, *bases = NULL;
	autofree struct imagecmd_tenant *t = NULL;
	json_t *one;
	size_t i;

	if (imagecmd_tenant(a, "import", &t, e) < 0 || read_import_list(a, IMG_CHANGE, &changes, e) < 0 ||
	    read_import_list(a, IMG_BASE, &bases, e) < 0)
		return -1;
	if (t && bases)
		return err_set(e, ERR_USAGE, "--base is the operator's alone; hint: leave out --tenant or --base");
	o.changes = changes;
	o.bases = bases;
	o.maker = t ? &t->maker : NULL;
	done = import_run(store_fd, &o, e);
	if (live)
		imagecmd_clear_line();
	if (!done)
		return -1;
	imagecmd_tell_all(store_fd, a, event, done, 1);
	if (imagecmd_flag(a, IMG_JSON)) {
		all = json_pack("{s:O}", "images", done);
		imagecmd_print_json(all);
		return 0;
	}
	json_array_foreach(done, i, one) {
		char name[256], digest[DIGEST_SIZE + 8], size[24];

		imagecmd_text(one, "name", name, sizeof(name));
		imagecmd_text(one, "digest", digest, sizeof(digest));
		imagecmd_bytes(imagecmd_u64(one, "size"), size);
		if (imagecmd_flag(a, IMG_QUIET))
			puts(digest);
		else
			printf("%s  %s  %s  %s\n", name, digest,
			       imagecmd_count(imagecmd_u64(one, "layers"), "layer", (char[40]){ "" }),
			       size);
	}
	return 0;
}

static int run_import(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	return imagecmd_import_as(store_fd, a, "image-import", e);
}

/* ---- the others ---- */

static int run_ls(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *list = catalog_list(store_fd, imagecmd_flag(a, IMG_SIZE), e);
	char name[256];
	json_t *one;
	size_t i;

	if (!list)
		return -1;
	if (imagecmd_flag(a, IMG_JSON)) {
		imagecmd_print_json(list);
		return 0;
	}
	if (!imagecmd_flag(a, IMG_QUIET)) {
		imagecmd_print_list(list, imagecmd_flag(a, IMG_SIZE));
		return 0;
	}
	json_array_foreach(list, i, one)
		puts(imagecmd_text(one, "name", name, sizeof(name)));
	return 0;
}

static int run_inspect(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *j = catalog_inspect(store_fd, a->operands[0], e);

	if (!j)
		return -1;
	json_dumpf(j, stdout, imagecmd_flag(a, IMG_JSON) ? JSON_COMPACT : JSON_INDENT(2));
	putchar('\n');
	return 0;
}

/* A tenant's own. */
static int remove_own(int store_fd, const struct imagecmd_args *a, const struct imagecmd_tenant *t,
		      struct err *e)
{
	autojson json_t *removed = json_array(), *all = NULL;
	int i, r = 0;

	for (i = 0; i < a->operand_count && r == 0; i++)
		r = making_remove(store_fd, &t->maker, a->operands[i], removed, e);
	all = json_pack("{s:O}", "removed", removed);
	if (imagecmd_flag(a, IMG_JSON))
		imagecmd_print_json(all);
	return r;
}

/* One image, by a name or its digest; what it lost is told. */
static int remove_image(int store_fd, const struct imagecmd_args *a, const char *ref, json_t *removed, json_t *digests, struct err *e)
{
	const size_t before = json_array_size(removed);
	struct image im = { 0 };
	struct err ignored;
	const int known = image_load(store_fd, ref, &im, &ignored) == 0;
	int r = catalog_remove(store_fd, ref, imagecmd_flag(a, IMG_FORCE), removed, e);

	if (known && json_array_size(removed) > before)
		json_array_append_new(digests, json_pack("{s:s,s:O*,s:I}", "digest", im.digest, "labels", im.labels, "names",
							 (json_int_t)(json_array_size(removed) - before)));
	image_release(&im);
	return r;
}

static void tell_removed(int store_fd, const struct imagecmd_args *a, const json_t *digests)
{
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)digests, i, one)
		imagecmd_tell_gone(store_fd, a, json_string_value(json_object_get(one, "digest")), json_object_get(one, "labels"),
				   (size_t)json_integer_value(json_object_get(one, "names")));
}

static int run_rm(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autofree struct imagecmd_tenant *t = NULL;
	autojson json_t *removed = json_array(), *digests = json_array(), *freed = NULL, *all = NULL;
	struct err first = { 0 }, why;
	json_t *name;
	size_t j;
	int i;

	if (imagecmd_tenant(a, NULL, &t, e) < 0)
		return -1;
	if (t)
		return remove_own(store_fd, a, t, e);
	/* a failure does not stop the others; the first error is reported */
	for (i = 0; i < a->operand_count; i++) {
		memset(&why, 0, sizeof(why));
		if (remove_image(store_fd, a, a->operands[i], removed, digests, &why) < 0 &&
		    !(imagecmd_flag(a, IMG_FORCE) && why.code == ERR_NOT_FOUND) && !first.code)
			first = why;
	}
	memset(&why, 0, sizeof(why));
	tell_removed(store_fd, a, digests);
	freed = json_array_size(removed) ? collect_garbage(store_fd, 0, &why) : NULL;
	if (!freed && why.code && why.code != ERR_BUSY && !first.code)
		first = why;
	if (imagecmd_flag(a, IMG_JSON)) {
		all = json_pack("{s:O, s:O?}", "removed", removed, "freed", freed);
		imagecmd_print_json(all);
	} else {
		json_array_foreach(removed, j, name)
			puts(json_string_value(name));
	}
	*e = first;
	return first.code ? -1 : 0;
}

static int run_gc(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *freed = collect_garbage(store_fd, 1, e);
	char bytes[24];

	if (!freed)
		return -1;
	imagecmd_bytes(imagecmd_u64(freed, "bytes"), bytes);
	if (imagecmd_flag(a, IMG_JSON))
		imagecmd_print_json(freed);
	else if (!imagecmd_flag(a, IMG_QUIET))
		printf("removed %s and %s, %s\n",
		       imagecmd_count(imagecmd_u64(freed, "layers"), "layer", (char[40]){ "" }),
		       imagecmd_count(imagecmd_u64(freed, "blobs"), "blob", (char[40]){ "" }), bytes);
	return 0;
}

static void show_check(const char *what, uint64_t at)
{
	fprintf(stderr, "\r\033[Kcheck %s %" PRIu64, what, at);
}

static int run_fsck(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	const int repair = imagecmd_flag(a, IMG_REPAIR);
	collect_show_fn *show = imagecmd_is_live(a) ? show_check : NULL;
	autojson json_t *first = repair ? collect_check(store_fd, 1, show, e) : NULL;
	autojson json_t *repaired = first ? collect_repair(store_fd, e) : NULL;
	/* what is left: the first pass removed, the second made again */
	autojson json_t *j = repair && !repaired ? NULL : collect_check(store_fd, 0, show, e);
	json_t *problems = json_object_get(j, "problems"), *p;
	char text[500];
	size_t i;

	if (show)
		imagecmd_clear_line();
	if (!j)
		return -1;
	if (repaired) {
		json_array_foreach(json_object_get(first, "problems"), i, p)
			json_array_append(repaired, p);
		json_object_set(j, "repaired", repaired);
		json_array_foreach(repaired, i, p) {
			log_clean(text, sizeof(text), json_string_value(p), 0);
			if (!imagecmd_flag(a, IMG_JSON) && !imagecmd_flag(a, IMG_QUIET))
				printf("repair: %s\n", text);
		}
	}
	if (imagecmd_flag(a, IMG_JSON))
		imagecmd_print_json(j);
	else if (!imagecmd_flag(a, IMG_QUIET))
		printf("%s, %s, %s, %s\n",
		       imagecmd_count(imagecmd_u64(j, "images"), "image", (char[40]){ "" }),
		       imagecmd_count(imagecmd_u64(j, "blobs"), "blob", (char[40]){ "" }),
		       imagecmd_count(imagecmd_u64(j, "layers"), "layer", (char[40]){ "" }),
		       imagecmd_count(json_array_size(problems), "problem", (char[40]){ "" }));
	if (!json_array_size(problems))
		return 0;
	json_array_foreach(problems, i, p) {
		log_clean(text, sizeof(text), json_string_value(p), 0);
		if (!imagecmd_flag(a, IMG_JSON))
			printf("%s\n", text);
	}
	return err_set(e, ERR_CORRUPT, "the image store has %zu problems", json_array_size(problems));
}

const struct imagecmd imagecmd_import = {
	.name = "import",
	.args = "SOURCE [NAME]",
	.summary = "make an image from an OCI layout, a docker-save archive or a root file system",
	.detail = "SOURCE is a directory or an archive (tar, tar.gz, tar.zst), or - for an archive on\n"
		  "stdin; PATH:REF takes one image of a layout that has several.  Without NAME the\n"
		  "image is called what the source says, else after the source's file name.\n\n"
		  "  berth image import ./debian-oci debian:12\n"
		  "  docker save alpine | berth image import -\n"
		  "  berth image import /srv/rootfs buildroot\n",
	.options = IMG(PLATFORM) | IMG(CHANGE) | IMG(MESSAGE) | IMG(BASE) | IMG(NO_EVENT) | IMG(TENANT) | IMG(QUIET) | IMG(JSON),
	.min = 1,
	.max = 2,
	.run = run_import,
};

const struct imagecmd imagecmd_ls = {
	.name = "ls",
	.args = "",
	.summary = "list the images",
	.options = IMG(QUIET) | IMG(JSON) | IMG(SIZE),
	.run = run_ls,
};

const struct imagecmd imagecmd_inspect = {
	.name = "inspect",
	.args = "NAME",
	.summary = "print all that is known of an image, as JSON",
	.options = IMG(JSON),
	.min = 1,
	.max = 1,
	.run = run_inspect,
};

const struct imagecmd imagecmd_rm = {
	.name = "rm",
	.args = "NAME...",
	.summary = "remove images by name or digest, and what only they needed",
	.options = IMG(FORCE) | IMG(NO_EVENT) | IMG(TENANT) | IMG(JSON),
	.min = 1,
	.max = -1,
	.run = run_rm,
};

const struct imagecmd imagecmd_gc = {
	.name = "gc",
	.args = "",
	.summary = "remove layers and blobs that no image and no sandbox needs",
	.options = IMG(QUIET) | IMG(JSON),
	.run = run_gc,
};

const struct imagecmd imagecmd_fsck = {
	.name = "fsck",
	.args = "",
	.summary = "read the whole store and report what is damaged",
	.options = IMG(QUIET) | IMG(JSON) | IMG(REPAIR),
	.run = run_fsck,
};

/* ---- berth image bootstrap ---- */

static int run_bootstrap(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	const char *compression = imagecmd_value(a, IMG_COMPRESSION);
	const int quiet = imagecmd_flag(a, IMG_QUIET) || imagecmd_flag(a, IMG_JSON);
	struct bootstrap_options o = {
		.name = a->operands[0],
		.packages = imagecmd_value(a, IMG_PACKAGES),
		.suite = imagecmd_value(a, IMG_SUITE),
		.mirror = imagecmd_value(a, IMG_MIRROR),
		.variant = imagecmd_value(a, IMG_VARIANT),
		.compression = compression && !strcmp(compression, "zstd") ? COMPRESSION_ZSTD : COMPRESSION_GZIP,
		.quiet = quiet,
	};
	autojson json_t *done = NULL;
	char name[256], digest[DIGEST_SIZE + 8], size[24];
	const json_t *one;

	if (compression && strcmp(compression, "zstd") && strcmp(compression, "gzip"))
		return err_set(e, ERR_INVALID, "'%.40s' is neither gzip nor zstd", compression);
	done = bootstrap_run(store_fd, &o, e);
	if (!done)
		return -1;
	one = json_array_get(done, 0);
	if (imagecmd_flag(a, IMG_JSON)) {
		imagecmd_print_json(one);
		return 0;
	}
	imagecmd_text(one, "digest", digest, sizeof(digest));
	if (quiet) {
		puts(digest);
		return 0;
	}
	imagecmd_bytes(imagecmd_u64(one, "size"), size);
	printf("%s  %s  %s\n", imagecmd_text(one, "name", name, sizeof(name)), digest, size);
	return 0;
}

const struct imagecmd imagecmd_bootstrap = {
	.name = "bootstrap",
	.args = "NAME",
	.summary = "make an image of Debian packages, without a registry",
	.detail = "The packages, and all they need, are put together by mmdebstrap, which apt\n"
		  "installs.  The image starts /bin/bash.  The same packages are the same image:\n"
		  "SOURCE_DATE_EPOCH sets its time, else it is the beginning of today.\n\n"
		  "  berth image bootstrap py --packages python3,git\n",
	.options = IMG(PACKAGES) | IMG(SUITE) | IMG(MIRROR) | IMG(VARIANT) | IMG(COMPRESSION) | IMG(QUIET) | IMG(JSON),
	.min = 1,
	.max = 1,
	.run = run_bootstrap,
};

/* ---- berth image tag, history, pin, unpin, prune ---- */

static int report_image_change(const struct imagecmd_args *a, const char *key, const char *value)
{
	if (imagecmd_flag(a, IMG_JSON)) {
		autojson json_t *j = json_pack("{s:s}", key, value);

		imagecmd_print_json(j);
	}
	return 0;
}

static int run_tag(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	if (catalog_tag(store_fd, a->operands[0], a->operands[1], e) < 0)
		return -1;
	imagecmd_tell(store_fd, a, "image-tag", a->operands[1]);
	return report_image_change(a, "tagged", a->operands[1]);
}

static int run_pin(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	return pins_add(store_fd, a->operands[0], a->operands[1], e) < 0 ? -1 : report_image_change(a, "pinned", a->operands[0]);
}

static int run_unpin(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	return pins_remove(store_fd, a->operands[0], e) < 0 ? -1 : report_image_change(a, "unpinned", a->operands[0]);
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

static int remove_names(int store_fd, const struct imagecmd_args *a, const json_t *names, json_t *removed, struct err *e)
{
	autojson json_t *digests = json_array();
	const json_t *name;
	size_t i;

	json_array_foreach(names, i, name) {
		struct err why = { 0 };

		/* a volume that was taken into use since stays */
		if (remove_image(store_fd, a, json_string_value(name), removed, digests, &why) < 0 && why.code != ERR_BUSY &&
		    why.code != ERR_NOT_FOUND) {
			*e = why;
			return -1;
		}
	}
	tell_removed(store_fd, a, digests);
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
	if (!names || (!dry && remove_names(store_fd, a, names, removed, e) < 0))
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

/* ---- berth system df ---- */

/* berth system df: what takes the disk. */

/* Part of what "sandboxes" has, where blocks that checkpoints share count in each. */
static int add_checkpoints(json_t *d, int store_fd, struct err *e)
{
	autoclose int kept =
		openat(store_fd, "../sandboxes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct checkpoint_use use = { 0, 0 };
	uint64_t count = 0;

	if (kept >= 0 && checkpoints_use_all(kept, &use, &count, e) < 0)
		return -1;
	return json_object_set_new(d, "checkpoints",
				   json_pack("{s:I,s:I,s:i,s:I}", "count", (json_int_t)count,
					     "bytes", (json_int_t)use.held, "reclaimable_bytes", 0,
					     "charged_bytes", (json_int_t)use.bytes)) < 0 ?
		       err_nomem(e) :
		       0;
}

/* The pool's file is part of the total; what is in it is shown apart. */
static int add_pool(json_t *d, int store_fd, struct err *e)
{
	autoclose int state = openat(store_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err why = { 0 };
	json_t *pool = state < 0 ? NULL : layerpool_describe(state, &why);
	uint64_t total;

	if (!pool && why.code != ERR_NOT_FOUND && state >= 0) {
		*e = why;
		return -1;
	}
	total = imagecmd_u64(d, "total_bytes") + imagecmd_u64(pool, "size_bytes");
	json_object_set_new(d, "total_bytes", json_integer((json_int_t)total));
	return json_object_set_new(d, "pool", pool ? pool : json_null()) < 0 ? err_nomem(e) : 0;
}

static void show_pool(const json_t *pool)
{
	char size[24], used[24], left[24];

	imagecmd_bytes(imagecmd_u64(pool, "size_bytes"), size);
	imagecmd_bytes(imagecmd_u64(pool, "used_bytes"), used);
	imagecmd_bytes(imagecmd_u64(pool, "free_bytes"), left);
	printf("pool of %s: %s used by the layers of %" PRIu64 " sandboxes, %s free\n", size, used,
	       imagecmd_u64(pool, "sandboxes"), left);
}

static void show_disk_usage(const json_t *d)
{
	static const struct {
		const char *key, *what;
	} rows[] = {
		{ "blobs", "blobs (compressed layers, documents)" },
		{ "layers", "unpacked layers" },
		{ "sandboxes", "sandboxes (writable layers)" },
		{ "checkpoints", "  checkpoints alone" },
		{ "volumes", "volumes" },
		{ "host", "host image" },
		{ "other", "other" },
	};
	char bytes[24], back[24];
	size_t i;

	printf("%-38s  %6s  %10s  %s\n", "WHAT", "COUNT", "SIZE", "RECLAIMABLE");
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const json_t *p = json_object_get(d, rows[i].key);

		imagecmd_bytes(imagecmd_u64(p, "bytes"), bytes);
		imagecmd_bytes(imagecmd_u64(p, "reclaimable_bytes"), back);
		printf("%-38s  %6" PRIu64 "  %10s  %11s\n", rows[i].what, imagecmd_u64(p, "count"),
		       bytes, back);
	}
	imagecmd_bytes(imagecmd_u64(d, "total_bytes"), bytes);
	imagecmd_bytes(imagecmd_u64(json_object_get(d, "layers"), "shared_bytes"), back);
	printf("%-38s  %6" PRIu64 "  %10s\n", "all, for so many names of images",
	       imagecmd_u64(json_object_get(d, "images"), "count"), bytes);
	printf("layers that more than one image has: %s\n", back);
	if (json_is_object(json_object_get(d, "pool")))
		show_pool(json_object_get(d, "pool"));
}

static int run_df(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *d = diskuse(store_fd, e);

	if (!d || add_checkpoints(d, store_fd, e) < 0 || add_pool(d, store_fd, e) < 0)
		return -1;
	if (imagecmd_flag(a, IMG_JSON))
		imagecmd_print_json(d);
	else
		show_disk_usage(d);
	return 0;
}

const struct imagecmd imagecmd_df = {
	.name = "df",
	.args = "",
	.summary = "disk use of images and sandboxes (berth system df)",
	.options = IMG(JSON),
	.run = run_df,
};
