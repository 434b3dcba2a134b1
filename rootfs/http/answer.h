/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer - the response to one attempt of an exchange: libcurl's callbacks.
 *
 * Headers are counted, and the few that matter are kept. A body goes into the text, up to its
 * ceiling, or through a buffer of one chunk to the reader of a blob. An error is left in fatal,
 * which ends the exchange.
 */
#ifndef BERTH_ROOTFS_HTTP_ANSWER_H
#define BERTH_ROOTFS_HTTP_ANSWER_H

#include "rootfs/http/http.h"

#define ANSWER_CHUNK (128l << 10)	/* what libcurl hands us at most */

/* CURLOPT_HEADERFUNCTION, WRITEFUNCTION, READFUNCTION, SEEKFUNCTION; ctx is the exchange. */
size_t answer_on_header(char *p, size_t size, size_t count, void *ctx);
size_t answer_on_body(char *p, size_t size, size_t count, void *ctx);
size_t answer_on_upload(char *p, size_t size, size_t count, void *ctx);
int answer_on_seek(void *ctx, curl_off_t offset, int whence);

/* 1 for a status of 2xx. */
int answer_is_success(const struct exchange *x);
/* Judges the headers before the first byte of the body, or when there was none.  -1 with fatal set. */
int answer_begin_body(struct exchange *x);
/* 1 when all that waited is gone, 0 when the reader is slow, -1 (fatal) when it is away. */
int answer_flush(struct exchange *x);

#endif
