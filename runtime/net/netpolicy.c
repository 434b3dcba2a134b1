/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S13 of SECURITY.md. */
#include "runtime/net/netpolicy.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"

#define PORT_WEB 80
#define PORT_TLS 443

/* Lower case, without the dot at the end; only what a host name may hold. */
static int canonical_host(const char *s, size_t n, char out[NETHOST_NAME])
{
	size_t i, label = 0;

	if (n && s[n - 1] == '.')
		n--;
	if (!n || n >= NETHOST_NAME)
		return -1;
	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		label = c == '.' ? 0 : label + 1;
		if (label > 63 || (c == '.' && (i == 0 || s[i - 1] == '.')) || (!isalnum(c) && c != '-' && c != '_' && c != '.') ||
		    c > 126)
			return -1;
		out[i] = (char)tolower(c);
	}
	out[n] = '\0';
	return 0;
}

/* inet_aton(3) reads "127.1", "2130706433", "0x7f.1" as addresses, and so do some resolvers. */
static int ends_in_number(const char *name)
{
	const char *last = strrchr(name, '.');

	last = last ? last + 1 : name;
	return last[strspn(last, "0123456789")] == '\0' || (last[0] == '0' && last[1] == 'x' && last[2 + strspn(last + 2, "0123456789abcdef")] == '\0');
}

static int parse_port_range(const char *s, uint16_t *from, uint16_t *to, struct err *e)
{
	char first[8];
	const char *dash = strchr(s, '-');
	uint64_t a, b;

	if (!strcmp(s, "*")) {
		*from = 1;
		*to = UINT16_MAX;
		return 0;
	}
	if (dash && (size_t)(dash - s) >= sizeof(first))
		return err_set(e, ERR_INVALID, "'%.20s' is not a range of ports", s);
	snprintf(first, sizeof(first), "%.*s", dash ? (int)(dash - s) : 7, s);
	if (num_u64(dash ? first : s, "port", 1, UINT16_MAX, &a, e) < 0)
		return -1;
	b = a;
	if (dash && num_u64(dash + 1, "port", a, UINT16_MAX, &b, e) < 0)
		return -1;
	*from = (uint16_t)a;
	*to = (uint16_t)b;
	return 0;
}

/*
 * Cuts "HOST[:PORT]" in two.  An address of IPv6 stands in brackets when a port
 * follows; alone it needs none.
 */
static int split_host_port(const char *s, char *host, size_t n, const char **ret_port, struct err *e)
{
	const char *end, *colon = strchr(s, ':');
	struct netaddr a;

	*ret_port = NULL;
	if (s[0] == '[') {
		end = strchr(s, ']');
		if (!end || (end[1] && end[1] != ':') || (size_t)(end - s) >= n)
			return err_set(e, ERR_INVALID, "'%.80s' is not [ADDRESS]:PORT", s);
		snprintf(host, n, "%.*s", (int)(end - s - 1), s + 1);
		if (netaddr_parse(host, &a) < 0)
			return err_set(e, ERR_INVALID, "'%.80s' is not an address", host);
		*ret_port = end[1] ? end + 2 : NULL;
		return 0;
	}
	if (strlen(s) < n && netaddr_parse(s, &a) == 0)
		colon = NULL;	/* an IPv6 address without a port */
	if ((colon ? (size_t)(colon - s) : strlen(s)) >= n)
		return err_set(e, ERR_INVALID, "'%.80s...' is too long for a host name", s);
	snprintf(host, n, "%.*s", colon ? (int)(colon - s) : (int)n - 1, s);
	*ret_port = colon ? colon + 1 : NULL;
	return 0;
}

static int host_error(const char *s, struct err *e)
{
	return err_set(e, ERR_INVALID, "'%.80s' is not a host rule; hint: NAME, *.SUFFIX or ADDRESS, then :PORT, :FROM-TO or :* "
		       "(none: ports 80 and 443); international names in their xn-- form", s);
}

