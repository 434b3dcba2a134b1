/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/credential.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

static void wipe(char **s)
{
	if (*s)
		explicit_bzero(*s, strlen(*s));
	free(*s);
	*s = NULL;
}

void credential_release(struct credential *c)
{
	wipe(&c->user);
	wipe(&c->password);
	wipe(&c->identity_token);
}

/* Printable and no more: user names and passwords travel in headers and URLs. */
int credential_text_ok(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		if ((unsigned char)s[n] < 0x20 || s[n] == 0x7f)
			return 0;
	return n <= CREDENTIAL_SECRET_MAX;
}

int credential_check(const struct credential *c, const char *what, struct err *e)
{
	if ((c->user && !credential_text_ok(c->user)) || (c->password && !credential_text_ok(c->password)) ||
	    (c->identity_token && !credential_text_ok(c->identity_token)) || (c->user && strchr(c->user, ':')))
		return err_set(e, ERR_CORRUPT, "%s: a user name or secret has control characters or is too long", what);
	return 0;
}

/* ---- reading ---- */

static int decode(const char *text, struct credential *c, const char *what, struct err *e)
{
	size_t n = strlen(text), pad = 0;
	autofree unsigned char *plain = NULL;
	char *colon;
	int len;

	while (pad < 2 && pad < n && text[n - 1 - pad] == '=')
		pad++;
	if (n > 4 * (size_t)CREDENTIAL_SECRET_MAX || n % 4)
		return err_set(e, ERR_CORRUPT, "%s: an \"auth\" is not base64", what);
	plain = malloc(n / 4 * 3 + 1);
	if (!plain)
		return err_nomem(e);
	len = EVP_DecodeBlock(plain, (const unsigned char *)text, (int)n);
	if (len < (int)pad)
		return err_set(e, ERR_CORRUPT, "%s: an \"auth\" is not base64", what);
	plain[(size_t)len - pad] = '\0';
	colon = strchr((char *)plain, ':');
	if (!colon || strlen((char *)plain) != (size_t)len - pad)
		return err_set(e, ERR_CORRUPT, "%s: an \"auth\" is not USER:PASSWORD", what);
	*colon = '\0';
	c->user = strdup((char *)plain);
	c->password = strdup(colon + 1);
	explicit_bzero(plain, (size_t)len);
	if (!c->user || !c->password)
		return err_nomem(e);
	return 0;
}

static int from_entry(const json_t *entry, struct credential *c, const char *what, struct err *e)
{
	const char *auth = NULL, *token = NULL, *user = NULL, *password = NULL;

	if (!json_is_object(entry))
		return err_set(e, ERR_CORRUPT, "%s: an entry of \"auths\" is not an object", what);
	if (json_get_str(entry, "auth", &auth, what, e) < 0 ||
	    json_get_str(entry, "identitytoken", &token, what, e) < 0 ||
	    json_get_str(entry, "username", &user, what, e) < 0 ||
	    json_get_str(entry, "password", &password, what, e) < 0)
		return -1;
	if (token && *token) {
		c->identity_token = strdup(token);
		if (!c->identity_token)
			return err_nomem(e);
		return 1;
	}
	if (auth && *auth) {
		if (decode(auth, c, what, e) < 0)
			return -1;
		return 1;
	}
	if (!user || !password)
		return 0;	/* docker leaves such for its helpers */
	c->user = strdup(user);
	c->password = strdup(password);
	return c->user && c->password ? 1 : err_nomem(e);
}

/* The spellings docker has used for one registry. */
int credential_is_key_of(const char *key, const char *registry)
{
	static const char *const hub[] = { "https://index.docker.io/v1/", "index.docker.io", "docker.io",
					   "registry-1.docker.io", "https://index.docker.io/v1", "https://docker.io" };
	size_t i, n = strlen(registry);

	if (!strcmp(registry, "docker.io")) {
		for (i = 0; i < ARRAY_LEN(hub); i++)
			if (!strcmp(key, hub[i]))
				return 1;
		return 0;
	}
	if (!strncmp(key, "https://", 8))
		key += 8;
	else if (!strncmp(key, "http://", 7))
		key += 7;
	if (strncmp(key, registry, n))
		return 0;
	key += n;
	return !*key || !strcmp(key, "/") || !strcmp(key, "/v1/") || !strcmp(key, "/v2/") || !strcmp(key, "/v1") ||
	       !strcmp(key, "/v2");
}

int credential_parse(const char *text, size_t n, const char *registry, const char *what, struct credential *ret,
		     struct err *e)
{
	autojson json_t *doc = json_parse(text, n, CREDENTIAL_FILE_MAX, what, e);
	autocredential struct credential c = { 0 };
	json_t *auths = NULL, *entry;
	const char *key;
	int r = 0;

	if (!doc)
		return -1;
	if (!json_is_object(doc))
		return err_set(e, ERR_CORRUPT, "%s is not a JSON object", what);
	if (json_get_obj(doc, "auths", &auths, what, e) < 0)
		return -1;
	json_object_foreach(auths, key, entry) {
		if (r || !credential_is_key_of(key, registry))
			continue;
		r = from_entry(entry, &c, what, e);
		if (r < 0)
			return -1;
		if (r && credential_check(&c, what, e) < 0)
			return err_wrap(e, "the entry of %.200s", key);
	}
	if (r) {
		*ret = c;
		c = (struct credential){ 0 };
	}
	return r;
}

int credential_helper(const char *text, size_t n, const char *registry, const char *what, char *ret, size_t size,
		      struct err *e)
{
	autojson json_t *doc = json_parse(text, n, CREDENTIAL_FILE_MAX, what, e);
	json_t *helpers = NULL, *one;
	const char *name = NULL, *key;

	if (!doc)
		return -1;
	if (!json_is_object(doc))
		return err_set(e, ERR_CORRUPT, "%s is not a JSON object", what);
	if (json_get_obj(doc, "credHelpers", &helpers, what, e) < 0 || json_get_str(doc, "credsStore", &name, what, e) < 0)
		return -1;
	json_object_foreach(helpers, key, one) {
		if (!credential_is_key_of(key, registry))
			continue;
		name = json_string_value(one);
		if (!name)
			return err_set(e, ERR_CORRUPT, "%s: credHelpers of %.200s is not a string", what, key);
		break;
	}
	if (!name || !*name)
		return 0;
	if (strlen(name) >= size)
		return err_set(e, ERR_CORRUPT, "%s: the name of a credential helper is too long", what);
	strcpy(ret, name);
	return 1;
}
