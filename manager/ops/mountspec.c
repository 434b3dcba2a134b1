/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/mountspec.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"

#define TMPFS_DEFAULT_BYTES (64ULL << 20)

/*
 * Allocates the strings of one mount in one block: the option's own copy, and behind it the
 * absolute source. The caller frees the block.
 */
static char *block_of(const char *text, struct err *e)
{
	size_t n = strlen(text);
	char *b = malloc(n + 1 + PATH_MAX);

	if (!b) {
		err_nomem(e);
		return NULL;
	}
	memcpy(b, text, n + 1);
	return b;
}

static struct spec_mount *next_mount(struct spec *s, struct err *e)
{
	struct spec_mount *m;

	if (s->mount_count == SPEC_MOUNTS_MAX) {
		err_set(e, ERR_LIMIT, "more than %d mounts", SPEC_MOUNTS_MAX);
		return NULL;
	}
	m = &s->mounts[s->mount_count];
	memset(m, 0, sizeof(*m));
	m->exec = 1;
	m->source_fd = -1;
	m->mode = 01777;
	m->size_bytes = TMPFS_DEFAULT_BYTES;
	return m;
}

/*
 * Makes a relative source absolute by the caller's directory; room has PATH_MAX bytes. resolved: it
 * was resolved before, and that result counts (S51).
 */
static int absolute_source(const char *src, int resolved, char *room, const char **ret, struct err *e)
{
	if (!src[0])
		return err_set(e, ERR_INVALID, "the mount's source is empty");
	if (resolved && src[0] == '/')
		return *ret = src, 0;
	if (!realpath(src, room))
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "mount source %s", src);
	*ret = room;
	return 0;
}

/* Sets a target in the one spelling that the mount plan takes: no "//", no "/./", no "/" at the end. */
static int set_target(struct spec_mount *m, char *dst, struct err *e)
{
	char *out = dst;
	const char *p = dst;

	if (dst[0] != '/')
		return err_set(e, ERR_INVALID, "the mount's target '%.200s' must be an absolute path in the sandbox", dst);
	while (*p) {
		size_t n = strcspn(p + 1, "/");	/* p is at a '/' */

		if (n > 0 && !(n == 1 && p[1] == '.')) {
			memmove(out, p, n + 1);
			out += n + 1;
		}
		p += n + 1;
	}
	if (out == dst)
		out++;
	*out = '\0';
	m->target = dst;
	return 0;
}

static int set_mode(struct spec_mount *m, const char *v, struct err *e)
{
	char *end;
	unsigned long mode = strtoul(v, &end, 8);

	if (v[0] < '0' || v[0] > '7' || *end || mode > 01777)
		return err_set(e, ERR_INVALID, "mode '%.20s' is not octal up to 1777", v);
	m->mode = (uint32_t)mode;
	return 0;
}

/* Sets a directory of a volume: it is resolved below the volume's top, and through no link. */
static int set_sub(struct spec_mount *m, const char *v, struct err *e)
{
	const char *p;

	for (p = v; *p; p += strcspn(p, "/")) {
		p += strspn(p, "/");
		if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/'))
			break;
	}
	if (!v[0] || v[0] == '/' || *p || strlen(v) >= PATH_MAX)
		return err_set(e, ERR_INVALID, "sub=%.100s is not a path in a volume; "
			       "hint: without / before it and without ..", v);
	m->sub = v;
	return 0;
}

