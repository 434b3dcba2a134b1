/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/login.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/json.h"
#include "base/mem.h"

static int refuse_login(struct err *e)
{
	return err_set(e, ERR_INVALID, "X-Registry-Auth is not the JSON of a login in base64");
}

/* Go's clients use the alphabet of URLs, and leave the padding out; we restore it. */
static char *decode_login_base64(const char *text, size_t *ret_n)
{
	size_t n = strlen(text), i;
	autofree char *coded = malloc(n + 4);
	char *plain = malloc(n + 1);

	for (i = 0; coded && plain && i < n; i++)
		coded[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
	while (coded && plain && n % 4)
		coded[n++] = '=';
	if (coded && plain && base64_decode(plain, ret_n, coded, n) == 0)
		return plain;
	free(plain);
	return NULL;
}

static int take_login_text(const json_t *j, const char *key, char *room, size_t size, struct err *e)
{
	const json_t *v = json_object_get(j, key);
	const char *s = json_string_value(v);

	room[0] = '\0';
	if (!v)
		return 0;
	if (!s || strlen(s) != json_string_length(v) || strlen(s) >= size)
		return refuse_login(e);
	snprintf(room, size, "%s", s);
	return 0;
}

/* "auth" of docker's config.json: base64 of USER:PASSWORD. */
static int take_auth(const json_t *j, struct engine_login *l, struct err *e)
{
	const char *auth = json_string_value(json_object_get(j, "auth"));
	autofree char *plain = NULL;
	char *colon;
	size_t n = 0;
	int r;

	if (l->user[0] || !auth || !auth[0])
		return 0;
	plain = decode_login_base64(auth, &n);
	if (!plain)
		return refuse_login(e);
	plain[n] = '\0';
	colon = strchr(plain, ':');
	if (!colon || strlen(plain) != n)
		return refuse_login(e);
	*colon++ = '\0';
	r = (size_t)snprintf(l->user, sizeof(l->user), "%s", plain) >= sizeof(l->user) ||
	    (size_t)snprintf(l->password, sizeof(l->password), "%s", colon) >= sizeof(l->password);
	explicit_bzero(plain, n);
	return r ? refuse_login(e) : 0;
}

static int read_login_json(const json_t *j, struct engine_login *l, struct err *e)
{
	const char *token = json_string_value(json_object_get(j, "identitytoken"));

	if (!json_is_object(j))
		return refuse_login(e);
	if (token && token[0])
		return err_set(e, ERR_UNSUPPORTED,
			       "an identity token is not taken; log in with a "
			       "user name and a password");
	if (take_login_text(j, "username", l->user, sizeof(l->user), e) < 0 ||
	    take_login_text(j, "password", l->password, sizeof(l->password), e) < 0)
		return -1;
	return take_auth(j, l, e);
}

int engine_login_read(const char *text, struct engine_login *ret, struct err *e)
{
	autojson json_t *j = NULL;
	struct err ignored;
	char *plain;
	size_t n = 0;

	memset(ret, 0, sizeof(*ret));
	if (!text || !text[0])
		return 0;
	plain = strlen(text) <= ENGINE_LOGIN_MAX ? decode_login_base64(text, &n) : NULL;
	if (!plain)
		return refuse_login(e);
	j = json_parse(plain, n, ENGINE_LOGIN_MAX, "X-Registry-Auth", &ignored);
	explicit_bzero(plain, n);
	free(plain);
	if (j && read_login_json(j, ret, e) == 0)
		return 0;
	engine_login_forget(ret);
	return j ? -1 : refuse_login(e);
}

void engine_login_forget(struct engine_login *l)
{
	explicit_bzero(l, sizeof(*l));
}

const char *engine_login_server(const char *server)
{
	static const char scheme[] = "https://", hub[] = "index.docker.io";
	const size_t n = sizeof(hub) - 1;

	if (!strncmp(server, scheme, sizeof(scheme) - 1))
		server += sizeof(scheme) - 1;
	return !server[0] || (!strncmp(server, hub, n) && strchr("/", server[n])) ? "docker.io" : server;
}
