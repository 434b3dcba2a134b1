/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netaddr - IPv4 and IPv6 addresses, and which of them a sandbox may reach only with permission.
 *
 * Pure. An address that carries another one (IPv4-mapped, NAT64, 6to4, ...) is judged by the
 * address that it carries. Otherwise each of these forms would be a way around the rules.
 */
#ifndef BERTH_BASE_NETADDR_H
#define BERTH_BASE_NETADDR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NETADDR_TEXT 46

struct netaddr {
	uint8_t family;	/* 4 or 6; 0: none */
	uint8_t b[16];	/* network order */
};

struct netcidr {
	struct netaddr net;
	unsigned bits;
};

/* Parses a dotted quad or IPv6 as inet_pton(3) takes them; IPv4-mapped becomes IPv4. 0, or -1. */
int netaddr_parse(const char *s, struct netaddr *ret);
/* Parses a hardware address, "02:42:ac:11:00:0a". 0, or -1. */
int netaddr_mac(const char *s, uint8_t ret[6]);
#define NETADDR_MAC_TEXT 18
const char *netaddr_mac_text(const uint8_t mac[6], char out[NETADDR_MAC_TEXT]);
/* Hardware addresses that follow from an IPv4 address, which a sandbox cannot choose, begin with these bytes. */
#define NETADDR_MAC_OWN 0x02, 0x62
int netaddr_mac_is_own(const uint8_t mac[6]);
const char *netaddr_text(const struct netaddr *a, char out[NETADDR_TEXT]);
/* 127.0.0.1 or ::1 */
void netaddr_loopback(int family, struct netaddr *ret);
/* 0.0.0.0 or :: */
int netaddr_is_any(const struct netaddr *a);
/* A member of 127.0.0.0/8, or ::1. */
int netaddr_is_loopback(const struct netaddr *a);
int netaddr_equal(const struct netaddr *a, const struct netaddr *b);
/*
 * Returns NULL for an address of the public Internet, else its kind ("private", "loopback",
 * "link-local", ...), by the tables of RFC 6890 and its updates. IPv6 outside 2000::/3 is never
 * public.
 */
const char *netaddr_special(const struct netaddr *a);
/* Gives range number i of the IPv4 addresses that are not public, in ascending order; -1 after the last. */
int netaddr_special4(size_t i, struct netcidr *ret);
/* Parses "10.0.0.0/8", "fd00::/8" or one address. Host bits must be 0. ERR_INVALID. */
int netcidr_parse(const char *s, struct netcidr *ret, struct err *e);
int netcidr_holds(const struct netcidr *c, const struct netaddr *a);
/* Gives address number n of c (0 is the network's own); -1 if c has fewer. */
int netcidr_nth(const struct netcidr *c, uint64_t n, struct netaddr *ret);
/*
 * Gives the number of a in c, the n of netcidr_nth(); -1 if a is outside c or the number has more
 * than 63 bits.
 */
int netcidr_number(const struct netcidr *c, const struct netaddr *a, uint64_t *ret);
/* The numbers of the first and the last address of part, at most 2^62 of them; -1 if part is not one of c. */
int netcidr_span(const struct netcidr *c, const struct netcidr *part, uint64_t *ret_first, uint64_t *ret_last);

#endif
