/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks envd of a sandbox: the holder of its key, which E2B's clients get when they make it, or
 * of an address that the key has signed.  Either is good for that sandbox alone, as its owner, and
 * no longer than the owner has a token.  The secret is made when it is first needed, and is kept in
 * the state directory, so that keys outlive berthd.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/boxkey.h"
#include "manager/api/e2b.h"
#include "manager/api/preview.h"
#include "manager/api/tokens.h"

#define SECRET_FILE "e2b.key" /* in the state directory, in hexadecimal digits */

/* ---- the secret ----------------------------------------------------------------------------- */

static int read_secret(const struct config *c, unsigned char ret[BOXKEY_SECRET], struct err *e)
{
	autobuf struct buf b = BUF_INIT(2 * BOXKEY_SECRET);
	char path[sizeof(c->state_dir) + 16];
	size_t i;
	int byte = 0;

	snprintf(path, sizeof(path), "%s/" SECRET_FILE, c->state_dir);
	if (io_read_private(path, &b, e) < 0)
		return -1;
	for (i = 0; i < BOXKEY_SECRET && b.len == 2 * BOXKEY_SECRET && byte >= 0; i++) {
		byte = hex_byte(b.data + 2 * i);
		ret[i] = (unsigned char)byte;
	}
	if (i == BOXKEY_SECRET && byte >= 0)
		return 0;
	return err_set(e, ERR_CONFIG,
		       SECRET_FILE " of the state directory does not hold 64 hexadecimal digits; "
				   "hint: remove it, which ends the keys that clients have");
}

static int make_secret(struct registry *r, struct err *e)
{
	unsigned char raw[BOXKEY_SECRET];
	char text[2 * BOXKEY_SECRET + 1];
	int done = 0;

	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return err_sys(e, "get random bytes");
	hex_format(text, raw, sizeof(raw));
	if (registry_lock(r, e) < 0)
		return -1;
	if (!path_has(r->state_fd, SECRET_FILE)) /* else another made it meanwhile */
		done = io_replace_file(r->state_fd, SECRET_FILE, text, strlen(text), 0600, 1, e);
	registry_unlock(r);
	return done;
}

/* 1 with the secret, 0 without one yet, -1. */
static int secret_of(struct api *a, struct registry *r, const struct config *c, int make,
		     unsigned char ret[BOXKEY_SECRET], struct err *e)
{
	int got = 1;

	pthread_mutex_lock(&a->e2b_lock);
	if (!a->e2b_has_secret) {
		got = path_has(r->state_fd, SECRET_FILE);
		if (!got && make)
			got = make_secret(r, e) < 0 ? -1 : 1;
		if (got > 0)
			got = read_secret(c, a->e2b_secret, e) < 0 ? -1 : 1;
		a->e2b_has_secret = got > 0;
	}
	memcpy(ret, a->e2b_secret, BOXKEY_SECRET);
	pthread_mutex_unlock(&a->e2b_lock);
	return got;
}

int api_box_secret(struct api *a, struct registry *r, int make, unsigned char ret[BOXKEY_SECRET], struct err *e)
{
	return secret_of(a, r, r->config, make, ret, e);
}

json_t *e2b_key(struct http_request *rq, const char *id, struct err *e)
{
	unsigned char secret[BOXKEY_SECRET];
	char key[BOXKEY_SIZE];
	struct box b;
	int r = box_open(&b, rq, e);

	if (r == 0 && secret_of(api_of(rq), &b.registry, &b.config, 1, secret, e) < 0)
		r = -1;
	box_close(&b);
	if (r < 0 || boxkey_make(secret, id, key, e) < 0)
		return NULL;
	return json_string(key);
}

/* ---- who ------------------------------------------------------------------------------------ */

struct asked {
	struct registry registry;
	struct config config;
	unsigned char secret[BOXKEY_SECRET];
	const struct boxkey_address *address;
	char id[65];
};

