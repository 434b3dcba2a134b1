/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/gunzip.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/mem.h"

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

static int bad(const struct gunzip *g, struct err *e)
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
		return bad(g, e);
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
