/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S13 of SECURITY.md. */
/* Addresses, rules and decisions of networks, as text: what is allowed, what is refused, and for what reason. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/net/netpolicy.h"

static struct netaddr addr(const char *s)
{
	struct netaddr a;

	cr_assert_eq(netaddr_parse(s, &a), 0, "%s", s);
	return a;
}

Test(netaddr, what_is_public_and_what_is_not)
{
	static const char *const public[] = {
		"1.2.3.4", "8.8.8.8", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.255.255.255", "128.0.0.1", "169.253.1.1",
		"172.15.0.1", "172.32.0.1", "192.167.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1", "2001:4860:4860::8888",
		"64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8",
	};
	static const struct { const char *text, *what; } special[] = {
		{ "0.0.0.0", "unspecified" }, { "0.1.2.3", "unspecified" }, { "10.0.0.1", "private" }, { "10.255.255.255", "private" },
		{ "100.64.0.1", "carrier-grade NAT" }, { "100.127.255.255", "carrier-grade NAT" }, { "127.0.0.1", "loopback" },
		{ "127.255.0.1", "loopback" }, { "169.254.169.254", "link-local" }, { "172.16.0.1", "private" },
		{ "172.31.255.255", "private" }, { "192.168.1.1", "private" }, { "192.0.0.1", "protocol assignment" },
		{ "192.0.2.1", "documentation" }, { "198.18.0.1", "benchmark" }, { "198.19.255.255", "benchmark" },
		{ "198.51.100.1", "documentation" }, { "203.0.113.1", "documentation" }, { "224.0.0.1", "multicast" },
		{ "239.1.1.1", "multicast" }, { "240.0.0.1", "reserved" }, { "255.255.255.255", "reserved" }, { "::", "unspecified" },
		{ "::1", "loopback" }, { "fe80::1", "link-local" }, { "febf::1", "link-local" }, { "fc00::1", "private" },
		{ "fd00:ec2::254", "private" }, { "fec0::1", "site-local" }, { "ff02::1", "multicast" }, { "2001:db8::1", "documentation" },
		{ "2001::1", "protocol assignment" }, { "3fff::1", "documentation" }, { "4000::1", "reserved" }, { "5f00::1", "reserved" },
		{ "100::1", "reserved" }, { "64:ff9b:1::1", "reserved" }, { "::ffff:10.0.0.1", "private" }, { "::10.0.0.1", "private" },
		{ "::ffff:0:169.254.169.254", "link-local" }, { "64:ff9b::a9fe:a9fe", "link-local" }, { "2002:7f00:1::", "loopback" },
		{ "2002:c0a8:101::1", "private" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(public); i++) {
		struct netaddr a = addr(public[i]);

		cr_expect_null(netaddr_special(&a), "%s is public, not %s", public[i], netaddr_special(&a));
	}
	for (i = 0; i < ARRAY_LEN(special); i++) {
		struct netaddr a = addr(special[i].text);
		const char *what = netaddr_special(&a);

		cr_expect(what && !strcmp(what, special[i].what), "%s is %s, not %s", special[i].text, special[i].what,
			  what ? what : "public");
	}
}

Test(netaddr, ranges_hold_what_they_say)
{
	static const char *const bad[] = { "", "10.0.0.0/33", "10.0.0.1/8", "fd00::/129", "10.0.0.0/-1", "10.0.0.0/", "/8", "10/8", "x/8",
					   "10.0.0.0/08x", "fd00::1/64", "10.0.0.0/8/8" };
	struct netcidr c;
	struct netaddr a, n;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_eq(netcidr_parse(bad[i], &c, &e), -1, "'%s' is not a range", bad[i]);
	cr_assert_eq(netcidr_parse("10.96.0.0/11", &c, &e), 0);
	a = addr("10.127.255.255");
	cr_expect(netcidr_holds(&c, &a));
	a = addr("10.128.0.0");
	cr_expect_not(netcidr_holds(&c, &a));
	a = addr("::ffff:10.100.0.1");
	cr_expect(netcidr_holds(&c, &a), "mapped IPv4 is IPv4");
	cr_assert_eq(netcidr_parse("0.0.0.0/0", &c, &e), 0);
	cr_expect(netcidr_holds(&c, &a));
	a = addr("2606::1");
	cr_expect_not(netcidr_holds(&c, &a));
	cr_assert_eq(netcidr_parse("1.2.3.4", &c, &e), 0);
	cr_expect_eq(c.bits, 32);
	cr_assert_eq(netcidr_parse("10.203.0.0/16", &c, &e), 0);
	cr_assert_eq(netcidr_nth(&c, 258, &n), 0);
	a = addr("10.203.1.2");
	cr_expect(netaddr_equal(&a, &n));
	cr_expect_eq(netcidr_nth(&c, 65536, &n), -1, "outside of the range");
	cr_assert_eq(netcidr_parse("fd62::/64", &c, &e), 0);
	cr_assert_eq(netcidr_nth(&c, 0x10002, &n), 0);
	a = addr("fd62::1:2");
	cr_expect(netaddr_equal(&a, &n));
}

static struct netpolicy policy(const char *text)
{
	struct netpolicy p;
	struct err e = { 0 };
	autojson json_t *j = json_parse(text, strlen(text), 65536, "test", &e);

	cr_assert(j && netpolicy_load(&p, j, &e) == 0, "%s", e.msg);
	return p;
}

/* "allow RULE", "deny RULE", "no rule", "bad" */
static const char *decide(const struct netpolicy *p, const char *host, unsigned port, char out[400])
{
	const struct nethost *denied, *by;
	struct nettarget t;
	struct err e;

	if (nettarget_parse(host, port, &t, &e) < 0)
		return "bad";
	by = netpolicy_host(p, &t, &denied);
	if (!by && !denied)
		return "no rule";
	snprintf(out, 400, "%s %s", by ? "allow" : "deny", by ? by->text : denied->text);
	return out;
}

