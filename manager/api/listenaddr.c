/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/listenaddr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "base/num.h"

int listenaddr_parse(const char *key, const char *text, const char *example, struct sockaddr_storage *ret, socklen_t *ret_n, struct err *e)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	const char *colon = strrchr(text, ':');
	char host[64], what[64];
	struct netaddr a;
	uint64_t port;

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return err_set(e, ERR_CONFIG, "%s '%.64s' is not ADDRESS:PORT; hint: %s", key, text, example);
	snprintf(what, sizeof(what), "%s's port", key);
	if (num_u64(colon + 1, what, 0, 65535, &port, e) < 0)
		return -1;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	if (host[0] == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = '\0';
		memmove(host, host + 1, strlen(host));
	}
	if (netaddr_parse(host, &a) < 0)
		return err_set(e, ERR_CONFIG, "%s '%.64s' is not ADDRESS:PORT; hint: %s", key, text, example);
	memset(ret, 0, sizeof(*ret));
	if (a.family == 6) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		memcpy(&v6->sin6_addr, a.b, sizeof(v6->sin6_addr));
		*ret_n = sizeof(*v6);
		return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0;
	}
	v4->sin_family = AF_INET;
	v4->sin_port = htons((uint16_t)port);
	memcpy(&v4->sin_addr, a.b, sizeof(v4->sin_addr));
	*ret_n = sizeof(*v4);
	return a.b[0] == 127;
}

int listenaddr_listen(const char *text, const struct sockaddr_storage *a, socklen_t n, unsigned *ret_port, struct err *e)
{
	struct sockaddr_storage got = *a;
	autoclose int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, (const struct sockaddr *)a, n) < 0 ||
	    listen(fd, SOMAXCONN) < 0 || getsockname(fd, (struct sockaddr *)&got, &n) < 0)
		return err_sys(e, "listen on %s", text);
	*ret_port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port : ((struct sockaddr_in *)&got)->sin_port);
	return take_fd(&fd);
}
