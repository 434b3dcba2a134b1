/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/digest.h"

#include <stdio.h>
#include <string.h>

#include "base/encoding.h"

#define SHA256 "sha256:"
#define SHA512 "sha512:"
#define PREFIX_LEN 7

_Static_assert(sizeof(SHA256) == PREFIX_LEN + 1 && sizeof(SHA512) == PREFIX_LEN + 1, "digest_hex() skips either");

const char *const digest_blob_dirs[] = { "blobs/sha256", "blobs/sha512", NULL };

int digest_is_hex(const char *s, size_t min, size_t max)
{
	size_t n = strspn(s, "0123456789abcdef");

	return !s[n] && n >= min && n <= max;
}

int digest_is_sha256(const char *s)
{
	return !strncmp(s, SHA256, PREFIX_LEN) && digest_is_hex(s + PREFIX_LEN, 64, 64);
}

int digest_is_valid(const char *s)
{
	return digest_is_sha256(s) || (!strncmp(s, SHA512, PREFIX_LEN) && digest_is_hex(s + PREFIX_LEN, 128, 128));
}

int digest_copy(char ret[DIGEST_SIZE], const char *s, const char *what, struct err *e)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+._-");

	if (digest_is_valid(s)) {
		memcpy(ret, s, strlen(s) + 1);
		return 0;
	}
	/* the grammar of digests is wider than the algorithms that are registered */
	if (n && n < 40 && s[n] == ':' && strncmp(s, SHA256, PREFIX_LEN) && strncmp(s, SHA512, PREFIX_LEN))
		return err_set(e, ERR_UNSUPPORTED, "%s: the digest algorithm '%.*s' is not supported; hint: sha256 and sha512 are",
			       what, (int)n, s);
	return err_set(e, ERR_CORRUPT, "%s: '%.150s' is not a digest (sha256: and 64, or sha512: and 128, lower-case hex "
		       "digits)", what, s);
}

const char *digest_hex(const char *digest)
{
	return digest + PREFIX_LEN;
}

void digest_blob_path(char ret[DIGEST_BLOB_PATH_SIZE], const char *digest)
{
	snprintf(ret, DIGEST_BLOB_PATH_SIZE, "blobs/%.6s/%.128s", digest, digest_hex(digest));
}

void digest_format(char ret[DIGEST_SIZE], const unsigned char *sum, size_t n)
{
	memcpy(ret, n == 64 ? SHA512 : SHA256, PREFIX_LEN);
	hex_format(ret + PREFIX_LEN, sum, n);
}
