/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/host/netevents.h"

struct seen {
	int count;
	char last[40];
	json_t *members;
};

static void see(void *ctx, const char *event, json_t *members)
{
	struct seen *s = ctx;

	s->count++;
	snprintf(s->last, sizeof(s->last), "%s", event);
	json_decref(s->members);
	s->members = members;
}

static void say(int fd, const char *text)
{
	cr_assert_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

static long long number(const struct seen *s, const char *key)
{
	return (long long)json_integer_value(json_object_get(s->members, key));
}

Test(netevents, a_denial_keeps_what_is_known_and_no_more)
{
	struct netevents n = { 0 };
	struct seen s = { 0 };
	int fd[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	say(fd[1], "{\"verdict\":\"deny\",\"host\":\"x.test\",\"port\":80,\"event\":\"rm\",\"id\":\"other\",\"reason\":7}");
	cr_expect_eq(netevents_notices(&n, fd[0], 1000, see, &s), 0);
	cr_expect_eq(s.count, 1);
	cr_expect_str_eq(s.last, "network-denied");
	cr_expect_str_eq(json_string_value(json_object_get(s.members, "host")), "x.test");
	cr_expect_eq(number(&s, "port"), 80);
	cr_expect_eq(json_object_size(s.members), 2, "no event, id or reason of the proxy's choice");
	say(fd[1], "{\"verdict\":\"cut\"}");
	cr_expect_eq(netevents_notices(&n, fd[0], 1000, see, &s), 0);
	cr_expect_str_eq(s.last, "network-cut");
	json_decref(s.members);
	close(fd[0]);
	close(fd[1]);
}

Test(netevents, what_is_no_notice_is_no_event)
{
	static const char *const texts[] = { "x", "{}", "[]", "{\"verdict\":\"allow\"}", "{\"verdict\":1}", "{\"verdict\":\"deny\"", "\xff\xfe", "null" };
	struct netevents n = { 0 };
	struct seen s = { 0 };
	int fd[2];
	size_t i;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	for (i = 0; i < ARRAY_LEN(texts); i++)
		say(fd[1], texts[i]);
	cr_expect_eq(netevents_notices(&n, fd[0], 1000, see, &s), 0);
	cr_expect_eq(s.count, 0);
	close(fd[1]);
	cr_expect_eq(netevents_notices(&n, fd[0], 1000, see, &s), -1, "the proxy is gone");
	close(fd[0]);
}

Test(netevents, a_flood_is_a_few_events_and_a_number)
{
	struct netevents n = { 0 };
	struct seen s = { 0 };
	int fd[2], i;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	for (i = 0; i < 100; i++) {
		say(fd[1], "{\"verdict\":\"deny\"}");
		cr_expect_eq(netevents_notices(&n, fd[0], 5000, see, &s), 0);
	}
	cr_expect_eq(s.count, NETEVENTS_BURST);
	say(fd[1], "{\"verdict\":\"deny\"}");
	cr_expect_eq(netevents_notices(&n, fd[0], 6000, see, &s), 0);
	cr_expect_eq(number(&s, "left_out"), 100 - NETEVENTS_BURST);
	say(fd[1], "{\"verdict\":\"deny\"}");
	cr_expect_eq(netevents_notices(&n, fd[0], 6000, see, &s), 0);
	cr_expect_null(json_object_get(s.members, "left_out"), "told once");
	json_decref(s.members);
	close(fd[0]);
	close(fd[1]);
}

Test(netevents, counters_of_a_bridge_are_told_when_they_grow)
{
	struct netevents n = { 0 };
	struct netcounters c = { 0 };
	struct seen s = { 0 };

	netevents_counters(&n, &c, 1, see, &s);
	cr_expect_eq(s.count, 0);
	c.denied = 5;
	netevents_counters(&n, &c, 1, see, &s);
	cr_expect_eq(number(&s, "packets"), 5);
	c.denied = 7;
	netevents_counters(&n, &c, 1, see, &s);
	cr_expect_eq(number(&s, "packets"), 2);
	netevents_counters(&n, &c, 1, see, &s);
	cr_expect_eq(s.count, 2);
	c.over = 1;
	netevents_counters(&n, &c, 1, see, &s);
	cr_expect_str_eq(s.last, "network-limit");
	c.exhausted = 1;
	netevents_counters(&n, &c, 1, see, &s);
	netevents_counters(&n, &c, 1, see, &s);
	cr_expect_str_eq(s.last, "network-budget");
	cr_expect_eq(s.count, 4, "once");
	c.exhausted = 0;
	netevents_counters(&n, &c, 1, see, &s);
	c.exhausted = 1;
	c.denied = 100;
	netevents_counters(&n, &c, 0, see, &s);
	cr_expect_eq(s.count, 5, "again after a change; the proxy tells its denials itself");
	json_decref(s.members);
}
