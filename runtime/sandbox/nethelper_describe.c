/* SPDX-License-Identifier: Apache-2.0 */
/* What berth-net counts, and whether it still runs. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "runtime/net/netcount.h"
#include "runtime/sandbox/nethelper.h"

int nethelper_serves(const struct nethelper *h, const char *what)
{
	return json_is_true(json_object_get(h->told, what));
}

static int is_zombie(pid_t pid)
{
	siginfo_t si = { 0 };

	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid == pid;
}

static int lives(const struct helper *h)
{
	return h->pid > 0 && kill(h->pid, 0) == 0 && !is_zombie(h->pid);
}

int nethelper_lives(const struct nethelper *h)
{
	return lives(&h->proc);
}

int nethelper_count(const struct nethelper *h, const struct spec *s, struct netcounters *ret, struct err *e)
{
	const char *table = json_string_value(json_object_get(h->told, "bridge"));
	struct netcount n;

	if (h->counters) {
		*ret = *h->counters;
		return 1;
	}
	if (!h->bridge || !table)
		return 0;
	if (netcount_read(table, s->id, &n, e) < 0)
		return -1;
	*ret = (struct netcounters){ .denied = n.refused, .bytes_in = n.bytes_in, .bytes_out = n.bytes_out, .over = n.over,
				     .exhausted = (uint64_t)n.exhausted };
	return 1;
}

uint64_t nethelper_used(const struct netcounters *c, const struct spec *s)
{
	return s->net_used_bytes + c->bytes_in + c->bytes_out;
}

static void describe_counts(json_t *j, const struct nethelper *h, const struct netcounters *c)
{
	const struct { const char *key; uint64_t v; int bridge, egress; } rows[] = {
		{ "requests", c->requests, 0, 1 }, { "allowed", c->allowed, 0, 1 }, { "denied", c->denied, 1, 1 },
		{ "failed", c->failed, 0, 1 }, { "over_limit", c->over, 1, 0 }, { "bytes_in", c->bytes_in, 1, 1 },
		{ "bytes_out", c->bytes_out, 1, 1 }, { "open", c->open, 0, 1 }, { "cut", c->cut, 0, 1 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (h->bridge ? rows[i].bridge : rows[i].egress)
			json_object_set_new(j, rows[i].key, json_integer((json_int_t)rows[i].v));
	json_object_set_new(j, "budget_exhausted", json_boolean(c->exhausted != 0));
}

static void describe_server(json_t *j, const struct nethelper *h)
{
	static const char *const kinds[] = { "loopback", "resolver" };
	const char *state;
	size_t i;

	if (h->resolver.pid)
		json_object_set_new(j, "resolver",
				    json_string(lives(&h->resolver) ? "running" : "gone"));
	if (!h->proc.pid)
		return;
	state = nethelper_lives(h) ? "running" : "gone";
	if (h->counters)
		json_object_set_new(j, "proxy", json_string(state));
	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (nethelper_serves(h, kinds[i]))
			json_object_set_new(j, kinds[i], json_string(state));
}

json_t *nethelper_describe(const struct nethelper *h, const struct spec *s)
{
	json_t *j = json_object();
	struct netcounters c;
	struct err e;
	int got;

	if (!j)
		return NULL;
	json_object_set_new(j, "mode", json_string(spec_network_name(
					       s->net_egress && !h->bridge ? NETWORK_EGRESS :
									     s->network)));
	if (h->bridge && h->told)
		json_object_update(j, h->told);
	if (s->network == NETWORK_JOINED) {
		json_object_set_new(j, "container", json_string(s->joined.id));
		json_object_set_new(j, "state", json_string(h->notice_fd < 0 ? "lost" : "joined"));
		json_object_set_new(j, "inside",
				    json_string(spec_network_name(s->joined.mode)));
	}
	got = nethelper_count(h, s, &c, &e);
	if (got > 0)
		describe_counts(j, h, &c);
	else if (got < 0)
		json_object_set_new(j, "error", json_string(e.msg));
	/* a proxy that has died lets nothing through: fail closed, and say so */
	describe_server(j, h);
	return j;
}
