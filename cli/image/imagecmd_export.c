/* SPDX-License-Identifier: Apache-2.0 */
/* berth image export, save, load. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/files/dest.h"
#include "cli/image/imagecmd.h"
#include "rootfs/store/digest.h"
#include "rootfs/transfer/export.h"

enum format { FORMAT_LAYOUT, FORMAT_ARCHIVE, FORMAT_ROOTFS };

static void show_bytes(void *ctx, uint64_t bytes, uint64_t total_bytes)
{
	uint64_t *last = ctx;
	char done[24], all[24];

	/* a step of a percent: a blob comes in small pieces */
	if (bytes < total_bytes && bytes - *last < total_bytes / 100)
		return;
	*last = bytes;
	imagecmd_bytes(bytes, done);
	imagecmd_bytes(total_bytes, all);
	fprintf(stderr, "\r\033[K%s of %s", done, all);
}

static int ends_in(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n > m && !strcmp(s + n - m, suffix);
}

static enum compression compression_of(const char *path)
{
	return ends_in(path, ".gz") || ends_in(path, ".tgz") ? COMPRESSION_GZIP :
	       ends_in(path, ".zst") || ends_in(path, ".zstd") ? COMPRESSION_ZSTD : COMPRESSION_NONE;
}

static int choose_format(const struct imagecmd_args *a, const char *dest, enum format *ret, struct err *e)
{
	static const char *const names[] = { "layout", "archive", "rootfs" };
	const char *given = imagecmd_value(a, IMG_FORMAT);
	size_t i;

	*ret = !strcmp(dest, "-") || ends_in(dest, ".tar") ? FORMAT_ARCHIVE : FORMAT_LAYOUT;
	for (i = 0; given && i < ARRAY_LEN(names); i++) {
		if (!strcmp(given, names[i])) {
			*ret = (enum format)i;
			return 0;
		}
	}
	if (given)
		return err_set(e, ERR_INVALID, "format '%.60s' is unknown; hint: layout, archive or rootfs", given);
	if (compression_of(dest) != COMPRESSION_NONE)
		return err_set(e, ERR_INVALID, "what %.200s is to hold is not clear; hint: --format rootfs, or NAME.tar for an "
			       "image archive, whose layers are compressed already", dest);
	return 0;
}

/* ---- the commands ---- */

/* Tells on stdout what was written, unless that is where it went. */
static int report_archive(const struct imagecmd_args *a, const char *dest, const json_t *done)
{
	const json_t *one;
	char name[256], digest[DIGEST_SIZE + 8];
	size_t i;

	if (imagecmd_flag(a, IMG_QUIET) || !strcmp(dest, "-"))
		return 0;
	if (imagecmd_flag(a, IMG_JSON)) {
		autojson json_t *all = json_pack("{s:O, s:s}", "images", done, "path", dest);

		imagecmd_print_json(all);
		return 0;
	}
	json_array_foreach(done, i, one) {
		imagecmd_text(one, "name", name, sizeof(name));
		imagecmd_text(one, "digest", digest, sizeof(digest));
		printf("%s  %s\n", name, digest);
	}
	return 0;
}

static int write_to(int store_fd, const struct imagecmd_args *a, const struct export_options *o, enum format format,
		    const char *path, const char *hint, struct err *e)
{
	autojson json_t *done = NULL;
	struct dest d;
	int rc;

	if (format == FORMAT_LAYOUT) {
		done = export_layout(store_fd, o, path, e);
		rc = done ? 0 : -1;
	} else {
		if (dest_open(&d, path, hint, e) < 0)
			return -1;
		done = format == FORMAT_ARCHIVE ? export_archive(store_fd, o, d.fd, e) :
						  export_rootfs(store_fd, o, compression_of(path), d.fd, e);
		rc = dest_close(&d, done ? 0 : -1, e);
	}
	if (o->progress)
		imagecmd_clear_line();
	if (rc < 0)
		return -1;
	imagecmd_tell_all(store_fd, a, "image-save", done, 1);
	return report_archive(a, path, done);
}

static int run_export(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	const char *dest = a->operands[a->operand_count - 1];
	uint64_t last = 0;
	struct export_options o = {
		.refs = (const char *const *)a->operands,
		.count = (size_t)a->operand_count - 1,
		.progress = imagecmd_is_live(a) ? show_bytes : NULL,
		.ctx = &last,
		.is_tenants = imagecmd_flag(a, IMG_TENANT),
	};
	enum format format;

	if (choose_format(a, dest, &format, e) < 0)
		return -1;
	if (format == FORMAT_ROOTFS && o.count != 1)
		return err_set(e, ERR_USAGE, "the files of one image at a time");
	return write_to(store_fd, a, &o, format, dest, "berth image export NAME - > FILE", e);
}

static int run_save(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	const char *dest = imagecmd_value(a, IMG_OUTPUT);
	uint64_t last = 0;
	struct export_options o = {
		.refs = (const char *const *)a->operands,
		.count = (size_t)a->operand_count,
		.progress = imagecmd_is_live(a) ? show_bytes : NULL,
		.ctx = &last,
		.is_tenants = imagecmd_flag(a, IMG_TENANT),
	};

	return write_to(store_fd, a, &o, FORMAT_ARCHIVE, dest ? dest : "-", "-o FILE", e);
}

static int run_load(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	const char *source = imagecmd_value(a, IMG_INPUT);
	char *operands[] = { (char *)(source ? source : "-"), NULL };
	struct imagecmd_args as_import = *a;

	if (!source && isatty(STDIN_FILENO))
		return err_set(e, ERR_USAGE, "stdin is a terminal; hint: -i FILE");
	as_import.operands = operands;
	as_import.operand_count = 1;
	return imagecmd_import_as(store_fd, &as_import, "image-load", e);
}

const struct imagecmd imagecmd_export = {
	.name = "export",
	.args = "NAME... DEST",
	.summary = "write images as an OCI layout, as an archive, or as plain files",
	.detail = "DEST is a directory, which becomes an OCI image layout or gets the images added; with the\n"
		  "suffix .tar, or - for stdout, an archive that docker, podman and skopeo read.  --format\n"
		  "rootfs writes the merged files of one image as a tar (.tar.gz, .tar.zst).\n\n"
		  "  berth image export debian:12 ./debian-oci\n"
		  "  berth image export debian:12 debian.tar\n"
		  "  berth image export --format rootfs debian:12 - | tar -t\n",
	.options = IMG(FORMAT) | IMG(TENANT) | IMG(QUIET) | IMG(JSON),
	.min = 2,
	.max = -1,
	.run = run_export,
};

const struct imagecmd imagecmd_save = {
	.name = "save",
	.args = "NAME...",
	.summary = "write images to an archive that berth, docker, podman and skopeo read",
	.options = IMG(OUTPUT) | IMG(NO_EVENT) | IMG(TENANT) | IMG(QUIET) | IMG(JSON),
	.min = 1,
	.max = -1,
	.run = run_save,
};

const struct imagecmd imagecmd_load = {
	.name = "load",
	.args = "[-i FILE]",
	.summary = "read the images of an archive",
	.options = IMG(INPUT) | IMG(UNNAMED) | IMG(PLATFORM) | IMG(TENANT) | IMG(QUIET) | IMG(JSON),
	.run = run_load,
};
