/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S15 of SECURITY.md. */
/*
 * Logging in: Basic, and bearer tokens fetched from the realm a registry names
 * (distribution specification, "token authentication").
 *
 * A registry that is not what it seems could name its own realm and wait for
 * the password.  So credentials go to a realm only when it is
 *   - the registry's own scheme, host and port,
 *   - https, and of the same registrable domain by the Public Suffix List
 *     (registry.example.org and auth.example.org),
 *   - auth.docker.io for Docker Hub, or
 *   - named for this registry in registry.realms of the configuration.
 * Any other realm is asked without credentials, as for a public image.  The
 * scope is ours, never the challenge's.
 */
#include <libpsl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "rootfs/http/exchange.h"

#define TOKEN_LIFE_MIN_S 60	/* distribution specification: no token has a shorter life */
#define TOKEN_LIFE_MAX_S 86400

static struct http_token *find_token(struct http_site *site, const char *scope)
{
	struct http_token *t;
	uint64_t now = clock_ms();

	for (t = site->tokens; t; t = t->next)
		if (!strcmp(t->scope, scope) && t->expires_ms > now)
			return t;
	return NULL;
}

static void drop_token(struct http_site *site, const char *scope)
{
	struct http_token **at = &site->tokens, *t;

	while ((t = *at)) {
		if (strcmp(t->scope, scope)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free(t->scope);
		free(t->token);
		free(t);
	}
}

static char *basic_line(const struct http_site *site, struct err *e)
{
	autofree char *plain = NULL, *text = NULL;
	char *line = NULL;
	int n = asprintf(&plain, "%s:%s", site->user, site->password);

	if (n < 0) {
		plain = NULL;
		err_nomem(e);
		return NULL;
	}
	text = malloc(4 * ((size_t)n + 2) / 3 + 5);
	if (!text || (EVP_EncodeBlock((unsigned char *)text, (unsigned char *)plain, n),
		      asprintf(&line, "Authorization: Basic %s", text) < 0)) {
		line = NULL;
		err_nomem(e);
	}
	explicit_bzero(plain, (size_t)n);
	return line;
}

char *auth_header(struct exchange *x, struct err *e)
{
	struct http_token *t;
	struct origin o;
	char *line = NULL;

	e->code = 0;
	if (x->is_token)
		return x->authorization ? strdup(x->authorization) : NULL;
	/* a header is bound to scheme, host and port: a redirect elsewhere gets none */
	if (origin_parse(x->url, "URL", &o, NULL, e) < 0)
		return NULL;
	if (!origin_equal(&o, &x->site->origin))
		return NULL;
	t = find_token(x->site, x->scope);
	if (t) {
		if (asprintf(&line, "Authorization: Bearer %s", t->token) < 0) {
			err_nomem(e);
			return NULL;
		}
		return line;
	}
	if (x->site->basic && x->site->password) {
		x->sent_basic = 1;
		return basic_line(x->site, e);
	}
	return NULL;
}

/* ---- the realm ---- */

static int is_docker_hub(const struct origin *site, const struct origin *realm)
{
	return site->tls && realm->tls && realm->port == 443 && !strcmp(realm->host, "auth.docker.io") &&
	       (!strcmp(site->host, "registry-1.docker.io") || !strcmp(site->host, "index.docker.io"));
}

static int is_same_domain(const struct origin *a, const struct origin *b)
{
	const psl_ctx_t *psl = psl_builtin();
	const char *da, *db;

	if (!a->tls || !b->tls || !psl || origin_is_address(a, NULL) || origin_is_address(b, NULL))
		return 0;
	da = psl_registrable_domain(psl, a->host);
	db = psl_registrable_domain(psl, b->host);
	return da && db && !strcmp(da, db);
}

/* An entry "HOST[:PORT]=REALMHOST[:PORT]"; the realm's scheme may not be weaker than the registry's. */
static int is_listed(const struct http *h, const struct origin *site, const struct origin *realm)
{
	size_t i;

	for (i = 0; i < h->realm_count; i++) {
		autofree char *copy = strdup(h->realms[i]);
		char *eq = copy ? strchr(copy, '=') : NULL;
		struct origin s, r;

		if (!eq)
			continue;
		*eq = '\0';
		if (origin_from_host(copy, site->tls, &s, NULL) < 0 ||
		    origin_from_host(eq + 1, realm->tls, &r, NULL) < 0)
			continue;
		if (origin_equal(&s, site) && origin_equal(&r, realm))
			return 1;
	}
	return 0;
}

static int may_have_credentials(const struct http *h, const struct origin *site, const struct origin *realm)
{
	return origin_equal(site, realm) || is_docker_hub(site, realm) || is_same_domain(site, realm) ||
	       is_listed(h, site, realm);
}

/* ---- the token ---- */

static int denied(struct exchange *x, const char *why, struct err *e)
{
	const char *host = x->site->origin.host;
	char at[ORIGIN_TEXT_MAX];

	origin_format(&x->site->origin, at);
	err_set(e, ERR_DENIED, "%s %s", at, why);
	/* users who log in to index.docker.io or registry-1.docker.io mean docker.io */
	if (!strcmp(host, "registry-1.docker.io"))
		return err_hint(e, "the image may not exist, or berth login docker.io");
	return err_hint(e, "berth login %s", strstr(at, "://") + 3);
}

/* Visible ASCII only: it becomes part of a header. */
static int token_ok(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		if ((unsigned char)s[n] <= 0x20 || (unsigned char)s[n] >= 0x7f)
			return 0;
	return n > 0 && n <= HTTP_TOKEN_MAX;
}

static int keep_token(struct exchange *x, const struct exchange *answer, struct err *e)
{
	static const char what[] = "the token server's answer";
	autojson json_t *j = json_parse(answer->text.data ? answer->text.data : "", answer->text.len,
					HTTP_TOKEN_ANSWER_MAX, what, e);
	uint64_t life = TOKEN_LIFE_MIN_S;
	const char *s = NULL;
	struct http_token *t;
	int r;

	if (!j)
		return -1;
	if (!json_is_object(j))
		return err_set(e, ERR_CORRUPT, "%s is not a JSON object", what);
	r = json_get_str(j, "token", &s, what, e);
	if (r >= 0 && (!s || !*s))
		r = json_get_str(j, "access_token", &s, what, e);
	if (r < 0 || json_get_u64(j, "expires_in", &life, what, e) < 0)
		return -1;
	if (!s || !token_ok(s))
		return err_set(e, ERR_CORRUPT, "%s holds no usable token", what);
	life = life < TOKEN_LIFE_MIN_S ? TOKEN_LIFE_MIN_S : life > TOKEN_LIFE_MAX_S ? TOKEN_LIFE_MAX_S : life;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->scope = strdup(x->scope);
		t->token = strdup(s);
	}
	if (!t || !t->scope || !t->token) {
		if (t) {
			free(t->scope);
			free(t->token);
		}
		free(t);
		return err_nomem(e);
	}
	drop_token(x->site, x->scope);
	/* 90 % of the life, because the request arrives later */
	t->expires_ms = clock_ms() + life * 900;
	t->next = x->site->tokens;
	x->site->tokens = t;
	return 0;
}

