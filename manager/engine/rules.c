/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/rules.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const struct {
	const char *word;
	unsigned bit;
} words[] = {
	{ "privileged", ENGINE_PRIVILEGED },
	{ "host-network", ENGINE_HOST_NETWORK },
	{ "unconfined", ENGINE_UNCONFINED },
	{ "system-binds", ENGINE_SYSTEM_BINDS },
	{ "drop-docker-socket", ENGINE_DROP_SOCKET },
	{ "devices", ENGINE_DEVICES },
};

/* With everything below them, except for "/" itself. */
static const char *const system_places[] = {
	"/boot",	   "/dev",     "/etc", "/proc", "/root/.ssh", "/run", "/sys", "/usr",
	"/var/lib/docker", "/var/run", "/bin", "/sbin", "/lib",
};

unsigned engine_allow_bit(const char *word)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (!strcmp(words[i].word, word))
			return words[i].bit;
	return 0;
}

int engine_rules_need(const struct engine_rules *r, unsigned bit, const char *what, struct err *e)
{
	size_t i;

	if (r->allow & bit)
		return 0;
	for (i = 0; i + 1 < ARRAY_LEN(words) && words[i].bit != bit; i++)
		;
	err_set(e, ERR_DENIED, "%s is refused here", what);
	return err_hint(e, "[docker] allow = [\"%s\"] in berth.toml", words[i].word);
}

static int is_below(const char *path, const char *place)
{
	size_t n = strlen(place);

	return n && !strncmp(path, place, n) && (!path[n] || path[n] == '/');
}

/* Without "//", "/./", "/.." and a slash at the end; n >= PATH_MAX. */
static int clean(const char *path, char *out, size_t n)
{
	size_t len = 0, part;

	for (; *path; path += part) {
		path += strspn(path, "/");
		part = strcspn(path, "/");
		if (!part || (part == 1 && path[0] == '.'))
			continue;
		if (part == 2 && !strncmp(path, "..", 2)) {
			while (len && out[--len] != '/')
				;
			continue;
		}
		if (len + part + 2 > n)
			return -1;
		out[len++] = '/';
		memcpy(out + len, path, part);
		len += part;
	}
	if (!len)
		out[len++] = '/';
	out[len] = '\0';
	return 0;
}

static int overlaps(const char *path, const char *own)
{
	return own && own[0] && (is_below(path, own) || is_below(own, path));
}

static int check_place(const struct engine_rules *r, const char *path, struct err *e)
{
	char what[300];
	size_t i;

	if (!strcmp(path, "/"))
		return engine_rules_need(r, ENGINE_SYSTEM_BINDS, "a bind of /", e);
	for (i = 0; i < ARRAY_LEN(system_places); i++)
		if (is_below(path, system_places[i])) {
			snprintf(what, sizeof(what), "a bind of %.200s", path);
			return engine_rules_need(r, ENGINE_SYSTEM_BINDS, what, e);
		}
	return 0;
}

int engine_rules_drop(const struct engine_rules *r, const char *source)
{
	char path[PATH_MAX];

	return r->allow & ENGINE_DROP_SOCKET && source[0] == '/' &&
	       clean(source, path, sizeof(path)) == 0 &&
	       (!strcmp(path, "/var/run/docker.sock") || !strcmp(path, "/run/docker.sock"));
}

int engine_rules_bind(const struct engine_rules *r, const char *source, char *path, int *ret_kind,
		      struct err *e)
{
	const char *real;
	char room[PATH_MAX];

	*ret_kind = ENGINE_FILE;
	if (source[0] != '/' || clean(source, path, PATH_MAX) < 0)
		return err_set(e, ERR_INVALID,
			       "invalid mount config for type \"bind\": invalid mount "
			       "path: '%.200s' mount path must be absolute",
			       source);
	/* where the name leads, and not only what it is called */
	real = r->look ? r->look(path, room, ret_kind) : path;
	if (*ret_kind == ENGINE_SOCKET)
		return err_set(e, ERR_DENIED,
			       "a bind of the socket %.200s is refused: whoever "
			       "listens there would serve the container as the host's root",
			       path);
	if (check_place(r, path, e) < 0 || (real != path && check_place(r, real, e) < 0))
		return -1;
	if (real != path)
		snprintf(path, PATH_MAX, "%s", real);
	if (overlaps(path, r->state_dir) || overlaps(path, r->run_dir))
		return err_set(e, ERR_DENIED,
			       "a bind of %.200s is refused: berth keeps its own state "
			       "there",
			       path);
	return 0;
}
