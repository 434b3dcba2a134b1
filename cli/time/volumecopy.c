/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time/volumecopy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/host/tenant.h"
#include "manager/host/volume.h"

#define SUFFIX 8

/* 1 with the name, 0: it names no volume. */
static int volume_of(const json_t *pair, char name[VOLUME_NAME_MAX + 1])
{
	const char *option = json_string_value(json_array_get(pair, 0));
	const char *value = json_string_value(json_array_get(pair, 1));

	return option && value && volume_of_option(option, value, name);
}

int volumecopy_copies(const json_t *pair)
{
	char name[VOLUME_NAME_MAX + 1];

	return volume_of(pair, name);
}

static int new_name(const char *name, char out[VOLUME_NAME_MAX + 1], struct err *e)
{
	unsigned char raw[SUFFIX / 2];
	char hex[SUFFIX + 1];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "draw a random name");
	hex_format(hex, raw, sizeof(raw));
	snprintf(out, VOLUME_NAME_MAX + 1, "%.*s-%s", VOLUME_NAME_MAX - SUFFIX - 1, name, hex);
	return 0;
}

static int clone_one(struct registry *r, const char *name, const char *tenant, json_t *made,
		     struct err *e)
{
	char copy[VOLUME_NAME_MAX + 1];
	struct tenant t = { 0 };

	if (json_object_get(made, name)) /* mounted twice */
		return 0;
	if (tenant[0] && tenant_load(&t, r->config, tenant, e) < 0)
		return -1;
	if (new_name(name, copy, e) < 0 || volume_clone(r, name, copy, tenant, t.volumes, e) < 0)
		return err_wrap(e, "copy volume %s", name);
	return json_object_set_new(made, name, json_string(copy)) < 0 ? err_nomem(e) : 0;
}

/* The source in the value: it begins one of --volume, and follows src= or source= in --mount. */
static const char *source_in(const char *option, const char *value, const char *name)
{
	static const char *const keys[] = { "src=", "source=" };
	const size_t n = strlen(name);
	const char *at;
	size_t i;

	if (!strcmp(option, "volume"))
		return value;
	for (at = value; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		for (i = 0; i < ARRAY_LEN(keys); i++) {
			const size_t k = strlen(keys[i]);

			if (!strncmp(at, keys[i], k) && !strncmp(at + k, name, n) &&
			    (!at[k + n] || at[k + n] == ','))
				return at + k;
		}
	return NULL;
}

static int rename_one(json_t *pair, const char *name, const char *copy, struct err *e)
{
	const char *option = json_string_value(json_array_get(pair, 0));
	const char *value = json_string_value(json_array_get(pair, 1));
	const char *at = source_in(option, value, name);
	autofree char *text = NULL;
	size_t n;

	if (!at)
		return err_set(e, ERR_INTERNAL, "no volume %s in '%.100s'", name, value);
	n = strlen(value) + VOLUME_NAME_MAX + 1;
	text = malloc(n);
	if (!text)
		return err_nomem(e);
	snprintf(text, n, "%.*s%s%s", (int)(at - value), value, copy, at + strlen(name));
	return json_array_set_new(pair, 1, json_string(text)) < 0 ? err_nomem(e) : 0;
}

int volumecopy_make(struct registry *r, json_t *spec, const char *tenant, json_t *made,
		    struct err *e)
{
	json_t *options = json_object_get(spec, "options"), *pair;
	char name[VOLUME_NAME_MAX + 1];
	size_t i;
	int result = 0;

	json_array_foreach (options, i, pair) {
		if (!volume_of(pair, name))
			continue;
		result = clone_one(r, name, tenant, made, e);
		if (result == 0)
			result = rename_one(pair, name,
					    json_string_value(json_object_get(made, name)), e);
		if (result < 0)
			break;
	}
	if (result < 0)
		volumecopy_remove(r, made, tenant);
	return result;
}

void volumecopy_remove(struct registry *r, const json_t *made, const char *tenant)
{
	char key[VOLUME_KEY_MAX];
	struct err ignored;
	const char *name;
	json_t *copy;

	json_object_foreach ((json_t *)(size_t)made, name, copy)
		if (volume_key(json_string_value(copy), tenant, key, &ignored) == 0)
			volume_remove(r, key, &ignored);
}
