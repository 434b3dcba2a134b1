/* SPDX-License-Identifier: Apache-2.0 */
/* The effective options of a lasting sandbox, for commands that show or change them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/live/resident.h"
#include "cli/run/imageuse.h"
#include "cli/run/specjson.h"
#include "manager/ops/lifeopts.h"
#include "manager/ops/runopts.h"

json_t *resident_describe(struct registry *r, const char *id, struct err *e)
{
	autojson json_t *spec = registry_load(r, id, SPEC_FILE, e);
	autoclose int dir = spec ? registry_keep_dir(r, id, e) : -1;
	struct image image = { 0 };
	json_t *result = NULL;
	struct err why = { 0 };
	struct runopts o;

	if (dir < 0)
		return NULL;
	runopts_init(&o, r->config);
	snprintf(o.spec.id, sizeof(o.spec.id), "%s", id);
	/* none: "host", or a directory, which say nothing themselves */
	if (image_load_pin(dir, &image, &why) < 0 && why.code != ERR_NOT_FOUND)
		*e = why;
	else if (resident_apply(&o, spec, e) == 0 && resident_settle_time(&o, e) == 0 &&
		 runopts_finish(&o, why.code ? NULL : &image, NULL, 0, e) == 0 && !(result = specjson_describe(&o.spec)))
		err_set(e, ERR_CORRUPT, "%s of sandbox %s cannot be described as UTF-8", SPEC_FILE, id);
	if (result && o.life.service.is_service &&
	    healthopts_take_image(&o, why.code ? NULL : &image, e) < 0) {
		json_decref(result);
		result = NULL;
	}
	specjson_asked(result, &o);
	if (result && o.life.health.argv)
		json_object_set_new(result, "healthcheck", health_spec_json(&o.life.health));
	runopts_release(&o);
	image_release(&image);
	return result;
}

json_t *resident_check_life(struct registry *r, const char *id, const json_t *spec,
			    uint64_t *ret_owner_grace_ms, struct err *e)
{
	autoclose int dir = registry_keep_dir(r, id, e);
	struct image image = { 0 };
	struct err why = { 0 };
	json_t *health = NULL;
	struct runopts o;
	int ok;

	if (dir < 0)
		return NULL;
	runopts_init(&o, r->config);
	ok = image_load_pin(dir, &image, &why) == 0 || why.code == ERR_NOT_FOUND;
	if (!ok)
		*e = why;
	ok = ok && resident_apply(&o, spec, e) == 0;
	if (ok && !o.life.service.is_service)	/* says which option only a service has */
		ok = serviceopts_finish(&o, NULL, e) == 0;
	else if (ok)
		ok = healthopts_take_image(&o, why.code ? NULL : &image, e) == 0;
	if (ok)
		health = o.life.health.argv ? health_spec_json(&o.life.health) : json_object();
	if (ok && !health)
		err_nomem(e);
	*ret_owner_grace_ms = o.life.owner_grace_ms;
	runopts_release(&o);
	image_release(&image);
	return health;
}
