/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets of a build: files and variables of the caller's that RUN --mount=type=secret shows to one
 * step.  They are copied into the room, where buildah finds them by their number, and go with the
 * other files of the build; no layer and no name of a step has them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/image/build.h"
#include "cli/image/buildroom.h"

#define SECRETS "secrets"
#define SECRETS_MAX 32
#define SECRET_BYTES (500u << 10) /* as BuildKit has it */
#define ID_MAX 64

struct secret {
	char id[ID_MAX + 1];
	char from[512]; /* the path, or the name of a variable */
	int is_env, is_said; /* is_said: src or env was given */
};

/* One word KEY=VALUE of n bytes. */
static int take_secret_word(struct secret *s, const char *word, size_t n, struct err *e)
{
	const char *equals = memchr(word, '=', n), *value = equals ? equals + 1 : "";
	const size_t key_n = equals ? (size_t)(equals - word) : n, value_n = equals ? n - key_n - 1 : 0;
	char key[16];

	snprintf(key, sizeof(key), "%.*s", (int)(key_n < 15 ? key_n : 15), word);
	if (!strcmp(key, "id") && value_n && value_n <= ID_MAX)
		return snprintf(s->id, sizeof(s->id), "%.*s", (int)value_n, value), 0;
	if (!strcmp(key, "type") && ((value_n == 4 && !memcmp(value, "file", 4)) || (value_n == 3 && !memcmp(value, "env", 3))))
		return s->is_env |= value_n == 3, 0;
	if ((!strcmp(key, "src") || !strcmp(key, "source") || !strcmp(key, "env")) && value_n && value_n < sizeof(s->from)) {
		s->is_said = 1;
		s->is_env |= key[0] == 'e';
		return snprintf(s->from, sizeof(s->from), "%.*s", (int)value_n, value), 0;
	}
	return err_set(e, ERR_USAGE, "a secret has no '%.*s'; hint: --secret id=NAME,src=FILE, or --secret id=NAME,env=VARIABLE", (int)(n < 60 ? n : 60), word);
}

static int parse_secret(const char *text, struct secret *s, struct err *e)
{
	const char *p;
	size_t n;

	*s = (struct secret){.is_env = 0};
	for (p = text; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		if (take_secret_word(s, p, n, e) < 0)
			return -1;
	}
	if (!s->id[0] || s->id[strspn(s->id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")])
		return err_set(e, ERR_USAGE, "a secret has an id of letters, digits, '_', '.' and '-'; hint: --secret id=NAME,src=FILE");
	if (s->is_said)
		return 0;
	/* its id names a variable, else a file */
	s->is_env |= getenv(s->id) != NULL;
	snprintf(s->from, sizeof(s->from), "%s", s->id);
	return 0;
}

int build_add_secret(struct build *b, const char *text, struct err *e)
{
	struct secret s;

	if (json_array_size(b->secrets) >= SECRETS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d secrets of a build", SECRETS_MAX);
	if (parse_secret(text, &s, e) < 0)
		return -1;
	return json_array_append_new(b->secrets, json_string(text)) < 0 ? err_set(e, ERR_INVALID, "the secret is not valid UTF-8") : 0;
}

static int read_secret(const struct secret *s, struct buf *ret, struct err *e)
{
	const char *value = s->is_env ? getenv(s->from) : NULL;
	autoclose int fd = -1;

	if (s->is_env)
		return value ? buf_adds(ret, value, e) : err_set(e, ERR_NOT_FOUND, "secret %s: there is no variable %.100s", s->id, s->from);
	fd = open(s->from, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "secret %s: open %.200s", s->id, s->from);
	return io_read_all(fd, ret, s->from, e);
}

static int put_secret(struct build *b, int dir, const char *text, size_t number, struct err *e)
{
	autobuf struct buf content = BUF_INIT(SECRET_BYTES);
	autofree char *word = NULL;
	autoclose int fd = -1;
	struct secret s;
	char name[24];

	snprintf(name, sizeof(name), "%zu", number);
	if (parse_secret(text, &s, e) < 0 || read_secret(&s, &content, e) < 0)
		return -1;
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	if (fd < 0 || io_write_all(fd, content.data ? content.data : "", content.len) < 0 || fchown(fd, b->owner, b->owner) < 0)
		return err_sys(e, "give secret %s to the build", s.id);
	if (asprintf(&word, "id=%s,src=" BUILDROOM_PLACE "/" SECRETS "/%s", s.id, name) < 0)
		return err_nomem(e);
	return build_add_word(b, "--secret", word, e);
}

int build_take_secrets(struct build *b, struct err *e)
{
	autoclose int dir = -1;
	const json_t *one;
	size_t i;

	if (!json_array_size(b->secrets))
		return 0;
	if (mkdirat(b->volume.root_fd, SECRETS, 0700) < 0)
		return err_sys(e, "make the directory of secrets");
	dir = openat(b->volume.root_fd, SECRETS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fchown(dir, b->owner, b->owner) < 0)
		return err_sys(e, "open the directory of secrets");
	json_array_foreach (b->secrets, i, one)
		if (put_secret(b, dir, json_string_value(one), i, e) < 0)
			return -1;
	return 0;
}
