/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "manager/keeper/protocol.h"

struct row {
	const char *name;
	enum protocol_type type;
};

static const struct row rows[] = {
#define X(name, type) { #name, PROTOCOL_##type },
	PROTOCOL_MEMBERS(X)
#undef X
};

static json_t *good(enum protocol_type type)
{
	switch (type) {
	case PROTOCOL_STRING:
		return json_string("x");
	case PROTOCOL_STRINGS:
		return json_pack("[s,s]", "a", "b");
	case PROTOCOL_NUMBER:
		return json_integer(0);
	case PROTOCOL_LIMIT:
		return json_string("unlimited");
	case PROTOCOL_FLAG:
		return json_false();
	case PROTOCOL_OBJECT:
		return json_object();
	}
	return NULL;
}

/* A request of op with one more member; consumes v. */
static enum protocol_op check_with(enum protocol_op op, const char *key, json_t *v, struct err *e)
{
	autojson json_t *rq = json_pack("{s:s}", "op", protocol_operations[op].name);

	json_object_set_new(rq, key, v);
	memset(e, 0, sizeof(*e));
	return protocol_check(rq, 0, e);
}

#define EACH_MEMBER(op, has) \
	for (enum protocol_op op = 0; op < OP_COUNT; op++) \
		for (const struct protocol_has *has = protocol_operations[op].members; has->since; \
		     has++)

Test(protocol, an_unknown_member_of_any_operation_is_refused_by_name)
{
	struct err e;

	for (enum protocol_op op = 0; op < OP_COUNT; op++) {
		cr_assert_eq(check_with(op, "no_such_member", json_true(), &e), OP_COUNT);
		cr_assert_eq(e.code, ERR_INVALID);
		cr_assert(strstr(e.msg, "\"no_such_member\"") &&
				  strstr(e.msg, protocol_operations[op].name),
			  "%s", e.msg);
	}
}

Test(protocol, a_member_of_a_wrong_type_is_refused_by_name)
{
	struct err e;

	EACH_MEMBER(op, has)
	{
		const struct row *m = &rows[has->member];
		json_t *const wrong[] = {
			json_real(1.5), json_integer(-1), json_pack("[i]", 1), json_string("many"),
			json_true(),	json_object(),	  json_array(),
		};
		size_t i, refused = 0;

		for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
			if (check_with(op, m->name, wrong[i], &e) != OP_COUNT)
				continue;
			refused++;
			cr_assert(e.code == ERR_INVALID && strstr(e.msg, m->name) &&
					  strstr(e.msg, " is not "),
				  "%s", e.msg);
		}
		/* all but the one that has its type */
		cr_assert_eq(refused, 6 + (m->type == PROTOCOL_NUMBER || m->type == PROTOCOL_LIMIT),
			     "%s of %s: %zu", m->name, protocol_operations[op].name, refused);
	}
}

Test(protocol, a_member_of_its_type_and_null_are_taken)
{
	struct err e;

	EACH_MEMBER(op, has)
	{
		cr_assert_eq(
			check_with(op, rows[has->member].name, good(rows[has->member].type), &e),
			op, "%s", e.msg);
		cr_assert_eq(check_with(op, rows[has->member].name, json_null(), &e), op, "%s",
			     e.msg);
	}
}

Test(protocol, an_operation_is_one_of_the_table_and_takes_so_many_descriptors)
{
	autojson json_t *none = json_object(), *number = json_pack("{s:i}", "op", 1),
			*other = json_pack("{s:s}", "op", "dance");
	struct err e;

	cr_assert_eq(protocol_check(none, 0, &e), OP_COUNT);
	cr_assert_eq(protocol_check(number, 0, &e), OP_COUNT);
	cr_assert_eq(protocol_check(other, 0, &e), OP_COUNT);
	cr_assert(strstr(e.msg, "dance"));
	for (enum protocol_op op = 0; op < OP_COUNT; op++) {
		autojson json_t *rq = json_pack("{s:s}", "op", protocol_operations[op].name);

		cr_assert_eq(protocol_find(protocol_operations[op].name), op);
		cr_assert_eq(protocol_check(rq, protocol_operations[op].fds, &e), op);
		cr_assert_eq(protocol_check(rq, protocol_operations[op].fds + 1, &e), OP_COUNT);
		cr_assert(strstr(e.msg, "descriptors"));
	}
}

Test(protocol, a_request_needs_the_version_of_its_newest_part)
{
	autojson json_t *unknown = json_pack("{s:s,s:b}", "op", "ping", "no_such_member", 1);

	cr_assert_eq(protocol_needs(unknown), PROTOCOL_VERSION);
	EACH_MEMBER(op, has)
	{
		autojson json_t *rq = json_pack("{s:s}", "op", protocol_operations[op].name);
		const unsigned since = protocol_operations[op].since;

		cr_assert_eq(protocol_needs(rq), since);
		json_object_set_new(rq, rows[has->member].name, good(rows[has->member].type));
		cr_assert_eq(protocol_needs(rq), has->since > since ? has->since : since);
		cr_assert_leq(protocol_needs(rq), PROTOCOL_VERSION);
	}
}

Test(protocol, members_are_read_with_their_type)
{
	autojson json_t *rq = json_pack("{s:s,s:i,s:s,s:b,s:n,s:[s]}", "text", "t", "timeout_ms", 5,
					"pids", "unlimited", "tty", 1, "user", "argv", "a");

	cr_assert_str_eq(request_text(rq, NULL), "t");
	cr_assert_str_eq(request_user(rq, "root"), "root");
	cr_assert_eq(request_timeout_ms(rq, 9), 5);
	cr_assert_eq(request_grace_ms(rq, 9), 9);
	cr_assert_eq(request_pids(rq, 9), PROTOCOL_UNLIMITED);
	cr_assert(request_tty(rq) && !request_detach(rq));
	cr_assert_eq(json_array_size(request_argv(rq)), 1);
	cr_assert_null(request_env(rq));
}
