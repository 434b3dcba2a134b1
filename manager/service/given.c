/* SPDX-License-Identifier: Apache-2.0 */
/*
 * given - names that callers gave to their sandboxes: given/NAME holds the name of the record.
 *
 * It is taken once the sandbox has that name on its host, so one host never gives it twice.
 * Among the hosts of a store, the first to take it keeps it. If its record is over or gone, the
 * name is free.
 */
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "manager/host/names.h"
#include "manager/service/state.h"

#define TAKE_TRIES 5

static void given_key_of(char out[LEDGER_KEY_MAX + 1], const char *given)
{
	snprintf(out, LEDGER_KEY_MAX + 1, "given/%s", given);
}

/* Looks the name up: 1 with the name of its record and the version of the key, 0 if no record has it. */
static int look_up_given(struct service *s, const char *given, char ret[65], uint64_t *ret_version, struct err *e)
{
	autobuf struct buf b = BUF_INIT(128);
	char key[LEDGER_KEY_MAX + 1];
	int r;

	*ret_version = LEDGER_ABSENT;
	given_key_of(key, given);
	r = ledger_get(s->ledger, key, &b, ret_version, e);
	if (r == 1)
		snprintf(ret, 65, "%s", b.data ? b.data : "");
	return r < 1 || !path_is_name(ret) ? (r < 0 ? -1 : 0) : 1;
}

int given_find(struct service *s, const char *given, char ret[65], struct err *e)
{
	uint64_t version;

	return look_up_given(s, given, ret, &version, e);
}

/* Returns 1 if the record of that name exists and is not over. */
static int is_in_use(struct service *s, const char *name)
{
	autorecord struct record r = { .j = NULL };
	struct err ignored;

	return record_load(s, NULL, name, 1, &r, &ignored) == 0 && !record_is_over(&r);
}

static int rename_sandbox(struct service *s, const struct record *r, const char *given, struct err *e)
{
	struct registry reg;
	int result = registry_open(&reg, &s->config, e);

	if (result < 0)
		return -1;
	result = registry_check_given(given, e) < 0 ?
			 -1 :
			 registry_rename(&reg, record_str(r, "container_id"), given, e);
	registry_close(&reg);
	/* a tenant may not learn the owner and the id */
	return result < 0 && e->code == ERR_EXISTS ? err_set(e, ERR_EXISTS, "another sandbox is named %s", given) : result;
}

void given_note(struct record *r, const json_t *args)
{
	const char *given = json_string_value(json_object_get(args, "name"));

	if (given)
		record_set_own(r, "name", json_string(given));
}

int given_take(struct service *s, const struct record *r, const char *given, const char *from, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1], other[65];
	int tries, found;

	if (rename_sandbox(s, r, given, e) < 0)
		return -1;
	given_key_of(key, given);
	for (tries = 0; tries < TAKE_TRIES; tries++) {
		struct ledger_op op = { LEDGER_SET, key, r->name, LEDGER_ABSENT, 0 };

		found = look_up_given(s, given, other, &op.version, e);
		if (found < 0)
			return -1;
		if (found && strcmp(other, r->name) && (!from || strcmp(other, from)) && is_in_use(s, other))
			return err_set(e, ERR_EXISTS, "another sandbox is named %s", given);
		if (ledger_commit(s->ledger, &op, 1, NULL, e) == 0)
			return 0;
		if (e->code != ERR_BUSY)
			return -1;
	}
	return -1;
}

void given_drop(struct service *s, const struct record *r)
{
	char key[LEDGER_KEY_MAX + 1], holder[65];
	struct ledger_op op = { LEDGER_DELETE, key, NULL, 0, 0 };
	const char *given = record_own(r, "name");
	struct err ignored;

	if (!given[0] || look_up_given(s, given, holder, &op.version, &ignored) < 1 || strcmp(holder, r->name))
		return;
	given_key_of(key, given);
	ledger_commit(s->ledger, &op, 1, NULL, &ignored);
}

void given_inherit(struct service *s, struct record *to, const struct record *from)
{
	const char *given = record_own(from, "name");
	struct err ignored;

	/* another sandbox may have taken it in between: then the redirect leads here */
	if (given[0] && given_take(s, to, given, from->name, &ignored) == 0)
		record_set_own(to, "name", json_string(given));
}
