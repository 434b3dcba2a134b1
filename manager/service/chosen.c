/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a request that differ from its type: image, options, command. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/ops/call.h"
#include "manager/ops/params.h"
#include "manager/service/createargs.h"
#include "manager/service/state.h"

/*
 * chosen - the parts that a request sets itself instead of its type: image, options, command. The
 * record keeps it under "chosen", so that a restore makes the same sandbox.
 */

#define KEY "chosen"
#define BYTES_MAX (256u << 10) /* bytes of a record, which has RECORD_MAX in all */

static const json_t *chosen_member(const struct record *r, const char *member)
{
	const json_t *own = json_object_get(r->j, "berth");

	return json_object_get(json_object_get(own, KEY), member);
}

/* A sandbox of the manager is used at once, and its end is the manager's. */
static int check_chosen_options(const json_t *options, struct err *e)
{
	static const char *const refused[] = {"no-start", "auto-remove"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(refused); i++)
		if (json_object_get(options, refused[i]))
			return err_set(
				e, ERR_INVALID,
				"the option %s is not for a sandbox of a session; hint: leave "
				"it out, or POST /v1/sandboxes without the members session, "
				"sandbox_type, storage_path and auto_*",
				refused[i]);
	return 0;
}

int chosen_read(struct making *m, struct conf_pool *pool, struct err *e)
{
	m->pool = pool;
	m->what = (struct createargs){
		.image = pool->image,
		.pull = pool->pull,
		.zygote = pool->zygote,
		.tenant = tenancy_is_tenant(m->who) ? m->who->name : NULL,
	};
	if (zygotetype_check(pool, m->args, e) < 0)
		return -1;
	m->chosen = createargs_are_given(m->args);
	if (!m->chosen) {
		/* a type is the operator's choice, which [tenant] does not limit */
		m->what.tenant = NULL;
		return 0;
	}
	m->what.own = m->who ? m->who->own : NULL;
	if (createargs_read(&m->what, m->args, e) < 0 || check_chosen_options(m->what.options, e) < 0)
		return -1;
	if (m->what.image == pool->image) {
		m->what.pull = pool->pull;
		return 0;
	}
	if (strlen(m->what.image) >= sizeof(pool->image))
		return err_set(e, ERR_INVALID, "the name of the image has more than %zu bytes",
			       sizeof(pool->image) - 1);
	snprintf(pool->image, sizeof(pool->image), "%s", m->what.image);
	return 0;
}

int chosen_note(struct record *r, const struct making *m, struct err *e)
{
	autojson json_t *all = json_object();
	json_t *options = json_copy(m->what.options), *v;
	size_t i;

	/* the record has these two, as they are now */
	json_object_del(options, "memory");
	json_object_del(options, "cpus");
	for (i = 0; m->chosen && i < CREATEARGS_MEMBERS; i++) {
		v = json_object_get(m->args, createargs_members[i]);
		if (options && !strcmp(createargs_members[i], "options"))
			v = options;
		if (v && !json_is_null(v))
			json_object_set_new(all, createargs_members[i], json_deep_copy(v));
	}
	json_decref(options);
	if (!json_object_size(all))
		return 0;
	if (json_dumpb(all, NULL, 0, JSON_COMPACT) > BYTES_MAX)
		return err_set(e, ERR_LIMIT, "the options and the command have more than %u bytes",
			       BYTES_MAX);
	record_set_own(r, KEY, json_incref(all));
	return 0;
}

void chosen_add(json_t *args, const struct record *from)
{
	size_t i;

	for (i = 0; i < CREATEARGS_MEMBERS; i++) {
		const json_t *v = chosen_member(from, createargs_members[i]);

		if (v)
			json_object_set(args, createargs_members[i], (json_t *)(size_t)v);
	}
}

const char *chosen_user(const struct record *r)
{
	return json_string_value(json_object_get(chosen_member(r, "options"), "user"));
}

const char *chosen_pull(const struct record *r, const struct conf_pool *pool)
{
	const char *pull = json_string_value(chosen_member(r, "pull"));

	if (!chosen_member(r, "image"))
		return pool->pull;
	return tenancy_is_tenants(r) ? "never" : pull ? pull : pool->pull;
}
