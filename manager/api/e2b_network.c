/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's rules of the network of a sandbox that is there (e2b_rules.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/e2b.h"
#include "manager/api/e2b_rules.h"

#define FILE_NAME "e2b.json" /* beside the record: what the client said */
#define SPEC_FILE "spec.json"

/* ---- what was asked for --------------------------------------------------------------------- */

int e2b_network_note(struct box *b, const json_t *access, const json_t *network, struct err *e)
{
	static const char *const members[] = {"allowOut", "denyOut"};
	autojson json_t *note = json_object(), *rules = json_object();
	size_t i;

	for (i = 0; i < ARRAY_LEN(members); i++)
		if (e2b_rules_given(network, members[i]))
			json_object_set(rules, members[i], json_object_get(network, members[i]));
	if (json_object_size(rules))
		json_object_set(note, "network", rules);
	if (json_is_boolean(access))
		json_object_set(note, "allowInternetAccess", (json_t *)(size_t)access);
	return note && rules ? registry_save(&b->registry, b->id, FILE_NAME, note, e) :
			       err_nomem(e);
}

void e2b_network_tell(struct box *b, json_t *description)
{
	struct err ignored;
	autojson json_t *note = registry_load(&b->registry, b->id, FILE_NAME, &ignored);

	if (note)
		json_object_update(description, note);
}

void e2b_network_inherit(struct box *b, const char *id)
{
	struct err ignored;
	autojson json_t *note = registry_load(&b->registry, b->id, FILE_NAME, &ignored);

	if (note)
		registry_save(&b->registry, id, FILE_NAME, note, &ignored);
}

/* ---- a change -------------------------------------------------------------------------------- */

static const char *mode_of(const json_t *spec)
{
	const char *mode = "none";
	const json_t *pair;
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, pair)
		if (!strcmp(json_string_value(json_array_get(pair, 0)), "network"))
			mode = json_string_value(json_array_get(pair, 1));
	return mode;
}

static int change(struct http_request *rq, struct box *b, json_t *options, struct err *e)
{
	json_t *call = call_of("update", b->id, NULL), *made;

	call_flag(call, "reset-rules");
	call_options(call, options);
	made = spawn_json(rq, call, 1, e);
	json_decref(made);
	return made ? 0 : -1;
}

static int apply(struct http_request *rq, struct box *b, const struct e2b_rules *r, struct err *e)
{
	autojson json_t *options = NULL, *spec = registry_load(&b->registry, b->id, SPEC_FILE, e);
	int egress;

	if (!spec)
		return -1;
	egress = !strcmp(mode_of(spec), "egress");
	if (!egress && strcmp(mode_of(spec), "bridge"))
		return r->closed ? 0 : e2b_rules_refuse_none(e);
	if (!egress && json_array_size(r->names))
		return err_set(
			e, ERR_UNSUPPORTED,
			"sandbox %s was made without names in network.allowOut, and rules by "
			"name cannot be added; hint: create it with allowInternetAccess: "
			"false, or with names",
			b->id);
	options = e2b_rules_options(r, egress, e);
	return options ? change(rq, b, options, e) : -1;
}

static int put_network(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq),
		     *access = json_object_get(body, "allow_internet_access");
	autojson json_t *record = NULL, *live = NULL;
	autofree struct e2b_rules *r = calloc(1, sizeof(*r));
	struct box b;
	int result = e2b_look(&b, rq, &record, &live, e);

	if (result == 0 && !r)
		result = err_nomem(e);
	if (result == 0)
		result = e2b_rules_check(body, e);
	if (result == 0)
		result = e2b_rules_read(access, body, r, e);
	if (result == 0)
		result = box_lock(&b, e);
	if (result == 0)
		result = apply(rq, &b, r, e);
	if (result == 0)
		result = e2b_network_note(&b, access, body, e);
	if (r)
		json_decref(r->names);
	box_close(&b);
	return result < 0 ? -1 : http_reply_empty(rq, 204, e);
}

const struct http_route e2b_network_routes[] = {
	{"PUT", "/sandboxes/{id}/network", put_network, "E2B: other rules for its network",
	 HTTP_JSON, .status = 204, .shape_error = e2b_error, .error_schema = "Document"},
	{NULL},
};
