/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>

#include "base/mem.h"
#include "rootfs/registry/origin.h"

Test(origin, urls_become_scheme_host_and_port)
{
	static const struct { const char *url; int tls; const char *host; unsigned int port; const char *path, *text; } rows[] = {
		{ "https://a.example", 1, "a.example", 443, "", "https://a.example" },
		{ "HTTPS://A.Example:443/v2/?x=1", 1, "a.example", 443, "/v2/?x=1", "https://a.example" },
		{ "http://a:80", 0, "a", 80, "", "http://a" },
		{ "http://a:5000?q", 0, "a", 5000, "?q", "http://a:5000" },
		{ "https://127.0.0.1:65535/", 1, "127.0.0.1", 65535, "/", "https://127.0.0.1:65535" },
		{ "http://[::1]:5000/x", 0, "[::1]", 5000, "/x", "http://[::1]:5000" },
		{ "http://a/b@c", 0, "a", 80, "/b@c", "http://a" },
		{ "https://a_b-c.d9/", 1, "a_b-c.d9", 443, "/", "https://a_b-c.d9" },
	};
	char text[ORIGIN_TEXT_MAX];
	const char *path;
	struct origin o;
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(origin_parse(rows[i].url, "URL", &o, &path, &e), 0, "%s: %s", rows[i].url, e.msg);
		origin_format(&o, text);
		cr_expect(o.tls == rows[i].tls && o.port == rows[i].port, "%s", rows[i].url);
		cr_expect_str_eq(o.host, rows[i].host);
		cr_expect_str_eq(path, rows[i].path);
		cr_expect_str_eq(text, rows[i].text);
	}
}

Test(origin, what_two_readers_could_read_in_two_ways_is_refused)
{
	static const char *const rows[] = {
		"", "a", "//a", "ftp://a/", "file:///etc/passwd", "http:/a", "http:a", "https://", "http:///x", "http://?x",
		"http://u@a/", "http://u:p@a/", "http://a@b@c/", "http://a:/", "http://a:0/", "http://a:65536/", "http://a:0x50/",
		"http://a:-1/", "http://a: 80/", "http://a:80:80/", "http://a b/", "http://a\tb/", "http://a\\b/", "http://a\nb/",
		"http://a/\x7f", "http://a/\xc3\xa4", "http://\xc3\xa4/", "http://%61/", "http://a#b", "http://a/#b",
		"http://.a/", "http://a./", "http://a..b/", "http://-a/", "http://a-/", "http://1/", "http://127.1/", "http://0x7f.1/",
		"http://0x7f000001/", "http://2130706433/", "http://0177.0.0.1/", "http://1.2.3.4.5/", "http://256.1.1.1/",
		"http://127.0.0.01/", "http://[::1/", "http://[]/", "http://[::1]x/", "http://[1.2.3.4]/", "http://[fe80::1%25eth0]/",
		"http://a\"/", "http://a|b/", "http://[::g]/",
	};
	struct origin o;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect_eq(origin_parse(rows[i], "URL", &o, NULL, NULL), -1, "%s", rows[i]);
}

Test(origin, a_location_is_seen_from_where_it_was_said)
{
	static const struct { const char *base, *location, *want; } rows[] = {
		{ "https://a/v2/x?y", "https://b:1/z", "https://b:1/z" },
		{ "https://a/v2/x?y", "//b/z", "https://b/z" },
		{ "http://a:5000/v2/x?y", "//b/z", "http://b/z" },
		{ "https://a/v2/x?y", "/z?q#f", "https://a/z?q" },
		{ "https://a/v2/x?y/w", "z", "https://a/v2/z" },
		{ "https://a/v2/", "z", "https://a/v2/z" },
		{ "https://a", "z", "https://a/z" },
		{ "https://a:444/v2/x?y", "?n=1", "https://a:444/v2/x?n=1" },
		{ "https://a/x", "z/file:y", "https://a/z/file:y" },
		{ "https://a/x", "", NULL }, { "https://a/x", "#f", NULL }, { "https://a/x", "file:///etc/passwd", NULL },
		{ "https://a/x", "javascript:alert(1)", NULL }, { "https://a/x", "https:b", NULL },
		{ "https://a/x", "//u@b/", NULL }, { "https://a/x", "///b", NULL }, { "https://a/x", "/\\b", NULL },
		{ "https://a/x", "http://b c/", NULL },
	};
	static char big[ORIGIN_URL_MAX + 10], to[ORIGIN_URL_MAX];
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		int r = origin_resolve(rows[i].base, rows[i].location, to, &e);

		cr_expect_eq(r, rows[i].want ? 0 : -1, "%s -> %s", rows[i].base, rows[i].location);
		if (!r && rows[i].want)
			cr_expect_str_eq(to, rows[i].want);
	}
	memset(big, 'x', sizeof(big) - 1);
	big[0] = '/';
	cr_expect_eq(origin_resolve("https://a/x", big, to, &e), -1);
}

