/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ledger/storeurl.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/num.h"

#define KNOWN "sqlite:/PATH, redis://HOST:PORT/DB or redis+unix:/PATH"
#define SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static int take_store_path(const char *path, size_t max, const char *what, char out[256], struct err *e)
{
	if (path[0] != '/' || !path[1])
		return err_set(e, ERR_CONFIG, "%s names no absolute path; hint: " KNOWN, what);
	if (strlen(path) > max)
		return err_set(e, ERR_CONFIG, "the path in %s has more than %zu bytes", what, max);
	snprintf(out, 256, "%s", path);
	return 0;
}

static int take_store_number(const char *text, const char *part, const char *what, uint64_t min, uint64_t *ret, struct err *e)
{
	char name[120];

	snprintf(name, sizeof(name), "the %s in %.80s", part, what);
	if (num_u64(text, name, min, 65535, ret, e) == 0)
		return 0;
	e->code = ERR_CONFIG;
	return -1;
}

/* HOST[:PORT][/DB] */
static int take_server(const char *rest, const char *what, struct storeurl *ret, struct err *e)
{
	const char *slash = strchr(rest, '/');
	size_t n = slash ? (size_t)(slash - rest) : strlen(rest);
	uint64_t port = 6379;
	char *colon;

	if (strchr(rest, '@'))
		return err_set(e, ERR_CONFIG, "%s holds a password; hint: put it in the file that store.password_file names", what);
	if (n >= sizeof(ret->host))
		return err_set(e, ERR_CONFIG, "the host in %s is too long", what);
	snprintf(ret->host, sizeof(ret->host), "%.*s", (int)n, rest);
	colon = strrchr(ret->host, ':');
	if (colon && (ret->host[0] != '[' || (colon > ret->host && colon[-1] == ']'))) {
		if (take_store_number(colon + 1, "port", what, 1, &port, e) < 0)
			return -1;
		*colon = '\0';
	}
	n = strlen(ret->host);
	if (n && ret->host[0] == '[' && ret->host[n - 1] == ']') {
		memmove(ret->host, ret->host + 1, n - 2);
		ret->host[n - 2] = '\0';
	}
	if (!ret->host[0])
		return err_set(e, ERR_CONFIG, "%s names no host; hint: redis://127.0.0.1:6379/0", what);
	ret->port = (int)port;
	return slash && slash[1] ? take_store_number(slash + 1, "database", what, 0, &ret->db, e) : 0;
}

int storeurl_parse(const char *url, const char *what, struct storeurl *ret, struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	if (!strncmp(url, "sqlite:", 7))
		return take_store_path(url + 7, sizeof(ret->path) - 1, what, ret->path, e);
	ret->kind = STORE_REDIS_UNIX;
	if (!strncmp(url, "redis+unix:", 11))
		return take_store_path(url + 11, SOCKET_PATH_MAX, what, ret->path, e);
	ret->kind = STORE_REDIS;
	if (!strncmp(url, "redis://", 8))
		return take_server(url + 8, what, ret, e);
	if (!strncmp(url, "rediss://", 9))
		return err_set(e, ERR_CONFIG, "%s: TLS to Redis is not supported; hint: redis+unix:/PATH of a local tunnel", what);
	return err_set(e, ERR_CONFIG, "%s '%.100s' is unknown; hint: " KNOWN, what, url);
}
