/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S12 of SECURITY.md. */
#include "base/log.h"

#include <stdio.h>
#include <unistd.h>

#include "base/io.h"

/* U+2028, U+2029, U+202A..E, U+2066..9 would break the line or turn it round on the screen (CVE-2021-42574). */
static int rearranges(const unsigned char *s)
{
	return s[0] == 0xe2 && ((s[1] == 0x80 && s[2] >= 0xa8 && s[2] <= 0xae) ||
				(s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9));
}

/*
 * Length of the valid UTF-8 sequence at s, or 0 if it is a C1 control or changes the order of
 * characters.
 */
static size_t printable_utf8_len(const unsigned char *s)
{
	size_t n, i;

	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	for (i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if (s[0] == 0xc2 && s[1] < 0xa0)
		return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f) || rearranges(s))
		return 0;
	return n;
}

size_t log_clean(char *out, size_t n, const char *s, int keep_newlines)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t len = 0;

	while (*p && len + 5 < n) {
		size_t u = *p >= 0x80 ? printable_utf8_len(p) : 0;

		if ((*p >= 0x20 && *p < 0x7f) || *p == '\t' || (*p == '\n' && keep_newlines)) {
			out[len++] = (char)*p++;
		} else if (u) {
			while (u--)
				out[len++] = (char)*p++;
		} else {
			out[len++] = '?';
			p++;
		}
	}
	out[len] = '\0';
	return len;
}

static void print_clean_message(const char *prog, const char *msg)
{
	char clean[1024], line[1100];
	int n;

	log_clean(clean, sizeof(clean), msg, 0);
	n = snprintf(line, sizeof(line), "%s: %s\n", prog, clean);
	if (n > 0)
		(void)!io_write_all(STDERR_FILENO, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

void log_error(const char *prog, const struct err *e)
{
	print_clean_message(prog, e->msg);
}

void log_note(const char *prog, const char *fmt, ...)
{
	char msg[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	print_clean_message(prog, msg);
}
