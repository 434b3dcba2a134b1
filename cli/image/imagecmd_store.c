/* SPDX-License-Identifier: Apache-2.0 */
/* berth image import, ls, inspect, rm, gc, fsck. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/image/imagecmd.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/change.h"
#include "rootfs/store/digest.h"
#include "rootfs/transfer/collect.h"
#include "rootfs/transfer/import.h"

static void show_note(void *ctx, const char *text)
{
	const struct imagecmd_args *a = ctx;

	if (!imagecmd_flag(a, IMG_JSON) && !imagecmd_flag(a, IMG_QUIET)) {
		if (isatty(STDERR_FILENO))
			imagecmd_clear_line();
		log_note("berth image import", "note: %s", text);
	}
}

/* Tried here, before anything is read; *ret is NULL without any. */
static int read_changes(const struct imagecmd_args *a, json_t **ret, struct err *e)
{
	autojson json_t *trial = json_object();
	size_t i;

	for (i = 0; i < a->given_count; i++) {
		if (a->given[i].id != IMG_CHANGE)
			continue;
		if (change_apply(trial, a->given[i].value, e) < 0)
			return -1;
		if (!*ret)
			*ret = json_array();
		if (json_array_append_new(*ret, json_string(a->given[i].value)) < 0)
			return err_nomem(e);
	}
	return 0;
}

static int run_import(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	int live = imagecmd_is_live(a);
	struct import_options o = {
		.source = a->operands[0],
		.name = a->operand_count > 1 ? a->operands[1] : NULL,
		.platform = imagecmd_value(a, IMG_PLATFORM),
		.message = imagecmd_value(a, IMG_MESSAGE),
		.progress = live ? imagecmd_progress : NULL,
		.note = show_note,
		.ctx = (void *)a,
	};
	autojson json_t *done = NULL, *all = NULL, *changes = NULL;
	autofree struct imagecmd_tenant *t = NULL;
	json_t *one;
	size_t i;

	if (imagecmd_tenant(a, "import", &t, e) < 0 || read_changes(a, &changes, e) < 0)
		return -1;
	o.changes = changes;
	o.maker = t ? &t->maker : NULL;
	done = import_run(store_fd, &o, e);
	if (live)
		imagecmd_clear_line();
	if (!done)
		return -1;
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

static int run_rm(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autofree struct imagecmd_tenant *t = NULL;
	autojson json_t *removed = json_array(), *freed = NULL, *all = NULL;
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
		if (catalog_remove(store_fd, a->operands[i], imagecmd_flag(a, IMG_FORCE), removed, &why) < 0 &&
		    !(imagecmd_flag(a, IMG_FORCE) && why.code == ERR_NOT_FOUND) && !first.code)
			first = why;
	}
	memset(&why, 0, sizeof(why));
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
	.options = IMG(PLATFORM) | IMG(CHANGE) | IMG(MESSAGE) | IMG(TENANT) | IMG(QUIET) | IMG(JSON),
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
	.options = IMG(FORCE) | IMG(TENANT) | IMG(JSON),
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