static int has_signed(void *ctx, const char *id)
{
	char key[BOXKEY_SIZE];
	struct asked *a = ctx;
	struct err ignored;

	if (boxkey_make(a->secret, id, key, &ignored) < 0 || !boxkey_has_signed(a->address, key))
		return 0;
	snprintf(a->id, sizeof(a->id), "%s", id);
	return 1;
}

static int refuse_key(struct http_request *rq, int status, const char *why, struct err *e)
{
	http_error_status(rq, status);
	return err_set(e, status == 401 ? ERR_DENIED : ERR_NOT_FOUND, "%s", why);
}

/* The sandbox's owner, for that sandbox alone. */
static int become_sandbox_owner(struct api *api, struct asked *a, struct http_request *rq, struct http_who *ret,
		  struct err *e)
{
	autojson json_t *owner = registry_load(&a->registry, a->id, REGISTRY_OWNER, e);
	const char *name = json_string_value(json_object_get(owner, "name"));
	int known;

	/* the operator's has none; one that cannot be read is not taken for that */
	if (owner ? !name : e->code != ERR_NOT_FOUND)
		return refuse_key(rq, 401, "the sandbox's owner cannot be read", e);
	/* as E2B's proxy says it, by which an SDK knows that a sandbox runs no more */
	if (!path_has(a->registry.sandboxes_fd, a->id))
		return refuse_key(rq, 502, "the sandbox was not found", e);
	pthread_rwlock_rdlock(&api->lock);
	known = !name || tokens_has(api->tokens, name);
	pthread_rwlock_unlock(&api->lock);
	if (!known)
		return refuse_key(rq, 401, "the sandbox's owner has no token any more", e);
	*ret = (struct http_who){ .admin = !name };
	snprintf(ret->name, sizeof(ret->name), "%s", name ? name : "e2b");
	snprintf(ret->only, sizeof(ret->only), "%s", a->id);
	return 1;
}

/* 1 the sandbox of the key or signature is a->id; 0 it is not a key of ours; -1. */
static int find_keyed_sandbox(struct asked *a, struct http_request *rq, const char *key, struct err *e)
{
	if (key)
		return boxkey_check(a->secret, key, a->id);
	if (registry_each(a->registry.sandboxes_fd, has_signed, a, e) <= 0)
		return refuse_key(rq, 401, "the signature is of no sandbox that runs", e);
	if (a->address->expires_s < clock_wall_ms() / 1000)
		return refuse_key(rq, 401, "signature is already expired", e);
	return 1;
}

static int identify(struct api *api, struct http_request *rq, const char *key,
		    const struct boxkey_address *address, struct http_who *ret, struct err *e)
{
	struct asked a = { .address = address };
	int r;

	api_config(api, &a.config);
	if (registry_open(&a.registry, &a.config, e) < 0)
		return -1;
	r = secret_of(api, &a.registry, &a.config, 0, a.secret, e);
	if (r > 0)
		r = find_keyed_sandbox(&a, rq, key, e);
	if (r > 0)
		r = become_sandbox_owner(api, &a, rq, ret, e);
	registry_close(&a.registry);
	return r || key ? r : refuse_key(rq, 401, "the signature is of no sandbox that runs", e);
}

int api_check_key(void *context, struct http_request *rq, struct http_who *ret, struct err *e)
{
	const char *key = http_header(rq, "X-Access-Token");
	struct boxkey_address address;
	int r;

	if (!key)
		key = http_header(rq, "E2B-Traffic-Access-Token");
	if (key)
		return strchr(key, E2B_TOKEN_MARK[0]) ? identify(context, rq, key, NULL, ret, e) :
							0;
	if (http_bearer(rq))
		return 0;
	r = boxkey_address_parse(&address, http_method(rq), http_target(rq), e);
	if (r < 0)
		http_error_status(rq, 400);
	if (r > 0)
		r = identify(context, rq, NULL, &address, ret, e);
	if (r < 0)
		http_error_shape(rq, e2b_error);
	boxkey_address_release(&address);
	return r;
}
