/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/objects/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "base/encoding.h"

int seal_key(char ret[SEAL_KEY_SIZE], struct err *e)
{
	unsigned char random[SEAL_KEY_BYTES];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(e, "get random bytes");
	hex_format(ret, random, sizeof(random));
	return 0;
}

/* Of HMAC(key, number || HMAC(key, content)): the content need not be copied behind its number. */
static int seal_of(const char *key, uint64_t number, const void *data, size_t n, unsigned char ret[SEAL_BYTES], struct err *e)
{
	unsigned char both[8 + SEAL_BYTES];
	int i;

	for (i = 0; i < 8; i++)
		both[i] = (unsigned char)(number >> (56 - 8 * i));
	return HMAC(EVP_sha256(), key, (int)strlen(key), data, n, both + 8, NULL) &&
	       HMAC(EVP_sha256(), key, (int)strlen(key), both, sizeof(both), ret, NULL) ? 0 : err_set(e, ERR_INTERNAL, "libcrypto made no HMAC");
}

int seal_add(const char *key, uint64_t number, const void *data, size_t n, struct buf *ret, struct err *e)
{
	unsigned char seal[SEAL_BYTES];

	return seal_of(key, number, data, n, seal, e) < 0 || buf_add(ret, data, n, e) < 0 ? -1 : buf_add(ret, (const char *)seal, sizeof(seal), e);
}

int seal_take(const char *key, uint64_t number, struct buf *piece, struct err *e)
{
	unsigned char seal[SEAL_BYTES];
	const size_t n = piece->len < SEAL_BYTES ? 0 : piece->len - SEAL_BYTES;

	if (seal_of(key, number, n ? piece->data : "", n, seal, e) < 0)
		return -1;
	if (piece->len < SEAL_BYTES || CRYPTO_memcmp(seal, piece->data + n, SEAL_BYTES))
		return err_set(e, ERR_CORRUPT, "it is not what was stored");
	piece->len = n;
	return 0;
}