static void token_done(struct exchange *t)
{
	struct exchange *x = t->ctx;
	struct err e = { 0 };
	int rc;

	if (t->err.code) {
		e = t->err;
		err_wrap(&e, "get a token");
		rc = -1;
	} else {
		rc = keep_token(x, t, &e);
	}
	exchange_release(t);
	free(t);
	if (rc < 0) {
		x->err = e;
		x->done(x);
		return;
	}
	x->fresh_token = 1;
	exchange_start(x);
}

static int add_url_parameter(struct buf *b, CURL *c, const char *name, const char *value, int *first, struct err *e)
{
	char *escaped = curl_easy_escape(c, value, 0);
	int rc;

	if (!escaped)
		return err_nomem(e);
	rc = buf_addf(b, e, "%s%s=%s", *first ? "" : "&", name, escaped);
	*first = 0;
	curl_free(escaped);
	return rc;
}

/* "scope=a&scope=b" in a query; one "a b" in a form (OAuth2). */
static int add_scopes(struct buf *b, CURL *c, const char *scopes, int is_form, int *first, struct err *e)
{
	autofree char *copy = strdup(scopes);
	char *save = NULL, *one;

	if (!copy)
		return err_nomem(e);
	if (is_form)
		return *copy ? add_url_parameter(b, c, "scope", copy, first, e) : 0;
	for (one = strtok_r(copy, " ", &save); one; one = strtok_r(NULL, " ", &save))
		if (add_url_parameter(b, c, "scope", one, first, e) < 0)
			return -1;
	return 0;
}

