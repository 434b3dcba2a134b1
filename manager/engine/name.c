/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define KEPT (ENGINE_NAME - 1 - 17) /* of the name before its hash */
#define PREFIX_MIN 4                /* of an id, as registry_find() takes it */
#define ID_LEN 12
#define ALIAS_MAX 63

/* In ASCII, whatever the locale is. */
static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* FNV-1a, mixed as SplitMix64 does: names that differ in one letter share no digits. */
static uint64_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
	h = (h ^ h >> 27) * 0x94d049bb133111eb;
	return h ^ h >> 31;
}

static int is_docker(const char *name)
{
	size_t n = strlen(name);

	return n && n <= ENGINE_NAME_MAX && strspn(name, LETTERS) &&
	       !name[strspn(name, LETTERS "_.-")];
}

static int derive(const char *name, char ret[ENGINE_NAME])
{
	size_t i;

	for (i = 0; i < KEPT && name[i]; i++)
		ret[i] = lower(name[i]);
	snprintf(ret + i, ENGINE_NAME - i, "-%016llx", (unsigned long long)hash(name));
	return 1;
}

int engine_name_map(const char *name, char ret[ENGINE_NAME])
{
	if (!is_docker(name))
		return -1;
	if (!path_is_name(name))
		return derive(name, ret);
	memcpy(ret, name, strlen(name) + 1);
	return 0;
}

int engine_name_network(const char *name, char ret[ENGINE_NAME])
{
	const size_t n = strlen(name);
	char *c;
	size_t i;

	if (is_docker(name))
		return engine_name_map(name, ret);
	for (i = 0; i < n && (unsigned char)name[i] >= ' ' && name[i] != 0x7f && name[i] != '/' && name[i] != '@'; i++)
		;
	if (i < n || !name[strspn(name, " ")] || n > ENGINE_NAME_MAX || name[0] == ' ' || name[n - 1] == ' ')
		return -1;
	derive(name, ret);
	for (c = ret; *c; c++)
		if (!strchr(LETTERS "_.-", *c))
			*c = '_';
	if (!strchr(LETTERS, ret[0]))
		ret[0] = 'n';
	return 1;
}

int engine_name_box(const char *name, char ret[ENGINE_NAME])
{
	size_t n = strlen(name);

	return n >= PREFIX_MIN && n <= ID_LEN && !name[strspn(name, "0123456789abcdef")] ?
		       derive(name, ret) :
		       engine_name_map(name, ret);
}

const char *engine_name_shown(const char *docker, const char *name)
{
	char mapped[ENGINE_NAME];

	if (docker && engine_name_box(docker, mapped) > 0 && !strcmp(mapped, name))
		return docker;
	return docker && engine_name_network(docker, mapped) > 0 && !strcmp(mapped, name) ? docker : name;
}

int engine_name_alias(const char *name, char ret[ENGINE_NAME])
{
	size_t n = strlen(name), i;

	if (n > ALIAS_MAX)
		return 0;
	for (i = 0; i <= n; i++)
		ret[i] = lower(name[i]);
	return path_is_name(ret);
}
