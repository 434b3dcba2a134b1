/* SPDX-License-Identifier: Apache-2.0 */
#define BERTH_BASE_ERR_C
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int exit_status;
	int http;
} codes[] = {
#define X(sym, name, exit_status, http, about) { name, exit_status, http },
	ERR_CODES(X)
#undef X
};
_Static_assert(sizeof(codes) / sizeof(codes[0]) == ERR_CODE_COUNT, "one row per code");

/* Appends at *len, never past the end; the message stays terminated. */
__attribute__((format(printf, 3, 0)))
static void append_err_text(struct err *e, size_t *len, const char *fmt, va_list ap)
{
	int n;

	if (*len >= sizeof(e->msg) - 1)
		return;
	n = vsnprintf(e->msg + *len, sizeof(e->msg) - *len, fmt, ap);
	if (n > 0)
		*len += (size_t)n;
	if (*len > sizeof(e->msg) - 1)
		*len = sizeof(e->msg) - 1;
}

__attribute__((format(printf, 3, 4)))
static void appendf(struct err *e, size_t *len, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	append_err_text(e, len, fmt, ap);
	va_end(ap);
}

__attribute__((format(printf, 4, 0)))
static int set_os(struct err *e, int code, int os_errno, const char *fmt, va_list ap)
{
	size_t len = 0;

	if (!e)
		return -1;
	e->code = code;
	e->os_errno = os_errno;
	e->msg[0] = '\0';
	append_err_text(e, &len, fmt, ap);
	if (os_errno)
		appendf(e, &len, ": %s", strerror(os_errno));
	if (os_errno == ENOSYS)
		appendf(e, &len, "; hint: this kernel lacks the call, or a filter around berth hides it; see `berth doctor`");
	return -1;
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_os(e, code, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	set_os(e, saved == ENOMEM ? ERR_NOMEM : ERR_SYS, saved, fmt, ap);
	va_end(ap);
	return -1;
}

int err_filter(struct err *e, const char *what, unsigned instructions)
{
	char size[40] = "";

	if (instructions)
		snprintf(size, sizeof(size), " of %u instructions", instructions);
	if (errno != 524)
		return err_sys(e, "load %s%s", what, size);
	return err_set(e, ERR_LIMIT, "load %s%s: ENOTSUPP (524): the compiled filters of all processes of the host "
		       "have reached net.core.bpf_jit_limit; hint: end the sandboxes that load filters of their own, or double "
		       "that limit with sysctl", what, size);
}

int err_errno(struct err *e, int os_errno, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_os(e, os_errno == ENOMEM ? ERR_NOMEM : ERR_SYS, os_errno, fmt, ap);
	va_end(ap);
	return -1;
}

int err_code_sys(struct err *e, enum err_code code, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	set_os(e, code, saved, fmt, ap);
	va_end(ap);
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char old[sizeof(e->msg)];
	size_t len = 0;
	va_list ap;

	if (!e)
		return -1;
	memcpy(old, e->msg, sizeof(old));
	va_start(ap, fmt);
	append_err_text(e, &len, fmt, ap);
	va_end(ap);
	appendf(e, &len, ": %s", old);
	return -1;
}

int err_hint(struct err *e, const char *fmt, ...)
{
	size_t len;
	va_list ap;

	if (!e)
		return -1;
	len = strnlen(e->msg, sizeof(e->msg) - 1);
	appendf(e, &len, "; hint: ");
	va_start(ap, fmt);
	append_err_text(e, &len, fmt, ap);
	va_end(ap);
	return -1;
}

int err_start(struct err *e, int os_errno, const char *program)
{
	if (os_errno != E2BIG)
		return err_errno(e, os_errno, "start %s", program);
	return err_set(e, ERR_INVALID, "options and environment are more than a program can be given; hint: less than 128 KiB each, "
		       "larger ones as a file in the sandbox");
}

int err_nomem(struct err *e)
{
	return err_set(e, ERR_NOMEM, "out of memory");
}

static int known(int code)
{
	return code >= 0 && code < ERR_CODE_COUNT ? code : ERR_INTERNAL;
}

const char *err_name(int code)
{
	return codes[known(code)].name;
}

enum err_code err_code_of(const char *name)
{
	int code = name ? ERR_CODE_COUNT - 1 : ERR_NONE;

	while (code > ERR_NONE && strcmp(codes[code].name, name))
		code--;
	return (enum err_code)code;
}

int err_exit_status(int code)
{
	return codes[known(code)].exit_status;
}

int err_http_status(int code)
{
	return codes[known(code)].http;
}
