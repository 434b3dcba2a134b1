/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and texts of errors and signals that musl lacks or spells in another way. Linked into the
 * programs that use musl only.
 */
#include <stddef.h>

/* made by gen.c from glibc's own */
extern const char libc_error_names_text[], libc_error_texts_text[], libc_signal_names_text[];
extern const unsigned short libc_error_names[], libc_error_texts[], libc_signal_names[]; /* places in these; 0: none */
extern const unsigned libc_errors, libc_signals;

const char *strerrorname_np(int number);
const char *sigabbrev_np(int number);
const char *musl_strerror(int number);

static const char *entry_of(const unsigned short *table, const char *text, int number, unsigned count)
{
	return number >= 0 && (unsigned)number < count && table[number] ? text + table[number] : NULL;
}

const char *strerrorname_np(int number)
{
	return entry_of(libc_error_names, libc_error_names_text, number, libc_errors);
}

const char *musl_strerror(int number)
{
	const char *text = entry_of(libc_error_texts, libc_error_texts_text, number, libc_errors);

	return text ? text : "unknown error";
}

const char *sigabbrev_np(int number)
{
	return entry_of(libc_signal_names, libc_signal_names_text, number, libc_signals);
}
