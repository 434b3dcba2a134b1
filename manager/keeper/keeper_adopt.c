/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a warm sandbox to its owner. "adopt" adds to the environment of every later command and
 * session, and mounts the owner's directory instead of the sandbox's own, once. It refuses a
 * second claim with another token, after any earlier error (one sandbox, one tenant).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/keeper/keeper_state.h"

static int same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return !strncmp(a, b, n + 1);
}

/* The spec with more environment; our own copy, since the first was read from the options. */
static int merge_env(struct keeper *k, const json_t *list, struct err *e)
{
	struct spec *s = malloc(sizeof(*s));
	char **env = s ? calloc(k->spec->env_count + json_array_size(list) + 1, sizeof(*env)) : NULL;
	size_t count = k->spec->env_count, i, j;
	json_t *item;

	if (!env) {
		free(s);
		return err_nomem(e);
	}
	memcpy(env, k->spec->env, count * sizeof(*env));
	json_array_foreach((json_t *)(size_t)list, i, item) {
		char *text = strdup(json_string_value(item));

		if (!text)
			return err_nomem(e);	/* the keeper ends with it */
		for (j = 0; j < count && !same_name(text, env[j]); j++)
			;
		env[j] = text;
		count += j == count;
	}
	*s = *k->spec;
	s->env = (const char *const *)env;
	s->env_count = count;
	k->spec = s;
	return 0;
}

/* {"target": "/workspace", "source": "/srv/it"}; by the time it is asked for, nothing has run in the sandbox. */
static int swap_mount(struct keeper *k, const json_t *mount, struct err *e)
{
	const char *target = NULL, *source = NULL;

	if (json_get_str(mount, "target", &target, "mount", e) < 0 || json_get_str(mount, "source", &source, "mount", e) < 0)
		return -1;
	if (!target || target[0] != '/' || !source || source[0] != '/')
		return err_set(e, ERR_INVALID, "\"mount\" has a target and a source, both absolute");
	return sandbox_swap_mount(&k->sandbox, target, source, e);
}

int keeper_op_adopt(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const char *token = request_token(rq->json, NULL);
	json_t *env = request_env(rq->json), *mount = request_mount(rq->json), *item;
	size_t i;

	if (!token || !token[0] || strlen(token) >= sizeof(k->adopted))
		return err_set(e, ERR_INVALID, "\"token\" has 1 to %zu bytes", sizeof(k->adopted) - 1);
	json_array_foreach(env, i, item) {
		const char *text = json_string_value(item);

		if (!text || strlen(text) != json_string_length(item) || text[0] == '=' || !strchr(text, '='))
			return err_set(e, ERR_INVALID, "\"env\" holds something else than NAME=VALUE");
	}
	if (k->adopted[0] && strcmp(k->adopted, token))
		return err_set(e, ERR_EXISTS, "the sandbox belongs to another claim already");
	if (!k->adopted[0] && ((mount && swap_mount(k, mount, e) < 0) || merge_env(k, env, e) < 0))
		return -1;
	snprintf(k->adopted, sizeof(k->adopted), "%s", token);
	keeper_answer(k, rq->client, json_pack("{s:b}", "adopted", 1), NULL, 0);
	return 0;
}
