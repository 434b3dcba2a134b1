/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S49 of SECURITY.md. */
#include "cli/image/portablespec.h"

#include <string.h>

#include "base/mem.h"
#include "manager/host/registry.h"
#include "manager/ops/params.h"

/* NAME without a value is a variable of the process that starts the sandbox. */
static int is_callers(const char *name, const char *value)
{
	return !strcmp(name, "env") && (!value || !strchr(value, '='));
}

/* Labels of this prefix say which part of berth made a sandbox, and berth prune obeys them. */
static int is_own_label(const char *value)
{
	return value && strncmp(value, "berth.", 6) != 0;
}

static int is_harmless(const char *name, const char *value)
{
	const struct param *p = param_named(name);

	if (!strcmp(name, "network"))
		return value && !strcmp(value, "none");
	if (!strcmp(name, "env"))
		return !is_callers(name, value);
	if (!strcmp(name, "label"))
		return is_own_label(value);
	if (!strcmp(name, "seccomp"))
		return value && (!strcmp(value, "strict") || !strcmp(value, "standard"));
	return p && p->rights & PARAM_BY_IMPORT;
}

static int check_trusted(const struct portablespec_rules *how, const char *name, const char *value,
			 struct err *e)
{
	autojson json_t *text = value ? json_string(value) : NULL;

	if (is_callers(name, value)) {
		err_set(e, ERR_DENIED,
			"the checkpoint's file asks for a variable of its importer, --env %.40s",
			value ? value : "");
		return err_hint(e, "--drop leaves it out");
	}
	if (!how->tenant)
		return 0;
	if (!strcmp(name, "label") && !is_own_label(value))
		return err_set(e, ERR_DENIED, "a label berth.* of a checkpoint's file needs an "
					      "admin token");
	return tenantopts_check(name, text, e);
}

static int check(const struct portablespec_rules *how, const char *name, const char *value,
		 struct err *e)
{
	if (how->trust || is_callers(name, value) || is_harmless(name, value))
		return check_trusted(how, name, value, e);
	return err_set(e, ERR_DENIED,
		       "the checkpoint's file asks for --%.40s, by which a sandbox may reach this "
		       "host or its networks; hint: --trust takes all that it asks for, --drop "
		       "leaves such options out",
		       name);
}

static int note_dropped(json_t *dropped, const char *name, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach (dropped, i, one)
		if (!strcmp(json_string_value(one), name))
			return 0;
	return json_array_append_new(dropped, json_string(name)) < 0 ? err_nomem(e) : 0;
}

static int take_option(const json_t *pair, json_t *to, const struct portablespec_rules *how,
		       json_t *dropped, struct err *e)
{
	const json_t *v = json_array_get(pair, 1);
	const char *name = json_string_value(json_array_get(pair, 0));
	const char *value = json_string_value(v);

	if (!name || (v && !value && !json_is_null(v)))
		return err_set(e, ERR_CORRUPT, "an option in checkpoint.json is damaged");
	if (check(how, name, value, e) < 0)
		return how->drop && e->code == ERR_DENIED ? note_dropped(dropped, name, e) : -1;
	return json_array_append(to, (json_t *)(size_t)pair) < 0 ? err_nomem(e) : 0;
}

/* A profile's text: 1 if it is taken, 0 if it is left out. */
static int takes_profile(const struct portablespec_rules *how, json_t *dropped, struct err *e)
{
	if (check(how, "seccomp", "a profile", e) == 0)
		return 1;
	return how->drop && e->code == ERR_DENIED ? note_dropped(dropped, "seccomp", e) : -1;
}

json_t *portablespec_take(const json_t *manifest, const struct portablespec_rules *how,
			  json_t *dropped, struct err *e)
{
	const json_t *spec = json_object_get(manifest, "spec");
	json_t *seccomp = json_object_get(spec, "seccomp"), *pair, *ret;
	const json_t *command = json_object_get(spec, "command");
	autojson json_t *options = json_array();
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, pair)
		if (take_option(pair, options, how, dropped, e) < 0)
			return NULL;
	if (seccomp) {
		const int taken = takes_profile(how, dropped, e);

		if (taken < 0)
			return NULL;
		if (!taken)
			seccomp = NULL;
	}
	ret = json_pack("{s:i,s:O,s:O,s:O*,s:O*}", "version", REGISTRY_FORMAT, "image",
			json_object_get(manifest, "image"), "options", options, "seccomp", seccomp,
			"command", command);
	if (!ret)
		err_nomem(e);
	return ret;
}

/* A tenant's network has the tenant's name behind its own. */
static json_t *plain_network(const json_t *pair)
{
	const char *value = json_string_value(json_array_get(pair, 1));

	return json_pack("[s,s%]", "network", value, strcspn(value, "@"));
}

json_t *portablespec_for_tenant(const json_t *spec, struct err *e)
{
	json_t *ret = json_copy((json_t *)(size_t)spec), *kept = json_array(), *pair;
	struct err ignored;
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		autojson json_t *own = name && !strcmp(name, "network") ? plain_network(pair) :
									   json_incref(pair);

		if (name && tenantopts_check(name, json_array_get(own, 1), &ignored) == 0)
			json_array_append(kept, own);
	}
	json_object_del(ret, "seccomp");
	if (json_object_set_new(ret, "options", kept) == 0)
		return ret;
	json_decref(ret);
	err_nomem(e);
	return NULL;
}
