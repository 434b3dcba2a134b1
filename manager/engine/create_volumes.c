/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes that nobody named (docker run -v /PATH, VOLUME), and the directory of an image. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/create.h"
#include "manager/engine/id.h"
#include "manager/host/volume.h"

/* "/a/b", without the slashes at its end; -1 for what is no path of a mount. */
static int clean(const char *target, char ret[PATH_MAX])
{
	size_t n = strlen(target);

	while (n > 1 && target[n - 1] == '/')
		n--;
	if (target[0] != '/' || n < 2 || n >= PATH_MAX || strpbrk(target, ":\n"))
		return -1;
	snprintf(ret, PATH_MAX, "%.*s", (int)n, target);
	return 0;
}

int engine_create_anonymous(struct engine_create *c, const char *target, int read_only,
			    struct err *e)
{
	char path[PATH_MAX], name[ENGINE_ID];

	if (clean(target, path) < 0)
		return err_set(e, ERR_INVALID,
			       "invalid volume specification: '%.200s': a mount path is absolute, "
			       "not /, and without a colon",
			       target);
	if (json_object_get(c->targets, path))
		return read_only ?
			       err_set(e, ERR_INVALID, "Duplicate mount point: %.200s", path) :
			       0;
	if (json_object_size(c->anonymous) >= VOLUME_OWN_MAX)
		return err_set(e, ERR_LIMIT, "more than %d volumes without a name in one container",
			       VOLUME_OWN_MAX);
	if (engine_new_id(name) < 0)
		return err_sys(e, "choose a name");
	json_object_set_new(c->targets, path, json_true());
	return json_object_set_new(c->anonymous, path, json_string(name)) < 0 ?
		       err_nomem(e) :
		       engine_word(c, e, "--volume=%s:%s%s", name, path, read_only ? ":ro" : "");
}

/* What an image asks for is left in the container's layer where the host has no room for it. */
static int add_of_image(struct engine_create *c, const json_t *config, uint64_t room,
			struct err *e)
{
	const char *target;
	char path[PATH_MAX];
	json_t *unused;

	json_object_foreach (json_object_get(config, "Volumes"), target, unused) {
		if (clean(target, path) < 0 || json_object_get(c->targets, path))
			continue;
		if (json_object_size(c->anonymous) >= room ||
		    json_object_size(c->anonymous) >= VOLUME_OWN_MAX) {
			if (engine_warn(c, e, "the image's volume at %.200s is a part of the "
					      "container's own layer, as no more volumes can be "
					      "made; docker volume prune makes room", path) < 0)
				return -1;
		} else if (engine_create_anonymous(c, path, 0, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int engine_create_volumes(struct engine_create *c, const json_t *body, struct err *e)
{
	const char *target, *image = "", *own = "", *dir;
	autojson json_t *config = NULL;
	json_t *volumes, *unused;
	uint64_t room = 0;

	if (engine_obj(body, "Volumes", &volumes, e) < 0 ||
	    engine_str(body, "Image", &image, e) < 0 ||
	    engine_str(body, "WorkingDir", &own, e) < 0)
		return -1;
	json_object_foreach (volumes, target, unused)
		if (engine_create_anonymous(c, target, 0, e) < 0)
			return -1;
	config = c->rules->config ? c->rules->config(c->rules->ctx, image, &room) : NULL;
	dir = json_string_value(json_object_get(config, "WorkingDir"));
	/* berth has a directory of its own where neither says one, and Docker the root */
	if (config && !own[0] && !(dir && dir[0]) && engine_word(c, e, "--workdir=/") < 0)
		return -1;
	return add_of_image(c, config, room, e);
}
