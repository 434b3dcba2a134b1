/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S18 of SECURITY.md. */
#include "manager/api/tokens.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

#define TOKENS_MAX 1024
#define TOKEN_MIN 22

struct token {
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char name[65];
	int admin;
};

struct tokens {
	size_t count;
	struct token v[TOKENS_MAX];
};

static int parse_hash(const char *hex, unsigned char out[SHA256_DIGEST_LENGTH])
{
	size_t i;

	if (strlen(hex) != 2 * SHA256_DIGEST_LENGTH || hex[strspn(hex, "0123456789abcdef")])
		return -1;
	for (i = 0; i < SHA256_DIGEST_LENGTH; i++) {
		char pair[3] = { hex[2 * i], hex[2 * i + 1], 0 };

		out[i] = (unsigned char)strtoul(pair, NULL, 16);
	}
	return 0;
}

static int add_token_line(struct tokens *t, char *line, const char *path, unsigned number, struct err *e)
{
	char *save = NULL, *name = strtok_r(line, " \t", &save), *token, *role;
	struct token *k;
	size_t i;

	if (!name || name[0] == '#')
		return 0;
	token = strtok_r(NULL, " \t", &save);
	role = token ? strtok_r(NULL, " \t", &save) : NULL;
	if (!token || (role && (strcmp(role, "admin") || strtok_r(NULL, " \t", &save))))
		return err_set(e, ERR_CONFIG, "%.200s: line %u is not \"NAME TOKEN [admin]\"", path, number);
	if (!path_is_name(name))
		return err_set(e, ERR_CONFIG, "%.200s: line %u: the name is malformed; hint: a-z 0-9 _ . -", path, number);
	if (t->count == TOKENS_MAX)
		return err_set(e, ERR_CONFIG, "%.200s has more than %d tokens", path, TOKENS_MAX);
	k = &t->v[t->count];
	if (!strncmp(token, "sha256:", 7)) {
		if (parse_hash(token + 7, k->hash) < 0)
			return err_set(e, ERR_CONFIG, "%.200s: line %u: sha256: wants 64 hexadecimal digits", path, number);
	} else if (strlen(token) < TOKEN_MIN) {
		return err_set(e, ERR_CONFIG, "%.200s: line %u: the token has less than %d characters; hint: openssl rand -hex 32",
			       path, number, TOKEN_MIN);
	} else {
		SHA256((const unsigned char *)token, strlen(token), k->hash);
	}
	for (i = 0; i < t->count; i++)
		if (!CRYPTO_memcmp(t->v[i].hash, k->hash, sizeof(k->hash)))
			return err_set(e, ERR_CONFIG, "%.200s: line %u has the token of '%s' again; hint: one for each name", path, number,
				       t->v[i].name);
	snprintf(k->name, sizeof(k->name), "%s", name);
	k->admin = role != NULL;
	for (i = 0; i < t->count; i++)
		if (!strcmp(t->v[i].name, name) && t->v[i].admin != k->admin)
			return err_set(e, ERR_CONFIG, "%.200s: line %u gives '%.64s' another role than a line before; hint: "
				       "another name for the administrator", path, number, name);
	t->count++;
	return 0;
}

static int read_tokens(struct tokens *t, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(256 << 10);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char *line, *save = NULL;
	unsigned number = 0;
	struct stat st;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_code_sys(e, ERR_CONFIG, "token file %.200s", path);
	if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 077))
		return err_set(e, ERR_CONFIG, "token file %.200s may be read by others; hint: chown root and chmod 600", path);
	if (io_read_all(fd, &b, path, e) < 0)
		return -1;
	/* every line counts, blank ones too */
	for (line = b.data; line && r == 0; line = save) {
		save = strchr(line, '\n');
		if (save)
			*save++ = '\0';
		r = add_token_line(t, line, path, ++number, e);
	}
	if (b.data)
		OPENSSL_cleanse(b.data, b.len);
	return r;
}

struct tokens *tokens_load(const char *path, struct err *e)
{
	struct tokens *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	if (read_tokens(t, path, e) < 0) {
		tokens_free(t);
		return NULL;
	}
	return t;
}

void tokens_free(struct tokens *t)
{
	free(t);
}

size_t tokens_count(const struct tokens *t)
{
	return t ? t->count : 0;
}

int tokens_check(const struct tokens *t, const char *token, struct http_who *ret)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	size_t i, found = SIZE_MAX;

	SHA256((const unsigned char *)token, strlen(token), hash);
	for (i = 0; i < tokens_count(t); i++)
		if (!CRYPTO_memcmp(hash, t->v[i].hash, sizeof(hash)))
			found = i;
	if (found == SIZE_MAX)
		return 0;
	snprintf(ret->name, sizeof(ret->name), "%s", t->v[found].name);
	ret->admin = t->v[found].admin;
	_Static_assert(sizeof(ret->token) == sizeof(hash), "it is the hash");
	memcpy(ret->token, hash, sizeof(hash));
	return 1;
}

int tokens_holds(const struct tokens *t, const struct http_who *who)
{
	static const unsigned char any[sizeof(who->token)];
	const int by_name = !memcmp(who->token, any, sizeof(any));
	size_t i;

	for (i = 0; i < tokens_count(t); i++)
		if (!strcmp(t->v[i].name, who->name) && t->v[i].admin == who->admin &&
		    (by_name || !CRYPTO_memcmp(t->v[i].hash, who->token, sizeof(who->token))))
			return 1;
	return 0;
}

int tokens_has(const struct tokens *t, const char *name)
{
	size_t i;

	for (i = 0; i < tokens_count(t); i++)
		if (!strcmp(t->v[i].name, name))
			return 1;
	return 0;
}
