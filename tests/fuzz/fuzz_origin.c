/* SPDX-License-Identifier: Apache-2.0 */
/* A URL, or a base and a Location with a line feed between.  What is accepted reads back as itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rootfs/registry/origin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *url)
{
	struct origin o, again;
	char text[ORIGIN_TEXT_MAX];
	const char *path;
	struct err e;

	if (origin_parse(url, "URL", &o, &path, &e) < 0)
		return;
	if (strlen(url) >= ORIGIN_URL_MAX || path < url || path > url + strlen(url) || (*path && *path != '/' && *path != '?'))
		abort();
	origin_format(&o, text);
	if (origin_parse(text, "URL", &again, NULL, &e) < 0 || !origin_equal(&o, &again) || strpbrk(o.host, "@/?#\\ "))
		abort();
	origin_is_address(&o, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char to[ORIGIN_URL_MAX];
	char *s = malloc(size + 1), *location;
	struct origin o;
	struct err e;

	if (!s)
		return 0;
	memcpy(s, data, size);
	s[size] = '\0';
	location = strchr(s, '\n');
	if (location)
		*location++ = '\0';
	check(s);
	if (location && !origin_resolve(s, location, to, &e)) {
		if (origin_parse(to, "URL", &o, NULL, &e) < 0)
			abort();
		check(to);
	}
	origin_from_host(s, 1, &o, &e);
	free(s);
	return 0;
}
