/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/resident.h"

#include <string.h>

#include "base/mem.h"
#include "manager/host/labels.h"
#include "manager/ops/params.h"
#include "manager/zygote/client.h"
#include "manager/zygote/list.h"
#include "runtime/sandbox/writable.h"

int resident_zygote_allows(int id)
{
	return !!(param_of(id)->rights & PARAM_WITH_ZYGOTE);
}

int resident_zygote_refuse(const char *option, struct err *e)
{
	return err_set(e, ERR_USAGE,
		       "--%s cannot be given with --zygote, as it is that of the zygote; hint: "
		       "berth zygote create --help tells what a zygote takes",
		       option);
}

struct promise resident_zygote_promise(const json_t *spec, const struct spec *s)
{
	const struct cgroup_limits *l = &s->limits;
	const json_t *z = json_object_get(spec, "zygote");
	const json_t *memory = json_object_get(z, "memory_bytes");
	const json_t *cpu = json_object_get(z, "cpu_milli");

	/* a fork of the sandbox, or an update, may have given it more */
	if (z && l->memory_bytes <= (uint64_t)json_integer_value(memory) &&
	    l->cpu_milli <= (uint64_t)json_integer_value(cpu))
		return (struct promise){.disk_bytes = s->disk_bytes};
	return (struct promise){.memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli, .disk_bytes = s->disk_bytes};
}

static int append_all(json_t *list, const json_t *more)
{
	return json_array_extend(list, (json_t *)(uintptr_t)more);
}

json_t *resident_zygote_spec(struct registry *r, const char *ref, const json_t *own, struct err *e)
{
	char id[65];
	autoclose int dir = zygote_open(r, ref, id, e);
	autojson json_t *z = dir < 0 ? NULL : zygote_describe(r, id, e);
	autojson json_t *options = json_array(), *owner = z ? zygote_owner(r, id) : NULL;
	json_t *spec;

	if (!z)
		return NULL;
	if (!json_object_get(z, "options")) {
		err_set(e, ERR_UNSUPPORTED,
			"an older berth made zygote %.80s, and sandboxes cannot live in it; hint: "
			"berth zygote rm and create",
			ref);
		return NULL;
	}
	if (json_is_string(json_object_get(z, "mode")) &&
	    strcmp(json_string_value(json_object_get(z, "mode")), "fork")) {
		err_set(e, ERR_UNSUPPORTED,
			"sandboxes cannot live in zygote %.80s, as its interpreter cannot be "
			"forked; hint: berth run --zygote %.80s CODE",
			ref, ref);
		return NULL;
	}
	if (append_all(options, json_object_get(z, "options")) < 0 ||
	    (own && append_all(options, own) < 0))
		return err_nomem(e), NULL;
	spec = json_pack("{s:i,s:O,s:O,s:O*,s:o*,s:{s:s,s:O,s:O,s:O,s:O*}}", "version",
			 REGISTRY_FORMAT, "image", json_object_get(z, "image"), "options", options,
			 "seccomp", json_object_get(z, "seccomp"), "sources", json_deep_copy(json_object_get(z, "sources")),
			 "zygote", "id", id, "name",
			 json_object_get(z, "name"), "memory_bytes",
			 json_object_get(z, "memory_bytes"), "cpu_milli",
			 json_object_get(z, "cpu_milli"), "tenant", owner);
	if (!spec)
		err_nomem(e);
	return spec;
}

/* One of that name that was made again, by the tenant whose the first was, or by the operator. */
static int take_again(struct registry *r, const char *name, const char *tenant,
		      struct zygote_home *ret, struct err *e)
{
	char id[65];
	int kept;

	if (!tenant)
		return zygote_home_open(r, name, ret, e);
	if (registry_find(r, name, id, &kept, e) < 0)
		return -1;
	if (!zygote_is_of(r, id, tenant))
		return err_set(e, ERR_NOT_FOUND, "zygote '%.80s' is another's", name);
	return zygote_home_open(r, id, ret, e);
}

/* By its id, or by its name. */
static int take_zygote_place(struct registry *r, const json_t *zygote, struct zygote_home *ret,
			     struct err *e)
{
	const char *id = json_string_value(json_object_get(zygote, "id"));
	const char *name = json_string_value(json_object_get(zygote, "name"));
	const char *tenant = json_string_value(json_object_get(zygote, "tenant"));

	if (!id)
		return err_set(e, ERR_CORRUPT, "%s names no zygote", SPEC_FILE);
	if (zygote_home_open(r, id, ret, e) == 0)
		return 0;
	if (e->code != ERR_NOT_FOUND)
		return -1;
	if (name && name[0] && take_again(r, name, tenant, ret, e) == 0)
		return 0;
	if (e->code != ERR_NOT_FOUND)
		return -1;
	if (!name || !name[0])
		return err_set(e, ERR_NOT_FOUND,
			       "the zygote of the sandbox has ended; hint: berth cp copies the "
			       "sandbox's files");
	return err_set(e, ERR_NOT_FOUND,
		       "the zygote of the sandbox has ended; hint: berth zygote create --name "
		       "%.80s makes it again",
		       name);
}

/* Files keep the ids that they have on disk, at first those of this start. */
static int show_ids(int disk_fd, uint32_t ids, struct err *e)
{
	uint32_t from = ids, shown;

	return writable_ids(disk_fd, &from, &shown, e) < 0 ||
			       writable_set_ids(disk_fd, from, ids, 0, e) < 0 ?
		       -1 :
		       0;
}

int resident_zygote_open(struct registry *r, const json_t *spec, int disk_fd,
			 struct zygote_home *ret, struct spec *s, struct err *e)
{
	const json_t *zygote = json_object_get(spec, "zygote");

	if (!zygote)
		return 0;
	if (s->network != NETWORK_NONE)
		return err_set(e, ERR_UNSUPPORTED,
			       "forks of a zygote have no network yet; hint: leave --network out");
	if (take_zygote_place(r, zygote, ret, e) < 0)
		return -1;
	s->project = s->id_base;
	s->id_base = ret->id_base;
	s->inside = &ret->inside;
	return show_ids(disk_fd, s->id_base, e) < 0 ? -1 : 1;
}

int resident_zygote_files(const json_t *spec, int disk_fd, const struct spec *s, struct err *e)
{
	return json_object_get(spec, "zygote") ? show_ids(disk_fd, s->id_base, e) : 0;
}