int nethost_parse(const char *s, struct nethost *ret, struct err *e)
{
	struct nethost h = { 0 };
	char host[NETHOST_NAME + 4];
	const char *port;

	if (split_host_port(s, host, sizeof(host), &port, e) < 0 || (port && parse_port_range(port, &h.from, &h.to, e) < 0))
		return -1;
	if (strlen(s) >= sizeof(h.text))
		return host_error(s, e);
	snprintf(h.text, sizeof(h.text), "%s", s);
	if (!strcmp(host, "*")) {
		h.kind = NETHOST_ANY;
	} else if (!strncmp(host, "*.", 2)) {
		h.kind = NETHOST_SUFFIX;
		if (canonical_host(host + 2, strlen(host + 2), h.name) < 0 || ends_in_number(h.name))
			return host_error(s, e);
	} else if (netaddr_parse(host, &h.addr) == 0) {
		h.kind = NETHOST_ADDRESS;
	} else if (canonical_host(host, strlen(host), h.name) < 0 || ends_in_number(h.name)) {
		return host_error(s, e);
	}
	*ret = h;
	return 0;
}

int netserver_parse(const char *s, struct netserver *ret, struct err *e)
{
	char host[NETADDR_TEXT + 4];
	struct netserver d = { .port = 53 };
	const char *port;
	uint64_t n = 53;

	if (split_host_port(s, host, sizeof(host), &port, e) < 0 || netaddr_parse(host, &d.addr) < 0)
		return err_set(e, ERR_INVALID, "'%.80s' is not the address of a DNS server; hint: such as 9.9.9.9", s);
	if (port && num_u64(port, "port", 1, UINT16_MAX, &n, e) < 0)
		return -1;
	d.port = (uint16_t)n;
	*ret = d;
	return 0;
}

/* "1.2.3.4" or "[::1]" */
static int parse_host_address(char *text, struct netaddr *ret)
{
	size_t len = strlen(text);

	if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
		text[len - 1] = '\0';
		text++;
	}
	return netaddr_parse(text, ret);
}

static int publish_port(const char *text, const char *what, uint16_t *ret, struct err *e)
{
	uint64_t n;

	if (num_u64(text, what, 1, UINT16_MAX, &n, e) < 0)
		return -1;
	*ret = (uint16_t)n;
	return 0;
}

/* "8080", one of "8080-8090", or of all. */
static int publish_host_port(const char *text, struct netpublish *p, struct err *e)
{
	if (!text || !*text || !strchr(text, '-')) {
		p->any_port = !text || !*text;
		return p->any_port ? 0 : publish_port(text, "port of the host", &p->host_port, e);
	}
	p->any_port = 1;
	return parse_port_range(text, &p->first, &p->last, e);
}

int netpublish_parse(const char *s, struct netpublish *ret, struct err *e)
{
	struct netpublish p = { 0 };
	char text[sizeof(p.text)], *slash, *port = text, *from = NULL, *colon;

	if (strlen(s) >= sizeof(text))
		goto bad;
	memcpy(text, s, strlen(s) + 1);
	memcpy(p.text, s, strlen(s) + 1);
	slash = strchr(text, '/');
	if (slash) {
		*slash++ = '\0';
		p.udp = !strcmp(slash, "udp");
		if (!p.udp && strcmp(slash, "tcp"))
			goto bad;
	}
	colon = strrchr(text, ':');
	if (colon) {
		*colon = '\0';
		port = colon + 1;
		from = text;
		colon = strrchr(text, ':');
	}
	if (colon) {
		*colon = '\0';
		from = colon + 1;
		if (parse_host_address(text, &p.addr) < 0)
			goto bad;
	}
	if (from && !*from && !colon)
		goto bad;
	if (publish_host_port(from, &p, e) < 0 || publish_port(port, "port of the sandbox", &p.port, e) < 0)
		return -1;
	*ret = p;
	return 0;
bad:
	return err_set(e, ERR_INVALID, "'%.80s' is not a port to publish; hint: "
		       "[[IP:]HOSTPORT[-LAST]:]SANDBOXPORT[/udp], such as 8080:80 on the host's loopback, "
		       "80 on a free port of it, 8080-8090:80 on a free one of these, 0.0.0.0:8080:80 on every IPv4 address, "
		       "[::]:8080:80 on every IPv6 one", s);
}

