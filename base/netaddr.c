/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S13 and S21 of SECURITY.md. */
#include "base/netaddr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

struct range {
	const char *net;
	unsigned bits;
	const char *what;
};

/* RFC 6890, 5735, 6598, 8190; the IANA registries of special-purpose addresses. */
static const struct range special4[] = {
	{ "0.0.0.0", 8, "unspecified" }, { "10.0.0.0", 8, "private" }, { "100.64.0.0", 10, "carrier-grade NAT" },
	{ "127.0.0.0", 8, "loopback" }, { "169.254.0.0", 16, "link-local" }, { "172.16.0.0", 12, "private" },
	{ "192.0.0.0", 24, "protocol assignment" }, { "192.0.2.0", 24, "documentation" },
	{ "192.88.99.0", 24, "6to4 relay" }, { "192.168.0.0", 16, "private" }, { "198.18.0.0", 15, "benchmark" },
	{ "198.51.100.0", 24, "documentation" }, { "203.0.113.0", 24, "documentation" },
	{ "224.0.0.0", 4, "multicast" }, { "240.0.0.0", 4, "reserved" },
};

static const struct range special6[] = {
	{ "::1", 128, "loopback" }, { "::", 128, "unspecified" }, { "fe80::", 10, "link-local" },
	{ "fc00::", 7, "private" }, { "fec0::", 10, "site-local" }, { "ff00::", 8, "multicast" },
	{ "2001::", 23, "protocol assignment" }, { "2001:db8::", 32, "documentation" }, { "3fff::", 20, "documentation" },
};

/* Where an IPv6 address carries an IPv4 one: RFC 4291, 6052, 3056, 2765. */
static const struct { const char *net; unsigned bits, at; } carriers[] = {
	{ "::ffff:0:0", 96, 12 }, { "::ffff:0:0:0", 96, 12 }, { "64:ff9b::", 96, 12 }, { "2002::", 16, 2 }, { "::", 96, 12 },
};

static int prefix_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole))
		return 0;
	return !rest || !((a[whole] ^ b[whole]) >> (8 - rest));
}

static int in_range(const struct netaddr *a, const char *net, unsigned bits)
{
	uint8_t n[16] = { 0 };

	return inet_pton(a->family == 4 ? AF_INET : AF_INET6, net, n) == 1 && prefix_equal(a->b, n, bits);
}

int netaddr_mac(const char *s, uint8_t ret[6])
{
	uint8_t mac[6];
	int i, end = 0;

	if (strspn(s, "0123456789abcdefABCDEF:") != 17 || s[17])
		return -1;
	for (i = 0; i < 6; i++)
		if ((i < 5 && s[3 * i + 2] != ':') || sscanf(s + 3 * i, "%2hhx%n", &mac[i], &end) != 1 || end != 2)
			return -1;
	memcpy(ret, mac, 6);
	return 0;
}

const char *netaddr_mac_text(const uint8_t m[6], char out[NETADDR_MAC_TEXT])
{
	snprintf(out, NETADDR_MAC_TEXT, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
	return out;
}

int netaddr_mac_is_own(const uint8_t mac[6])
{
	static const uint8_t own[] = { NETADDR_MAC_OWN };

	return !memcmp(mac, own, sizeof(own));
}

int netaddr_parse(const char *s, struct netaddr *ret)
{
	struct netaddr a = { 0 };

	if (inet_pton(AF_INET, s, a.b) == 1) {
		a.family = 4;
	} else if (inet_pton(AF_INET6, s, a.b) == 1) {
		a.family = 6;
		if (in_range(&a, "::ffff:0:0", 96)) {
			a.family = 4;
			memmove(a.b, a.b + 12, 4);
			memset(a.b + 4, 0, 12);
		}
	} else {
		return -1;
	}
	*ret = a;
	return 0;
}

const char *netaddr_text(const struct netaddr *a, char out[NETADDR_TEXT])
{
	out[0] = '\0';
	if (a->family)
		inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->b, out, NETADDR_TEXT);
	return out;
}

void netaddr_loopback(int family, struct netaddr *ret)
{
	*ret = (struct netaddr){ .family = (uint8_t)family };
	if (family == 4)
		ret->b[0] = 127;
	ret->b[family == 4 ? 3 : 15] = 1;
}

int netaddr_is_any(const struct netaddr *a)
{
	static const struct netaddr zero;

	return a->family && !memcmp(a->b, zero.b, sizeof(a->b));
}

