/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/digest.h"

#include <string.h>

#define ALGORITHM "sha256:"

int digest_is_hex(const char *s, size_t min, size_t max)
{
	size_t n = strspn(s, "0123456789abcdef");

	return !s[n] && n >= min && n <= max;
}

int digest_is_valid(const char *s)
{
	return !strncmp(s, ALGORITHM, strlen(ALGORITHM)) && digest_is_hex(s + strlen(ALGORITHM), 64, 64);
}

int digest_copy(char ret[DIGEST_SIZE], const char *s, const char *what, struct err *e)
{
	if (!digest_is_valid(s))
		return err_set(e, ERR_CORRUPT, "%s: '%.100s' is not a digest (sha256: and 64 lower-case hex digits)",
			       what, s);
	memcpy(ret, s, DIGEST_SIZE);
	return 0;
}

const char *digest_hex(const char *digest)
{
	return digest + strlen(ALGORITHM);
}

void digest_format(char ret[DIGEST_SIZE], const unsigned char sum[32])
{
	static const char digits[] = "0123456789abcdef";
	char *p = ret + strlen(ALGORITHM);
	size_t i;

	memcpy(ret, ALGORITHM, strlen(ALGORITHM));
	for (i = 0; i < 32; i++) {
		*p++ = digits[sum[i] >> 4];
		*p++ = digits[sum[i] & 15];
	}
	*p = '\0';
}
