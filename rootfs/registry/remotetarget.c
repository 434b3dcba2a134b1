/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the targets of requests from a reference and the configuration. Pure. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "rootfs/registry/remote.h"

#define HUB "docker.io"
#define HUB_HOST "registry-1.docker.io"

/* Calls fn for each word of a list until it returns something else than 0. */
static int each_word(const char *list, int (*fn)(void *ctx, const char *word, struct err *e), void *ctx, struct err *e)
{
	char word[1024];
	size_t n;
	int r = 0;

	for (; list && *list && !r; list += n + (list[n] == '\n')) {
		n = strcspn(list, "\n");
		if (!n)
			continue;
		if (n >= sizeof(word))
			return err_set(e, ERR_CONFIG, "a word of [registry] in berth.toml is too long");
		memcpy(word, list, n);
		word[n] = '\0';
		r = fn(ctx, word, e);
	}
	return r;
}

static int is_domain(const char *s, size_t n)
{
	return memchr(s, '.', n) || memchr(s, ':', n) || (n == 9 && !memcmp(s, "localhost", 9));
}

struct look {
	const struct origin *origin;
};

static int same_host(void *ctx, const char *word, struct err *e)
{
	const struct look *l = ctx;
	struct origin o;

	if (origin_from_host(word, 0, &o, e) < 0) {
		e->code = ERR_CONFIG;
		return err_wrap(e, "registry.insecure in berth.toml");
	}
	/* the port of plain http, 80, unless it is named */
	return !strcmp(o.host, l->origin->host) && o.port == l->origin->port;
}

/* HOST[:PORT] to the base URL: https, unless it is listed or asked for. */
static int set_base(const char *host, const struct remote_options *o, int forced, char base[ORIGIN_TEXT_MAX], struct err *e)
{
	struct origin plain, tls;
	int insecure = forced;

	if (origin_from_host(host, 0, &plain, e) < 0 || origin_from_host(host, 1, &tls, e) < 0)
		return -1;
	if (!insecure)
		insecure = each_word(o->insecure, same_host, &(struct look){ &plain }, e);
	if (insecure < 0)
		return -1;
	origin_format(insecure ? &plain : &tls, base);
	return 0;
}

static int add_endpoint(struct remote_target *t, const char *host, const char *repo, const char *account,
			const struct remote_options *o, int forced, struct err *e)
{
	struct remote_endpoint *at = &t->at[t->count];

	if (t->count == REMOTE_ENDPOINTS_MAX)
		return err_set(e, ERR_CONFIG, "%s has more than %d mirrors", t->registry, REMOTE_ENDPOINTS_MAX - 1);
	if (strlen(repo) >= sizeof(at->repo) || strlen(account) >= sizeof(at->account))
		return err_set(e, ERR_INVALID, "repository '%.100s' is too long", repo);
	if (set_base(host, o, forced, at->base, e) < 0)
		return -1;
	strcpy(at->repo, repo);
	strcpy(at->account, account);
	t->count++;
	return 0;
}

struct mirrors {
	struct remote_target *target;
	const struct remote_options *options;
};

/* "docker.io=mirror.example:5000/prefix" */
static int add_mirror(void *ctx, const char *word, struct err *e)
{
	struct mirrors *m = ctx;
	const char *eq = strchr(word, '='), *slash;
	char host[ORIGIN_TEXT_MAX], repo[REMOTE_REPO_MAX * 2];
	size_t n;

	if (!eq || eq == word || !eq[1])
		return err_set(e, ERR_CONFIG, "registry.mirrors in berth.toml: '%.100s' is not REGISTRY=MIRROR", word);
	if (strncmp(word, m->target->registry, (size_t)(eq - word)) || m->target->registry[eq - word])
		return 0;
	slash = strchr(eq + 1, '/');
	n = slash ? (size_t)(slash - eq - 1) : strlen(eq + 1);
	if (n >= sizeof(host) || strlen(word) >= REMOTE_REPO_MAX || (slash && !slash[1]))
		return err_set(e, ERR_CONFIG, "registry.mirrors in berth.toml: '%.100s' is too long or ends in /", word);
	memcpy(host, eq + 1, n);
	host[n] = '\0';
	snprintf(repo, sizeof(repo), "%s%s%s", slash ? slash + 1 : "", slash ? "/" : "", m->target->repo);
	if (add_endpoint(m->target, host, repo, host, m->options, 0, e) < 0) {
		e->code = ERR_CONFIG;
		return err_wrap(e, "registry.mirrors in berth.toml");
	}
	return 0;
}

static int finish_target(struct remote_target *t, const struct remote_options *o, int mirrors, struct err *e)
{
	if (mirrors && each_word(o->mirrors, add_mirror, &(struct mirrors){ t, o }, e) < 0)
		return -1;
	if (!strcmp(t->registry, HUB))
		return add_endpoint(t, HUB_HOST, t->repo, HUB, o, 0, e);
	return add_endpoint(t, t->registry, t->repo, t->registry, o, o->all_insecure, e);
}

int remote_target(const struct ref *r, const struct remote_options *o, int mirrors, struct remote_target *ret,
		  struct err *e)
{
	struct remote_target t = { 0 };
	const char *slash = strchr(r->repo, '/');
	size_t n = slash ? (size_t)(slash - r->repo) : 0;

	if (slash && is_domain(r->repo, n)) {
		snprintf(t.registry, sizeof(t.registry), "%.*s", (int)n, r->repo);
		snprintf(t.repo, sizeof(t.repo), "%s", slash + 1);
	} else {
		strcpy(t.registry, HUB);
		snprintf(t.repo, sizeof(t.repo), "%s%s", slash ? "" : "library/", r->repo);
	}
	snprintf(t.ref, sizeof(t.ref), "%s", r->digest[0] ? r->digest : r->tag[0] ? r->tag : "latest");
	if (finish_target(&t, o, mirrors, e) < 0)
		return -1;
	*ret = t;
	return 0;
}

int remote_registry_target(const char *word, const struct remote_options *o, struct remote_target *ret, struct err *e)
{
	static const char *const hub[] = { "docker.io", "index.docker.io", "registry-1.docker.io", "hub.docker.com" };
	struct remote_target t = { 0 };
	struct origin check;
	size_t i, n;

	if (!strncmp(word, "https://", 8))
		word += 8;
	else if (!strncmp(word, "http://", 7))
		return err_set(e, ERR_INVALID, "'%.100s' is plain http; hint: give HOST:PORT and list it in "
			       "registry.insecure in berth.toml, or use --insecure", word);
	n = strcspn(word, "/");
	if (n >= sizeof(t.registry))
		return err_set(e, ERR_INVALID, "registry '%.100s' is too long", word);
	for (i = 0; i < n; i++)
		t.registry[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
	if (origin_from_host(t.registry, 1, &check, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(hub); i++)
		if (!strcmp(t.registry, hub[i]))
			strcpy(t.registry, HUB);
	if (finish_target(&t, o, 0, e) < 0)
		return -1;
	*ret = t;
	return 0;
}
