/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/volumes.h"

#include <string.h>

#include "base/mem.h"
#include "manager/engine/accept.h"
#include "manager/engine/calllabels.h"
#include "manager/engine/create.h"
#include "manager/engine/id.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/ops/call.h"

static json_t *records_of(const struct engine_berth *b, struct err *e)
{
	return engine_look(b, call_of("volume ls", NULL), e);
}

json_t *engine_volume_list(const struct engine_berth *b, const json_t *filters, struct err *e)
{
	autojson json_t *records = records_of(b, e);

	return records ? engine_volumes(records, filters) : NULL;
}

static int no_volume(const char *called, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "get %.100s: no such volume", called);
}

json_t *engine_volume_find(const struct engine_berth *b, const char *called, struct err *e)
{
	autojson json_t *records = records_of(b, e);
	char name[ENGINE_NAME];
	const json_t *record;
	size_t i;

	if (!records)
		return NULL;
	if (engine_name_map(called, name) >= 0)
		json_array_foreach (records, i, record) {
			const char *its = json_string_value(json_object_get(record, "name"));

			if (its && !strcmp(its, name))
				return engine_volume(record);
		}
	no_volume(called, e);
	return NULL;
}

/* ---- making them ----------------------------------------------------------------------------- */

/* Docker's own driver mounts what "type", "device" and "o" say: that would be a mount of the host's. */
static int add_driver_options(json_t *call, const char *called, const json_t *options, struct err *e)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(size_t)options, key, value) {
		if (strcmp(key, "size") != 0)
			return err_set(e, ERR_INVALID,
				       "create %.80s: the option \"%.40s\" of a volume cannot be had; "
				       "hint: size bounds one, and a bind mount shows a directory of the host",
				       called, key);
		if (!json_is_string(value))
			return err_set(e, ERR_INVALID, "create %.80s: the size is not a string", called);
		call_set(call, "size", json_incref(value));
	}
	return 0;
}

/* unnamed: nobody chose the name; labels and options may be NULL. */
static int make(const struct engine_berth *b, const char *called, const json_t *labels, const json_t *options,
		int unnamed, struct err *e)
{
	autojson json_t *made = NULL;
	char name[ENGINE_NAME];
	json_t *call;

	if (engine_name_map(called, name) < 0)
		return err_set(e, ERR_INVALID,
			       "create %.80s: \"%.80s\" includes invalid characters for a local "
			       "volume name, only \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are allowed. If you "
			       "intended to pass a host directory, use absolute path",
			       called, called);
	call = call_of("volume create", name, NULL);
	if (unnamed)
		call_text(call, "label", ENGINE_VOLUME_ANONYMOUS "=");
	engine_call_named(call, called, name);
	if (engine_call_labels(call, labels, e) == 0 && add_driver_options(call, called, options, e) == 0)
		made = engine_do(b, call, e);
	else
		json_decref(call);
	return made || e->code == ERR_EXISTS ? 0 : -1;
}

json_t *engine_volume_create(const struct engine_berth *b, const json_t *body, struct err *e)
{
	const char *name = "", *driver = "local";
	json_t *labels, *options, *cluster;
	char fresh[ENGINE_ID];

	*e = (struct err){ 0 };
	if (engine_str(body, "Name", &name, e) < 0 || engine_str(body, "Driver", &driver, e) < 0 ||
	    engine_obj(body, "Labels", &labels, e) < 0 || engine_obj(body, "DriverOpts", &options, e) < 0 ||
	    engine_obj(body, "ClusterVolumeSpec", &cluster, e) < 0)
		return NULL;
	if (cluster)
		err_set(e, ERR_UNSUPPORTED, "create %.80s: there are no cluster volumes without a swarm", name);
	else if (driver[0] && strcmp(driver, "local"))
		err_set(e, ERR_NOT_FOUND, "create %.80s: error looking up volume plugin %.60s: plugin \"%.60s\" not found", name, driver,
			driver);
	else if (!name[0] && engine_new_id(fresh) < 0)
		err_sys(e, "choose a name");
	if (e->code || make(b, name[0] ? name : fresh, labels, options, !name[0], e) < 0)
		return NULL;
	return engine_volume_find(b, name[0] ? name : fresh, e);
}

int engine_volumes_make(const struct engine_berth *b, const json_t *volumes, int unnamed, struct err *e)
{
	const char *key;
	json_t *called;

	json_object_foreach ((json_t *)(size_t)volumes, key, called)
		if (make(b, json_string_value(called), NULL, NULL, unnamed, e) < 0)
			return -1;
	return 0;
}

/* ---- removing them --------------------------------------------------------------------------- */

static int drop(const struct engine_berth *b, const char *name, struct err *e)
{
	autojson json_t *said = engine_do(b, call_of("volume rm", name, NULL), e);

	return said ? 0 : -1;
}

int engine_volume_remove(const struct engine_berth *b, const char *called, int force, struct err *e)
{
	char name[ENGINE_NAME];
	struct err why;

	if (engine_name_map(called, name) < 0)
		no_volume(called, e);
	else if (drop(b, name, e) == 0)
		return 0;
	if (e->code == ERR_NOT_FOUND)
		return force ? 0 : no_volume(called, e);
	why = *e;
	return e->code == ERR_BUSY ? err_set(e, ERR_BUSY, "remove %.255s: volume is in use - %.200s", called, why.msg) : -1;
}

void engine_volumes_drop(const struct engine_berth *b, const json_t *names)
{
	struct err ignored;
	const char *target;
	json_t *one;
	size_t i;

	/* each alone: one that another container has stays */
	json_array_foreach ((json_t *)(size_t)names, i, one)
		drop(b, json_string_value(one), &ignored);
	json_object_foreach ((json_t *)(size_t)names, target, one)
		drop(b, json_string_value(one), &ignored);
}

json_t *engine_volume_prune(const struct engine_berth *b, json_t *filters, struct err *e)
{
	autojson json_t *all = engine_volumes_prunable(filters, e) < 0 ? NULL : engine_volume_list(b, filters, e);
	autojson json_t *gone = json_array();
	json_int_t freed = 0;
	const json_t *v;
	size_t i;

	if (!all)
		return NULL;
	json_array_foreach (all, i, v) {
		json_t *called = json_object_get(v, "Name");
		struct err ignored;

		/* one that a container took into use meanwhile stays */
		if (engine_volume_remove(b, json_string_value(called), 0, &ignored) < 0)
			continue;
		json_array_append(gone, called);
		freed += engine_volume_bytes(v);
	}
	return json_pack("{s:O,s:I}", "VolumesDeleted", gone, "SpaceReclaimed", freed);
}
