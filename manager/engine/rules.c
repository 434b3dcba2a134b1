/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/create.h"

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
	{ "public-subnets", ENGINE_PUBLIC_SUBNETS },
};

/*
 * Refused with everything below them: the system's, what speaks for its users, and other ways to it: its
 * memory on disk, its snapshots, the trees that it is made of.
 */
static const char *const system_trees[] = {
	"/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/usr", "/var", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
	"/libx32", "/efi", "/gnu", "/nix", "/ostree", "/snap", "/sysroot", "/.snapshots", "/lost+found", "/swapfile", "/swap.img",
	"/initrd.img", "/vmlinuz",
};

/* Below those, and bound like any other directory. */
static const char *const usual[] = { "/var/tmp", "/var/www", "/var/opt" };

/* Refused as a whole, because they hold what belongs to many; a directory in one is bound. */
static const char *const shared_tops[] = { "/", "/home", "/root", "/srv", "/opt", "/mnt", "/media", "/var/tmp", "/var/opt" };

/* Keys of a user, anywhere in a path. */
static const char *const secrets[] = { ".ssh", ".gnupg", ".aws", ".kube", ".docker" };

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

static int is_below_place(const char *path, const char *place)
{
	size_t n = strlen(place);

	return n && !strncmp(path, place, n) && (!path[n] || path[n] == '/');
}

/* Without "//", "/./", "/.." and a slash at the end; n >= PATH_MAX. */
static int clean_bind_path(const char *path, char *out, size_t n)
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
	return own && own[0] && (is_below_place(path, own) || is_below_place(own, path));
}

static int is_bind_path_one_of(const char *path, const char *const *list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(path, list[i]))
			return 1;
	return 0;
}

static int is_in_one_of(const char *path, const char *const *list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (is_below_place(path, list[i]))
			return 1;
	return 0;
}

static int has_secret(const char *path)
{
	char part[16];
	size_t n;

	for (; *path; path += n) {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n >= sizeof(part))
			continue;
		memcpy(part, path, n);
		part[n] = '\0';
		if (is_bind_path_one_of(part, secrets, ARRAY_LEN(secrets)))
			return 1;
	}
	return 0;
}

/* What root's shells and programs read by themselves: whoever writes it is root at the next login. */
static int is_roots_own(const char *path)
{
	return !strncmp(path, "/root/.", 7);
}

/* Whether a line of [docker] binds is path, or a directory above it. */
static int is_the_operators(const struct engine_rules *r, const char *path)
{
	const char *line;
	char place[PATH_MAX];
	size_t n;

	for (line = r->binds ? r->binds : ""; *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (n && n < sizeof(place)) {
			memcpy(place, line, n);
			place[n] = '\0';
			if (is_below_place(path, place))
				return 1;
		}
	}
	return 0;
}

static int is_dockers_socket(const char *path)
{
	return !strcmp(path, "/var/run/docker.sock") || !strcmp(path, "/run/docker.sock");
}

/* No key lets a socket in; one lets a bind of Docker's be left out. */
static int refuse_socket(const char *path, struct err *e)
{
	err_set(e, ERR_DENIED,
		"a bind of the socket %.200s is refused: whoever "
		"listens there would serve the container as the host's root",
		path);
	return is_dockers_socket(path) ?
		       err_hint(e, "[docker] allow = [\"drop-docker-socket\"] in berth.toml "
				   "leaves it out of the container") :
		       -1;
}

/* Upholds S51 of SECURITY.md. */
static int check_bind_place(const struct engine_rules *r, const char *path, struct err *e)
{
	const int is_system = is_in_one_of(path, system_trees, ARRAY_LEN(system_trees)) &&
			      !is_in_one_of(path, usual, ARRAY_LEN(usual));

	if (r->allow & ENGINE_SYSTEM_BINDS || is_the_operators(r, path))
		return 0;
	if (!is_system && !is_bind_path_one_of(path, shared_tops, ARRAY_LEN(shared_tops)) && !is_roots_own(path) && !has_secret(path))
		return 0;
	if (is_dockers_socket(path))
		return refuse_socket(path, e);
	err_set(e, ERR_DENIED, "a bind of %.200s is refused here", path);
	return err_hint(e, "[docker] binds = [\"%.200s\"] in berth.toml, or a directory of your own", path);
}

int engine_rules_drop(const struct engine_rules *r, const char *source)
{
	char path[PATH_MAX];

	return r->allow & ENGINE_DROP_SOCKET && source[0] == '/' &&
	       clean_bind_path(source, path, sizeof(path)) == 0 && is_dockers_socket(path);
}

int engine_rules_bind(const struct engine_rules *r, const char *source, char *path, int *ret_kind,
		      struct err *e)
{
	const char *real;
	char room[PATH_MAX];

	*ret_kind = ENGINE_FILE;
	if (source[0] != '/' || clean_bind_path(source, path, PATH_MAX) < 0)
		return err_set(e, ERR_INVALID,
			       "invalid mount config for type \"bind\": invalid mount "
			       "path: '%.200s' mount path must be absolute",
			       source);
	/* where the name leads, and not only what it is called */
	real = r->look ? r->look(path, room, ret_kind) : path;
	if (*ret_kind == ENGINE_SOCKET)
		return refuse_socket(path, e);
	if (check_bind_place(r, path, e) < 0 || (real != path && check_bind_place(r, real, e) < 0))
		return -1;
	if (real != path)
		snprintf(path, PATH_MAX, "%s", real);
	if (overlaps(path, r->state_dir) || overlaps(path, r->run_dir) || overlaps(path, r->ids_dir))
		return err_set(e, ERR_DENIED,
			       "a bind of %.200s is refused: berth keeps its own state "
			       "there",
			       path);
	return 0;
}
