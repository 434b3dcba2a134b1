/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and texts of errors and signals that musl lacks or spells in another way. Linked into the
 * programs that use musl only.
 */
#include <stddef.h>

/* made by gen.c from glibc's own */
extern const char *const libc_error_names[], *const libc_error_texts[], *const libc_signal_names[];
extern const unsigned libc_errors, libc_signals;

const char *strerrorname_np(int number);
const char *sigabbrev_np(int number);
const char *musl_strerror(int number);

const char *strerrorname_np(int number)
{
	return number >= 0 && (unsigned)number < libc_errors ? libc_error_names[number] : NULL;
}

const char *musl_strerror(int number)
{
	const char *text =
		number >= 0 && (unsigned)number < libc_errors ? libc_error_texts[number] : NULL;

	return text ? text : "unknown error";
}

const char *sigabbrev_np(int number)
{
	return number >= 0 && (unsigned)number < libc_signals ? libc_signal_names[number] : NULL;
}
