/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/protocol.h"

#include <string.h>

#include "base/mem.h"

static const struct {
	const char *name;
	enum protocol_type type;
} members[] = {
#define X(name, type) { #name, PROTOCOL_##type },
	PROTOCOL_MEMBERS(X)
#undef X
};
_Static_assert(ARRAY_LEN(members) == MEMBER_COUNT && MEMBER_COUNT < UINT8_MAX,
	       "a row for each member");

static const struct protocol_has common[] = { PROTOCOL_COMMON { 0, 0 } };

#define X(name, wire, since, fds, flags, has) \
	static const struct protocol_has of_##name[] = { has { 0, 0 } };
PROTOCOL_OPERATIONS(X)
#undef X

const struct protocol_operation protocol_operations[OP_COUNT] = {
#define X(name, wire, since, fds, flags, has) { wire, since, fds, flags, of_##name },
	PROTOCOL_OPERATIONS(X)
#undef X
};

enum protocol_op protocol_find(const char *name)
{
	enum protocol_op op = 0;

	while (op < OP_COUNT && strcmp(protocol_operations[op].name, name) != 0)
		op++;
	return op;
}

static const struct protocol_has *find_in(const struct protocol_has *list, const char *key)
{
	for (; list->since; list++)
		if (!strcmp(members[list->member].name, key))
			return list;
	return NULL;
}

static const struct protocol_has *find_member(enum protocol_op op, const char *key)
{
	const struct protocol_has *found = find_in(protocol_operations[op].members, key);

	return found ? found : find_in(common, key);
}

static int is_number(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 0;
}

static int are_strings(const json_t *v)
{
	const json_t *one;
	size_t i;

	json_array_foreach(v, i, one) if (!json_is_string(one)) return 0;
	return json_is_array(v);
}

/* Returns NULL, or the type that v should have. */
static const char *wrong_member_type(enum protocol_type type, const json_t *v)
{
	switch (type) {
	case PROTOCOL_STRING:
		return json_is_string(v) ? NULL : "a string";
	case PROTOCOL_STRINGS:
		return are_strings(v) ? NULL : "an array of strings";
	case PROTOCOL_NUMBER:
		return is_number(v) ? NULL : "a whole number";
	case PROTOCOL_LIMIT:
		return is_number(v) || (json_is_string(v) &&
					!strcmp(json_string_value(v), "unlimited"))
			       ? NULL
			       : "a whole number or \"unlimited\"";
	case PROTOCOL_FLAG:
		return json_is_boolean(v) ? NULL : "true or false";
	case PROTOCOL_OBJECT:
		return json_is_object(v) ? NULL : "an object";
	}
	return "known";
}

static int check_request_members(enum protocol_op op, const json_t *rq, struct err *e)
{
	const struct protocol_has *has;
	const char *key, *want;
	json_t *v;

	json_object_foreach((json_t *)(size_t)rq, key, v)
	{
		has = find_member(op, key);
		if (!has)
			return err_set(e, ERR_INVALID,
				       "unknown member \"%.40s\" of the keeper's operation %s", key,
				       protocol_operations[op].name);
		want = json_is_null(v) ? NULL : wrong_member_type(members[has->member].type, v);
		if (want)
			return err_set(e, ERR_INVALID,
				       "\"%s\" of the keeper's operation %s is not %s", key,
				       protocol_operations[op].name, want);
	}
	return 0;
}

enum protocol_op protocol_check(const json_t *rq, size_t count, struct err *e)
{
	const char *name = NULL;
	enum protocol_op op;
	int r = json_get_str(rq, "op", &name, "request", e);

	if (r <= 0) {
		if (r == 0)
			err_set(e, ERR_INVALID, "a request without \"op\"");
		return OP_COUNT;
	}
	op = protocol_find(name);
	if (op == OP_COUNT)
		err_set(e, ERR_INVALID, "unknown operation '%.40s'", name);
	else if (count > protocol_operations[op].fds)
		err_set(e, ERR_INVALID,
			"the keeper's operation %s takes at most %u descriptors, not %zu", name,
			protocol_operations[op].fds, count);
	else if (check_request_members(op, rq, e) == 0)
		return op;
	return OP_COUNT;
}

unsigned protocol_needs(const json_t *rq)
{
	const char *name = json_string_value(json_object_get(rq, "op")), *key;
	const enum protocol_op op = name ? protocol_find(name) : OP_COUNT;
	const struct protocol_has *has;
	unsigned needs;
	json_t *v;

	if (op == OP_COUNT)
		return PROTOCOL_VERSION;
	needs = protocol_operations[op].since;
	json_object_foreach((json_t *)(size_t)rq, key, v)
	{
		has = find_member(op, key);
		if (!has)
			return PROTOCOL_VERSION;
		if (has->since > needs && !json_is_null(v))
			needs = has->since;
	}
	return needs;
}
