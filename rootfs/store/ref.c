/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/ref.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/path.h"

static int is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static int is_ref_alnum(char c)
{
	return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

/* Checks [a-z0-9]+ groups joined by one of ".", "_", "__" or any number of "-". */
static int component_ok(const char *s, size_t n)
{
	size_t i = 0, run;

	while (i < n) {
		if (!is_lower_alnum(s[i]))
			return 0;
		while (i < n && is_lower_alnum(s[i]))
			i++;
		if (i == n)
			return 1;
		run = strspn(s + i, "-");
		if (!run) {
			run = strspn(s + i, "_");
			if (run > 2)
				return 0;
		}
		if (!run && s[i] == '.')
			run = 1;
		if (!run)
			return 0;
		i += run;
	}
	return 0;
}

/* Checks HOST[:PORT]: letters, digits, inner '-' and '.', then at most five digits. */
static int domain_ok(const char *s, size_t n)
{
	const char *colon = memchr(s, ':', n);
	size_t host = colon ? (size_t)(colon - s) : n, i;

	if (!host || !is_ref_alnum(s[0]) || !is_ref_alnum(s[host - 1]))
		return 0;
	for (i = 1; i < host; i++)
		if (!is_ref_alnum(s[i]) && ((s[i] != '-' && s[i] != '.') || (s[i] == '.' && s[i - 1] == '.')))
			return 0;
	if (!colon)
		return 1;
	if (n - host - 1 < 1 || n - host - 1 > 5)
		return 0;
	for (i = host + 1; i < n; i++)
		if (s[i] < '0' || s[i] > '9')
			return 0;
	return 1;
}

static int is_ref_domain(const char *s, size_t n)
{
	return memchr(s, '.', n) || memchr(s, ':', n) || (n == 9 && !memcmp(s, "localhost", 9));
}

static int repo_ok(const char *s)
{
	const char *slash = strchr(s, '/');

	if (slash && is_ref_domain(s, (size_t)(slash - s))) {
		if (!domain_ok(s, (size_t)(slash - s)))
			return 0;
		s = slash + 1;
	}
	while ((slash = strchr(s, '/'))) {
		if (!component_ok(s, (size_t)(slash - s)))
			return 0;
		s = slash + 1;
	}
	return component_ok(s, strlen(s));
}

static int tag_ok(const char *s)
{
	size_t n = strlen(s), i;

	if (!n || n > REF_TAG_MAX || s[0] == '.' || s[0] == '-')
		return 0;
	for (i = 0; i < n; i++)
		if (!is_ref_alnum(s[i]) && !strchr("_.-", s[i]))
			return 0;
	return 1;
}

/*
 * Cuts Docker Hub's long forms to the short name. NULL if the rest would read as another registry:
 * docker.io/ghcr.io/x must not become ghcr.io/x.
 */
static const char *short_repo(const char *s)
{
	static const char *const hub[] = { "docker.io/", "index.docker.io/", "registry-1.docker.io/" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(hub); i++) {
		if (!strncmp(s, hub[i], strlen(hub[i]))) {
			s += strlen(hub[i]);
			if (strchr(s, '/') && is_ref_domain(s, strcspn(s, "/")))
				return NULL;
			break;
		}
	}
	if (!strncmp(s, "library/", 8) && s[8] && !strchr(s + 8, '/'))
		s += 8;
	return s;
}

static int malformed_ref(const char *s, const char *why, struct err *e)
{
	return err_set(e, ERR_INVALID, "image name '%.200s' %s; hint: names look like debian, "
		       "debian:12 or registry.example/team/app:1.0", s, why);
}

int ref_parse(const char *s, struct ref *ret, struct err *e)
{
	struct ref r = { 0 };
	char work[REF_NAME_MAX + DIGEST_SIZE + 40];
	const char *repo;
	char *at, *colon;
	size_t len = strlen(s);

	if (!len)
		return malformed_ref(s, "is empty", e);
	if (len >= sizeof(work))
		return malformed_ref(s, "is too long", e);
	memcpy(work, s, len + 1);
	at = strchr(work, '@');
	if (at) {
		*at++ = '\0';
		if (!digest_is_valid(at))
			return malformed_ref(s, "has a malformed digest after '@'", e);
		memcpy(r.digest, at, strlen(at) + 1);
	}
	colon = strrchr(work, ':');
	if (colon && !strchr(colon, '/')) {
		*colon++ = '\0';
		if (!tag_ok(colon))
			return malformed_ref(s, "has a malformed tag", e);
		snprintf(r.tag, sizeof(r.tag), "%s", colon);
	}
	if (!repo_ok(work))
		return malformed_ref(s, "is malformed", e);
	repo = short_repo(work);
	if (!repo)
		return malformed_ref(s, "names one registry within another", e);
	len = strlen(repo);
	if (len + 1 + (r.tag[0] ? strlen(r.tag) : strlen("latest")) > REF_NAME_MAX)
		return malformed_ref(s, "is too long", e);
	memcpy(r.repo, repo, len + 1);
	/* a lookup would take it for a digest */
	if (!strcmp(r.repo, "sha256") || !strcmp(r.repo, "sha512"))
		return malformed_ref(s, "is reserved for digests", e);
	*ret = r;
	return 0;
}

int ref_set_tenant(struct ref *r, const char *tenant, struct err *e)
{
	size_t n = strlen(r->repo) + 1 + strlen(r->tag[0] ? r->tag : "latest");

	if (tenant[0] && !path_is_name(tenant))
		return err_set(e, ERR_INVALID, "'%.80s' is not a name of a tenant; hint: "
			       "a-z 0-9 _ . -", tenant);
	if (tenant[0] && r->digest[0])
		return err_set(e, ERR_INVALID, "'%.200s@%.64s' has a digest: an image of a tenant "
			       "is named without one", r->repo, tenant);
	if (tenant[0] && n + 1 + strlen(tenant) > REF_NAME_MAX)
		return malformed_ref(r->repo, "is too long", e);
	snprintf(r->tenant, sizeof(r->tenant), "%s", tenant);
	return 0;
}

int ref_parse_owned(const char *s, struct ref *ret, struct err *e)
{
	const char *at = strrchr(s, '@');
	char name[REF_NAME_MAX + 1];
	struct ref r;

	/* a digest has a colon */
	if (!at || strchr(at, ':'))
		return ref_parse(s, ret, e);
	if ((size_t)(at - s) >= sizeof(name))
		return malformed_ref(s, "is too long", e);
	snprintf(name, sizeof(name), "%.*s", (int)(at - s), s);
	if (!at[1])
		return malformed_ref(s, "has a malformed digest after '@'", e);
	if (ref_parse(name, &r, e) < 0 || ref_set_tenant(&r, at + 1, e) < 0)
		return -1;
	*ret = r;
	return 0;
}

void ref_name(const struct ref *r, char ret[REF_NAME_MAX + 1])
{
	size_t n = strlen(r->repo);

	memcpy(ret, r->repo, n);
	/* ref_parse() and ref_set_tenant() made sure that all fit */
	snprintf(ret + n, REF_NAME_MAX + 1 - n, ":%s%s%s", r->tag[0] ? r->tag : "latest",
		 r->tenant[0] ? "@" : "", r->tenant);
}

void ref_filename(const struct ref *r, char ret[REF_NAME_MAX + 8])
{
	char *p;

	ref_name(r, ret);
	for (p = ret; *p; p++)
		if (*p == '/')
			*p = '%';
	memcpy(p, ".json", 6);
}

int ref_is_reserved(const struct ref *r)
{
	return !strcmp(r->repo, "host");
}

int ref_from_filename(const char *path, char ret[REF_NAME_MAX + 1])
{
	static const char *const suffixes[] = { ".gz", ".tgz", ".zst", ".zstd", ".tar", ".oci" };
	char name[101];
	size_t len, i, n = 0;
	struct ref r;

	len = strlen(path);
	while (len && path[len - 1] == '/')
		len--;
	for (i = len; i && path[i - 1] != '/'; i--)
		;
	path += i;
	len -= i;
	for (i = 0; i < ARRAY_LEN(suffixes); i++) {
		size_t cut = strlen(suffixes[i]);

		if (len > cut && !strncasecmp(path + len - cut, suffixes[i], cut)) {
			len -= cut;
			i = (size_t)-1;	/* .tar.gz has two suffixes */
		}
	}
	for (i = 0; i < len && n + 1 < sizeof(name); i++) {
		char c = path[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (is_lower_alnum(c))
			name[n++] = c;
		else if (n && is_lower_alnum(name[n - 1]))
			name[n++] = c == '.' || c == '_' ? c : '-';
	}
	while (n && !is_lower_alnum(name[n - 1]))
		n--;
	name[n] = '\0';
	if (ref_parse(name, &r, NULL) < 0)
		return -1;
	ref_name(&r, ret);
	return 0;
}
