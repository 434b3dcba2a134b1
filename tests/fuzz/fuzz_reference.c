/* SPDX-License-Identifier: Apache-2.0 */
/* An image name.  What is accepted names one file of images/ and reads back as itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rootfs/store/ref.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct ref *r)
{
	char name[REF_NAME_MAX + 1], file[REF_NAME_MAX + 8], again[REF_NAME_MAX + 1];
	struct ref other;
	struct err e;

	ref_name(r, name);
	ref_filename(r, file);
	if (strlen(file) > 240 || strchr(file, '/') || file[0] == '.')
		abort();
	if (ref_parse(name, &other, &e) < 0)
		abort();
	ref_name(&other, again);
	if (strcmp(name, again) || (r->digest[0] && !digest_is_valid(r->digest)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *s = malloc(size + 1), made[REF_NAME_MAX + 1];
	struct ref r;
	struct err e;

	if (!s)
		return 0;
	memcpy(s, data, size);
	s[size] = '\0';
	if (!ref_parse(s, &r, &e))
		check(&r);
	if (!ref_from_filename(s, made)) {
		if (ref_parse(made, &r, &e) < 0)
			abort();
		check(&r);
	}
	free(s);
	return 0;
}
