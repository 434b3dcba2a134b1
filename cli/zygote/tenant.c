/* SPDX-License-Identifier: Apache-2.0 */
/* --tenant of berth zygote create.  Upholds S41 of SECURITY.md. */
#include "base/path.h"
#include "cli/zygote/zygote.h"

#define FORKS 8 /* of a tenant's zygote, unless --forks says other */

static void cap(uint64_t *preset, uint64_t most)
{
	if (*preset > most)
		*preset = most;
}

int zygote_tenant_open(struct zygote *z, struct err *e)
{
	struct tenant *t = &z->limits;
	struct config *c = &z->defaults;

	*c = z->config;
	if (!z->tenant)
		return 0;
	if (!path_is_name(z->tenant))
		return err_set(e, ERR_INVALID,
			       "'%.80s' is not a tenant's name; hint: a-z 0-9 _ . -", z->tenant);
	if (tenant_load(t, &z->config, z->tenant, e) < 0)
		return -1;
	cap(&c->memory_bytes, t->memory_bytes);
	cap(&c->swap_bytes, t->swap_bytes);
	cap(&c->cpu_milli, t->cpu_milli);
	cap(&c->pids, t->pids);
	cap(&c->disk_bytes, t->disk_bytes);
	cap(&c->disk_inodes, t->disk_inodes);
	cap(&c->tmp_bytes, t->tmp_bytes);
	z->max = t->zygote_forks < FORKS ? (unsigned)t->zygote_forks : FORKS;
	/* sandboxes of it are made with these, too */
	return tenant_cap_defaults(t, &z->config, z->options, e);
}

int zygote_tenant_image(struct zygote *z, struct err *e)
{
	const char *name;

	if (!z->tenant)
		return imageuse_open(&z->image, &z->registry, z->image_ref, &z->opts.spec, e);
	z->image_spec = json_pack("{s:s}", "image", z->image_ref);
	if (!z->image_spec || imageuse_own(&z->registry, &z->limits, z->image_spec) < 0)
		return err_nomem(e);
	name = json_string_value(json_object_get(z->image_spec, "image"));
	if (imageuse_open(&z->image, &z->registry, name, &z->opts.spec, e) < 0 ||
	    imageuse_check_seen(&z->image, &z->limits, &z->config, z->image_ref, e) < 0)
		return -1;
	z->image_ref = name;
	return 0;
}

int zygote_tenant_promise(struct zygote *z, struct err *e)
{
	const struct cgroup_limits *l = &z->opts.spec.limits;

	z->promise = (struct promise){.memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli};
	if (!z->tenant)
		return 0;
	z->promise = tenant_promise(&z->limits, l->memory_bytes, l->cpu_milli);
	return tenant_check_spec(&z->limits, &z->opts.spec, e);
}
