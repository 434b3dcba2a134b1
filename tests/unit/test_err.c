/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static int terminated(const struct err *e)
{
	return memchr(e->msg, '\0', sizeof(e->msg)) != NULL;
}

Test(err, every_setter_returns_minus_one)
{
	struct err e = { 0 };

	errno = ENOENT;
	cr_expect_eq(err_set(&e, ERR_INVALID, "x"), -1);
	cr_expect_eq(err_sys(&e, "x"), -1);
	cr_expect_eq(err_errno(&e, EPERM, "x"), -1);
	cr_expect_eq(err_code_sys(&e, ERR_DENIED, "x"), -1);
	cr_expect_eq(err_wrap(&e, "x"), -1);
	cr_expect_eq(err_hint(&e, "x"), -1);
	cr_expect_eq(err_nomem(&e), -1);
}

Test(err, nobody_listening_is_no_crash)
{
	errno = ENOENT;
	cr_expect_eq(err_set(NULL, ERR_INVALID, "x"), -1);
	cr_expect_eq(err_sys(NULL, "x"), -1);
	cr_expect_eq(err_errno(NULL, EPERM, "x"), -1);
	cr_expect_eq(err_code_sys(NULL, ERR_DENIED, "x"), -1);
	cr_expect_eq(err_wrap(NULL, "x"), -1);
	cr_expect_eq(err_hint(NULL, "x"), -1);
	cr_expect_eq(err_nomem(NULL), -1);
}

Test(err, a_set_error_has_no_errno)
{
	struct err e = { .os_errno = 5 };

	errno = EIO;
	err_set(&e, ERR_LIMIT, "more than %d", 3);
	cr_expect_eq(e.code, ERR_LIMIT);
	cr_expect_eq(e.os_errno, 0);
	cr_expect_str_eq(e.msg, "more than 3");
}

Test(err, a_system_error_keeps_the_errno_of_its_statement)
{
	struct err e;

	errno = ENOENT;
	err_sys(&e, "open %s", "/x");
	cr_expect_eq(e.code, ERR_SYS);
	cr_expect_eq(e.os_errno, ENOENT);
	cr_expect_str_eq(e.msg, "open /x: No such file or directory");

	errno = EIO;
	err_errno(&e, EPERM, "send");
	cr_expect_eq(e.os_errno, EPERM);
	cr_expect_str_eq(e.msg, "send: Operation not permitted");

	errno = EACCES;
	err_code_sys(&e, ERR_DENIED, "open it");
	cr_expect_eq(e.code, ERR_DENIED);
	cr_expect_eq(e.os_errno, EACCES);
}

Test(err, enomem_has_a_code_of_its_own)
{
	struct err e;

	errno = ENOMEM;
	err_sys(&e, "fork");
	cr_expect_eq(e.code, ERR_NOMEM);
	err_errno(&e, ENOMEM, "fork");
	cr_expect_eq(e.code, ERR_NOMEM);
	err_nomem(&e);
	cr_expect_eq(e.code, ERR_NOMEM);
	cr_expect(e.msg[0]);
}

Test(err, context_goes_before_and_the_hint_behind)
{
	struct err e;

	err_set(&e, ERR_NOT_FOUND, "no such image");
	err_wrap(&e, "image %s", "a");
	err_wrap(&e, "run");
	err_hint(&e, "berth image %s", "ls");
	cr_expect_str_eq(e.msg, "run: image a: no such image; hint: berth image ls");
	cr_expect_eq(e.code, ERR_NOT_FOUND);
}

Test(err, context_keeps_code_and_errno)
{
	struct err e;

	errno = ENOSPC;
	err_sys(&e, "write");
	errno = 0;
	err_wrap(&e, "layer %d", 3);
	cr_expect_eq(e.code, ERR_SYS);
	cr_expect_eq(e.os_errno, ENOSPC);
	cr_expect_str_eq(e.msg, "layer 3: write: No space left on device");
}

