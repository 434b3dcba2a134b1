/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that an older berth wrote: session/ID, beat/ID and owner/MACHINE/ID, one namespace for
 * all owners. Each becomes the session of the owner that its mapping names. Every step is one
 * batch that other berthds see whole, and what changed in between is left to the next scan.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/service/state.h"

#define OLD_SESSION "session/"
#define OLD_BEAT "beat/"
#define OLD_OWNER "owner/"

struct old {
	json_t *list;	/* of {"key", "value", "version"} */
};

static int add_old(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct old *o = ctx;

	json_array_append_new(o->list, json_pack("{s:s,s:s,s:I}", "key", key, "value", value, "version", (json_int_t)version));
	return 0;
}

static json_t *scan_old(struct service *s, const char *prefix, struct err *e)
{
	struct old o = { json_array() };

	if (ledger_scan(s->ledger, prefix, add_old, &o, e) == 0)
		return o.list;
	json_decref(o.list);
	return NULL;
}

static const char *key_in(const json_t *old)
{
	return json_string_value(json_object_get(old, "key"));
}

static const char *value_in(const json_t *old)
{
	return json_string_value(json_object_get(old, "value"));
}

static uint64_t version_in(const json_t *old)
{
	return (uint64_t)json_integer_value(json_object_get(old, "version"));
}

/* The key kind/[MACHINE/]SESSION and its value instead of the old one. */
static int move(struct service *s, const char *kind, const char *session, const json_t *old, const char *value, uint64_t version, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op ops[] = {
		{ LEDGER_SET, key, value, version, 0 },
		{ LEDGER_DELETE, key_in(old), NULL, version_in(old), 0 },
	};

	if (snprintf(key, sizeof(key), "%s/%s", kind, session) > LEDGER_KEY_MAX)
		return err_set(e, ERR_CORRUPT, "the key of an older session is too long: %.80s", key);
	/* another has changed it: the next scan looks again */
	return ledger_commit(s->ledger, ops, ARRAY_LEN(ops), NULL, e) < 0 && e->code != ERR_BUSY ? -1 : 0;
}

static int drop(struct service *s, const json_t *old, struct err *e)
{
	struct ledger_op op = { LEDGER_DELETE, key_in(old), NULL, version_in(old), 0 };

	return ledger_commit(s->ledger, &op, 1, NULL, e) < 0 && e->code != ERR_BUSY ? -1 : 0;
}

/* Also where the owner has a session with that id by now: its sandboxes are joined. */
static int move_session(struct service *s, const json_t *old, const char *session, struct err *e)
{
	autojson json_t *map = json_parse(value_in(old), strlen(value_in(old)), RECORD_MAX, "a session's record", e), *now = NULL;
	autofree char *text = NULL;
	json_t *list, *name, *there;
	uint64_t version;
	size_t i, k;

	if (!map || session_load_map(s, session, &now, &version, e) < 0)
		return -1;
	if (!now)
		return move(s, "sessions", session, old, value_in(old), LEDGER_ABSENT, e);
	list = json_object_get(now, "containers");
	json_array_foreach(json_object_get(map, "containers"), i, name) {
		json_array_foreach(list, k, there)
			if (json_equal(there, name))
				break;
		if (k == json_array_size(list))
			json_array_append(list, name);
	}
	text = json_dumps(now, JSON_COMPACT);
	return text ? move(s, "sessions", session, old, text, version, e) : err_nomem(e);
}

/* The old ids, with the names that they get. */
static int name_sessions(const json_t *olds, json_t *names, struct err *e)
{
	json_t *old;
	size_t i;

	json_array_foreach(olds, i, old) {
		autojson json_t *map = json_parse(value_in(old), strlen(value_in(old)), RECORD_MAX, "a session's record", e);
		const char *ctx = key_in(old) + strlen(OLD_SESSION), *owner = json_string_value(json_object_get(map, "owner"));
		char session[SESSION_MAX + 1];

		if (!map || session_name(session, owner ? owner : "", ctx, e) < 0)
			return -1;
		json_object_set_new(names, ctx, json_string(session));
	}
	return 0;
}

static int move_sessions(struct service *s, const json_t *olds, const json_t *names, struct err *e)
{
	json_t *old;
	size_t i;

	json_array_foreach(olds, i, old)
		if (move_session(s, old, json_string_value(json_object_get(names, key_in(old) + strlen(OLD_SESSION))), e) < 0)
			return -1;
	return 0;
}

/* A heartbeat or an owner without a session says nothing. */
static int move_beats(struct service *s, const json_t *names, struct err *e)
{
	autojson json_t *olds = scan_old(s, OLD_BEAT, e);
	json_t *old;
	size_t i;

	json_array_foreach(olds, i, old) {
		const char *session = json_string_value(json_object_get(names, key_in(old) + strlen(OLD_BEAT)));

		if ((session ? move(s, "beats", session, old, value_in(old), LEDGER_ANY, e) : drop(s, old, e)) < 0)
			return -1;
	}
	return olds ? 0 : -1;
}

static int move_owners(struct service *s, const json_t *names, struct err *e)
{
	autojson json_t *olds = scan_old(s, OLD_OWNER, e);
	json_t *old;
	size_t i;

	json_array_foreach(olds, i, old) {
		const char *machine = key_in(old) + strlen(OLD_OWNER), *slash = strchr(machine, '/');
		const char *session = slash ? json_string_value(json_object_get(names, slash + 1)) : NULL;
		char kind[64];

		snprintf(kind, sizeof(kind), "owners/%.*s", slash ? (int)(slash - machine) : 0, machine);
		if ((session ? move(s, kind, session, old, value_in(old), LEDGER_ANY, e) : drop(s, old, e)) < 0)
			return -1;
	}
	return olds ? 0 : -1;
}

int sessions_move(struct service *s, struct err *e)
{
	autojson json_t *olds = scan_old(s, OLD_SESSION, e), *names = json_object();

	if (!olds || !json_array_size(olds))
		return olds ? 0 : -1;
	/* the sessions last: if berthd is killed in between, the next start moves the rest */
	return name_sessions(olds, names, e) < 0 || move_beats(s, names, e) < 0 || move_owners(s, names, e) < 0 ||
	       move_sessions(s, olds, names, e) < 0 ? -1 : 0;
}
