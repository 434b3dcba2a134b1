/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/exec.h"

#include <string.h>

#include "base/mem.h"

#include "manager/engine/create.h"
#include "manager/keeper/protocol.h"

int engine_exec_check(json_t *body, struct err *e)
{
	static const char *const known[] = { "AttachStdin", "AttachStdout", "AttachStderr", "Cmd", "ConsoleSize", "Detach",
					     "DetachKeys", "Env", "Privileged", "Tty", "User", "WorkingDir", NULL };
	const char *text = "";
	json_t *argv, *env;
	int on = 0;
	size_t i;

	if (engine_fold(body, known, e) < 0 || engine_arr(body, "Cmd", &argv, e) < 0 || engine_arr(body, "Env", &env, e) < 0 ||
	    engine_str(body, "User", &text, e) < 0 ||
	    engine_str(body, "WorkingDir", &text, e) < 0 || engine_flag(body, "Tty", &on, e) < 0 ||
	    engine_flag(body, "AttachStdin", &on, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(argv); i++)
		if (!engine_item(argv, i, "Cmd", e))
			return -1;
	for (i = 0; i < json_array_size(env); i++)
		if (!engine_item(env, i, "Env", e))
			return -1;
	return json_array_size(argv) ? 0 : err_set(e, ERR_INVALID, "No exec command specified");
}

/* A name alone takes a variable away that the client does not have: it is in no environment. */
static json_t *with_values(const json_t *env)
{
	json_t *all = json_array(), *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)env, i, one)
		if (strchr(json_string_value(one), '='))
			json_array_append(all, one);
	return all;
}

json_t *engine_exec_request(const json_t *body)
{
	json_t *ask = protocol_request(OP_exec);
	const char *user = json_string_value(json_object_get(body, "User"));
	const char *dir = json_string_value(json_object_get(body, "WorkingDir"));
	json_t *env = json_object_get(body, "Env");
	autojson json_t *whole = NULL;
	struct err ignored;

	request_set_argv(ask, json_deep_copy(json_object_get(body, "Cmd")));
	request_set_detach(ask, 1);
	request_set_timeout_ms(ask, 0);
	if (json_array_size(env))
		request_set_env(ask, with_values(env));
	whole = engine_user_groups(user ? user : "", json_object_get(body, ENGINE_EXEC_GROUPS), &ignored);
	if (user && user[0])
		request_set_user(ask, whole ? json_string_value(whole) : user);
	if (dir && dir[0])
		request_set_workdir(ask, dir);
	if (json_is_true(json_object_get(body, "Tty")))
		request_set_tty(ask, 1);
	return ask;
}
