/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that are not JSON: forms, and what gzip made smaller. */
#include "manager/api/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "base/mem.h"

/* ---- multipart/form-data ---- */

/* NAME="VALUE" of a Content-Disposition line; quotes are escaped as %22 or \". */
static int parameter(const char *line, size_t n, const char *name, char *out, size_t max)
{
	char key[32];
	const char *p, *end = line + n;
	size_t len = 0;

	snprintf(key, sizeof(key), "; %s=\"", name);
	p = memmem(line, n, key, strlen(key));
	if (!p)
		return 0;
	for (p += strlen(key); p < end && *p != '"'; p++) {
		if (*p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\\'))
			p++;
		if (len + 1 >= max)
			return 0;
		out[len++] = *p;
	}
	out[len] = '\0';
	return p < end;
}

/* The part between two boundaries: its header lines, an empty one, its bytes. */
static int parse_part(const char *from, const char *end, struct form_part *ret, struct err *e)
{
	static const char disposition[] = "Content-Disposition:";
	const char *line = from, *eol;
	int found = 0;

	memset(ret, 0, sizeof(*ret));
	for (;;) {
		eol = memmem(line, (size_t)(end - line), "\r\n", 2);
		if (!eol)
			return err_set(e, ERR_INVALID, "a part of the form has no body");
		if (eol == line)
			break;
		if ((size_t)(eol - line) > strlen(disposition) &&
		    !strncasecmp(line, disposition, strlen(disposition)))
			found = parameter(line, (size_t)(eol - line), "name", ret->name,
					  sizeof(ret->name)) &&
				(parameter(line, (size_t)(eol - line), "filename", ret->filename,
					   sizeof(ret->filename)),
				 1);
		line = eol + 2;
	}
	if (!found)
		return err_set(e, ERR_INVALID, "a part of the form has no name");
	ret->data = eol + 2;
	ret->n = (size_t)(end - ret->data);
	return 0;
}

int form_boundary(const char *type, char out[80], struct err *e)
{
	const char *p = type ? strcasestr(type, "boundary=") : NULL;
	size_t n;

	if (!type || strncasecmp(type, "multipart/form-data", 19) || !p)
		return err_set(e, ERR_INVALID, "the body is not multipart/form-data");
	p += strlen("boundary=");
	n = *p == '"' ? strcspn(++p, "\"") : strcspn(p, "; ");
	if (!n || n > 70)
		return err_set(e, ERR_INVALID, "the boundary of the form is malformed");
	snprintf(out, 80, "--%.*s", (int)n, p);
	return 0;
}

int form_each(const struct buf *form, const char *boundary,
	      int (*each)(void *ctx, const struct form_part *p, struct err *e), void *ctx,
	      struct err *e)
{
	char sep[90];
	const char *end = form->data + form->len, *at, *next;
	struct form_part p;

	snprintf(sep, sizeof(sep), "\r\n%s", boundary);
	at = form->len ? memmem(form->data, form->len, boundary, strlen(boundary)) : NULL;
	if (at != form->data || !at)
		return err_set(e, ERR_INVALID, "the form does not begin with its boundary");
	at += strlen(boundary);
	while (end - at >= 2 && !memcmp(at, "\r\n", 2)) {
		at += 2;
		next = memmem(at, (size_t)(end - at), sep, strlen(sep));
		if (!next)
			return err_set(e, ERR_INVALID, "the form does not end with its boundary");
		if (parse_part(at, next, &p, e) < 0 || each(ctx, &p, e) < 0)
			return -1;
		at = next + strlen(sep);
	}
	return end - at >= 2 && !memcmp(at, "--", 2) ?
		       0 :
		       err_set(e, ERR_INVALID, "the form does not end with its boundary");
}

/* ---- multipart/form-data as it comes ---- */

enum { FORM_BEGINS, FORM_SEPARATED, FORM_HEADER, FORM_DATA, FORM_ENDED };

#define FORM_HEADER_MAX 16384
#define FORM_PIECE 8192

void formstream_init(struct formstream *f, const char *boundary)
{
	snprintf(f->separator, sizeof(f->separator), "\r\n%s", boundary);
	f->held = BUF_INIT(FORMSTREAM_ROOM);
	f->state = FORM_BEGINS;
}

void formstream_release(struct formstream *f)
{
	buf_release(&f->held);
}

static void drop_held(struct formstream *f, size_t n)
{
	memmove(f->held.data, f->held.data + n, f->held.len - n);
	f->held.len -= n;
}

/* Bytes up to the next separator; of what may be its beginning the rest is waited for. */
static int take_form_data(struct formstream *f, struct err *e)
{
	const size_t n = strlen(f->separator);
	const char *at = f->held.len ? memmem(f->held.data, f->held.len, f->separator, n) : NULL;
	const size_t data = at ? (size_t)(at - f->held.data) : f->held.len >= n ? f->held.len - n + 1 : 0;

	if (data && f->data(f->ctx, f->held.data, data, e) < 0)
		return -1;
	drop_held(f, at ? data + n : data);
	if (!at)
		return 0;
	f->state = FORM_SEPARATED;
	return f->end(f->ctx, e) < 0 ? -1 : 1;
}

static int take_form_header(struct formstream *f, struct err *e)
{
	const char *end = f->held.len ? memmem(f->held.data, f->held.len, "\r\n\r\n", 4) : NULL;
	struct form_part p;

	if (!end)
		return f->held.len > FORM_HEADER_MAX ? err_set(e, ERR_INVALID, "a part of the form has a header of over %d bytes", FORM_HEADER_MAX) : 0;
	if (parse_part(f->held.data, end + 4, &p, e) < 0 || f->begin(f->ctx, &p, e) < 0)
		return -1;
	drop_held(f, (size_t)(end - f->held.data) + 4);
	f->state = FORM_DATA;
	return 1;
}

/* 1: there may be more to do; 0: more bytes are needed; -1. */
static int take_form_step(struct formstream *f, struct err *e)
{
	const size_t first = strlen(f->separator) - 2;

	switch (f->state) {
	case FORM_BEGINS:
		if (f->held.len < first)
			return 0;
		if (memcmp(f->held.data, f->separator + 2, first))
			return err_set(e, ERR_INVALID, "the form does not begin with its boundary");
		drop_held(f, first);
		f->state = FORM_SEPARATED;
		return 1;
	case FORM_SEPARATED:
		if (f->held.len < 2)
			return 0;
		if (memcmp(f->held.data, "\r\n", 2) && memcmp(f->held.data, "--", 2))
			return err_set(e, ERR_INVALID, "the form has a malformed boundary");
		f->state = f->held.data[0] == '-' ? FORM_ENDED : FORM_HEADER;
		drop_held(f, 2);
		return 1;
	case FORM_HEADER:
		return take_form_header(f, e);
	case FORM_DATA:
		return take_form_data(f, e);
	default: /* what follows the last boundary says nothing */
		f->held.len = 0;
		return 0;
	}
}

int formstream_feed(struct formstream *f, const char *data, size_t n, struct err *e)
{
	while (n) {
		const size_t piece = n < FORM_PIECE ? n : FORM_PIECE;
		int r;

		if (buf_add(&f->held, data, piece, e) < 0)
			return -1;
		while ((r = take_form_step(f, e)) > 0)
			;
		if (r < 0)
			return -1;
		data += piece;
		n -= piece;
	}
	return 0;
}

int formstream_end(const struct formstream *f, struct err *e)
{
	return f->state == FORM_ENDED ? 0 : err_set(e, ERR_INVALID, "the form does not end with its boundary");
}

/* ---- gzip ---- */

#define FEED_MAX (1u << 30) /* zlib counts in unsigned int */

struct gunzip {
	z_stream z;
	int state; /* of inflate(): Z_STREAM_END between two members */
	int full;  /* take() needs no more */
	char room[GUNZIP_ROOM];
};

struct gunzip *gunzip_new(struct err *e)
{
	struct gunzip *g = calloc(1, sizeof(*g));

	if (g && inflateInit2(&g->z, MAX_WBITS + 16) == Z_OK)
		return g;
	free(g);
	err_nomem(e);
	return NULL;
}

void gunzip_free(struct gunzip *g)
{
	if (!g)
		return;
	inflateEnd(&g->z);
	free(g);
}

static int refuse_gzip(const struct gunzip *g, struct err *e)
{
	return err_set(e, ERR_INVALID,
		       "the body is not gzip data, as Content-Encoding says: %s at byte %lu",
		       g->z.msg ? g->z.msg : "malformed", g->z.total_in);
}

static int inflate_some(struct gunzip *g, gunzip_take *take, void *ctx, struct err *e)
{
	int r;

	if (g->state == Z_STREAM_END && inflateReset(&g->z) != Z_OK)
		return err_set(e, ERR_INTERNAL, "reset zlib");
	g->z.next_out = (Bytef *)g->room;
	g->z.avail_out = sizeof(g->room);
	g->state = inflate(&g->z, Z_NO_FLUSH);
	if (g->state == Z_MEM_ERROR)
		return err_nomem(e);
	if (g->state != Z_OK && g->state != Z_STREAM_END && g->state != Z_BUF_ERROR)
		return refuse_gzip(g, e);
	if (g->z.avail_out == sizeof(g->room))
		return 0;
	r = take(ctx, g->room, sizeof(g->room) - g->z.avail_out, e);
	g->full = r > 0;
	return r < 0 ? -1 : 0;
}

int gunzip_feed(struct gunzip *g, const char *data, size_t n, gunzip_take *take, void *ctx,
		struct err *e)
{
	if (n > FEED_MAX)
		return err_set(e, ERR_INTERNAL, "over %u bytes at once", FEED_MAX);
	g->z.next_in = (Bytef *)(size_t)data;
	g->z.avail_in = (uInt)n;
	g->z.avail_out = sizeof(g->room);
	/* a full room may hide more, but not behind the end of a member */
	while (!g->full && (g->z.avail_in || (!g->z.avail_out && g->state != Z_STREAM_END)))
		if (inflate_some(g, take, ctx, e) < 0)
			return -1;
	return 0;
}

int gunzip_end(const struct gunzip *g, struct err *e)
{
	return g->full || g->state == Z_STREAM_END ?
		       0 :
		       err_set(e, ERR_INVALID, "the body ends in the middle of its gzip data");
}
