/* SPDX-License-Identifier: Apache-2.0 */
/* berth image bootstrap. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/image/imagecmd.h"
#include "rootfs/store/digest.h"
#include "rootfs/transfer/bootstrap.h"

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
