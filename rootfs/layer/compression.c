/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/io.h"
#include "base/mem.h"
#include "rootfs/layer/compression.h"
#include "rootfs/store/hash.h"

/* ---- compressing ---- */

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

/* ---- decompressing ---- */

struct stream {
	int in_fd, out_fd;
	uint64_t max_bytes;
	int any_ratio;
	unsigned char *in, *out;
	size_t have;		/* bytes in in[] */
	struct hash hash;
	struct decompress_result *r;
};

static const char *compression_name(enum compression c)
{
	static const char *const names[] = { "auto", "none", "gzip", "zstd" };

	return names[c];
}

/* Detects the compression from the first n bytes of a stream. */
static enum compression decompress_detect(const unsigned char *p, size_t n)
{
	if (n >= 3 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8)
		return COMPRESSION_GZIP;
	if (n >= 4 && p[0] == 0x28 && p[1] == 0xb5 && p[2] == 0x2f && p[3] == 0xfd)
		return COMPRESSION_ZSTD;
	/* a skippable frame may come first: 0x184D2A50 to 5F */
	if (n >= 4 && (p[0] & 0xf0) == 0x50 && p[1] == 0x2a && p[2] == 0x4d && p[3] == 0x18)
		return COMPRESSION_ZSTD;
	return COMPRESSION_NONE;
}

/* Returns 1 with new bytes in s->in, 0 at the end. */
static int read_compressed(struct stream *s, struct err *e)
{
	ssize_t r;

	do
		r = read(s->in_fd, s->in, CHUNK);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_sys(e, "read the blob");
	s->have = (size_t)r;
	s->r->in_bytes += (uint64_t)r;
	return r > 0;
}

static int emit_decompressed(struct stream *s, const unsigned char *p, size_t n, struct err *e)
{
	struct decompress_result *r = s->r;

	r->out_bytes += n;
	if (r->out_bytes > s->max_bytes)
		return err_set(e, ERR_LIMIT, "the layer unpacks to more than %llu bytes",
			       (unsigned long long)s->max_bytes);
	if (!s->any_ratio && r->out_bytes > DECOMPRESS_RATIO_FREE &&
	    r->out_bytes / DECOMPRESS_RATIO_MAX > r->in_bytes)
		return err_set(e, ERR_LIMIT, "the layer unpacks to more than %d times its size, as a bomb would",
			       DECOMPRESS_RATIO_MAX);
	if (hash_add(&s->hash, p, n, e) < 0)
		return -1;
	if (s->out_fd >= 0 && io_write_all(s->out_fd, p, n) < 0)
		return err_sys(e, "hand on the unpacked stream");
	return 0;
}

static int copy_plain(struct stream *s, struct err *e)
{
	int r = 1;

	while (r > 0) {
		if (emit_decompressed(s, s->in, s->have, e) < 0)
			return -1;
		r = read_compressed(s, e);
	}
	return r;
}

static int gunzip(struct stream *s, z_stream *z, struct err *e)
{
	int r = 1, zr = Z_OK;

	while (r > 0) {
		z->next_in = s->in;
		z->avail_in = (uInt)s->have;
		do {
			if (zr == Z_STREAM_END) {	/* a further member follows */
				if (!z->avail_in)
					break;
				if (inflateReset(z) != Z_OK)
					return err_set(e, ERR_INTERNAL, "reset zlib");
			}
			z->next_out = s->out;
			z->avail_out = CHUNK;
			zr = inflate(z, Z_NO_FLUSH);
			if (zr != Z_OK && zr != Z_STREAM_END && zr != Z_BUF_ERROR)
				return err_set(e, ERR_CORRUPT, "gzip data at byte %llu: %s",
					       (unsigned long long)(s->r->in_bytes - z->avail_in),
					       z->msg ? z->msg : "malformed");
			if (emit_decompressed(s, s->out, CHUNK - z->avail_out, e) < 0)
				return -1;
		} while (z->avail_in || !z->avail_out);
		r = read_compressed(s, e);
	}
	if (!r && zr != Z_STREAM_END)
		return err_set(e, ERR_CORRUPT, "gzip data ends in the middle");
	return r;
}

static int unzstd(struct stream *s, ZSTD_DCtx *d, struct err *e)
{
	size_t left = 1;
	int r = 1;

	if (ZSTD_isError(ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, DECOMPRESS_ZSTD_WINDOW_LOG)))
		return err_set(e, ERR_INTERNAL, "bound the zstd window");
	while (r > 0) {
		ZSTD_inBuffer in = { s->in, s->have, 0 };
		ZSTD_outBuffer out;

		do {
			out = (ZSTD_outBuffer){ s->out, CHUNK, 0 };
			left = ZSTD_decompressStream(d, &out, &in);
			if (ZSTD_isError(left))
				return err_set(e, ERR_CORRUPT, "zstd data near byte %llu: %s",
					       (unsigned long long)s->r->in_bytes, ZSTD_getErrorName(left));
			if (emit_decompressed(s, s->out, out.pos, e) < 0)
				return -1;
		} while (in.pos < in.size || out.pos == out.size);
		r = read_compressed(s, e);
	}
	if (!r && left)
		return err_set(e, ERR_CORRUPT, "zstd data ends in the middle");
	return r;
}

static int decompress_stream(struct stream *s, struct err *e)
{
	int rc;

	if (s->r->found == COMPRESSION_GZIP) {
		z_stream z = { 0 };

		if (inflateInit2(&z, 15 + 16) != Z_OK)
			return err_nomem(e);
		rc = gunzip(s, &z, e);
		inflateEnd(&z);
		return rc;
	}
	if (s->r->found == COMPRESSION_ZSTD) {
		ZSTD_DCtx *d = ZSTD_createDCtx();

		if (!d)
			return err_nomem(e);
		rc = unzstd(s, d, e);
		ZSTD_freeDCtx(d);
		return rc;
	}
	return copy_plain(s, e);
}

/* Reads until there are enough bytes to detect the compression: a pipe may deliver single bytes. */
static int first_fill(struct stream *s, struct err *e)
{
	while (s->have < 4) {
		ssize_t r = read(s->in_fd, s->in + s->have, CHUNK - s->have);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "read the blob");
		if (!r)
			break;
		s->have += (size_t)r;
		s->r->in_bytes += (uint64_t)r;
	}
	return 0;
}

int decompress_run(int in_fd, int out_fd, enum compression want, uint64_t max_bytes, int any_ratio,
		   const char *like, struct decompress_result *ret, struct err *e)
{
	autofree unsigned char *in = malloc(CHUNK), *out = malloc(CHUNK);
	struct decompress_result r = { 0 };
	struct stream s = { .in_fd = in_fd, .out_fd = out_fd, .max_bytes = max_bytes, .any_ratio = any_ratio,
			    .in = in, .out = out, .r = &r };
	int rc = -1;

	if (!in || !out)
		return err_nomem(e);
	if (hash_init(&s.hash, like, e) < 0 || first_fill(&s, e) < 0)
		goto done;
	r.found = decompress_detect(in, s.have);
	if (want != COMPRESSION_AUTO && want != r.found) {
		err_set(e, ERR_CORRUPT, "the layer is declared as %s data but is %s",
			want == COMPRESSION_NONE ? "uncompressed" : compression_name(want),
			r.found == COMPRESSION_NONE ? "not" : compression_name(r.found));
		goto done;
	}
	rc = decompress_stream(&s, e);
	if (!rc)
		rc = hash_final(&s.hash, r.diff_id, e);
	if (!rc)
		*ret = r;
done:
	hash_release(&s.hash);
	return rc;
}
