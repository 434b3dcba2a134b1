/* SPDX-License-Identifier: Apache-2.0 */
/* socksreq - the two messages of a SOCKS5 client (RFC 1928): pure, fed with hostile bytes. */
#ifndef BERTH_RUNTIME_NET_SOCKSREQ_H
#define BERTH_RUNTIME_NET_SOCKSREQ_H

#include <stddef.h>
#include <stdint.h>

enum { SOCKS_OK = 0, SOCKS_FAILURE = 1, SOCKS_NOT_ALLOWED = 2, SOCKS_NET_UNREACHABLE = 3, SOCKS_HOST_UNREACHABLE = 4,
	SOCKS_REFUSED = 5, SOCKS_BAD_COMMAND = 7, SOCKS_BAD_ADDRESS = 8 };

struct socksreq {
	char host[300];
	uint64_t port;
	size_t len;	/* bytes of the input that it took */
};

/* The greeting: its length when it offers "no authentication", 0 when more is needed, -1 else. */
long socksreq_greeting(const unsigned char *p, size_t n);
/* The request: 1, 0 when more is needed, or -SOCKS_* to answer with. */
int socksreq_parse(const unsigned char *p, size_t n, struct socksreq *ret);

#endif
