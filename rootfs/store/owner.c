/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S44 of SECURITY.md. */
#include "rootfs/store/owner.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

const char *image_owner(const json_t *record)
{
	return json_string_value(json_object_get(record, "owner"));
}

int image_name_is_like(const char *patterns, const char *name)
{
	char one[256];
	size_t n;

	for (; *patterns; patterns += n + (patterns[n] == '\n')) {
		n = strcspn(patterns, "\n");
		snprintf(one, sizeof(one), "%.*s", (int)n, patterns);
		if (n < sizeof(one) && !fnmatch(one, name, 0))
			return 1;
	}
	return 0;
}

int image_view_owns(const struct image_view *v, const json_t *record)
{
	const char *owner = image_owner(record);

	return v && owner && !strcmp(owner, v->tenant);
}

int image_view_sees(const struct image_view *v, const json_t *record)
{
	const char *name = json_string_value(json_object_get(record, "name"));
	size_t n;

	if (!v)
		return 1;
	/* an unreadable owner counts as another tenant */
	if (json_object_get(record, "owner"))
		return image_view_owns(v, record);
	if (!name)
		return 0;
	n = strlen(v->preset);
	/* the image for a request without a name; the record has its tag too */
	if (!strcmp(name, v->preset) ||
	    (!strncmp(name, v->preset, n) && !strcmp(name + n, ":latest")))
		return 1;
	return image_name_is_like(v->shared, name);
}

void image_plain_name(const char *name, char ret[REF_NAME_MAX + 1])
{
	snprintf(ret, REF_NAME_MAX + 1, "%.*s", (int)strcspn(name, "@"), name);
}
