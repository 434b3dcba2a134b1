/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/freeport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define TRIES 32

static int bind_port(int family, int udp, uint16_t port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const int on = 1;
	int fd = socket(family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if ((family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
	    (family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4)) :
				 bind(fd, (struct sockaddr *)&v6, sizeof(v6))) < 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);

	return getsockname(fd, (struct sockaddr *)&a, &n) < 0 ? 0 : ntohs(a.sin_port);
}

/*
 * A port that is free on every address, of either family; the sockets reserve it until the next
 * choice.
 */
static uint16_t choose(int udp, int held[2])
{
	uint16_t port;
	int i;

	for (i = 0; i < TRIES; i++) {
		held[0] = bind_port(AF_INET, udp, 0);
		port = held[0] < 0 ? 0 : port_of(held[0]);
		if (!port)
			break;
		held[1] = bind_port(AF_INET6, udp, port);
		if (held[1] >= 0 || errno == EAFNOSUPPORT)
			return port;
		fd_close(&held[0]);
	}
	fd_close(&held[0]);
	return 0;
}

static void write_text(struct netpublish *b)
{
	const char *const end = b->udp ? "/udp" : "";
	char addr[NETADDR_TEXT];

	if (!b->addr.family)
		snprintf(b->text, sizeof(b->text), "%u:%u%s", b->host_port, b->port, end);
	else
		snprintf(b->text, sizeof(b->text), b->addr.family == 4 ? "%s:%u:%u%s" : "[%s]:%u:%u%s",
			 netaddr_text(&b->addr, addr), b->host_port, b->port, end);
}

int freeport_choose(struct netpolicy *p, struct err *e)
{
	int held[NETPOLICY_PUBLISH][2];
	size_t i, n = 0;
	int r = 0;

	for (i = 0; i < p->publish_count && r == 0; i++) {
		struct netpublish *b = &p->publish[i];

		if (!b->any_port)
			continue;
		held[n][0] = held[n][1] = -1;
		b->host_port = choose(b->udp, held[n++]);
		if (b->host_port)
			write_text(b);
		else
			r = err_set(e, ERR_NET, "publish %s: no port of the host is free", b->text);
	}
	while (n-- > 0) {
		fd_close(&held[n][0]);
		fd_close(&held[n][1]);
	}
	return r;
}

static void add(json_t *list, const struct netpublish *b, const char *address)
{
	json_array_append_new(list, json_pack("{s:s,s:i,s:i,s:s}", "address", address, "host_port",
					      (int)b->host_port, "port", (int)b->port, "protocol",
					      b->udp ? "udp" : "tcp"));
}

json_t *freeport_describe(const struct netpolicy *p, const struct link_plan *l)
{
	json_t *list = json_array();
	char text[NETADDR_TEXT];
	size_t i;

	for (i = 0; list && i < p->publish_count; i++) {
		const struct netpublish *b = &p->publish[i];

		if (b->addr.family) {
			add(list, b, netaddr_text(&b->addr, text));
			continue;
		}
		add(list, b, "127.0.0.1");
		if (l->with6)
			add(list, b, "::1");
	}
	return list;
}
