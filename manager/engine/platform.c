/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/platform.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>

#include "base/mem.h"

/* The names that stand alone for a system or a machine. */
static const char *const systems[] = { "linux", "windows", "darwin", "freebsd", "macos", "solaris", "netbsd", "openbsd" };
static const char *const machines[] = { "amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64", "mips64le", "mips64", "loong64" };
static const char *const others[][2] = { { "x86_64", "amd64" }, { "x86-64", "amd64" }, { "aarch64", "arm64" }, { "i386", "386" } };

static int is_one(const char *word, const char *const *list, size_t n)
{
	while (n--)
		if (!strcmp(word, list[n]))
			return 1;
	return 0;
}

static const char *machine_of(const char *word)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(others); i++)
		if (!strcmp(word, others[i][0]))
			return others[i][1];
	return word;
}

static int is_component(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && p[i] != '_' && p[i] != '-' && p[i] != '.')
			return 0;
	return n > 0;
}

static int check_components(const char *text, int *ret_count, struct err *e)
{
	const char *p = text;

	for (*ret_count = 1;; p++, ++*ret_count) {
		const size_t n = strcspn(p, "/");

		if (!is_component(p, n))
			return err_set(e, ERR_INVALID,
				       "\"%.*s\" is an invalid component of \"%.60s\": platform specifier component must match "
				       "\"^[A-Za-z0-9_.-]+$\": invalid argument", (int)(n < 60 ? n : 60), p, text);
		p += n;
		if (!*p)
			return 0;
	}
}

int engine_platform(const char *text, char ret[ENGINE_PLATFORM], struct err *e)
{
	char word[ENGINE_PLATFORM - 40], *slash;
	struct utsname u = { 0 };
	int count;
	size_t i;

	ret[0] = '\0';
	if (!text || !text[0])
		return 0;
	if (check_components(text, &count, e) < 0)
		return -1;
	if (count > 3 || strlen(text) >= sizeof(word))
		return err_set(e, ERR_INVALID, "\"%.60s\": cannot parse platform specifier: invalid argument", text);
	for (i = 0; text[i]; i++)
		word[i] = (char)tolower((unsigned char)text[i]);
	word[i] = '\0';
	slash = strchr(word, '/');
	if (slash) {
		char *variant = strchr(slash + 1, '/');

		*slash++ = '\0';
		if (variant)
			*variant++ = '\0';
		snprintf(ret, ENGINE_PLATFORM, "%s/%s%s%s", word, machine_of(slash), variant ? "/" : "", variant ? variant : "");
		return 0;
	}
	uname(&u);
	if (is_one(word, systems, ARRAY_LEN(systems)))
		snprintf(ret, ENGINE_PLATFORM, "%s/%.20s", word, machine_of(u.machine));
	else if (is_one(machine_of(word), machines, ARRAY_LEN(machines)))
		snprintf(ret, ENGINE_PLATFORM, "linux/%s", machine_of(word));
	else
		return err_set(e, ERR_INVALID, "\"%.60s\": unknown operating system or architecture: invalid argument", text);
	return 0;
}

int engine_platform_local(const char *text, char ret[ENGINE_PLATFORM], struct err *e)
{
	if (engine_platform(text, ret, e) < 0)
		return -1;
	return ret[0] && strncmp(ret, "linux/", 6) ? err_set(e, ERR_INVALID, "operating system is not supported") : 0;
}
