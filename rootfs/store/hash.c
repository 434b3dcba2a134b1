/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/hash.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

int hash_init(struct hash *h, const char *like, struct err *e)
{
	const EVP_MD *md = like && !strncmp(like, "sha512:", 7) ? EVP_sha512() : EVP_sha256();

	if (!h->ctx)
		h->ctx = EVP_MD_CTX_new();
	if (!h->ctx)
		return err_nomem(e);
	if (EVP_DigestInit_ex(h->ctx, md, NULL) != 1)
		return err_set(e, ERR_INTERNAL, "the crypto library has no SHA-2");
	return 0;
}

int hash_add(struct hash *h, const void *p, size_t n, struct err *e)
{
	return EVP_DigestUpdate(h->ctx, p, n) == 1 ? 0 : err_set(e, ERR_INTERNAL, "compute a digest");
}

int hash_final(struct hash *h, char ret[DIGEST_SIZE], struct err *e)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int n = 0;

	if (EVP_DigestFinal_ex(h->ctx, sum, &n) != 1 || (n != 32 && n != 64))
		return err_set(e, ERR_INTERNAL, "compute a digest");
	digest_format(ret, sum, n);
	return 0;
}

void hash_release(struct hash *h)
{
	EVP_MD_CTX_free(h->ctx);
	h->ctx = NULL;
}

int hash_bytes(const void *p, size_t n, const char *like, char ret[DIGEST_SIZE], struct err *e)
{
	autohash struct hash h = { 0 };

	if (hash_init(&h, like, e) < 0 || hash_add(&h, p, n, e) < 0)
		return -1;
	return hash_final(&h, ret, e);
}

int hash_chain(const char *parent, const char *diff_id, char ret[DIGEST_SIZE], struct err *e)
{
	char text[2 * DIGEST_SIZE + 1];
	int n;

	if (!parent) {
		if (!digest_is_sha256(diff_id))
			return hash_bytes(diff_id, strlen(diff_id), NULL, ret, e);
		memcpy(ret, diff_id, strlen(diff_id) + 1);
		return 0;
	}
	n = snprintf(text, sizeof(text), "%s %s", parent, diff_id);
	return hash_bytes(text, (size_t)n, NULL, ret, e);
}