/* Handles one word after the paths: "rw", "noexec", "size=64m", ... */
static int set_word(struct spec_mount *m, char *word, struct err *e)
{
	char *v = strchr(word, '=');

	if (!strcmp(word, "ro") || !strcmp(word, "readonly")) {
		m->writable = 0;
		return 0;
	}
	if (!strcmp(word, "rw")) {
		m->writable = 1;
		return 0;
	}
	if (!strcmp(word, "exec") || !strcmp(word, "noexec")) {
		m->exec = word[0] == 'e';
		return 0;
	}
	if (!strcmp(word, "replaceable") && m->kind == SPEC_BIND) {
		m->replaceable = 1;
		return 0;
	}
	if (!strcmp(word, "nolinks") && m->kind == SPEC_BIND) {
		m->resolved = 1;
		return 0;
	}
	if (!strcmp(word, "nosymfollow")) {
		m->nosymfollow = 1;
		return 0;
	}
	if (v && m->kind == SPEC_TMPFS) {
		*v++ = '\0';
		if (!strcmp(word, "size"))
			return num_size(v, "size", 4096, 1ULL << 50, &m->size_bytes, e);
		if (!strcmp(word, "inodes"))
			return num_u64(v, "inodes", 1, 1ULL << 32, &m->inodes, e);
		if (!strcmp(word, "mode"))
			return set_mode(m, v, e);
	}
	if (v && m->kind != SPEC_TMPFS) {
		*v++ = '\0';
		if (m->kind == SPEC_VOLUME && !strcmp(word, "sub"))
			return set_sub(m, v, e);
		if (m->kind == SPEC_BIND && !strcmp(word, "quota"))
			return num_size(v, "quota", 1 << 20, 1ULL << 50, &m->quota_bytes, e);
		if (m->kind == SPEC_BIND && !strcmp(word, "owner") && !strcmp(v, "auto")) {
			m->owner_auto = 1;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID,
		       "'%.60s' is not a mount option; hint: ro, rw, exec, noexec, nosymfollow%s",
		       word, m->kind == SPEC_TMPFS ? ", size=, inodes=, mode=" :
		       m->kind == SPEC_BIND ? ", nolinks, replaceable, owner=auto, quota=" : ", sub=");
}

static int set_words(struct spec_mount *m, char *list, struct err *e)
{
	char *word;

	while ((word = strsep(&list, ",")))	/* an empty word counts as a word, and is refused */
		if (set_word(m, word, e) < 0)
			return -1;
	return 0;
}

int mountspec_is_path(const char *source, size_t n)
{
	return !n || source[0] == '.' || memchr(source, '/', n) != NULL;
}

/* Sets the source: the named volume src, or the host's file or directory; room has PATH_MAX bytes. */
static int set_source(struct spec_mount *m, const char *src, int resolved, char *room, struct err *e)
{
	if (m->kind != SPEC_VOLUME)
		return absolute_source(src, resolved || m->resolved, room, &m->source, e);
	if (!path_is_name(src))
		return err_set(e, ERR_INVALID, "'%.80s' is not the name of a volume; "
			       "hint: up to 64 of a-z 0-9 _ . -, starting with a letter or digit; "
			       "a directory has a / in it, as ./%.80s", src, src);
	m->source = src;
	return 0;
}

int mountspec_volume(struct spec *s, const char *text, char **ret_owned, struct err *e)
{
	autofree char *b = block_of(text, e);
	struct spec_mount *m = b ? next_mount(s, e) : NULL;
	char *dst, *words;

	if (!m)
		return -1;
	dst = strchr(b, ':');
	if (!dst)
		return err_set(e, ERR_INVALID, "'%.200s' has no ':'; hint: SOURCE:TARGET, or SOURCE:TARGET:rw", text);
	*dst++ = '\0';
	words = strchr(dst, ':');
	if (words)
		*words++ = '\0';
	m->kind = mountspec_is_path(b, strlen(b)) ? SPEC_BIND : SPEC_VOLUME;
	m->writable = m->kind == SPEC_VOLUME;
	if (set_target(m, dst, e) < 0 || (words && set_words(m, words, e) < 0) ||
	    set_source(m, b, s->sources_resolved, b + strlen(text) + 1, e) < 0)
		return -1;
	s->mount_count++;
	*ret_owned = take_ptr(&b);
	return 0;
}

int mountspec_tmpfs(struct spec *s, const char *text, char **ret_owned, struct err *e)
{
	autofree char *b = block_of(text, e);
	struct spec_mount *m = b ? next_mount(s, e) : NULL;
	char *words;

	if (!m)
		return -1;
	words = strchr(b, ':');
	if (words)
		*words++ = '\0';
	m->kind = SPEC_TMPFS;
	m->writable = 1;
	if (set_target(m, b, e) < 0 || (words && set_words(m, words, e) < 0))
		return -1;
	s->mount_count++;
	*ret_owned = take_ptr(&b);
	return 0;
}

static int mount_word_has(const char *word, const char *prefix, char **ret_value)
{
	size_t n = strlen(prefix);

	if (strncmp(word, prefix, n))
		return 0;
	*ret_value = (char *)word + n;
	return 1;
}

static int set_kind(struct spec_mount *m, const char *word)
{
	static const char *const words[] = { "type=bind", "type=tmpfs", "type=volume" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (!strcmp(word, words[i])) {
			m->kind = (enum spec_mount_kind)i;
			return 1;
		}
	return 0;
}

#define MOUNT_HINT "hint: type=bind,src=DIR,dst=DIR, type=volume,src=NAME,dst=DIR or " \
		   "type=tmpfs,dst=DIR"

int mountspec_mount(struct spec *s, const char *text, char **ret_owned, struct err *e)
{
	autofree char *b = block_of(text, e);
	struct spec_mount *m = b ? next_mount(s, e) : NULL;
	char *list = b, *word, *src = NULL, *dst = NULL, *rest[16], *v;
	size_t n = 0, i;
	int typed = 0, twice = 0;

	if (!m)
		return -1;
	while ((word = strsep(&list, ","))) {
		if (set_kind(m, word)) {
			twice |= typed;
			typed = 1;
		} else if (mount_word_has(word, "src=", &v) || mount_word_has(word, "source=", &v)) {
			twice |= src != NULL;
			src = v;
		} else if (mount_word_has(word, "dst=", &v) || mount_word_has(word, "destination=", &v) ||
			   mount_word_has(word, "target=", &v)) {
			twice |= dst != NULL;
			dst = v;
		} else if (n < ARRAY_LEN(rest)) {
			rest[n++] = word;
		} else {
			return err_set(e, ERR_INVALID, "too many options for one mount");
		}
	}
	if (twice)
		return err_set(e, ERR_INVALID, "'%.200s' has its type, source or target twice", text);
	if (!typed)
		return err_set(e, ERR_INVALID, "'%.200s' has no type; " MOUNT_HINT, text);
	if (!dst || (m->kind != SPEC_TMPFS) != (src != NULL))
		return err_set(e, ERR_INVALID, "'%.200s' must have dst=%s; " MOUNT_HINT,
			       text, m->kind != SPEC_TMPFS ? " and src=" : " and no src=");
	m->writable = m->kind != SPEC_BIND;
	for (i = 0; i < n; i++)
		if (set_word(m, rest[i], e) < 0)
			return -1;
	if (set_target(m, dst, e) < 0 ||
	    (src && set_source(m, src, s->sources_resolved, b + strlen(text) + 1, e) < 0))
		return -1;
	s->mount_count++;
	*ret_owned = take_ptr(&b);
	return 0;
}

/*
 * Parses the user: "" and root are 0:0; else numbers, because only the sandbox itself looks names
 * up in the image.
 */
static int numeric_owner(const char *user, uint32_t *ret_uid, uint32_t *ret_gid)
{
	char text[32], *colon;
	const size_t n = strcspn(user, ","); /* further groups own nothing */
	uint64_t uid, gid;
	struct err ignored;

	*ret_uid = *ret_gid = 0;
	if (n >= sizeof(text))
		return -1;
	memcpy(text, user, n);
	text[n] = '\0';
	if (!text[0] || !strcmp(text, "root") || !strcmp(text, "0"))
		return 0;
	colon = strchr(text, ':');
	if (!colon)
		return -1;
	*colon++ = '\0';
	if (num_u64(text, "uid", 0, SPEC_IDS - 1, &uid, &ignored) < 0 ||
	    num_u64(colon, "gid", 0, SPEC_IDS - 1, &gid, &ignored) < 0)
		return -1;
	*ret_uid = (uint32_t)uid;
	*ret_gid = (uint32_t)gid;
	return 0;
}

int mountspec_owner(struct spec *s, struct err *e)
{
	size_t i;

	for (i = 0; i < s->mount_count; i++) {
		struct spec_mount *m = &s->mounts[i];

		if (m->owner_auto && numeric_owner(s->user, &m->owner_uid, &m->owner_gid) < 0)
			return err_set(e, ERR_INVALID, "owner=auto cannot tell the numbers of user "
				       "'%.64s'; hint: --user UID:GID", s->user);
	}
	return 0;
}