int nettarget_parse(const char *host, uint64_t port, struct nettarget *ret, struct err *e)
{
	struct nettarget t = { .port = (uint16_t)port };
	char text[NETHOST_NAME + 4];
	size_t n = strlen(host);

	if (!port || port > UINT16_MAX)
		return err_set(e, ERR_INVALID, "no valid port is given");
	if (n >= sizeof(text))
		return err_set(e, ERR_INVALID, "the host name is too long");
	memcpy(text, host, n + 1);
	if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
		text[n - 1] = '\0';
		memmove(text, text + 1, n - 1);
		if (!strchr(text, ':'))
			return err_set(e, ERR_INVALID, "'%.80s' is not an address", host);
	}
	if (netaddr_parse(text, &t.addr) == 0)
		netaddr_text(&t.addr, t.name);
	else if (canonical_host(text, strlen(text), t.name) < 0 || ends_in_number(t.name))
		return err_set(e, ERR_INVALID, "the host is neither a name nor an address in its usual form");
	*ret = t;
	return 0;
}

/* ---- from JSON ---------------------------------------------------------------- */

static int each_string(const json_t *j, const char *key, size_t max, int (*take)(struct netpolicy *p, const char *s, struct err *e),
		       struct netpolicy *p, struct err *e)
{
	json_t *list = NULL, *item;
	size_t i;

	if (json_get_arr(j, key, &list, "network policy", e) < 0)
		return -1;
	if (json_array_size(list) > max)
		return err_set(e, ERR_LIMIT, "network policy: more than %zu entries of %s", max, key);
	json_array_foreach(list, i, item) {
		if (!json_is_string(item))
			return err_set(e, ERR_CORRUPT, "network policy: %s[%zu] is not a string", key, i);
		if (take(p, json_string_value(item), e) < 0)
			return err_wrap(e, "%s", key);
	}
	return 0;
}

static int add_policy_host(struct nethost **list, size_t *count, const char *s, struct err *e)
{
	struct nethost *bigger;

	if ((*count & (*count - 1)) == 0) {
		bigger = realloc(*list, (*count ? *count * 2 : 1) * sizeof(**list));
		if (!bigger)
			return err_nomem(e);
		*list = bigger;
	}
	if (nethost_parse(s, &(*list)[*count], e) < 0)
		return -1;
	++*count;
	return 0;
}

static int take_allow(struct netpolicy *p, const char *s, struct err *e)
{
	return add_policy_host(&p->allow, &p->allow_count, s, e);
}

static int take_deny(struct netpolicy *p, const char *s, struct err *e)
{
	return add_policy_host(&p->deny, &p->deny_count, s, e);
}

static int take_allow_net(struct netpolicy *p, const char *s, struct err *e)
{
	return netcidr_parse(s, &p->allow_net[p->allow_net_count++], e);
}

static int take_deny_net(struct netpolicy *p, const char *s, struct err *e)
{
	return netcidr_parse(s, &p->deny_net[p->deny_net_count++], e);
}

static int take_dns(struct netpolicy *p, const char *s, struct err *e)
{
	return netserver_parse(s, &p->dns[p->dns_count++], e);
}

static int take_publish(struct netpolicy *p, const char *s, struct err *e)
{
	return netpublish_parse(s, &p->publish[p->publish_count++], e);
}

