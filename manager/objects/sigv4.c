/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/objects/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mem.h"

#define PAIRS_MAX 32

int sigv4_encode(const char *s, int keep_slash, struct buf *out, struct err *e)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";

	for (; *s; s++) {
		if (strchr(plain, *s) || (keep_slash && *s == '/')) {
			if (buf_add(out, s, 1, e) < 0)
				return -1;
		} else if (buf_addf(out, e, "%%%02X", (unsigned char)*s) < 0) {
			return -1;
		}
	}
	return 0;
}

static int compare_header_names(const void *a, const void *b)
{
	const struct sigv4_pair *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : strcmp(x->value, y->value);
}

static int sorted(const struct sigv4_pair *from, size_t n, struct sigv4_pair *to, struct err *e)
{
	if (n > PAIRS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d pairs to sign", PAIRS_MAX);
	if (n) {
		memcpy(to, from, n * sizeof(*to));
		qsort(to, n, sizeof(*to), compare_header_names);
	}
	return 0;
}

int sigv4_query(const struct sigv4_request *r, struct buf *out, struct err *e)
{
	struct sigv4_pair q[PAIRS_MAX];
	size_t i;

	if (sorted(r->query, r->query_count, q, e) < 0)
		return -1;
	for (i = 0; i < r->query_count; i++)
		if ((i && buf_adds(out, "&", e) < 0) || sigv4_encode(q[i].name, 0, out, e) < 0 || buf_adds(out, "=", e) < 0 ||
		    sigv4_encode(q[i].value, 0, out, e) < 0)
			return -1;
	return 0;
}

/* Without the spaces around it, and one for each run of them within. */
static int add_trimmed(struct buf *out, const char *v, struct err *e)
{
	int space = 0, any = 0;

	for (; *v; v++) {
		if (*v == ' ' || *v == '\t') {
			space = any;
			continue;
		}
		if ((space && buf_adds(out, " ", e) < 0) || buf_add(out, v, 1, e) < 0)
			return -1;
		space = 0;
		any = 1;
	}
	return 0;
}

static int canonical_request(const struct sigv4_request *r, const struct sigv4_pair *h, const char *signed_headers, struct buf *out, struct err *e)
{
	size_t i;

	if (buf_addf(out, e, "%s\n", r->method) < 0 || sigv4_encode(r->path, 1, out, e) < 0 || buf_adds(out, "\n", e) < 0 ||
	    sigv4_query(r, out, e) < 0 || buf_adds(out, "\n", e) < 0)
		return -1;
	for (i = 0; i < r->header_count; i++)
		if (buf_addf(out, e, "%s:", h[i].name) < 0 || add_trimmed(out, h[i].value, e) < 0 || buf_adds(out, "\n", e) < 0)
			return -1;
	return buf_addf(out, e, "\n%s\n%s", signed_headers, r->payload_sha256);
}

static int hmac(const void *key, size_t key_len, const char *text, unsigned char out[32], struct err *e)
{
	unsigned n = 32;

	return HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), out, &n) ? 0 :
	       err_set(e, ERR_INTERNAL, "compute a signature");
}

int sigv4_sign(const struct sigv4_request *r, struct buf *out, struct err *e)
{
	autobuf struct buf text = BUF_INIT(65536), names = BUF_INIT(4096);
	struct sigv4_pair h[PAIRS_MAX];
	unsigned char key[32], next[32];
	char secret[300], day[9], digest[65], scope[200];
	unsigned n = 32;
	size_t i;

	if (sorted(r->headers, r->header_count, h, e) < 0)
		return -1;
	for (i = 0; i < r->header_count; i++)
		if (buf_addf(&names, e, "%s%s", i ? ";" : "", h[i].name) < 0)
			return -1;
	if (canonical_request(r, h, names.data ? names.data : "", &text, e) < 0)
		return -1;
	if (!EVP_Digest(text.data, text.len, key, &n, EVP_sha256(), NULL))
		return err_set(e, ERR_INTERNAL, "hash a request");
	hex_format(digest, key, 32);
	snprintf(day, sizeof(day), "%.8s", r->date);
	snprintf(scope, sizeof(scope), "%s/%s/%s/aws4_request", day, r->region, r->service);
	text.len = 0;
	if (buf_addf(&text, e, "AWS4-HMAC-SHA256\n%s\n%s\n%s", r->date, scope, digest) < 0)
		return -1;
	if ((size_t)snprintf(secret, sizeof(secret), "AWS4%s", r->secret_key) >= sizeof(secret))
		return err_set(e, ERR_INVALID, "the secret key is too long");
	if (hmac(secret, strlen(secret), day, key, e) < 0 || hmac(key, 32, r->region, next, e) < 0 ||
	    hmac(next, 32, r->service, key, e) < 0 || hmac(key, 32, "aws4_request", next, e) < 0 ||
	    hmac(next, 32, text.data, key, e) < 0)
		return -1;
	explicit_bzero(secret, sizeof(secret));
	explicit_bzero(next, sizeof(next));
	hex_format(digest, key, 32);
	return buf_addf(out, e, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", r->access_key, scope,
			names.data ? names.data : "", digest);
}
