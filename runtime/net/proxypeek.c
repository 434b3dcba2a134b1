/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S22 of SECURITY.md. */
/*
 * The name within a tunnel. A client with a tunnel to one name may ask its server, in the first
 * bytes of TLS, for another name that the server also has. No byte of the hello is sent before
 * its name was found allowed. A server may ask for a second hello (HelloRetryRequest), which
 * could have another name: until the server has answered, bytes after the first hello wait.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runtime/net/proxyconn.h"
#include "runtime/net/tlshello.h"

static size_t waiting(const struct conn *c)
{
	return c->out.end - c->out.start;
}

/* The last held bytes wait, the others may go. */
static void go_on(struct conn *c, enum peek_state state, size_t held)
{
	c->peek = state;
	c->peek_deadline_ms = 0;
	c->out.held = held;
}

/* HTTP is over in here, so a TLS alert reports it: access_denied. */
static void refuse(struct conn *c, const char *why)
{
	static const char alert[] = { 21, 3, 3, 0, 2, 2, 49 };

	c->proxy->counters->denied++;
	conn_note(c, "deny", why);
	conn_say(c, alert, sizeof(alert));
	conn_ending(c);
}

static void refuse_name(struct conn *c, const char *name, const struct nethost *denied)
{
	char why[900], options[350], remedy[500];

	snprintf(options, sizeof(options), "--allow-host %.255s:%u", name, c->target.port);
	conn_remedy(c, options, remedy, sizeof(remedy));
	if (denied)
		snprintf(why, sizeof(why), "within the tunnel to %s the TLS client asked for %s, which the rule --deny-host %s denies",
			 c->target.name, name, denied->text);
	else
		snprintf(why, sizeof(why), "within the tunnel to %s the TLS client asked for %s port %u, which no rule of this sandbox allows; "
			 "remedy: %s", c->target.name, name, c->target.port, remedy);
	refuse(c, why);
}

/* 1: its name is allowed. */
static int check_name(struct conn *c, const char *name)
{
	const struct nethost *denied = NULL;
	struct err e;

	if (nettarget_parse(name, c->target.port, &c->within, &e) < 0) {
		memset(&c->within, 0, sizeof(c->within));
		refuse(c, "within the tunnel the TLS client asked for what is not a name");
		return 0;
	}
	if (netpolicy_host(&c->proxy->policy, &c->within, &denied))
		return 1;
	refuse_name(c, c->within.name, denied);
	return 0;
}

/* The client's first words, or its second hello. */
static void read_client(struct conn *c)
{
	char name[TLSHELLO_NAME];
	size_t len = 0;
	int again = c->peek == PEEK_AGAIN;
	enum tlshello hello;

	c->out.held = waiting(c);
	if (!c->out.held)
		return;
	hello = tlshello_read((const unsigned char *)c->out.data + c->out.start, waiting(c), again, name, &len);
	switch (hello) {
	case TLSHELLO_MORE:
		if (c->out.eof || c->out.end == PROXY_BUFFER)
			refuse(c, "within the tunnel the TLS client did not finish its first message");
		else if (!c->peek_deadline_ms)
			c->deadline_ms = c->peek_deadline_ms = clock_ms() + PROXY_HEAD_MS;
		return;
	case TLSHELLO_BAD:
		refuse(c, "within the tunnel the TLS client's first message is malformed");
		return;
	case TLSHELLO_NAMED:
		if (!check_name(c, name))
			return;
		break;
	default:
		break;
	}
	if (hello == TLSHELLO_OTHER || again)
		go_on(c, PEEK_DONE, 0);
	else
		go_on(c, PEEK_ANSWER, waiting(c) - len);
}

void proxypeek_begin(struct conn *c)
{
	int tunnel = c->kind == CONN_TUNNEL || c->kind == CONN_SOCKS;

	/* a target that a rule allows by address is allowed under any name */
	c->peek = tunnel && !c->target.addr.family ? PEEK_HELLO : PEEK_DONE;
	if (c->peek == PEEK_HELLO)
		read_client(c);
}

void proxypeek_client(struct conn *c, size_t more)
{
	if (c->peek == PEEK_HELLO || c->peek == PEEK_AGAIN)
		read_client(c);
	else if (c->peek == PEEK_ANSWER)
		c->out.held += more;
}

void proxypeek_server(struct conn *c, const char *p, size_t n)
{
	size_t part = sizeof(c->answer) - c->answer_len;

	if (c->peek != PEEK_ANSWER)
		return;
	if (!n) {	/* it has ended */
		go_on(c, PEEK_DONE, 0);
		return;
	}
	part = n < part ? n : part;
	memcpy(c->answer + c->answer_len, p, part);
	c->answer_len += part;
	/* an answer of TLS begins with a handshake; what begins otherwise (an alert) asks for nothing */
	if (c->answer_len < sizeof(c->answer) && c->answer[0] == 22)
		return;
	if (c->answer[0] == 22 && tlshello_is_retry(c->answer)) {
		go_on(c, PEEK_AGAIN, waiting(c));
		read_client(c);
	} else {
		go_on(c, PEEK_DONE, 0);
	}
}
