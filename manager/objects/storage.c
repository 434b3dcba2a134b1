/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/objects/storage.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"

#define PROBE_PREFIX "berth-probe/"

int storage_open(struct storage **ret, const struct conf *c, struct err *e)
{
	if (!strncmp(c->storage_url, "file:/", 6))
		return storage_local_open(ret, c, e);
	if (!strncmp(c->storage_url, "s3://", 5))
		return storage_s3_open(ret, c, e);
	return err_set(e, ERR_CONFIG, "storage.url '%.100s' is unknown; hint: file:/DIR or s3://BUCKET/PREFIX", c->storage_url);
}

void storage_close(struct storage *st)
{
	if (st)
		st->ops->close(st);
}

const char *storage_name(const struct storage *st)
{
	return st->ops->name;
}

/* Plain names joined by '/': nothing that a shell, a URL or a file system reads in another way. */
int storage_check_path(const char *path, struct err *e)
{
	const char *p = path;

	if (!path[0] || strlen(path) > PATH_BYTES_MAX)
		return err_set(e, ERR_INVALID, "a storage path has 1 to %d bytes", PATH_BYTES_MAX);
	while (*p) {
		size_t n = strcspn(p, "/");

		if (!n || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.') || !strncmp(p, TEMP_PREFIX, strlen(TEMP_PREFIX)) ||
		    strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+=@") < n)
			return err_set(e, ERR_INVALID, "'%.100s' is not a storage path; hint: names of letters, digits and ._-+=@, joined by /", path);
		p += n;
		if (*p == '/' && !*++p)
			return err_set(e, ERR_INVALID, "the storage path ends with /");
	}
	return 0;
}

int storage_sha256(const void *p, size_t n, char out[65], struct err *e)
{
	unsigned char d[32];
	unsigned len = 0;

	if (!EVP_Digest(p, n, d, &len, EVP_sha256(), NULL))
		return err_set(e, ERR_INTERNAL, "hash %zu bytes", n);
	hex_format(out, d, 32);
	return 0;
}

int storage_put(struct storage *st, const char *key, const void *data, size_t n, struct err *e)
{
	char hex[65];

	return storage_check_path(key, e) < 0 || storage_sha256(data, n, hex, e) < 0 ? -1 : st->ops->put(st, key, data, n, hex, e);
}

int storage_get(struct storage *st, const char *key, struct buf *out, struct err *e)
{
	return storage_check_path(key, e) < 0 ? -1 : st->ops->get(st, key, out, e);
}

int storage_head(struct storage *st, const char *key, uint64_t *ret_size, struct err *e)
{
	return storage_check_path(key, e) < 0 ? -1 : st->ops->head(st, key, ret_size, e);
}

int storage_delete(struct storage *st, const char *key, struct err *e)
{
	return storage_check_path(key, e) < 0 ? -1 : st->ops->del(st, key, e);
}

int storage_each(struct storage *st, const char *prefix, int (*each)(void *ctx, const char *key, struct err *e), void *ctx, struct err *e)
{
	return storage_check_path(prefix, e) < 0 ? -1 : st->ops->each(st, prefix, each, ctx, e);
}

void storage_piece_key(const char *path, const char *piece, char out[PIECE_KEY_MAX])
{
	snprintf(out, PATH_BYTES_MAX + STORAGE_PIECE_MAX + 20, "%s/chunks/%s", path, piece);
}

int storage_probe(struct storage *st, const char *name, struct err *e)
{
	autobuf struct buf back = BUF_INIT(256);
	char key[200], text[100];
	int got;

	snprintf(key, sizeof(key), PROBE_PREFIX "%.100s", name);
	snprintf(text, sizeof(text), "berth looks whether objects can be stored, at %llu\n", (unsigned long long)clock_wall_ms());
	if (storage_put(st, key, text, strlen(text), e) < 0)
		return -1;
	got = storage_get(st, key, &back, e);
	if (got == 0 || (got > 0 && (back.len != strlen(text) || memcmp(back.data, text, back.len))))
		got = err_set(e, ERR_CORRUPT, "the storage does not give back what it took as %s", key);
	return got < 0 ? -1 : storage_delete(st, key, e);
}

static ssize_t fill_chunk(int fd, char *buf, size_t max, uint64_t at)
{
	size_t n = 0;

	while (n < max) {
		ssize_t got = pread(fd, buf + n, max - n, (off_t)(at + n));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (!got)
			break;
		n += (size_t)got;
	}
	return (ssize_t)n;
}

/* A whole chunk of zeros is a hole: sparse disk images stay small. */
static int is_zero_chunk(const char *p, size_t n)
{
	return n == STORAGE_CHUNK && !p[0] && !memcmp(p, p + 1, n - 1);
}

ssize_t storage_next_chunk(struct storage_chunks *c, int *ret_hole)
{
	ssize_t n = STORAGE_CHUNK;

	if (c->data <= c->at) {
		off_t data = lseek(c->fd, (off_t)c->at, SEEK_DATA);

		/* a file system that cannot tell reports everything as data */
		c->data = data >= 0 ? (uint64_t)data : errno == ENXIO ? c->size : c->at;
	}
	*ret_hole = c->data >= c->at + STORAGE_CHUNK && c->size >= c->at + STORAGE_CHUNK;
	if (!*ret_hole) {
		n = fill_chunk(c->fd, c->buf, STORAGE_CHUNK, c->at);
		*ret_hole = n > 0 && is_zero_chunk(c->buf, (size_t)n);
	}
	c->at += n > 0 ? (uint64_t)n : 0;
	return n;
}

static int collect_all(void *ctx, const char *key, struct err *e)
{
	return json_array_append_new(ctx, json_string(key)) < 0 ? err_nomem(e) : 0;
}

int storage_delete_folder(struct storage *st, const char *path, struct err *e)
{
	autojson json_t *keys = json_array();
	char key[PATH_BYTES_MAX + 20];
	json_t *k;
	size_t i;

	if (storage_check_path(path, e) < 0)
		return -1;
	/* the manifest first: without it the folder does not exist */
	snprintf(key, sizeof(key), "%s/manifest.json", path);
	if (storage_delete(st, key, e) < 0 || storage_each(st, path, collect_all, keys, e) < 0)
		return -1;
	json_array_foreach(keys, i, k)
		if (storage_delete(st, json_string_value(k), e) < 0)
			return -1;
	return 0;
}

/* ---- the seal of a piece ---- */

int seal_key(char ret[SEAL_KEY_SIZE], struct err *e)
{
	unsigned char random[SEAL_KEY_BYTES];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(e, "get random bytes");
	hex_format(ret, random, sizeof(random));
	return 0;
}

/* Of HMAC(key, number || HMAC(key, content)): the content need not be copied behind its number. */
static int seal_of(const char *key, uint64_t number, const void *data, size_t n, unsigned char ret[SEAL_BYTES], struct err *e)
{
	unsigned char both[8 + SEAL_BYTES];
	int i;

	for (i = 0; i < 8; i++)
		both[i] = (unsigned char)(number >> (56 - 8 * i));
	return HMAC(EVP_sha256(), key, (int)strlen(key), data, n, both + 8, NULL) &&
	       HMAC(EVP_sha256(), key, (int)strlen(key), both, sizeof(both), ret, NULL) ? 0 : err_set(e, ERR_INTERNAL, "libcrypto made no HMAC");
}

int seal_add(const char *key, uint64_t number, const void *data, size_t n, struct buf *ret, struct err *e)
{
	unsigned char seal[SEAL_BYTES];

	return seal_of(key, number, data, n, seal, e) < 0 || buf_add(ret, data, n, e) < 0 ? -1 : buf_add(ret, (const char *)seal, sizeof(seal), e);
}

int seal_take(const char *key, uint64_t number, struct buf *piece, struct err *e)
{
	unsigned char seal[SEAL_BYTES];
	const size_t n = piece->len < SEAL_BYTES ? 0 : piece->len - SEAL_BYTES;

	if (seal_of(key, number, n ? piece->data : "", n, seal, e) < 0)
		return -1;
	if (piece->len < SEAL_BYTES || CRYPTO_memcmp(seal, piece->data + n, SEAL_BYTES))
		return err_set(e, ERR_CORRUPT, "it is not what was stored");
	piece->len = n;
	return 0;
}