Test(err, a_message_too_long_is_cut_and_terminated)
{
	static char huge[5000];
	struct err e;
	int i;

	memset(huge, 'a', sizeof(huge) - 1);
	memset(&e, 0xff, sizeof(e));
	err_set(&e, ERR_INVALID, "%s", huge);
	cr_assert(terminated(&e));
	cr_expect_eq(strlen(e.msg), sizeof(e.msg) - 1);
	errno = EIO;
	memset(&e, 0xff, sizeof(e));
	err_sys(&e, "%s", huge);
	cr_assert(terminated(&e));
	err_hint(&e, "%s", huge);
	cr_assert(terminated(&e));
	for (i = 0; i < 100; i++) {
		err_wrap(&e, "level %d", i);
		err_hint(&e, "more");
		cr_assert(terminated(&e));
	}
	err_wrap(&e, "%s", huge);
	cr_assert(terminated(&e));
	cr_expect_eq(strlen(e.msg), sizeof(e.msg) - 1);
}

Test(err, a_hint_is_added_to_a_message_of_any_length)
{
	char text[600];
	struct err e;
	size_t n;

	for (n = 0; n < sizeof(text) - 1; n++) {
		memset(text, 'x', n);
		text[n] = '\0';
		err_set(&e, ERR_INVALID, "%s", text);
		err_hint(&e, "do y");
		cr_assert(terminated(&e), "length %zu", n);
		if (n + strlen("; hint: do y") < sizeof(e.msg))
			cr_expect(strstr(e.msg, "; hint: do y"), "length %zu: %s", n, e.msg);
	}
}

Test(err, the_codes_map_to_the_documented_exit_statuses)
{
	static const struct { int code, status; const char *name; } t[] = {
		{ ERR_USAGE, 2, "usage" }, { ERR_INVALID, 2, "invalid" }, { ERR_TIMEOUT, 124, "timeout" },
		{ ERR_EXEC, 126, "not-executable" }, { ERR_EXEC_NOT_FOUND, 127, "command-not-found" },
		{ ERR_SYS, 125, "system" }, { ERR_NOT_FOUND, 125, "not-found" }, { ERR_LIMIT, 125, "limit" },
		{ ERR_UNSUPPORTED, 125, "unsupported" }, { ERR_NONE, 0, "ok" },
	};
	size_t i;
	int c;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cr_expect_eq(err_exit_status(t[i].code), t[i].status, "%s", t[i].name);
		cr_expect_str_eq(err_name(t[i].code), t[i].name);
	}
	for (c = 1; c < ERR_CODE_COUNT; c++) {
		cr_expect_neq(err_exit_status(c), 0, "an error that looks like success: %s", err_name(c));
		cr_expect_geq(err_http_status(c), 400, "%s", err_name(c));
	}
}

Test(err, an_unknown_code_is_an_internal_error)
{
	static const int odd[] = { -1, ERR_CODE_COUNT, 1 << 30, -(1 << 30) };
	size_t i;

	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		cr_expect_str_eq(err_name(odd[i]), "internal");
		cr_expect_eq(err_exit_status(odd[i]), 125);
		cr_expect_eq(err_http_status(odd[i]), 500);
	}
}

Test(err, a_name_leads_back_to_its_code_and_an_unknown_one_to_none)
{
	static const char *const odd[] = { NULL, "", "ok", "okay", "Usage", "system ", "internal\n" };
	size_t i;
	int c;

	for (c = 1; c < ERR_CODE_COUNT; c++)
		cr_expect_eq(err_code_of(err_name(c)), (enum err_code)c, "%s", err_name(c));
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		cr_expect_eq(err_code_of(odd[i]), ERR_NONE, "%s", odd[i] ? odd[i] : "NULL");
}

Test(err, format_characters_in_hostile_text_are_only_text)
{
	struct err e;

	err_set(&e, ERR_INVALID, "%s", "%n%s%s%s");
	err_wrap(&e, "%s", "%n%n");
	cr_expect_str_eq(e.msg, "%n%n: %n%s%s%s");
}

Test(err, a_call_the_kernel_lacks_has_a_remedy)
{
	struct err e;

	cr_assert_eq(err_errno(&e, ENOSYS, "open %s", "x"), -1);
	cr_assert_eq(e.code, ERR_SYS);
	cr_assert(strstr(e.msg, "open x: Function not implemented; hint: "), "%s", e.msg);
	cr_assert(strstr(e.msg, "berth doctor"), "%s", e.msg);
}