Test(netpolicy, names_and_ports)
{
	struct netpolicy p = policy("{\"allow_host\":[\"Example.com\",\"*.sub.org:443\",\"any.port:*\",\"some.ports:8000-8100\",\"1.2.3.4:22\","
				    "\"[2606::1]:22\",\"*.net\"],\"deny_host\":[\"bad.net\",\"half.net:443\"]}");
	static const struct { const char *host; unsigned port; const char *want; } rows[] = {
		{ "example.com", 80, "allow Example.com" }, { "EXAMPLE.COM.", 443, "allow Example.com" }, { "example.com", 8080, "no rule" },
		{ "www.example.com", 80, "no rule" }, { "example.com.evil.org", 80, "no rule" }, { "notexample.com", 80, "no rule" },
		{ "sub.org", 443, "no rule" }, { "a.sub.org", 443, "allow *.sub.org:443" }, { "a.b.sub.org", 443, "allow *.sub.org:443" },
		{ "a.sub.org", 80, "no rule" }, { "xsub.org", 443, "no rule" }, { ".sub.org", 443, "bad" }, { "any.port", 1, "allow any.port:*" },
		{ "any.port", 65535, "allow any.port:*" }, { "some.ports", 8100, "allow some.ports:8000-8100" }, { "some.ports", 8101, "no rule" },
		{ "1.2.3.4", 22, "allow 1.2.3.4:22" }, { "::ffff:1.2.3.4", 22, "allow 1.2.3.4:22" }, { "1.2.3.4", 80, "no rule" },
		{ "[2606::1]", 22, "allow [2606::1]:22" }, { "2606:0::1", 22, "allow [2606::1]:22" }, { "bad.net", 80, "deny bad.net" },
		{ "bad.net", 9, "deny bad.net" }, { "half.net", 443, "deny half.net:443" }, { "half.net", 80, "allow *.net" },
		{ "a.bad.net", 80, "allow *.net" }, { "", 80, "bad" }, { ".", 80, "bad" }, { "a..b", 80, "bad" }, { "a b", 80, "bad" },
		{ "a/b", 80, "bad" }, { "example.com", 0, "bad" }, { "example.com", 65536, "bad" }, { "127.1", 80, "bad" },
		{ "2130706433", 80, "bad" }, { "0x7f000001", 80, "bad" }, { "0x7f.1", 80, "bad" }, { "1.2.3.4.", 80, "bad" },
		{ "001.2.3.4", 80, "bad" }, { "[1.2.3.4]", 80, "bad" }, { "[::1", 80, "bad" }, { "fe80::1%eth0", 80, "bad" },
		{ "b\xc3\xbc.net", 80, "bad" }, { "xn--b-eha.net", 80, "allow *.net" },
	};
	char out[400];
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect_str_eq(decide(&p, rows[i].host, rows[i].port, out), rows[i].want, "%s:%u should be: %s", rows[i].host,
				 rows[i].port, rows[i].want);
	netpolicy_release(&p);
}