int netaddr_equal(const struct netaddr *a, const struct netaddr *b)
{
	return a->family == b->family && !memcmp(a->b, b->b, a->family == 4 ? 4 : 16);
}

const char *netaddr_special(const struct netaddr *a)
{
	size_t i;

	if (a->family == 4) {
		for (i = 0; i < ARRAY_LEN(special4); i++)
			if (in_range(a, special4[i].net, special4[i].bits))
				return special4[i].what;
		return NULL;
	}
	for (i = 0; i < ARRAY_LEN(special6); i++)
		if (in_range(a, special6[i].net, special6[i].bits))
			return special6[i].what;
	for (i = 0; i < ARRAY_LEN(carriers); i++) {
		if (in_range(a, carriers[i].net, carriers[i].bits)) {
			struct netaddr inner = { .family = 4 };

			memcpy(inner.b, a->b + carriers[i].at, 4);
			return netaddr_special(&inner);
		}
	}
	return in_range(a, "2000::", 3) ? NULL : "reserved";
}

int netaddr_is_loopback(const struct netaddr *a)
{
	const char *what = netaddr_special(a);

	return what && !strcmp(what, "loopback");
}

int netaddr_special4(size_t i, struct netcidr *ret)
{
	if (i >= ARRAY_LEN(special4))
		return -1;
	ret->bits = special4[i].bits;
	return netaddr_parse(special4[i].net, &ret->net);
}

int netcidr_parse(const char *s, struct netcidr *ret, struct err *e)
{
	const char *slash = strchr(s, '/');
	char text[NETADDR_TEXT];
	struct netcidr c;
	uint64_t bits;
	unsigned i;

	if (strlen(s) >= sizeof(text) + 4 || (slash && (size_t)(slash - s) >= sizeof(text)))
		return err_set(e, ERR_INVALID, "'%.60s' is not an address range; hint: such as 10.0.0.0/8", s);
	memcpy(text, s, slash ? (size_t)(slash - s) : strlen(s) < sizeof(text) ? strlen(s) + 1 : sizeof(text));
	text[slash ? (size_t)(slash - s) : sizeof(text) - 1] = '\0';
	if (netaddr_parse(text, &c.net) < 0)
		return err_set(e, ERR_INVALID, "'%.60s' is not an address range; hint: such as 10.0.0.0/8 or fd00::/8", s);
	bits = c.net.family == 4 ? 32 : 128;
	if (slash && num_u64(slash + 1, "prefix length", 0, bits, &bits, e) < 0)
		return -1;
	c.bits = (unsigned)bits;
	for (i = c.bits; i < (c.net.family == 4 ? 32U : 128U); i++)
		if (c.net.b[i / 8] & 0x80 >> i % 8)
			return err_set(e, ERR_INVALID, "'%.60s' has bits behind its prefix; hint: its first address is wanted", s);
	*ret = c;
	return 0;
}

int netcidr_holds(const struct netcidr *c, const struct netaddr *a)
{
	return c->net.family == a->family && prefix_equal(c->net.b, a->b, c->bits);
}

int netcidr_nth(const struct netcidr *c, uint64_t n, struct netaddr *ret)
{
	unsigned bytes = c->net.family == 4 ? 4 : 16, free_bits = bytes * 8 - c->bits, i;

	if (free_bits < 64 && n >> free_bits)
		return -1;
	*ret = c->net;
	for (i = bytes; i-- > 0 && n; n >>= 8)
		ret->b[i] |= (uint8_t)n;
	return 0;
}

int netcidr_number(const struct netcidr *c, const struct netaddr *a, uint64_t *ret)
{
	const unsigned bytes = c->net.family == 4 ? 4 : 16;
	uint64_t n = 0;
	unsigned i;

	if (!netcidr_holds(c, a))
		return -1;
	for (i = 0; i < bytes; i++) {
		if (n >> 55)
			return -1;
		n = n << 8 | (uint8_t)(a->b[i] ^ c->net.b[i]);
	}
	*ret = n;
	return 0;
}

int netcidr_span(const struct netcidr *c, const struct netcidr *part, uint64_t *ret_first, uint64_t *ret_last)
{
	const unsigned free_bits = (part->net.family == 4 ? 32 : 128) - part->bits;
	uint64_t first;

	if (part->bits < c->bits || netcidr_number(c, &part->net, &first) < 0)
		return -1;
	*ret_first = first;
	*ret_last = first + (1ull << (free_bits < 62 ? free_bits : 62)) - 1;
	return 0;
}
