/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's side of previews (preview.h): an address with a token, public ports, names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/api/api.h"
#include "manager/api/preview.h"

#define PREVIEW_TTL_MS (24 * UINT64_C(3600000))
#define PREVIEW_TTL_MAX_MS (366 * UINT64_C(86400000))

struct preview_ask {
	struct box b;
	unsigned port;
	json_t *rules;
};

static int preview_port(struct http_request *rq, struct preview_ask *p, struct err *e)
{
	uint64_t port = 0;

	box_init(&p->b, rq);
	if (box_find(&p->b, rq, e) < 0 || num_u64(http_param(rq, "port"), "port", 1, UINT16_MAX, &port, e) < 0)
		return -1;
	p->port = (unsigned)port;
	return 0;
}

static int change_public(struct preview_ask *p, const json_t *wanted, struct err *e)
{
	json_t *list = json_object_get(p->rules, "public");
	const int at = preview_is_public(p->rules, p->port);

	if (!wanted || !json_is_true(wanted) == !at)
		return 0;
	if (at) {
		json_array_remove(list, (size_t)at - 1);
		return 0;
	}
	if (!list)
		json_object_set_new(p->rules, "public", list = json_array());
	if (json_array_size(list) >= PREVIEW_PUBLIC_MAX)
		return err_set(e, ERR_LIMIT, "sandbox %s has %d public ports, and no more are taken", p->b.id, PREVIEW_PUBLIC_MAX);
	return json_array_append_new(list, json_integer((json_int_t)p->port)) < 0 ? err_nomem(e) : 0;
}

static int change_name(struct preview_ask *p, const char *name, struct err *e)
{
	json_t *names = json_object_get(p->rules, "names");

	if (!name)
		return 0;
	if (!preview_name_is_good(name))
		return err_set(e, ERR_INVALID, "'%.60s' is not a name of a preview; hint: a letter, then a-z 0-9 and -, at most 40", name);
	if (!names)
		json_object_set_new(p->rules, "names", names = json_object());
	if (!json_object_get(names, name) && json_object_size(names) >= PREVIEW_NAMES_MAX)
		return err_set(e, ERR_LIMIT, "sandbox %s has %d names of previews, and no more are taken", p->b.id, PREVIEW_NAMES_MAX);
	if (preview_name_take(&p->b.registry, name, p->b.id, p->port, e) < 0)
		return -1;
	return json_object_set_new(names, name, json_integer((json_int_t)p->port)) < 0 ? err_nomem(e) : 0;
}

static const char *name_of_port(const struct preview_ask *p)
{
	const char *name;
	json_t *v;

	json_object_foreach(json_object_get(p->rules, "names"), name, v)
		if (json_integer_value(v) == (json_int_t)p->port)
			return name;
	return NULL;
}

/* {"url","host","public","name"?} and with a token {"token","expires","signed_url"}. */
static json_t *describe_preview(struct preview_ask *p, const char *token, uint64_t expires_s, struct err *e)
{
	const char *name = name_of_port(p);
	char label[80];
	autofree char *url = NULL;
	json_t *j;

	snprintf(label, sizeof(label), "%u-%.64s", p->port, p->b.id);
	url = preview_url(api_of(p->b.rq)->previews, name ? name : label, e);
	if (!url)
		return NULL;
	j = json_pack("{s:s,s:s,s:i,s:b,s:s*}", "url", url, "host", strstr(url, "://") + 3, "port", (int)p->port, "public",
		      preview_is_open(p->rules, p->port), "name", name);
	if (j && token) {
		json_object_set_new(j, "token", json_string(token));
		json_object_set_new(j, "expires", json_integer((json_int_t)expires_s));
		json_object_set_new(j, "signed_url", json_sprintf("%s/?berth_token=%s", url, token));
	}
	if (!j)
		err_nomem(e);
	return j;
}

static json_t *describe_with_token(struct preview_ask *p, uint64_t ttl_ms, struct err *e)
{
	const uint64_t expires = clock_wall_ms() / 1000 + ttl_ms / 1000;
	unsigned char secret[32];
	char token[PREVIEW_TOKEN_SIZE];

	return api_box_secret(api_of(p->b.rq), &p->b.registry, 1, secret, e) < 0 ||
			       preview_token(secret, p->b.id, p->port, p->rules, expires, token, e) < 0 ?
		       NULL :
		       describe_preview(p, token, expires, e);
}

