/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who uses a folder of the storage, and which of its pieces nobody needs any more.
 *
 * Several berthds may use one folder and share nothing but the storage. The storage needs no
 * locks, but it must show what was written before (S3 does since 2020).
 *
 * Each use (upload, download) first puts PATH/in-use/MARK and then reads the manifest. An upload
 * names only pieces that this manifest names, or that it has sent under a name of its own. A
 * collector (1) lists the pieces, (2) reads the manifest, (3) lists the marks, (4) reads the
 * manifest again. If there is no mark at (3) and the manifests of (2) and (4) are equal, that
 * manifest was in force at (3): every earlier use is done, and every later use begins with that
 * manifest, or with one made from it and from pieces that did not exist at (1). So a piece that
 * existed at (1) and is not named will never be named again. Otherwise another use is under way,
 * and collects at its end.
 *
 * A mark holds the time at which it was put. A use ends itself after STORAGE_USE_MS, so a mark
 * twice as old belongs to a dead berthd, even if the clocks differ.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "manager/objects/storage.h"

#define KEY_MAX 1100
#define HEX "0123456789abcdef"
#define MARK_BYTES 33	/* 16 digits of ms, '-', 16 of chance */

static _Atomic uint64_t stops_at_ms;	/* monotonic; 0: not */

void storage_use_stop(uint64_t after_ms)
{
	stops_at_ms = clock_ms() + after_ms;
}

void storage_use_resume(void)
{
	stops_at_ms = 0;
}

uint64_t storage_use_stopped_ms(void)
{
	uint64_t at = stops_at_ms, now = clock_ms();

	return at && now >= at ? now - at + 1 : 0;
}

int storage_use_may(struct err *e)
{
	return storage_use_stopped_ms() ? err_set(e, ERR_BUSY, "berthd is ending; hint: it is tried again when it is back") : 0;
}

