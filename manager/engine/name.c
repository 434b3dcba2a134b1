/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/path.h"

/* ---- ids ---- */

#define SHORT 12

/* SplitMix64 (Steele, Lea, Flood 2014): digits that differ as the seed does. */
static uint64_t next_id_digits(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

void engine_digits(const char *seed, char ret[ENGINE_ID])
{
	uint64_t state = 0xcbf29ce484222325;
	size_t i;

	for (i = 0; seed[i]; i++)
		state = (state ^ (unsigned char)seed[i]) * 0x100000001b3;
	for (i = 0; i < ENGINE_ID - 1; i += 16)
		snprintf(ret + i, 17, "%016llx", (unsigned long long)next_id_digits(&state));
}

void engine_network_id(const char *name, char ret[ENGINE_ID])
{
	char digits[ENGINE_ID];
	const size_t n = strlen(name), again = n > 32 ? 0 : n;

	engine_digits(name, digits);
	/* the last ones are the first ones again: clients keep ids, and these were always so */
	memcpy(ret, digits, ENGINE_ID - 1 - again);
	memcpy(ret + ENGINE_ID - 1 - again, digits, again);
	ret[ENGINE_ID - 1] = '\0';
}

void engine_id(const char *sandbox, char ret[ENGINE_ID])
{
	const size_t n = strnlen(sandbox, ENGINE_ID - 1);
	char digits[ENGINE_ID];

	engine_digits(sandbox, digits);
	memcpy(ret, sandbox, n);
	memcpy(ret + n, digits, ENGINE_ID - 1 - n);
	ret[ENGINE_ID - 1] = '\0';
}

static int is_hex_docker_id(const char *s)
{
	return !s[strspn(s, "0123456789abcdef")];
}

int engine_ref(const char *ref, char *ret, size_t n)
{
	char sandbox[SHORT + 1], whole[ENGINE_ID];
	size_t len;

	ref += *ref == '/';
	len = strlen(ref);
	if (!len || len >= n)
		return -1;
	if (len > SHORT && len < ENGINE_ID && is_hex_docker_id(ref)) {
		memcpy(sandbox, ref, SHORT);
		sandbox[SHORT] = '\0';
		engine_id(sandbox, whole);
		if (!strncmp(whole, ref, len)) {
			memcpy(ret, sandbox, sizeof(sandbox));
			return 0;
		}
	}
	memcpy(ret, ref, len + 1);
	return 0;
}

int engine_new_id(char ret[ENGINE_ID])
{
	unsigned char raw[32];
	size_t i;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -1;
	for (i = 0; i < sizeof(raw); i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

/* ---- names ---- */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define KEPT (ENGINE_NAME - 1 - 17) /* of the name before its hash */
#define PREFIX_MIN 4                /* of an id, as registry_find() takes it */
#define ID_LEN 12
#define ALIAS_MAX 63

/* In ASCII, whatever the locale is. */
static char lower_name_letter(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* FNV-1a, mixed as SplitMix64 does: names that differ in one letter share no digits. */
static uint64_t docker_name_hash(const char *s)
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

static int derive_berth_name(const char *name, char ret[ENGINE_NAME])
{
	size_t i;

	for (i = 0; i < KEPT && name[i]; i++)
		ret[i] = lower_name_letter(name[i]);
	snprintf(ret + i, ENGINE_NAME - i, "-%016llx", (unsigned long long)docker_name_hash(name));
	return 1;
}

int engine_name_map(const char *name, char ret[ENGINE_NAME])
{
	if (!is_docker(name))
		return -1;
	if (!path_is_name(name))
		return derive_berth_name(name, ret);
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
	derive_berth_name(name, ret);
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
		       derive_berth_name(name, ret) :
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
		ret[i] = lower_name_letter(name[i]);
	return path_is_name(ret);
}
