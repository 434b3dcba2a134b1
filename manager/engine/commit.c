/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/commit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/name.h"

/* The request's, where it says something; else the container's. */
static const json_t *member(const struct engine_view *v, const json_t *config, const char *key)
{
	const json_t *own = json_object_get(config, key);

	return json_array_size(own) || json_object_size(own) || json_string_length(own) ?
		       own :
		       engine_asked(v, key);
}

static int add(json_t *words, json_t *word, struct err *e)
{
	return !word || json_array_append_new(words, word) < 0 ? err_nomem(e) : 0;
}

/* Of an option that is given once: whether changes have it. */
static int is_changed(const json_t *changes, const char *option)
{
	const size_t n = strlen(option);
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)changes, i, one)
		if (!strncmp(json_string_value(one), option, n))
			return 1;
	return 0;
}

static int add_lists(json_t *words, const json_t *env, const json_t *labels, struct err *e)
{
	const json_t *one;
	const char *key;
	json_t *value;
	size_t i;

	json_array_foreach ((json_t *)(size_t)env, i, one) {
		const char *text = json_string_value(one);

		if (text && text[0] != '=' && strchr(text, '=') &&
		    add(words, json_sprintf("--env=%s", text), e) < 0)
			return -1;
	}
	json_object_foreach ((json_t *)(size_t)labels, key, value)
		if (json_is_string(value) && strcmp(key, ENGINE_NAME_LABEL) &&
		    add(words, json_sprintf("--label=%s=%s", key, json_string_value(value)), e) < 0)
			return -1;
	return 0;
}

/* A program with its arguments, or none. */
static int add_argv(json_t *words, const char *option, const json_t *argv, struct err *e)
{
	autofree char *text = json_array_size(argv) ? json_dumps(argv, JSON_COMPACT) : NULL;

	return add(words, json_sprintf("%s%s", option, text ? text : ""), e);
}

static int add_single(json_t *words, const struct engine_view *v, const json_t *config,
		      const json_t *changes, struct err *e)
{
	static const struct {
		const char *key, *option;
	} texts[] = {{"WorkingDir", "--workdir="}, {"User", "--user="}};
	const json_t *entry = member(v, config, "Entrypoint"), *cmd = member(v, config, "Cmd");
	size_t i;

	for (i = 0; i < ARRAY_LEN(texts); i++) {
		const char *text = json_string_value(member(v, config, texts[i].key));

		if (text && text[0] && !is_changed(changes, texts[i].option) &&
		    add(words, json_sprintf("%s%s", texts[i].option, text), e) < 0)
			return -1;
	}
	if (entry && !is_changed(changes, "--entrypoint=") &&
	    add_argv(words, "--entrypoint=", entry, e) < 0)
		return -1;
	/* a program of the container's own took the image's arguments away */
	return (entry || json_array_size(cmd)) && !is_changed(changes, "--cmd=") ?
		       add_argv(words, "--cmd=", cmd, e) :
		       0;
}

json_t *engine_commit_words(const struct engine_view *v, const json_t *config,
			    const json_t *changes, struct err *e)
{
	autojson json_t *words = json_array();

	/* variable by variable and label by label, the later ones count */
	if (!words || add_lists(words, engine_asked(v, "Env"), engine_asked(v, "Labels"), e) < 0 ||
	    add_lists(words, json_object_get(config, "Env"), json_object_get(config, "Labels"), e) <
		    0 ||
	    add_single(words, v, config, changes, e) < 0)
		return NULL;
	if (json_array_extend(words, (json_t *)(size_t)changes) < 0) {
		err_nomem(e);
		return NULL;
	}
	return json_incref(words);
}