int storage_use_begin(struct storage *st, const char *path, struct storage_use *u, struct err *e)
{
	uint64_t chance[2];

	if (storage_use_may(e) < 0)
		return -1;
	if (getrandom(chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
		return err_sys(e, "get random bytes");
	u->began_ms = clock_wall_ms();
	snprintf(u->id, sizeof(u->id), "%016" PRIx64 "%016" PRIx64, chance[0], chance[1]);
	snprintf(u->key, sizeof(u->key), "%.900s/in-use/%016" PRIx64 "-%016" PRIx64, path, u->began_ms, chance[0]);
	return storage_put(st, u->key, u->id, strlen(u->id), e);
}

int storage_use_check(const struct storage_use *u, struct err *e)
{
	if (storage_use_may(e) < 0)
		return -1;
	return clock_wall_ms() - u->began_ms < STORAGE_USE_MS ? 0 :
	       err_set(e, ERR_TIMEOUT, "it takes longer than %llu hours", STORAGE_USE_MS / 3600 / 1000);
}

void storage_use_end(struct storage *st, const struct storage_use *u)
{
	struct err ignored;

	/* a mark that stays counts as dead after a day */
	storage_delete(st, u->key, &ignored);
}

int storage_manifest_text(struct storage *st, const char *path, struct buf *ret, struct err *e)
{
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "%.900s/manifest.json", path);
	return storage_get(st, key, ret, e);
}

int storage_manifest(struct storage *st, const char *path, json_t **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(STORAGE_MANIFEST_MAX);
	int r = storage_manifest_text(st, path, &b, e);

	*ret = NULL;
	if (r < 1)
		return r;
	*ret = json_parse(b.data ? b.data : "", b.len, STORAGE_MANIFEST_MAX, path, e);
	return *ret ? 1 : -1;
}

int storage_is_piece(const char *name)
{
	size_t n = strspn(name, HEX);

	return n == 64 && (!name[n] || (name[n] == '.' && strspn(name + n + 1, HEX) == 32 && !name[n + 33]));
}

/* The position of a piece in a manifest's text. */
struct scan {
	const char *key;	/* the last one, of key_len bytes */
	size_t key_len;
	int depth, chunks;	/* chunks: the depth within such a list, or 0 */
	json_t *pieces;
	char *upload;
};

static int is_scan_key(const struct scan *c, const char *key)
{
	return c->key_len == strlen(key) && !memcmp(c->key, key, c->key_len);
}

static int scan_string(struct scan *c, const char *p, size_t n, int key, struct err *e)
{
	char text[STORAGE_PIECE_MAX];

	if (key) {
		c->key = p;
		c->key_len = n;
	} else if (n < sizeof(text)) {
		snprintf(text, sizeof(text), "%.*s", (int)n, p);
		if (c->chunks && c->depth == c->chunks && c->pieces && storage_is_piece(text) &&
		    json_object_set_new(c->pieces, text, json_true()) < 0)
			return err_nomem(e);
		if (c->depth == 1 && is_scan_key(c, "upload"))
			snprintf(c->upload, 33, "%.32s", text);
	}
	return 0;
}

static void scan_bracket(struct scan *c, char bracket)
{
	if (bracket == '[' || bracket == '{') {
		c->depth++;
		if (bracket == '[' && !c->chunks && is_scan_key(c, "chunks"))
			c->chunks = c->depth;
	} else {
		if (c->chunks == c->depth)
			c->chunks = 0;
		c->depth--;
	}
}

int storage_pieces(const struct buf *text, json_t *pieces, char ret_upload[33], struct err *e)
{
	struct scan c = { .key = "", .pieces = pieces, .upload = ret_upload };
	const char *p = text->data ? text->data : "", *end = p + text->len;

	ret_upload[0] = '\0';
	for (; p < end && c.depth >= 0; p++) {
		const char *from = p + 1, *next;

		if (strchr("[]{}", *p) && *p)
			scan_bracket(&c, *p);
		if (*p != '"')
			continue;
		/*
		 * names that look like ours may be within strings, whose quotes have a '\'
		 * before them
		 */
		for (p = from; p < end && *p != '"'; p++)
			p += *p == '\\';
		if (p >= end)
			break;
		for (next = p + 1; next < end && strchr(" \t\r\n", *next) && *next; next++)
			;
		if (scan_string(&c, from, (size_t)(p - from), next < end && *next == ':', e) < 0)
			return -1;
	}
	return p == end && c.depth == 0 && text->len ? 0 : err_set(e, ERR_CORRUPT, "the stored folder is damaged: the manifest is cut off");
}

struct listing {
	size_t skip;		/* of a key, up to the name */
	int marks;
	json_t *found;
};

static int is_alive(const char *mark)
{
	uint64_t at = strtoull(mark, NULL, 16), now = clock_wall_ms();

	return at > now || now - at < 2 * STORAGE_USE_MS;
}

static int is_mark(const char *name)
{
	return strlen(name) == MARK_BYTES && strspn(name, HEX) == 16 && name[16] == '-' && strspn(name + 17, HEX) == 16;
}

static int list_folder_part(void *ctx, const char *key, struct err *e)
{
	struct listing *l = ctx;
	const char *name = key + l->skip;

	/*
	 * deeper entries belong to another folder; a name that begins with a dot is the remains
	 * of an interrupted write
	 */
	if (strlen(key) <= l->skip || strchr(name, '/') || !(l->marks ? is_mark(name) : storage_is_piece(name) || name[0] == '.'))
		return 0;
	return json_object_set_new(l->found, name, json_true()) < 0 ? err_nomem(e) : 0;
}

static int list_folder(struct storage *st, const char *path, const char *part, json_t **ret, struct err *e)
{
	struct listing l = { .marks = part[0] == 'i', .found = json_object() };
	char prefix[KEY_MAX];

	l.skip = (size_t)snprintf(prefix, sizeof(prefix), "%.900s/%s", path, part) + 1;
	*ret = l.found;
	return storage_each(st, prefix, list_folder_part, &l, e);
}

static int remove_folder_parts(struct storage *st, const char *path, const char *part, const json_t *names, const json_t *but, struct err *e)
{
	const char *name;
	json_t *unused;

	json_object_foreach((json_t *)(size_t)names, name, unused) {
		char key[KEY_MAX];

		(void)unused;
		snprintf(key, sizeof(key), "%.900s/%s/%.100s", path, part, name);
		if (!json_object_get(but, name) && storage_delete(st, key, e) < 0)
			return -1;
	}
	return 0;
}

/* The id of the upload that the manifest is of, and its pieces if named: one at a time, as they may be large. */
static int read_upload(struct storage *st, const char *path, char ret_id[33], json_t *named, struct err *e)
{
	autobuf struct buf b = BUF_INIT(STORAGE_MANIFEST_MAX);

	return storage_manifest_text(st, path, &b, e) < 1 ? -1 : storage_pieces(&b, named, ret_id, e);
}

int storage_collect(struct storage *st, const char *path, struct err *e)
{
	autojson json_t *pieces = NULL, *marks = NULL, *named = json_object();
	char before[33], after[33];
	const char *name;
	json_t *unused;

	if (list_folder(st, path, "chunks", &pieces, e) < 0 || read_upload(st, path, before, named, e) < 0 ||
	    list_folder(st, path, "in-use", &marks, e) < 0)
		return -1;
	json_object_foreach(marks, name, unused)
		if (is_alive(name))
			return 0;
	if (read_upload(st, path, after, NULL, e) < 0)
		return -1;
	if (!before[0] || strcmp(before, after))
		return 0;
	return remove_folder_parts(st, path, "chunks", pieces, named, e) < 0 ? -1 : remove_folder_parts(st, path, "in-use", marks, NULL, e);
}
