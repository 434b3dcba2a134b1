/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into `berth` only.  The __*_chk functions are what GCC calls for a checked
 * string function whose bounds it cannot prove; libseccomp.a and libjansson.a, which
 * Debian compiled against glibc's headers, call them too.  Those two libraries use
 * nothing else of glibc that musl does not have under the same name and with the
 * same types: an unknown symbol is a link error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* made by gen.c from glibc's own */
extern const char *const libc_error_names[], *const libc_error_texts[], *const libc_signal_names[];
extern const unsigned libc_errors, libc_signals;

const char *strerrorname_np(int number);
const char *sigabbrev_np(int number);
const char *musl_strerror(int number);
void musl_overflow(void) __attribute__((__noreturn__));
void *__memcpy_chk(void *d, const void *s, size_t n, size_t room);
void *__memmove_chk(void *d, const void *s, size_t n, size_t room);
void *__memset_chk(void *d, int c, size_t n, size_t room);
char *__strcpy_chk(char *d, const char *s, size_t room);
char *__strcat_chk(char *d, const char *s, size_t room);
char *__strncpy_chk(char *d, const char *s, size_t n, size_t room);
int __snprintf_chk(char *d, size_t n, int flag, size_t room, const char *format, ...);
int __vsnprintf_chk(char *d, size_t n, int flag, size_t room, const char *format, va_list ap);
int __fprintf_chk(FILE *f, int flag, const char *format, ...);

const char *strerrorname_np(int number)
{
	return number >= 0 && (unsigned)number < libc_errors ? libc_error_names[number] : NULL;
}

const char *musl_strerror(int number)
{
	const char *text = number >= 0 && (unsigned)number < libc_errors ? libc_error_texts[number] : NULL;

	return text ? text : "unknown error";
}

const char *sigabbrev_np(int number)
{
	return number >= 0 && (unsigned)number < libc_signals ? libc_signal_names[number] : NULL;
}

void musl_overflow(void)
{
	static const char said[] = "berth: buffer overflow detected: aborted\n";

	(void)!write(STDERR_FILENO, said, sizeof(said) - 1);
	__builtin_trap();
}

void *__memcpy_chk(void *d, const void *s, size_t n, size_t room)
{
	if (n > room)
		musl_overflow();
	return memcpy(d, s, n);
}

void *__memmove_chk(void *d, const void *s, size_t n, size_t room)
{
	if (n > room)
		musl_overflow();
	return memmove(d, s, n);
}

void *__memset_chk(void *d, int c, size_t n, size_t room)
{
	if (n > room)
		musl_overflow();
	return memset(d, c, n);
}

char *__strcpy_chk(char *d, const char *s, size_t room)
{
	return __memcpy_chk(d, s, strlen(s) + 1, room);
}

char *__strcat_chk(char *d, const char *s, size_t room)
{
	size_t at = strnlen(d, room), n = strlen(s) + 1;

	if (n > room - at)
		musl_overflow();
	memcpy(d + at, s, n);
	return d;
}

char *__strncpy_chk(char *d, const char *s, size_t n, size_t room)
{
	if (n > room)
		musl_overflow();
	return strncpy(d, s, n);
}

int __vsnprintf_chk(char *d, size_t n, int flag, size_t room, const char *format, va_list ap)
{
	(void)flag;
	if (n > room)
		musl_overflow();
	return vsnprintf(d, n, format, ap);
}

int __snprintf_chk(char *d, size_t n, int flag, size_t room, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = __vsnprintf_chk(d, n, flag, room, format, ap);
	va_end(ap);
	return r;
}

int __fprintf_chk(FILE *f, int flag, const char *format, ...)
{
	va_list ap;
	int r;

	(void)flag;
	va_start(ap, format);
	r = vfprintf(f, format, ap);
	va_end(ap);
	return r;
}
