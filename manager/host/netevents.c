/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/netevents.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define PACKETS 32	/* packets read at once, because others must be served too */
#define WINDOW_MS 1000

static int may_tell(struct netevents *n, uint64_t now_ms)
{
	if (now_ms - n->window_ms >= WINDOW_MS) {
		n->window_ms = now_ms;
		n->count = 0;
	}
	return n->count++ < NETEVENTS_BURST;
}

/* Returns only known members, with their types. */
static json_t *known_members(const json_t *j)
{
	static const char *const texts[] = { "protocol", "host", "method", "address", "rule", "reason" };
	json_t *members = json_object();
	const json_t *port = json_object_get(j, "port");
	size_t i;

	for (i = 0; members && i < ARRAY_LEN(texts); i++)
		if (json_is_string(json_object_get(j, texts[i])))
			json_object_set(members, texts[i], json_object_get(j, texts[i]));
	if (json_is_integer(port))
		json_object_set_new(members, "port", json_integer(json_integer_value(port)));
	return members;
}

static void tell_proxy_refusal(struct netevents *n, const char *text, size_t len, netevents_fn *emit, void *ctx)
{
	struct err ignored;
	autojson json_t *j = json_parse(text, len, NETHELPER_NOTICE_MAX, "notice of the proxy", &ignored);
	const char *verdict = json_string_value(json_object_get(j, "verdict"));
	json_t *members;

	if (!verdict || (strcmp(verdict, "deny") && strcmp(verdict, "cut")))
		return;
	members = known_members(j);
	if (members && n->left_out)
		json_object_set_new(members, "left_out", json_integer((json_int_t)n->left_out));
	n->left_out = 0;
	emit(ctx, verdict[0] == 'd' ? "network-denied" : "network-cut", members);
}

int netevents_notices(struct netevents *n, int fd, uint64_t now_ms, netevents_fn *emit, void *ctx)
{
	char packet[NETHELPER_NOTICE_MAX];
	ssize_t got;
	int i;

	for (i = 0; i < PACKETS; i++) {
		got = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (got <= 0)
			return -1;
		if (may_tell(n, now_ms))
			tell_proxy_refusal(n, packet, (size_t)got, emit, ctx);
		else
			n->left_out++;
	}
	return 0;
}

void netevents_counters(struct netevents *n, const struct netcounters *c, int is_bridge, netevents_fn *emit, void *ctx)
{
	if (is_bridge && c->denied > n->denied)
		emit(ctx, "network-denied", json_pack("{s:I}", "packets", (json_int_t)(c->denied - n->denied)));
	if (is_bridge && c->over > n->over)
		emit(ctx, "network-limit", json_pack("{s:I}", "connections", (json_int_t)(c->over - n->over)));
	if (c->exhausted && !n->exhausted)
		emit(ctx, "network-budget", json_pack("{s:I,s:I}", "bytes_in", (json_int_t)c->bytes_in, "bytes_out", (json_int_t)c->bytes_out));
	n->denied = c->denied;
	n->over = c->over;
	n->exhausted = c->exhausted != 0;
}