static int load_policy_level(struct netpolicy *p, const json_t *j, struct err *e)
{
	memset(p, 0, sizeof(*p));
	if (each_string(j, "allow_host", NETPOLICY_HOSTS, take_allow, p, e) < 0 ||
	    each_string(j, "deny_host", NETPOLICY_HOSTS, take_deny, p, e) < 0 ||
	    each_string(j, "allow_net", NETPOLICY_NETS, take_allow_net, p, e) < 0 ||
	    each_string(j, "deny_net", NETPOLICY_NETS, take_deny_net, p, e) < 0 ||
	    each_string(j, "dns", NETPOLICY_DNS, take_dns, p, e) < 0 ||
	    each_string(j, "publish", NETPOLICY_PUBLISH, take_publish, p, e) < 0)
		return -1;
	if (json_get_u64(j, "max_bytes", &p->max_bytes, "network policy", e) < 0 ||
	    json_get_u64(j, "max_connections", &p->max_connections, "network policy", e) < 0 ||
	    json_get_u64(j, "max_rate", &p->max_rate, "network policy", e) < 0 ||
	    json_get_arr(j, "hosts", &p->hosts, "network policy", e) < 0)
		return -1;
	json_incref(p->hosts);
	if (p->max_rate && (p->max_rate < NETRATE_MIN || p->max_rate > NETRATE_MAX))
		return err_set(e, ERR_INVALID, "a network rate of %llu bytes a second",
			       (unsigned long long)p->max_rate);
	return 0;
}

static int load_group(struct netpolicy *p, const json_t *j, struct err *e)
{
	json_t *group = NULL;
	const char *name = "";

	if (json_get_obj(j, "group", &group, "network policy", e) < 0)
		return -1;
	if (!group)
		return 0;
	p->group = calloc(1, sizeof(*p->group));
	if (!p->group)
		return err_nomem(e);
	if (load_policy_level(p->group, group, e) < 0 ||
	    json_get_str(group, "network", &name, "network policy", e) < 0)
		return -1;
	snprintf(p->group->network, sizeof(p->group->network), "%s", name);
	memcpy(p->dns, p->group->dns, sizeof(p->dns));
	p->dns_count = p->group->dns_count;
	return 0;
}

int netpolicy_load(struct netpolicy *p, const json_t *j, struct err *e)
{
	return load_policy_level(p, j, e) < 0 ? -1 : load_group(p, j, e);
}

void netpolicy_release(struct netpolicy *p)
{
	if (p->group)
		netpolicy_release(p->group);
	free(p->group);
	p->group = NULL;
	json_decref(p->hosts);
	p->hosts = NULL;
	free(p->allow);
	free(p->deny);
	p->allow = p->deny = NULL;
	p->allow_count = p->deny_count = 0;
}

int netpolicy_is_local(const struct netpolicy *p, int peers)
{
	size_t i;

	for (i = 0; i < p->publish_count; i++)
		if (p->publish[i].addr.family && !netaddr_is_loopback(&p->publish[i].addr))
			return 0;
	return peers || p->publish_count;
}

/* ---- the decision --------------------------------------------------------------- */

static int port_matches(const struct nethost *h, uint16_t port)
{
	return h->from ? port >= h->from && port <= h->to : port == PORT_WEB || port == PORT_TLS;
}

static int host_matches(const struct nethost *h, const struct nettarget *t)
{
	size_t n, m;

	switch (h->kind) {
	case NETHOST_ANY:
		return 1;
	case NETHOST_ADDRESS:
		return netaddr_equal(&h->addr, &t->addr);
	case NETHOST_EXACT:
		return !t->addr.family && !strcmp(h->name, t->name);
	case NETHOST_SUFFIX:
		n = strlen(t->name);
		m = strlen(h->name);
		return !t->addr.family && n > m + 1 && t->name[n - m - 1] == '.' && !strcmp(t->name + n - m, h->name);
	}
	return 0;
}

static const struct nethost *host_of(const struct netpolicy *p, const struct nettarget *t,
				     const struct nethost **ret_denied)
{
	size_t i;

	*ret_denied = NULL;
	for (i = 0; i < p->deny_count; i++) {
		const struct nethost *h = &p->deny[i];

		/* a denial without a port means every port */
		if (host_matches(h, t) && (!h->from || port_matches(h, t->port))) {
			*ret_denied = h;
			return NULL;
		}
	}
	for (i = 0; i < p->allow_count; i++)
		if (host_matches(&p->allow[i], t) && port_matches(&p->allow[i], t->port))
			return &p->allow[i];
	return NULL;
}

