/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/boxkey.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/api/http.h"

#define DIGEST 32
#define SIGNATURE_LEN 46 /* "v1_" and a digest in base64 without its padding */
#define MARK '.'

int boxkey_make(const unsigned char secret[BOXKEY_SECRET], const char *id, char ret[BOXKEY_SIZE],
		struct err *e)
{
	unsigned char code[DIGEST];
	size_t n = strlen(id);
	unsigned len = 0;

	if (n > 64 ||
	    !HMAC(EVP_sha256(), secret, BOXKEY_SECRET, (const unsigned char *)id, n, code, &len) ||
	    len != DIGEST)
		return err_set(e, ERR_INTERNAL, "the key of sandbox %.64s cannot be made", id);
	memcpy(ret, id, n);
	ret[n] = MARK;
	hex_format(ret + n + 1, code, DIGEST);
	return 0;
}

int boxkey_check(const unsigned char secret[BOXKEY_SECRET], const char *text, char ret_id[65])
{
	const char *mark = strchr(text, MARK);
	size_t n = mark ? (size_t)(mark - text) : 0;
	char id[65], right[BOXKEY_SIZE];
	struct err ignored;

	if (!n || n > 64 || strlen(mark + 1) != 2 * DIGEST)
		return 0;
	memcpy(id, text, n);
	id[n] = '\0';
	if (!path_is_name(id) || boxkey_make(secret, id, right, &ignored) < 0 ||
	    CRYPTO_memcmp(text, right, n + 1 + 2 * DIGEST))
		return 0;
	memcpy(ret_id, id, n + 1);
	return 1;
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* The value's place by the parameter's name; NULL: the address has no business with it. */
static const char **address_part(struct boxkey_address *a, const char *name)
{
	return !strcmp(name, "path")                 ? &a->path :
	       !strcmp(name, "username")             ? &a->user :
	       !strcmp(name, "signature")            ? &a->signature :
	       !strcmp(name, "signature_expiration") ? &a->expires :
						       NULL;
}

static int cut_address_query(struct boxkey_address *a, char *query, struct err *e)
{
	char *part, *save = NULL;

	for (part = strtok_r(query, "&", &save); part; part = strtok_r(NULL, "&", &save)) {
		char *value = part + strcspn(part, "=");
		const char **place;

		if (*value)
			*value++ = '\0';
		if (http_unescape(part) < 0 || http_unescape(value) < 0)
			return err_set(e, ERR_INVALID, "the address has a malformed escape");
		place = address_part(a, part);
		if (place && *place)
			return err_set(e, ERR_INVALID, "query parameter %s came twice", part);
		if (place)
			*place = value;
	}
	return 0;
}

/*
 * What was signed is one text, "PATH:OPERATION:USER:KEY" and perhaps ":EXPIRES".  Without a colon
 * in the user's name it can be read in one way only: else who may read /a:write:x as user y could
 * write /a as user "x:read:y".
 */
static int check_signed_address(struct boxkey_address *a, struct err *e)
{
	if (strchr(a->user, ':'))
		return err_set(e, ERR_INVALID, "the user's name is malformed");
	if (strlen(a->signature) != SIGNATURE_LEN)
		return err_set(e, ERR_INVALID, "the signature is malformed");
	return a->expires ? num_u64(a->expires, "signature_expiration", 0, UINT64_MAX >> 1,
				    &a->expires_s, e) :
			    0;
}

static int begin_digest(struct boxkey_address *a, struct err *e)
{
	EVP_MD_CTX *c = a->begun = EVP_MD_CTX_new();

	if (c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) &&
	    EVP_DigestUpdate(c, a->path, strlen(a->path)) && EVP_DigestUpdate(c, ":", 1) &&
	    EVP_DigestUpdate(c, a->operation, strlen(a->operation)) &&
	    EVP_DigestUpdate(c, ":", 1) && EVP_DigestUpdate(c, a->user, strlen(a->user)) &&
	    EVP_DigestUpdate(c, ":", 1))
		return 0;
	return err_nomem(e);
}

int boxkey_address_parse(struct boxkey_address *ret, const char *method, const char *target,
			 struct err *e)
{
	static const char files[] = "/files?";
	const int reads = !strcmp(method, "GET");

	*ret = (struct boxkey_address){ .operation = reads ? "read" : "write",
					.expires_s = UINT64_MAX };
	if (strncmp(target, files, sizeof(files) - 1) || (!reads && strcmp(method, "POST")))
		return 0;
	ret->text = strdup(target + sizeof(files) - 1);
	if (!ret->text)
		return err_nomem(e);
	if (cut_address_query(ret, ret->text, e) < 0)
		return -1;
	if (!ret->signature)
		return 0;
	ret->path = ret->path ? ret->path : "";
	ret->user = ret->user ? ret->user : "";
	return check_signed_address(ret, e) < 0 || begin_digest(ret, e) < 0 ? -1 : 1;
}

void boxkey_address_release(struct boxkey_address *a)
{
	EVP_MD_CTX_free(a->begun);
	free(a->text);
	*a = (struct boxkey_address){ 0 };
}

int boxkey_has_signed(const struct boxkey_address *a, const char *key)
{
	char right[3 + BASE64_LEN(DIGEST) + 1] = "v1_";
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	unsigned char digest[DIGEST];
	int ok = c && EVP_MD_CTX_copy_ex(c, a->begun) && EVP_DigestUpdate(c, key, strlen(key)) &&
		 (!a->expires || (EVP_DigestUpdate(c, ":", 1) &&
				  EVP_DigestUpdate(c, a->expires, strlen(a->expires)))) &&
		 EVP_DigestFinal_ex(c, digest, NULL);

	EVP_MD_CTX_free(c);
	if (!ok)
		return 0;
	base64_encode(right + 3, digest, DIGEST);
	return !CRYPTO_memcmp(a->signature, right, SIGNATURE_LEN);
}
