/* SPDX-License-Identifier: Apache-2.0 */
/* The table of images, here and from afar, and how its values are shown. */
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/image/imagecmd.h"
#include "rootfs/store/digest.h"

void imagecmd_bytes(uint64_t n, char out[24])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)n;
	size_t u = 0;

	for (; v >= 1024 && u + 1 < ARRAY_LEN(units); u++)
		v /= 1024;
	snprintf(out, 24, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

uint64_t imagecmd_u64(const json_t *j, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(j, key));
}

const char *imagecmd_text(const json_t *j, const char *key, char *out, size_t n)
{
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(out, n, s ? s : "", 0);
	return out;
}

static void print_image(const json_t *one, int with_size)
{
	char name[256], digest[DIGEST_SIZE + 8], size[24], when[32] = "-", platform[100];
	time_t t = (time_t)imagecmd_u64(one, "imported");
	struct tm tm;

	imagecmd_text(one, "name", name, sizeof(name));
	imagecmd_text(one, "digest", digest, sizeof(digest));
	imagecmd_text(one, "platform", platform, sizeof(platform));
	imagecmd_bytes(imagecmd_u64(one, "size"), size);
	if (localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
	printf("%-36s  %.19s  %-12s  %s  %10s", name, digest, platform, when, size);
	if (with_size) {
		char disk[24], shared[24];

		imagecmd_bytes(imagecmd_u64(one, "disk_bytes"), disk);
		imagecmd_bytes(imagecmd_u64(one, "shared_bytes"), shared);
		printf("  %10s  %10s", disk, shared);
	}
	putchar('\n');
}

void imagecmd_print_list(const json_t *list, int with_size)
{
	const json_t *one;
	size_t i;

	printf("%-36s  %-19s  %-12s  %-16s  %10s%s\n", "NAME", "DIGEST", "PLATFORM", "IMPORTED", "BLOBS",
	       with_size ? "        DISK      SHARED" : "");
	json_array_foreach (list, i, one)
		print_image(one, with_size);
}
