/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that glibc's headers call in place of those a source names. They are linked into
 * the programs that use musl only: Debian compiled libseccomp.a and libjansson.a for glibc.
 * base/musl/symbols lists all symbols that such a library may need, and base/musl/choose checks
 * that it needs no other.
 *
 * The __*_chk functions are what GCC calls for a checked string function whose bounds it cannot
 * prove; berth's own sources call them too (musl.h).  The __isoc23_* functions are what glibc 2.38
 * and later read numbers with: they also take "0b" in base 0 and base 2, which no JSON has.
 */
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void musl_overflow(void) __attribute__((__noreturn__));
void *__memcpy_chk(void *d, const void *s, size_t n, size_t room);
void *__memmove_chk(void *d, const void *s, size_t n, size_t room);
void *__memset_chk(void *d, int c, size_t n, size_t room);
char *__strcpy_chk(char *d, const char *s, size_t room);
char *__strcat_chk(char *d, const char *s, size_t room);
char *__strncpy_chk(char *d, const char *s, size_t n, size_t room);
char *__strncat_chk(char *d, const char *s, size_t n, size_t room);
int __snprintf_chk(char *d, size_t n, int flag, size_t room, const char *format, ...);
int __vsnprintf_chk(char *d, size_t n, int flag, size_t room, const char *format, va_list ap);
int __sprintf_chk(char *d, int flag, size_t room, const char *format, ...);
int __vsprintf_chk(char *d, int flag, size_t room, const char *format, va_list ap);
int __fprintf_chk(FILE *f, int flag, const char *format, ...);
int __vfprintf_chk(FILE *f, int flag, const char *format, va_list ap);
long __isoc23_strtol(const char *s, char **ret_end, int base);
unsigned long __isoc23_strtoul(const char *s, char **ret_end, int base);
long long __isoc23_strtoll(const char *s, char **ret_end, int base);
unsigned long long __isoc23_strtoull(const char *s, char **ret_end, int base);

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

char *__strncat_chk(char *d, const char *s, size_t n, size_t room)
{
	size_t at = strnlen(d, room), take = strnlen(s, n);

	if (take >= room - at)
		musl_overflow();
	memcpy(d + at, s, take);
	d[at + take] = '\0';
	return d;
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

int __vsprintf_chk(char *d, int flag, size_t room, const char *format, va_list ap)
{
	int n;

	if (room > INT_MAX) /* unknown; vsnprintf(3) takes no such number */
		return vsprintf(d, format, ap);
	n = __vsnprintf_chk(d, room, flag, room, format, ap);
	if (n >= 0 && (size_t)n >= room)
		musl_overflow();
	return n;
}

int __sprintf_chk(char *d, int flag, size_t room, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = __vsprintf_chk(d, flag, room, format, ap);
	va_end(ap);
	return r;
}

int __vfprintf_chk(FILE *f, int flag, const char *format, va_list ap)
{
	(void)flag;
	return vfprintf(f, format, ap);
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

long __isoc23_strtol(const char *s, char **ret_end, int base)
{
	return strtol(s, ret_end, base);
}

unsigned long __isoc23_strtoul(const char *s, char **ret_end, int base)
{
	return strtoul(s, ret_end, base);
}

long long __isoc23_strtoll(const char *s, char **ret_end, int base)
{
	return strtoll(s, ret_end, base);
}

unsigned long long __isoc23_strtoull(const char *s, char **ret_end, int base)
{
	return strtoull(s, ret_end, base);
}