json_t *preview_grant(struct box *b, unsigned port, uint64_t ttl_ms, struct err *e)
{
	/* a view of b, which stays its caller's */
	struct preview_ask p = { .b = *b, .port = port, .rules = preview_rules(&b->registry, b->id, e) };
	json_t *given = p.rules ? describe_with_token(&p, ttl_ms ? ttl_ms : PREVIEW_TTL_MS, e) : NULL;

	json_decref(p.rules);
	return given;
}

static int post_preview(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const char *ttl_text = json_string_value(json_object_get(body, "ttl"));
	uint64_t ttl = PREVIEW_TTL_MS;
	struct preview_ask p = { .rules = NULL };
	json_t *answer = NULL;
	int r = preview_port(rq, &p, e), locked = 0;

	if (r == 0 && ttl_text)
		r = num_duration_ms(ttl_text, "ttl", PREVIEW_TTL_MAX_MS, &ttl, e);
	if (r == 0)
		locked = (r = registry_lock(&p.b.registry, e)) == 0;
	if (r == 0 && !(p.rules = preview_rules(&p.b.registry, p.b.id, e)))
		r = -1;
	if (r == 0)
		r = change_public(&p, json_object_get(body, "public"), e);
	if (r == 0)
		r = change_name(&p, json_string_value(json_object_get(body, "name")), e);
	if (r == 0 && json_object_size(body))
		r = registry_save(&p.b.registry, p.b.id, PREVIEW_FILE, p.rules, e);
	if (locked)
		registry_unlock(&p.b.registry);
	if (r == 0)
		answer = describe_with_token(&p, ttl, e);
	json_decref(p.rules);
	box_close(&p.b);
	return answer ? http_reply_json(rq, 0, answer, e) : -1;
}

static int get_preview(struct http_request *rq, struct err *e)
{
	struct preview_ask p = { .rules = NULL };
	json_t *answer = NULL;

	if (preview_port(rq, &p, e) == 0 && (p.rules = preview_rules(&p.b.registry, p.b.id, e)))
		answer = describe_preview(&p, NULL, 0, e);
	json_decref(p.rules);
	box_close(&p.b);
	return answer ? http_reply_json(rq, 0, answer, e) : -1;
}

/* The port is not public any more and has no name, and no token of the sandbox holds. */
static int delete_preview(struct http_request *rq, struct err *e)
{
	struct preview_ask p = { .rules = NULL };
	json_t *answer = NULL, *names;
	const char *name;
	int r = preview_port(rq, &p, e), locked = 0;

	if (r == 0)
		locked = (r = registry_lock(&p.b.registry, e)) == 0;
	if (r == 0 && !(p.rules = preview_rules(&p.b.registry, p.b.id, e)))
		r = -1;
	if (r == 0)
		r = change_public(&p, json_false(), e);
	names = json_object_get(p.rules, "names");
	while (r == 0 && (name = name_of_port(&p))) {
		preview_name_drop(&p.b.registry, name, p.b.id);
		json_object_del(names, name);
	}
	if (r == 0) {
		json_object_set_new(p.rules, "generation", json_integer(json_integer_value(json_object_get(p.rules, "generation")) + 1));
		r = registry_save(&p.b.registry, p.b.id, PREVIEW_FILE, p.rules, e);
	}
	if (locked)
		registry_unlock(&p.b.registry);
	if (r == 0)
		answer = describe_preview(&p, NULL, 0, e);
	json_decref(p.rules);
	box_close(&p.b);
	return answer ? http_reply_json(rq, 0, answer, e) : -1;
}

#define PREVIEW_PATH "/v1/sandboxes/{id}/ports/{port}/preview"

const struct http_route preview_routes[] = {
	{ "POST", PREVIEW_PATH, post_preview, "an address in the web for a port, with a token that holds for a while; makes it public, or gives it a name",
	  HTTP_JSON, HTTP_OPTIONAL, .request = "PreviewAsk", .response = "Preview" },
	{ "GET", PREVIEW_PATH, get_preview, "the address of a port, without a token", .response = "Preview" },
	{ "DELETE", PREVIEW_PATH, delete_preview, "take back that it is public, its names, and all tokens of the sandbox", .response = "Preview" },
	{ NULL },
};
