/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err - one error value, carried by its caller.
 *
 * 512 bytes, no pointers: it lives on the stack, crosses the sync pipe in one
 * atomic write (PIPE_BUF is 4096), and works after fork and without memory.
 * It is set once, where the failure is first seen; callers only add context.
 * It is printed once, by cli/ or by the API.
 */
#ifndef BERTH_BASE_ERR_H
#define BERTH_BASE_ERR_H

#include <stdarg.h>

/* X(enum, stable name, exit status, HTTP status, meaning); doc/errors.md has them by `make options`. */
#define ERR_CODES(X) \
	X(ERR_NONE, "ok", 0, 200, "no error") \
	X(ERR_USAGE, "usage", 2, 400, "the command line or the request is malformed") \
	X(ERR_INVALID, "invalid", 2, 400, "a value is out of its grammar or range") \
	X(ERR_CONFIG, "config", 125, 500, "berth.toml is wrong") \
	X(ERR_NOT_FOUND, "not-found", 125, 404, "no such sandbox, image, file or other object") \
	X(ERR_EXISTS, "exists", 125, 409, "the name is taken") \
	X(ERR_BUSY, "busy", 125, 409, "another operation or a user holds the object") \
	X(ERR_LIMIT, "limit", 125, 429, "a configured limit is reached") \
	X(ERR_DENIED, "denied", 125, 403, "the caller may not do this") \
	X(ERR_POLICY, "policy", 125, 403, "a rule of [policy] refuses the command") \
	X(ERR_UNSUPPORTED, "unsupported", 125, 501, "this host cannot enforce what was asked") \
	X(ERR_CORRUPT, "corrupt", 125, 422, "hostile or damaged input: digest, archive, record") \
	X(ERR_SYS, "system", 125, 500, "a system call failed") \
	X(ERR_NOMEM, "no-memory", 125, 500, "the host has no memory left for this") \
	X(ERR_NET, "network", 125, 502, "a connection failed or the other side broke it") \
	X(ERR_TIMEOUT, "timeout", 124, 504, "the time limit is over") \
	X(ERR_EXEC, "not-executable", 126, 422, "the command was found and cannot be executed") \
	X(ERR_EXEC_NOT_FOUND, "command-not-found", 127, 404, "the sandbox has no such command") \
	X(ERR_ELSEWHERE, "other-host", 125, 421, "the sandbox is on another host, which has to be asked") \
	X(ERR_FULL, "disk-full", 125, 507, "the sandbox's own file system has no room left") \
	X(ERR_UNHEALTHY, "unhealthy", 125, 503, "the sandbox's health check says that it is not healthy") \
	X(ERR_INTERNAL, "internal", 125, 500, "a fault of berth")

enum err_code {
#define X(sym, name, exit_status, http, about) sym,
	ERR_CODES(X)
#undef X
	ERR_CODE_COUNT
};

struct err {
	int code;	/* enum err_code */
	int os_errno;	/* 0 when no system call was at fault */
	char msg[504];	/* lower case, no full stop, "... hint: ..." when a remedy is known */
};

_Static_assert(sizeof(struct err) == 512, "struct err crosses a pipe as 512 bytes");

/* Each returns -1, so that `return err_set(e, ...)` reads well. */

/* Sets code and message; os_errno is 0. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Sets code ERR_SYS (ERR_NOMEM for ENOMEM) from errno and appends its text; for ENOSYS with a hint too. */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As err_sys, with the errno given, for calls that return it negated. */
int err_errno(struct err *e, int os_errno, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * err_sys() after a seccomp or socket filter was refused. Errno 524 (ENOTSUPP) has no name in libc;
 * it means that all filters of the host together have reached net.core.bpf_jit_limit. instructions:
 * the filter's length, or 0 if unknown.
 */
int err_filter(struct err *e, const char *what, unsigned instructions);
/* As err_sys, with the code chosen by the caller. */
int err_code_sys(struct err *e, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Puts "context: " before the existing message. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends "; hint: ..." to the existing message. */
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Sets the error for a program that could not be started (os_errno of posix_spawn): ERR_INVALID if
 * its arguments exceed the kernel's limit.
 */
int err_start(struct err *e, int os_errno, const char *program);
/* Sets ERR_NOMEM, without allocating. */
int err_nomem(struct err *e);

/* clang's analyzer looks at one file at a time; this tells it what these functions return. */
#if defined(__clang_analyzer__) && !defined(BERTH_BASE_ERR_C)
static inline int err_is(int ret)
{
	(void)ret;
	return -1;
}
#define err_set(...) err_is(err_set(__VA_ARGS__))
#define err_sys(...) err_is(err_sys(__VA_ARGS__))
#define err_errno(...) err_is(err_errno(__VA_ARGS__))
#define err_filter(...) err_is(err_filter(__VA_ARGS__))
#define err_code_sys(...) err_is(err_code_sys(__VA_ARGS__))
#define err_wrap(...) err_is(err_wrap(__VA_ARGS__))
#define err_hint(...) err_is(err_hint(__VA_ARGS__))
#define err_start(...) err_is(err_start(__VA_ARGS__))
#define err_nomem(...) err_is(err_nomem(__VA_ARGS__))
#endif

const char *err_name(int code);
/* The code of a name; ERR_NONE for NULL and for an unknown name (also "ok"). */
enum err_code err_code_of(const char *name);
int err_exit_status(int code);
int err_http_status(int code);

#endif