Test(netpolicy, addresses_need_to_be_public_or_named)
{
	struct netpolicy p = policy("{\"allow_host\":[\"*:*\",\"10.1.1.1:80\"],\"allow_net\":[\"192.168.7.0/24\"],\"deny_net\":[\"8.8.0.0/16\","
				    "\"192.168.7.9\"]}");
	const struct nethost *any = &p.allow[0], *exact = &p.allow[1];
	static const struct { const char *addr, *any, *exact; } rows[] = {
		{ "1.1.1.1", NULL, NULL }, { "10.1.1.1", "private", NULL }, { "10.1.1.2", "private", "private" }, { "192.168.7.1", NULL, NULL },
		{ "192.168.8.1", "private", "private" }, { "192.168.7.9", "denied", "denied" }, { "8.8.8.8", "denied", "denied" },
		{ "169.254.169.254", "link-local", "link-local" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		struct netaddr a = addr(rows[i].addr);
		const char *x = netpolicy_address(&p, any, &a), *y = netpolicy_address(&p, exact, &a);

		cr_expect(rows[i].any ? x && !strcmp(x, rows[i].any) : !x, "%s by *:*: %s", rows[i].addr, x ? x : "allowed");
		cr_expect(rows[i].exact ? y && !strcmp(y, rows[i].exact) : !y, "%s by its rule: %s", rows[i].addr, y ? y : "allowed");
	}
	netpolicy_release(&p);
}

Test(netpolicy, malformed_rules_are_refused)
{
	static const char *const hosts[] = { "", ":80", "x:", "x:0", "x:65536", "x:80-70", "x:a", "x:80:80", "http://x", "x/y", "*x.org", "*.",
					     "*.*.org", "x y", "[::1", "[x]:80", "127.1", "*.1", "x:1-99999" };
	static const char *const ports[] = { "", "0", "80:", ":80", "::80", "80:0", "x:80:80", "80:80/sctp",
					      "1.2.3.4:80", "80:80:80:80", "0:1", "80/", "x::80",
					      "[::1]:80", "[:80:80", "65536", "0.0.0.0::", "90-80:80", "0-9:80", "80:80-90", "80-65536:80" };
	struct nethost h;
	struct netpublish b;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(hosts); i++)
		cr_expect_eq(nethost_parse(hosts[i], &h, &e), -1, "'%s' is no rule", hosts[i]);
	for (i = 0; i < ARRAY_LEN(ports); i++)
		cr_expect_eq(netpublish_parse(ports[i], &b, &e), -1, "'%s' is not a port to publish", ports[i]);
	cr_assert_eq(netpublish_parse("[2606::1]:8080:80/udp", &b, &e), 0, "%s", e.msg);
	cr_expect(b.udp && b.host_port == 8080 && b.port == 80 && b.addr.family == 6);
	cr_assert_eq(netpublish_parse("1.2.3.4:8080:80/tcp", &b, &e), 0, "%s", e.msg);
	cr_expect(!b.udp && b.addr.family == 4 && !b.any_port);
	cr_assert_eq(netpublish_parse("80", &b, &e), 0, "%s", e.msg);
	cr_expect(b.any_port && !b.host_port && b.port == 80 && !b.addr.family && !b.udp);
	cr_assert_eq(netpublish_parse("[::]::53/udp", &b, &e), 0, "%s", e.msg);
	cr_expect(b.any_port && b.port == 53 && b.addr.family == 6 && b.udp);
	cr_assert_eq(netpublish_parse("1.2.3.4:8080-8090:80", &b, &e), 0, "%s", e.msg);
	cr_expect(b.any_port && !b.host_port && b.first == 8080 && b.last == 8090 && b.port == 80);
}

