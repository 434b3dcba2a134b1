/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/wsframe.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

int websocket_head(const char *p, size_t n, struct websocket_frame *ret, struct err *e)
{
	const unsigned char *b = (const unsigned char *)p;
	uint64_t len;
	size_t more, i;

	if (n < 2)
		return 0;
	*ret = (struct websocket_frame){.final = b[0] >> 7, .op = b[0] & 15, .head = 6};
	if (b[0] & 0x70)
		return err_set(e, ERR_INVALID, "a frame with an extension that nobody agreed on");
	if (!(b[1] & 0x80))
		return err_set(e, ERR_INVALID, "a frame of a client without a mask");
	if (ret->op > WEBSOCKET_PONG || (ret->op > WEBSOCKET_BINARY && ret->op < WEBSOCKET_CLOSE))
		return err_set(e, ERR_INVALID, "a frame of an unknown kind");
	len = b[1] & 127;
	if (ret->op >= WEBSOCKET_CLOSE && (len > 125 || !ret->final))
		return err_set(e, ERR_INVALID, "a control frame in parts, or of over 125 bytes");
	more = len == 126 ? 2 : len == 127 ? 8 : 0;
	if (n < 6 + more)
		return 0;
	for (i = 0, len = more ? 0 : len; i < more; i++)
		len = len << 8 | b[2 + i];
	if (len > WEBSOCKET_MAX)
		return err_set(e, ERR_LIMIT, "a message of over %u bytes", WEBSOCKET_MAX);
	memcpy(ret->mask, b + 2 + more, 4);
	ret->head += more;
	ret->n = (size_t)len;
	return 1;
}

size_t websocket_head_of(enum websocket_op op, size_t n, unsigned char ret[10])
{
	const size_t more = n < 126 ? 0 : n < 65536 ? 2 : 8;
	size_t i;

	ret[0] = (unsigned char)(0x80 | op);
	ret[1] = (unsigned char)(more == 0 ? n : more == 2 ? 126 : 127);
	for (i = 0; i < more; i++)
		ret[2 + i] = (unsigned char)((uint64_t)n >> 8 * (more - 1 - i));
	return 2 + more;
}

int websocket_accept(const char *key, char ret[32], struct err *e)
{
	unsigned char raw[64], digest[EVP_MAX_MD_SIZE];
	unsigned got = 0;
	char text[128];
	size_t n = 0;

	if (!key || strlen(key) != 24 || base64_decode(raw, &n, key, 24) < 0 || n != 16)
		return err_set(e, ERR_INVALID, "the field Sec-WebSocket-Key is missing or malformed");
	snprintf(text, sizeof(text), "%s" GUID, key);
	if (!EVP_Digest(text, strlen(text), digest, &got, EVP_sha1(), NULL) || got != 20)
		return err_set(e, ERR_INTERNAL, "compute a digest");
	base64_encode(ret, digest, got);
	return 0;
}
