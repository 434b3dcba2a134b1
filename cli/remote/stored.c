/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in the storage of berthd. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/remote/remote.h"

#define PATH_BUF BUF_INIT(65536)

static const char *text_of(const json_t *j, const char *key, char *ret, size_t n)
{
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(ret, n, s && s[0] ? s : "-", 0);
	return ret;
}

/* "/v1/checkpoints", the name of one unless NULL, and what follows. */
static int make_path(struct remote *r, struct buf *path, const char *name, const char *rest,
		     struct err *e)
{
	const char *tenant = remote_value(r, "tenant");

	if (buf_adds(path, "/v1/checkpoints", e) < 0)
		return -1;
	if (name && (buf_adds(path, "/", e) < 0 || remote_escape(path, name, e) < 0 ||
		     buf_adds(path, rest, e) < 0))
		return -1;
	return tenant ? remote_query(path, "tenant", tenant, e) : 0;
}

int remote_checkpoint_store(struct remote *r, struct err *e)
{
	const char *tenant = remote_value(r, "tenant");
	autojson json_t *body = json_object(), *made = NULL;
	autobuf struct buf path = PATH_BUF;
	char *at = strchr(r->words[0], '@'), name[200];

	if (!at)
		return err_set(e, ERR_USAGE,
			       "which checkpoint is not said; hint: berth checkpoints %.64s lists "
			       "them, and berth checkpoint store %.64s@k1 takes one",
			       r->words[0], r->words[0]);
	*at++ = '\0';
	remote_set_string(r, body, "name", "name");
	if (remote_path(&path, r->words[0], "/checkpoints/", e) < 0 ||
	    remote_escape(&path, at, e) < 0 || buf_adds(&path, "/store", e) < 0 ||
	    (tenant && remote_query(&path, "tenant", tenant, e) < 0))
		return -1;
	made = remote_call(r, "POST", path.data, body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	puts(text_of(made, "name", name, sizeof(name)));
	return 0;
}

int remote_checkpoint_stored(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	autojson json_t *all = NULL;
	char name[200], tenant[80], state[40], image[130];
	const json_t *one;
	size_t i;

	if (make_path(r, &path, NULL, "", e) < 0)
		return -1;
	all = remote_call(r, "GET", path.data, NULL, e);
	if (!all)
		return -1;
	if (r->json)
		return remote_print(json_incref(all), e);
	printf("%-30s  %-12s  %-9s  %9s  %s\n", "NAME", "TENANT", "STATE", "MIB", "IMAGE");
	json_array_foreach (json_object_get(all, "checkpoints"), i, one)
		printf("%-30s  %-12s  %-9s  %9.1f  %s\n",
		       text_of(one, "name", name, sizeof(name)),
		       text_of(one, "tenant", tenant, sizeof(tenant)),
		       text_of(one, "state", state, sizeof(state)),
		       (double)json_integer_value(json_object_get(one, "bytes")) / (1 << 20),
		       text_of(one, "image", image, sizeof(image)));
	return 0;
}

int remote_checkpoint_restore(struct remote *r, struct err *e)
{
	static const char *const flags[][2] = { { "trust", "trust" },
						{ "drop", "drop" },
						{ "no-start", "no_start" } };
	autojson json_t *body = json_object(), *made = NULL;
	autobuf struct buf path = PATH_BUF;
	size_t i;

	remote_set_string(r, body, "name", "name");
	for (i = 0; i < ARRAY_LEN(flags); i++)
		if (remote_flag(r, flags[i][0]))
			json_object_set_new(body, flags[i][1], json_true());
	if (make_path(r, &path, r->words[0], "/restore", e) < 0)
		return -1;
	made = remote_call(r, "POST", path.data, body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	remote_print_made("berth checkpoint restore", made);
	return 0;
}

int remote_checkpoint_discard(struct remote *r, struct err *e)
{
	autojson json_t *gone = json_array();
	int i;

	for (i = 0; i < r->count; i++) {
		autobuf struct buf path = PATH_BUF;
		autojson json_t *answer = NULL;

		if (make_path(r, &path, r->words[i], "", e) < 0)
			return -1;
		answer = remote_call(r, "DELETE", path.data, NULL, e);
		if (!answer)
			return -1;
		json_array_append_new(gone, json_string(r->words[i]));
		if (!r->json)
			puts(r->words[i]);
	}
	return r->json ? remote_print(json_pack("{s:O}", "removed", gone), e) : 0;
}