Test(netpolicy, a_member_of_a_network_is_narrower_and_never_wider)
{
	struct netpolicy p = policy(
		"{\"allow_host\":[\"a.test\",\"c.test\",\"10.1.1.1\"],\"deny_host\":[\"d.test\"],\"allow_net\":[\"10.0.0.0/8\"],"
		"\"deny_net\":[\"9.9.9.0/24\"],\"group\":{\"network\":\"n\",\"allow_host\":[\"a.test\",\"b.test\",\"d.test\",\"*.e.test\"],"
		"\"allow_net\":[\"192.168.1.0/24\"]}}");
	struct netpolicy q = policy("{\"group\":{\"allow_host\":[\"a.test\"],\"deny_host\":[\"x.a.test\"]}}");
	struct nettarget a = { .name = "a.test", .port = 80 };
	const struct nethost *denied, *by = netpolicy_host(&p, &a, &denied);
	struct netaddr at;
	char out[400];

	cr_assert(by);
	cr_expect_str_eq(decide(&p, "a.test", 80, out), "allow a.test");
	cr_expect_str_eq(decide(&p, "b.test", 80, out), "no rule", "the member names others");
	cr_expect_str_eq(decide(&p, "c.test", 80, out), "no rule", "the network does not allow it");
	cr_expect_str_eq(decide(&p, "d.test", 80, out), "deny d.test");
	cr_expect_str_eq(decide(&p, "10.1.1.1", 80, out), "no rule");
	cr_expect_str_eq(decide(&q, "a.test", 80, out), "allow a.test", "a member that names nobody has the network's");
	cr_expect_str_eq(decide(&q, "b.test", 80, out), "no rule");
	cr_assert_eq(netaddr_parse("10.1.1.1", &at), 0);
	cr_expect(netpolicy_address(&p, by, &at), "a range that the member allows itself");
	cr_assert_eq(netaddr_parse("192.168.1.5", &at), 0);
	cr_expect_null(netpolicy_address(&p, by, &at), "a range that the network allows");
	cr_assert_eq(netaddr_parse("9.9.9.9", &at), 0);
	cr_expect(netpolicy_address(&p, by, &at), "a range that the member denies itself");
	netpolicy_release(&p);
	netpolicy_release(&q);
}

Test(netaddr, hardware_addresses_are_six_bytes_in_hexadecimal)
{
	static const char *const wrong[] = { "", "02:42", "02:42:ac:11:00", "02:42:ac:11:00:0g", "02:42:ac:11:00:0a:", "02-42-ac-11-00-0a",
					     "2:42:ac:11:00:0a0", "024:2:ac:11:00:0a", " 2:42:ac:11:00:0a", "+2:42:ac:11:00:0a" };
	char text[NETADDR_MAC_TEXT];
	uint8_t mac[6];
	size_t i;

	cr_assert_eq(netaddr_mac("02:42:AC:11:00:0a", mac), 0);
	cr_expect_str_eq(netaddr_mac_text(mac, text), "02:42:ac:11:00:0a");
	cr_expect(!netaddr_mac_is_own(mac));
	cr_assert_eq(netaddr_mac("02:62:0a:00:00:01", mac), 0);
	cr_expect(netaddr_mac_is_own(mac));
	for (i = 0; i < ARRAY_LEN(wrong); i++)
		cr_expect_eq(netaddr_mac(wrong[i], mac), -1, "%s", wrong[i]);
}
