/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/hash.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

int hash_init(struct hash *h, struct err *e)
{
	if (!h->ctx)
		h->ctx = EVP_MD_CTX_new();
	if (!h->ctx)
		return err_nomem(e);
	if (EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1)
		return err_set(e, ERR_INTERNAL, "the crypto library has no SHA-256");
	return 0;
}

int hash_add(struct hash *h, const void *p, size_t n, struct err *e)
{
	return EVP_DigestUpdate(h->ctx, p, n) == 1 ? 0 : err_set(e, ERR_INTERNAL, "compute a SHA-256");
}

int hash_final(struct hash *h, char ret[DIGEST_SIZE], struct err *e)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int n = 0;

	if (EVP_DigestFinal_ex(h->ctx, sum, &n) != 1 || n != 32)
		return err_set(e, ERR_INTERNAL, "compute a SHA-256");
	digest_format(ret, sum);
	return 0;
}

void hash_release(struct hash *h)
{
	EVP_MD_CTX_free(h->ctx);
	h->ctx = NULL;
}

int hash_bytes(const void *p, size_t n, char ret[DIGEST_SIZE], struct err *e)
{
	autohash struct hash h = { 0 };

	if (hash_init(&h, e) < 0 || hash_add(&h, p, n, e) < 0)
		return -1;
	return hash_final(&h, ret, e);
}

int hash_chain(const char *parent, const char *diff_id, char ret[DIGEST_SIZE], struct err *e)
{
	char text[2 * DIGEST_SIZE + 1];
	int n;

	if (!parent) {
		memcpy(ret, diff_id, DIGEST_SIZE);
		return 0;
	}
	n = snprintf(text, sizeof(text), "%s %s", parent, diff_id);
	return hash_bytes(text, (size_t)n, ret, e);
}
