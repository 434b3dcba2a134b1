/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of E2B's create, as that of POST /v1/sandboxes.  Pure.  What berth does not do is
 * refused: a sandbox with less of a guard than was asked for is worse than none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/e2b.h"
#include "manager/api/e2b_rules.h"

/* The default template, if a client names none. */
static int is_preset(const char *template)
{
	static const char *const presets[] = { "base", "code-interpreter-v1", "desktop",
					       "mcp-gateway" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(presets); i++)
		if (!strcmp(template, presets[i]))
			return 1;
	return 0;
}

static int check_members(const json_t *body, struct err *e)
{
	static const char *const missing[] = { "mcp", "iam" };
	const char *name;
	json_t *v;
	size_t i;

	if (!json_is_string(json_object_get(body, "templateID")))
		return err_set(e, ERR_INVALID, "templateID is missing");
	for (i = 0; i < ARRAY_LEN(missing); i++)
		if (e2b_rules_given(body, missing[i]))
			return err_set(e, ERR_UNSUPPORTED,
				       "%s is not served: a sandbox has what its image has",
				       missing[i]);
	json_object_foreach(json_object_get(body, "metadata"), name, v)
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "metadata has a value that is not a string");
	return 0;
}

/* ---- volumes -------------------------------------------------------------------------------- */

/* [{"name","path"}] as the option volume; a new reference, or NULL with e. */
static json_t *volumes_of(const json_t *body, struct err *e)
{
	json_t *mounts = json_object_get(body, "volumeMounts"), *one, *list = json_array();
	int bad = mounts && !json_is_array(mounts) && !json_is_null(mounts);
	size_t i;

	json_array_foreach(mounts, i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));
		const char *path = json_string_value(json_object_get(one, "path"));

		/* a name with a slash would be a directory of the host */
		bad |= !name || !path || !name[0] || strpbrk(name, "/:") || path[0] != '/' ||
		       strchr(path, ':');
		if (!bad)
			json_array_append_new(list, json_sprintf("%s:%s:rw", name, path));
	}
	if (!bad)
		return list;
	err_set(e, ERR_INVALID, "volumeMounts is not an array of names and paths");
	json_decref(list);
	return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static json_t *labels_of(const json_t *body, const char *template)
{
	const json_t *metadata = json_object_get(body, "metadata");
	json_t *labels =
		json_pack("[o]", json_sprintf(E2B_TEMPLATE "=%s", template));
	autofree char *text = NULL;

	if (json_is_object(metadata))
		text = json_dumps(metadata, JSON_COMPACT | JSON_SORT_KEYS);
	if (text)
		json_array_append_new(labels, json_sprintf(E2B_METADATA "=%s", text));
	return labels;
}

json_t *e2b_create_request(const json_t *body, json_int_t timeout, int pauses, struct err *e)
{
	const char *template = json_string_value(json_object_get(body, "templateID"));
	json_t *envs, *volumes, *request, *options;
	char ttl[32];

	if (check_members(body, e) < 0)
		return NULL;
	volumes = volumes_of(body, e);
	envs = volumes ? e2b_env(json_object_get(body, "envVars"), e) : NULL;
	if (!envs) {
		json_decref(volumes);
		return NULL;
	}
	if (!timeout)
		timeout = 1;
	/* e2b_pause_at_end() gives it its own time: until then it must not end */
	if (pauses)
		timeout += E2B_PAUSE_SPARE_S;
	snprintf(ttl, sizeof(ttl), "%llds", (long long)timeout);
	options = json_pack("{s:s,s:o,s:o,s:o}", "ttl", ttl, "env", envs, "label",
			    labels_of(body, template), "volume", volumes);
	request = json_pack("{s:o}", "options", options);
	if (!is_preset(template))
		json_object_set_new(request, "image", json_string(template));
	return request;
}
