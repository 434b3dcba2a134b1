/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/volume_own.h"

#include "base/mem.h"
#include "manager/host/volume.h"

#define OWN_FILE "own-volumes.json"
#define OWN_FORMAT 1

int volume_own_save(struct registry *r, const char *id, const json_t *names, int passing,
		    struct err *e)
{
	autojson json_t *doc = json_pack("{s:i,s:O}", "version", OWN_FORMAT, "volumes", names);

	if (!doc)
		return err_nomem(e);
	return passing ? registry_save_passing(r, id, OWN_FILE, doc, e) :
			 registry_save(r, id, OWN_FILE, doc, e);
}

json_t *volume_own_load(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *doc = registry_load(r, id, OWN_FILE, &ignored);
	json_t *names = json_object_get(doc, "volumes");

	return json_array_size(names) ? json_incref(names) : NULL;
}

void volume_own_remove(struct registry *r, const json_t *names)
{
	struct err ignored;
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)names, i, one) {
		char key[VOLUME_KEY_MAX];
		const char *name = json_string_value(one);

		/* a volume that cannot be removed is one without users, which a prune removes */
		if (i < VOLUME_OWN_MAX && name && volume_key(name, "", key, &ignored) == 0)
			volume_remove(r, key, &ignored);
	}
}