Test(origin, hosts_of_references_and_the_configuration)
{
	struct origin o;
	struct err e;

	cr_assert_eq(origin_from_host("Reg.Example:5000", 1, &o, &e), 0);
	cr_expect(o.tls && o.port == 5000 && !strcmp(o.host, "reg.example"));
	cr_assert_eq(origin_from_host("localhost", 0, &o, &e), 0);
	cr_expect(!o.tls && o.port == 80);
	cr_expect_eq(origin_from_host("a/b", 0, &o, &e), -1);
	cr_expect_eq(origin_from_host("http://a", 0, &o, &e), -1);
	cr_expect_eq(origin_from_host("u@a", 0, &o, &e), -1);
}

Test(origin, addresses_have_classes)
{
	static const struct { const char *text; enum address_class want; } rows[] = {
		{ "8.8.8.8", ADDRESS_PUBLIC }, { "10.0.0.1", ADDRESS_PRIVATE }, { "172.16.0.1", ADDRESS_PRIVATE },
		{ "172.32.0.1", ADDRESS_PUBLIC }, { "192.168.1.1", ADDRESS_PRIVATE }, { "100.64.0.1", ADDRESS_PRIVATE },
		{ "100.100.100.200", ADDRESS_PRIVATE }, { "100.128.0.1", ADDRESS_PUBLIC }, { "127.0.0.1", ADDRESS_LOOPBACK },
		{ "127.255.0.3", ADDRESS_LOOPBACK }, { "169.254.169.254", ADDRESS_NEVER }, { "0.0.0.0", ADDRESS_NEVER },
		{ "0.1.2.3", ADDRESS_NEVER }, { "224.0.0.1", ADDRESS_NEVER }, { "255.255.255.255", ADDRESS_NEVER },
		{ "::", ADDRESS_NEVER }, { "::1", ADDRESS_LOOPBACK }, { "::2", ADDRESS_NEVER }, { "fe80::1", ADDRESS_NEVER },
		{ "febf::1", ADDRESS_NEVER }, { "fec0::1", ADDRESS_PRIVATE }, { "fd00:ec2::254", ADDRESS_PRIVATE },
		{ "ff02::1", ADDRESS_NEVER }, { "2001:db8::1", ADDRESS_PUBLIC }, { "::ffff:169.254.169.254", ADDRESS_NEVER },
		{ "::ffff:127.0.0.1", ADDRESS_LOOPBACK }, { "::ffff:8.8.8.8", ADDRESS_PUBLIC }, { "::127.0.0.1", ADDRESS_NEVER },
		{ "64:ff9b::a9fe:a9fe", ADDRESS_NEVER }, { "64:ff9b::808:808", ADDRESS_PUBLIC }, { "2002:a9fe:a9fe::", ADDRESS_NEVER },
		{ "2002:7f00:1::", ADDRESS_LOOPBACK },
	};
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };
	struct sockaddr other = { .sa_family = AF_UNIX };
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		enum address_class c;

		if (strchr(rows[i].text, ':')) {
			cr_assert_eq(inet_pton(AF_INET6, rows[i].text, &six.sin6_addr), 1);
			c = address_classify((struct sockaddr *)&six);
		} else {
			cr_assert_eq(inet_pton(AF_INET, rows[i].text, &four.sin_addr), 1);
			c = address_classify((struct sockaddr *)&four);
		}
		cr_expect_eq(c, rows[i].want, "%s is %s", rows[i].text, address_class_name(c));
	}
	cr_expect_eq(address_classify(&other), ADDRESS_NEVER);
}
