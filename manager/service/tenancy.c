/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tenants may have of the manager.  Upholds S41 of SECURITY.md.
 *
 * The promises are written where those of all sandboxes are (manager/host/promise.h): a tenant's sandboxes of the
 * manager and those of POST /v1/sandboxes are one sum.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/promise.h"
#include "manager/service/state.h"
#include "manager/service/tenancy.h"
#include "rootfs/store/image.h"

int tenancy_is_tenant(const struct service_who *who)
{
	return who && !who->admin && who->name && who->name[0];
}

void tenancy_blunt(const struct service_who *who, struct err *e)
{
	if (tenancy_is_tenant(who) && e->code == ERR_LIMIT)
		err_set(e, ERR_LIMIT, "this host has no room for the sandbox now; hint: ask for less, or again later; the operator's keys "
			"are [admission] and [manager] max_sandboxes in berth.toml");
}

int tenancy_open(struct service *s, struct config *c, struct registry *ret, struct err *e)
{
	*c = s->config;
	c->admit_memory_bytes = c->admit_cpu_milli = 0;
	return registry_open(ret, c, e);
}

int tenancy_check(struct service *s, const struct service_who *who, const json_t *args, uint64_t memory_bytes, uint64_t cpu_milli,
		  struct err *e)
{
	struct promise p;
	struct registry reg;
	struct config c;
	struct tenant t;
	int r;

	if (!tenancy_is_tenant(who))
		return 0;
	if (tenant_load(&t, &s->config, who->name, e) < 0)
		return -1;
	/* what a type has by itself is the operator's choice */
	if ((json_object_get(args, "memory") && tenant_check_memory(&t, memory_bytes, e) < 0) ||
	    (json_object_get(args, "cpus") && tenant_check_cpus(&t, cpu_milli, e) < 0))
		return -1;
	p = tenant_promise(&t, memory_bytes, cpu_milli);
	if (tenancy_open(s, &c, &reg, e) < 0)
		return -1;
	r = registry_lock(&reg, e);
	if (r == 0)
		r = promise_fits(&reg, &p, NULL, e);
	registry_close(&reg);
	return r;
}

/* The tenant sees and uses the sandbox by every route, as what it made itself. */
static int save_owner(struct registry *reg, const struct record *r, const char *tenant, struct err *e)
{
	autojson json_t *owner = json_pack("{s:s}", "name", tenant);

	return owner ? registry_save(reg, record_str(r, "container_id"), REGISTRY_OWNER, owner, e) : err_nomem(e);
}

int tenancy_promise(struct service *s, const struct service_who *who, const struct record *r, uint64_t memory_bytes, uint64_t cpu_milli,
		    struct err *e)
{
	struct promise p = { .memory_bytes = memory_bytes, .cpu_milli = cpu_milli };
	struct registry reg;
	struct config c;
	struct tenant t;
	int result;

	/* another berthd of this machine has a registry of its own, and counts what it made */
	if (strcmp(record_own(r, "state_dir"), s->config.state_dir))
		return 0;
	if (tenancy_is_tenant(who)) {
		if (tenant_load(&t, &s->config, who->name, e) < 0)
			return -1;
		p = tenant_promise(&t, memory_bytes, cpu_milli);
	}
	if (tenancy_open(s, &c, &reg, e) < 0)
		return -1;
	result = promise_change(&reg, record_str(r, "container_id"), &p, 0, NULL, e);
	if (result == 0 && p.tenant[0])
		result = save_owner(&reg, r, p.tenant, e);
	registry_close(&reg);
	return result;
}

int tenancy_of_record(struct service *s, const struct record *r, struct promise *ret, struct err *e)
{
	struct tenant t;

	*ret = (struct promise){ .memory_bytes = record_own_u64(r, "memory_bytes"), .cpu_milli = record_own_u64(r, "cpu_milli") };
	if (!tenancy_is_tenants(r))
		return 0;
	if (tenant_load(&t, &s->config, record_own(r, "owner"), e) < 0)
		return -1;
	*ret = tenant_promise(&t, ret->memory_bytes, ret->cpu_milli);
	return 0;
}

int tenancy_is_tenants(const struct record *r)
{
	return json_is_true(json_object_get(json_object_get(r->j, "berth"), "tenant"));
}

int tenancy_find_image(const struct tenant *t, const struct config *c, const char *ref,
		       char ret[REF_NAME_MAX + 1], struct err *e)
{
	const struct image_view v = tenant_view(t, c);
	char path[sizeof(c->state_dir) + 8];
	autojson json_t *record = NULL;
	autoclose int store = -1;
	const char *name;

	snprintf(path, sizeof(path), "%s/store", c->state_dir);
	store = store_open(path, e);
	record = store < 0 ? NULL : image_record_seen(store, &v, ref, e);
	name = json_string_value(json_object_get(record, "name"));
	if (!name)
		return record ? image_not_found(ref, e) : -1;
	snprintf(ret, REF_NAME_MAX + 1, "%s", name);
	return 0;
}
