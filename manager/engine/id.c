/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/id.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define SHORT 12

/* SplitMix64 (Steele, Lea, Flood 2014): digits that differ as the seed does. */
static uint64_t next(uint64_t *state)
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
		snprintf(ret + i, 17, "%016llx", (unsigned long long)next(&state));
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

static int is_hex(const char *s)
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
	if (len > SHORT && len < ENGINE_ID && is_hex(ref)) {
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