static int fill_token_request(struct exchange *t, struct exchange *x, int with_credentials, struct err *e)
{
	const struct http_site *site = x->site;
	autobuf struct buf b = BUF_INIT(ORIGIN_URL_MAX - 1);
	CURL *c = curl_easy_init();
	int is_form = with_credentials && site->identity_token, first = 1, rc = 0;

	if (!c)
		return err_nomem(e);
	if (!is_form) {
		rc = buf_adds(&b, x->challenge.realm, e);
		if (rc == 0)
			rc = buf_adds(&b, strchr(x->challenge.realm, '?') ? "&" : "?", e);
	}
	if (rc == 0 && x->challenge.service[0])
		rc = add_url_parameter(&b, c, "service", x->challenge.service, &first, e);
	if (rc == 0)
		rc = add_scopes(&b, c, x->scope, is_form, &first, e);
	if (rc == 0 && is_form) {
		rc = add_url_parameter(&b, c, "grant_type", "refresh_token", &first, e);
		if (rc == 0)
			rc = add_url_parameter(&b, c, "client_id", "berth", &first, e);
		if (rc == 0)
			rc = add_url_parameter(&b, c, "refresh_token", site->identity_token, &first, e);
	} else if (rc == 0 && with_credentials && site->password) {
		rc = add_url_parameter(&b, c, "account", site->user, &first, e);
	}
	curl_easy_cleanup(c);
	if (rc < 0)
		return -1;
	snprintf(t->first_url, sizeof(t->first_url), "%s", is_form ? x->challenge.realm : b.data);
	if (is_form) {
		t->method = "POST";
		t->form = take_ptr(&b.data);
		t->content_type = "application/x-www-form-urlencoded";
	} else if (with_credentials && site->password) {
		t->authorization = basic_line(site, e);
		if (!t->authorization)
			return -1;
	}
	return 0;
}

static int fetch_token(struct exchange *x, struct err *e)
{
	struct origin realm;
	struct exchange *t;
	int allowed;

	if (origin_parse(x->challenge.realm, "auth realm", &realm, NULL, e) < 0) {
		e->code = ERR_DENIED;
		return -1;
	}
	if (x->site->origin.tls && !realm.tls)
		return err_set(e, ERR_DENIED, "the registry asks to log in over plain http at '%.200s', which is refused",
			       x->challenge.realm);
	if (exchange_refuses(x, &realm, e))
		return -1;
	allowed = may_have_credentials(x->http, &x->site->origin, &realm);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_nomem(e);
	exchange_init(t, x->http, x->site, "GET");
	t->is_token = 1;
	t->text_max = HTTP_TOKEN_ANSWER_MAX;
	t->accept = "application/json";
	t->ctx = x;
	t->done = token_done;
	if (fill_token_request(t, x, allowed, e) < 0) {
		exchange_release(t);
		free(t);
		return -1;
	}
	exchange_start(t);
	return 0;
}

int auth_challenged(struct exchange *x, struct err *e)
{
	int has_credentials = x->site->password || x->site->identity_token;
	struct origin o;

	if (x->is_token) {
		char at[ORIGIN_TEXT_MAX];

		origin_format(&x->site->origin, at);
		if (x->authorization || x->form)
			return denied(x, "refuses the user name or password", e);
		if (has_credentials)
			return err_set(e, ERR_DENIED, "%s asks to log in at '%.150s', which is of another domain and was "
				       "not given the credentials; hint: if that is right, add it to registry.realms "
				       "in berth.toml", at, x->first_url);
		return denied(x, "wants a login", e);
	}
	if (origin_parse(x->url, "URL", &o, NULL, e) < 0)
		return -1;
	if (!origin_equal(&o, &x->site->origin))
		return err_set(e, ERR_DENIED, "the registry redirected to %.100s, which wants a login of its own", o.host);
	if (x->challenge_err.code) {
		*e = x->challenge_err;
		return -1;
	}
	if (x->challenge.bearer && !x->fresh_token) {
		drop_token(x->site, x->scope);
		return fetch_token(x, e);
	}
	if (x->challenge.bearer)
		return denied(x, has_credentials ? "refuses access with these credentials" : "refuses access without a login", e);
	if (x->challenge.basic && x->site->password && !x->sent_basic) {
		x->site->basic = 1;
		exchange_start(x);
		return 0;
	}
	if (x->challenge.basic)
		return denied(x, x->site->password ? "refuses the user name or password" : "wants a login", e);
	return denied(x, "refuses access and does not say how to log in", e);
}
