/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/resolver.h"

#include <ares.h>
#include <ctype.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/io.h"
#include "base/mem.h"

#define TRY_MS 2500
#define TRIES 3
#define HOSTS_FILE "/etc/hosts"
#define HOSTS_BYTES (1u << 20)
#define KNOWN_MAX 8192

struct known {
	char *name;		/* lower case, without a dot at its end */
	struct netaddr addr;
};

struct resolver {
	struct known *known;
	size_t known_count;
	ares_channel channel;
	resolver_watch_fn *watch;
	void *ctx;
};

struct question {
	resolver_fn *fn;
	void *ctx;
};

static void socket_state(void *data, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = data;

	r->watch(r->ctx, fd, readable, writable);
}

/* Sets other servers than the host's, if the policy names some. */
static int set_servers(struct resolver *r, const struct netpolicy *p, struct err *e)
{
	char text[NETPOLICY_DNS * 64] = "", addr[NETADDR_TEXT];
	size_t i, n = 0;

	if (!p->dns_count)
		return 0;
	for (i = 0; i < p->dns_count; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, p->dns[i].addr.family == 4 ? "%s%s:%u" : "%s[%s]:%u", i ? "," : "",
				      netaddr_text(&p->dns[i].addr, addr), p->dns[i].port);
	return ares_set_servers_ports_csv(r->channel, text) ? err_set(e, ERR_INVALID, "set the DNS servers %s", text) : 0;
}

/* ---- names that need no question ------------------------------------------------ */

static int know(struct resolver *r, const char *name, const struct netaddr *a, struct err *e)
{
	size_t n = strlen(name), i;
	struct known *more;
	char *own;

	if (r->known_count == KNOWN_MAX)
		return 0;
	if (!(r->known_count & (r->known_count - 1))) {
		more = reallocarray(r->known, r->known_count ? 2 * r->known_count : 1, sizeof(*more));
		if (!more)
			return err_nomem(e);
		r->known = more;
	}
	own = strndup(name, n && name[n - 1] == '.' ? n - 1 : n);
	if (!own)
		return err_nomem(e);
	for (i = 0; own[i]; i++)
		own[i] = (char)tolower((unsigned char)own[i]);
	r->known[r->known_count++] = (struct known){ own, *a };
	return 0;
}

static int know_given(struct resolver *r, const struct netpolicy *p, struct err *e)
{
	struct netaddr a;
	json_t *pair;
	size_t i;

	json_array_foreach(p->hosts, i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0)), *address = json_string_value(json_array_get(pair, 1));

		/* not an address but the gateway of a bridge, which this sandbox does not have */
		if (name && address && netaddr_parse(address, &a) == 0 && know(r, name, &a, e) < 0)
			return -1;
	}
	return 0;
}

/* Reads the operator's /etc/hosts; a wrong line is skipped, as in libc. */
static int know_the_hosts(struct resolver *r, struct err *e)
{
	autobuf struct buf b = BUF_INIT(HOSTS_BYTES);
	char *line, *rest, *word, *in_line;
	struct err ignored;
	struct netaddr a;

	if (io_read_file(AT_FDCWD, HOSTS_FILE, &b, &ignored) < 0 || !b.len)
		return 0;
	for (line = strtok_r(b.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		line[strcspn(line, "#")] = '\0';
		word = strtok_r(line, " \t\r", &in_line);
		if (!word || netaddr_parse(word, &a) < 0)
			continue;
		while ((word = strtok_r(NULL, " \t\r", &in_line)))
			if (know(r, word, &a, e) < 0)
				return -1;
	}
	return 0;
}

/* Gives all addresses of the name, IPv4 first. */
static size_t look_up_with_ares(const struct resolver *r, const char *name, struct netaddr *found)
{
	size_t n = 0, i;
	int family;

	for (family = 4; family <= 6; family += 2)
		for (i = 0; i < r->known_count && n < RESOLVER_ADDRESSES; i++)
			if (r->known[i].addr.family == family && !strcmp(r->known[i].name, name))
				found[n++] = r->known[i].addr;
	return n;
}

struct resolver *resolver_new(const struct netpolicy *p, resolver_watch_fn *watch, void *ctx, struct err *e)
{
	struct resolver *r = calloc(1, sizeof(*r));
	static char lookups[] = "b";
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES, .timeout = TRY_MS, .tries = TRIES, .lookups = lookups,
		.sock_state_cb = socket_state, .sock_state_cb_data = r,
	};
	int got;

	if (!r) {
		err_nomem(e);
		return NULL;
	}
	r->watch = watch;
	r->ctx = ctx;
	got = ares_library_init(ARES_LIB_INIT_ALL);
	if (!got)
		got = ares_init_options(&r->channel, &o, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
					ARES_OPT_SOCK_STATE_CB);
	if (got) {
		err_set(e, ERR_NET, "prepare the resolver: %s", ares_strerror(got));
		free(r);
		return NULL;
	}
	if (set_servers(r, p, e) < 0 || know_given(r, p, e) < 0 || (!p->dns_count && know_the_hosts(r, e) < 0)) {
		resolver_free(r);
		return NULL;
	}
	return r;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	while (r->known_count)
		free(r->known[--r->known_count].name);
	free(r->known);
	ares_destroy(r->channel);
	ares_library_cleanup();
	free(r);
}

static size_t collect_ares_addresses(const struct ares_addrinfo *info, int family, struct netaddr *found, size_t n)
{
	const struct ares_addrinfo_node *a;

	for (a = info->nodes; a && n < RESOLVER_ADDRESSES; a = a->ai_next) {
		if (a->ai_family != family)
			continue;
		memset(&found[n], 0, sizeof(found[n]));
		if (family == AF_INET) {
			found[n].family = 4;
			memcpy(found[n].b, &((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr, 4);
		} else {
			found[n].family = 6;
			memcpy(found[n].b, &((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr, 16);
		}
		n++;
	}
	return n;
}

static void on_ares_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct question q = *(struct question *)arg;
	struct netaddr found[RESOLVER_ADDRESSES];
	size_t n = 0;

	(void)timeouts;
	free(arg);
	if (status == ARES_SUCCESS) {
		n = collect_ares_addresses(info, AF_INET, found, 0);
		n = collect_ares_addresses(info, AF_INET6, found, n);
	}
	if (info)
		ares_freeaddrinfo(info);
	q.fn(q.ctx, found, n, status == ARES_SUCCESS ? "the name has no address" : ares_strerror(status));
}

void resolver_ask(struct resolver *r, const char *name, resolver_fn *fn, void *ctx)
{
	const struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct netaddr known[RESOLVER_ADDRESSES];
	const size_t n = look_up_with_ares(r, name, known);
	struct question *q;

	if (n) {
		fn(ctx, known, n, "");
		return;
	}
	q = malloc(sizeof(*q));
	if (!q) {
		fn(ctx, NULL, 0, "out of memory");
		return;
	}
	*q = (struct question){ fn, ctx };
	ares_getaddrinfo(r->channel, name, NULL, &hints, on_ares_answer, q);
}

void resolver_serve(struct resolver *r, int read_fd, int write_fd)
{
	ares_process_fd(r->channel, read_fd < 0 ? ARES_SOCKET_BAD : read_fd, write_fd < 0 ? ARES_SOCKET_BAD : write_fd);
}

int resolver_timeout(struct resolver *r, int max)
{
	struct timeval limit = { .tv_sec = max / 1000, .tv_usec = max % 1000 * 1000 }, got;
	struct timeval *t = ares_timeout(r->channel, &limit, &got);

	return t ? (int)(t->tv_sec * 1000 + t->tv_usec / 1000) : max;
}
