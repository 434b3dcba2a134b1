/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/socksreq.h"

#include <arpa/inet.h>
#include <string.h>

long socksreq_greeting(const unsigned char *p, size_t n)
{
	if (n < 2 || n < 2U + p[1])
		return n >= 1 && p[0] != 5 ? -1 : 0;
	if (p[0] != 5 || !memchr(p + 2, 0, p[1]))
		return -1;
	return 2 + p[1];
}

int socksreq_parse(const unsigned char *p, size_t n, struct socksreq *ret)
{
	struct socksreq r = { 0 };
	size_t len;

	if (n < 5)
		return 0;
	if (p[0] != 5 || p[2] != 0)
		return -SOCKS_FAILURE;
	if (p[1] != 1)	/* CONNECT alone: BIND and UDP go round the proxy's checks */
		return -SOCKS_BAD_COMMAND;
	len = p[3] == 1 ? 4 : p[3] == 4 ? 16 : p[3] == 3 ? 1U + p[4] : 0;
	if (!len)
		return -SOCKS_BAD_ADDRESS;
	if (n < 4 + len + 2)
		return 0;
	if (p[3] == 3) {
		if (len == 1 || memchr(p + 5, 0, len - 1))
			return -SOCKS_BAD_ADDRESS;
		memcpy(r.host, p + 5, len - 1);
	} else {
		inet_ntop(p[3] == 1 ? AF_INET : AF_INET6, p + 4, r.host, sizeof(r.host));
	}
	r.port = (uint64_t)p[4 + len] << 8 | p[5 + len];
	r.len = 4 + len + 2;
	*ret = r;
	return 1;
}
