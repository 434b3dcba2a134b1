/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/layer/compress.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/io.h"

#define CHUNK (256u << 10)
#define ZSTD_LEVEL 1
#define GZIP_LEVEL 4

static int put_zstd(struct compress *c, const void *p, size_t n, int end, struct err *e)
{
	ZSTD_inBuffer in = { p, n, 0 };
	size_t left;

	do {
		ZSTD_outBuffer out = { c->buffer, CHUNK, 0 };

		left = ZSTD_compressStream2(c->zstd, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return err_set(e, ERR_INTERNAL, "zstd: %s", ZSTD_getErrorName(left));
		if (out.pos && io_write_all(c->out_fd, c->buffer, out.pos) < 0)
			return err_sys(e, "hand on the packed tree");
	} while (in.pos < in.size || (end && left));
	return 0;
}

static int put_gzip(struct compress *c, const void *p, size_t n, int end, struct err *e)
{
	z_stream *z = c->gzip;
	int r;

	z->next_in = (unsigned char *)p;
	z->avail_in = (uInt)n;
	do {
		z->next_out = c->buffer;
		z->avail_out = CHUNK;
		r = deflate(z, end ? Z_FINISH : Z_NO_FLUSH);
		if (r == Z_STREAM_ERROR)
			return err_set(e, ERR_INTERNAL, "zlib refuses to compress");
		if (z->avail_out < CHUNK &&
		    io_write_all(c->out_fd, c->buffer, CHUNK - z->avail_out) < 0)
			return err_sys(e, "hand on the packed tree");
	} while (!z->avail_out || (end && r != Z_STREAM_END));
	return 0;
}

static int flush_plain(struct compress *c, struct err *e)
{
	if (c->used && io_write_all(c->out_fd, c->buffer, c->used) < 0)
		return err_sys(e, "write the archive");
	c->used = 0;
	return 0;
}

static int put_plain(struct compress *c, const void *p, size_t n, int end, struct err *e)
{
	if (c->used + n > CHUNK && flush_plain(c, e) < 0)
		return -1;
	if (n > CHUNK / 2)
		return flush_plain(c, e) < 0             ? -1 :
		       io_write_all(c->out_fd, p, n) < 0 ? err_sys(e, "write the archive") :
							   0;
	if (n)
		memcpy(c->buffer + c->used, p, n);
	c->used += n;
	return end ? flush_plain(c, e) : 0;
}

int compress_put(struct compress *c, const void *p, size_t n, int end, struct err *e)
{
	return c->compression == COMPRESSION_GZIP ? put_gzip(c, p, n, end, e) :
	       c->compression == COMPRESSION_ZSTD ? put_zstd(c, p, n, end, e) :
						    put_plain(c, p, n, end, e);
}

int compress_open(struct compress *c, int out_fd, enum compression compression, struct err *e)
{
	*c = (struct compress){ .out_fd = out_fd, .compression = compression };
	c->buffer = malloc(CHUNK);
	if (!c->buffer)
		return err_nomem(e);
	if (compression == COMPRESSION_ZSTD) {
		c->zstd = ZSTD_createCCtx();
		if (!c->zstd)
			return err_nomem(e);
		ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_checksumFlag, 1);
	}
	if (compression == COMPRESSION_GZIP) {
		c->gzip = calloc(1, sizeof(*c->gzip));
		if (!c->gzip || deflateInit2(c->gzip, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 9,
					     Z_DEFAULT_STRATEGY) != Z_OK)
			return err_nomem(e);
	}
	return 0;
}

void compress_release(struct compress *c)
{
	ZSTD_freeCCtx(c->zstd);
	if (c->gzip)
		deflateEnd(c->gzip);
	free(c->gzip);
	free(c->buffer);
	*c = (struct compress){ .out_fd = -1 };
}
