/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/cmdwords.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const char *cmdwords_base(const char *s)
{
	const char *slash = strrchr(s, '/');

	return slash && slash[1] ? slash + 1 : s;
}

/* Whether a component of a pattern matches anything. */
static int is_all(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n && strchr("*?.", p[i]); i++)
		;
	return n && i == n && memchr(p, '*', n);
}

/*
 * "/a//./b/../c/" becomes "/a/c"; a pattern for all of "/", such as "/" followed by "*", becomes
 * "/".
 */
static void clean_path(const char *p, char *out, size_t size)
{
	size_t len = 0, n;
	int all = 1;

	for (; *p; p += n) {
		while (*p == '/')
			p++;
		n = strcspn(p, "/");
		if (!n || (n == 1 && p[0] == '.'))
			continue;
		if (n == 2 && p[0] == '.' && p[1] == '.') {
			while (len && out[--len] != '/')
				;
			all = !len;
			continue;
		}
		all &= is_all(p, n);
		if (len + n + 2 > size)
			break;
		out[len++] = '/';
		memcpy(out + len, p, n);
		len += n;
	}
	if (!len || all)
		out[0] = '/', len = 1;
	out[len] = '\0';
}

void cmdwords_clean(const char *s, char *out, size_t size)
{
	const char *eq = strchr(s, '=');
	size_t n = eq && eq[1] == '/' ? (size_t)(eq - s) + 1 : 0;

	if (s[0] == '/') {
		clean_path(s, out, size);
	} else if (n && n < size / 2) {
		memcpy(out, s, n);
		clean_path(s + n, out + n, size - n);
	} else {
		while (*s == '0' && s[1] && strspn(s, "01234567") == strlen(s))
			s++;
		snprintf(out, size, "%s", s);
	}
}

static const struct long_option {
	const char *command, *name;
	char letter;
} long_options[] = {
	{"rm", "recursive", 'r'},    {"rm", "force", 'f'},        {"rm", "dir", 'd'},
	{"chmod", "recursive", 'R'}, {"chown", "recursive", 'R'}, {"chgrp", "recursive", 'R'},
	{"cp", "recursive", 'r'},    {"cp", "force", 'f'},        {"mv", "force", 'f'},
};

static char same_letter(const char *command, char c)
{
	return c == 'R' && (!strcmp(command, "rm") || !strcmp(command, "cp")) ? 'r' : c;
}

/* The letter of a long option, which may be cut short; 0 when it has none. */
static char letter_of(const char *command, const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(long_options); i++)
		if (!strcmp(command, long_options[i].command) && n >= 2 &&
		    !strncmp(long_options[i].name, name, n))
			return long_options[i].letter;
	return 0;
}

/* Whether the command has the option: a letter, or, without one, a long name. */
static int has(const char *command, const char *const *w, size_t n, char letter, const char *name,
	       size_t name_len)
{
	size_t i;
	const char *p;

	for (i = 1; i < n && strcmp(w[i], "--"); i++) {
		if (w[i][0] != '-' || !w[i][1])
			continue;
		if (w[i][1] == '-') {
			size_t len = strcspn(w[i] + 2, "=");

			if (letter ? letter_of(command, w[i] + 2, len) == letter :
				     len >= 2 && len <= name_len && !strncmp(name, w[i] + 2, len))
				return 1;
			continue;
		}
		for (p = w[i] + 1; letter && *p; p++)
			if (same_letter(command, *p) == letter)
				return 1;
	}
	return 0;
}

int cmdwords_is_option(const char *s, int *ended)
{
	if (*ended || s[0] != '-' || !s[1])
		return 0;
	if (!strcmp(s, "--"))
		*ended = 1;
	return 1;
}
int cmdwords_has(const char *const *w, size_t n, const char *options)
{
	const char *command = cmdwords_base(w[0]), *p;

	if (options[1] == '-') {
		size_t len = strcspn(options + 2, "=");

		return has(command, w, n, letter_of(command, options + 2, len), options + 2, len);
	}
	for (p = options + 1; *p; p++)
		if (!has(command, w, n, same_letter(command, *p), "", 0))
			return 0;
	return 1;
}
