/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/volume_name.h"

#include <stdio.h>
#include <string.h>

#include "base/path.h"

int volume_key(const char *name, const char *tenant, char ret[VOLUME_KEY_MAX], struct err *e)
{
	if (!path_is_name(name))
		return err_set(e, ERR_INVALID, "'%.80s' is not the name of a volume; "
			       "hint: up to 64 of a-z 0-9 _ . -, starting with a letter or digit",
			       name);
	snprintf(ret, VOLUME_KEY_MAX, "%s%s%s", name, tenant[0] ? "@" : "", tenant);
	return 0;
}

int volume_is_key(const char *text)
{
	size_t n = strcspn(text, "@");
	char name[VOLUME_NAME_MAX + 1];

	if (n >= sizeof(name))
		return 0;
	memcpy(name, text, n);
	name[n] = '\0';
	return path_is_name(name) && (!text[n] || path_is_name(text + n + 1));
}

/* The word of n bytes, when it can be a name at all. */
static int take(const char *word, size_t n, char ret[VOLUME_NAME_MAX + 1])
{
	if (!n || n > VOLUME_NAME_MAX || memchr(word, '/', n))
		return 0;
	memcpy(ret, word, n);
	ret[n] = '\0';
	return 1;
}

static int of_mount(const char *value, char ret[VOLUME_NAME_MAX + 1])
{
	const char *p, *src = NULL;
	size_t n;
	int typed = 0;

	for (p = value; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		typed |= n == 11 && !strncmp(p, "type=volume", n);
		if (!strncmp(p, "src=", 4))
			src = p + 4;
		else if (!strncmp(p, "source=", 7))
			src = p + 7;
	}
	return typed && src && take(src, strcspn(src, ","), ret);
}

int volume_of_option(const char *option, const char *value, char ret[VOLUME_NAME_MAX + 1])
{
	if (!strcmp(option, "mount"))
		return of_mount(value, ret);
	return !strcmp(option, "volume") && take(value, strcspn(value, ":"), ret);
}
