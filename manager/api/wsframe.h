/* SPDX-License-Identifier: Apache-2.0 */
/* wsframe - the frames of RFC 6455, and the answer to a client's key.  Pure. */
#ifndef BERTH_MANAGER_API_WSFRAME_H
#define BERTH_MANAGER_API_WSFRAME_H

#include <stddef.h>

#include "base/err.h"

#define WEBSOCKET_MAX (1u << 20)

enum websocket_op { WEBSOCKET_MORE = 0, WEBSOCKET_TEXT = 1, WEBSOCKET_BINARY = 2, WEBSOCKET_CLOSE = 8, WEBSOCKET_PING = 9, WEBSOCKET_PONG = 10 };

struct websocket_frame {
	int final;
	enum websocket_op op;
	unsigned char mask[4];
	size_t head, n;	/* bytes of the head, of the payload */
};

/* The head of a client's frame at p: 1; 0: more bytes are needed; -1 with ERR_INVALID, ERR_LIMIT. */
int websocket_head(const char *p, size_t n, struct websocket_frame *ret, struct err *e);
/* The head of a server's frame in ret: its length. */
size_t websocket_head_of(enum websocket_op op, size_t n, unsigned char ret[10]);
/* The field Sec-WebSocket-Accept for a key: ERR_INVALID for what is no key. */
int websocket_accept(const char *key, char ret[32], struct err *e);

#endif