const struct nethost *netpolicy_host(const struct netpolicy *p, const struct nettarget *t,
				     const struct nethost **ret_denied)
{
	const struct nethost *own = host_of(p, t, ret_denied);

	if (!p->group)
		return own;
	/* a member without allow rules of its own may reach what the network may */
	if (*ret_denied || (p->allow_count && !own))
		return NULL;
	return host_of(p->group, t, ret_denied);
}

int netpolicy_group_refuses(const struct netpolicy *p, const struct nettarget *t)
{
	const struct nethost *denied;

	return p->group && !host_of(p->group, t, &denied);
}

int netpolicy_explicit(const struct netpolicy *p, const struct nethost *by, const struct netaddr *a)
{
	size_t i;

	if (p->group)
		return netpolicy_explicit(p->group, by, a);

	if (by->kind == NETHOST_ADDRESS && netaddr_equal(&by->addr, a))
		return 1;
	for (i = 0; i < p->allow_net_count; i++)
		if (netcidr_holds(&p->allow_net[i], a))
			return 1;
	return 0;
}

const char *netpolicy_address(const struct netpolicy *p, const struct nethost *by, const struct netaddr *a)
{
	size_t i;

	for (i = 0; i < p->deny_net_count; i++)
		if (netcidr_holds(&p->deny_net[i], a))
			return "denied";
	if (p->group)
		return netpolicy_address(p->group, by, a);
	return netpolicy_explicit(p, by, a) ? NULL : netaddr_special(a);
}

/* ---- the rate ---- */

#define BURST_MIN 16384ULL
#define BURST_MAX (4ULL << 20)
#define WORTH 4096ULL

uint64_t netrate_burst(uint64_t rate)
{
	const uint64_t burst = rate / 20;

	return burst < BURST_MIN ? BURST_MIN : burst > BURST_MAX ? BURST_MAX : burst;
}

size_t netrate_room(struct netrate *r, uint64_t rate, uint64_t now_ms, size_t want)
{
	const uint64_t burst = netrate_burst(rate);
	uint64_t earned, room;

	if (!rate)
		return want;
	earned = now_ms - r->at_ms;
	earned = earned > 1000000 ? UINT64_MAX : earned * rate;
	r->lacking = earned >= r->lacking ? 0 : r->lacking - earned;
	r->at_ms = now_ms;
	/* bytes that passed unasked, with the head of a request, are a debt */
	if (r->lacking > (burst - WORTH) * 1000)
		return 0;
	room = burst - (r->lacking + 999) / 1000;
	return room < want ? (size_t)room : want;
}

void netrate_spend(struct netrate *r, uint64_t rate, size_t n)
{
	if (rate)
		r->lacking += n * 1000;
}

uint64_t netrate_wait_ms(const struct netrate *r, uint64_t rate)
{
	const uint64_t may_lack = (netrate_burst(rate) - WORTH) * 1000;

	return !rate || r->lacking <= may_lack ? 0 : (r->lacking - may_lack + rate - 1) / rate;
}

/* ---- the share of the host's connections ---- */

/* S29 */
#define TABLE "/proc/sys/net/netfilter/nf_conntrack_max"
#define PARTS 16

/* nf_conntrack_init_start() of the kernel. */
static uint64_t future_table(void)
{
	struct sysinfo s;
	uint64_t bytes;

	if (sysinfo(&s) < 0)
		return NETSHARE_MAX;	/* the least of all answers */
	bytes = (uint64_t)s.totalram * s.mem_unit;
	if (bytes > UINT64_C(4) << 30)
		return 262144;
	if (bytes > UINT64_C(1) << 30)
		return 65536;
	return bytes / 16384 / sizeof(void *);
}

uint64_t netshare_connections(void)
{
	autobuf struct buf b = BUF_INIT(32);
	uint64_t table;
	struct err ignored;

	if (io_read_file(AT_FDCWD, TABLE, &b, &ignored) == 0 && b.data)
		b.data[strcspn(b.data, "\n")] = '\0';
	if (!b.data || num_u64(b.data, TABLE, 0, UINT64_MAX, &table, &ignored) < 0)
		table = future_table();
	table /= PARTS;
	return table > NETSHARE_MAX ? NETSHARE_MAX : table ? table : 1;
}
